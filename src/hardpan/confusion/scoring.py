"""Confusion scores: mean over seeds, then entropy, then mean over epochs; standard errors, stability, files."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hardpan import arguments, files
from hardpan.arguments import check_confidence, real_number
from hardpan.confusion.difficulty_signals import Signals, difficulty_signal_columns, signals_of
from hardpan.confusion.row_tasks import Floats
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.files import array_hash, record
from hardpan.predictions import Predictions
from hardpan.predictions.opening import Epochs, open_selected
from hardpan.stats.correlation import kendall_tau
from hardpan.tables import csv_text

HARDEST = 0.1
FILE = "scores.json"
FOLDER = "scores"
TABLE = "scores.csv"
_NUMBERS = ("values", "stderr_seeds", "stderr_epochs", "left_out")
_BY_EXAMPLE = ("ids", "stderr", "labels", "split", *_NUMBERS)


@record(eq=False, dropped=("halves",))
class Scores:
    """A confusion score for each example; ``np.asarray`` gives the values.

    Attributes:
        ids: (N,) ids of the examples.
        values: (N,) scores, from 0 (all seeds certain of one class at every epoch) to log C.
        stderr: (N,) standard errors: over seeds if there are several, else over epochs; None unless computed.
        stderr_seeds: (N,) from the jackknife over seeds; None with one seed.
        stderr_epochs: (N,) from the block bootstrap over epochs; None with one epoch. It includes the progress of
            training, so it is an upper bound.
        left_out: (S, N) scores without each seed in turn.
        labels: (N,) class numbers, or None.
        split: (N,) "train", "validation" or "test", or None.
        class_names: names of the classes; empty if unknown.
        n_classes: number of classes.
        base: of the logarithm.
        seeds: numbers of the seeds.
        epochs: numbers of the epochs.
        source: what was scored.
    """

    ids: NDArray[np.str_]
    values: NDArray[np.float64]
    stderr: NDArray[np.float64] | None = None
    stderr_seeds: NDArray[np.float64] | None = None
    stderr_epochs: NDArray[np.float64] | None = None
    left_out: NDArray[np.float64] | None = None
    labels: NDArray[np.int64] | None = None
    split: NDArray[np.str_] | None = None
    class_names: tuple[str, ...] = ()
    n_classes: int = 2
    base: float = 2.0
    seeds: tuple[int, ...] = ()
    epochs: tuple[int, ...] = ()
    source: str = ""

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        spread = f"{self.values.min():.4g} to {self.values.max():.4g}, mean {self.values.mean():.4g}"
        return f"Scores({len(self):,} examples, {spread}, {len(self.seeds)} seeds, {len(self.epochs)} epochs)"

    @property
    def largest(self) -> float:
        """The largest possible score, log C."""
        return math.log(self.n_classes) / math.log(self.base)

    @property
    def sha256(self) -> str:
        """Hash of ids and values; a subset keeps it."""
        return array_hash(np.array([array_hash(self.ids.astype(np.str_)), array_hash(self.values)]))

    def in_bits(self) -> Scores:
        """The same scores with logarithms to base 2, as pages show them."""
        scale = math.log2(self.base)
        if scale == 1.0:
            return self
        columns: dict[str, Any] = {
            name: column * scale for name in ("stderr", *_NUMBERS) if (column := getattr(self, name)) is not None
        }
        return dataclasses.replace(self, base=2.0, **columns)

    def interval(self, confidence: float = 0.95, *, many_seeds: bool = False) -> tuple[Floats, Floats]:
        """Intervals (low, high) of the scores, by Student's t with S − 1 degrees of freedom over S seeds.

        Args:
            confidence: level.
            many_seeds: of the score that many seeds would give, centred on the jackknife's bias-corrected value
                S·s − (S − 1)·mean of the scores without each seed; otherwise of the score of S seeds.

        With one seed the interval is normal, from the block bootstrap over epochs.
        """
        level = check_confidence(confidence)
        if self.stderr is None:
            raise InputError(
                "scores have no standard errors; compute them with stderr=True from two seeds or epochs"
            )
        seeds = len(self.seeds)
        if self.left_out is None:
            if many_seeds:
                raise InputError("many_seeds needs scores of at least two seeds with stderr=True")
            width = float(special.ndtri((1 + level) / 2)) * self.stderr
            centre = self.values
        else:
            width = float(special.stdtrit(seeds - 1, (1 + level) / 2)) * self.stderr
            mean = self.left_out.mean(axis=0)
            centre = seeds * self.values - (seeds - 1) * mean if many_seeds else self.values
        return np.clip(centre - width, 0.0, self.largest), np.clip(centre + width, 0.0, self.largest)

    def select(self, rows: Any = None, *, split: str | None = None) -> Scores:
        """The scores of some examples: a mask, row numbers or a :class:`Subset`; or of a split, or of "all"."""
        if split is not None:
            return self if split == "all" else self.select(self.rows_of_split(split))
        if callable(getattr(rows, "rows", None)):
            rows = np.sort(rows.rows(self.ids))
        index = np.asarray(rows)
        columns: dict[str, Any] = {
            name: column[..., index] for name in _BY_EXAMPLE if (column := getattr(self, name)) is not None
        }
        return dataclasses.replace(self, **columns)

    def rows_of_split(self, split: str) -> NDArray[np.int64]:
        """Row numbers of the examples of a split, or of "all"."""
        if split == "all":
            return np.arange(len(self))
        if self.split is None:
            raise InputError(
                f"split {split!r}: these scores have no split; use 'all', or give the dataset (--data)"
            )
        rows = np.flatnonzero(self.split == split)
        if not len(rows):
            raise InputError(
                f"must be one of all, {', '.join(np.unique(self.split))}; got {split!r}", argument="split"
            )
        return rows

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``scores.csv``, and ``scores/scores.json`` with its arrays; returns the path of the JSON."""
        target, names = arguments.as_path("folder", folder), self.class_names
        columns: dict[str, list[Any]] = {"id": self.ids.tolist(), "score": [f"{s:.6f}" for s in self.values]}
        if self.stderr is not None:
            columns["stderr"] = [f"{error:.6f}" for error in self.stderr]
        if self.labels is not None:
            columns["label"] = [names[label] if names else int(label) for label in self.labels]
        if self.split is not None:
            columns["split"] = self.split.tolist()
        try:
            target.mkdir(parents=True, exist_ok=True)
            files.write_text(target / TABLE, csv_text(columns))
            return files.save(self, target / FOLDER / FILE)
        except OSError as error:
            raise InputError(
                f"{target}: cannot be written ({error.strerror or error}); give another path"
            ) from error


