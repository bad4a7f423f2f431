"""Bins of selection frequencies, and whole numbers that follow a distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import stats
from hardpan.errors import InputError
from hardpan.estimates import Estimate

EDGES = (0.2, 0.4, 0.6, 0.8)
BINS = ("0–0.2", "0.2–0.4", "0.4–0.6", "0.6–0.8", "0.8–1")
ROUNDING = 1e-9  # a frequency of 3/5 computed in another way still belongs to the bin that begins at 0.6


def largest_remainder(weights: ArrayLike, total: int) -> NDArray[np.int64]:
    """Whole numbers that sum to ``total`` and follow ``weights``: floors first, then the largest remainders.

    Ties go to the later entry, which for bins of frequencies is the higher one.

    Example:
        >>> largest_remainder([1, 1, 2], 6).tolist(), largest_remainder([1, 1], 3).tolist()
        ([1, 2, 3], [1, 2])
    """
    given = np.asarray(weights, dtype=np.float64)
    if given.ndim != 1 or not np.isfinite(given).all() or (given < 0).any() or given.sum() <= 0:
        raise InputError("weights must be one row of numbers of at least 0, not all 0")
    exact = given / given.sum() * total
    counts = np.floor(exact + ROUNDING).astype(np.int64)
    remainder = np.round(exact - counts, 9)
    order = sorted(range(len(given)), key=lambda k: (remainder[k], k), reverse=True)
    counts[order[: total - int(counts.sum())]] += 1
    return np.asarray(counts, dtype=np.int64)


def frequency_bins(frequencies: ArrayLike) -> NDArray[np.int64]:
    """The bin of each frequency: inner edges 0.2, 0.4, 0.6, 0.8, closed below, open above.

    Example:
        >>> frequency_bins([0.0, 0.19, 0.2, 0.6, 1.0]).tolist()
        [0, 0, 1, 3, 4]
    """
    return np.asarray(np.digitize(np.asarray(frequencies, dtype=np.float64) + ROUNDING, EDGES), dtype=np.int64)


def average_frequency(frequencies: ArrayLike) -> Estimate:
    """The mean selection frequency of images, with a normal interval over them."""
    values = np.asarray(frequencies, dtype=np.float64)
    method = "mean over images, normal interval"
    if not len(values):
        return stats.normal(np.nan, np.nan, 0, method=method)
    return stats.mean(values, least=0.0, most=1.0, method=method)
