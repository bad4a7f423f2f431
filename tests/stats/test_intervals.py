import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, norm, t
from tests.refusals import refused

from hardpan.stats import clopper_pearson, mean, normal, normal_quantile, share


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
    with refused("trials"):
        share(1, 0)
    with refused("successes"):
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