def scores(
    probs: Any,
    base: float = 2.0,
    epochs: Epochs = "all",
    seeds: Sequence[int] | None = None,
    stderr: bool = False,
    *,
    ids: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    progress: Progress | None = None,
) -> Scores:
    """Score how confusing each example is to an ensemble over its training.

    s(x) = 1/T Σ_t H(1/M Σ_i f_t⁽ⁱ⁾(x)), with H(p) = −Σ_j p_j log p_j: the mean over seeds comes before the entropy,
    the mean over epochs after it. Blocks of examples are read one after another: memory does not grow with T.
    Each example is computed in a fixed order: the result has the same bits on every back end.

    Args:
        probs: :class:`hardpan.Predictions` or their path; or an array (seeds, epochs, examples, classes), (epochs,
            examples, classes) or (examples, classes) of probabilities.
        base: of the logarithm; 2 gives bits, as in the paper's figures.
        epochs: "all", a whole number k for every k-th beginning with the first, or a list of epoch numbers.
        seeds: numbers of the seeds to use; all if None.
        stderr: whether to compute standard errors.
        ids: (N,) ids for an array.
        labels: (N,) class numbers; kept with the scores, which do not depend on them.
        progress: called with a step and the fraction done.

    Returns:
        A score for each example; float64.

    Source: Albiero et al., "Confusing Large Models by Confusing Small Models" (2023), Eqs. (1) to (3).

    Example:
        >>> import numpy as np
        >>> one, other = [[[1.0, 0.0], [0.5, 0.5]]], [[[0.0, 1.0], [0.5, 0.5]]]  # 1 epoch, 2 examples, 2 classes
        >>> probs = np.array([one, other])
        >>> np.asarray(scores(probs)).tolist()  # two seeds that contradict one another, two that are undecided
        [1.0, 1.0]
    """
    _bit_of_scores_in_base(base)
    source = open_selected(probs, epochs=epochs, seeds=seeds, ids=ids, labels=labels)
    return scores_of(source, difficulty_signal_columns(source, stderr=bool(stderr), progress=progress), base)


def measure(
    probs: Any,
    base: float = 2.0,
    epochs: Epochs = "all",
    seeds: Sequence[int] | None = None,
    stderr: bool = True,
    *,
    labels: ArrayLike | None = None,
    progress: Progress | None = None,
) -> tuple[Scores, Signals]:
    """Confusion scores and the other signals of each example, each seed and epoch read once.

    Args:
        probs: as for :func:`scores`, as are the other arguments.
        base: of the logarithm.
        epochs: which epochs.
        seeds: which seeds.
        stderr: whether to compute standard errors.
        labels: (N,) class numbers; by default those of the predictions.
        progress: called with a step and the fraction done.

    Example:
        >>> import numpy as np
        >>> s, signals = measure(np.array([[[0.9, 0.1], [0.5, 0.5]]]), labels=[0, 1])
        >>> s.values.round(3).tolist(), signals.correct().tolist()
        ([0.469, 1.0], [True, False])
    """
    _bit_of_scores_in_base(base)
    source = open_selected(probs, epochs=epochs, seeds=seeds, labels=labels)
    columns = difficulty_signal_columns(source, stderr=stderr, signals=True, progress=progress)
    return scores_of(source, columns, base), signals_of(source, columns)


