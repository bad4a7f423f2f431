"""Copies of training rows in an official test set: false-alarm rates, power, effect; facts about repeats."""

import numpy as np
import pytest

from hardpan import Dataset, auditing, stats
from hardpan.auditing.copies import copies_across_split, copy_similarity_test, held_back_copies_test, natural_copies
from hardpan.bayes.floors.inputs import split_inputs

BARE = {"ensemble": "none", "flow": "none"}  # nothing is trained


def categories(rng, n):
    """Three columns with frequent and rare values, the second within the first."""
    first = np.minimum(rng.zipf(1.8, n), 80)
    return np.column_stack([first, 10 * first + rng.integers(0, 3, n), rng.integers(0, 4, n)])


def counts(rng, n):
    return rng.poisson(0.4 + 0.8 * rng.random((n, 1)), (n, 7))


def reals(rng, n):
    return rng.normal(size=(n, 3))


def drawn(make, rng, train, test):
    x = make(rng, train + test).astype(float)
    return x, (x[:, 0] + rng.normal(size=len(x)) > np.median(x[:, 0])).astype(int)


def p_values(x, y, train, seed):
    group = np.unique(x, axis=0, return_inverse=True)[1].ravel()
    rows = group, y, np.arange(train), np.arange(train, len(x))
    return held_back_copies_test(*rows, seed), copy_similarity_test(*rows, seed)


@pytest.mark.parametrize("make", [categories, pytest.param(counts, marks=pytest.mark.soak), reals])
@pytest.mark.parametrize("shifted", [False, True])
def test_natural_repeats_are_no_copies(make, shifted):
    """Also where the classes have other proportions in test."""
    false = np.zeros(3)
    for draw in range(150):
        rng = np.random.default_rng([draw, 11])
        x, y = drawn(make, rng, 600, 600)
        test = np.arange(600, 1200)
        weight = np.where(shifted & (y[test] == 1), 8.0, 1.0)
        rows = np.r_[np.arange(600), rng.choice(test, 200, replace=False, p=weight / weight.sum())]
        both = p_values(x[rows], y[rows], 600, draw)
        false += both[0] <= 0.05, both[1] <= 0.05, min(both) <= 0.01
    low = stats.clopper_pearson(false.astype(int), 150, 0.998)[0]
    assert (low <= [0.05, 0.05, 0.02]).all()


@pytest.mark.parametrize(
    ("make", "copies", "power"),
    [(categories, 200, 0.95), (counts, 200, 0.95), (reals, 10, 0.95), (counts, 60, 0.1)],
)
def test_copies_are_found(make, copies, power):
    found = 0
    for draw in range(40):
        rng = np.random.default_rng([draw, 12])
        x, y = drawn(make, rng, 600, 200)
        rows = rng.choice(600, copies, replace=False)
        x[600 : 600 + copies], y[600 : 600 + copies] = x[rows], y[rows]
        found += min(p_values(x, y, 600, draw)) <= 0.01
    assert found / 40 >= power


def test_the_natural_number_of_repeats_is_that_of_test_sets_drawn_like_train():
    counted, expected = [], []
    for draw in range(60):
        x, y = drawn(categories, np.random.default_rng([draw, 13]), 600, 200)
        group = np.unique(x, axis=0, return_inverse=True)[1].ravel()
        counted.append(np.isin(group[600:], group[:600]).sum())
        expected.append(natural_copies(group, y, np.arange(600), np.arange(600, 800)))
    away = np.array(counted) - expected
    assert abs(away.mean()) < 4 * away.std() / np.sqrt(60) + 1
    assert np.mean(counted) > 100


def official(x, y, test):
    split = np.repeat(["train", "test"], [len(x) - test, test])
    return Dataset.from_arrays(x, y, split=split, ids=np.arange(len(x)).astype(str))


def audited(x, y, test, **options):
    report = auditing.audit(official(x, y, test), **BARE, **options)
    return {(item.kind, item.of): item for item in report.problems}, report


@pytest.mark.parametrize(("copied", "broken"), [(60, False), (150, True)])
def test_copies_are_a_claim_with_the_effect_on_the_error(copied, broken):
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(800, 4)), rng.integers(0, 2, 800)  # nothing can be learned
    x[600 : 600 + copied], y[600 : 600 + copied] = x[:copied], y[:copied]
    found, report = audited(x, y, 200)
    item = found["test-copies", "test"]
    assert (item.count.value, item.severity, item.breaks) == (copied, "high", broken)
    assert item.rows == tuple(range(600, 600 + copied))
    assert item.p_value < 0.01
    assert item.effect.low > 0
    assert item.details["expected"] == 0
    wrong = report.floor.best.estimate, report.floor.best.apart.estimate
    assert item.details["without"].value == pytest.approx(wrong[1].value - wrong[0].value)
    assert item.effect.value == pytest.approx(copied / 200 * wrong[1].value)  # whatever the best model remembers
    assert report.floor.high >= 0.5 - 1e-9
    assert report.floor.n_test == report.measures["best_error"].n == 200
    assert ("broken" in report.headline) == broken


