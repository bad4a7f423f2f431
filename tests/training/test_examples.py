"""Normalisation against scikit-learn, targets and shapes at the door."""

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler
from tests.refusals import refused

from hardpan.errors import InputError
from hardpan.training.examples import as_training_examples, examples_on, normalization, training_targets

CPU = torch.device("cpu")


def test_vectors_are_standardised_as_scikit_learn_does_it_from_training_rows_alone():
    rng = np.random.default_rng(0)
    x = rng.normal(5, 3, (9000, 4)) * [1, 10, 0.01, 1]
    x[:, 3] = 7.0
    rows = np.arange(0, 9000, 2)
    x[1] = 1e6  # a row that does not count
    found = normalization(x, rows)
    examples = examples_on(x, found, CPU)
    expected = StandardScaler().fit(x[rows]).transform(x[2:200])
    np.testing.assert_allclose(examples.normalize(examples.raw[2:200]).numpy(), expected, atol=1e-4)


def test_images_are_standardised_by_channel_and_turned_channels_first():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (50, 6, 5, 3), dtype=np.uint8)
    examples = examples_on(x, normalization(x), CPU)
    assert examples.raw.dtype == torch.uint8
    assert examples.input_shape == (3, 6, 5)
    seen = examples.normalize(examples.raw)
    assert seen.shape == (50, 3, 6, 5)
    expected = (x - x.mean((0, 1, 2))) / x.std((0, 1, 2))
    np.testing.assert_allclose(seen.permute(0, 2, 3, 1).numpy(), expected, atol=1e-5)


def test_nan_in_training_rows_is_refused():
    with pytest.raises(InputError, match=r"\bx\b"):
        normalization(np.array([[np.nan], [1.0]]))


@pytest.mark.parametrize("x", [np.zeros(3), np.zeros((2, 0)), np.zeros((1, 2, 3, 4, 5)), np.array([["a"]])])
def test_other_shapes_and_kinds_are_refused(x):
    with refused("x"):
        as_training_examples(x)


def test_targets():
    assert training_targets([0, 2, 1], 3, None)[1] == 3
    assert training_targets([0, 0, 0], 3, None)[1] == 2
    assert training_targets([[0.5, 0.5], [1, 0]], 2, 2)[0].dtype == np.float32
    for targets, n, classes in [
        ([0, 1], 3, None),
        ([0.5, 1], 2, None),
        ([-1, 1], 2, None),
        ([0, 3], 2, 3),
        ([[0.5, 0.6], [1, 0]], 2, None),
        ([[0.5, 0.5], [1, 0]], 2, 3),
    ]:
        with refused("targets"):
            training_targets(targets, n, classes)
