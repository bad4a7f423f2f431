"""Stores of recorded predictions as models on test sets: each seed is one, at the last epoch that all have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError
from hardpan.predictions import Predictions
from hardpan.testbed.predictions import SetPredictions, set_predictions

TOP_GUESSES = 5


def is_store(path: Path) -> bool:
    """Whether a folder is a store of predictions."""
    return (path / "zarr.json").is_file()


def sets_of_store(path: Path, which: str = "") -> dict[str, SetPredictions]:
    """Predictions by part of the split ("train", "test", ...); a store without a split gives one set, ``which``."""
    held = Predictions.open(path)
    if held.labels is None:
        raise InputError(f"{path}: predictions come without labels; record or import them with labels")
    if not held.epochs:
        raise InputError(f"{path}: holds no epoch that every seed has; record one first")
    epoch = held.epochs[-1]
    model = held.config.get("model")
    name = model if isinstance(model, str) else path.name
    models = [f"{name} seed {seed}" for seed in held.seeds]
    guesses = np.stack([_best_first(held, seed, epoch) for seed in held.seeds])
    split = held.split if held.split is not None else np.full(len(held), which)
    return {
        part: set_predictions(
            models, guesses[:, split == part], held.labels[split == part], str(path), held.ids[split == part]
        )
        for part in dict.fromkeys(split.tolist())
    }


def ids_of_store(path: Path, which: str) -> list[str]:
    """Ids of the examples of one part of the split, or of all."""
    held = Predictions.open(path)
    ids = held.ids if held.split is None else held.ids[held.split == which]
    return [str(name) for name in ids]


def _best_first(held: Predictions, seed: int, epoch: int) -> NDArray[np.int64]:
    """The classes (N, k) with the largest probabilities, a block at a time."""
    k = min(TOP_GUESSES, held.n_classes)
    parts = [
        np.argsort(-held.read(seed, epoch, start, stop), axis=1, kind="stable")[:, :k]
        for start, stop in held.blocks()
    ]
    return np.concatenate(parts)
