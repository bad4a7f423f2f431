"""Classifiers that bound the floor from above: boosted trees and a regularised linear model of scikit-learn.

The upper end of the bracket is only as good as the classifiers, so every dataset gets strong ones. Validation
examples decide when to stop and how much to regularise; test examples are only predicted.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from hardpan.bayes.floors.error_estimates import Floats, Labels
from hardpan.execution.mapping import machine_is_busy

if TYPE_CHECKING:
    from hardpan.encoders.ngrams import NGrams

ROUND = 20  # trees per class between two looks at the validation error
PATIENCE = 3  # looks without improvement
MOST_TREES = 600
MOST_BOOSTED = 2e7  # training rows × features up to which boosted trees are fitted to all of them
BOOSTED_NUMBERS = 1e9  # numbers per second: of a tree, features × (5 × training rows + bins of its leaves)
LEAF_BINS, FEWEST_ROUNDS, FEWEST_BOOSTED = 8000, 30, 100  # so many rounds are to fit; features that are always kept
TREE_NUMBERS = 4e6  # training rows × features per second up to which extra trees are fitted to all rows
RIDGE_PRODUCTS = 4e10  # training rows × features² per second up to which ridge regression is
PENALTIES = (100.0, 1.0, 0.01)  # inverse strengths of the linear model's penalty
TEXT_NUMBERS = 2e7  # n-grams of all training texts × classes per second up to which a linear model takes them all
TEMPERATURES = tuple(np.geomspace(0.1, 30, 24).tolist())  # inverse ones, of the scores of a text model
MOST_LINEAR = (
    4e7  # training rows × features up to which the linear model is logistic; beyond it is ridge regression
)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Features of all examples in two forms, and their labels.

    Attributes:
        raw: (N, d) numbers as they are, missing ones NaN, categories as codes: for trees.
        scaled: (N, e) for distances and linear models: categories expanded, missing values replaced by the mean.
        labels: (N,) class numbers.
        n_classes: K.
        categorical: (d,) which columns of ``raw`` are categories.
        ngrams: (N, v) sparse TF-IDF of texts, for linear models; None without texts.
        vocabulary: what its columns are; transforms further texts.
        directions: how many columns of ``raw`` and ``scaled``, the first ones, are directions of the n-grams.
    """

    raw: NDArray[Any]
    scaled: NDArray[Any]
    labels: Labels
    n_classes: int
    categorical: NDArray[np.bool_]
    ngrams: Any = None
    vocabulary: NGrams | None = None
    directions: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """Probabilities (m, K) of the requested rows by one classifier, and the settings it ended with.

    ``validation_error`` is its error on the examples that it was tuned on.
    """

    name: str
    probs: Floats
    settings: str
    validation_error: float = 0.0


Predictor = Callable[..., Floats]


