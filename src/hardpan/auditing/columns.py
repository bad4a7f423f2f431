"""What every single column says about the label, and columns that number the rows: facts, without a verdict.

The error of one column alone is listed beside the error of the best model and beside guessing. Whether a column
that is as good as all of them is a leak or an honest feature cannot be seen in the data.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hardpan import stats
from hardpan.auditing.evidence import Evidence
from hardpan.bayes.floors.classifiers import class_differences
from hardpan.bayes.floors.error_estimates import Floats, Labels
from hardpan.bayes.floors.inputs import Columns, feature_columns, file_order, numbering_columns
from hardpan.data.texts import text_properties, word_columns

LEVEL = 0.02  # of the test against guessing, over all columns and classes of an audit
GAIN_LOST = 0.1  # of what the best model gains over guessing, that a listed column may lose
MOST_LISTED = 5
MOST_ROWS = 10_000  # rows that a rule is fitted on, drawn at random from more
MOST_COLUMNS = 200  # of more, those whose class means differ most
MOST_CLASSES = 30  # that are tried one against the rest, the most frequent
LEAF = 3  # training rows of a leaf
FOLDS = 3
SMOOTHING = 1.0  # rows of the class frequencies that every value of a table starts with
GRID = 8  # an image is this many blocks wide and high
PIXELS = 8  # of a block, those whose class means differ most
TRIED_BLOCKS = 12


def image_features(x: NDArray[Any]) -> tuple[Floats, tuple[str, ...], NDArray[np.bool_]]:
    """Mean and deviation of every image, and the means of 8 × 8 blocks; their names; none is categorical."""
    images = x.reshape(*x.shape[:3], -1)
    tall, wide = (max(1, -(-size // GRID)) for size in images.shape[1:3])
    features = [images.mean(axis=(1, 2, 3)), images.std(axis=(1, 2, 3))]
    names = ["mean of the pixels", "deviation of the pixels"]
    for top in range(0, images.shape[1], tall):
        for left in range(0, images.shape[2], wide):
            block = images[:, top : top + tall, left : left + wide]
            features += list(block.mean(axis=(1, 2)).T)
            names += [
                f"pixels at row {top + 1}, column {left + 1}, channel {c + 1}" for c in range(images.shape[3])
            ]
    return np.column_stack(features).astype(np.float64), tuple(names), np.zeros(len(names), dtype=bool)


def text_columns(evidence: Evidence, rows: Labels) -> Columns:
    """Columns of some texts: those beside them, numbers that describe them, and the most frequent words."""
    dataset, columns = evidence.dataset, feature_columns(evidence.dataset)
    assert dataset.texts is not None
    texts = dataset.texts[rows]
    (numbers, names), (words, word_names) = text_properties(texts), word_columns(texts)
    values = np.concatenate([columns.values[rows].astype(np.float64), numbers, words], axis=1)
    categorical = np.concatenate([columns.categorical, np.zeros(len(names) + len(word_names), dtype=bool)])
    return Columns(values, (*columns.names, *names, *word_names), categorical)


def column_probs(
    column: Floats,
    labels: Labels,
    train: Labels,
    test: Labels,
    *,
    classes: int,
    categorical: bool = False,
    seed: int = 0,
) -> Floats:
    """Class probabilities of the ``test`` rows from one column alone.

    A column of numbers is given to a shallow decision tree, with its missing values as a second column; a column of
    categories, or of numbers that repeat, to a table of the classes of each value, (n_vc + π_c)/(n_v + 1) with π_c
    the frequency of the class, where a missing value is a value of its own. Of numbers that repeat, the rule with
    the lower cross-validated error on ``train`` is taken.

    Args:
        column: (N,) numbers; NaN is missing.
        labels: (N,) class numbers.
        train: rows that the rule is fitted on.
        test: rows whose classes are predicted.
        classes: how many classes there are.
        categorical: whether the numbers are those of categories.
        seed: of the folds.

    Returns:
        (len(test), classes) probabilities.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 3, 300)
        >>> probs = column_probs(y + 0.1 * rng.normal(size=300), y, np.arange(200), np.arange(200, 300), classes=3)
        >>> float((probs.argmax(axis=1) != y[200:]).mean())
        0.0
    """
    known = column[train]
    distinct = len(np.unique(known))
    if categorical:
        return _table_probs(column, labels, train, test, classes)
    if 2 * distinct > len(train) or distinct <= 2:
        return _column_tree_probs(column, labels, train, test, classes)
    fold = np.random.default_rng([seed, 73]).permutation(len(train)) % FOLDS
    errors = np.zeros(2)
    for k in range(FOLDS):
        inside, outside = train[fold != k], train[fold == k]
        both = (
            _column_tree_probs(column, labels, inside, outside, classes),
            _table_probs(column, labels, inside, outside, classes),
        )
        errors += [np.count_nonzero(probs.argmax(axis=1) != labels[outside]) for probs in both]
    if errors[1] < errors[0]:
        return _table_probs(column, labels, train, test, classes)
    return _column_tree_probs(column, labels, train, test, classes)


def _column_tree_probs(features: Floats, labels: Labels, train: Labels, test: Labels, classes: int) -> Floats:
    """A decision tree with at most 16 leaves, or four for each class."""
    from sklearn.tree import DecisionTreeClassifier

    if features.ndim == 1:  # a column: its missing values are a second one
        gap = np.isnan(features)
        features = np.column_stack([np.where(gap, 0.0, features), gap]) if gap.any() else features[:, None]
    leaf = LEAF if len(train) >= 20 * LEAF else 1
    tree = DecisionTreeClassifier(max_leaf_nodes=max(16, 4 * classes), min_samples_leaf=leaf, random_state=0)
    largest = np.abs(features).max(axis=0)  # trees compute in float32
    scaled = features / np.where(largest > 0, largest, 1.0)
    tree.fit(scaled[train], labels[train])
    probs = np.zeros((len(test), classes))
    probs[:, tree.classes_] = tree.predict_proba(scaled[test])
    return probs


def _table_probs(column: Floats, labels: Labels, train: Labels, test: Labels, classes: int) -> Floats:
    _, value = np.unique(column, return_inverse=True)  # NaN is one value
    counts = np.zeros((value.max() + 1, classes))
    np.add.at(counts, (value[train], labels[train]), 1.0)
    prior = np.bincount(labels[train], minlength=classes) / len(train)
    smooth = counts + SMOOTHING * prior
    return np.asarray((smooth / smooth.sum(axis=1, keepdims=True))[value[test]])


@dataclass(frozen=True, slots=True, eq=False)
class _Alone:
    """A column whose predictions are compared: of all classes, or of one class against the rest."""

    name: str
    of_class: int | None
    wrong: NDArray[np.bool_]
    best: NDArray[np.bool_]
    guess: NDArray[np.bool_]

    @property
    def error(self) -> float:
        return float(self.wrong.mean())

    @property
    def nearly_best(self) -> bool:
        """Whether its loss is within the interval of the paired difference, or a tenth of the best model's gain."""
        difference, n = self.wrong.astype(np.float64) - self.best, len(self.wrong)
        lost = stats.normal(float(difference.mean()), float(difference.std()) / float(np.sqrt(n)), n)
        return lost.low <= 0 or lost.value <= GAIN_LOST * float(self.guess.mean() - self.best.mean())

    @property
    def p_value(self) -> float:
        """One-sided exact McNemar test against guessing."""
        won, lost = np.count_nonzero(self.guess & ~self.wrong), np.count_nonzero(self.wrong & ~self.guess)
        return float(special.bdtr(lost, won + lost, 0.5)) if won + lost else 1.0


