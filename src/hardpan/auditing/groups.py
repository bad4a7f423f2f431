"""Groups that no column names: clusters of near rows, and columns that look like the id of a group.

A random split puts rows of one group on both sides; the error for a new group is then higher than what is reported.
Whether clusters are groups that new data will not repeat, or modes that it will, cannot be seen in the data: both
errors are stated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hardpan import stats
from hardpan.auditing.columns import LEVEL, image_features
from hardpan.auditing.evidence import Evidence
from hardpan.bayes.floors.error_estimates import Floats, Labels
from hardpan.bayes.floors.inputs import Columns, feature_columns, standardised
from hardpan.estimates import Estimate

MOST_ROWS, ROWS_PER_SECOND = 3000, 30  # drawn at random from more, and of the budget
FEWEST_CLUSTERS = 10
BLOCKS = 25  # of rows that follow one another
FOLDS = 5
ERROR_POINTS = 0.02  # below it a difference of errors is small
Z = 3.0  # standard errors by which the dimension must rise with the scale


def row_units(equal: Labels, groups: NDArray[Any] | None = None) -> Labels:
    """The unit of each row: its group; else equal rows are one unit where at least half of the rows differ.

    In tables whose rows mostly repeat, each row is a unit of its own: there repeats are values, not copies.

    Args:
        equal: (n,) a number that rows with equal inputs share.
        groups: (n,) group of each row, where groups are named.

    Example:
        >>> row_units(np.array([4, 7, 4])).tolist(), row_units(np.zeros(4, dtype=int)).tolist()
        ([0, 1, 0], [0, 1, 2, 3])
    """
    first, unit = np.unique(equal if groups is None else groups, return_inverse=True)
    if groups is None and 2 * len(first) < len(equal):
        return np.arange(len(equal))
    return np.asarray(unit, dtype=np.int64).ravel()


def one_row_per_group(units: Labels, rng: np.random.Generator) -> Labels:
    """Positions of one row of every unit, drawn at random, in rising order."""
    order = rng.permutation(len(units))
    return np.sort(order[np.unique(units[order], return_index=True)[1]])


@dataclass(frozen=True, slots=True)
class GroupErrors:
    """Errors of one model on a random split and on rows of new clusters.

    Attributes:
        clusters: how many clusters of two or more rows there are.
        random: cross-validated error in random folds.
        new: the same where no cluster is in two folds.
        difference: new minus random, with its interval over clusters.
        p_value: one-sided, that the errors are equal.
        model: "1-NN" or "extra trees", the one with the lower error in random folds.
    """

    clusters: int
    random: float
    new: float
    difference: Estimate
    p_value: float
    model: str

    @property
    def large(self) -> bool:
        """Whether the difference is significant, and at least 2 points."""
        return self.p_value <= LEVEL / 2 and self.difference.low >= ERROR_POINTS


def group_dimensions(x: Floats) -> tuple[Labels, Floats, Floats]:
    """Dimension of the neighbourhoods of j to 2j rows, for j = 1, 2, 4, ...

    Where the density is smooth, log(r_2j/r_j) of the distances to the j-th and 2j-th nearest rows has the mean
    (ψ(2j) − ψ(j))/d. At the size of a cluster the distance jumps over empty space, so that d is low; beyond it d
    rises again.

    Args:
        x: (n, d) different rows.

    Returns:
        j, the dimensions, and their standard errors.

    Source: Levina and Bickel, Maximum likelihood estimation of intrinsic dimension (2004).

    Example:
        >>> j, d, _ = group_dimensions(np.random.default_rng(0).normal(size=(2000, 2)))
        >>> bool((abs(d[:4] - 2) < 0.3).all())
        True
    """
    from sklearn.neighbors import NearestNeighbors

    j = 2 ** np.arange(max(1, int(np.log2(max(2, len(x) // 4)))))  # up to a quarter of the rows
    distances = NearestNeighbors(n_neighbors=int(2 * j[-1])).fit(x).kneighbors()[0]
    jumps = np.log(np.maximum(distances[:, 2 * j - 1], 1e-300) / np.maximum(distances[:, j - 1], 1e-300))
    mean, error = jumps.mean(axis=0), jumps.std(axis=0) / np.sqrt(len(x) / (2 * j))
    expected = special.digamma(2 * j) - special.digamma(j)
    mean = np.maximum(mean, 1e-12)
    return j, expected / mean, expected * error / mean**2


def find_groups(x: Floats) -> Labels | None:
    """Clusters of near rows by average linkage; None where the dimension rises at no scale.

    The dimension of rows from a smooth density falls with the scale or stays; that it rises by three standard
    errors shows empty space around clusters of that size.

    Args:
        x: (n, d) scaled rows.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> centres = rng.normal(size=(50, 6))
        >>> found = find_groups(np.repeat(centres, 10, axis=0) + 0.05 * rng.normal(size=(500, 6)))
        >>> len(np.unique(found)), find_groups(rng.normal(size=(500, 6)))
        (50, None)
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    j, dimension, error = group_dimensions(x)
    rise = dimension[None, :] - dimension[:, None]  # from a scale (row) to a larger one (column)
    clear = np.triu(rise > Z * np.hypot(error[None, :], error[:, None]), 1).any(axis=1)
    clear &= (j + 1) * FEWEST_CLUSTERS <= len(x)
    if not clear.any():
        return None
    at = int(np.argmin(np.where(clear, dimension, np.inf)))
    tree = linkage(x, "average")
    heights = np.log(np.maximum(tree[:, 2], 1e-300))
    # A cluster has j + 1 to 2j rows: of the numbers of clusters around that, the one with the clearest gap.
    few, many = (int(np.clip(len(x) / part, 2, len(x) - 1)) for part in (2.5 * j[at], 0.6 * (j[at] + 1)))
    gaps = np.diff(heights[len(x) - 1 - many : len(x) - few])
    clusters = many - int(gaps.argmax()) if len(gaps) else few
    return np.asarray(fcluster(tree, clusters, "maxclust"), dtype=np.int64) - 1


