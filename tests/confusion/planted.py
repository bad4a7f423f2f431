"""A small ensemble trained on digits with NumPy alone, and planted predictions whose answers are known."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.dataset import Dataset

EPOCHS = 8
SEEDS = 3


@functools.cache
def trained_on_digits(
    width: int = 64, flipped: int = 12
) -> tuple[Dataset, NDArray[np.int64], NDArray[np.str_], Any]:
    """Dataset, labels of which ``flipped`` are wrong, split, and probabilities (3, 8, N, 10) as float16."""
    data = Dataset.open("digits")
    assert data.labels is not None
    labels = data.labels.copy()
    rng = np.random.default_rng(5)
    wrong = rng.choice(len(labels), flipped, replace=False)
    labels[wrong] = (labels[wrong] + rng.integers(1, 10, flipped)) % 10
    split = np.where(rng.random(len(labels)) < 0.5, "train", "test")
    x = data.x.reshape(len(labels), -1) / 16.0
    train = np.flatnonzero(split == "train")
    probs = np.empty((SEEDS, EPOCHS, len(labels), 10), dtype=np.float16)
    for seed in range(SEEDS):
        draw = np.random.default_rng([1, seed])
        features = np.maximum(x @ draw.normal(size=(64, width)) / 3, 0)
        weights = np.zeros((width, 10))
        for epoch in range(EPOCHS):
            for batch in np.array_split(draw.permutation(train), 30):
                error = softmax(features[batch] @ weights)
                error[np.arange(len(batch)), labels[batch]] -= 1
                weights -= 0.1 * features[batch].T @ error / len(batch)
            probs[seed, epoch] = softmax(features @ weights)
    return data, labels, split, probs


def softmax(z: NDArray[np.float64]) -> NDArray[np.float64]:
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def planted_wrong() -> NDArray[np.int64]:
    """Row numbers of the labels that :func:`trained_on_digits` flipped."""
    data, labels, _, _ = trained_on_digits()
    assert data.labels is not None
    return np.flatnonzero(labels != data.labels)


def random_probs(*shape: int, seed: int = 0, dtype: Any = np.float64) -> NDArray[Any]:
    """Dirichlet probabilities of the given shape, classes last."""
    return np.random.default_rng(seed).dirichlet(np.full(shape[-1], 0.5), size=shape[:-1]).astype(dtype)
