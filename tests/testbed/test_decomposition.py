import numpy as np
import pytest
from scipy.stats import binomtest, norm
from tests.testbed.helpers import counts_table

from hardpan import testbed
from hardpan.testbed.decomposition import GapParts, gap_parts
from hardpan.testbed.sets import TwoSets


def planted(slope: float, offset: float, total: int = 10_000, **more: object) -> TwoSets:
    original = np.linspace(0.6, 0.95, 30)
    names = [f"m{i}" for i in range(30)]
    correct = np.round(original * 50_000), np.round((slope * original + offset) * total)
    return counts_table(names, correct[0], 50_000, correct[1], total, **more)  # type: ignore[arg-type]


def test_a_set_of_ten_thousand_explains_a_point_or_two() -> None:
    """Section 2 of the paper: at most ±1 % at level 95 %, ±2 % at 99.99 %, for one model; here with 50,000 more."""
    for level, most in ((0.95, 0.01), (0.9999, 0.02)):
        for part in gap_parts(planted(1.0, -0.1), level):
            assert max(-part.generalization.low, part.generalization.high) <= 1.1 * most


def test_parts_add_up_and_uniform_limits_are_wider() -> None:
    result = testbed.decompose(planted(1.1, -0.2), bootstrap=1000)
    for part in result.parts:
        assert part.generalization.low <= 0 <= part.generalization.high
        assert part.remainder.low == pytest.approx(part.gap - part.generalization.high)
        assert part.remainder.high == pytest.approx(part.gap - part.generalization.low)
        assert part.uniform_generalization.low < part.generalization.low
        assert part.uniform_remainder.low < part.remainder.low
    assert result.beyond_chance == 30
    assert 0 < result.largest_chance < 0.02


def test_every_part_is_its_definition() -> None:
    counts = planted(1.0, -0.12, total=400)
    chosen = {"bootstrap": 400, "confidence": 0.9}
    result = testbed.decompose(counts, **chosen)  # type: ignore[arg-type]
    largest = 0.0
    for part in result.parts:
        i = counts.models.index(part.model)
        original, new = counts.original.correct[i] / 50_000, counts.new.correct[i] / 400
        tests = binomtest(int(counts.original.correct[i]), 50_000), binomtest(int(counts.new.correct[i]), 400)

        def limits(level: float, tests=tests, original=original, new=new) -> tuple[float, float]:  # type: ignore[no-untyped-def]
            first, second = (test.proportion_ci(level) for test in tests)
            low = original - new - np.hypot(original - first.low, second.high - new)
            return low, original - new + np.hypot(first.high - original, new - second.low)

        one, every = limits(0.9), limits(1 - 0.1 / 30)  # of this model; of all 30 at once
        assert part.gap == pytest.approx(original - new)
        assert part.remainder.value == pytest.approx(original - new)
        variance = original * (1 - original) / 50_000 + new * (1 - new) / 400
        assert part.remainder.stderr == pytest.approx(np.sqrt(variance))
        gap = original - new
        for interval, ends in ((part.generalization, one), (part.uniform_generalization, every)):
            assert (interval.low, interval.high) == pytest.approx((gap - ends[1], gap - ends[0]))
        for kept, ends in ((part.remainder, one), (part.uniform_remainder, every)):
            assert (kept.low, kept.high) == pytest.approx(ends)
        largest = max(largest, gap - every[0], every[1] - gap)
    assert result.largest_chance == pytest.approx(largest)
    assert result.beyond_chance == sum(part.uniform_remainder.low > 0 for part in result.parts)
    draws = testbed.compare(counts, scale="linear", **chosen).fit.draws  # type: ignore[arg-type]
    assert result.diminishing_p == np.mean(draws[:, 0] >= 1)
    assert 0 < result.diminishing_p < 1


@pytest.mark.parametrize(("slope", "words"), [(1.15, "smaller"), (0.85, "larger"), (1.0, "undecided")])
def test_verdict_on_the_spread_of_difficulty(slope: float, words: str) -> None:
    rng = np.random.default_rng(0)
    z = np.linspace(0.2, 1.6, 25)
    new = norm.cdf(slope * z - 0.3 + rng.normal(0, 0.02, 25))
    names = [str(i) for i in range(25)]
    table = counts_table(names, np.round(norm.cdf(z) * 1e6), 10**6, np.round(new * 1e6), 10**6)
    result = testbed.decompose(table, bootstrap=1000, resample="models")
    assert result.probit.slope.value == pytest.approx(slope, abs=0.04)
    assert result.spread == words
    assert (words == "undecided") == (result.probit.slope.low < 1 < result.probit.slope.high)


def test_two_samples_of_one_population_rarely_show_a_drop() -> None:
    """Ten models, 300 original and 10,000 new examples, errors shared by a common difficulty."""
    alarms = [
        np.count_nonzero([part.uniform_remainder.low > 0 for part in null_parts(seed)]) for seed in range(300)
    ]
    assert np.mean(np.array(alarms) > 0) <= 0.04  # one-sided: 2.5 %
    assert max(alarms) <= 10


def null_parts(seed: int) -> tuple[GapParts, ...]:
    rng = np.random.default_rng([seed, 7])
    rates = np.linspace(0.55, 0.9, 10)[:, None]
    counts = [(norm.cdf(0.8 * rng.standard_normal(n)) < rates).sum(axis=1) for n in (300, 10_000)]
    return gap_parts(counts_table([f"m{i}" for i in range(10)], counts[0], 300, counts[1], 10_000))


def test_no_drop_is_within_chance() -> None:
    result = testbed.decompose(planted(1.0, -0.001), bootstrap=1000)
    assert result.beyond_chance == 0


@pytest.mark.parametrize(
    ("slope", "offset", "words", "p"),
    [(1.3, -0.3, "not diminishing", 1.0), (0.7, 0.2, "diminishing", 0.0)],
)
def test_verdict_on_the_slope(slope: float, offset: float, words: str, p: float) -> None:
    result = testbed.decompose(planted(slope, offset), bootstrap=1000)
    assert result.returns == words
    assert result.diminishing_p == p


def test_an_undecided_slope() -> None:
    rng = np.random.default_rng(1)
    original = np.linspace(0.6, 0.9, 12)
    new = original - 0.1 + rng.normal(0, 0.05, 12)
    table = counts_table([str(i) for i in range(12)], np.round(original * 1e4), 10_000, np.round(new * 1e4), 10_000)
    result = testbed.decompose(table, bootstrap=2000)
    assert result.returns == "undecided"


def test_gap_by_date_is_the_planted_slope() -> None:
    dates = np.linspace(2010, 2018, 30)
    original = np.linspace(0.6, 0.95, 30)
    new = original - (0.02 + 0.01 * (dates - 2010))
    table = counts_table(
        [str(i) for i in range(30)], np.round(original * 1e6), 10**6, np.round(new * 1e6), 10**6, date=list(dates)
    )
    result = testbed.decompose(table, bootstrap=500)
    assert result.by_date is not None
    assert result.by_date.value == pytest.approx(0.01, abs=1e-6)
    assert result.by_date.low <= result.by_date.value <= result.by_date.high
    assert testbed.decompose(planted(1.1, -0.2), bootstrap=500).by_date is None
