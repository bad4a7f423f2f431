"""Confusion scores: mean over seeds, then entropy, then mean over epochs; streamed, with standard errors."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.confusion.entropy import Floats, entropies
from hardpan.confusion.sources import Epochs, Part, read
from hardpan.confusion.uncertainty import block_variance, jackknife_variance
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.files import array_hash, record


@record
@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """A confusion score for each example; ``np.asarray`` gives the values.

    Attributes:
        ids: (N,) ids of the examples.
        values: (N,) scores, from 0 (all seeds sure of one class, always) to log C.
        stderr: (N,) standard errors: over seeds where there are several, else over epochs; None unless asked for.
        stderr_seeds: (N,) from the jackknife over seeds, None where there is one seed.
        stderr_epochs: (N,) from the block bootstrap over epochs, None where there is one epoch. It takes the
            progress of training for chance, too, so it is an upper bound.
        left_out: (S, N) scores without each seed in turn.
        halves: (2, N) scores from every other epoch.
        labels: (N,) class numbers where known.
        split: (N,) "train", "validation" or "test" where known.
        class_names: names of the classes where known.
        n_classes: how many there are.
        base: of the logarithm.
        seeds: numbers of the seeds that were used.
        epochs: numbers of the epochs that were used.
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
        """The largest score there can be, log C."""
        return math.log(self.n_classes) / math.log(self.base)

    @property
    def sha256(self) -> str:
        """Names ids and values: what a subset remembers of the scores it was cut from."""
        return array_hash(np.array([array_hash(self.ids.astype(np.str_)), array_hash(self.values)]))

    def in_bits(self) -> Scores:
        """The same scores with logarithms to base 2, which is what pages show."""
        scale = math.log2(self.base)
        if scale == 1.0:
            return self
        names = ("values", "stderr", "stderr_seeds", "stderr_epochs", "left_out", "halves")
        columns: dict[str, Any] = {}
        for name in names:
            column = getattr(self, name)
            columns[name] = None if column is None else column * scale
        return dataclasses.replace(self, base=2.0, **columns)

    def rows(self, kept: ArrayLike) -> Scores:
        """The scores of some rows, given by a mask or by their numbers."""
        chosen = np.asarray(kept)
        names = (
            "ids",
            "values",
            "stderr",
            "stderr_seeds",
            "stderr_epochs",
            "left_out",
            "halves",
            "labels",
            "split",
        )
        cut: dict[str, Any] = {}
        for name in names:
            column = getattr(self, name)
            cut[name] = None if column is None else column[..., chosen]
        return dataclasses.replace(self, **cut)

    def part(self, name: str) -> Scores:
        """The scores of one part of the split: "train", "validation" or "test"; or of "all"."""
        if name == "all":
            return self
        if self.split is None:
            raise InputError(
                f"part {name!r}: these scores know no split; use 'all', or give the dataset that knows one"
            )
        mask = self.split == name
        if not mask.any():
            raise InputError(
                f"part of the split must be one of all, {', '.join(np.unique(self.split))}; got {name!r}"
            )
        return self.rows(mask)


def scores(
    probs: Any,
    base: float = 2.0,
    epochs: Epochs = "all",
    seeds: Sequence[int] | None = None,
    stderr: bool = False,
    *,
    ids: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    block: int | None = None,
    compiled: bool | None = None,
    progress: Progress | None = None,
) -> Scores:
    """Score how confusing each example is to an ensemble over its training.

    s(x) = 1/T Σ_t H(1/M Σ_i f_t⁽ⁱ⁾(x)), with H(p) = −Σ_j p_j log p_j: the mean over seeds comes before the entropy,
    the mean over epochs after it. Blocks of examples are read, scored and forgotten: memory does not grow with T.
    Each example is computed by itself, in a fixed order: the result has the same bits for any block and back end.

    Args:
        probs: array (seeds, epochs, examples, classes), (epochs, examples, classes) or (examples, classes) of
            probabilities; or a :class:`hardpan.predictions.Predictions`; or the path of one.
        base: of the logarithm; 2 gives bits, as the paper's figures have it.
        epochs: "all", a whole number k for every k-th beginning with the first, or a list of epoch numbers.
        seeds: numbers of the seeds to use; all where None.
        stderr: whether to give each score a standard error.
        ids: (N,) ids for an array.
        labels: (N,) class numbers; not used for the scores, but kept with them.
        block: examples at a time.
        compiled: True for the numba kernel, False for NumPy, None for numba where it is installed.
        progress: told the fraction done.

    Returns:
        A score for each example; float64.

    Source: Albiero et al., "Confusing Large Models by Confusing Small Models" (2023), Eqs. (1) to (3).

    Example:
        >>> import numpy as np
        >>> one, other = [[[1.0, 0.0], [0.5, 0.5]]], [[[0.0, 1.0], [0.5, 0.5]]]  # 1 epoch, 2 examples, 2 classes
        >>> probs = np.array([one, other])
        >>> np.asarray(scores(probs)).tolist()  # seeds that disagree confuse as much as seeds that do not know
        [1.0, 1.0]
    """
    scale = _unit(base)
    source = read(probs, epochs=epochs, seeds=seeds, ids=ids, labels=labels)
    piece = functools.partial(_scored, stderr=bool(stderr), compiled=compiled)
    found = source.map(piece, block=block, progress=progress)
    columns = {name: np.concatenate([item[name] for item in found], axis=-1) for name in found[0]}
    if scale != 1.0:
        columns = {name: column * scale for name, column in columns.items()}
    best = columns.get("stderr_seeds", columns.get("stderr_epochs"))
    return Scores(
        ids=source.ids,
        stderr=best,
        labels=source.labels,
        split=source.split,
        class_names=source.class_names,
        n_classes=source.n_classes,
        base=float(base),
        seeds=source.seeds,
        epochs=source.epochs,
        source=source.name,
        **columns,
    )


def _scored(part: Part, *, stderr: bool, compiled: bool | None) -> Mapping[str, Floats]:
    """The scores of some rows in bits, and what their standard errors need."""
    epochs, seeds = len(part.epochs), len(part.seeds)
    if not stderr:
        total = np.zeros(len(part))
        for t in range(epochs):
            total += entropies(part, t, compiled=compiled)
        return {"values": total / epochs}
    curve = np.stack([entropies(part, t, compiled=compiled) for t in range(epochs)])
    found = {"values": mean_in_order(curve)}
    if seeds > 1:
        rest = [[seed for seed in range(seeds) if seed != out] for out in range(seeds)]
        found["left_out"] = np.stack(
            [mean_in_order(np.stack([entropies(part, t, kept, compiled) for t in range(epochs)])) for kept in rest]
        )
        found["stderr_seeds"] = np.sqrt(jackknife_variance(found["left_out"]))
    if epochs > 1:
        found["stderr_epochs"] = np.sqrt(block_variance(curve))
        found["halves"] = np.stack([mean_in_order(curve[first::2]) for first in (0, 1)])
    return found


def mean_in_order(values: Floats) -> Floats:
    """The mean over the first axis, added one after another.

    NumPy chooses the order of a sum by the shape of what it sums, which would let a block's size into the last bit.
    """
    total = np.zeros(values.shape[1:])
    for row in values:
        total += row
    return total / len(values)


def _unit(base: float) -> float:
    """What a bit is in logarithms to ``base``."""
    if isinstance(base, bool) or not isinstance(base, (int, float)) or not (math.isfinite(base) and base > 1):
        raise InputError(f"base must be a number above 1, such as 2 for bits; got {base!r}")
    return 1.0 if base == 2 else math.log(2.0) / math.log(base)
