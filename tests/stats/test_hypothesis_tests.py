import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from tests.refusals import refused

from hardpan import stats

counts = st.integers(0, 400)


@given(counts, counts)
def test_mcnemar_is_the_exact_binomial_test(b: int, c: int) -> None:
    expected = binomtest(b, b + c).pvalue if b + c else 1.0
    assert float(stats.mcnemar(b, c)) == pytest.approx(expected, rel=1e-9)
    assert stats.mcnemar(b, c) == stats.mcnemar(c, b)


@pytest.mark.parametrize("error", [0.02, 0.1, 0.3])
def test_the_sample_size_of_mcnemars_test_has_its_power(error: float) -> None:
    discordant = error * (1 - 0.9 * error) + 0.9 * error * (1 - error)  # one errs a tenth less often than the other
    n = stats.mcnemar_sample_size(0.1 * error, discordant)
    assert stats.mcnemar_power(0.1 * error, discordant, n) == pytest.approx(0.8, abs=0.01)


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


def test_refusals() -> None:
    with refused("first"):
        stats.paired_bootstrap([0, 2], [0, 1])
    with refused(("first", "second")):
        stats.paired_bootstrap([0, 1], [0, 1, 1])
    with refused("p_values"):
        stats.holm([0.5, 1.5])
    with refused("only_first"):
        stats.mcnemar(-1, 2)
