import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, kendalltau, norm, rankdata

from hardpan import files, testbed
from hardpan.errors import InputError


def table(**more: object) -> testbed.Counts:
    rng = np.random.default_rng(0)
    original = np.sort(rng.integers(600, 960, 24))[::-1]
    new = rng.binomial(500, np.clip(1.2 * original / 1000 - 0.25, 0, 1))
    names = [f"fv_{i}" if i >= 20 else f"net_{i}" for i in range(24)]
    return testbed.counts_table(names, original, 1000, new, 500, **more)  # type: ignore[arg-type]


def test_rows_hold_what_the_paper_shows() -> None:
    counts = table()
    report = testbed.compare(counts, bootstrap=2000)
    assert len(report.rows) == 24
    ranks = [rankdata(-a, method="min") for a in (counts.original_accuracy, counts.new_accuracy)]
    for row in report.rows:
        i = counts.models.index(row.model)
        exact = binomtest(int(counts.new_correct[i]), 500).proportion_ci()
        assert (row.new.low, row.new.high) == pytest.approx((exact.low, exact.high), abs=1e-12)
        assert row.gap.value == pytest.approx(row.original.value - row.new.value)
        assert row.gap.low < row.gap.value < row.gap.high
        assert (row.original_rank, row.new_rank) == (ranks[0][i], ranks[1][i])
        assert row.delta_rank == row.original_rank - row.new_rank
        assert row.new_rank_low <= row.new_rank <= row.new_rank_high
        assert row.residual.value == pytest.approx(row.new.value - float(report.fit.predict(row.original.value)))
    assert [row.original_rank for row in report.rows] == sorted(row.original_rank for row in report.rows)
    assert report.kendall.value == pytest.approx(
        kendalltau(counts.original_accuracy, counts.new_accuracy).statistic
    )
    assert report.other_fit.scale == "probit"


def test_intervals_of_a_row_are_their_formulas() -> None:
    """Newcombe's interval of the gap; the delta method for the distance to the line, by its derivative on paper."""
    counts = table()
    for scale in ("linear", "probit"):
        report = testbed.compare(counts, scale=scale, bootstrap=2000, confidence=0.9)
        a, b = report.fit.offset.value, report.fit.slope.value
        spread = np.cov(report.fit.draws.T)  # of slope and offset
        for row in report.rows:
            i = counts.models.index(row.model)
            p, q = counts.original_accuracy[i], counts.new_accuracy[i]
            errors = np.sqrt([p * (1 - p) / 1000, q * (1 - q) / 500])
            assert (row.original.stderr, row.new.stderr) == pytest.approx(tuple(errors))
            first = binomtest(int(counts.original_correct[i]), 1000).proportion_ci(0.9)
            second = binomtest(int(counts.new_correct[i]), 500).proportion_ci(0.9)
            assert row.gap.stderr == pytest.approx(np.hypot(*errors))
            assert row.gap.low == pytest.approx(p - q - np.hypot(p - first.low, second.high - q))
            assert row.gap.high == pytest.approx(p - q + np.hypot(first.high - p, q - second.low))
            z = p if scale == "linear" else norm.ppf(p)
            on_scale = 1.0 if scale == "linear" else norm.pdf(a + b * z)
            steepness = b * on_scale / (1.0 if scale == "linear" else norm.pdf(z))
            of_the_line = on_scale * np.sqrt(spread[0, 0] * z**2 + 2 * spread[0, 1] * z + spread[1, 1])
            expected = np.sqrt(errors[1] ** 2 + (steepness * errors[0]) ** 2 + of_the_line**2)
            assert row.residual.stderr == pytest.approx(expected, rel=1e-5)
            reach = norm.ppf(0.95) * expected
            assert (row.residual.low, row.residual.high) == pytest.approx(
                (row.residual.value - reach, row.residual.value + reach), rel=1e-4
            )


def test_residuals_of_the_fitted_models_sum_to_zero() -> None:
    report = testbed.compare(table(), bootstrap=500, exclude=("fv_*",))
    inside = [row.residual.value for row in report.rows if row.in_fit]
    assert sum(inside) == pytest.approx(0, abs=1e-12)
    assert report.excluded == ("fv_20", "fv_21", "fv_22", "fv_23")
    assert report.fit.n == 20
    assert len(report.rows) == 24


def test_excluded_models_do_not_move_the_line() -> None:
    counts = table()
    spoiled = testbed.counts_table(
        counts.models, counts.original_correct, 1000, [*counts.new_correct[:20], 0, 0, 0, 0], 500
    )
    lines = [testbed.compare(item, bootstrap=500, exclude=("fv_*",)).fit for item in (counts, spoiled)]
    assert lines[0].slope == lines[1].slope