def group_errors(
    x: Floats, labels: Labels, clusters: Labels, seed: int = 0, stop: Callable[[], bool] = lambda: False
) -> GroupErrors | None:
    """Error of 1-NN or extra trees on rows of new clusters, beside that in random folds.

    Rows whose class has most of its rows in one fold are left out of both: no model could know it. The test is a
    t test of the difference of errors summed over clusters.

    Args:
        x: (n, d) scaled features without missing values.
        labels: (n,) class numbers.
        clusters: (n,) cluster of each row.
        seed: of the folds.
        stop: whether the time is used up, asked before every fold; then the result is None.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> cluster = np.repeat(np.arange(60), 8)
        >>> x = rng.normal(size=(60, 4))[cluster] + 0.05 * rng.normal(size=(480, 4))
        >>> errors = group_errors(x, rng.integers(0, 2, 60)[cluster], cluster)
        >>> errors.random < 0.05, errors.new > 0.3
        (True, True)
    """
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.neighbors import KNeighborsClassifier

    rng = np.random.default_rng([seed, 91])
    number = np.unique(clusters, return_inverse=True)[1].ravel()
    folds = {"new": (rng.permutation(number.max() + 1) % FOLDS)[number], "random": rng.permutation(len(x)) % FOLDS}
    models: dict[str, Any] = {
        "1-NN": lambda: KNeighborsClassifier(1, algorithm="brute"),
        "extra trees": lambda: ExtraTreesClassifier(50, min_samples_leaf=1, random_state=seed % 2**31),
    }
    wrong = {(kind, name): np.zeros(len(x), dtype=bool) for kind in folds for name in models}
    known, total = np.ones(len(x), dtype=bool), np.bincount(labels)
    for kind, fold in folds.items():
        for k in range(FOLDS):
            if stop():
                return None
            fit, queried = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            if not len(fit) or not len(queried):
                continue
            left = np.bincount(labels[fit], minlength=len(total)) / np.maximum(1, total)
            known[queried] &= left[labels[queried]] >= 0.5
            for name, make in models.items():
                wrong[kind, name][queried] = make().fit(x[fit], labels[fit]).predict(x[queried]) != labels[queried]
    used = len(np.unique(number[known]))
    if used < FEWEST_CLUSTERS:
        return None
    best = min(models, key=lambda name: float(wrong["random", name][known].mean()))
    difference = wrong["new", best][known].astype(np.float64) - wrong["random", best][known]
    sums = np.bincount(number[known], difference, minlength=number.max() + 1)
    size = np.bincount(number[known], minlength=number.max() + 1)
    mean = float(difference.mean())
    error = float(np.sqrt(((sums - mean * size) ** 2).sum() * used / (used - 1)) / size.sum())
    p_value = float(special.stdtr(used - 1, -mean / error)) if error > 0 else float(mean <= 0)
    method = "error on rows of new clusters minus error in random folds"
    estimate = stats.normal(mean, error, len(difference), method=method, df=used - 1)
    rates = [float(wrong[kind, best][known].mean()) for kind in ("random", "new")]
    several = int(np.count_nonzero(np.bincount(number) > 1))
    return GroupErrors(several, rates[0], rates[1], estimate, p_value, best)


