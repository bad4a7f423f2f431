"""Everything that a page of scores needs is computed from one read of each seed and epoch."""

import numpy as np
import pytest

from hardpan import confusion
from hardpan.predictions import Predictions
from hardpan.predictions.store import Store

SEEDS, EPOCHS, EXAMPLES, CLASSES = 2, 3, 40, 4


@pytest.fixture
def store(tmp_path):
    rng = np.random.default_rng(0)
    split = np.where(np.arange(EXAMPLES) % 2, "test", "train")
    made = Predictions.create(
        tmp_path / "run",
        ids=[f"id-{row}" for row in range(EXAMPLES)],
        n_classes=CLASSES,
        labels=rng.integers(0, CLASSES, EXAMPLES),
        split=split,
    )
    for seed in range(SEEDS):
        for epoch in range(EPOCHS):
            made.write(seed, epoch, rng.dirichlet(np.ones(CLASSES), EXAMPLES).astype(np.float32))
    return made


@pytest.fixture
def reads(monkeypatch):
    pairs = []
    read = Store.read_rows

    def counted(self, seed, epoch, start, stop):
        pairs.append((seed, epoch))
        return read(self, seed, epoch, start, stop)

    monkeypatch.setattr(Store, "read_rows", counted)
    return pairs


def test_scores_with_standard_errors_and_signals_read_each_array_once(store, reads):
    confusion.measure(store, stderr=True)
    assert sorted(reads) == [(seed, epoch) for seed in range(SEEDS) for epoch in range(EPOCHS)]


@pytest.mark.parametrize(
    "compute",
    [
        lambda predictions: confusion.scores(predictions, stderr=True),
        confusion.signals,
        confusion.label_issues,
        confusion.ablate,
        confusion.compare_scores,
    ],
)
def test_every_function_reads_each_array_once(store, reads, compute):
    compute(store)
    assert len(reads) == SEEDS * EPOCHS


def test_one_pass_gives_what_the_functions_give_alone(store):
    scores, signals = confusion.measure(store, stderr=True)
    alone, other = confusion.scores(store, stderr=True), confusion.signals(store)
    for name in ("values", "stderr_seeds", "stderr_epochs", "left_out"):
        assert np.array_equal(getattr(scores, name), getattr(alone, name))
    for name, values in other.difficulties.items():
        assert np.array_equal(signals.difficulties[name], values)
    assert np.array_equal(signals.difficulties["confusion score"], scores.values)