def fit_boosted(
    table: Table, train: Labels, validation: Labels, seconds: float, seed: int
) -> tuple[Predictor, str]:
    """Gradient-boosted trees that stop when the validation error stops falling, or the time is used up.

    Source: histogram-based boosting (Ke et al. 2017) as in scikit-learn; categories and missing values natively.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    end = time.monotonic() + seconds
    most = max(200, int(MOST_BOOSTED / max(1, table.raw.shape[1])))
    rows = sampled_rows(table.labels, train, most, seed)
    trees_per_round = 1 if table.n_classes == 2 else table.n_classes
    of_columns = FEWEST_ROUNDS * trees_per_round * (5 * len(rows) + LEAF_BINS) / BOOSTED_NUMBERS
    columns = np.arange(table.raw.shape[1])
    if len(columns) > (kept := max(FEWEST_BOOSTED, int(seconds / of_columns))):
        order = np.argsort(-class_differences(table.raw, table.labels, rows), kind="stable")
        columns = np.sort(order[:kept])
    x, categorical = table.raw[:, columns], np.flatnonzero(table.categorical[columns])
    levels = [len(np.unique(x[:, j][np.isfinite(x[:, j])])) for j in categorical]
    native = categorical[[n <= 250 for n in levels]] if levels else categorical
    step = int(np.clip(200 // table.n_classes, 1, ROUND))  # a round grows one tree per class
    model = HistGradientBoostingClassifier(
        learning_rate=0.1 if len(rows) > 2000 else 0.05,
        max_iter=step,
        warm_start=True,
        early_stopping=False,
        min_samples_leaf=int(np.clip(len(rows) // 100, 2, 20)),
        l2_regularization=1.0,
        categorical_features=native if len(native) else None,
        random_state=seed,
    )
    best, best_trees, since = np.inf, 0, 0
    while True:
        model.fit(x[rows], table.labels[rows])
        loss = _log_loss(_class_probabilities(model, x[validation], table.n_classes), table.labels[validation])
        best, best_trees, since = (loss, model.max_iter, 0) if loss < best - 1e-4 else (best, best_trees, since + 1)
        used_up = time.monotonic() + (seconds / 10) > end
        if since * step >= PATIENCE * ROUND or model.max_iter >= MOST_TREES or used_up or loss == 0:
            break
        model.max_iter += step
    trees = best_trees or step

    def predict(which: Labels) -> Floats:
        stages = model.staged_predict_proba(x[which])
        return _with_untrained_classes(
            next(itertools.islice(stages, trees - 1, None)), model.classes_, table.n_classes
        )

    some = f", {x.shape[1]:,} of {table.raw.shape[1]:,} columns" if x.shape[1] < table.raw.shape[1] else ""
    return predict, f"{trees} rounds, {len(rows):,} training examples{some}"


def fit_linear(table: Table, train: Labels, validation: Labels, seconds: float, seed: int) -> tuple[Predictor, str]:
    """Logistic regression with the penalty that validation examples choose; ridge regression for large data.

    Of texts, a linear support vector machine of their n-grams.
    """
    if table.ngrams is not None:
        return fit_text_model(table, train, validation, seconds, seed, "words and characters")
    from sklearn.linear_model import LogisticRegression, RidgeClassifier

    end = time.monotonic() + seconds
    x, y = table.scaled, table.labels
    centre, scale = x[train].mean(axis=0), x[train].std(axis=0)
    scale = np.where(scale > 1e-12, scale, 1.0)

    def rows(which: Labels) -> Floats:
        return np.asarray((x[which] - centre) / scale, dtype=np.float64)

    if len(train) * x.shape[1] > MOST_LINEAR:
        some = sampled_rows(table.labels, train, max(1000, int(RIDGE_PRODUCTS * seconds / x.shape[1] ** 2)), seed)
        ridge = RidgeClassifier(alpha=float(len(some)) / 100).fit(rows(some).astype(np.float32), y[some])
        name = f"ridge regression, {len(some):,} training examples"
        return lambda which: _ridge_probabilities(ridge, rows(which), table.n_classes), name
    inside, outside = rows(train), rows(validation)
    best: tuple[float, Any, float] | None = None
    for penalty in PENALTIES:
        model = LogisticRegression(C=penalty, max_iter=200).fit(inside, y[train])
        loss = _log_loss(_class_probabilities(model, outside, table.n_classes), y[validation])
        if best is None or loss < best[0]:
            best = (loss, model, penalty)
        if time.monotonic() > end:
            break
    assert best is not None
    fitted, strength = best[1], best[2]
    return lambda which: _class_probabilities(
        fitted, rows(which), table.n_classes
    ), f"logistic regression, C = {strength:g}"


def fit_text_model(
    table: Table, train: Labels, validation: Labels, seconds: float, seed: int, view: str
) -> tuple[Predictor, str]:
    """A linear model of n-grams and of the other columns, its probabilities calibrated on validation examples.

    Args:
        table: with n-grams.
        train: rows to fit on; a sample of them where all would take longer than ``seconds``.
        validation: rows that choose the temperature of the softmax of the scores.
        seconds: of the fit.
        seed: of the sample.
        view: "words", "characters" or "words and characters" for a linear support vector machine; "naive Bayes" for
            a multinomial one of both.

    Source: Wang and Manning, Baselines and bigrams (2012).
    """
    from scipy import sparse
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.svm import LinearSVC

    words = 0 if table.vocabulary is None else table.vocabulary.words
    columns = {"words": slice(0, words), "characters": slice(words, None)}.get(view, slice(None))
    naive = view == "naive Bayes"

    def inputs(rows: Labels, table: Table = table) -> Any:
        values, other = table.ngrams[rows][:, columns].astype(np.float64), table.scaled[:, table.directions :]
        if not other.shape[1] or naive:
            return values
        return sparse.hstack([values, sparse.csr_matrix(np.clip(other[rows], -5, 5) / 5)], format="csr")

    each = max(1.0, table.ngrams.nnz / table.ngrams.shape[0]) * (1 if table.n_classes == 2 else table.n_classes)
    some = sampled_rows(table.labels, train, max(1000, int(TEXT_NUMBERS * seconds / each)), seed)
    model = MultinomialNB(alpha=0.1) if naive else LinearSVC(tol=0.1, random_state=seed % 2**31)
    model.fit(inputs(some), table.labels[some])

    def scores(rows: Labels, table: Table = table) -> Floats:
        if naive:
            return np.asarray(model.predict_log_proba(inputs(rows, table)))
        values = model.decision_function(inputs(rows, table))
        return np.column_stack([-values, values]) if values.ndim == 1 else np.asarray(values)

    outside = scores(validation)
    scale = min(TEMPERATURES, key=lambda t: _log_loss(_softmax(outside, t, model, table), table.labels[validation]))
    name = f"{view}, {'' if naive else 'linear support vector machine, '}{len(some):,} training examples"
    return lambda rows, table=table: _softmax(scores(rows, table), scale, model, table), name


def _softmax(scores: Floats, scale: float, model: Any, table: Table) -> Floats:
    """Probabilities of all classes by scores of the trained ones, times ``scale``."""
    powers = np.exp(scale * (scores - scores.max(axis=1, keepdims=True)))
    return _with_untrained_classes(powers / powers.sum(axis=1, keepdims=True), model.classes_, table.n_classes)


def fit_trees(table: Table, train: Labels, validation: Labels, seconds: float, seed: int) -> tuple[Predictor, str]:
    """Extremely randomised trees, as many as the time allows; for images where torch is not installed.

    Source: Geurts, Ernst and Wehenkel, "Extremely randomized trees" (2006).
    """
    from sklearn.ensemble import ExtraTreesClassifier

    end = time.monotonic() + seconds
    some = sampled_rows(table.labels, train, max(1000, int(TREE_NUMBERS * seconds / table.scaled.shape[1])), seed)
    x = np.asarray(table.scaled[some], dtype=np.float32)
    model = ExtraTreesClassifier(10, warm_start=True, random_state=seed, n_jobs=None)
    while True:
        model.fit(x, table.labels[some])
        if len(model.estimators_) >= 100 or time.monotonic() + seconds / 10 > end:
            break
        model.n_estimators += 10
    name = f"{len(model.estimators_)} trees, {len(some):,} training examples"
    return lambda which: _class_probabilities(model, table.scaled[which], table.n_classes), name


CLASSIFIERS: dict[str, Callable[[Table, Labels, Labels, float, int], tuple[Predictor, str]]] = {
    "boosted trees": fit_boosted,
    "linear model": fit_linear,
    "extra trees": fit_trees,
}
"""Classifiers by name; to add one, write a function like these and add its line."""


def fit_classifier(
    name: str, table: Table, train: Labels, validation: Labels, rows: Labels, *, seconds: float, seed: int = 0
) -> Fitted:
    """Fit a classifier on ``train``, tune it on ``validation`` and predict ``rows``; within about ``seconds``.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(900, 5))
        >>> table = Table(x, x, (x[:, 3] > 0).astype(int), 2, np.zeros(5, dtype=bool))
        >>> parts = np.arange(500), np.arange(500, 700), np.arange(700, 900)
        >>> found = fit_classifier("boosted trees", table, *parts, seconds=20)
        >>> bool((found.probs.argmax(axis=1) == table.labels[700:]).mean() > 0.98)
        True
    """
    tuned_on = validation if len(validation) else train
    with warnings.catch_warnings(), threadpool_limits(limits=1 if machine_is_busy() else None):
        warnings.simplefilter("ignore")  # scikit-learn warns of few iterations and of many classes
        predict, settings = CLASSIFIERS[name](table, train, tuned_on, seconds, seed)
        probs = predict(np.concatenate([rows, tuned_on]))
    wrong = probs[len(rows) :].argmax(axis=1) != table.labels[tuned_on]
    return Fitted(name, probs[: len(rows)], settings, float(wrong.mean()))


def class_differences(values: Floats, labels: Labels, rows: Labels) -> Floats:
    """Of every column, the largest squared t statistic of a class against the others."""
    x = np.nan_to_num(values[rows].reshape(len(rows), -1).astype(np.float64))
    x -= x.mean(axis=0)
    total, squares = x.sum(axis=0), (x**2).sum(axis=0)
    largest = np.zeros(x.shape[1])
    for c in np.unique(labels[rows]):
        inside = labels[rows] == c
        n, m = np.count_nonzero(inside), np.count_nonzero(~inside)
        if not n or not m:
            continue
        own = x[inside].sum(axis=0)
        difference = own / n - (total - own) / m
        explained = difference**2 * n * m / len(rows)
        left = np.maximum(squares - explained, 1e-12 * np.maximum(squares, 1e-300))
        largest = np.maximum(largest, np.where(squares > 0, explained / left, 0.0))
    return largest * len(rows)


def sampled_rows(labels: Labels, rows: Labels, most: int, seed: int) -> Labels:
    """About ``most`` of the rows, drawn at random, every class among them."""
    if len(rows) <= most:
        return rows
    first = rows[np.unique(labels[rows], return_index=True)[1]]
    return np.union1d(first, np.random.default_rng([seed, 21]).choice(rows, most, replace=False))


def _class_probabilities(model: Any, x: NDArray[Any], n_classes: int) -> Floats:
    return _with_untrained_classes(model.predict_proba(x), model.classes_, n_classes)


def _with_untrained_classes(probs: Any, classes: NDArray[Any], n_classes: int) -> Floats:
    """Probabilities of all classes from those of the classes that were trained."""
    result = np.zeros((len(probs), n_classes))
    result[:, np.asarray(classes, dtype=np.int64)] = probs
    return result


def _ridge_probabilities(model: Any, x: Floats, n_classes: int) -> Floats:
    """Ridge scores as probabilities: a softmax at a temperature that keeps their order."""
    scores = model.decision_function(x)
    scores = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    scores = np.exp(5 * (scores - scores.max(axis=1, keepdims=True)))
    return _with_untrained_classes(scores / scores.sum(axis=1, keepdims=True), model.classes_, n_classes)


def _log_loss(probs: Floats, labels: Labels) -> float:
    return float(-np.log(np.maximum(probs[np.arange(len(labels)), labels], 1e-12)).mean())
