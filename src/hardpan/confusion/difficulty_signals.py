"""One pass over predictions: confusion scores, other difficulty scores, answers and label probabilities."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.arguments import one_of
from hardpan.confusion.row_tasks import EpochRows, Floats, RowTask, map_row_tasks
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.files import record
from hardpan.predictions import Predictions
from hardpan.predictions.opening import Epochs, open_selected
from hardpan.stats.resampling import block_bootstrap_variance, jackknife_variance

if TYPE_CHECKING:
    from hardpan.confusion.ablation import AblationPlan

_COPIES = 12  # of half precision: a few arrays of single precision as large as what was read
_SMALLEST = 2.0**-24  # half precision has nothing smaller

UNLABELLED = "are unknown; give the dataset (--data) or labels=, or predictions recorded with labels"

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
        answers: (S, N) the class that each seed predicts at the last epoch.
        predicted: (N,) the ensemble's prediction at the last epoch.
        label_probability: (N,) mean probability of the given label over seeds and epochs, or None without labels.
        other: (N,) the class with the highest mean probability among all but the given label (among all, without).
        other_probability: (N,) its mean probability.
        labels: (N,) class numbers, or None.
        seeds: numbers of the seeds.
        epochs: numbers of the epochs.
    """

    ids: NDArray[np.str_]
    difficulties: Mapping[str, NDArray[np.float64]]
    answers: NDArray[np.int64]
    predicted: NDArray[np.int64]
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
        arrays = {name: getattr(self, name) for name in self.__dataclass_fields__}
        columns: dict[str, Any] = {
            name: values[..., index] for name, values in arrays.items() if isinstance(values, np.ndarray)
        }
        difficulties = {name: column[index] for name, column in self.difficulties.items()}
        return dataclasses.replace(self, difficulties=difficulties, **columns)

    def correct(self, of: str = "ensemble") -> NDArray[np.bool_]:
        """Right or wrong at the last epoch: of the "ensemble" (N,), or of all "seeds" (S, N)."""
        one_of("of", of, ("ensemble", "seeds"))
        if self.labels is None:
            raise InputError(UNLABELLED, argument="labels")
        return np.asarray((self.answers if of == "seeds" else self.predicted) == self.labels)


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
        >>> result = signals(np.array([[0.9, 0.1], [0.4, 0.6]]), labels=[0, 0])
        >>> result.difficulties["max-probability"].round(6).tolist(), result.correct().tolist()
        ([0.1, 0.4], [True, False])
    """
    source = open_selected(probs, epochs=epochs, seeds=seeds, ids=ids, labels=labels)
    return signals_of(source, difficulty_signal_columns(source, signals=True, progress=progress))


def signals_of(source: Predictions, columns: Mapping[str, NDArray[Any]]) -> Signals:
    """The signals among the columns of :func:`difficulty_signal_columns`."""
    fields = ("answers", "predicted", "label_probability", "other", "other_probability")
    return Signals(
        ids=np.asarray(source.ids, dtype=np.str_),
        difficulties={name: columns[name] for name in DIFFICULTIES if name in columns},
        labels=source.labels,
        seeds=source.seeds,
        epochs=source.epochs,
        **{name: columns[name] for name in fields if name in columns},
    )


def difficulty_signal_columns(
    source: Predictions,
    *,
    stderr: bool = False,
    signals: bool = False,
    plan: AblationPlan | None = None,
    progress: Progress | None = None,
) -> dict[str, NDArray[Any]]:
    """Read each seed and epoch once, and compute by example whatever is needed of it.

    Args:
        source: the predictions.
        stderr: scores without each seed, and the standard errors of scores.
        signals: the columns of :class:`Signals`.
        plan: scores of fewer seeds and epochs; the column "fewer" is (numbers of seeds, sets of epochs, N).
        progress: called with a step and the fraction done.

    Returns:
        Columns with the examples along their last axis; "values" are the confusion scores in bits.
    """
    measure = functools.partial(
        _difficulty_signals_of_rows,
        stderr=stderr,
        signals=signals,
        labels=source.labels,
        plan=plan,
    )
    blocks = map_row_tasks(source, measure, progress=progress, copies=_COPIES if signals else 3)
    return {name: np.concatenate([block[name] for block in blocks], axis=-1) for name in blocks[0]}


def _difficulty_signals_of_rows(
    task: RowTask,
    *,
    stderr: bool,
    signals: bool,
    labels: NDArray[np.int64] | None,
    plan: AblationPlan | None,
) -> dict[str, NDArray[Any]]:
    """The columns of some rows; sums run in the order of the epochs, whatever else is computed."""
    epochs, seeds = len(task.epochs), len(task.seeds)
    total, left_out = np.zeros(len(task)), np.zeros((seeds, len(task)))
    curve: list[Floats] = []
    first_seeds, some_epochs = (plan.seeds, plan.positions) if plan else ((), ())
    fewer = np.zeros((len(first_seeds), len(some_epochs), len(task)))
    training = None
    if signals:
        own = None if labels is None else labels[task.first_row : task.first_row + len(task)]
        training = _SignalSums(seeds, len(task), own)
    for t in range(epochs):
        rows = task.epoch(t)
        entropy = rows.entropies()
        total += entropy
        if stderr:
            curve.append(entropy)
            for out in range(seeds if seeds > 1 else 0):
                left_out[out] += rows.entropies([seed for seed in range(seeds) if seed != out])
        used = [position for position, positions in enumerate(some_epochs) if t in positions]
        for i, size in enumerate(first_seeds if used else ()):
            fewer[i, used] += entropy if size == seeds else rows.entropies(range(size))
        if training is not None:
            training.add(rows, entropy, last=t == epochs - 1)
    columns: dict[str, NDArray[Any]] = {"values": total / epochs}
    if first_seeds:
        sizes = np.array([len(positions) for positions in some_epochs])
        columns["fewer"] = fewer / sizes[:, None]
    if stderr and seeds > 1:
        columns["left_out"] = left_out / epochs
        columns["stderr_seeds"] = np.sqrt(jackknife_variance(columns["left_out"]))
    if stderr and epochs > 1:
        columns["stderr_epochs"] = np.sqrt(block_bootstrap_variance(np.stack(curve)))
    if training is not None:
        columns |= {"confusion score": columns["values"], **training.columns(epochs)}
    return columns


class _SignalSums:
    """Signals of some rows, accumulated from epoch to epoch; some of them depend on the last epoch alone."""

    def __init__(self, seeds: int, rows: int, labels: NDArray[np.int64] | None) -> None:
        self.labels = labels
        self.probability = np.zeros(0)
        self.last: dict[str, NDArray[Any]] = {}
        self.margin = np.zeros(rows)
        self.forgotten = np.zeros((seeds, rows))
        self.ever = np.zeros((seeds, rows), dtype=bool)
        self.before = np.zeros((seeds, rows), dtype=bool)
        self.sum = np.zeros((seeds, rows))
        self.squares = np.zeros((seeds, rows))

    def add(self, rows: EpochRows, entropy: Floats, last: bool) -> None:
        """Take the rows of the next epoch and the entropy of their mean over seeds."""
        probs = rows.probabilities()
        mean = probs.mean(axis=0)
        self.probability = self.probability + mean if self.probability.size else mean.astype(np.float64)
        if last:
            self.last = _last_epoch_signals(rows, probs, entropy)
        if self.labels is None:
            return
        own = probs[:, np.arange(len(self.labels)), self.labels].astype(np.float64)
        right = probs.argmax(axis=-1) == self.labels
        best = _largest_probability_but(probs, self.labels)
        gap = np.log(np.maximum(own, _SMALLEST)) - np.log(np.maximum(best, _SMALLEST))
        self.margin += gap.mean(axis=0)
        self.forgotten += self.before & ~right
        self.ever |= right
        self.before = right
        self.sum += own
        self.squares += own**2

    def columns(self, epochs: int) -> dict[str, NDArray[Any]]:
        """Everything, after the last epoch."""
        results, probability = self.last, self.probability / epochs
        rows = np.arange(len(probability))
        if self.labels is not None:
            mean = self.sum / epochs
            variance = np.maximum(self.squares / epochs - mean**2, 0.0)
            results |= {
                "AUM": -self.margin / epochs,
                "forgetting": np.where(self.ever, self.forgotten, float(epochs)).mean(axis=0),
                "cartography confidence": 1.0 - mean.mean(axis=0),
                "cartography variability": np.sqrt(variance).mean(axis=0),
                "label_probability": probability[rows, self.labels],
            }
            probability[rows, self.labels] = -1.0
        results["other"] = probability.argmax(axis=-1)
        results["other_probability"] = probability[rows, results["other"]]
        return results


def _last_epoch_signals(rows: EpochRows, probs: NDArray[Any], entropy: Floats) -> dict[str, NDArray[Any]]:
    """What depends on the last epoch alone."""
    seeds = len(probs)
    alone = np.stack([rows.entropies([seed]) for seed in range(seeds)])
    first = probs[0]
    best = first.argmax(axis=-1)
    largest = first[np.arange(len(first)), best].astype(np.float64)
    answers, predicted = probs.argmax(axis=-1), probs.mean(axis=0).argmax(axis=-1)
    results = {
        "ensemble entropy": entropy,
        "single-model entropy": alone[0],
        "max-probability": 1.0 - largest,
        "margin": 1.0 - (largest - _largest_probability_but(first, best)),
        "answers": answers,
        "predicted": predicted,
    }
    if seeds > 1:
        results["disagreement"] = (answers != predicted).mean(axis=0)
        results["mutual information"] = np.maximum(entropy - alone.mean(axis=0), 0.0)
    return results


def _largest_probability_but(probs: NDArray[Any], classes: NDArray[np.int64]) -> Floats:
    """Largest probability (..., rows) of (..., rows, C) apart from one class per row; works in place of a copy."""
    rows = np.arange(len(classes))
    own = probs[..., rows, classes]
    probs[..., rows, classes] = 0.0
    result: Floats = probs.max(axis=-1).astype(np.float64)
    probs[..., rows, classes] = own
    return result
