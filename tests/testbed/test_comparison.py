from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, kendalltau, norm, rankdata
from tests.testbed.helpers import counts_columns, counts_table

from hardpan import Outcomes, files, stats, testbed
from hardpan.errors import InputError
from hardpan.testbed.sets import TwoSets


def table(**more: object) -> TwoSets:
    rng = np.random.default_rng(0)
    original = np.sort(rng.integers(600, 960, 24))[::-1]
    new = rng.binomial(500, np.clip(1.2 * original / 1000 - 0.25, 0, 1))
    names = [f"fv_{i}" if i >= 20 else f"net_{i}" for i in range(24)]
    return counts_table(names, original, 1000, new, 500, **more)  # type: ignore[arg-type]


def counts_of(sets: TwoSets) -> TwoSets:
    return replace(sets, original=replace(sets.original, scores=None), new=replace(sets.new, scores=None))


def test_rows_hold_what_the_paper_shows() -> None:
    counts = table()
    report = testbed.compare(counts, bootstrap=2000)
    assert len(report.rows) == 24
    ranks = [rankdata(-a, method="min") for a in (counts.original.accuracy, counts.new.accuracy)]
    for row in report.rows:
        i = counts.models.index(row.model)
        exact = binomtest(int(counts.new.correct[i]), 500).proportion_ci()
        assert (row.new.low, row.new.high) == pytest.approx((exact.low, exact.high), abs=1e-12)
        assert row.gap.value == pytest.approx(row.original.value - row.new.value)
        assert row.gap.low < row.gap.value < row.gap.high
        assert (row.original_rank, row.new_rank) == (ranks[0][i], ranks[1][i])
        assert row.delta_rank == row.original_rank - row.new_rank
        assert row.new_rank_low <= row.new_rank <= row.new_rank_high
        assert row.residual.value == pytest.approx(row.new.value - float(report.fit.predict(row.original.value)))
    assert [row.original_rank for row in report.rows] == sorted(row.original_rank for row in report.rows)
    assert report.kendall.value == pytest.approx(
        kendalltau(counts.original.accuracy, counts.new.accuracy).statistic
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
            p, q = counts.original.accuracy[i], counts.new.accuracy[i]
            errors = np.sqrt([p * (1 - p) / 1000, q * (1 - q) / 500])
            assert (row.original.stderr, row.new.stderr) == pytest.approx(tuple(errors))
            first = binomtest(int(counts.original.correct[i]), 1000).proportion_ci(0.9)
            second = binomtest(int(counts.new.correct[i]), 500).proportion_ci(0.9)
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
    spoiled = counts_table(
        counts.models, counts.original.correct, 1000, [*counts.new.correct[:20], 0, 0, 0, 0], 500
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


@settings(max_examples=4, deadline=None)
@given(st.permutations(range(24)))
def test_order_of_the_models_changes_nothing(order: list[int]) -> None:
    counts = table()
    ours = testbed.compare(counts, bootstrap=50)
    picked = [counts.models[i] for i in order]
    theirs = testbed.compare(
        counts_table(picked, counts.original.correct[order], 1000, counts.new.correct[order], 500), bootstrap=50
    )
    for row in ours.rows:
        other = theirs.row(row.model)
        assert (row.original_rank, row.new_rank) == (other.original_rank, other.new_rank)
        assert row.gap == other.gap
        assert row.residual.value == pytest.approx(other.residual.value, abs=1e-10)


def test_ties_share_the_best_place() -> None:
    counts = counts_table(list("abcd"), [90, 80, 80, 70], 100, [60, 50, 50, 50], 100)
    report = testbed.compare(counts, bootstrap=200)
    assert [row.original_rank for row in report.rows] == [1, 2, 2, 4]
    assert [report.row(name).new_rank for name in "abcd"] == [1, 2, 2, 2]
    assert report.row("d").delta_rank == 2


def test_shared_examples_tighten_ranks() -> None:
    outcomes = testbed.two_sets(*testbed.simulate(np.linspace(1, 2.5, 15), examples=(3000, 1500), sigma=(2.0, 2.0)))
    shared, alone = (testbed.compare(item, bootstrap=200) for item in (outcomes, counts_of(outcomes)))
    width = [sum(r.new_rank_high - r.new_rank_low for r in report.rows) for report in (shared, alone)]
    assert width[0] < width[1]
    assert "share examples" in shared.rank_method
    assert "independent" in alone.rank_method


def test_metrics() -> None:
    counts = table()
    twice = counts_columns(
        counts.models * 2,
        np.concatenate([counts.original.correct, counts.original.correct + 20]),
        1000,
        np.concatenate([counts.new.correct, counts.new.correct]),
        500,
        metric=["top1"] * 24 + ["Top-5"] * 24,
    )
    assert testbed.compare(twice, bootstrap=100).metric == "top1"
    top5 = testbed.compare(twice, bootstrap=100, metric="acc@5")
    assert top5.mean_gap.value == pytest.approx(testbed.compare(counts, bootstrap=100).mean_gap.value + 0.02)
    with pytest.raises(InputError, match="metric"):
        testbed.compare(twice, metric="f1")


def test_columns_rows_and_frames_are_taken() -> None:
    counts = table()
    columns = counts_columns(counts.models, counts.original.correct, 1000, counts.new.correct, 500)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    from pyarrow import Table

    sources = (counts, columns, rows, Table.from_pydict(columns))
    reports = [testbed.compare(item, bootstrap=100) for item in sources]
    assert all(report.rows == reports[0].rows for report in reports[1:])


def test_report_goes_to_json_and_back() -> None:
    import json

    report = testbed.compare(table(group=["a", "b"] * 12), bootstrap=100)
    again = files.from_json(json.loads(report.to_json()))
    assert again.rows == report.rows
    assert again.config == report.config


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"exclude": ("resnet*",)}, "exclude"),
        ({"exclude": ("net_*", "fv_2[0-1]")}, "exclusions"),
        ({"groups": ("x",)}, "groups"),
        ({"scales": "probit"}, "scales"),
        ({"confidence": 95}, "confidence"),
    ],
)
def test_refusals(choices: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        testbed.compare(table(), **choices)


def test_unknown_rows_and_groups_are_refused() -> None:
    with pytest.raises(InputError, match="groups"):
        testbed.compare(table(group=["a", "b"] * 12), groups=("c",))
    with pytest.raises(InputError, match="model"):
        testbed.compare(table(), bootstrap=100).row("nobody")


# What the intervals cover


def test_the_mean_gap_contains_the_sampling_of_both_sets() -> None:
    """The standard error is that of drawing items again, for all models at once, by brute force."""
    first, second = testbed.simulate(np.linspace(0.5, 2.0, 8), examples=(400, 300), seed=2)
    report = testbed.compare(first, second, bootstrap=100)
    rng = np.random.default_rng(0)
    gaps = [
        first.scores[:, rng.integers(0, 400, 400)].mean() - second.scores[:, rng.integers(0, 300, 300)].mean()
        for _ in range(4000)
    ]
    assert report.mean_gap.stderr == pytest.approx(np.std(gaps), rel=0.05)
    assert report.evidence == "examples"
    assert report.gap_over_models.value == report.mean_gap.value
    assert report.gap_over_models.stderr != report.mean_gap.stderr


def test_from_counts_the_mean_gap_has_the_bound_of_nested_errors() -> None:
    """Models that err on nested sets of items reach the bound; no other dependence exceeds it."""
    accuracies = np.array([0.9, 0.8, 0.7, 0.5])
    nested = Outcomes.from_arrays(np.arange(1000) < 1000 * accuracies[:, None])
    exact = testbed.compare(nested, nested, bootstrap=100)
    counted = testbed.compare(counts_of(testbed.two_sets(nested, nested)), bootstrap=100)
    assert counted.mean_gap.stderr == pytest.approx(exact.mean_gap.stderr, rel=1e-9)
    by_hand = np.minimum.outer(accuracies, accuracies).mean() - accuracies.mean() ** 2
    assert counted.mean_gap.stderr == pytest.approx(np.sqrt(2 * by_hand / 1000))
    assert counted.evidence == "counts"
    sets = testbed.two_sets(*testbed.simulate(np.linspace(0.5, 2.0, 8), examples=(400, 300), seed=2))
    shared, bound = (testbed.compare(item, bootstrap=100).mean_gap.stderr for item in (sets, counts_of(sets)))
    assert shared < bound


def test_null_gaps_are_covered() -> None:
    """Two samples of one population: intervals contain 0 in about 95 % of 200 runs; those over models do not."""
    covered = {"examples": 0, "counts": 0, "models": 0}
    for seed in range(200):
        sets = testbed.two_sets(
            *testbed.simulate(np.linspace(1, 1.6, 10), examples=(300, 200), mu=(0, 0), sigma=(1, 1), seed=seed)
        )
        gap = sets.mean_gap()
        covered["examples"] += gap.low <= 0 <= gap.high
        bound = counts_of(sets).mean_gap()
        covered["counts"] += bound.low <= 0 <= bound.high
        if seed < 50:
            models = stats.mean(sets.gaps, df=9)
            covered["models"] += models.low <= 0 <= models.high
    assert 178 <= covered["examples"] <= 199  # the 99.9 % binomial region of 95 %
    assert covered["counts"] >= 178
    assert covered["models"] < 38  # of 50


@pytest.mark.parametrize("models", [2, 3, 4, 5, 10])
def test_the_interval_for_other_models_covers(models: int) -> None:
    """Gaps of models drawn from a normal and from a skewed population, two fixed sets; closed-form means."""
    rng = np.random.default_rng([models, 1])
    for gaps, truth in (
        (0.08 + 0.03 * rng.standard_normal((2000, models)), 0.08),
        (rng.beta(8, 72, (2000, models)), 0.1),
    ):
        made = [stats.mean(row, df=models - 1) for row in gaps]
        assert np.mean([item.low <= truth <= item.high for item in made]) >= 0.925


def test_fractional_scores_and_missing_cells() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.random((5, 200)), rng.random((5, 150))
    first[0, :50] = np.nan
    report = testbed.compare(
        Outcomes.from_arrays(first), Outcomes.from_arrays(second), bootstrap=100, resample="models"
    )
    row = report.row("model-0")
    assert row.original.value == pytest.approx(np.nanmean(first[0]))
    assert row.original.n == 150
    assert row.new.stderr == pytest.approx(second[0].std() / np.sqrt(150))


def test_no_line_where_models_differ_by_noise_only() -> None:
    first, second = testbed.simulate(np.full(6, 1.0), examples=(300, 300), mu=(0, 0), sigma=(1, 1), seed=4)
    report = testbed.compare(first, second, bootstrap=100)
    assert not report.fit.defined
    assert np.isfinite(report.mean_gap.low)
    assert any("noise" in note for note in report.notes)
    assert report.headline
    assert report.to_html()
