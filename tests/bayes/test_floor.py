"""All estimators at once: what is given is used, what is wrong is refuted, what is right survives."""

import json

import numpy as np
import pytest
from scipy.stats import norm

from hardpan import bayes, files
from hardpan.bayes.floors import told_apart
from hardpan.bayes.floors.votes import ASSUMPTION
from hardpan.errors import InputError
from hardpan.estimates import Estimate

KNOWN = float(norm.cdf(-1))  # two unit Gaussians at distance 2


def parts(seed=0, n=3000, validation=True):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 2))
    x[:, 0] += 2 * y
    a, b = round(0.6 * n), round(0.8 * n)
    held = (x[a:b], y[a:b]) if validation else (None, None)
    return bayes.Examples(x[:a], y[:a], x[b:], y[b:], *held)


def posterior(x, sharpness=1.0):
    odds = sharpness * (2 * x[:, 0] - 2)
    p = 1 / (1 + np.exp(-odds))
    return np.column_stack([1 - p, p])


@pytest.fixture(scope="module")
def examples():
    return parts()


@pytest.fixture(scope="module")
def everything(examples):
    rng = np.random.default_rng(1)
    truth = posterior(examples.x_test)
    exact = Estimate(KNOWN, 0.0, KNOWN, KNOWN, method="closed form")
    return bayes.floor(
        examples=examples,
        exact={"good": exact, "bad": Estimate(0.45, 0.0, 0.45, 0.45, method="wrong")},
        predictions={
            "good": truth,
            "sure": posterior(examples.x_test, 4.0),
            "hard": (examples.x_test[:, 0] > 1).astype(int),
        },
        validation={"good": posterior(examples.x_validation), "sure": posterior(examples.x_validation, 4.0)},
        classifiers={"elsewhere": Estimate(0.25, 0.01, 0.2, 0.3, n=100)},
        votes=rng.multinomial(3, truth),
        soft_labels=truth,
        differences=[told_apart(examples.x_test, examples.x_train, model="the flow")],
    )


def test_the_known_floor_survives_and_the_wrong_one_does_not(everything):
    assert everything.low < KNOWN < everything.high
    assert everything.refuted == ("Exact error of bad",)
    assert everything["Exact error of good"].status == "stands"
    assert everything["Exact error of bad"].against == everything.high_from
    assert "exact error of bad (45 %)" in everything.sentence


def test_every_entry_is_there_with_its_role(everything):
    roles = {entry.name: entry.role for entry in everything.entries}
    assert roles["Nearest-neighbour bound"] == "lower"
    assert roles["Upper spanning-tree bound"] == "upper"
    assert roles["Gaussian model"] == "estimate"
    assert roles["Raw plug-in of good"] == "estimate"
    for calibration in ("temperature", "vector", "isotonic"):
        assert roles[f"{calibration.capitalize()} plug-in of sure"] == "upper"
    assert roles["Corrected votes"] == "estimate"
    assert roles["Uncorrected votes"] == "lower"
    assert roles["Soft labels"] == "estimate"
    assert everything.n_classifiers == sum(role == "classifier" for role in roles.values()) >= 7
    assert everything["Corrected votes"].assumption == ASSUMPTION
    assert all(entry.assumption for entry in everything.entries)


@pytest.mark.parametrize(
    "name",
    [
        "Raw plug-in of good",
        "Temperature plug-in of good",
        "Temperature plug-in of sure",
        "Vector plug-in of sure",
        "Isotonic plug-in of sure",
        "Corrected votes",
        "Soft labels",
    ],
)
def test_what_should_be_near_the_known_floor_is(everything, name):
    item = everything[name].estimate
    assert item.low - 0.02 < KNOWN < item.high + 0.02


def test_a_model_that_is_too_sure_is_contradicted_by_its_own_errors(everything):
    entry = everything["Raw plug-in of sure"]
    assert entry.estimate.high < KNOWN
    assert (entry.status, entry.against) == ("unfounded", "its own decisions")
    assert everything["Raw plug-in of good"].status == "stands"


