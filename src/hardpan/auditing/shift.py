"""Whether the test rows are drawn like the training rows, and whether rows change along the file or over time.

Four tests, each with a level that is exact or conservative for independent units: a classifier two-sample test, the
labels, every column, and the error of a model on test above its error on training rows that it did not see. Rows of
one group are one unit; so are equal rows where most rows differ, and what the split keeps together: equal rows,
values of a column, clusters of near rows. Of every unit one row, drawn at random, is tested: if the split was drawn
by these units or by rows, its split is drawn like that of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import stats
from hardpan.auditing.columns import LEVEL, image_features, text_columns
from hardpan.auditing.evidence import Evidence
from hardpan.auditing.groups import (
    ERROR_POINTS,
    find_groups,
    one_row_per_equal_group,
    one_row_per_group,
    row_units,
    scaled_rows_of_groups,
)
from hardpan.auditing.groups import MOST_ROWS as CLUSTERED_ROWS
from hardpan.bayes.floors.classifiers import class_differences
from hardpan.bayes.floors.error_estimates import Floats, Labels
from hardpan.bayes.floors.inputs import Columns, feature_columns
from hardpan.estimates import Estimate

AUC = 0.6  # above it the difference between train and test is large; for one threshold of a column, |F − G| of 0.2
LABEL_POINTS = 0.1
MOST_ROWS = 10_000  # of a split, drawn at random from more
MOST_COLUMNS = 200  # for the models; of more, those that differ most in the half that they are fitted on
FEWEST_ROWS = 20  # of each split
FITTED = 0.7  # of the training units, that the model is fitted on whose error is compared
EXPECTED = 5.0  # rows per cell, from which the chi-square distribution is used
DRAWS = 20_000  # of tables with fewer
MERGED = 0.5  # exceptions of clusters, some of which are two that were joined
LAST = 0.2  # of the rows in the order of the file


@dataclass(frozen=True, slots=True)
class ShiftPart:
    """One comparison of train and test.

    Attributes:
        name: "rows", "labels", "columns" or "error".
        p_value: of its test.
        large: whether the difference exceeds what makes it a claim.
        details: its numbers.
    """

    name: str
    p_value: float
    large: bool
    details: dict[str, Any] = field(default_factory=dict)


def membership_test(values: Floats, in_test: NDArray[np.bool_], seed: int = 0) -> ShiftPart | None:
    """Classifier two-sample test: can gradient boosting tell test rows from training rows?

    Rows are cut in two halves; a model fitted on either ranks the rows of the other, and the Mann–Whitney test
    compares the ranks of test and training rows. Given the model, the rows of the other half are exchangeable under
    the null. P is twice the smaller of the two; the AUC is the mean of both.

    Args:
        values: (n, d) numbers, NaN where missing; independent rows.
        in_test: (n,) which rows are test rows.
        seed: of the halves.

    Returns:
        The part "rows", None where there are too few rows or no values.

    Source: Lopez-Paz and Oquab, Revisiting classifier two-sample tests (2017).

    Example:
        >>> x = np.random.default_rng(0).normal(size=(400, 2)) + np.repeat([[0.0], [2.0]], 200, axis=0)
        >>> membership_test(x, np.arange(400) >= 200).details["auc"] > 0.9
        True
    """
    from scipy.stats import mannwhitneyu
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng([seed, 81])
    half = np.zeros(len(values), dtype=np.int64)
    for side in (False, True):
        rows = rng.permutation(np.flatnonzero(in_test == side))
        half[rows[: len(rows) // 2]] = 1
    if min(np.count_nonzero(in_test), np.count_nonzero(~in_test)) < FEWEST_ROWS:
        return None
    p_values, areas = [], []
    for k in (0, 1):
        fit, rank = np.flatnonzero(half == k), np.flatnonzero(half != k)
        used = np.flatnonzero(np.isfinite(values[fit]).any(axis=0))  # the trees refuse a column without values
        if not len(used):
            return None
        if len(used) > MOST_COLUMNS:
            differences = class_differences(values[:, used], in_test.astype(np.int64), fit)
            used = used[np.argsort(-differences, kind="stable")[:MOST_COLUMNS]]
        model = HistGradientBoostingClassifier(
            max_iter=40,
            max_leaf_nodes=15,
            min_samples_leaf=min(20, len(fit) // 5),
            early_stopping=False,
            random_state=0,
        )
        model.fit(values[np.ix_(fit, used)], in_test[fit])
        score = model.predict_proba(values[np.ix_(rank, used)])[:, 1]
        inside, outside = score[in_test[rank]], score[~in_test[rank]]
        test = mannwhitneyu(inside, outside, alternative="greater")
        p_values.append(float(test.pvalue))
        areas.append(float(test.statistic) / (len(inside) * len(outside)))
    area = float(np.mean(areas))
    return ShiftPart("rows", min(1.0, 2 * min(p_values)), area >= AUC, {"auc": area, "rows": len(values)})


def table_p_value(table: NDArray[np.int64], seed: int = 0) -> float:
    """P-value that the columns of a (2, K) table of counts have one distribution.

    Fisher's exact test for K = 2; the chi-square test where all expected counts are at least 5; else the chi-square
    statistic of 20,000 tables with the same margins, (1 + those as large)/(1 + 20,000).

    Example:
        >>> round(table_p_value(np.array([[3, 1], [1, 3]])), 3)
        0.486
    """
    from scipy.stats import chi2, fisher_exact

    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2 or (table.sum(axis=1) == 0).any():
        return 1.0
    if table.shape[1] == 2:
        return float(min(1.0, fisher_exact(table)[1]))
    margin, total = table.sum(axis=0), table.sum()
    expected = np.outer(table.sum(axis=1), margin) / total

    def statistic(first: NDArray[np.int64]) -> Floats:
        deviation = (first - expected[0]) ** 2
        return np.asarray((deviation / expected[0] + deviation / expected[1]).sum(axis=-1))

    observed = float(statistic(table[0]))
    if expected.min() >= EXPECTED:
        return float(chi2.sf(observed, table.shape[1] - 1))
    draws = np.random.default_rng([seed, 82]).multivariate_hypergeometric(margin, int(table[0].sum()), DRAWS)
    return float((1 + np.count_nonzero(statistic(draws) >= observed - 1e-9)) / (1 + DRAWS))


def label_test(labels: Labels, in_test: NDArray[np.bool_], classes: int, seed: int = 0) -> ShiftPart:
    """Whether classes are as frequent in test as in train; ``largest`` is the greatest difference of a proportion.

    Example:
        >>> part = label_test(np.repeat([0, 1, 0], 50), np.arange(150) >= 100, 2)
        >>> part.large, round(part.details["largest"], 2)
        (True, 0.5)
    """
    table = np.stack([np.bincount(labels[in_test == side], minlength=classes) for side in (False, True)])
    train, test = table / np.maximum(1, table.sum(axis=1, keepdims=True))
    at = int(np.abs(test - train).argmax())
    details = {
        "largest": float(abs(test[at] - train[at])),
        "class": at,
        "train": float(train[at]),
        "test": float(test[at]),
    }
    return ShiftPart("labels", table_p_value(table, seed), details["largest"] >= LABEL_POINTS, details)


def column_tests(columns: Columns, in_test: NDArray[np.bool_], seed: int = 0) -> ShiftPart:
    """Every column of test against train: Kolmogorov–Smirnov, or the table of categories; and what is missing.

    The p-value of a column is twice the smaller one of its values and its missing values; Holm over the columns.
    The difference is the largest one of the two distribution functions (of categories: half the sum of
    differences), which is what the best threshold of the column gains over guessing which split a row is from.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(300, 3)); x[200:, 1] *= 1000
        >>> part = column_tests(Columns(x, ("a", "b", "c"), np.zeros(3, dtype=bool)), np.arange(300) >= 200)
        >>> [item["column"] for item in part.details["columns"]]
        ['b']
    """
    from scipy.stats import ks_2samp

    raw, differing = [], []
    for j, name in enumerate(columns.names):
        if not name:  # a direction of texts, which says nothing by itself
            continue
        column = columns.values[:, j]
        gap = np.isnan(column)
        missing = np.array(
            [[np.count_nonzero((in_test == side) & (gap == g)) for g in (False, True)] for side in (0, 1)]
        )
        p_missing = table_p_value(missing) if gap.any() else 1.0
        train, test = column[~in_test & ~gap], column[in_test & ~gap]
        rates = missing[:, 1] / np.maximum(1, missing.sum(axis=1))
        item: dict[str, Any] = {"column": name, "missing_train": float(rates[0]), "missing_test": float(rates[1])}
        p_values, size = 1.0, abs(float(rates[1] - rates[0]))
        if len(train) and len(test) and columns.categorical[j]:
            # Categories with fewer than 5 rows expected in either split are one.
            values, at = np.unique(np.concatenate([train, test]), return_inverse=True)
            sides = np.split(at.ravel(), [len(train)])
            table = np.stack([np.bincount(codes, minlength=len(values)) for codes in sides])
            rare = table.sum(axis=0) * min(len(train), len(test)) / len(at.ravel()) < EXPECTED
            table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
            p_values = table_p_value(table, seed)
            shares = table / table.sum(axis=1, keepdims=True)
            size = max(size, 0.5 * float(np.abs(shares[1] - shares[0]).sum()))
        elif len(train) and len(test):
            test_of = ks_2samp(train, test, method="asymp")
            p_values, size = float(test_of.pvalue), max(size, float(test_of.statistic))
            item |= {"train": float(np.median(train)), "test": float(np.median(test))}
        factor = 2.0 if gap.any() else 1.0
        raw.append(min(1.0, factor * min(p_values, p_missing)))
        differing.append(item | {"difference": size})
    adjusted = stats.holm(raw) if raw else np.ones(0)
    listed = [item | {"p_value": float(p)} for item, p in zip(differing, adjusted, strict=True) if p <= LEVEL]
    listed.sort(key=lambda item: -item["difference"])
    large = any(item["difference"] >= 2 * AUC - 1 for item in listed)
    p_value = float(adjusted.min()) if len(adjusted) else 1.0
    return ShiftPart("columns", p_value, large, {"columns": tuple(listed), "searched": len(differing)})


def error_test(
    columns: Columns, labels: Labels, in_test: NDArray[np.bool_], units: Labels, seed: int = 0
) -> ShiftPart | None:
    """Whether a model errs more on test rows than on training rows that it did not see.

    Extra trees are fitted on 70 % of the units of train; the remaining ones and the test rows are exchangeable
    under the null, given the model. One-sided: Fisher's exact test of single rows; of units with several rows, the
    Mann–Whitney test of their error rates.

    Args:
        columns: the features.
        labels: (n,) class numbers.
        in_test: (n,) which rows are test rows.
        units: (n,) unit of each row; a unit is either fitted on or not.
        seed: of the draw of the units, and of the trees.

    Returns:
        The part "error"; its detail ``effect`` is the error on train minus the error on test.
    """
    from scipy.stats import hypergeom, mannwhitneyu
    from sklearn.ensemble import ExtraTreesClassifier

    rng = np.random.default_rng([seed, 83])
    known = rng.permutation(np.unique(units[~in_test]))
    fitted = np.isin(units, known[: round(FITTED * len(known))])
    fit = np.flatnonzero(fitted & ~in_test)
    if len(fit) < FEWEST_ROWS or len(np.unique(labels[fit])) < 2:
        return None
    gaps = np.isnan(columns.values)
    features = np.where(gaps, 0.0, columns.values)
    if gaps.any():
        features = np.concatenate([features, gaps[:, gaps.any(axis=0)]], axis=1)
    if features.shape[1] > MOST_COLUMNS:
        score = class_differences(features, labels, fit)
        features = features[:, np.argsort(-score, kind="stable")[:MOST_COLUMNS]]
    features = features / np.maximum(1e-300, np.abs(features[fit]).max(axis=0))  # trees compute in float32
    features = np.clip(features, -1e30, 1e30)
    model = ExtraTreesClassifier(
        100, min_samples_leaf=2, max_features=min(1.0, 10 / features.shape[1]), random_state=seed % 2**31
    ).fit(features[fit], labels[fit])
    queried = np.flatnonzero(in_test | ~fitted)
    wrong = model.predict(features[queried]) != labels[queried]
    side = in_test[queried]
    rates = []
    for inside in (False, True):  # a unit in both splits counts in each with its own rows
        _, unit = np.unique(units[queried][side == inside], return_inverse=True)
        rates.append(np.bincount(unit.ravel(), wrong[side == inside]) / np.maximum(1, np.bincount(unit.ravel())))
    train, test = rates
    if min(len(train), len(test)) < FEWEST_ROWS // 2:
        return None
    if len(train) + len(test) == len(queried):
        errors = round(train.sum() + test.sum())
        p_value = float(hypergeom.sf(round(test.sum()) - 1, len(queried), errors, len(test)))
    else:
        p_value = float(mannwhitneyu(test, train, alternative="greater").pvalue)
    difference = float(train.mean() - test.mean())
    spread = float(np.sqrt(train.var(ddof=1) / len(train) + test.var(ddof=1) / len(test)))
    effect = stats.normal(
        difference, spread, len(queried), method="error on unseen training rows minus error on test"
    )
    details = {"train": float(train.mean()), "test": float(test.mean()), "effect": effect}
    above = -difference
    return ShiftPart("error", min(1.0, p_value), above >= ERROR_POINTS and effect.high < 0, details)


def shift_parts(
    columns: Columns, labels: Labels, in_test: NDArray[np.bool_], units: Labels, classes: int, seed: int = 0
) -> list[ShiftPart]:
    """The comparisons of test with train that there are enough rows for; multiply their p-values by their number.

    Args:
        columns: the features of n rows.
        labels: (n,) class numbers.
        in_test: (n,) which rows are test rows.
        units: (n,) unit of each row, as :func:`row_units` gives.
        classes: how many classes there are.
        seed: of all draws.
    """
    one = one_row_per_group(units, np.random.default_rng([seed, 84]))
    member = in_test[one]
    if min(np.count_nonzero(member), np.count_nonzero(~member)) < FEWEST_ROWS:
        return []
    some = Columns(columns.values[one], columns.names, columns.categorical)
    parts = [
        membership_test(some.values, member, seed),
        label_test(labels[one], member, classes, seed),
        column_tests(some, member, seed),
        error_test(columns, labels, in_test, units, seed),
    ]
    return [part for part in parts if part is not None]


def shift_facts(evidence: Evidence) -> Iterator[tuple[str, float | None, Estimate | None, dict[str, Any]]]:
    """Severity, p-value, effect and details of the problem "shift" of an official split.

    What differs between independent rows is tested again by what the split was drawn by, as far as the data show
    it; then the second test decides.
    """
    dataset, config = evidence.dataset, evidence.config
    if dataset.split is None or evidence.inputs is None:
        return
    rng = np.random.default_rng([config.seed, 85])
    train, test = (
        np.sort(rng.permutation(np.flatnonzero(dataset.split == name))[:MOST_ROWS]) for name in ("train", "test")
    )
    rows = np.concatenate([train, test])
    in_test = np.arange(len(rows)) >= len(train)
    columns, units = _columns_and_units(evidence, rows)
    unit: dict[str, Any] = {"by": "groups" if "group" in dataset.metadata else "rows"}
    result = _differences(evidence, rows, columns, in_test, units)
    if result is None:
        return
    severity, p_value, effect, details = result
    if unit["by"] == "rows" and (drawing := _drawn_by(evidence, rows, columns, in_test)) is not None:
        unit, at, units = drawing
        some = Columns(columns.values[at], columns.names, columns.categorical)
        result = _differences(evidence, rows[at], some, in_test[at], units)
        in_test = in_test[at]
        if result is None:
            severity, p_value, effect = "note", None, None
        else:
            severity, p_value, effect, details = result
        unit["differ"] = result is not None
    sizes = {name: len(np.unique(units[in_test == side])) for name, side in (("train", False), ("test", True))}
    if "differ" in unit:
        unit["enough"] = min(sizes.values()) >= FEWEST_ROWS
    yield severity, p_value, effect, details | {"unit": unit | sizes}


def _differences(
    evidence: Evidence, rows: Labels, columns: Columns, in_test: NDArray[np.bool_], units: Labels
) -> tuple[str, float | None, Estimate | None, dict[str, Any]] | None:
    """Severity, p-value, effect and details of the comparisons of independent units; None where none differs."""
    dataset, seed = evidence.dataset, evidence.config.seed
    parts = shift_parts(columns, evidence.labels[rows], in_test, units, dataset.n_classes, seed)
    if not parts:
        return None
    claimed = [part for part in parts if part.large]
    p_value = min(1.0, len(parts) * min((part.p_value for part in claimed or parts), default=1.0))
    if p_value > LEVEL:
        return None
    details: dict[str, Any] = {part.name: part.details | {"p_value": part.p_value} for part in parts}
    details["class"] = dataset.class_names[details["labels"]["class"]]
    details["shown"] = tuple(part.name for part in parts if len(parts) * part.p_value <= LEVEL)
    details["large"] = tuple(part.name for part in claimed if len(parts) * part.p_value <= LEVEL)
    effect = details["error"]["effect"] if "error" in details else None
    if not claimed:
        return "note", None, effect, details
    if "error" in details["large"]:
        return "high", p_value, effect, details
    return "medium", p_value, None, details  # what it does to the error depends on the model; it is large by itself


def _drawn_by(
    evidence: Evidence, rows: Labels, columns: Columns, in_test: NDArray[np.bool_]
) -> tuple[dict[str, Any], Labels, Labels] | None:
    """What the split keeps together: equal rows or the values of a column; if neither, clusters of near rows.

    Of several the one with the fewest units is taken, the first of those that have at most a tenth more.

    Returns:
        What they are, positions of the rows that are compared, and the unit of each of these; None where rows were
        drawn one by one, as far as the data show.
    """
    assert evidence.inputs is not None
    every, seed = np.arange(len(rows)), evidence.config.seed
    kinds: list[tuple[dict[str, Any], Labels, Labels]] = []
    equal = evidence.inputs.equal.group[rows]
    if stats.kept_together_test(equal, in_test):
        kinds.append(({"by": "inputs"}, every, equal))
    if not evidence.is_images:
        own = feature_columns(evidence.dataset).names
        for name, column in zip(columns.names, columns.values.T, strict=True):
            if name not in own:  # computed from a text
                continue
            values, number = np.unique(column, return_inverse=True, equal_nan=False)
            several = 2 * len(values) <= len(column)
            if not several or not stats.kept_together_test(number.ravel(), in_test, LEVEL / len(columns.names)):
                continue
            others = np.delete(columns.values, columns.names.index(name), axis=1)
            if _names_groups(number.ravel(), others, in_test, seed):
                kinds.append(({"by": "values", "column": name}, every, number.ravel()))
    if kinds:
        sizes = [len(np.unique(units)) for _, _, units in kinds]
        return next(item for item, size in zip(kinds, sizes, strict=True) if size <= 1.1 * min(sizes))
    rng = np.random.default_rng([seed, 87])
    some = np.sort(rng.permutation(one_row_per_equal_group(evidence, rows, rng))[:CLUSTERED_ROWS])
    clusters = find_groups(scaled_rows_of_groups(evidence, some)) if len(some) >= 2 * FEWEST_ROWS else None
    if clusters is None:
        return None
    compared = np.argsort(rows)[np.searchsorted(np.sort(rows), some)]
    if not stats.kept_together_test(clusters, in_test[compared], exceptions=MERGED):
        return None
    return {"by": "clusters"}, compared, clusters


def _names_groups(number: Labels, others: Floats, in_test: NDArray[np.bool_], seed: int) -> bool:
    """Whether the values of a column may be units of the split: drawn at random, or with rows that are alike.

    Drawn: the different values of test and of train pass the Kolmogorov–Smirnov test. Alike: of the rows of either
    split, sorted by value and within a value at random, neighbours with one value are nearer in the other columns
    than neighbours with two (one-sided Mann–Whitney test of sums of differences of ranks). Where a value defines no
    group and columns change smoothly with it, they are not.
    """
    from scipy.stats import ks_2samp, mannwhitneyu, rankdata

    sides = [np.flatnonzero(in_test == side) for side in (False, True)]
    train, test = (np.unique(number[rows]) for rows in sides)
    if ks_2samp(train, test, method="asymp").pvalue > LEVEL:
        return True
    ranks = np.nan_to_num(rankdata(others, axis=0, nan_policy="omit") / len(others), nan=0.5)
    rng = np.random.default_rng([seed, 88])
    rows = np.concatenate([part[np.lexsort((rng.random(len(part)), number[part]))] for part in sides])
    far, same = np.abs(np.diff(ranks[rows], axis=0)).sum(axis=1), np.diff(number[rows]) == 0
    far, same = (np.delete(item, len(sides[0]) - 1) for item in (far, same))  # from train to test
    return bool(
        same.any() and not same.all() and mannwhitneyu(far[same], far[~same], alternative="less").pvalue <= LEVEL
    )


def _columns_and_units(evidence: Evidence, rows: Labels) -> tuple[Columns, Labels]:
    """Features of some rows, of images the means of blocks; and the unit of each row."""
    assert evidence.inputs is not None
    dataset, groups = evidence.dataset, evidence.dataset.metadata.get("group")
    units = row_units(evidence.inputs.equal.group[rows], None if groups is None else groups[rows])
    if dataset.is_images:
        return Columns(*image_features(np.asarray(dataset.x[rows]))), units
    if dataset.is_texts:
        table, described = evidence.inputs.table, text_columns(evidence, rows)
        directions = table.raw[rows, : table.directions]
        k = table.directions
        values = np.concatenate([directions, described.values], axis=1)
        names, categorical = ("",) * k + described.names, np.concatenate([np.zeros(k, bool), described.categorical])
        return Columns(values, names, categorical), units
    whole = feature_columns(dataset)
    return Columns(whole.values[rows].astype(np.float64), whole.names, whole.categorical), units


def label_order_shift(labels: Labels) -> tuple[float, float, float]:
    """Whether rows that follow one another have the same label more often than in a random order.

    With n_c rows of class c, n in all, the number of equal neighbours has mean Σ n_c(n_c − 1)/n and the variance of
    join counts on a path under permutation; its upper tail is taken as normal.

    Args:
        labels: (n,) class numbers in the order of the file.

    Returns:
        Proportion of equal neighbours, its expectation in a random order, and the p-value.

    Source: Cliff and Ord, Spatial processes (1981), join counts under non-free sampling.

    Example:
        >>> share, expected, p = label_order_shift(np.repeat([0, 1], 50))
        >>> round(share, 3), round(expected, 3), p < 1e-6
        (0.99, 0.495, True)
    """
    n = len(labels)
    if n < FEWEST_ROWS:
        return float("nan"), float("nan"), 1.0
    count = np.unique(labels, return_counts=True)[1].astype(np.float64)
    two, three = count * (count - 1), count * (count - 1) * (count - 2)
    pair = two.sum() / (n * (n - 1.0))
    chain = three.sum() / (n * (n - 1.0) * (n - 2.0))
    four = (three * (count - 3)).sum() + two.sum() ** 2 - (two**2).sum()
    apart = four / (n * (n - 1.0) * (n - 2.0) * (n - 3.0))
    edges = n - 1.0
    touching = 2 * (n - 2.0)
    mean = edges * pair
    variance = mean + touching * chain + (edges**2 - edges - touching) * apart - mean**2
    equal = float(np.count_nonzero(labels[1:] == labels[:-1]))
    from scipy.stats import norm

    p_value = float(norm.sf((equal - 0.5 - mean) / np.sqrt(variance))) if variance > 1e-9 else 1.0
    return equal / edges, float(mean) / edges, p_value


def order_shift_facts(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Details of the note "order": the labels, the rows and the error along the file or a time.

    Where the split is official, only its training rows are looked at. Files in class folders have no order. The
    error is that on classes that occur among the early and the late rows: a file may be sorted by class.
    """
    dataset, config = evidence.dataset, evidence.config
    time = dataset.times()
    if evidence.inputs is None or (time is None and "path" in dataset.metadata):
        return
    order = evidence.inputs.order
    if time is not None:
        order = order[np.argsort(time[order], kind="stable")]
    if dataset.split is not None:
        order = order[dataset.split[order] == "train"]
    share, expected, p_labels = label_order_shift(evidence.labels[order])
    if len(order) > MOST_ROWS:
        positions = np.random.default_rng([config.seed, 86]).permutation(len(order))[:MOST_ROWS]
        order = order[np.sort(positions)]
    late, labels = np.arange(len(order)) >= round((1 - LAST) * len(order)), evidence.labels[order]
    common = np.isin(labels, np.intersect1d(labels[late], labels[~late]))
    order, late = order[common], late[common]
    columns, units = _columns_and_units(evidence, order)
    error = error_test(columns, evidence.labels[order], late, units, config.seed) if late.any() else None
    details: dict[str, Any] = {"time": time is not None, "split": dataset.split is not None, "shown": ()}
    if 2 * p_labels <= LEVEL:
        details |= {"equal": share, "expected": expected, "shown": ("labels",)}
    if error is not None and error.large and 2 * error.p_value <= LEVEL:
        details |= {"early": error.details["train"], "late": error.details["test"]}
        details["shown"] = (*details["shown"], "error")
    if details["shown"]:
        yield details
