"""The floor from annotators' votes: the direct estimate, and its correction for few votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.bayes.floors.inputs import Floats
from hardpan.bayes.floors.means import mean_estimate
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record

ASSUMPTION = "labels are drawn as the votes are: each vote an independent draw from the example's posterior"


@record
@dataclass(frozen=True, slots=True)
class VoteFloor:
    """The Bayes error of labels that are drawn as votes are.

    Attributes:
        corrected: midpoint of ``direct`` and ``held_out``, with an interval from the lower limit of the one to the
            upper limit of the other: it holds the Bayes error whatever the posteriors are.
        direct: mean of 1 − max share of votes; on average too low.
        held_out: how often a vote differs from the majority of the example's other votes; on average too high.
        n: examples with at least two votes.
        left_out: examples with one vote or none, which say nothing of the floor.
        fewest: fewest votes of an example that counts.
    """

    corrected: Estimate
    direct: Estimate
    held_out: Estimate
    n: int
    left_out: int
    fewest: int


def vote_floor(votes: ArrayLike, *, confidence: float = 0.95) -> VoteFloor:
    """Estimate the Bayes error from how often annotators disagree.

    With m votes an example, the mean of 1 − max share is below the Bayes error on average (the largest of noisy
    shares is too large). Set one vote aside: the majority of the other m − 1 (equals share) is a classifier, and
    how often it misses that vote is its error without bias, so on average above the Bayes error. Between the two
    lies the truth, whatever the posteriors; the corrected estimate is the midpoint. (A jackknife over votes
    corrects nothing where the majority is clear, and none is without bias: the maximum is no polynomial.)

    Args:
        votes: (n, K) counts, examples × classes; numbers of votes may differ.
        confidence: level of the intervals.

    Source: Ishida et al., "Is the performance of my deep network too good to be true?" (2023), for the direct
    estimate; the correction is this package's own.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> posterior = rng.dirichlet([0.3, 0.3, 0.3], 5000)
        >>> found = vote_floor(rng.multinomial(3, posterior))
        >>> truth = np.mean(1 - posterior.max(axis=1))
        >>> bool(found.direct.high < truth < found.held_out.low), bool(abs(found.corrected.value - truth) < 0.02)
        (True, True)
    """
    counts = _counts(votes)
    totals = counts.sum(axis=1)
    kept = counts[totals >= 2]
    left_out = len(counts) - len(kept)
    if len(kept) < 2:
        raise InputError(
            "votes must hold at least two examples with two votes each; one vote shows no disagreement"
        )
    fewest = int(totals[totals >= 2].min())
    options: dict[str, Any] = {"confidence": confidence}
    direct = mean_estimate(
        1.0 - kept.max(axis=1) / kept.sum(axis=1),
        method="mean of 1 − largest share of votes, uncorrected",
        **options,
    )
    held_out = mean_estimate(
        _held_out(kept), method="a vote against the majority of the example's other votes", **options
    )
    value = (direct.value + held_out.value) / 2
    notes: tuple[str, ...] = (
        f"Too low without correction ({direct.value:.4g}), too high with a vote held out ({held_out.value:.4g}): "
        "the estimate is the midpoint, and the interval covers both.",
    )
    if left_out:
        notes += (f"{left_out:,} examples with fewer than two votes were left out.",)
    corrected = Estimate(
        value,
        max(direct.stderr, held_out.stderr),
        direct.low,
        held_out.high,
        confidence,
        "votes, midpoint of the uncorrected estimate and the error of held-out votes",
        len(kept),
        notes=notes,
        log10=float(np.log10(value)) if value > 0 else None,
    )
    return VoteFloor(corrected, direct, held_out, len(kept), left_out, fewest)


def _counts(votes: ArrayLike) -> Floats:
    array: NDArray[Any] = np.asarray(votes)
    if array.ndim != 2 or array.shape[1] < 2 or array.dtype.kind not in "iufb" or not len(array):
        raise InputError(
            f"votes must be counts of shape (examples, classes); got shape {array.shape} of {array.dtype}"
        )
    counts = array.astype(np.float64)
    if not np.isfinite(counts).all() or (counts < 0).any() or (counts != np.floor(counts)).any():
        raise InputError("votes must be whole numbers of at least 0; give shares as soft labels instead")
    return counts


def _held_out(counts: Floats) -> Floats:
    """For each example of two votes or more, how often a vote differs from the majority of the others."""
    largest = counts.max(axis=1)
    alone = (counts == largest[:, None]).sum(axis=1) == 1
    rivals = (counts == (largest - 1)[:, None]).sum(axis=1)
    # A vote agrees with the majority of the others only if its class leads alone; with its vote gone, the classes
    # one vote behind have caught up and share the majority with it.
    right = np.where(alone, largest / (1.0 + rivals), 0.0)
    return np.asarray(1.0 - right / counts.sum(axis=1))
