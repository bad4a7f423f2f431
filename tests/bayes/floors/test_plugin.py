import numpy as np
import pytest
from scipy.stats import poisson
from tests.refusals import refused

from hardpan.bayes.floors import plug_in
from hardpan.bayes.floors.plugin import plug_in_errors_test


def labelled(seed, n, k=3, sharpness=1.0, concentration=0.4):
    """Probabilities of a model that is too sure (sharpness > 1), labels from the true ones, and the true floor."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(k, concentration), n)
    labels = (truth.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1).clip(0, k - 1)
    sharp = np.maximum(truth, 1e-12) ** sharpness
    return sharp / sharp.sum(axis=1, keepdims=True), labels, float((1 - truth.max(axis=1)).mean())


@pytest.fixture(scope="module")
def known():
    """The floor of the problem that ``labelled`` draws from, to within 0.0004."""
    return labelled(5, 300_000)[2]


def test_exact_posteriors_are_covered(known):
    found = [plug_in(labelled(seed, 200)[0]) for seed in range(200)]
    assert sum(item.low <= known <= item.high for item in found) >= 178


def test_a_rare_error_has_an_interval_that_reaches_it():
    probs = np.tile([1.0, 0.0], (100, 1))
    found = plug_in(probs)
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(0.0369, abs=1e-3)  # −log(0.025) / 100


def test_the_promise_is_held_against_poisson_tails():
    probs, labels, _ = labelled(2, 500)
    made, promised, p_value = plug_in_errors_test(probs, labels)
    assert made == (probs.argmax(axis=1) != labels).sum()
    expected = 2 * min(poisson.sf(made - 1, promised), poisson.cdf(made, promised))
    assert p_value == pytest.approx(min(1.0, expected))
    assert p_value > 1e-3
    sharp, labels, _ = labelled(2, 500, sharpness=5.0)
    assert plug_in_errors_test(sharp, labels)[2] < 1e-6


@pytest.mark.parametrize(
    "probs",
    [[[0.5, 0.6]], [[1.5, -0.5]], [[np.nan, 1.0]], [0.5, 0.5], [["a", "b"]], np.empty((0, 2))],
)
def test_bad_probabilities_are_refused(probs):
    with refused("probs"):
        plug_in(probs)


def test_half_precision_is_taken_as_it_is():
    probs = labelled(0, 200, k=40)[0]
    assert plug_in(probs.astype(np.float16)).value == pytest.approx(plug_in(probs).value, abs=1e-3)
