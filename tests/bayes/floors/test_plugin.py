import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson
from tests.refusals import refused

from hardpan.bayes.floors import calibrated_plug_in, plug_in
from hardpan.bayes.floors.plugin import CALIBRATIONS, best_temperature, fit_calibration, predicted_errors_test


def labelled(seed, n, k=3, sharpness=1.0, concentration=0.4):
    """Probabilities of a model that is too sure (sharpness > 1), labels from the true ones, and the true floor."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(k, concentration), n)
    labels = (truth.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1).clip(0, k - 1)
    sharp = np.maximum(truth, 1e-12) ** sharpness
    return sharp / sharp.sum(axis=1, keepdims=True), labels, float((1 - truth.max(axis=1)).mean())


@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("with_validation", [True, False])
def test_calibration_mends_a_model_that_is_too_sure(calibration, with_validation):
    probs, labels, floor = labelled(0, 3000, sharpness=3.0)
    held = labelled(1, 3000, sharpness=3.0)[:2] if with_validation else None
    raw = plug_in(probs)
    found = calibrated_plug_in(probs, labels, validation=held, calibration=calibration)
    assert raw.high < floor
    assert found.low - 0.01 < floor < found.high + 0.01
    assert found.value == pytest.approx(np.mean(probs.argmax(axis=1) != labels), abs=0.03)
    assert ("validation examples" in found.method) == with_validation


@pytest.mark.parametrize("calibration", CALIBRATIONS)
def test_without_validation_each_fold_is_judged_by_the_calibration_of_the_other_four(calibration):
    probs, labels, _ = labelled(3, 203, sharpness=2.0)
    folds = np.random.default_rng([7, 0]).permutation(203) % 5
    confident = np.empty(203)
    for fold in range(5):
        inside = folds == fold
        confident[inside] = fit_calibration(calibration, probs[~inside], labels[~inside])(probs[inside])
    found = calibrated_plug_in(probs, labels, calibration=calibration, seed=7)
    assert found.value == pytest.approx(1 - confident.mean())
    assert found.stderr > (1 - confident).std(ddof=1) / np.sqrt(203)  # the calibration's own uncertainty is added


@pytest.fixture(scope="module")
def known():
    """The floor of the problem that ``labelled`` draws from, to within 0.0004."""
    return labelled(5, 300_000)[2]


def test_the_interval_of_a_calibrated_plug_in_covers_the_error_of_its_own_decisions(known):
    inside = 0
    for seed in range(30):
        probs, labels, _ = labelled(seed, 300, sharpness=2.0)
        held = labelled(1000 + seed, 300, sharpness=2.0)[:2]
        found = calibrated_plug_in(probs, labels, validation=held, seed=seed)
        inside += found.low <= known <= found.high
    assert inside >= 24  # of 30 at 95 %: fewer than one time in 3,000


@settings(max_examples=8)
@given(st.floats(0.2, 5.0))
def test_the_temperature_is_recovered(sharpness):
    probs, labels, _ = labelled(3, 20_000, sharpness=sharpness, concentration=2.0)
    assert best_temperature(probs, labels) == pytest.approx(sharpness, rel=0.08)


def test_isotonic_confidences_rise_and_vector_scaling_undoes_a_shift():
    probs, labels, floor = labelled(0, 5000, concentration=1.0)
    top = np.linspace(0.34, 1, 50)
    rows = np.column_stack([top, (1 - top) / 2, (1 - top) / 2])
    assert (np.diff(fit_calibration("isotonic", probs, labels)(rows)) >= 0).all()
    shifted = probs * np.array([5.0, 1.0, 1.0])
    shifted /= shifted.sum(axis=1, keepdims=True)
    calibrated = fit_calibration("vector", shifted, labels)(shifted)
    assert (1 - calibrated).mean() == pytest.approx(floor, abs=0.015)


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
    made, promised, p_value = predicted_errors_test(probs, labels)
    assert made == (probs.argmax(axis=1) != labels).sum()
    expected = 2 * min(poisson.sf(made - 1, promised), poisson.cdf(made, promised))
    assert p_value == pytest.approx(min(1.0, expected))
    assert p_value > 1e-3
    sharp, labels, _ = labelled(2, 500, sharpness=5.0)
    assert predicted_errors_test(sharp, labels)[2] < 1e-6


@pytest.mark.parametrize(
    "probs",
    [[[0.5, 0.6]], [[1.5, -0.5]], [[np.nan, 1.0]], [0.5, 0.5], [["a", "b"]], np.empty((0, 2))],
)
def test_bad_probabilities_are_refused(probs):
    with refused("probs"):
        plug_in(probs)


def test_bad_calibrations_are_refused():
    probs, labels, _ = labelled(0, 50)
    with refused("calibration"):
        calibrated_plug_in(probs, labels, calibration="platt")
    with refused("validation"):
        calibrated_plug_in(probs[:5], labels[:5])
    with refused("labels"):
        calibrated_plug_in(probs, labels + 1)
    with refused("validation"):
        calibrated_plug_in(probs, labels, validation=(np.eye(2), [0, 1]))


def test_half_precision_is_taken_as_it_is():
    probs = labelled(0, 200, k=40)[0]
    assert plug_in(probs.astype(np.float16)).value == pytest.approx(plug_in(probs).value, abs=1e-3)