def test_an_exact_error_is_held_against_the_decisions_of_its_model(examples):
    tiny = Estimate(0.008, 0.0, 0.008, 0.008, method="an over-confident flow")
    probs = {"flow": posterior(examples.x_test)}
    assert bayes.floor(examples=examples, exact={"flow": tiny}, predictions=probs).unfounded == (
        "Exact error of flow",
    )
    alone = bayes.floor(examples=examples, exact={"flow": tiny})
    assert alone["Exact error of flow"].status == "stands"
    assert (alone.low, alone.low_assumption) == (0.008, "flow is the data's distribution")


def test_the_record_is_read_back(everything):
    text = files.dumps(files.to_json(everything))
    assert files.from_json(json.loads(text)) == everything


def test_the_same_seed_gives_the_same_floor(examples):
    assert bayes.floor(examples=examples, seed=3) == bayes.floor(examples=examples, seed=3)


def test_no_features_are_needed():
    labels = np.arange(1000) % 4
    wrong = np.where(np.arange(1000) < 50, (labels + 1) % 4, labels)
    found = bayes.floor(labels, predictions={"model": wrong}, n_classes=4)
    assert found.high_from == "model"
    assert (found.low, found.low_from) == (0.0, "")
    assert "no estimate that could bound it from below is left" in found.sentence


def test_without_validation_calibration_is_cross_fitted():
    examples = parts(validation=False)
    found = bayes.floor(
        examples=examples, predictions={"m": posterior(examples.x_test)}, calibrations=("temperature",)
    )
    assert "folds" in found["Temperature plug-in of m"].estimate.method
    assert "leaving one out" in next(
        entry.estimate.method for entry in found.entries if entry.name.endswith("nearest neighbours")
    )


def test_an_estimator_that_cannot_be_computed_is_named(examples):
    constant = bayes.Examples(np.ones((40, 2)), np.arange(40) % 2, np.ones((20, 2)), np.arange(20) % 2)
    found = bayes.floor(examples=constant, estimators=("neighbours", "gaussian", "bhattacharyya"))
    assert [reason.partition(":")[0] for reason in found.left_out] == ["gaussian", "bhattacharyya"]
    assert found.high <= 0.5


def test_many_classes_and_few_examples():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 40
    x = rng.normal(size=(120, 5)) + 3 * rng.normal(size=(40, 5))[y]
    found = bayes.floor(examples=bayes.Examples(x[:80], y[:80], x[80:], y[80:]))
    assert 0 <= found.low <= found.high <= 39 / 40


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"predictions": {"m": [[0.5, 0.5]]}}, "need labels"),
        ({"labels": [0, 1], "predictions": {"m": [[0.5, 0.5]]}}, "a row for each of 2"),
        ({"labels": [0, 1], "predictions": {"m": [0, 1]}, "n_classes": 1}, "at least 2"),
        ({"labels": [0, 1], "predictions": {"m": [0, 1]}, "validation": {"n": [[1, 0]]}}, "not among"),
        (
            {"labels": [0, 1], "predictions": {"m": [[1, 0], [0, 1]]}, "validation": {"m": [[1, 0]]}},
            "validation_labels",
        ),
        (
            {"labels": [0, 1], "predictions": {"m": [0, 1]}, "calibrations": ("platt",)},
            "calibrations must be among",
        ),
        ({"labels": [0, 1], "predictions": {"m": [0, 1]}, "confidence": 95}, "between 0 and 1"),
        ({"labels": [0.5, 1.0], "predictions": {"m": [0, 1]}}, "class numbers"),
        ({"labels": [0, 1]}, "at least one classifier"),
        ({"labels": [0, 1], "predictions": {"m": [0, 1]}, "soft_labels": np.eye(3)}, "0 columns|3 columns|columns"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(given, message):
    given = {"calibrations": ("temperature",)} | given
    if "soft_labels" in given:
        given["n_classes"] = 2
    with pytest.raises(InputError, match=message) as caught:
        bayes.floor(**given)
    assert "\n" not in str(caught.value)


def test_bad_examples_are_refused():
    with pytest.raises(InputError, match="same features"):
        bayes.Examples(np.eye(3), np.arange(3), np.eye(2), np.arange(2))
    with pytest.raises(InputError, match="one label for each"):
        bayes.Examples(np.eye(3), np.arange(2), np.eye(3), np.arange(3))
    with pytest.raises(InputError, match="estimators must be among"):
        bayes.floor(examples=parts(n=50), estimators=("flow",))
