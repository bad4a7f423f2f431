"""Near-copies: an excess over rows held back from train, with a known rate of false alarms; facts otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as distributions

from hardpan import auditing, stats
from hardpan.auditing.copies import copies_p_value
from hardpan.auditing.evidence import Nearest
from hardpan.auditing.near_copies import NearCopies, near_copies
from hardpan.bayes.floors.neighbours import k_nearest
from hardpan.data.dataset import Dataset


def search(x, labels, n_test, seed=0) -> NearCopies | None:
    """As an audit searches a table whose last rows are an official test set."""
    rows = np.arange(len(x))
    train, test = rows[:-n_test], rows[-n_test:]
    group = np.unique(x, axis=0, return_inverse=True)[1].ravel()
    scaled = x / x[train].std(axis=0)
    inputs = train[np.unique(group[train], return_index=True)[1]]

    def near(queries):
        at, away = k_nearest(scaled[inputs], scaled[queries], min(9, len(inputs)))
        return queries, away, inputs[at]

    found = Nearest(*near(test), own=Nearest(*near(train)))
    return near_copies(found, group, labels, train, np.isin(group[test], group[train]), seed)


def heavy_tails(rng, n):
    return rng.standard_t(2, size=(n, 4))


def clusters_of_different_spread(rng, n):
    centres = 3 * rng.normal(size=(40, 6))
    return centres[rng.integers(0, 40, n)] + rng.normal(size=(n, 6)) * np.exp(rng.normal(size=(n, 1)) - 2)


def counts(rng, n):
    return rng.poisson(2.0, (n, 4)).astype(float)


def repeated_subjects(rng, n):
    return rng.normal(size=(n // 8, 8))[rng.integers(0, n // 8, n)] + 0.2 * rng.normal(size=(n, 8))


def spiral(rng, n):
    t = 20 * rng.random(n)
    return np.column_stack([np.cos(t), np.sin(t), t]) + 0.01 * rng.normal(size=(n, 3))


def many_columns(rng, n):
    return rng.normal(size=(n, 40)) @ rng.normal(size=(40, 40))


SHAPES = (heavy_tails, clusters_of_different_spread, counts, repeated_subjects, spiral, many_columns)


@pytest.mark.parametrize("shape", SHAPES)
def test_test_sets_that_are_drawn_like_train_are_rarely_called_near_copies(shape):
    false, draws = 0, 40
    for seed in range(draws):
        rng = np.random.default_rng([seed, 3])
        x = shape(rng, 500)
        labels = (rng.random(500) < 0.3 + 0.4 * (x[:, 0] > 0)).astype(int)
        found = search(x, labels, 150, seed)
        false += found is not None and found.p_value <= 0.05
    assert stats.clopper_pearson(false, draws, 0.998)[0] <= 0.05


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape is not counts])
def test_near_copies_are_listed_and_claimed(shape):
    for seed in range(4):
        rng = np.random.default_rng([seed, 4])
        x, planted = shape(rng, 1000), np.arange(700, 740)
        scale = x.std(axis=0)
        usual = np.median(k_nearest(x[:700] / scale, x[740:] / scale, 1)[1])
        away = rng.normal(size=(40, x.shape[1]))
        x[planted] = x[:40] + 0.02 * usual * scale * away / np.linalg.norm(away, axis=1, keepdims=True)
        found = search(x, rng.integers(0, 2, 1000), 300, seed)
        assert found.p_value < 0.01
        assert np.isin(planted, found.rows).mean() >= 0.95
        assert np.isin(found.rows[:30], planted).mean() >= 0.8
        assert found.expected < 20


def test_the_p_value_of_one_class_is_that_of_fisher():
    for back, back_hits, new, new_hits in ((20, 3, 30, 9), (5, 0, 8, 8), (40, 40, 10, 2)):
        table = [[new_hits, new - new_hits], [back_hits, back - back_hits]]
        expected = distributions.fisher_exact(table, alternative="greater").pvalue
        assert copies_p_value([(back, back_hits, new, new_hits)]) == pytest.approx(expected)


@pytest.mark.parametrize("shape", [heavy_tails, clusters_of_different_spread, spiral, many_columns])
def test_pairs_are_rarely_listed_where_none_was_planted(shape):
    listed, draws = 0, 60
    for seed in range(draws):
        x = shape(np.random.default_rng([seed, 6]), 500)
        found = search(x, np.zeros(500, dtype=int), 150, seed)
        listed += len(found.rows) > 0
    assert stats.clopper_pearson(listed, draws, 0.998)[0] <= 0.04  # the test of the excess, and that of pairs


def test_whole_settings_of_a_trial_that_are_held_out_are_no_copies():
    """A grid with eight rows per setting: rows held back from train equal others, test rows are one step away."""
    grid = np.stack(np.meshgrid(*[np.arange(5.0)] * 4, indexing="ij"), axis=-1).reshape(-1, 4)
    for seed in range(5):
        rng = np.random.default_rng([seed, 8])
        order = rng.permutation(len(grid))[:300]
        x = np.repeat(grid[order], 6, axis=0)
        found = search(x, rng.integers(0, 2, len(x)), 60 * 6, seed)
        assert found.p_value > 0.02
        assert not len(found.rows)  # on a grid distances are equal: no pairs


def copied_records(rng):
    """Rows of a smooth rule with noise, 100 of the 400 test rows copied from train: 1-NN may be the best or not."""
    x = rng.normal(size=(1400, 5))
    y = (rng.random(1400) < 1 / (1 + np.exp(-2 * x[:, 0]))).astype(int)
    x[1000:1100], y[1000:1100] = x[:100], y[:100]
    return x, y


@pytest.mark.parametrize(("kind", "noise"), [("test-copies", 0.0), ("near-copies", 1e-3)])
def test_the_severity_of_copies_does_not_depend_on_which_model_is_the_best(kind, noise):
    best, found = set(), []
    for seed in range(6):
        rng = np.random.default_rng([seed, 7])
        x, y = copied_records(rng)
        x[1000:1100] += noise * rng.normal(size=(100, 5))
        data = Dataset.from_arrays(x, y, split=np.repeat(["train", "test"], [1000, 400]))
        report = auditing.audit(data, ensemble="none", flow="none")
        best.add(report.floor.best.name)
        found += [item for item in report.problems if item.kind == kind]
    assert len(best) > 1
    assert [item.severity for item in found] == ["high" if noise == 0 else "medium"] * 6


def test_an_audit_claims_near_copies_only_where_the_test_set_is_official():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(800, 5)), rng.integers(0, 2, 800)
    x[600:660] = x[:60] + 1e-3
    for split in (np.repeat(["train", "test"], [600, 200]), None):
        data = Dataset.from_arrays(x, y, split=split, ids=np.arange(800).astype(str))
        report = auditing.audit(data, ensemble="none", flow="none")
        (item,) = (problem for problem in report.problems if problem.kind == "near-copies")
        if split is None:
            assert (item.severity, item.p_value) == ("note", None)
            pairs = set(range(60)) | set(range(600, 660))
            assert len(set(item.rows) & pairs) >= 10
            assert len(set(item.rows) - pairs) <= 1
        else:
            assert item.p_value < 0.001
            assert set(range(600, 660)) <= set(item.rows)
            assert "nearly copies" in item.advice or item.severity == "note"
