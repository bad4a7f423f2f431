"""Predictions for tests: rows that are probabilities, with ids and labels."""

import numpy as np

from hardpan.predictions.checks import softmax


def logits(*shape, seed=0):
    return np.random.default_rng(seed).normal(scale=3.0, size=shape)


def probabilities(*shape, seed=0, dtype=np.float16):
    return softmax(logits(*shape, seed=seed)).astype(dtype)


def names(n):
    return np.array([f"image-{row}" for row in range(n)])


def labels(n, classes, seed=0):
    return np.random.default_rng(seed).integers(0, classes, n)
