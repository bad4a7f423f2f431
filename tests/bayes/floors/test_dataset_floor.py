"""The floor of a dataset: what is passed is used, the bracket holds, what is wrong is refuted."""

import dataclasses
import json

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from tests.refusals import refused

from hardpan import Dataset, Predictions, bayes, files, stats
from hardpan.bayes.floors.dataset_floor import floor_of
from hardpan.bayes.floors.error_estimates import error_of_best_classifier
from hardpan.bayes.floors.inputs import prepare_floor_inputs
from hardpan.errors import InputError
from hardpan.pages import formatting

KNOWN = float(norm.cdf(-1))  # two unit Gaussians at distance 2
QUICK = {"classifiers": ()}


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
    assert roles["Raw plug-in of good"] == "estimate"
    assert roles["Votes, uncorrected"] == "lower"
    assert everything.bracket.n_classifiers == sum(role == "classifier" for role in roles.values()) >= 5
    for name in ("1-NN bound", "Raw plug-in of good"):
        assert everything[name].under_assumption


def test_the_plug_in_of_a_calibrated_model_is_near_the_known_error(everything):
    item = everything["Raw plug-in of good"].estimate
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


def test_the_upper_end_holds_with_and_without_test_rows_that_equal_a_training_row():
    """The test set repeats training rows: 1-NN is right on all of them, which says nothing about new ones."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(600, 3)), rng.integers(0, 2, 600)
    x[400:500], y[400:500] = x[:100], y[:100]
    split = np.repeat(["train", "test"], [400, 200])
    found = bayes.floor(Dataset.from_arrays(x, y, split=split, ids=np.arange(600).astype(str)), **QUICK)
    assert (found.n_copies, found.n_test) == (100, 200)
    assert found["1-NN"].estimate.value < 0.4
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
    assert (whole.n_test, whole.bracket.high_from) == (200, "guessing")


def bits(n, columns, noise, seed):
    """Labels are the parity of the first two bits, flipped at a rate."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (n, columns))
    return x.astype(float), ((x[:, 0] + x[:, 1]) % 2 ^ (rng.random(n) < noise)).astype(int)


def test_in_an_official_test_set_natural_repeats_are_part_of_the_population():
    x, y = bits(3000, 3, 0.2, 0)
    split = np.repeat(["train", "test"], [2400, 600])
    data = Dataset.from_arrays(x, y, split=split, ids=np.arange(3000).astype(str))
    found = bayes.floor(data, classifiers=("boosted trees",))
    assert (found.n_test, found.n_copies, found.unit) == (600, 600, "rows")
    assert 0.15 < found.low < 0.2
    assert found.bracket.low_assumption == "repeats"


def test_a_split_that_is_made_keeps_equal_rows_on_one_side_and_draws_inputs():
    x, y = bits(3000, 8, 0.2, 0)
    inputs = prepare_floor_inputs(Dataset.from_arrays(x, y, ids=np.arange(3000).astype(str)))
    assert not len(inputs.copied)
    train, test = inputs.split.train, inputs.split.test
    assert not np.isin(inputs.equal.group[test], inputs.equal.group[train]).any()
    assert abs(len(test) - 600) < 100  # with multiplicity
    found = floor_of(inputs, bayes.FloorConfig())
    assert (found.unit, found.n_test, found.n_groups) == ("equal inputs", len(test), 51)
    entry = found["1-NN"]
    assert entry.sample.groups == 51
    assert entry.estimate.high - entry.estimate.low > 1.1 * np.subtract(
        *reversed(stats.clopper_pearson(round(entry.estimate.value * entry.estimate.n), entry.estimate.n))
    )


def test_every_input_has_the_same_probability_to_be_in_test():
    """One input has half of the rows: it is a test example in a fifth of the splits."""
    x = np.r_[np.zeros(200), np.arange(1, 201)][:, None]
    data = Dataset.from_arrays(x, np.arange(400) % 2, ids=np.arange(400).astype(str))
    often = sum(0 in prepare_floor_inputs(data, seed).split.test for seed in range(300))
    low, high = stats.clopper_pearson(often, 300, 0.999)
    assert low < 0.2 < high


