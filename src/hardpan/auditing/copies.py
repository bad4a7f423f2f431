"""Rows that repeat: copies of training rows in an official test set, repeats within a split, conflicting labels.

Natural repeats of discrete rows are no defect. Whether an official test set has more rows that equal a training row
than one that is drawn like train is decided by two tests, from the groups of equal rows alone; both compare within
classes, so that other class proportions in test do not look like copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import signal
from scipy import stats as distributions

from hardpan.auditing.evidence import CopyTest, EveryRow
from hardpan.bayes.floors.error_estimates import Labels

HELD_BACK = 5  # random parts of train that are compared with test
PERMUTATIONS = 1999
MOST_LISTED = 100_000  # rows
PERMUTED_AT_ONCE = 4_000_000  # numbers


def copies_across_split(every: EveryRow, seed: int = 0) -> CopyTest | None:
    """Test whether an official test set contains copies of training rows; None where no row of it equals one.

    Args:
        every: the rows; train and validation are both training rows here.
        seed: of the random parts and permutations.

    Example:
        >>> from hardpan import Dataset
        >>> from hardpan.bayes.floors.inputs import split_inputs
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.integers(0, 9, (800, 3)), rng.integers(0, 2, 800)
        >>> split, ids = np.repeat(["train", "test"], [600, 200]), np.arange(800).astype(str)
        >>> every = EveryRow.of(split_inputs(Dataset.from_arrays(x, y, split=split, ids=ids), y, 0))
        >>> test = copies_across_split(every)
        >>> 90 < test.expected < 120, test.p_value > 0.1
        (True, True)
        >>> x[600:700] = x[:100]
        >>> every = EveryRow.of(split_inputs(Dataset.from_arrays(x, y, split=split, ids=ids), y, 0))
        >>> copies_across_split(every).p_value < 0.001
        True
    """
    if not len(every.copied):
        return None
    rows = every.equal.group, every.labels, every.training, every.parts["test"]
    tests = held_back_copies_test(*rows, seed), copy_similarity_test(*rows, seed)
    p_value, similarity = (min(1.0, 2 * value) for value in tests)
    return CopyTest(p_value, similarity, natural_copies(*rows))


def repeated_rows(every: EveryRow, class_names: Sequence[str]) -> dict[str, list[Any]]:
    """Columns of the rows that equal another one, with a number that equal rows share; at most 100,000 rows.

    Example:
        >>> from hardpan import Dataset
        >>> from hardpan.bayes.floors.inputs import split_inputs
        >>> data = Dataset.from_arrays([[1.0], [2.0], [1.0], [3.0], [2.0]], [0, 1, 1, 0, 1])
        >>> found = repeated_rows(EveryRow.of(split_inputs(data, data.labels, 0)), data.class_names)
        >>> found["row"], found["label"]
        ([1, 4, 0, 2], ['1', '1', '0', '1'])
    """
    rows = np.flatnonzero(every.equal.sizes[every.equal.group] > 1)
    rows = rows[np.argsort(every.equal.group[rows], kind="stable")][:MOST_LISTED]
    split = np.full(len(every.labels), "", dtype="<U10")
    for name, members in every.searched.items():
        split[members] = name
    label = np.array(class_names)[every.labels[rows]]
    columns = {"equal": every.equal.group[rows], "split": split[rows], "row": every.row[rows], "label": label}
    return {name: values.tolist() for name, values in columns.items()}


def natural_copies(group: Labels, labels: Labels, train: Labels, test: Labels) -> float:
    """How many test rows equal a training row if as many of each class do as training rows equal another one.

    Args:
        group: (N,) group of equal rows of each row.
        labels: (N,) class numbers.
        train: row numbers.
        test: row numbers.

    Example:
        >>> group, labels = np.array([0, 0, 1, 2, 0, 1]), np.zeros(6, dtype=int)
        >>> natural_copies(group, labels, np.arange(4), np.arange(4, 6))
        1.0
    """
    again = np.bincount(group[train], minlength=int(group.max()) + 1)[group[train]] > 1
    k = int(labels.max()) + 1
    own, repeated = (np.bincount(labels[train[rows]], minlength=k) for rows in (slice(None), again))
    return float(np.bincount(labels[test], minlength=k) @ (repeated / np.maximum(own, 1)))


def held_back_copies_test(group: Labels, labels: Labels, train: Labels, test: Labels, seed: int = 0) -> float:
    """Test whether more test rows equal a row of a part R of train than rows that were held back from train do.

    Of each class as many training rows as test has, at most half of them, are held back; R is the rest. If test
    is drawn like train within classes, then, given R, "equals a row of R" is an independent coin with one
    probability for held-back and test rows of a class, whatever the dependence between columns. One-sided
    hypergeometric test with classes as strata: the sum over classes of hypergeometric variables. Five parts are
    held back; the p-value is twice the median.

    Args:
        group: (N,) group of equal rows of each row.
        labels: (N,) class numbers.
        train: row numbers.
        test: row numbers.
        seed: of the parts.

    Example:
        >>> group, labels = np.r_[np.arange(900), np.arange(100)], np.zeros(1000, dtype=int)
        >>> held_back_copies_test(group, labels, np.arange(900), np.arange(900, 1000)) < 1e-9
        True
    """
    p_values = []
    for draw in range(HELD_BACK):
        back = held_back_for_copies(labels[train], labels[test], np.random.default_rng([seed, 101, draw]))
        known = np.zeros(int(group.max()) + 1, dtype=bool)
        known[group[train[~back]]] = True
        held_back = train[back]
        p_values.append(
            copies_by_class_p_value(known[group[held_back]], labels[held_back], known[group[test]], labels[test])
        )
    return min(1.0, 2 * float(np.median(p_values)))


def held_back_for_copies(train_labels: Labels, test_labels: Labels, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which training rows are held back: of each class as many as test has, at most half of them."""
    back = np.zeros(len(train_labels), dtype=bool)
    for label in np.unique(test_labels):
        rows = np.flatnonzero(train_labels == label)
        back[rng.permutation(rows)[: min(int((test_labels == label).sum()), len(rows) // 2)]] = True
    return back


def copy_similarity_test(group: Labels, labels: Labels, train: Labels, test: Labels, seed: int = 0) -> float:
    """Test whether a test set is too similar to train: a copied row takes part of each group that it belongs to.

    Σ_v (t_v − f n_v)²/n_v over groups v of equal rows (n_v rows in all, t_v of them in test, f the proportion of
    test rows) is small where test repeats train. Its p-value is exact: the rows are assigned to train and test at
    random, within classes, 1,999 times; (1 + draws with a statistic as small) / 2,000.

    Args:
        group: (N,) group of equal rows of each row.
        labels: (N,) class numbers.
        train: row numbers.
        test: row numbers.
        seed: of the permutations.

    Example:
        >>> group, labels = np.r_[np.arange(75), np.arange(25)], np.zeros(100, dtype=int)
        >>> copy_similarity_test(group, labels, np.arange(75), np.arange(75, 100))
        0.0005
    """
    rows = np.concatenate([train, test])
    is_test = np.arange(len(rows)) >= len(train)
    number, sizes = np.unique(group[rows], return_inverse=True, return_counts=True)[1:]
    number, fraction = number.ravel(), len(test) / len(rows)
    repeated = sizes > 1
    repeated_number = np.where(repeated, np.cumsum(repeated), 0)[number]  # 0: rows without an equal one
    weights = sizes[repeated].astype(np.float64)

    def statistic(in_test: NDArray[np.int64]) -> NDArray[np.float64]:
        """Of (D, 1 + V) test rows without an equal one, and of each group, up to a constant."""
        away = in_test[:, 1:] - fraction * weights
        return np.asarray((away**2 / weights).sum(axis=1) + (1 - 2 * fraction) * in_test[:, 0])

    columns = int(repeated.sum()) + 1
    observed = statistic(np.bincount(repeated_number[is_test], minlength=columns)[None])[0]
    strata = []
    for label in np.unique(labels[rows]):
        mine = labels[rows] == label
        used, counts = np.unique(repeated_number[mine], return_counts=True)
        strata.append((used, counts, int((mine & is_test).sum())))
    rng = np.random.default_rng([seed, 102])
    as_small, done = 0, 0
    while done < PERMUTATIONS:
        draws = min(PERMUTATIONS - done, max(1, PERMUTED_AT_ONCE // columns))
        in_test = np.zeros((draws, columns), dtype=np.int64)
        for used, counts, in_split in strata:
            in_test[:, used] += rng.multivariate_hypergeometric(counts, in_split, size=draws, method="marginals")
        as_small += int((statistic(in_test) <= observed * (1 + 1e-12) + 1e-9).sum())
        done += draws
    return (1 + as_small) / (1 + PERMUTATIONS)


def copies_by_class_p_value(
    held_hits: NDArray[np.bool_], held_labels: Labels, test_hits: NDArray[np.bool_], test_labels: Labels
) -> float:
    """:func:`copies_p_value` of hits among rows that were held back and test rows, by class."""
    counts = []
    for label in np.unique(test_labels):
        held, test = held_hits[held_labels == label], test_hits[test_labels == label]
        counts.append((len(held), int(held.sum()), len(test), int(test.sum())))
    return copies_p_value(counts)


def copies_p_value(counts: Sequence[tuple[int, int, int, int]]) -> float:
    """Probability of at least as many hits among new rows if hits fall on held-back and new rows of a class alike.

    Args:
        counts: by class: rows held back, hits among them, new rows, hits among these.

    Example:
        >>> round(copies_p_value([(10, 0, 10, 3)]), 4), round(copies_p_value([(10, 0, 10, 1)] * 2), 4)
        (0.1053, 0.25)
    """
    mass, least, observed = np.ones(1), 0, 0
    for back, back_hits, new, new_hits in counts:
        hits = back_hits + new_hits
        if not back or not hits:
            continue
        low, high = max(0, hits - back), min(hits, new)
        law = distributions.hypergeom.pmf(np.arange(low, high + 1), back + new, hits, new)
        mass = np.maximum(signal.convolve(mass, law), 0.0)
        least, observed = least + low, observed + new_hits
    return min(1.0, float(mass[observed - least :].sum()))
