"""Audits side by side, with planted numbers."""

import contextlib
import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from tests.soak.damage import with_damaged_node
from typer.testing import CliRunner

from hardpan import auditing, files, stats
from hardpan.auditing import Audit, comparison
from hardpan.bayes.floors.entries import Entry
from hardpan.cli import app
from hardpan.errors import InputError
from hardpan.estimates import Estimate


def known(value, half=0.01, n=1000):
    return Estimate(value, half / 2, value - half, value + half, method="planted", n=n)


def planted(name, floor, best, bits=2.0):
    measures = {"flow_floor": known(floor), "best_error": known(best), "bits": known(bits)}
    return Audit(name, auditing.AuditConfig(), (), None, measures)


EASY, MIDDLE, HARD = planted("easy", 0.01, 0.03), planted("middle", 0.05, 0.02), planted("hard", 0.2, 0.4, bits=6.0)


def test_two_audits_give_the_differences():
    found = comparison.compare([EASY, HARD])
    assert found.differences["best_error"].value == pytest.approx(0.37)
    # Equal half-widths h give h√2 for the difference, and three measures share the level.
    wider = norm.ppf(1 - 0.025 / 3) / norm.ppf(0.975)
    assert found.differences["best_error"].high - found.differences["best_error"].value == pytest.approx(
        0.01 * 2**0.5 * wider
    )
    assert [item.names for item in found.rankings] == [("hard", "easy")] * 2
    assert not found.agreement


@pytest.mark.parametrize("end", ["value", "low", "high"])
def test_a_measure_without_a_number_is_not_compared(end):
    unknown = dataclasses.replace(EASY.measures["best_error"], **{end: None})
    altered = dataclasses.replace(EASY, measures={**EASY.measures, "best_error": unknown})
    found = comparison.compare([altered, HARD])
    assert set(found.differences) == {"flow_floor", "bits"}
    assert found._repr_html_()


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.001, 0.2), st.floats(0.001, 0.2))
def test_a_difference_turned_round_is_its_mirror(a, b, half_a, half_b):
    there = comparison.difference(known(a, half_a), known(b, half_b))
    back = comparison.difference(known(b, half_b), known(a, half_a))
    assert (there.value, there.low, there.high) == pytest.approx((-back.value, -back.high, -back.low))


def test_the_interval_of_a_difference_covers_as_stated():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        counts = rng.binomial(400, [0.1, 0.16])
        sides = [audit_error(int(count), 400) for count in counts]
        covered += comparison.difference(*sides).low <= 0.06 <= comparison.difference(*sides).high
    assert covered / 400 >= 0.93


def audit_error(wrong, n):
    low, high = stats.clopper_pearson(wrong, n)
    return Estimate(wrong / n, 0.0, float(low), float(high), n=n)


def test_several_are_ranked():
    found = comparison.compare([EASY, MIDDLE, HARD])
    assert found.rankings[0].names == ("hard", "easy", "middle")
    assert found.rankings[1].names == ("hard", "middle", "easy")
    assert found.rankings[0].not_separated == (("easy", "middle"),)
    assert "not separated: easy and middle" in found.headline
    assert found.agreement["best_error, flow_floor"].value == pytest.approx(1 / 3)
    assert found.differences == {}


def test_one_dataset_twice_keeps_both():
    assert comparison.compare([EASY, EASY]).names == ("easy", "easy (2)")


def test_what_cannot_be_compared_is_said(tmp_path):
    with pytest.raises(InputError, match="audits"):
        comparison.compare([EASY])
    with pytest.raises(InputError, match=r"report\.json"):
        auditing.read_audit(tmp_path)
    (tmp_path / "report.json").write_text("{}")
    with pytest.raises(InputError, match=r"report\.json"):
        auditing.read_audit(tmp_path)
    (tmp_path / "report.json").write_text(files.json_text(files.to_json(known(0.5))))
    with pytest.raises(InputError, match="Estimate"):
        auditing.read_audit(tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_an_altered_report_is_refused_or_compared(tmp_path, seed):
    text = files.json_text(HARD)
    path = tmp_path / "report.json"
    for round_number in range(100):
        path.write_text(with_damaged_node(text, np.random.default_rng([seed, round_number])))
        with contextlib.suppress(InputError):
            found = comparison.compare([EASY, auditing.read_audit(tmp_path)])
            files.json_text(found)
            assert found.headline


def test_the_command_refuses_a_report_whose_number_is_text(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text(files.json_text(HARD))
    altered = json.loads((tmp_path / "b" / "report.json").read_text())
    altered["measures"]["best_error"]["value"] = "0.4"
    (tmp_path / "b" / "report.json").write_text(json.dumps(altered))
    result = CliRunner().invoke(app, ["compare", str(tmp_path / "a"), str(tmp_path / "b")])
    assert isinstance(result.exception, InputError)
    assert "value" in str(result.exception)


def test_the_command_writes_a_page_and_json(tmp_path):
    for item in (EASY, MIDDLE, HARD):
        item.save(tmp_path / item.dataset)
    folders = [str(tmp_path / name) for name in ("easy", "middle", "hard")]
    done = CliRunner().invoke(app, ["compare", *folders, "--out", str(tmp_path / "compared"), "--json"])
    assert done.exit_code == 0, done.output
    read = files.from_json(json.loads(done.stdout))
    assert read.rankings[0].names == ("hard", "easy", "middle")
    assert "From hard to easy" in (tmp_path / "compared" / "index.html").read_text()


def with_status(item, status):
    entry = Entry("Exact error of flow", "estimate", item.measures["flow_floor"], "flow", "flow", status, ("net",))
    return dataclasses.replace(item, verdicts={"flow_floor": entry})


def test_refuted_numbers_are_marked_and_do_not_make_the_headline():
    audits = [with_status(EASY, "refuted"), with_status(MIDDLE, "not refuted"), with_status(HARD, "contradicted")]
    found = comparison.compare(audits)
    assert "best model" in found.headline
    section = found.sections()[0]
    assert [chart.title for chart in section.charts] == ["Error of the best model"]
    rejected, reasons, chart = section.folded
    assert len(reasons.rows) == 2
    assert {row["name"]: row["role"] for row in chart.rows} == {
        "easy": "refuted",
        "middle": "ceiling",
        "hard": "ceiling",
    }
    assert "Bayes error of the flow" not in [row[0] for row in section.tables[0].rows]
    cells = {row[0]: row[1] for row in rejected.rows}
    assert "refuted" in cells["Bayes error of the flow"]


@pytest.mark.parametrize("second", [0.012, 0.02, 0.025, 0.03, 0.04, 0.06])
def test_the_headline_of_two_says_what_their_difference_says(second):
    found = comparison.compare([EASY, planted("other", second, 0.031)])
    change = found.differences["best_error"]
    (order,) = [item for item in found.rankings if item.measure == "best_error"]
    assert bool(order.not_separated) == (change.low <= 0 <= change.high)


def test_two_that_are_not_separated_are_not_ordered_in_the_headline():
    again = planted("again", 0.012, 0.031)
    assert "not separated" in comparison.compare([EASY, again]).headline
    assert "harder" in comparison.compare([EASY, HARD]).headline
