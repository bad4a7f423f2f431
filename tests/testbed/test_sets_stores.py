"""Stores of recorded predictions where the testbed takes predictions."""

from pathlib import Path

import numpy as np
import pytest

from hardpan import confusion, testbed
from hardpan.errors import InputError
from hardpan.predictions import Predictions
from hardpan.testbed.sets import open_outcomes

N, C, SEEDS = 80, 6, 3
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, C, N)
SPLIT = np.array(["train"] * 50 + ["test"] * 30)


def recorded(path, labels=LABELS, split=SPLIT, shift=0):
    made = Predictions.create(
        path,
        ids=[f"image-{n}" for n in range(N)],
        n_classes=C,
        labels=labels,
        split=split,
        config={"model": "mlp"},
        block=30,
    )
    right = np.empty((SEEDS, N), dtype=bool)
    for seed in range(SEEDS):
        for epoch in (0, 1):
            probs = np.random.default_rng([seed, epoch, shift]).dirichlet(np.ones(C), size=N)
            probs[np.arange(N), LABELS] += 1.0
            probs[:: seed + 2, (np.arange(N) % C)[0]] += 1.5
            probs /= probs.sum(axis=1, keepdims=True)
            made.write(seed, epoch, probs)
            right[seed] = made.read(seed, epoch).argmax(axis=1) == LABELS
    return right


def test_items_reads_the_last_epoch_of_a_store(tmp_path):
    right = recorded(tmp_path / "run")
    found = open_outcomes(tmp_path / "run", "test")
    assert found.models == ("mlp seed 0", "mlp seed 1", "mlp seed 2")
    assert found.items.tolist() == [f"image-{n}" for n in range(50, N)]
    assert np.array_equal(found.scores, right[:, 50:])
    with pytest.raises(InputError, match="set"):
        open_outcomes(tmp_path / "run")
    confusion.subset_of_ids(["image-60", "image-52"], examples=N).save(tmp_path / "hard.json")
    part = open_outcomes(Path(f"{tmp_path}/run@{tmp_path}/hard.json"), "test")
    assert part.items.tolist() == ["image-52", "image-60"]
    assert np.array_equal(part.scores, right[:, [52, 60]])


def test_two_stores_are_compared(tmp_path):
    first = recorded(tmp_path / "original", split=None)
    second = recorded(tmp_path / "new", split=None, shift=1)
    table = testbed.two_sets(tmp_path / "original", tmp_path / "new", check_classes=False)
    assert np.array_equal(table.original.scores, first)
    assert np.array_equal(table.new.scores, second)


def test_a_store_without_labels_is_refused(tmp_path):
    recorded(tmp_path / "run", labels=None)
    with pytest.raises(InputError, match="labels"):
        open_outcomes(tmp_path / "run")
