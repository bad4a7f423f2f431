"""The floor from annotators' votes and soft labels, if labels are drawn as annotators vote."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import pdtr

from hardpan import arguments
from hardpan.bayes.floors.entries import SOFT_LABELS, VOTES, AssumptionTest, Entry
from hardpan.bayes.floors.error_estimates import Floats, Labels, mean_error_estimate
from hardpan.bayes.floors.plugin import plug_in, plug_in_errors_test
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import read_arrays, record


@record(dropped=("point",))
class VoteFloor:
    """The Bayes error of labels that are drawn as votes are.

    Attributes:
        uncorrected: mean of 1 − largest proportion of votes; on average too low.
        left_out: how often a vote differs from the majority of the example's other votes; on average too high.
        n: examples with at least two votes; others do not count.
    """

    uncorrected: Estimate
    left_out: Estimate
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
    error.

    Args:
        votes: (n, K) counts, examples × classes; numbers of votes may differ.
        confidence: level of the intervals.

    Source: Ishida et al., "Is the performance of my deep network too good to be true?" (2023), for the uncorrected
    estimate.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> posterior = rng.dirichlet([0.3, 0.3, 0.3], 5000)
        >>> truth = np.mean(1 - posterior.max(axis=1))
        >>> found = vote_floor(rng.multinomial(3, posterior))
        >>> bool(found.low < truth < found.high)
        True
    """
    counts = _vote_counts(votes)
    totals = counts.sum(axis=1)
    repeated = counts[totals >= 2]
    if len(repeated) < 2:
        raise InputError(
            "must have at least two examples with two votes each: one vote shows no disagreement", argument="votes"
        )
    uncorrected = mean_error_estimate(
        1.0 - repeated.max(axis=1) / repeated.sum(axis=1),
        method="mean of 1 − largest proportion of votes",
        confidence=confidence,
    )
    left_out = mean_error_estimate(
        _disagreement_with_other_votes(repeated),
        method="a vote against the majority of the example's other votes",
        confidence=confidence,
    )
    return VoteFloor(uncorrected, left_out, len(repeated))


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


def _disagreement_with_other_votes(counts: Floats) -> Floats:
    """For each example of two votes or more, how often a vote differs from the majority of the others."""
    largest = counts.max(axis=1)
    alone = (counts == largest[:, None]).sum(axis=1) == 1
    rivals = (counts == (largest - 1)[:, None]).sum(axis=1)
    # A vote agrees with the majority of the others only if its class leads alone; without that vote, the classes
    # one vote behind have caught up and share the majority with it.
    right = np.where(alone, largest / (1.0 + rivals), 0.0)
    return np.asarray(1.0 - right / counts.sum(axis=1))


def vote_entries(annotations: Annotations, labels: Labels | None, *, confidence: float) -> list[Entry]:
    """Bounds from votes or soft labels, compared with the labels of the dataset where there is one."""
    check = None
    truth = None if labels is None or annotations.rows is None else labels[annotations.rows]
    if annotations.votes is not None:
        result = vote_floor(annotations.votes, confidence=confidence)
        if truth is not None:
            differ, p_value = fewer_differences_p_value(annotations.votes, truth, result)
            check = AssumptionTest(p_value, result.uncorrected.value, differ)
        return [
            Entry("Votes, uncorrected", "lower", result.uncorrected, VOTES, check=check),
            Entry("Votes, one left out", "upper", result.left_out, VOTES, check=check),
        ]
    soft = annotations.soft_labels
    assert soft is not None
    if truth is not None:
        made, predicted, p_value = plug_in_errors_test(soft, truth)
        check = AssumptionTest(p_value, predicted / len(soft), made / len(soft))
    estimate = plug_in(soft, confidence=confidence, method="mean of 1 − largest soft label")
    return [Entry("Soft labels", "estimate", estimate, SOFT_LABELS, check=check)]
