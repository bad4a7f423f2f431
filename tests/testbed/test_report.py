"""The part of a report that a comparison gives: every chart is drawn, the numbers are the records'."""

import functools
import json

import numpy as np
import pytest
from tests.testbed.helpers import counts_table, simulate_counts

from hardpan import files, testbed
from hardpan.pages import charts, formatting
from hardpan.pages import testbed as report
from hardpan.pages.sections import Chart


@functools.cache  # frozen records: tests that ask for the same share it
def compared(models: int = 12, **choices: object) -> testbed.Comparison:
    outcomes = testbed.simulate(np.linspace(0.5, 3.0, models), examples=(800, 400), seed=1)
    return testbed.compare(*outcomes, bootstrap=500, **choices)


@pytest.mark.parametrize("scale", ["linear", "probit", "logit"])
def test_every_chart_is_drawn_on_both_axes(scale: str) -> None:
    part = report.comparison_section(compared(scale=scale))
    assert [chart.drawing for chart in part.charts] == ["scatter", "deviations", "slope"]
    robustness = part.folded[-1]
    assert isinstance(robustness, Chart)
    assert robustness.drawing == "deviations"
    for chart in (*part.charts, robustness):
        assert charts.spec(chart)["description"] == chart.description
    lines = part.charts[0].options["lines"]
    assert set(lines) == {"linear", "probit"}
    for axes in ("linear", "probit"):
        assert all(row["low"] <= row["y"] + 1e-12 <= row["high"] + 2e-12 for row in lines[axes])
        other = {**part.charts[0].options, "scale": axes}
        charts.spec(Chart("scatter", "t", part.charts[0].rows, "d", other))


def test_it_names_what_was_left_out() -> None:
    result = compared(exclude=("model-0[0-4]",))
    part = report.comparison_section(result, original="test", new="fresh")
    assert any("Left out of the lines: model-00, model-01" in sentence for sentence in part.sentences)
    assert "model-00 (left out of the line)" in [row[1] for row in part.folded[0].rows]
    assert any("fresh" in chart.title for chart in part.charts)
    assert [row["role"] for row in part.charts[0].rows].count("left out") == 5


def test_sentences_give_offsets_in_points_on_the_linear_scale_only() -> None:
    result = compared()
    words = report.comparison_section(result).sentences
    assert f"offset of {formatting.signed(result.fit.offset)}; 95 % intervals" in words[3]
    assert f"offset of {formatting.plain(result.other_fit.offset)}; 95 % intervals" in words[4]
    assert " points (" in words[3]
    assert "points" not in words[4]


def test_many_models_show_the_most_extreme() -> None:
    part = report.comparison_section(compared(120))
    assert len(part.charts[0].rows) == 120
    assert len(part.charts[1].rows) == len(part.charts[2].rows) == 80
    assert "of 120" in part.charts[1].title
    assert len(part.folded[0].rows) == 120


def test_groups_get_a_table_and_a_section_survives_json() -> None:
    counts = simulate_counts(np.linspace(0.5, 3.0, 12))
    right = np.rint(counts.scores * counts.totals).astype(int).T
    grouped = counts_table(counts.models, right[0], 10_000, right[1], 2000, group=["a", "b", "c"] * 4)
    part = report.comparison_section(testbed.compare(grouped, bootstrap=300))
    assert [row[0] for row in part.folded[1].rows] == ["a", "b", "c"]
    again = files.from_json(files.to_json(part))
    assert again.sentences == part.sentences


def test_the_drop_per_year_is_stated_where_dates_are_known() -> None:
    counts = simulate_counts(np.linspace(0.5, 3.0, 12))
    right = np.rint(counts.scores * counts.totals).astype(int).T
    dates = [*np.arange(2010.0, 2021.0), ""]
    dated = counts_table(counts.models, right[0], 10_000, right[1], 2000, date=dates)
    part = report.comparison_section(testbed.compare(dated, bootstrap=300))
    assert any("points per year" in sentence for sentence in part.sentences)


def test_a_report_read_from_a_file_draws_its_lines_without_bands() -> None:
    lines = report.comparison_section(files.from_json(json.loads(compared().to_json()))).charts[0].options["lines"]
    assert all(row["low"] == row["y"] == row["high"] for row in lines["linear"])
    assert len(lines["probit"]) == report.BAND_POINTS


def test_every_result_has_a_view_a_frame_and_json() -> None:
    pair = testbed.simulate(np.linspace(0.5, 3.0, 6), examples=(300, 200), seed=1)
    right = pair[0]
    people = [{"participant": "1", "set": side, "correct": 40, "total": 50} for side in ("original", "new")]
    results = [
        testbed.compare(*pair, bootstrap=100, pairs="neighbours", sigma=1.0),
        testbed.pairs(*pair, resamples=100),
        testbed.decompose(*pair, bootstrap=100),
        testbed.hardest_of(*pair),
        testbed.human_table(people),
        testbed.subset_accuracies.accuracies_without_duplicates(right, np.arange(300) < 30),
        testbed.subset_accuracies.class_balanced_accuracies(right, np.arange(300) % 3),
        testbed.subset_accuracies.accuracy_breakdown(right, np.arange(300) % 3),
    ]
    for result in results:
        assert result.headline.endswith(".")
        assert len({len(values) for values in result.view().columns.values()}) == 1
        assert files.from_json(json.loads(result.to_json())) is not None
        assert "<html" in result.to_html()


def test_provenance_hashes_what_was_read(tmp_path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(
        "model,original_correct,original_total,new_correct,new_total\na,9,10,8,10\nb,8,10,6,10\nc,5,10,3,10\n"
    )
    made = testbed.compare(path, bootstrap=100, resample="models").provenance()
    assert made is not None
    assert len(made.hashes["counts.csv, sha256"]) == 64


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ((840, 880, 920), ("lose 7.0 points", "each between 6.0 and 8.0 points")),
        ((960, 975, 990), ("gain 2.5 points", "each between 1.0 and 4.0 points")),
        ((900, 930, 990), ("lose 1.0 points", "from a gain of 1.0 points to a loss of 2.0 points")),
    ],
)
def test_the_headline_says_which_way_without_signs(new: tuple[int, ...], words: tuple[str, str]) -> None:
    counts = counts_table(("a", "b", "c"), (920, 950, 980), 1000, new, 1000)
    said = testbed.compare(counts, bootstrap=200, resample="models").headline
    verb, span = words
    assert verb in said
    assert span in said