def telling_columns(
    probs: Mapping[str, Floats], labels: Labels, best: Labels, most_frequent: int
) -> tuple[list[_Alone], int]:
    """Columns that predict nearly as well as the best model.

    Their error exceeds that of the best model by no more than the interval of the paired difference, or by no more
    than a tenth of what the best model gains over guessing. A column must also be better than always answering the
    most frequent class, by an exact McNemar test at 2 % over all columns and classes. With more than two classes
    each class against the rest is compared, too, for the columns that do not already predict all of them.

    Args:
        probs: (m, K) probabilities of the test rows by column.
        labels: (m,) classes of the test rows.
        best: (m,) classes that the best model answers.
        most_frequent: the most frequent class of train.

    Returns:
        The columns, the best first, all classes before one against the rest; and how many comparisons were made.
    """
    classes = next(iter(probs.values())).shape[1] if probs else 0
    counts = np.bincount(labels, minlength=classes)
    frequent = np.argsort(-counts, kind="stable")[:MOST_CLASSES].tolist() if classes > 2 else []
    whole = [
        _Alone(name, None, p.argmax(axis=1) != labels, best != labels, labels != most_frequent)
        for name, p in probs.items()
    ]
    single = [
        _Alone(
            name,
            c,
            np.not_equal(p[:, c] > 0.5, labels == c),
            (best == c) ^ (labels == c),
            (labels == c) == (2 * counts[c] <= len(labels)),
        )
        for name, p in probs.items()
        for c in frequent
    ]
    tried = len(whole) + len(single)
    telling = [item for item in whole if item.nearly_best and item.p_value * tried <= LEVEL]
    named = {item.name for item in telling}
    parts = [
        item for item in single if item.name not in named and item.nearly_best and item.p_value * tried <= LEVEL
    ]
    parts.sort(key=lambda item: item.p_value)
    first = {item.name: item for item in reversed(parts)}  # of a column, its clearest class
    return [
        *sorted(telling, key=lambda item: item.error),
        *sorted(first.values(), key=lambda item: item.p_value),
    ], tried


