"""The floor of a dataset: what is passed is used, the bracket holds, what is wrong is refuted."""

import dataclasses
import json

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.naive_bayes import GaussianNB
from tests.refusals import refused

from hardpan import Dataset, Predictions, bayes, files, formatting, stats
from hardpan.bayes.floors.bracketing import error_of_best_classifier, floor_of
from hardpan.bayes.floors.inputs import prepare_floor_inputs
from hardpan.errors import InputError

KNOWN = float(norm.cdf(-1))  # two unit Gaussians at distance 2
QUICK = {"classifiers": (), "estimators": ("neighbours",)}


def gaussians(seed=0, n=3000, split=True):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 2))
    x[:, 0] += 2 * y
    part = np.repeat(["train", "validation", "test"], [n // 2, n // 4, n - n // 2 - n // 4])
    return Dataset.from_arrays(x, y, split=part if split else None, name="gaussians")


def posterior(x, sharpness=1.0):
    p = 1 / (1 + np.exp(-sharpness * (2 * x[:, 0] - 2)))
    return np.column_stack([1 - p, p])


@pytest.fixture(scope="module")
def data():
    return gaussians()


@pytest.fixture(scope="module")
def everything(data):
    rng = np.random.default_rng(1)
    truth = posterior(data.x)
    return bayes.floor(
        data,
        predictions={"good": truth, "sure": posterior(data.x, 4.0)},
        votes=rng.multinomial(5, truth),
        classifiers=("linear model",),
    )


def test_the_bracket_contains_the_known_error(everything):
    assert everything.low < KNOWN < everything.high
    assert everything.bracket.low_assumption == "votes"
    alone, chosen = everything.best.estimate, everything.best_error
    assert chosen.low < alone.low <= alone.value == chosen.value < 0.2
    assert alone.high < chosen.high
    assert formatting.estimate(chosen) in everything.headline


def test_every_entry_is_there_with_its_role(everything):
    roles = {entry.name: entry.role for entry in everything.entries}
    assert roles["1-NN bound"] == "lower"
    assert roles["Spanning-tree upper bound"] == "upper"
    assert roles["Gaussian model"] == "estimate"
    assert roles["Raw plug-in of good"] == "estimate"
    for calibration in ("temperature", "vector", "isotonic"):
        assert roles[f"{calibration.capitalize()} plug-in of sure"] == "upper"
    assert roles["Votes, uncorrected"] == "lower"
    assert roles["Votes, mixture"] == "estimate"
    assert everything.bracket.n_classifiers == sum(role == "classifier" for role in roles.values()) >= 6
    for name in ("1-NN bound", "Gaussian model", "Spanning-tree lower bound", "Bhattacharyya lower bound"):
        assert everything[name].moving is not None
        assert everything[name].under_assumption


@pytest.mark.parametrize(
    "name", ["Raw plug-in of good", "Temperature plug-in of sure", "Gaussian model", "Votes, mixture"]
)
def test_what_should_be_near_the_known_error_is(everything, name):
    item = everything[name].estimate
    assert item.low - 0.02 < KNOWN < item.high + 0.02


def test_an_overconfident_model_is_rejected_by_its_own_errors(everything):
    entry = everything["Raw plug-in of sure"]
    assert entry.estimate.high < KNOWN
    assert entry.status == "assumption rejected"
    assert entry.check.predicted < entry.check.observed
    assert everything["Raw plug-in of good"].status == "not refuted"


def test_the_record_is_read_back_and_every_number_of_the_page_is_in_it(everything):
    again = files.from_json(json.loads(everything.to_json()))
    assert again == everything
    assert again.headline == everything.headline
    assert len(everything.to_frame("pyarrow")) == len(everything.entries)


def test_the_same_seed_gives_the_same_floor(data):
    assert bayes.floor(data, **QUICK, seed=3) == bayes.floor(data, **QUICK, seed=3)


def test_a_stated_noise_rate_is_a_lower_end_and_the_headline_says_so():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 2))
    y = (x[:, 0] > 0) ^ (rng.random(4000) < 0.1)
    found = bayes.floor(Dataset.from_arrays(x, y.astype(int)), **QUICK, label_noise=0.1)
    assert found.low == 0.1
    assert "stated noise rate" in found.headline
    refuted = bayes.floor(Dataset.from_arrays(x, y.astype(int)), **QUICK, label_noise=0.4)
    assert refuted.low == 0.0