def group_id_columns(columns: Columns, labels: Labels) -> list[str]:
    """Columns of categories or whole numbers whose values repeat, each with one label, beyond chance.

    With independent labels all rows of every value agree with probability Π_v Σ_c p_c^{n_v}; a column is listed
    where that is at most 2 % divided by the number of columns.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> patient, age = np.repeat(np.arange(50), 6), rng.integers(0, 40, 300)
        >>> columns = Columns(np.column_stack([patient, age]) * 1.0, ("patient", "age"), np.zeros(2, dtype=bool))
        >>> group_id_columns(columns, rng.integers(0, 2, 50)[patient])
        ['patient']
    """
    share = np.bincount(labels) / len(labels)
    id_columns = []
    for j, name in enumerate(columns.names):
        column = columns.values[:, j]
        known = ~np.isnan(column)
        if not known.any() or not (columns.categorical[j] or (column[known] == np.round(column[known])).all()):
            continue
        _, value, size = np.unique(column[known], return_inverse=True, return_counts=True)
        if len(size) < FEWEST_CLUSTERS or 2 * len(size) > np.count_nonzero(known):
            continue
        pairs = np.unique(np.stack([value.ravel(), labels[known]]), axis=1).shape[1]
        chance = float(np.log((share[:, None] ** size).sum(axis=0)).sum())
        if pairs == len(size) and chance <= np.log(LEVEL / len(columns.names)):
            id_columns.append(name)
    return id_columns


def group_facts(evidence: Evidence) -> Iterator[tuple[Estimate, dict[str, Any]]]:
    """Effect and details of the note "groups", where the split was made here and no column of groups is named.

    Groups are, in this order: the values of a column that look like ids; clusters of near rows; blocks of rows that
    follow one another in the file. Of independent rows in any order, blocks are as good as random folds.
    """
    dataset, inputs = evidence.dataset, evidence.inputs
    if (
        dataset.split is not None
        or {"group", "time"} & set(dataset.metadata)
        or inputs is None
        or not len(inputs.test)
    ):
        return

    def stop() -> bool:
        return evidence.is_late("groups")

    if stop():
        return
    rng = np.random.default_rng([evidence.config.seed, 92])
    most = int(np.clip(ROWS_PER_SECOND * evidence.config.budget, MOST_ROWS / 3, MOST_ROWS))
    names = [] if evidence.is_images else group_id_columns(feature_columns(dataset), evidence.labels)
    rows = one_row_per_equal_group(evidence, np.sort(rng.permutation(len(dataset))[:most]), rng)
    values = scaled_rows_of_groups(evidence, rows)
    group: Labels | None = None
    if names:
        columns = feature_columns(dataset)
        group = np.unique(columns.values[rows, columns.names.index(names[0])], return_inverse=True)[1].ravel()
    elif len(rows) >= 10 * FEWEST_CLUSTERS:
        group = find_groups(values)
    errors = (
        None if group is None else group_errors(values, evidence.labels[rows], group, evidence.config.seed, stop)
    )
    kind = "values" if names else "clusters"
    if not names and (errors is None or not errors.large) and not stop():
        start = int(rng.integers(0, max(1, len(dataset) - most + 1)))
        rows = one_row_per_equal_group(evidence, inputs.order[start : start + most], rng)
        values = scaled_rows_of_groups(evidence, rows)
        if len(rows) < 2 * BLOCKS:
            return
        blocks, kind = np.arange(len(rows)) * BLOCKS // len(rows), "blocks"
        errors = group_errors(values, evidence.labels[rows], blocks, evidence.config.seed, stop)
    if errors is None or (not names and not errors.large):
        return
    details = {"clusters": errors.clusters, "new": errors.new, "random": errors.random, "model": errors.model}
    yield (
        errors.difference,
        details | {"columns": tuple(names), "by": kind, "large": errors.large, "rows": len(rows)},
    )


def scaled_rows_of_groups(evidence: Evidence, rows: Labels) -> Floats:
    """Scaled features of some rows, of images the means of blocks."""
    assert evidence.inputs is not None
    if evidence.is_images:
        return standardised(image_features(np.asarray(evidence.dataset.x[rows]))[0], np.arange(len(rows)))
    return np.asarray(evidence.inputs.table.scaled[rows], dtype=np.float64)


def one_row_per_equal_group(evidence: Evidence, rows: Labels, rng: np.random.Generator) -> Labels:
    """Of the rows with equal inputs, one each, drawn at random, in the same order."""
    assert evidence.inputs is not None
    return rows[one_row_per_group(evidence.inputs.equal.group[rows], rng)]