def search_columns(evidence: Evidence) -> tuple[dict[str, Floats], int]:
    """Class probabilities of the test rows from single columns, and how many columns there are; searched once.

    No model of the audit is needed, so an audit searches before it trains, for at most a quarter of its budget.
    """
    if evidence.alone is not None or evidence.inputs is None:
        return evidence.alone or ({}, 0)
    labels, test, k = evidence.labels, evidence.inputs.test, evidence.dataset.n_classes
    known, seed = _rows_to_fit(evidence), evidence.config.seed
    late = functools.partial(evidence.is_late, "leak-feature", time.monotonic() + evidence.config.budget / 4)
    if evidence.is_images:
        evidence.alone = _pixel_column_probs(evidence, known, test), GRID**2
    elif evidence.dataset.is_texts:
        rows = np.concatenate([known, test])
        described, at = text_columns(evidence, rows), np.arange(len(rows))
        parts = at[: len(known)], at[len(known) :]
        evidence.alone = _all_column_probs(described, labels[rows], *parts, k, seed, late), len(described.names)
    else:
        columns = feature_columns(evidence.dataset)
        evidence.alone = _all_column_probs(columns, labels, known, test, k, seed, late), len(columns.names)
    return evidence.alone


def _rows_to_fit(evidence: Evidence) -> Labels:
    assert evidence.inputs is not None
    known = np.concatenate([evidence.inputs.split.train, evidence.inputs.split.validation])
    rng = np.random.default_rng([evidence.config.seed, 74])
    return np.sort(rng.permutation(known)[:MOST_ROWS])


