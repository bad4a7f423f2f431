"""Confusion scores: mean over seeds, then entropy, then mean over epochs; standard errors, stability, files."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hardpan import files
from hardpan.arguments import real_number
from hardpan.confusion.reading import Epochs, Floats, RowTask, entropies, map_rows, open_selected
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.files import array_hash, record
from hardpan.stats.correlation import kendall_tau
from hardpan.stats.intervals import check_confidence
from hardpan.tables import csv_text

HARDEST = 0.1
FILE = "scores.json"
FOLDER = "scores"
TABLE = "scores.csv"
_BY_EXAMPLE = ("ids", "values", "stderr", "stderr_seeds", "stderr_epochs", "left_out", "halves", "labels", "split")


@record(eq=False)
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
        halves: (2, N) scores from every other epoch.
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
    halves: NDArray[np.float64] | None = None
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
        names = ("values", "stderr", "stderr_seeds", "stderr_epochs", "left_out", "halves")
        columns: dict[str, Any] = {
            name: column * scale for name in names if (column := getattr(self, name)) is not None
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
            return self if split == "all" else self.select(split_rows(self, split))
        if callable(getattr(rows, "rows", None)):
            rows = np.sort(rows.rows(self.ids))
        index = np.asarray(rows)
        columns: dict[str, Any] = {
            name: column[..., index] for name in _BY_EXAMPLE if (column := getattr(self, name)) is not None
        }
        return dataclasses.replace(self, **columns)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``scores.csv``, and ``scores/scores.json`` with its arrays; returns the path of the JSON."""
        target = files.as_path("folder", folder)
        try:
            target.mkdir(parents=True, exist_ok=True)
            files.write_text(target / TABLE, _table(self))
            return files.save(self, target / FOLDER / FILE)
        except OSError as error:
            raise InputError(
                f"{target}: cannot be written ({error.strerror or error}); give another path"
            ) from error


def split_rows(scores: Scores, split: str) -> NDArray[np.int64]:
    """Row numbers of the examples of a split, or of "all"."""
    if split == "all":
        return np.arange(len(scores))
    if scores.split is None:
        raise InputError(f"split {split!r}: these scores have no split; use 'all', or give the dataset (--data)")
    rows = np.flatnonzero(scores.split == split)
    if not len(rows):
        raise InputError(
            f"must be one of all, {', '.join(np.unique(scores.split))}; got {split!r}", argument="split"
        )
    return rows


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
    scale = _unit(base)
    source = open_selected(probs, epochs=epochs, seeds=seeds, ids=ids, labels=labels)
    result = map_rows(source, functools.partial(_scored, stderr=bool(stderr)), progress=progress)
    columns = {name: np.concatenate([item[name] for item in result], axis=-1) for name in result[0]}
    if scale != 1.0:
        columns = {name: column * scale for name, column in columns.items()}
    best = columns.get("stderr_seeds", columns.get("stderr_epochs"))
    return Scores(
        ids=np.asarray(source.ids, dtype=np.str_),
        stderr=best,
        labels=source.labels,
        split=source.split,
        class_names=source.class_names,
        n_classes=source.n_classes,
        base=float(base),
        seeds=source.seeds,
        epochs=source.epochs,
        source=source.where,
        **columns,
    )


def _scored(task: RowTask, *, stderr: bool) -> Mapping[str, Floats]:
    """The scores of some rows in bits, and what their standard errors need."""
    epochs, seeds = len(task.epochs), len(task.seeds)
    if not stderr:
        return {"values": sum_in_order(entropies(task, t) for t in range(epochs)) / epochs}
    curve = np.stack([entropies(task, t) for t in range(epochs)])
    results = {"values": mean_in_order(curve)}
    if seeds > 1:
        rest = [[seed for seed in range(seeds) if seed != out] for out in range(seeds)]
        results["left_out"] = np.stack(
            [sum_in_order(entropies(task, t, some) for t in range(epochs)) / epochs for some in rest]
        )
        results["stderr_seeds"] = np.sqrt(jackknife_variance(results["left_out"]))
    if epochs > 1:
        results["stderr_epochs"] = np.sqrt(block_variance(curve))
        results["halves"] = np.stack([mean_in_order(curve[first::2]) for first in (0, 1)])
    return results


def sum_in_order(rows: Iterable[Floats]) -> Floats:
    """The sum of arrays of one shape, added one after another.

    NumPy chooses the order of a sum by the shape, so that the last bit would depend on the size of a block.
    """
    return functools.reduce(np.add, rows)


def mean_in_order(rows: Floats) -> Floats:
    """The mean over the first axis, added one after another."""
    return sum_in_order(rows) / len(rows)


def _unit(base: float) -> float:
    """What a bit is in logarithms to ``base``."""
    real_number("base", base, "(1, inf)")
    return 1.0 if base == 2 else math.log(2.0) / math.log(base)


def jackknife_variance(left_out: Floats) -> Floats:
    """Variance of a statistic from its values without each of S units: (S−1)/S Σ (θ₍ᵢ₎ − θ̄)².

    Args:
        left_out: (S, ...) the values.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 11.

    Example:
        >>> import numpy as np
        >>> float(jackknife_variance(np.array([1.0, 2.0, 3.0])).round(4))  # of the means without one of three
        1.3333
    """
    count, centre = len(left_out), mean_in_order(left_out)
    return np.asarray((count - 1) / count * sum_in_order((row - centre) ** 2 for row in left_out))


