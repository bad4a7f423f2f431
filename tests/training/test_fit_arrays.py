"""Training on arrays: known answers, equal seeds, soft labels, groups."""

import numpy as np
import pytest
import torch

from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.training import TrainConfig, fit_arrays

CPU = {"device": "cpu"}


def two_gaussians(n, seed, shift=1.0, dimension=3):
    """Classes at ±shift/√d on every axis: the posterior is a logistic function of 2·shift/√d·Σx."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    x = rng.normal(size=(n, dimension)) + shift / np.sqrt(dimension) * (2 * labels - 1)[:, None]
    posterior = 1 / (1 + np.exp(-2 * shift / np.sqrt(dimension) * x.sum(1)))
    return x, labels, np.stack([1 - posterior, posterior], axis=1)


def test_logistic_regression_finds_the_posterior_of_two_gaussians():
    x, labels, _ = two_gaussians(20_000, 0)
    seen, _, posterior = two_gaussians(2_000, 1)
    fit = fit_arrays(x, labels, seen, model="linear", seeds=1, epochs=5, record_every=5, batch=256, **CPU)
    assert np.abs(fit.probs[0, 0] - posterior).max() < 0.06
    np.testing.assert_allclose(fit.probs.sum(axis=3), 1, atol=1e-5)


def test_soft_labels_carry_more_than_drawn_ones():
    x, labels, truth = two_gaussians(400, 0)
    seen, _, posterior = two_gaussians(2_000, 1)
    settings = {"model": "linear", "seeds": 1, "epochs": 40, "record_every": 40, "batch": 50, **CPU}
    hard = fit_arrays(x, labels, seen, **settings)
    soft = fit_arrays(x, truth, seen, **settings)
    errors = [np.abs(fit.probs[0, 0] - posterior).mean() for fit in (hard, soft)]
    assert errors[1] < 0.5 * errors[0]
    assert errors[1] < 0.01


def test_soft_labels_of_zeros_and_ones_are_class_numbers():
    x, labels, _ = two_gaussians(200, 0)
    settings = {"model": "mlp", "seeds": 1, "epochs": 2, "smoothing": 0.1, **CPU}
    one = fit_arrays(x, labels, x, **settings)
    other = fit_arrays(x, np.eye(2)[labels], x, **settings)
    np.testing.assert_allclose(one.probs, other.probs, atol=1e-5)


def test_same_seed_same_bits_and_nothing_outside_is_touched():
    x, labels, _ = two_gaussians(300, 0)
    config = TrainConfig(model="mlp", seeds=2, epochs=2, model_options={"dropout": 0.2}, device="cpu")
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    threads = torch.get_num_threads()
    one = fit_arrays(x, labels, x, config)
    assert torch.equal(torch.rand(1), expected)
    assert torch.get_num_threads() == threads
    torch.rand(17)
    other = fit_arrays(x, labels, x, config)
    np.testing.assert_array_equal(one.probs, other.probs)
    assert not np.array_equal(one.probs[0], one.probs[1])
    third = fit_arrays(x, labels, x, config, seeds=1, first_seed=1)
    np.testing.assert_array_equal(third.probs[0], one.probs[1])


@pytest.mark.parametrize("model", ["linear", "mlp", "convnet"])
def test_digits_are_learned(model):
    digits = Dataset.open("digits")
    parts = digits.splits()
    epochs = 6 if model == "convnet" else 12
    given = (digits.x[parts.train], digits.labels[parts.train], digits.x[parts.test])
    fit = fit_arrays(*given, model=model, seeds=1, epochs=epochs, record_every=epochs, **CPU)
    right = (fit.probs[0, 0].argmax(1) == digits.labels[parts.test]).mean()
    assert right > 0.92


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "adamw"},
        {"optimizer": "adam", "schedule": "constant"},
        {"schedule": "step", "clip": 1.0},
        {"ema": 0.9},
        {"precision": "bf16"},
        {"smoothing": 0.1, "momentum": 0.0},
        {"augment": "crop-flip", "batch": 1000},
    ],
)
def test_every_setting_trains(changes):
    digits = Dataset.open("digits")
    fit = fit_arrays(
        digits.x[:700], digits.labels[:700], digits.x[700:1000], model="mlp", seeds=1, epochs=4, **CPU, **changes
    )
    assert fit.probs.shape == (1, 4, 300, 10)
    right = (fit.probs[0].argmax(2) == digits.labels[700:1000]).mean(1)
    assert right[-1] > (0.2 if "batch" in changes else 0.6)
    assert fit.history[0][-1]["loss"] < fit.history[0][0]["loss"]


def worst_group(objective, **changes):
    """Two groups with opposite rules: the rare one is sacrificed unless the objective minds it."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 2))
    groups = (np.arange(2000) % 10 == 0).astype(np.int64)
    labels = np.where(groups == 1, x[:, 1] > 0, x[:, 0] > 0).astype(np.int64)
    given = None if objective == "erm" else groups
    settings = {"model": "linear", "seeds": 1, "epochs": 20, "record_every": 20, "objective": objective, **CPU}
    fit = fit_arrays(x, labels, x, group=given, **settings, **changes)
    right = fit.probs[0, 0].argmax(1) == labels
    return min(right[groups == 0].mean(), right[groups == 1].mean())


@pytest.mark.parametrize("objective", ["groupdro", "reweight", "upsample", "subsample"])
def test_objectives_over_groups_lift_the_worst_group(objective):
    # By symmetry the fair boundary is the diagonal, right for three quarters of each group.
    assert worst_group("erm") < 0.62
    assert worst_group(objective) > 0.7


def test_what_cannot_be_is_refused():
    x, labels, _ = two_gaussians(20, 0)
    with pytest.raises(InputError, match=r"\bmodel\b"):
        fit_arrays(x, labels, x, model="mlp,linear")
    with pytest.raises(InputError, match=r"\bevaluate\b"):
        fit_arrays(x, labels, x[:, :2], model="mlp")
    for wrong in (np.zeros(7, dtype=int), np.full(len(x), 0.5), np.full(len(x), -1)):
        with pytest.raises(InputError) as caught:
            fit_arrays(x, labels, x, model="linear", objective="reweight", group=wrong)
        assert caught.value.argument == "group"
    with pytest.raises(InputError, match="groups"):
        fit_arrays(x, labels, x, model="mlp", objective="groupdro", epochs=1)
    with pytest.raises(InputError, match=r"\bdevice\b"):
        fit_arrays(x, labels, x, model="mlp", device="tpu")
    with pytest.raises(InputError) as caught:
        fit_arrays(x, labels, x, model="mlp", patience=3)
    assert caught.value.argument == "patience"
