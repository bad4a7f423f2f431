"""The floor from annotators' votes and soft labels, if labels are drawn as annotators vote."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize
from scipy.special import gammaln, pdtr

from hardpan import arguments
from hardpan.bayes.floors.error_estimates import Floats, Labels, mean_estimate
from hardpan.bayes.floors.plugin import plug_in, predicted_errors_test
from hardpan.bayes.floors.verdict import SOFT_LABELS, VOTES, AssumptionTest, Entry
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.safe_files import read_arrays

FEWEST_FOR_POINT = 5  # votes per example: below, posteriors with different Bayes errors give the same votes
TOPS = 41  # grid of the largest class probability in the mixture
SPREADS = (1, 2, 4)  # classes among which the rest is divided equally; K − 1 is added
STEPS = 500  # of expectation maximisation
RESAMPLES = 20
ISOTONIC_ROWS = 20


@record
class VoteFloor:
    """The Bayes error of labels that are drawn as votes are.

    Attributes:
        uncorrected: mean of 1 − largest proportion of votes; on average too low.
        left_out: how often a vote differs from the majority of the example's other votes; on average too high.
        point: a mixture fitted to the vote patterns, clipped to the bracket; None below 5 votes per example.
        n: examples with at least two votes; others do not count.
    """

    uncorrected: Estimate
    left_out: Estimate
    point: Estimate | None
    n: int

    @property
    def low(self) -> float:
        """Lower limit of the Bayes error."""
        return self.uncorrected.low

    @property
    def high(self) -> float:
        """Upper limit of the Bayes error."""
        return self.left_out.high


def vote_floor(votes: ArrayLike, *, confidence: float = 0.95) -> VoteFloor:
    """Bracket the Bayes error by how often annotators disagree.

    With m votes per example, the mean of 1 − max proportion is below the Bayes error on average (the largest of
    noisy proportions is too large). Set one vote aside: the majority of the other m − 1 (ties split) is a
    classifier, and how often it misses that vote estimates its error without bias, so on average above the Bayes
    error. With 2 votes only the mean disagreement is identified (constant 5 % noise and 19 % coin flips look
    alike), so a point estimate is given from 5 votes on: a mixture of posteriors (largest probability t, the rest
    divided equally among 1, 2, 4 or K − 1 classes) fitted to the sorted vote counts by maximum likelihood, clipped
    to the bracket.

    Args:
        votes: (n, K) counts, examples × classes; numbers of votes may differ.
        confidence: level of the intervals.

    Source: Ishida et al., "Is the performance of my deep network too good to be true?" (2023), for the uncorrected
    estimate.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> posterior = rng.dirichlet([0.3, 0.3, 0.3], 5000)
        >>> truth = np.mean(1 - posterior.max(axis=1))
        >>> three, ten = (vote_floor(rng.multinomial(m, posterior)) for m in (3, 10))
        >>> bool(three.low < truth < three.high), three.point, bool(abs(ten.point.value - truth) < 0.01)
        (True, None, True)
    """
    counts = _vote_counts(votes)
    totals = counts.sum(axis=1)
    repeated = counts[totals >= 2]
    if len(repeated) < 2:
        raise InputError(
            "must have at least two examples with two votes each: one vote shows no disagreement", argument="votes"
        )
    fewest = int(totals[totals >= 2].min())
    uncorrected = mean_estimate(
        1.0 - repeated.max(axis=1) / repeated.sum(axis=1),
        method="mean of 1 − largest proportion of votes",
        confidence=confidence,
    )
    left_out = mean_estimate(
        _left_out(repeated),
        method="a vote against the majority of the example's other votes",
        confidence=confidence,
    )
    point = None
    if fewest >= FEWEST_FOR_POINT:
        value = float(np.clip(mixture_error(repeated), uncorrected.value, max(left_out.value, uncorrected.value)))
        point = Estimate(
            value,
            max(uncorrected.stderr, left_out.stderr),
            min(value, uncorrected.low),
            max(value, left_out.high),
            confidence,
            "mixture of posteriors fitted to the vote counts; the interval is the bracket of the votes",
            len(repeated),
            log10=float(np.log10(value)) if value > 0 else None,
        )
    return VoteFloor(uncorrected, left_out, point, len(repeated))


def fewer_differences_p_value(votes: ArrayLike, labels: ArrayLike, floor: VoteFloor) -> tuple[float, float]:
    """How often labels differ from the majority vote, and the p-value of so few under labels drawn as votes are.

    A label that is drawn like one more vote differs from any function of the other votes at least as often as the
    Bayes error, which the uncorrected estimate does not exceed on average. Labels that are themselves a majority of
    votes, or were checked, differ more rarely: their Bayes error may be lower than that of votes.

    Args:
        votes: (n, K) counts.
        labels: (n,) class numbers.
        floor: of these votes; the lower limit of its uncorrected estimate is compared.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> posterior = rng.dirichlet([0.3, 0.3, 0.3], 2000)
        >>> votes = rng.multinomial(5, posterior)
        >>> labels = (posterior.cumsum(axis=1) < rng.random(2000)[:, None]).sum(axis=1)
        >>> found = vote_floor(votes)
        >>> [fewer_differences_p_value(votes, y, found)[1] > 0.01 for y in (labels, votes.argmax(axis=1))]
        [True, False]
    """
    counts, truth = _vote_counts(votes), np.asarray(labels)
    several = counts.sum(axis=1) >= 2
    made = int((counts[several].argmax(axis=1) != truth[several]).sum())
    return made / floor.n, float(pdtr(made, max(0.0, floor.uncorrected.low) * floor.n))


def mixture_error(counts: Floats) -> float:
    """The mean of 1 − max posterior under the mixture of posteriors that fits the sorted vote counts best.

    Args:
        counts: (n, K) votes, at least two per example.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> votes = rng.multinomial(8, [0.9, 0.05, 0.05], 4000).astype(float)
        >>> abs(mixture_error(votes) - 0.1) < 0.01
        True
    """
    k = counts.shape[1]
    patterns, weights = np.unique(-np.sort(-counts, axis=1), axis=0, return_counts=True)
    tops, logs = [], []
    for spread in sorted({s for s in (*SPREADS, k - 1) if 1 <= s <= k - 1}):
        grid = np.linspace(1.0 / (spread + 1), 1.0, TOPS)
        tops.append(grid)
        logs.append(_log_patterns(patterns, grid, spread))
    log_likelihood = np.concatenate(logs)  # components × patterns
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=0))
    mix = np.full(len(likelihood), 1.0 / len(likelihood))
    for _ in range(STEPS):
        mix *= likelihood @ (weights / np.maximum(mix @ likelihood, 1e-300)) / weights.sum()
    return float(mix @ (1.0 - np.concatenate(tops)))


def _log_patterns(patterns: Floats, tops: Floats, spread: int) -> Floats:
    """Log probabilities (T, P), up to a constant of each pattern, of P sorted vote counts.

    One class has probability t, ``spread`` classes have (1 − t)/spread each; the sum runs over every assignment of
    the counts to classes, by the count v of the class of probability t.
    """
    totals, present = patterns.sum(axis=1), (patterns > 0).sum(axis=1)
    values = np.unique(patterns)
    times = np.stack([(patterns == v).sum(axis=1) for v in values], axis=1).astype(np.float64)
    equal = gammaln(times[:, values > 0] + 1).sum(axis=1)
    with np.errstate(divide="ignore"):
        log_top, log_rest = np.log(tops), np.log((1.0 - tops) / spread)
    result = np.full((len(tops), len(patterns)), -np.inf)
    for v, multiplicity in zip(values, times.T, strict=True):
        others = present - (v > 0)
        which = np.flatnonzero(((multiplicity > 0) | (v == 0)) & (others <= spread))
        if not len(which):
            continue
        same = np.log(multiplicity[which]) if v > 0 else 0.0
        ways = gammaln(spread + 1) - gammaln(spread - others[which] + 1) - (equal[which] - same)
        left = totals[which] - v
        with np.errstate(invalid="ignore"):
            rest = np.where(left > 0, left * log_rest[:, None], 0.0)
        term = ways + v * log_top[:, None] + rest
        result[:, which] = np.logaddexp(result[:, which], term)
    return np.asarray(np.maximum(result, -1e30))


def isotonic_floor(soft: ArrayLike, labels: ArrayLike, *, confidence: float = 0.95, seed: int = 0) -> Estimate:
    """The Bayes error of a binary problem, if the order of the soft labels is right.

    Isotonic regression of the labels on the soft labels P(1 | x) gives calibrated posteriors c; the estimate is the
    mean of min(c, 1 − c). Soft labels that are distorted by any increasing function are corrected by it. The
    standard error adds that of the regression, from 20 resamples.

    Args:
        soft: (n,) soft labels of class 1, or (n, 2).
        labels: (n,) labels, 0 or 1.

    Source: Ushio, Ishida and Sugiyama, "Practical estimation of the optimal classification error with soft labels
    and calibration" (2025).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p = rng.random(20000)                                      # Bayes error 0.25
        >>> found = isotonic_floor(p**3, (rng.random(20000) < p).astype(int))
        >>> abs(found.value - 0.25) < 0.01
        True
    """
    scores = np.asarray(soft, dtype=np.float64)
    scores = scores[:, 1] if scores.ndim == 2 else scores
    truth = np.asarray(labels, dtype=np.float64)
    if scores.shape != truth.shape or not np.isin(truth, (0, 1)).all():
        raise InputError(
            f"must be 0 or 1, one for each of {len(scores):,} soft labels; got {truth.shape}", argument="labels"
        )

    def fitted(rows: NDArray[np.int64]) -> Floats:
        _, index, counts = np.unique(scores[rows], return_inverse=True, return_counts=True)
        proportions = np.bincount(index, weights=truth[rows]) / counts
        return np.asarray(optimize.isotonic_regression(proportions, weights=counts).x[index])

    calibrated = fitted(np.arange(len(truth)))
    means = []
    for i in range(RESAMPLES):
        again = fitted(np.random.default_rng([seed, 3, i]).integers(0, len(truth), len(truth)))
        means.append(np.minimum(again, 1 - again).mean())
    return mean_estimate(
        np.minimum(calibrated, 1 - calibrated),
        method="mean of min(c, 1 − c), c the isotonic regression of labels on soft labels",
        confidence=confidence,
        extra_variance=float(np.var(means, ddof=1)),
        seed=seed,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Annotations:
    """Votes or soft labels, one of them None, and their rows in the dataset, where there is one."""

    votes: Floats | None
    soft_labels: Floats | None
    rows: Labels | None = None


def read_votes(
    source: ArrayLike | str | os.PathLike[str] | None,
    *,
    n_classes: int = 0,
    ids: NDArray[np.str_] | None = None,
    test: Labels | None = None,
) -> Annotations:
    """Read votes or soft labels from an npz (``votes`` or ``soft_labels``, and ``ids``), npy file or an array.

    Rows are joined to a dataset by id; without ids there must be one row for each example, or for each test
    example.

    Args:
        source: path of the file, or the array: whole numbers are votes, rows of sum 1 soft labels.
        n_classes: K of the dataset; 0 where there is none.
        ids: (N,) ids of the dataset; None where there is none.
        test: rows of its test split.
    """
    path = os.fspath(source) if isinstance(source, (str, os.PathLike)) else ""
    arrays = read_arrays(path, ("votes", "soft_labels", "ids")) if path else {"": np.asarray(source)}
    table: NDArray[Any] | None = next((arrays[key] for key in ("votes", "soft_labels", "") if key in arrays), None)
    where = f": {path}" if path else ""
    if table is None:
        names = ", ".join(arrays) or "none"
        raise InputError(f"{where}: expected an array named votes or soft_labels; got {names}", argument="votes")
    if table.ndim != 2 or table.dtype.kind not in "biuf" or (n_classes and table.shape[1] != n_classes):
        expected = f"(examples, {n_classes})" if n_classes else "(examples, classes)"
        raise InputError(
            f"{where}: expected numbers of shape {expected}; got {table.shape} of {table.dtype}", argument="votes"
        )
    fractions = table.dtype.kind == "f" and bool(np.any(table % 1)) and np.allclose(table.sum(axis=1), 1, atol=1e-3)
    soft = "votes" not in arrays and ("soft_labels" in arrays or fractions)
    rows = None if ids is None else _voted_rows(where, len(table), arrays.get("ids"), ids, test)
    if soft:
        return Annotations(None, arguments.probabilities("soft_labels", table), rows)
    return Annotations(_vote_counts(table), None, rows)


def _voted_rows(
    where: str, n: int, vote_ids: NDArray[Any] | None, ids: NDArray[np.str_], test: Labels | None
) -> NDArray[np.int64]:
    """The rows of the dataset that n rows of votes belong to."""
    if vote_ids is not None:
        row_of = {str(item): row for row, item in enumerate(ids)}
        unknown = [str(item) for item in vote_ids.tolist() if str(item) not in row_of]
        if unknown or len(vote_ids) != n:
            raise InputError(
                f"{where}: {len(unknown):,} of {len(vote_ids):,} ids are not in the dataset, such as "
                f"{(unknown or ['none'])[0]!r}; pass one row of votes per id of this dataset",
                argument="votes",
            )
        return np.array([row_of[str(item)] for item in vote_ids.tolist()], dtype=np.int64)
    if n == len(ids):
        return np.arange(n)
    if test is not None and n == len(test):
        return test
    expected = f"{len(ids):,} (all examples)" + ("" if test is None else f" or {len(test):,} (test examples)")
    raise InputError(f"{where}: has {n:,} rows and no ids; expected {expected}", argument="votes")


def _vote_counts(votes: ArrayLike) -> Floats:
    array: NDArray[Any] = np.asarray(votes)
    if array.ndim != 2 or array.shape[1] < 2 or not len(array):
        raise InputError(
            f"must be counts of shape (examples, classes); got shape {array.shape} of {array.dtype}",
            argument="votes",
        )
    return arguments.whole_numbers("votes", array).astype(np.float64)


def _left_out(counts: Floats) -> Floats:
    """For each example of two votes or more, how often a vote differs from the majority of the others."""
    largest = counts.max(axis=1)
    alone = (counts == largest[:, None]).sum(axis=1) == 1
    rivals = (counts == (largest - 1)[:, None]).sum(axis=1)
    # A vote agrees with the majority of the others only if its class leads alone; without that vote, the classes
    # one vote behind have caught up and share the majority with it.
    right = np.where(alone, largest / (1.0 + rivals), 0.0)
    return np.asarray(1.0 - right / counts.sum(axis=1))


def vote_entries(annotations: Annotations, labels: Labels | None, *, confidence: float, seed: int) -> list[Entry]:
    """Bounds from votes or soft labels, compared with the labels of the dataset where there is one."""
    check = None
    truth = None if labels is None or annotations.rows is None else labels[annotations.rows]
    if annotations.votes is not None:
        result = vote_floor(annotations.votes, confidence=confidence)
        if truth is not None:
            differ, p_value = fewer_differences_p_value(annotations.votes, truth, result)
            check = AssumptionTest(p_value, result.uncorrected.value, differ)
        entries = [
            Entry("Votes, uncorrected", "lower", result.uncorrected, VOTES, check=check),
            Entry("Votes, one left out", "upper", result.left_out, VOTES, check=check),
        ]
        if result.point is not None:
            entries.append(Entry("Votes, mixture", "estimate", result.point, VOTES, check=check))
        return entries
    soft = annotations.soft_labels
    assert soft is not None
    item = plug_in(soft, confidence=confidence, method="mean of 1 − largest soft label")
    if truth is not None:
        made, predicted, p_value = predicted_errors_test(soft, truth)
        check = AssumptionTest(p_value, predicted / len(soft), made / len(soft))
    entries = [Entry("Soft labels", "estimate", item, SOFT_LABELS, check=check)]
    if truth is not None and soft.shape[1] == 2 and len(soft) >= ISOTONIC_ROWS:
        isotonic = isotonic_floor(soft, truth, confidence=confidence, seed=seed)
        entries.append(Entry("Soft labels, isotonic", "estimate", isotonic, "ordered-soft-labels"))
    return entries
