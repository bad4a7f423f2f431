"""A ledger to test on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hardpan import ledger

KEY = bytes(range(32))
LABELS = np.random.default_rng(0).integers(0, 10, 400)


def guesses(seed: int, accuracy: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng([1, seed])
    return np.where(rng.random(LABELS.size) < accuracy, LABELS, rng.integers(0, 10, LABELS.size))


@pytest.fixture
def book(tmp_path: Path) -> Path:
    ledger.create(tmp_path / "book", LABELS, KEY, step="0.02", holdout=0.25)
    return tmp_path / "book"


@pytest.fixture(scope="module")
def used_book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("used") / "book"
    ledger.create(folder, LABELS, KEY, step="0.02", holdout=0.25)
    for i in range(4):
        ledger.open(folder, KEY).submit(guesses(i, 0.3 + 0.1 * i), name=f"model {i}")
    ledger.open(folder, KEY).open_holdout()
    return folder
