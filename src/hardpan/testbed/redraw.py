"""Redrawing the examples behind accuracies: independent counts, or models that share their examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hardpan.stats.lines import Scale, fit_lines, to_scale
from hardpan.stats.resampling import Floats, block_sizes
from hardpan.testbed.tables import Booleans, Counts, Outcomes

Resample = Literal["models", "examples", "both"]
RESAMPLES: tuple[Resample, ...] = ("models", "examples", "both")

# A full covariance needs a product of two (models × examples) matrices; beyond this many models it is not made.
COVARIANCE_MODELS = 500
_EXAMPLES_AT_ONCE = 8192


@dataclass(frozen=True, slots=True, eq=False)
class Sampling:
    """How the accuracies of M models vary when their test sets are drawn again.

    Attributes:
        original_correct: (M,) right answers on the original set.
        original_total: (M,) its size.
        new_correct: (M,) right answers on the new set.
        new_total: (M,) its size.
        original_covariance: (M, M) covariance of the original accuracies when the models share examples, or None
            when only counts are known; models then count as independent.
        new_covariance: likewise on the new set.
    """

    original_correct: NDArray[np.int64]
    original_total: NDArray[np.int64]
    new_correct: NDArray[np.int64]
    new_total: NDArray[np.int64]
    original_covariance: Floats | None = None
    new_covariance: Floats | None = None

    def take(self, rows: Booleans) -> Sampling:
        """The same for the models of a mask."""
        parts = (self.original_covariance, self.new_covariance)
        shared = [None if part is None else part[np.ix_(rows, rows)] for part in parts]
        return Sampling(
            self.original_correct[rows],
            self.original_total[rows],
            self.new_correct[rows],
            self.new_total[rows],
            shared[0],
            shared[1],
        )

    def variance(self, side: Literal["original", "new"]) -> Floats:
        """Covariance (M, M) of the accuracies on a set where it is known, else variances (M,).

        Counts at an end get the variance of a count one example inside, so that no difference looks exact.
        """
        shared = self.original_covariance if side == "original" else self.new_covariance
        if shared is not None:
            return shared
        correct, total = self._counts(side)
        p = (np.clip(correct, 1, np.maximum(total - 1, 1))) / np.maximum(total, 2)
        return p * (1.0 - p) / total

    def draw(self, side: Literal["original", "new"], size: int, rng: np.random.Generator) -> Floats:
        """Accuracies (size, M) on a freshly drawn set, kept half an example away from 0 and 1."""
        correct, total = self._counts(side)
        shared = self.original_covariance if side == "original" else self.new_covariance
        p = correct / total
        if shared is None:
            drawn = rng.binomial(total, p, size=(size, len(total))) / total
        else:
            values, vectors = np.linalg.eigh(shared)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            drawn = p + rng.standard_normal((size, len(total))) @ root.T
        return np.asarray(np.clip(drawn, 0.5 / total, 1.0 - 0.5 / total))

    def _counts(self, side: Literal["original", "new"]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if side == "original":
            return self.original_correct, self.original_total
        return self.new_correct, self.new_total


def sampling_of(table: Counts | Outcomes) -> Sampling:
    """How a table's accuracies vary: with shared examples where they are given for not too many models."""
    counts = table.counts() if isinstance(table, Outcomes) else table
    shared: list[Floats | None] = [None, None]
    if isinstance(table, Outcomes) and len(table) <= COVARIANCE_MODELS:
        shared = [accuracy_covariance(table.original), accuracy_covariance(table.new)]
    return Sampling(
        counts.original_correct, counts.original_total, counts.new_correct, counts.new_total, shared[0], shared[1]
    )


def accuracy_covariance(right: Booleans) -> Floats:
    """Covariance of the accuracies of M models that share N examples: Σ̂/N from right or wrong, (M, M).

    Example:
        >>> accuracy_covariance(np.array([[True, False], [True, False]])).tolist()
        [[0.125, 0.125], [0.125, 0.125]]
    """
    models, n = right.shape
    both_right = np.zeros((models, models))
    for start in range(0, n, _EXAMPLES_AT_ONCE):
        # float32 holds counts up to 2^24 exactly, and the product is a fast one.
        part = right[:, start : start + _EXAMPLES_AT_ONCE].astype(np.float32)
        both_right += part @ part.T
    p = np.diag(both_right) / n
    return np.asarray((both_right / n - np.outer(p, p)) / n)


def lines_of_redrawn(
    sampling: Sampling, scales: Sequence[Scale], resample: Resample, resamples: int, seed: int
) -> Floats:
    """Slopes and offsets (scales, resamples, 2) of lines through redrawn accuracies (and models, for "both")."""
    models = len(sampling.original_total)
    lines: list[list[Floats]] = [[] for _ in scales]
    for index, size in enumerate(block_sizes(models, resamples)):
        rng = np.random.default_rng([seed, index])
        x, y = sampling.draw("original", size, rng), sampling.draw("new", size, rng)
        weights = rng.multinomial(models, np.full(models, 1.0 / models), size=size) if resample == "both" else None
        for scale, drawn in zip(scales, lines, strict=True):
            slope, offset, _ = fit_lines(to_scale(x, scale), to_scale(y, scale), weights)
            drawn.append(np.stack([slope, offset], axis=1))
    return np.stack([np.concatenate(drawn) for drawn in lines])