def test_groups_choose_and_are_left_out_in_turn() -> None:
    counts = table(group=["net"] * 12 + ["wide"] * 8 + ["fv"] * 4)
    report = testbed.compare(counts, bootstrap=1000)
    assert [(item.left_out, item.models) for item in report.without_group] == [("fv", 4), ("net", 12), ("wide", 8)]
    without_fv = testbed.compare(counts, bootstrap=1000, groups=("net", "wide"))
    assert without_fv.fit.slope.value == pytest.approx(report.without_group[0].fit.slope.value)
    assert without_fv.excluded == ("fv_20", "fv_21", "fv_22", "fv_23")


@settings(max_examples=8, deadline=None)
@given(st.permutations(range(24)))
def test_order_of_the_models_changes_nothing(order: list[int]) -> None:
    counts = table()
    ours = testbed.compare(counts, bootstrap=50)
    theirs = testbed.compare(counts.take(order), bootstrap=50)
    for row in ours.rows:
        other = theirs.row(row.model)
        assert (row.original_rank, row.new_rank) == (other.original_rank, other.new_rank)
        assert row.gap == other.gap
        assert row.residual.value == pytest.approx(other.residual.value, abs=1e-10)


def test_ties_share_the_best_place() -> None:
    counts = testbed.counts_table(list("abcd"), [90, 80, 80, 70], 100, [60, 50, 50, 50], 100)
    report = testbed.compare(counts, bootstrap=200)
    assert [row.original_rank for row in report.rows] == [1, 2, 2, 4]
    assert [report.row(name).new_rank for name in "abcd"] == [1, 2, 2, 2]
    assert report.row("d").delta_rank == 2
    assert "share the best" in report.ties


def test_shared_examples_tighten_ranks() -> None:
    outcomes = testbed.simulate(np.linspace(1.0, 2.5, 15), examples=(3000, 1500), sigma=(2.0, 2.0))
    shared, alone = (testbed.compare(item, bootstrap=200) for item in (outcomes, outcomes.counts()))
    width = [sum(r.new_rank_high - r.new_rank_low for r in report.rows) for report in (shared, alone)]
    assert width[0] < width[1]
    assert "share examples" in shared.rank_method
    assert "independent" in alone.rank_method


def test_metrics() -> None:
    counts = table()
    twice = testbed.counts_table(
        counts.models * 2,
        np.concatenate([counts.original_correct, counts.original_correct + 20]),
        1000,
        np.concatenate([counts.new_correct, counts.new_correct]),
        500,
        metric=["top1"] * 24 + ["top5"] * 24,
    )
    assert testbed.compare(twice, bootstrap=100).metric == "top1"
    top5 = testbed.compare(twice, bootstrap=100, metric="top5")
    assert top5.metric == "top5"
    assert top5.mean_gap.value == pytest.approx(testbed.compare(counts, bootstrap=100).mean_gap.value + 0.02)
    with pytest.raises(InputError, match="metric must be one of top1, top5; got 'f1'"):
        testbed.compare(twice, metric="f1")


def test_names_of_metrics_and_single_patterns() -> None:
    counts = table(metric="Top-5")
    report = testbed.compare(counts, bootstrap=100, metric="acc@5", exclude="fv_*")
    assert report.metric == "top5"
    assert len(report.excluded) == 4


def test_columns_rows_and_frames_are_taken() -> None:
    counts = table()
    columns = {
        "model": list(counts.models),
        "original_correct": counts.original_correct,
        "original_total": [1000] * 24,
        "new_correct": counts.new_correct,
        "new_total": [500] * 24,
    }
    from pyarrow import Table

    reports = [testbed.compare(item, bootstrap=100) for item in (counts, columns, Table.from_pydict(columns))]
    assert reports[0].rows == reports[1].rows == reports[2].rows


def test_report_goes_to_json_and_back() -> None:
    report = testbed.compare(table(group=["a", "b"] * 12), bootstrap=100).compact()
    again = files.from_json(files.to_json(report))
    assert again.rows == report.rows
    assert again.config == report.config


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"exclude": ("resnet*",)}, r"exclude pattern 'resnet\*' matches no model; the models are net_0, net_1"),
        ({"exclude": ("net_*", "fv_2[0-1]")}, "a line needs at least 3 models; 2 are left"),
        ({"groups": ("x",)}, "the table has no column 'group'"),
        ({"scales": "probit"}, "compare has no such choice"),
        ({"confidence": 95}, "confidence"),
    ],
)
def test_refusals(choices: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        testbed.compare(table(), **choices)


def test_unknown_rows_and_groups_are_refused() -> None:
    with pytest.raises(InputError, match="groups must be among a, b; got 'c'"):
        testbed.compare(table(group=["a", "b"] * 12), groups=("c",))
    with pytest.raises(InputError, match="model must be one of the 24"):
        testbed.compare(table(), bootstrap=100).row("nobody")
