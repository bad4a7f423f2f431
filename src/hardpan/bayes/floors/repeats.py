"""Repeated inputs: groups of equal rows, and the bound from their labels."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.bayes.floors.error_estimates import Labels, cover_hart
from hardpan.estimates import Estimate
from hardpan.stats import clopper_pearson

DRAWS, CHUNK = 1000, 100
FEWEST_GROUPS = 10  # a bootstrap over fewer groups says little


@dataclass(frozen=True, slots=True, eq=False)
class EqualInputs:
    """Rows with equal inputs.

    Attributes:
        group: (N,) number of the group of each row, rows of one group in one number.
        sizes: (G,) rows in each group.
    """

    group: Labels
    sizes: Labels

    def occurs_in(self, rows: Labels, others: Labels) -> NDArray[np.bool_]:
        """Which of ``rows`` equal one of ``others``."""
        return np.isin(self.group[rows], self.group[others])

    def repeats(self, rows: Labels) -> Labels:
        """Those of the rows that equal one before them."""
        again = np.ones(len(rows), dtype=bool)
        again[np.unique(self.group[rows], return_index=True)[1]] = False
        return rows[again]


def equal_inputs(x: NDArray[Any]) -> EqualInputs:
    """Group the rows of x by content; −0 equals 0, and all NaN are equal.

    Args:
        x: (N, ...) examples.

    Example:
        >>> equal_inputs(np.array([[0.0, np.nan], [1.0, 2.0], [-0.0, -np.nan]])).group.tolist()
        [0, 1, 0]
    """
    if x.ndim > 2 and x.dtype.kind != "f":  # images may be in a file: no copy of them all is made
        keys = row_digests(x)
    else:
        flat = np.ascontiguousarray(x.reshape(len(x), -1))
        if flat.dtype.kind == "f":
            flat = np.where(np.isnan(flat), np.nan, flat) + 0.0  # one NaN, and no negative zero
        if flat.dtype == object:
            flat = np.array([[str(cell) for cell in row] for row in flat])
        width = np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))
        keys = np.ascontiguousarray(flat).view(width).ravel()
    _, group, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    return EqualInputs(group.astype(np.int64).ravel(), sizes.astype(np.int64))


def equal_texts(texts: NDArray[Any], x: NDArray[Any]) -> EqualInputs:
    """Group rows whose texts and other columns are equal.

    Args:
        texts: (N,) strings.
        x: (N, d) other columns; d may be 0.

    Example:
        >>> equal_texts(np.array(["b", "a", "b"], dtype=object), np.zeros((3, 0))).group.tolist()
        [1, 0, 1]
    """
    number: dict[str, int] = {}
    for text in sorted(set(texts.tolist())):
        number[text] = len(number)
    own = np.array([number[text] for text in texts], dtype=np.float64)
    return equal_inputs(np.column_stack([own, x.astype(np.float64)]))


def row_digests(x: NDArray[Any]) -> NDArray[Any]:
    """(N,) 16 bytes of BLAKE2b of each row: equal for equal rows, and for others by no chance worth counting.

    Example:
        >>> first, second, third = row_digests(np.array([[[1]], [[2]], [[1]]]))
        >>> bool(first == third), bool(first == second)
        (True, False)
    """
    digests = np.empty((len(x), 2), dtype=np.uint64)
    for row in range(len(x)):
        content = np.ascontiguousarray(x[row]).tobytes()
        digests[row] = np.frombuffer(hashlib.blake2b(content, digest_size=16).digest(), dtype=np.uint64)
    return digests.view("V16").ravel()


def repeat_floor(
    equal: EqualInputs, labels: Labels, *, n_classes: int, confidence: float = 0.95, seed: int = 0
) -> Estimate | None:
    """Bound the Bayes error from below by the labels of repeated inputs.

    For m equal inputs with label counts c_k, d = 1 − Σ c_k(c_k − 1)/(m(m − 1)) is unbiased for the probability that
    two labels differ, and the Bayes error there is at least f(d) = (K−1)/K · (1 − √(1 − K/(K−1) · d)). With d
    pooled over groups (weights m) and L its lower limit, the bound is the proportion of repeated rows times f(L); f
    is convex, so pooling first is the safe direction. L is Clopper and Pearson's on discordant pairs where all
    groups are pairs, else a bootstrap quantile over groups; the proportion of repeated rows takes its own lower
    limit, each at half of the level.

    Valid only if whether an input is repeated does not depend on its labels.

    Returns:
        The bound, its lower limit at level (1 − confidence)/2. None where no input repeats, or no repeated input
        has two equal labels (the rows were de-duplicated, or copies were re-labelled).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.integers(0, 50, (4000, 1))
        >>> labels = ((x[:, 0] % 2) ^ (rng.random(4000) < 0.1)).astype(int)         # Bayes error 0.1
        >>> found = repeat_floor(equal_inputs(x), labels, n_classes=2)
        >>> 0.08 < found.low < 0.1
        True
    """
    k = int(labels.max()) + 1
    repeated = np.flatnonzero(equal.sizes > 1)
    if not len(repeated):
        return None
    counts = np.zeros((len(equal.sizes), k))
    np.add.at(counts, (equal.group, labels), 1.0)
    counts, sizes = counts[repeated], equal.sizes[repeated].astype(np.float64)
    differs = 1.0 - (counts * (counts - 1)).sum(axis=1) / (sizes * (sizes - 1))
    if not (counts >= 2).any():
        return None
    tail = (1 - confidence) / 4
    pooled = float(sizes @ differs / sizes.sum())
    if (sizes == 2).all():
        discordant = round(float(differs.sum()))
        low, high = (float(end) for end in clopper_pearson(discordant, len(sizes), 1 - 2 * tail))
        stderr = float(np.sqrt(pooled * (1 - pooled) / len(sizes)))
    elif len(sizes) < FEWEST_GROUPS:
        low, high, stderr = _repeated_pair_limits(sizes, differs, tail)
    else:
        rng = np.random.default_rng([seed, 5])
        chunks = []
        for _ in range(DRAWS // CHUNK):
            rows = rng.integers(0, len(sizes), (CHUNK, len(sizes)))
            chunks.append((sizes * differs)[rows].sum(axis=1) / sizes[rows].sum(axis=1))
        means = np.concatenate(chunks)
        low, high = (float(q) for q in np.quantile(means, (tail, 1 - tail)))
        stderr = float(means.std())
    distinct, inputs = len(sizes), len(equal.sizes)
    proportion = float(sizes.sum()) / len(labels)
    least = proportion * float(clopper_pearson(distinct, inputs, 1 - 2 * tail)[0]) * inputs / distinct
    if distinct == inputs:
        least = proportion
    guessing = (n_classes - 1) / n_classes
    bounds = [cover_hart(min(max(end, 0.0), guessing), n_classes) for end in (pooled, low, high)]
    return Estimate(
        proportion * bounds[0],
        proportion * stderr * (bounds[2] - bounds[1]) / max(high - low, 1e-300),
        least * bounds[1],
        proportion * bounds[2],
        confidence,
        f"labels of {distinct:,} repeated inputs",
        int(sizes.sum()),
        seed,
    )


def _repeated_pair_limits(
    sizes: NDArray[np.float64], differs: NDArray[np.float64], tail: float
) -> tuple[float, float, float]:
    """Limits of the disagreement for few large groups: labels of each group are cut into disjoint pairs.

    Of m labels with disagreement d there are ⌊m/2⌋ disjoint pairs whose expected discordance is d.
    """
    pairs = np.floor(sizes / 2)
    total, discordant = float(pairs.sum()), float((pairs * differs).sum())
    low = float(clopper_pearson(np.floor(discordant), total, 1 - 2 * tail)[0])
    high = float(clopper_pearson(np.ceil(discordant), total, 1 - 2 * tail)[1])
    value = discordant / total
    return low, high, float(np.sqrt(value * (1 - value) / total))
