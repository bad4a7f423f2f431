import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, norm, t
from tests.refusals import refused

from hardpan.stats import bounded_mean_limits, clopper_pearson, grouped_share, mean, normal, normal_quantile, share


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.9999])
@pytest.mark.parametrize("n", [1, 2, 17, 100, 2021, 10_000])
def test_agrees_with_binomtest(n: int, confidence: float) -> None:
    for k in sorted({0, 1, n // 3, n // 2, n - 1, n}):
        low, high = clopper_pearson(k, n, confidence)
        expected = binomtest(k, n).proportion_ci(confidence, method="exact")
        assert abs(float(low) - expected.low) < 1e-12
        assert abs(float(high) - expected.high) < 1e-12


def test_edges_are_exact() -> None:
    low, high = clopper_pearson([0, 10], 10)
    assert low[0] == 0.0
    assert high[1] == 1.0
    assert low[1] == pytest.approx(0.025**0.1, rel=1e-14)
    assert high[0] == pytest.approx(1 - 0.025**0.1, rel=1e-14)


def test_broadcasts() -> None:
    low, high = clopper_pearson(np.arange(3)[:, None], [5, 50])
    assert low.shape == high.shape == (3, 2)
    assert low[2, 1] == clopper_pearson(2, 50)[0]


def test_paper_interval_for_ninety_percent_of_two_thousand() -> None:
    low, high = clopper_pearson(1800, 2000)
    assert [round(100 * float(low), 1), round(100 * float(high), 1)] == [88.6, 91.3]


@given(n=st.integers(1, 100_000), data=st.data(), confidence=st.floats(0.01, 0.9999))
def test_limits_invert_the_one_sided_tests(n: int, data: st.DataObject, confidence: float) -> None:
    k = data.draw(st.integers(0, n))
    low, high = (float(limit) for limit in clopper_pearson(k, n, confidence))
    tail = (1 - confidence) / 2
    assert 0 <= low <= k / n <= high <= 1
    if k > 0:
        assert binom.sf(k - 1, n, low) == pytest.approx(tail, rel=1e-6)
    if k < n:
        assert binom.cdf(k, n, high) == pytest.approx(tail, rel=1e-6)


@given(n=st.integers(1, 5000), data=st.data())
def test_mirror_image(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    low, high = clopper_pearson(k, n)
    mirrored_low, mirrored_high = clopper_pearson(n - k, n)
    assert float(low) == pytest.approx(1 - float(mirrored_high), abs=1e-13)
    assert float(high) == pytest.approx(1 - float(mirrored_low), abs=1e-13)


@pytest.mark.parametrize(
    ("successes", "trials", "confidence", "argument"),
    [
        (5, 4, 0.95, "successes"),
        (0, 0, 0.95, "trials"),
        (-1, 4, 0.95, "successes"),
        (0.5, 4, 0.95, "successes"),
        (float("nan"), 4, 0.95, "successes"),
        (1, 4, 1.0, "confidence"),
        (1, 4, 95, "confidence"),
        ("a", 4, 0.95, "successes"),
        ([1, 2, 3], [4, 5], 0.95, ("successes", "trials")),
    ],
)
def test_refusals(successes: object, trials: object, confidence: float, argument: str) -> None:
    with refused(argument):
        clopper_pearson(successes, trials, confidence)  # type: ignore[arg-type]


@given(n=st.integers(1, 10_000), data=st.data(), confidence=st.floats(0.5, 0.9999))
def test_a_share_is_the_proportion_with_its_exact_limits(n: int, data: st.DataObject, confidence: float) -> None:
    k = data.draw(st.integers(0, n))
    found = share(k, n, confidence, method="m")
    low, high = clopper_pearson(k, n, confidence)
    assert (found.value, found.low, found.high) == (k / n, float(low), float(high))
    assert found.stderr == pytest.approx((k / n * (1 - k / n) / n) ** 0.5)
    assert (found.n, found.confidence, found.method) == (n, confidence, "m")


def test_a_share_of_nothing_is_not_known_and_one_of_less_is_refused() -> None:
    nothing = share(0, 0)
    assert np.isnan([nothing.value, nothing.stderr]).all()
    assert (nothing.low, nothing.high, nothing.n) == (0.0, 1.0, 0)
    with refused("total"):
        share(1, 0)
    with refused("count"):
        share(0.5, 3)


def test_the_interval_of_a_mean_is_the_normal_one() -> None:
    values = np.random.default_rng(0).normal(2.0, 3.0, size=400)
    found = mean(values, 0.9)
    low, high = norm.interval(0.9, values.mean(), values.std(ddof=1) / 20)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert (found.value, found.n) == (pytest.approx(values.mean()), 400)


def test_a_mean_ends_where_it_is_told_and_needs_a_value() -> None:
    assert mean([0.0, 0.1], least=0.0).low == 0.0
    assert mean([0.9, 1.0], most=1.0).high == 1.0
    single = mean([0.25])
    assert single.value == 0.25
    assert np.isnan([single.low, single.stderr, single.high]).all()  # one value says nothing about its spread
    with refused("values"):
        mean([])


def test_few_degrees_of_freedom_give_students_interval() -> None:
    for df in (1, 4, 30):
        found = normal(0.3, 0.01, 50, 0.9, df=df)
        assert (found.low, found.high) == pytest.approx(t.interval(0.9, df, 0.3, 0.01))
    assert (normal(0.3, 0.01, 50, 0.9).low) == pytest.approx(norm.interval(0.9, 0.3, 0.01)[0])


def test_the_normal_quantile_is_scipys() -> None:
    for confidence in (0.5, 0.9, 0.95, 0.9999):
        assert normal_quantile(confidence) == pytest.approx(norm.ppf(0.5 + confidence / 2))
    with refused("confidence"):
        normal_quantile(1.0)


@pytest.mark.parametrize(
    ("groups", "rate", "alike"), [(12, 0.3, 0.3), (80, 0.04, 0.9), (80, 0.2, 0.1), (300, 0.02, 0.6)]
)
def test_limits_of_a_share_of_groups_hold(groups: int, rate: float, alike: float) -> None:
    """Rates of groups are beta variables of the given mean and correlation within groups; sizes are skewed."""
    rng = np.random.default_rng([groups, 3])
    misses, naive = np.zeros(2), 0
    for _ in range(400):
        rates = rng.beta(rate * (1 / alike - 1), (1 - rate) * (1 / alike - 1), groups)
        group = np.repeat(np.arange(groups), 1 + rng.negative_binomial(1, 0.15, groups))
        hits = rng.random(len(group)) < rates[group]
        found = grouped_share(hits, group, 0.9)
        misses += found.high < rate, found.low > rate
        naive += share(int(hits.sum()), len(hits), 0.9).high < rate
    assert all(clopper_pearson(int(count), 400, 0.998)[0] <= 0.07 for count in misses)
    assert naive > misses[0]


def test_a_share_of_groups_of_one_is_a_share_and_copies_add_nothing() -> None:
    hits = np.arange(60) % 7 == 0
    alone, one = grouped_share(hits, np.arange(60)), share(int(hits.sum()), 60)
    assert (alone.low, alone.high, alone.stderr) == pytest.approx((one.low, one.high, one.stderr))
    copies = grouped_share(np.tile(hits, 5), np.tile(np.arange(60), 5))
    assert (copies.value, copies.low, copies.high) == pytest.approx((one.value, one.low, one.high), rel=0.02)
    none = grouped_share(np.zeros(300, dtype=bool), np.arange(300) // 10)
    assert none.high == pytest.approx(share(0, 30).high)
    assert np.isnan(grouped_share([], []).value)


SKEWED = {  # draws of judge scores and their means
    "beta": (lambda rng, size: rng.beta(0.05, 2.0, size), 0.05 / 2.05),
    "rubric": (lambda rng, size: (rng.random(size) < 0.048) * rng.integers(1, 5, size) / 4, 0.03),
    "rare": (
        lambda rng, size: np.where(rng.random(size) < 0.01, rng.beta(8, 1, size), rng.beta(1, 60, size)),
        0.01 * 8 / 9 + 0.99 / 61,
    ),
}


@pytest.mark.parametrize("shape", SKEWED)
@pytest.mark.parametrize(("n", "draws"), [(20, 400), (50, 400), (200, 300), (1000, 100)])
def test_limits_of_bounded_means_cover_skewed_scores(shape: str, n: int, draws: int) -> None:
    draw, truth = SKEWED[shape]
    x = draw(np.random.default_rng([n, 5]), (draws, n))
    for scores, expected in ((x, truth), (1 - x, 1 - truth)):
        low, high = bounded_mean_limits(scores)
        assert np.mean((low <= expected) & (expected <= high)) >= 0.93
        assert ((low >= 0) & (low <= high) & (high <= 1)).all()


@pytest.mark.parametrize("n", [40, 80, 300])
def test_a_bounded_mean_is_no_end_of_its_interval(n: int) -> None:
    draws = np.random.default_rng(n)
    x = draws.binomial(5, draws.beta(0.5, 0.5, (300, n))) / 5  # five runs of items that are easy or hard
    low, high = bounded_mean_limits(x)
    assert (np.minimum(x.mean(axis=1) - low, high - x.mean(axis=1)) > 0.25 * (high - low)).all()


def test_limits_of_bounded_means_are_not_much_wider_than_normal_ones() -> None:
    x = np.random.default_rng(0).beta(2, 2, (50, 1000))
    low, high = bounded_mean_limits(x)
    assert np.mean(high - low) < 1.35 * np.mean(2 * 1.96 * x.std(axis=1) / np.sqrt(1000))
    assert (bounded_mean_limits(np.full((1, 30), 0.4))[0] < 0.4).all()
    with refused("values"):
        bounded_mean_limits([[0.5, 1.5]])
