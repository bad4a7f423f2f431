"""Near-copies across the split: test examples that are closer to a training example than chance explains.

A near-copy is much closer to its nearest training example than to the second nearest: the ratio of the distances is
below a limit, the widest one below which there are far more examples than chance explains. The ratio is independent
of how dense the data are. Chance is judged by the larger ratios, and by the ratios of training examples among
themselves. Images are also compared after turning and mirroring them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import pdtrc

from hardpan.auditing.evidence import Evidence, Nearest
from hardpan.bayes.floors.error_estimates import Floats, Labels
from hardpan.bayes.floors.neighbours import k_nearest
from hardpan.bayes.floors.repeats import row_digests

RATIOS = (0.8, 0.7, 0.6, 0.5, 0.35, 0.25, 0.1, 0.03, 0.01)  # of the distances to the nearest and second nearest
LOWEST_BIN = 0.5  # the number below narrower limits is extrapolated from the bins above this one
BINS = (0.4, 0.75)  # ends of the two bins, as fractions of the way from a limit to 1
BY_CHANCE = 0.2  # proportion of the near-copies that chance may explain
PRODUCTS_PER_SECOND = 1e11  # of the nearest-neighbour search, on two cores
FEWEST_DISTANCES = 20
TURNED_AT_ONCE = 10_000
FEWEST = 3
SEARCH_SHARE = 0.1  # of the budget that the search may take


def nearest_training(evidence: Evidence) -> Nearest:
    """The nearest different training rows of each test row; of a sample where there are many."""
    assert evidence.inputs is not None
    train, test, x = evidence.modelled.train, evidence.modelled.test, evidence.inputs.table.scaled
    train = train[np.unique(evidence.inputs.equal.group[train], return_index=True)[1]]
    allowed = PRODUCTS_PER_SECOND * SEARCH_SHARE * evidence.config.budget
    most = max(100, int(allowed / max(1, len(train) * x.shape[1])))
    queries = test
    if len(test) > most:
        queries = np.sort(np.random.default_rng([evidence.config.seed, 11]).choice(test, most, replace=False))
    at, distances = k_nearest(x[train], x[queries], min(2, len(train)))
    own = np.zeros((0, 2))
    if len(train) > 2:  # the nearest of the three is the row itself
        some = np.random.default_rng([evidence.config.seed, 12]).permutation(train)[: min(most, 2 * len(queries))]
        own = k_nearest(x[train], x[some], 3)[1][:, 1:]
    return Nearest(queries, np.asarray(distances, dtype=np.float64), train[at[:, 0]], own)


def near_copies(found: Nearest, exact: NDArray[np.bool_]) -> Labels:
    """Test rows that are nearly copies, the closest first; ``exact`` are copies, which are no near-copies.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> away = np.sort(rng.normal(10, 1, (400, 2)), axis=1)
        >>> away[:9, 0] = 3.5
        >>> near_copies(Nearest(np.arange(400), away, np.arange(400)), np.zeros(400, dtype=bool)).tolist()
        [0, 1, 2, 3, 4, 5, 6, 7, 8]
    """
    first, near = found.distances[:, 0], np.zeros(len(found.rows), dtype=bool)
    if (~exact).sum() >= FEWEST_DISTANCES and found.distances.shape[1] > 1:
        ratio = _distance_ratios(found.distances)
        near = (ratio < _near_copy_ratio(ratio[~exact], _distance_ratios(found.own))) & ~exact
    rows = np.flatnonzero(near)
    return np.asarray(found.rows[rows[np.argsort(first[rows], kind="stable")]])


def _distance_ratios(distances: Floats) -> Floats:
    return np.where(distances[:, 1] > 0, distances[:, 0] / np.maximum(distances[:, 1], 1e-300), 1.0)


def _near_copy_ratio(ratio: Floats, own: Floats) -> float:
    """The widest of the ratios below which there are far more examples than chance explains; 0 where there is none.

    Where the density is locally even, the ratio of the two distances is below r with probability r^d in d
    dimensions: in many dimensions a ratio of 0.8 is rare, in few one of 0.3 is not. Examples may differ in d, and
    those of few dimensions dominate low ratios: so d comes from the two bins above a limit, by which the number
    below it is extrapolated. Near-copies with much noise fall into these bins, too, so chance may also be judged by
    ``own``, the ratios of training examples among themselves.
    """
    powers = np.linspace(1.0, 120.0, 1200)
    for limit in RATIOS:
        low = max(limit, LOWEST_BIN)
        middle, high = (low + (1 - low) * end for end in BINS)
        c, d = (float(((ratio >= a) & (ratio < b)).sum()) + 1.0 for a, b in ((low, middle), (middle, high)))
        c, d = c + np.sqrt(c), max(0.0, d - np.sqrt(d))  # towards few dimensions: low ratios are common there
        power = float(np.interp(d / c, (high**powers - middle**powers) / (middle**powers - low**powers), powers))
        expected = c * limit**power / (middle**power - low**power)
        count, inside = int((ratio < limit).sum()), float((own < limit).sum())
        usual = (inside + 2 * np.sqrt(inside) + 1) * len(ratio) / len(own) if len(own) else expected
        if count >= max(FEWEST, poisson_limit(expected) + 1) and min(expected, usual) <= BY_CHANCE * count:
            return limit
    return 0.0


def poisson_limit(mean: float) -> int:
    """The count that a Poisson variable of this mean exceeds with probability below 0.1 %.

    Example:
        >>> poisson_limit(0.0), poisson_limit(10.0)
        (0, 21)
    """
    count = 0
    while mean > 0 and pdtrc(count, mean) > 0.001:
        count += 1
    return count


def turned_copies(evidence: Evidence) -> Labels:
    """Test images that equal a training image after a quarter turn, a half turn or mirroring, not as they are."""
    x, split = evidence.dataset.x, evidence.split
    elsewhere = np.zeros(len(x), dtype=bool)
    elsewhere[split.train] = elsewhere[split.validation] = True
    own = row_digests(x)
    known = np.unique(own[elsewhere])
    copied = np.zeros(len(split.test), dtype=bool)
    for start in range(0, len(split.test), TURNED_AT_ONCE):
        images = x[split.test[start : start + TURNED_AT_ONCE]]
        for turned in _turned_images(images):
            copied[start : start + len(images)] |= np.isin(row_digests(turned), known)
    return np.asarray(split.test[copied & ~np.isin(own[split.test], known)])


def _turned_images(images: NDArray[np.generic]) -> Iterator[NDArray[np.generic]]:
    square = images.shape[1] == images.shape[2]
    for flipped in (images, images[:, :, ::-1]):
        for quarters in range(4) if square else (0, 2):
            if quarters or flipped is not images:
                yield np.rot90(flipped, quarters, axes=(1, 2))
