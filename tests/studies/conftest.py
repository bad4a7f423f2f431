"""Small worlds in which the answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from hardpan.data.dataset import Dataset, row_ids
from hardpan.training import TrainConfig

NAMES = ("a", "b", "c")


def gaussians(
    n: int, seed: int, *, turn: int = 0, away: float = 0.0, test: int = 0, name: str = "world"
) -> Dataset:
    """Three classes in the plane, far apart; ``turn`` gives each the place of another, ``away`` moves them all."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    angle = 2 * np.pi * ((labels + turn) % 3) / 3
    x = 3 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + rng.standard_normal((n, 2)) + away
    split = np.where(np.arange(n) < n - test, "train", "test") if test else None
    return Dataset(name, x, row_ids(n), labels.astype(np.int64), NAMES, split)


@pytest.fixture(scope="session")
def world() -> Dataset:
    """240 training and 120 test examples."""
    return gaussians(360, 0, test=120)


@pytest.fixture(scope="session")
def same() -> Dataset:
    """A new test set from the same distribution."""
    return gaussians(120, 1, name="same")


@pytest.fixture(scope="session")
def turned() -> Dataset:
    """A new test set in which the classes have changed places."""
    return gaussians(120, 2, turn=1, name="turned")


@pytest.fixture(scope="session")
def moved() -> Dataset:
    """The same elsewhere, where nothing was trained on, so that it can be learnt beside the old places."""
    return gaussians(120, 2, turn=1, away=15.0, name="moved")


@pytest.fixture(scope="session")
def quick() -> TrainConfig:
    return TrainConfig(model="linear", seeds=1, epochs=6, batch=32, device="cpu")