def block_length(epochs: int) -> int:
    """Epochs per block of the bootstrap: about the cube root of their number.

    Example:
        >>> [block_length(epochs) for epochs in (2, 8, 20, 100)]
        [1, 2, 3, 5]
    """
    root: float = float(epochs) ** (1 / 3)
    return max(1, round(root))


def block_variance(curve: Floats) -> Floats:
    """Variance of the mean over epochs when blocks of neighbouring epochs are drawn with replacement.

    With circular blocks of length L the bootstrap needs no draws: the blocks' means B_i are independent and equally
    likely, so Var = (L/T)·1/T Σ_i (B_i − x̄)².

    Args:
        curve: (T, ...) one value per epoch.

    Returns:
        (...) variances.

    Source: Politis and Romano, "A circular block-resampling procedure for stationary data" (1992).

    Example:
        >>> import numpy as np
        >>> float(block_variance(np.array([0.0, 1.0])))  # blocks of one: the ordinary bootstrap
        0.125
    """
    epochs, centre = len(curve), mean_in_order(curve)
    length = block_length(epochs)
    blocks = (curve[np.arange(first, first + length) % epochs] for first in range(epochs))
    spread = sum_in_order((mean_in_order(block) - centre) ** 2 for block in blocks)
    return np.asarray(spread * length / epochs**2)


@record
class Stability:
    """How far the ranking depends on the seeds and epochs.

    Attributes:
        without_seed: Kendall's τ between all seeds and all but one, for each seed.
        tau: the smallest of them with its interval; None with one seed.
        overlap: fraction of the hardest tenth that stays in it without a seed, for each seed.
        between_halves: Kendall's τ between scores from even and from odd epochs; None with one epoch.
        mean_stderr: mean standard error of a score.
        spread: standard deviation of the scores, for comparison.
        reliability: 1 − mean squared standard error / variance of the scores.
    """

    without_seed: tuple[float, ...]
    tau: Estimate | None
    overlap: tuple[float, ...]
    between_halves: Estimate | None
    mean_stderr: float
    spread: float
    reliability: float


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
        >>> 0.8 < found.tau.value < 1, 0.8 < found.reliability < 1
        (True, True)
    """
    if not isinstance(scores, Scores):
        raise InputError(f"must be hardpan.confusion.Scores; got {type(scores).__name__}", argument="scores")
    if scores.stderr is None:
        raise InputError("scores have no standard errors; compute them with stderr=True from two seeds or epochs")
    without = () if scores.left_out is None else scores.left_out
    taus = [kendall_tau(scores.values, row, resample=True) for row in without]
    hard = _hardest(scores.values)
    shared = [len(hard & _hardest(row)) / len(hard) for row in without]
    variance = float(np.var(scores.values))
    noise = float(np.mean(scores.stderr**2))
    return Stability(
        without_seed=tuple(item.value for item in taus),
        tau=min(taus, key=lambda item: item.value) if taus else None,
        overlap=tuple(shared),
        between_halves=None if scores.halves is None else kendall_tau(*scores.halves, resample=True),
        mean_stderr=float(np.mean(scores.stderr)),
        spread=float(np.sqrt(variance)),
        reliability=1.0 - noise / variance if variance > 0 else float("nan"),
    )


def _hardest(values: Floats) -> set[int]:
    count = max(1, round(HARDEST * len(values)))
    return set(np.argsort(-values, kind="stable")[:count].tolist())


def load_scores(path: str | os.PathLike[str]) -> Scores | None:
    """Read saved scores, or those that a recorder kept instead of predictions; None if it is neither.

    Args:
        path: ``scores.json``, the folder of :meth:`Scores.save`, or a store recorded with ``scalars_only=True``.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(
            f"must be the path of scores that `hardpan confusion score` wrote, or of a store; got {path!r}",
            argument="path",
        )
    text = os.fspath(path)
    file = Path(text)
    if "://" not in text and file.is_dir():
        inside = (file / FILE, file / FOLDER / FILE)
        file = next((item for item in inside if item.is_file()), file)
    if file.suffix == ".json" and file.is_file():
        result: Any = files.load(file)
        if not isinstance(result, Scores):
            raise InputError(f"{file}: is a {type(result).__name__}, not Scores; give what `confusion score` wrote")
        return result
    return _accumulated(text)


def _accumulated(path: str) -> Scores | None:
    from hardpan.predictions.scores import open_scores

    try:
        stored = open_scores(path)
    except InputError:  # predictions, or no store at all: refused where they are opened
        return None
    return Scores(
        ids=stored.ids,
        values=stored.values,
        labels=stored.labels,
        split=stored.split,
        class_names=stored.class_names,
        n_classes=stored.n_classes,
        seeds=tuple(range(stored.seeds)),
        epochs=stored.epochs,
        source=path,
    )


def _table(scores: Scores) -> str:
    names = scores.class_names
    columns: dict[str, list[Any]] = {"id": scores.ids.tolist(), "score": [f"{s:.6f}" for s in scores.values]}
    if scores.stderr is not None:
        columns["stderr"] = [f"{error:.6f}" for error in scores.stderr]
    if scores.labels is not None:
        columns["label"] = [names[label] if names else int(label) for label in scores.labels]
    if scores.split is not None:
        columns["split"] = scores.split.tolist()
    return csv_text(columns)