def groups_of(n_groups, each, seed):
    """Rows of one group are nearly alike, and labels are drawn per group: a new group's label cannot be known."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), each)
    centre = 2 * rng.normal(size=(n_groups, 5))
    x = centre[group] + 0.1 * rng.normal(size=(len(group), 5))
    order = rng.permutation(len(group))
    return x[order], rng.integers(0, 2, n_groups)[group][order], group[order]


def test_with_groups_split_folds_and_intervals_are_by_group():
    x, y, group = groups_of(120, 10, 0)
    rows = bayes.floor(Dataset.from_arrays(x, y), **QUICK)
    assert rows.high < 0.05  # for further rows of the same groups
    data = Dataset.from_arrays(x, y, metadata={"group": group})
    inputs = prepare_floor_inputs(data)
    assert not np.isin(group[inputs.split.test], group[inputs.split.train]).any()
    found = bayes.floor(data, **QUICK)
    assert (found.unit, found.n_groups, found.n_known_groups) == ("groups", 24, 0)
    assert found.high >= 0.5 - 1e-9
    assert "for new groups" in found.headline
    crossed = bayes.floor(data, **QUICK, predictions={"m": KNeighborsClassifier(1)}, folds=4)
    assert crossed["m"].estimate.value > 0.3
    official = Dataset.from_arrays(
        x, y, split=np.where(np.arange(1200) < 900, "train", "test"), metadata={"group": group}
    )
    found = bayes.floor(official, **QUICK)
    assert found.n_known_groups == found.n_groups > 100
    assert "new groups" not in found.headline


def test_upper_ends_for_new_groups_hold():
    """Labels have a rate per group: 0.1 or 0.5 of them are flipped; the Bayes error for new groups is 0.3."""
    misses = 0
    for seed in range(40):
        rng = np.random.default_rng([9, seed])
        group = np.repeat(np.arange(100), rng.integers(1, 15, 100))
        x = rng.normal(size=(len(group), 2))
        flips = rng.random(len(group)) < rng.choice([0.1, 0.5], 100)[group]
        data = Dataset.from_arrays(x, (x[:, 0] > 0).astype(int) ^ flips, metadata={"group": group})
        misses += bayes.floor(data, classifiers=("linear model",), neighbours=False).high < 0.3
    assert stats.clopper_pearson(misses, 40, 0.998)[0] <= 0.05


def test_many_classes_and_few_examples():
    rng = np.random.default_rng(0)
    y = np.arange(240) % 40
    x = rng.normal(size=(240, 5)) + 3 * rng.normal(size=(40, 5))[y]
    found = bayes.floor(Dataset.from_arrays(x, y), **QUICK)
    assert 0 <= found.low <= found.high <= 39 / 40


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"classifiers": ("magic",)}, "classifiers"),
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
    found = floor_of(inputs, bayes.FloorConfig())
    assert set(inputs.decisions) == {entry.name for entry in found.entries if entry.role == "classifier"}
    for name, decided in inputs.decisions.items():
        wrong = decided != inputs.labels[inputs.test]
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


@pytest.mark.parametrize("seed", range(3))
def test_the_upper_end_holds_without_columns_that_number_the_rows(seed):
    """A file put together class by class: the row number gives the class away, and says nothing about new rows."""
    data = gaussians(seed, 1500, split=False)
    order = np.argsort(data.labels, kind="stable")
    number = 900 + np.cumsum(np.random.default_rng(seed).integers(1, 30, len(order)))
    x = np.column_stack([data.x[order], number])
    found = bayes.floor(Dataset.from_arrays(x, data.labels[order]), classifiers=("boosted trees",))
    assert found.numbering == ("2",)
    assert found.best_error.high < KNOWN < found.high < 0.3
    assert found.bracket.apart
    mixed = np.random.default_rng(seed).permutation(len(x))
    assert not bayes.floor(Dataset.from_arrays(x[mixed], data.labels[order][mixed]), **QUICK).numbering
