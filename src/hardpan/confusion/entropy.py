"""Entropy of the mean over seeds, row by row: the compiled kernel where there is one, NumPy elsewhere."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.confusion.sources import Part
from hardpan.errors import InputError

Floats = NDArray[np.float64]


def entropies(part: Part, index: int, seeds: Sequence[int] | None = None, compiled: bool | None = None) -> Floats:
    """Bits of entropy of the mean over some seeds, for the rows of a part at one epoch.

    H(x) = −Σ_j p_j log₂ p_j with p = 1/M Σ_i f⁽ⁱ⁾(x). Half and single precision are added up in single precision,
    double in double; a row's bits do not depend on the rows around it.

    Args:
        part: the rows.
        index: place of the epoch among the part's epochs.
        seeds: places of the seeds to use; all where None.
        compiled: True for numba, False for NumPy, None for numba where it is installed.

    Returns:
        (rows,) bits.
    """
    rows, place, start = part.epoch(index)
    chosen = np.arange(len(rows)) if seeds is None else np.asarray(seeds, dtype=np.int64)
    kernel = _kernel() if compiled is not False and rows.dtype.itemsize < 8 else None
    tolerance = sum_tolerance(rows.shape[-1])
    if kernel is None:
        given = [rows[seed, place, start : start + len(part)] for seed in chosen]
        found, bad = _by_numpy(given, tolerance)
    else:
        found = np.empty(len(part))
        half = rows.dtype.itemsize == 2
        run = kernel.half_entropies if half else kernel.single_entropies
        bits = rows.view(np.uint16) if half else rows
        bad = int(run(bits, chosen, place, start, start + len(part), tolerance, found))
        bad = bad - start if bad >= 0 else -1
    if bad >= 0:
        _refuse(part, index, bad, rows[chosen, place, start + bad].astype(np.float64))
    return found


def sum_tolerance(n_classes: int) -> float:
    """How far a row's sum may be from 1: what rounding to half precision explains, twice over, as in a store."""
    return float(2.0**-10 + n_classes * 2.0**-24)


def _by_numpy(given: list[NDArray[Any]], tolerance: float) -> tuple[Floats, int]:
    wide: Any = np.float64 if given[0].dtype.itemsize == 8 else np.float32
    mean: NDArray[Any] = given[0].astype(wide)
    negative = (given[0] < 0).any(axis=-1)
    for other in given[1:]:  # one after another: the order of the sum is the same for any number of rows
        mean += other
        negative |= (other < 0).any(axis=-1)
    mean *= wide(1.0 / len(given))
    with np.errstate(invalid="ignore", over="ignore"):
        total = mean.sum(axis=-1, dtype=np.float64)
        wrong = negative | ~(np.abs(total - 1.0) <= tolerance)
    if wrong.any():
        return np.zeros(len(mean)), int(np.argmax(wrong))
    logarithm = np.log2(mean, out=np.zeros_like(mean), where=mean > 0)
    logarithm *= mean
    # A sum of −1·log₂1 would be −0.
    return 0.0 - logarithm.sum(axis=-1, dtype=np.float64), -1


def _refuse(part: Part, index: int, row: int, values: Floats) -> None:
    if np.isnan(values).any():
        reason = "holds NaN"
    elif values.min() < 0:
        reason = f"holds {values.min():.4g}"
    else:
        sums = values.sum(axis=-1)
        reason = f"sums to {sums[np.argmax(np.abs(sums - 1.0))]:.6g}"
    raise InputError(
        f"probs: row {part.first_row + row} at epoch {part.epochs[index]} is not a probability ({reason}); "
        "give probabilities (softmax of logits), and leave out rows that have none"
    )


@functools.cache
def _kernel() -> Any:
    try:
        from hardpan.confusion import kernel
    except ImportError:  # numba is not for every platform and version; NumPy gives the same to about 1e-6 bits
        return None
    return kernel
