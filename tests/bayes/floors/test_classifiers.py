import numpy as np
import pytest

from hardpan.bayes.floors.classifiers import CLASSIFIERS, Table, fit_classifier

PARTS = np.arange(1200), np.arange(1200, 1600), np.arange(1600, 2000)


def table(x, y, categorical=None):
    d = x.shape[1]
    which = np.zeros(d, dtype=bool) if categorical is None else categorical
    return Table(x, np.nan_to_num(x), y.astype(np.int64), int(y.max()) + 1, which)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_learns_a_line(name):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 4))
    data = table(x, x[:, 0] + x[:, 1] > 0)
    found = fit_classifier(name, data, *PARTS, seconds=5)
    assert found.probs.shape == (400, 2)
    np.testing.assert_allclose(found.probs.sum(axis=1), 1)
    assert (found.probs.argmax(axis=1) == data.labels[1600:]).mean() > 0.9
    again = fit_classifier(name, data, *PARTS, seconds=5)
    np.testing.assert_array_equal(again.probs, found.probs)


def test_boosted_trees_take_categories_and_missing_values():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.integers(0, 12, 2000).astype(float), rng.normal(size=2000)])
    y = np.isin(x[:, 0], (0, 3, 5, 10)) ^ (x[:, 1] > 0)
    x[rng.random(2000) < 0.1, 1] = np.nan
    found = fit_classifier("boosted trees", table(x, y, np.array([True, False])), *PARTS, seconds=5)
    assert (found.probs.argmax(axis=1) == y[1600:]).mean() > 0.9


def test_a_class_without_training_examples_gets_probability_zero():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 2))
    y = np.where(np.arange(2000) >= 1900, 2, x[:, 0] > 0)
    for name in CLASSIFIERS:
        probs = fit_classifier(name, table(x, y), *PARTS, seconds=2).probs
        assert probs.shape == (400, 3)
        assert (probs[:, 2] == 0).all()


def test_of_columns_that_do_not_fit_into_the_time_the_telling_ones_are_kept():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 12, 2000)
    x = rng.normal(size=(2000, 400))
    x[:, [7, 200, 399]] += 4 * rng.permuted(np.tile(np.arange(12), (3, 1)), axis=1)[:, y].T
    found = fit_classifier("boosted trees", table(x, y, np.arange(400) == 3), *PARTS, seconds=1.0)
    assert ", 198 of 400 columns" in found.settings
    assert (found.probs.argmax(axis=1) != y[PARTS[2]]).mean() < 0.25