def test_votes_or_soft_labels_alone_are_enough():
    rng = np.random.default_rng(0)
    truth = rng.dirichlet([0.3, 0.3, 0.3], 3000)
    known = (1 - truth.max(axis=1)).mean()
    for table in (rng.multinomial(3, truth), truth):
        found = bayes.floor(votes=table)
        assert found.low < known < found.high
        assert found.best is None
        assert found.headline
    with refused("dataset"):
        bayes.floor()


def test_votes_and_soft_labels_that_the_labels_do_not_follow_are_not_used():
    """Labels that are the majority of votes have a lower Bayes error than one vote."""
    rng = np.random.default_rng(3)
    x, hidden = rng.normal(size=(2, 900, 2))  # no classifier here comes near the floor
    truth = posterior(hidden)
    votes = rng.multinomial(3, truth)
    drawn, majority = (rng.random(900) < truth[:, 1]).astype(int), votes.argmax(axis=1)
    for table, assumption in ((votes, "votes"), (truth, "soft-labels")):
        used = bayes.floor(Dataset.from_arrays(x, drawn), **QUICK, votes=table)
        assert used.bracket.low_assumption == assumption
        assert 0 < used.low < (1 - truth.max(axis=1)).mean()
        unused = bayes.floor(Dataset.from_arrays(x, majority), **QUICK, votes=table)
        assert (unused.low, unused.bracket.low_from) == (0.0, "")
        assert "assumption rejected" in {entry.status for entry in unused.entries if entry.assumption == assumption}
        assert "not used" in unused.headline


def test_a_noise_rate_and_votes_that_exclude_each_other_are_in_the_headline(data):
    votes = np.random.default_rng(1).multinomial(10, posterior(data.x))
    found = bayes.floor(data, **QUICK, votes=votes, label_noise=KNOWN + 0.04)
    assert found["Stated label noise"].status in ("contradicted", "refuted")
    assert found.bracket.low_assumption == "votes"
    assert "Stated label noise" in found.headline or "stated noise rate" in found.headline


def test_soft_labels_of_a_binary_problem_are_calibrated_too(data):
    soft = posterior(data.x) ** 3
    soft /= soft.sum(axis=1, keepdims=True)
    found = bayes.floor(data, **QUICK, votes=soft)
    assert found["Soft labels"].estimate.high < KNOWN
    assert found["Soft labels, isotonic"].estimate.low < KNOWN < found["Soft labels, isotonic"].estimate.high


def test_copies_of_training_examples_do_not_count():
    """The test set repeats training rows: 1-NN is right on all of them, which says nothing."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(600, 3)), rng.integers(0, 2, 600)
    x[400:500], y[400:500] = x[:100], y[:100]
    split = np.repeat(["train", "test"], [400, 200])
    found = bayes.floor(Dataset.from_arrays(x, y, split=split, ids=np.arange(600).astype(str)), **QUICK)
    assert (found.n_copies, found.n_test) == (100, 100)
    assert found.high >= 0.5 - 1e-9
    whole = bayes.floor(
        Dataset.from_arrays(
            np.concatenate([x[:400], x[:200]]),
            np.concatenate([y[:400], y[:200]]),
            split=split,
            ids=np.arange(600).astype(str),
        ),
        **QUICK,
    )
    assert (whole.n_test, whole.bracket.high_from) == (0, "guessing")


def test_discrete_inputs_repeat_without_being_copies():
    """Three bits, labels flipped in 20 %: every test input is in train, and the bracket holds 20 %."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (3000, 3)).astype(float)
    y = (x.sum(axis=1) % 2).astype(int) ^ (rng.random(3000) < 0.2)
    data = Dataset.from_arrays(x, y.astype(int))
    inputs = prepare_floor_inputs(data)
    assert inputs.equal.by_chance
    assert len(inputs.test) == len(inputs.split.test) == 600
    found = bayes.floor(data, estimators=("neighbours",), classifiers=("boosted trees",))
    assert 0.15 < found.low < 0.2 < found.high < 0.27
    assert found.bracket.low_assumption == "repeats"