def test_natural_repeats_are_a_fact_and_stay_in_the_population():
    rng = np.random.default_rng(6)
    x = rng.integers(0, 4, (2000, 4)).astype(float)
    y = (x[:, 0] > 1).astype(int) ^ (rng.random(2000) < 0.15)
    found, report = audited(x, y, 500)
    item = found["test-copies", "test"]
    assert item.count.value > 450
    assert (item.severity, item.breaks) == ("note", False)
    assert abs(item.details["expected"] - item.count.value) < 20
    assert found["conflicting-labels", "all"].severity == found["duplicates", "test"].severity == "note"
    assert not report.floor.bracket.apart
    assert report.measures["best_error"].n == 500
    assert report.measures["best_error"].value <= report.floor.high
    assert report.floor.high > 0.15


def test_a_split_balanced_over_the_inputs_is_no_claim_of_copies():
    rng = np.random.default_rng(12)
    x = np.repeat(np.stack(np.meshgrid(*[np.arange(6.0)] * 3), axis=-1).reshape(-1, 3), 8, axis=0)
    test = np.flatnonzero(np.arange(len(x)) % 8 >= 6)  # two of the eight runs at every point of the grid
    order = np.concatenate([np.setdiff1d(np.arange(len(x)), test), test])
    y = (x[:, 0] > 2).astype(int) ^ (rng.random(len(x)) < 0.2)
    found, report = audited(x[order], y[order], len(test))
    item = found["test-copies", "test"]
    assert (item.count.value, item.severity, item.breaks) == (len(test), "note", False)
    assert item.details["similarity_p_value"] <= 0.002
    assert item.p_value > 0.5
    assert "balanced" in item.advice
    assert report.floor.bracket.apart


def test_copies_that_do_not_change_the_error_are_a_note():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(2000, 3))
    y = (x[:, 0] > 0).astype(int) ^ (rng.random(2000) < 0.2)
    x[1500:1520], y[1500:1520] = x[:20], y[:20]
    item = audited(x, y, 500)[0]["test-copies", "test"]
    assert (item.count.value, item.severity) == (20, "note")
    assert item.p_value < 0.001


def test_equal_rows_with_different_labels_are_a_note_with_what_no_function_can_do():
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(400, 3)), rng.integers(0, 2, 400)
    x[:30], y[:10], y[10:20], y[20:30] = np.tile(x[:10], (3, 1)), 0, 0, 1
    item = audited(x, y, 100)[0]["conflicting-labels", "all"]
    assert (item.severity, item.count.value, item.details["groups"]) == ("note", 30, 10)
    assert item.details["most_right"] == pytest.approx(2 / 3)
    assert item.details["least_error"] == pytest.approx(10 / 400)


def test_a_split_that_is_made_has_no_equal_rows_across_it():
    x, y = drawn(categories, np.random.default_rng(9), 900, 100)
    data = Dataset.from_arrays(x, y, ids=np.arange(1000).astype(str))
    inputs = split_inputs(data, y, 0)
    assert copies_across_split(inputs) is None
    assert not len(inputs.copied)
    report = auditing.audit(data, **BARE)
    assert not any(item.kind == "test-copies" for item in report.problems)
    assert "for inputs not in train" in report.view().lede[0]
    assert report.budget is None or report.budget.total.value == report.measures["best_error"].value


def test_numbers_are_for_new_groups_where_groups_are_named():
    rng = np.random.default_rng(10)
    group = np.repeat(np.arange(80), 10)
    x = rng.normal(size=(80, 6))[group] + 0.1 * rng.normal(size=(800, 6))
    y = rng.integers(0, 2, 80)[group]
    order = rng.permutation(800)
    data = Dataset.from_arrays(x[order], y[order], metadata={"group": group[order]})
    report = auditing.audit(data, **BARE)
    assert report.floor.high >= 0.5 - 1e-9
    assert "for new groups" in report.view().lede[0]
    assert not np.isin(group[order][report.evidence.split.test], group[order][report.evidence.split.train]).any()
    with pytest.raises(auditing.running.InputError, match="groups"):
        auditing.audit(Dataset.from_arrays(x, y, metadata={"group": np.zeros(800)}), **BARE)


def test_tables_of_models_and_classes_have_the_rows_and_intervals_of_the_best_error():
    rng = np.random.default_rng(14)
    group = np.repeat(np.arange(90), 8)
    x = rng.normal(size=(720, 4))
    y = (x[:, 0] > 0).astype(int) ^ (rng.random(720) < rng.choice([0.05, 0.4], 90)[group])
    probs = np.eye(2)[(x[:, 0] > 0).astype(int)]
    data = Dataset.from_arrays(x, y, metadata={"group": group})
    report = auditing.audit(data, **BARE, predictions={"m": probs}, held_out=True)
    (section,) = [item for item in report.sections() if item.key == "models"]
    by_model = next(table for table in section.folded if table.title.startswith("All models"))
    listed, entry = by_model.rows[0][1], report.floor["m"]
    assert (listed.value, listed.low, listed.high) == (
        entry.estimate.value,
        entry.estimate.low,
        entry.estimate.high,
    )
    by_class = next(table for table in section.folded if table.title == "Error by class")
    test = report.evidence.split.test
    assert sum(row[1].n for row in by_class.rows) == len(test) == entry.estimate.n
    naive = stats.share(round(listed.value * listed.n), listed.n)
    assert listed.high - listed.low > naive.high - naive.low