def column_facts(evidence: Evidence) -> Iterator[tuple[str, dict[str, Any]]]:
    """Kind and details of the notes about single columns: "index-feature" and "leak-feature"."""
    inputs = evidence.inputs
    best = evidence.best_answers()
    numbered: dict[str, str] = {}
    if not evidence.is_images:
        columns = feature_columns(evidence.dataset)
        numbered = numbering_columns(columns, *file_order(evidence.dataset))
    if inputs is None or best is None:
        if numbered:
            yield "index-feature", {"columns": tuple(numbered), "order": tuple(numbered.values())}
        return
    labels, test = evidence.labels, inputs.test
    majority = int(np.bincount(labels[_rows_to_fit(evidence)]).argmax())
    guessing = float((labels[test] != majority).mean())
    probs, searched = search_columns(evidence)
    if numbered:
        errors = [
            float((probs[name].argmax(axis=1) != labels[test]).mean()) if name in probs else None
            for name in numbered
        ]
        details = {"order": tuple(numbered.values()), "errors": tuple(errors), "guessing": guessing}
        yield "index-feature", {"columns": tuple(numbered), **details}
        probs = {name: item for name, item in probs.items() if name not in numbered}
    telling, _ = telling_columns(probs, labels[test], best, majority)
    if not telling:
        return
    names = evidence.dataset.class_names
    shown = tuple(
        {
            "column": item.name,
            "class": "" if item.of_class is None else names[item.of_class],
            "error": stats.share(int(item.wrong.sum()), len(test), evidence.config.confidence),
            "best": float(item.best.mean()),
            "guessing": float(item.guess.mean()),
        }
        for item in telling[:MOST_LISTED]
    )
    listed = {"columns": tuple(item.name for item in telling[:MOST_LISTED]), "alone": shown}
    yield "leak-feature", {**listed, "more": len(telling) - len(shown), "searched": searched}


def _all_column_probs(
    columns: Columns,
    labels: Labels,
    train: Labels,
    test: Labels,
    classes: int,
    seed: int,
    late: Callable[[], bool],
) -> dict[str, Floats]:
    """Probabilities by column, and by whether a column is missing; as many as there is time for."""
    rows = np.concatenate([train, test])
    values, labels = columns.values[rows].astype(np.float64), labels[rows]
    train, test, gaps = np.arange(len(train)), np.arange(len(train), len(rows)), np.isnan(values)
    tried = np.arange(values.shape[1])
    if len(tried) > MOST_COLUMNS:
        score = class_differences(values, labels, train) + class_differences(gaps.astype(float), labels, train)
        tried = np.sort(np.argsort(-score, kind="stable")[:MOST_COLUMNS])
    by_column = {}
    for j in tried.tolist():
        if late():
            break
        name, kind = columns.names[j], bool(columns.categorical[j])
        by_column[name] = column_probs(
            values[:, j], labels, train, test, classes=classes, categorical=kind, seed=seed
        )
        if gaps[train, j].any() and not gaps[train, j].all():
            by_column[f"{name} is missing"] = _table_probs(gaps[:, j].astype(float), labels, train, test, classes)
    return by_column


def _pixel_column_probs(evidence: Evidence, train: Labels, test: Labels) -> dict[str, Floats]:
    """Probabilities by block of an image, each a tree over its pixels, for the blocks that differ most by class."""
    x, labels, k = evidence.dataset.x, evidence.labels, evidence.dataset.n_classes
    height, width = x.shape[1:3]
    some = train[:: max(1, len(train) // 2000)][:2000]
    score = class_differences(np.asarray(x[some], dtype=np.float64), labels[some], np.arange(len(some)))
    score = score.reshape(x.shape[1:])
    tall, wide = max(1, -(-height // GRID)), max(1, -(-width // GRID))
    blocks = []
    for top in range(0, height, tall):
        for left in range(0, width, wide):
            inside = np.zeros(score.shape, dtype=bool)
            inside[top : top + tall, left : left + wide] = True
            at = np.flatnonzero(inside.ravel())
            at = at[np.argsort(-score.ravel()[at], kind="stable")[:PIXELS]]
            name = f"rows {top + 1}–{min(top + tall, height)}, columns {left + 1}–{min(left + wide, width)}"
            blocks.append((float(score.ravel()[at[0]]), f"pixels in {name}", at))
    blocks.sort(key=lambda item: -item[0])
    rows = np.concatenate([train, test])
    flat = np.asarray(x[rows]).reshape(len(rows), -1)
    known, queried = np.arange(len(train)), np.arange(len(train), len(rows))
    by_block = {}
    for _, name, at in blocks[:TRIED_BLOCKS]:
        features = flat[:, at].astype(np.float64)
        by_block[name] = _column_tree_probs(features, labels[rows], known, queried, k)
    return by_block