def scores_of(source: Predictions, columns: Mapping[str, Floats], base: float = 2.0) -> Scores:
    """The scores among the columns of :func:`hardpan.confusion.difficulty_signals.difficulty_signal_columns`."""
    scale = _bit_of_scores_in_base(base)
    numbers = {
        name: columns[name] if scale == 1.0 else columns[name] * scale for name in _NUMBERS if name in columns
    }
    return Scores(
        ids=np.asarray(source.ids, dtype=np.str_),
        stderr=numbers.get("stderr_seeds", numbers.get("stderr_epochs")),
        labels=source.labels,
        split=source.split,
        class_names=source.class_names,
        n_classes=source.n_classes,
        base=float(base),
        seeds=source.seeds,
        epochs=source.epochs,
        source=source.where,
        **numbers,
    )


def _bit_of_scores_in_base(base: float) -> float:
    """What a bit is in logarithms to ``base``."""
    real_number("base", base, "(1, inf)")
    return 1.0 if base == 2 else math.log(2.0) / math.log(base)


@record(dropped=("between_halves", "reliability"))
class Stability:
    """How far the ranking depends on the seeds and epochs.

    Attributes:
        without_seed: Kendall's τ between all seeds and all but one, for each seed.
        tau: the smallest of them with its interval; None with one seed.
        overlap: fraction of the hardest tenth that stays in it without a seed, for each seed.
        mean_stderr: mean standard error of a score.
        spread: standard deviation of the scores, for comparison.
    """

    without_seed: tuple[float, ...]
    tau: Estimate | None
    overlap: tuple[float, ...]
    mean_stderr: float
    spread: float


def stability(scores: Scores) -> Stability:
    """How far the order of the examples depends on the seeds and epochs that were used.

    Args:
        scores: from :func:`hardpan.confusion.scores` with ``stderr=True``.

    Example:
        >>> import numpy as np
        >>> from hardpan import confusion
        >>> rng = np.random.default_rng(0)
        >>> sure = rng.uniform(0.5, 1.0, (1, 1, 200)) + rng.normal(0, 0.02, (3, 8, 200))
        >>> probs = np.stack([sure.clip(0, 1), 1 - sure.clip(0, 1)], axis=-1)
        >>> found = stability(confusion.scores(probs, stderr=True))
        >>> 0.8 < found.tau.value < 1
        True
    """
    if not isinstance(scores, Scores):
        raise InputError(f"must be hardpan.confusion.Scores; got {type(scores).__name__}", argument="scores")
    if scores.stderr is None:
        raise InputError("scores have no standard errors; compute them with stderr=True from two seeds or epochs")
    without = () if scores.left_out is None else scores.left_out
    hard = _rows_of_hardest_scores(scores.values)
    shared = [len(hard & _rows_of_hardest_scores(row)) / len(hard) for row in without]
    taus = [kendall_tau(scores.values, row, resample=True) for row in without]
    return Stability(
        without_seed=tuple(item.value for item in taus),
        tau=min(taus, key=lambda item: item.value) if taus else None,
        overlap=tuple(shared),
        mean_stderr=float(np.mean(scores.stderr)),
        spread=float(np.sqrt(np.var(scores.values))),
    )


def _rows_of_hardest_scores(values: Floats) -> set[int]:
    count = max(1, round(HARDEST * len(values)))
    return set(np.argsort(-values, kind="stable")[:count].tolist())


def score_values(scores: Any) -> Floats:
    """Scores as (N,) finite numbers, or a refusal."""
    values = arguments.real_numbers("scores", scores)
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"must be (N,) finite numbers; got shape {values.shape}", argument="scores")
    return values


def load_scores(path: str | os.PathLike[str]) -> Scores | None:
    """Read saved scores; None if there are none at the path.

    Args:
        path: ``scores.json``, or the folder of :meth:`Scores.save`.
    """
    file = arguments.as_path("path", path)
    if file.is_dir():
        file = next((item for item in (file / FILE, file / FOLDER / FILE) if item.is_file()), file)
    if file.suffix != ".json" or not file.is_file():
        return None
    result: Any = files.load(file)
    if not isinstance(result, Scores):
        raise InputError(f"{file}: is a {type(result).__name__}, not Scores; give what `confusion score` wrote")
    return result
