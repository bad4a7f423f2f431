import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binomtest, norm
from sklearn.metrics import cohen_kappa_score
from tests.refusals import refused

from hardpan import stats
from hardpan.estimates import Estimate
from hardpan.stats.agreement import kappa_from_table

counts = st.integers(0, 400)


def kappa(a: np.ndarray, b: np.ndarray) -> Estimate:
    table, _, _ = np.histogram2d(a, b, bins=np.arange(5))
    return kappa_from_table(table / len(a), len(a), 0.95)


@given(counts, counts)
def test_mcnemar_is_the_exact_binomial_test(b: int, c: int) -> None:
    expected = binomtest(b, b + c).pvalue if b + c else 1.0
    assert float(stats.mcnemar(b, c)) == pytest.approx(expected, rel=1e-9)
    assert stats.mcnemar(b, c) == stats.mcnemar(c, b)


def test_paired_bootstrap_matches_the_closed_form_error() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.random(500) < 0.8, rng.random(500) < 0.7
    difference = first.astype(float) - second
    estimate = stats.paired_bootstrap(first, second, resamples=40_000)
    assert estimate.value == pytest.approx(difference.mean())
    assert estimate.stderr == pytest.approx(difference.std() / np.sqrt(500), rel=0.02)


def test_paired_bootstrap_of_a_model_with_itself_is_zero() -> None:
    right = np.array([True, False, True])
    estimate = stats.paired_bootstrap(right, right)
    assert (estimate.value, estimate.low, estimate.high) == (0.0, 0.0, 0.0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_dominates_the_raw_values_and_keeps_their_order(p: list[float]) -> None:
    adjusted = stats.holm(p)
    assert (adjusted >= np.array(p)).all()
    assert (adjusted <= np.minimum(1.0, len(p) * np.array(p)) + 1e-15).all()
    order = np.argsort(p, kind="stable")
    assert (np.diff(adjusted[order]) >= 0).all()


def test_holm_by_hand() -> None:
    np.testing.assert_allclose(stats.holm([0.04, 0.001, 0.3, 0.02]), [0.08, 0.004, 0.3, 0.06])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=60))
def test_kappa_agrees_with_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs).T
    if len(set(a) | set(b)) == 1:
        assert np.isnan(kappa(a, b).value)
        return
    assert kappa(a, b).value == pytest.approx(cohen_kappa_score(a, b), abs=1e-12)


def test_kappa_error_matches_simulation() -> None:
    rng = np.random.default_rng(0)
    table = np.array([[0.4, 0.1], [0.15, 0.35]])

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        cells = rng.choice(4, size=n, p=table.ravel())
        return cells // 2, cells % 2

    estimates = [kappa(*draw(400)) for _ in range(400)]
    spread = np.std([e.value for e in estimates])
    assert np.mean([e.stderr for e in estimates]) == pytest.approx(spread, rel=0.12)


@given(arrays(np.int64, (3, 3), elements=st.integers(1, 60)))
def test_kappa_error_is_that_of_the_delta_method(counts: np.ndarray) -> None:
    """Var κ̂ = (Σ p g² − (Σ p g)²)/n with g the derivatives of κ by the cells, here by differences."""
    n = counts.sum()
    p = counts / n

    def kappa_of(cells: np.ndarray) -> float:
        whole = cells.sum()
        expected = cells.sum(axis=0) @ cells.sum(axis=1) / whole**2
        return (np.trace(cells) / whole - expected) / (1 - expected)

    slopes = np.zeros((3, 3))
    for cell in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[cell] = 1e-6
        slopes[cell] = (kappa_of(p + step) - kappa_of(p - step)) / 2e-6
    variance = ((p * slopes**2).sum() - (p * slopes).sum() ** 2) / n
    found = kappa_from_table(p, int(n), 0.8)
    assert found.stderr == pytest.approx(np.sqrt(variance), rel=1e-5)
    assert found.high - found.value == pytest.approx(norm.ppf(0.9) * found.stderr)
    assert found.value - found.low == pytest.approx(norm.ppf(0.9) * found.stderr)


def test_refusals() -> None:
    with refused("first"):
        stats.paired_bootstrap([0, 2], [0, 1])
    with refused(("first", "second")):
        stats.paired_bootstrap([0, 1], [0, 1, 1])
    with refused("p_values"):
        stats.holm([0.5, 1.5])
    with refused("only_first"):
        stats.mcnemar(-1, 2)
