"""Other difficulty scores, correct answers and label probabilities, in one pass over the predictions."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.arguments import one_of
from hardpan.confusion.reading import Epochs, Floats, RowTask, entropies, map_rows, open_selected
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.files import record

_COPIES = 12  # of half precision: a few arrays of single precision as large as what was read
_SMALLEST = 2.0**-24  # half precision has nothing smaller

UNLABELLED = "labels are unknown; give the dataset (--data) or labels=, or predictions recorded with labels"

DIFFICULTIES = {
    "confusion score": "entropy of the seeds' mean, mean over epochs",
    "ensemble entropy": "entropy of the seeds' mean at the last epoch",
    "single-model entropy": "entropy of the first seed at the last epoch",
    "max-probability": "1 − largest probability, first seed, last epoch",
    "margin": "1 − (largest − second largest probability), first seed, last epoch",
    "disagreement": "fraction of seeds that differ from the ensemble's prediction, last epoch",
    "mutual information": "entropy of the seeds' mean − mean of their entropies, last epoch",
    "AUM": "− mean over seeds and epochs of log p(label) − log p(best other class)",
    "forgetting": "how often right became wrong from epoch to epoch, mean over seeds; never right counts as all",
    "cartography confidence": "1 − mean probability of the label over seeds and epochs",
    "cartography variability": "deviation of the label's probability over epochs, mean over seeds",
}
NEED_LABELS = ("AUM", "forgetting", "cartography confidence", "cartography variability")


@record(eq=False, kw_only=True)
class Signals:
    """Difficulty scores, predictions and label probabilities of each example.

    Attributes:
        ids: (N,) ids.
        difficulties: (N,) numbers by name, higher for harder; those in ``NEED_LABELS`` only with labels.
        predicted: (N,) the ensemble's prediction at the last epoch.
        correct_seeds: (S, N) whether each seed is right at the last epoch, or None without labels.
        correct_ensemble: (N,) whether the ensemble is right at the last epoch, or None without labels.
        label_probability: (N,) mean probability of the given label over seeds and epochs, or None without labels.
        other: (N,) the class with the highest mean probability among all but the given label (among all, without).
        other_probability: (N,) its mean probability.
        labels: (N,) class numbers, or None.
        seeds: numbers of the seeds.
        epochs: numbers of the epochs.
    """

    ids: NDArray[np.str_]
    difficulties: Mapping[str, NDArray[np.float64]]
    predicted: NDArray[np.int64]
    correct_seeds: NDArray[np.bool_] | None = None
    correct_ensemble: NDArray[np.bool_] | None = None
    label_probability: NDArray[np.float64] | None = None
    other: NDArray[np.int64]
    other_probability: NDArray[np.float64]
    labels: NDArray[np.int64] | None
    seeds: tuple[int, ...]
    epochs: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, rows: ArrayLike) -> Signals:
        """The same for some examples: a mask or row numbers."""
        index = np.asarray(rows)
        names = ("ids", "predicted", "correct_seeds", "correct_ensemble", "label_probability", "other", "labels")
        columns: dict[str, Any] = {
            name: column[..., index]
            for name in (*names, "other_probability")
            if (column := getattr(self, name)) is not None
        }
        difficulties = {name: column[index] for name, column in self.difficulties.items()}
        return dataclasses.replace(self, difficulties=difficulties, **columns)

    def correct(self, of: str = "ensemble") -> NDArray[np.bool_]:
        """Right or wrong at the last epoch: of the "ensemble" (N,), or of all "seeds" (S, N)."""
        one_of("of", of, ("ensemble", "seeds"))
        result = self.correct_seeds if of == "seeds" else self.correct_ensemble
        if result is None:
            raise InputError(UNLABELLED)
        return result


def signals(
    probs: Any,
    epochs: Epochs = "all",
    seeds: Sequence[int] | None = None,
    *,
    ids: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    progress: Progress | None = None,
) -> Signals:
    """Compute other difficulty scores, predictions and label probabilities in one pass.

    Args:
        probs: as for :func:`hardpan.confusion.scores`, as are the other arguments.
        epochs: which epochs.
        seeds: which seeds.
        ids: (N,) ids for an array.
        labels: (N,) class numbers; by default those of the predictions.
        progress: called with a step and the fraction done.

    Sources: Pleiss et al. (2020) for AUM (with log-probabilities, whose differences are those of the logits);
    Toneva et al. (2019) for forgetting; Swayamdipta et al. (2020) for cartography.

    Example:
        >>> import numpy as np
        >>> found = signals(np.array([[0.9, 0.1], [0.4, 0.6]]), labels=[0, 0])
        >>> found.difficulties["max-probability"].round(6).tolist(), found.correct().tolist()
        ([0.1, 0.4], [True, False])
    """
    source = open_selected(probs, epochs=epochs, seeds=seeds, ids=ids, labels=labels)
    result = map_rows(source, functools.partial(_signals, labels=source.labels), progress=progress, copies=_COPIES)
    columns = {name: np.concatenate([item[name] for item in result], axis=-1) for name in result[0]}
    difficulties = {name: columns.pop(name) for name in DIFFICULTIES if name in columns}
    return Signals(
        ids=np.asarray(source.ids, dtype=np.str_),
        difficulties=difficulties,
        labels=source.labels,
        seeds=source.seeds,
        epochs=source.epochs,
        **columns,
    )


def _signals(task: RowTask, *, labels: NDArray[np.int64] | None) -> dict[str, NDArray[Any]]:
    epochs = len(task.epochs)
    own = None if labels is None else labels[task.first_row : task.first_row + len(task)]
    training = _Training(len(task.seeds), len(task))
    total = np.zeros(len(task))
    last_entropy = np.zeros(len(task))
    mean = np.zeros(0)
    probs = np.zeros(0)
    for t in range(epochs):
        last_entropy = entropies(task, t)
        total += last_entropy
        probs = task.probabilities(t, np.float32)
        over_seeds = probs.mean(axis=0)
        mean = over_seeds.astype(np.float64) if t == 0 else mean + over_seeds
        if own is not None:
            training.step(probs, own)
    mean /= epochs
    results: dict[str, NDArray[Any]] = {"confusion score": total / epochs, "ensemble entropy": last_entropy}
    results |= _last(task, probs, last_entropy)
    rows = np.arange(len(task))
    if own is not None:
        results |= training.end(epochs)
        results["correct_seeds"] = probs.argmax(axis=-1) == own
        results["correct_ensemble"] = results["predicted"] == own
        results["label_probability"] = mean[rows, own]
        mean[rows, own] = -1.0
    results["other"] = mean.argmax(axis=-1)
    results["other_probability"] = mean[rows, results["other"]]
    return results


def _last(task: RowTask, probs: NDArray[Any], entropy: Floats) -> dict[str, NDArray[Any]]:
    """What depends on the last epoch alone."""
    last, seeds = len(task.epochs) - 1, len(task.seeds)
    alone = np.stack([entropies(task, last, [seed]) for seed in range(seeds)])
    first = probs[0]
    best = first.argmax(axis=-1)
    largest = first[np.arange(len(task)), best].astype(np.float64)
    second = _largest_but(first, best)
    answer = probs.mean(axis=0).argmax(axis=-1)
    results = {
        "single-model entropy": alone[0],
        "max-probability": 1.0 - largest,
        "margin": 1.0 - (largest - second),
        "predicted": answer,
    }
    if seeds > 1:
        results["disagreement"] = (probs.argmax(axis=-1) != answer).mean(axis=0)
        results["mutual information"] = np.maximum(entropy - alone.mean(axis=0), 0.0)
    return results


def _largest_but(probs: NDArray[Any], classes: NDArray[np.int64]) -> Floats:
    """Largest probability (..., rows) of (..., rows, C) apart from one class per row; works in place of a copy."""
    rows = np.arange(len(classes))
    own = probs[..., rows, classes]
    probs[..., rows, classes] = 0.0
    result: Floats = probs.max(axis=-1).astype(np.float64)
    probs[..., rows, classes] = own
    return result


class _Training:
    """What depends on labels and on the course of training, accumulated from epoch to epoch."""

    def __init__(self, seeds: int, rows: int) -> None:
        self.margin = np.zeros(rows)
        self.forgotten = np.zeros((seeds, rows))
        self.ever = np.zeros((seeds, rows), dtype=bool)
        self.before = np.zeros((seeds, rows), dtype=bool)
        self.sum = np.zeros((seeds, rows))
        self.squares = np.zeros((seeds, rows))

    def step(self, probs: NDArray[Any], labels: NDArray[np.int64]) -> None:
        rows = np.arange(len(labels))
        own = probs[:, rows, labels].astype(np.float64)
        right = probs.argmax(axis=-1) == labels
        best = _largest_but(probs, labels)
        gap = np.log(np.maximum(own, _SMALLEST)) - np.log(np.maximum(best, _SMALLEST))
        self.margin += gap.mean(axis=0)
        self.forgotten += self.before & ~right
        self.ever |= right
        self.before = right
        self.sum += own
        self.squares += own**2

    def end(self, epochs: int) -> dict[str, Floats]:
        mean = self.sum / epochs
        variance = np.maximum(self.squares / epochs - mean**2, 0.0)
        return {
            "AUM": -self.margin / epochs,
            "forgetting": np.where(self.ever, self.forgotten, float(epochs)).mean(axis=0),
            "cartography confidence": 1.0 - mean.mean(axis=0),
            "cartography variability": np.sqrt(variance).mean(axis=0),
        }