def test_an_estimator_that_cannot_be_computed_is_named():
    x = np.column_stack([np.arange(60.0), np.zeros(60)])
    x[:, 0] = np.repeat([0.0, 1.0], 30)
    constant = Dataset.from_arrays(x, np.repeat([0, 1], 30), ids=np.arange(60).astype(str))
    found = bayes.floor(constant, classifiers=(), estimators=("neighbours", "gaussian"))
    assert list(found.skipped) == ["gaussian"]


def test_many_classes_and_few_examples():
    rng = np.random.default_rng(0)
    y = np.arange(240) % 40
    x = rng.normal(size=(240, 5)) + 3 * rng.normal(size=(40, 5))[y]
    found = bayes.floor(Dataset.from_arrays(x, y), **QUICK)
    assert 0 <= found.low <= found.high <= 39 / 40


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"estimators": ("magic",)}, "estimators"),
        ({"classifiers": ("magic",)}, "classifiers"),
        ({"calibrations": ("platt",)}, "calibrations"),
        ({"confidence": 95}, "confidence"),
        ({"label_noise": 1.5}, "label_noise"),
        ({"votes": np.ones((3, 5))}, "votes"),
        ({"budget": -1}, "budget"),
    ],
)
def test_bad_arguments_are_named(data, options, argument):
    with refused(argument):
        bayes.floor(data, **QUICK | options)


def test_predictions_that_do_not_cover_the_test_set_are_refused(data):
    with pytest.raises(InputError, match="rows"):
        bayes.floor(data, **QUICK, predictions={"m": posterior(data.x[:10])})


def test_models_enter_the_bracket_only_if_they_are_stated_to_be_held_out():
    data, official = gaussians(split=False), gaussians()
    memorised = np.eye(2)[data.labels]
    without = bayes.floor(data, **QUICK)
    seen = bayes.floor(data, **QUICK, predictions={"m": memorised})
    assert (seen.bracket, seen.entries, seen.best) == (without.bracket, without.entries, without.best)
    assert (seen["m"].estimate.value, seen["m"].status) == (0.0, "may have seen these rows")
    assert "--held-out" in str(seen.sections()[0].warnings)
    stated = Predictions.from_arrays(memorised, held_out=True)
    for found in (
        bayes.floor(data, **QUICK, predictions={"m": memorised}, held_out=True),
        bayes.floor(data, **QUICK, predictions={"m": stated}),
        bayes.floor(official, **QUICK, predictions={"m": memorised}),
    ):
        assert found.bracket.high_from == found.best.name == "m"
        assert found.high < without.high
        assert not found.seen
    crossed = bayes.floor(data, **QUICK, predictions={"m": GaussianNB()}, folds=3)  # not fitted yet
    assert abs(crossed["m"].estimate.value - KNOWN) < 0.05
    assert not crossed.seen


def test_decisions_of_closed_classifiers_make_the_errors_of_their_entries(data):
    inputs = prepare_floor_inputs(data)
    found = floor_of(inputs, bayes.FloorConfig(estimators=("neighbours", "gaussian", "bhattacharyya")))
    assert set(inputs.decisions) == {entry.name for entry in found.entries if entry.role == "classifier"}
    for name, decide in inputs.decisions.items():
        wrong = decide() != inputs.labels[inputs.test]
        assert found[name].estimate.value == pytest.approx(wrong.mean())


def test_the_best_classifier_was_evaluated_on_every_test_example(everything):
    best = everything.best
    few = dataclasses.replace(best.estimate, value=0.0, n=best.estimate.n // 10)
    partial = dataclasses.replace(best, name="on a tenth", estimate=few)
    assert dataclasses.replace(everything, entries=(partial, *everything.entries)).best == best


def test_the_error_of_the_best_of_six_covers_the_chosen_one():
    rng, true, n = np.random.default_rng(0), 0.1, 400
    alone, chosen = 0, 0
    for _ in range(400):
        error = stats.share(int(rng.binomial(n, true, 6).min()), n)
        assert error_of_best_classifier(error, 1) == error
        corrected = error_of_best_classifier(error, 6)
        assert corrected.value == error.value
        alone += error.low <= true <= error.high
        chosen += corrected.low <= true <= corrected.high
    assert alone / 400 < 0.9
    assert chosen / 400 >= 0.91  # the lower limit of the 99.9 % region of 95 %
