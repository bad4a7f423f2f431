"""The verdict: does held-out evidence refute an estimate of the floor?

The Bayes error is at most the error of any classifier on independent data. So an estimate of it that lies above the
upper confidence limit of some classifier's held-out error is refuted, whatever produced it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hardpan.bayes.floors.means import held_out_error as held_out_error
from hardpan.errors import InputError
from hardpan.records import Estimate, record
from hardpan.stats import clopper_pearson

GUESSING = "guessing"


@record
@dataclass(frozen=True, slots=True)
class Weighing:
    """What the evidence says of one estimate of the floor.

    Attributes:
        floor: name of the estimate.
        estimate: the estimate.
        refuted: whether its value lies above the limit.
        refuted_by: name of the classifier with the lowest limit, empty where the estimate stands.
        limit: the lowest upper limit over the classifiers.
        clear: whether the whole interval of the estimate lies on the same side of the limit as its value.
        sentence: the same in words.
    """

    floor: str
    estimate: Estimate
    refuted: bool
    refuted_by: str
    limit: float
    clear: bool
    sentence: str


@record
@dataclass(frozen=True, slots=True)
class Verdict:
    """What is left of the estimates of the floor once classifiers have been heard.

    Attributes:
        weighings: one for each estimate, in the order given.
        low: lower end of the surviving bracket: the lowest end of the estimates that stand (0 where none does).
        high: upper end of it: the lowest upper limit of a classifier's error.
        low_from: name of the estimate that gives the lower end, empty where none stands.
        high_from: name of the classifier that gives the upper end.
        confidence: joint level of the limits.
        n_classifiers: how many classifiers share that level (Bonferroni).
        sentence: the verdict in plain words.
    """

    weighings: tuple[Weighing, ...]
    low: float
    high: float
    low_from: str
    high_from: str
    confidence: float
    n_classifiers: int
    sentence: str

    @property
    def refuted(self) -> tuple[str, ...]:
        """Names of the estimates that are refuted."""
        return tuple(item.floor for item in self.weighings if item.refuted)


def weigh(
    floors: Mapping[str, Estimate],
    classifiers: Mapping[str, Estimate],
    *,
    n_classes: int | None = None,
    confidence: float = 0.95,
) -> Verdict:
    """Weigh estimates of the floor against the held-out errors of classifiers.

    With M classifiers on one test set, each limit is the upper Clopper–Pearson limit at level
    1 − (1 − confidence)/M, so that all of them hold together at ``confidence``. An estimate is
    refuted when its value exceeds the lowest.

    Args:
        floors: estimates of the Bayes error, or of its lower end, by name.
        classifiers: held-out errors by name, as :func:`held_out_error` gives them (``value`` and ``n`` are used).
        n_classes: K, where it is known: guessing errs in (K−1)/K, so no floor is higher.
        confidence: joint level of the limits.

    Returns:
        The verdict: what refutes what, and the bracket that is left.

    Source: the Bayes error is the minimum over all classifiers; the limit is Clopper and Pearson's (1934).

    Example:
        >>> model = Estimate(0.0246, 0.0, 0.0246, 0.0246, method="a density model")
        >>> verdict = weigh({"density model": model}, {"a network": held_out_error(30, 10_000, method="CNN")})
        >>> verdict.refuted, verdict.low, round(verdict.high, 4)
        (('density model',), 0.0, 0.0043)
    """
    if not classifiers:
        raise InputError("classifiers must hold at least one held-out error; got none")
    limits = {name: _limit(name, item, confidence, len(classifiers)) for name, item in classifiers.items()}
    if n_classes is not None:
        limits[GUESSING] = (n_classes - 1) / n_classes
    best = min(limits, key=lambda name: limits[name])
    weighings = tuple(_weigh_one(name, item, best, limits[best]) for name, item in floors.items())
    standing = [item for item in weighings if not item.refuted]
    lowest = min(standing, key=lambda item: item.estimate.low, default=None)
    return Verdict(
        weighings=weighings,
        low=min(lowest.estimate.low, limits[best]) if lowest else 0.0,
        high=limits[best],
        low_from=lowest.floor if lowest else "",
        high_from=best,
        confidence=confidence,
        n_classifiers=len(classifiers),
        sentence=_summary(weighings, best),
    )


def _limit(name: str, item: Estimate, confidence: float, n_classifiers: int) -> float:
    errors = item.value * item.n
    if item.n < 1 or abs(errors - round(errors)) > 1e-6 * item.n:
        raise InputError(
            f"classifier {name!r} must be a share of n held-out examples; got value {item.value} with n={item.n}"
        )
    return float(clopper_pearson(round(errors), item.n, 1 - (1 - confidence) / n_classifiers)[1])


def _weigh_one(name: str, estimate: Estimate, best: str, limit: float) -> Weighing:
    if np.isnan(estimate.value):
        raise InputError(f"floor {name!r} must be a number; got NaN")
    refuted = estimate.value > limit
    clear = estimate.low > limit if refuted else estimate.high <= limit
    if refuted:
        sentence = f"{name}: refuted, because {best} makes fewer errors on held-out examples than it calls possible"
        sentence += "." if clear else ", though its own interval reaches below that limit."
    else:
        sentence = f"{name}: stands, because no classifier here is surely better"
        sentence += "." if clear else ", though its own interval reaches above the limit."
    return Weighing(name, estimate, refuted, best if refuted else "", limit, clear, sentence)


def _summary(weighings: tuple[Weighing, ...], best: str) -> str:
    refuted = [item.floor for item in weighings if item.refuted]
    standing = [item.floor for item in weighings if not item.refuted]
    if not weighings:
        return f"There is no estimate of the floor; {best} gives the ceiling."
    if not refuted:
        return (
            "Nothing is refuted: no classifier here is surely better than the estimates of the floor allow. "
            "A better one still may be."
        )
    left = f"Standing: {_joined(standing)}." if standing else "No estimate of the floor is left."
    return f"Refuted: {_joined(refuted)}, by the held-out error of {best}. {left}"


def _joined(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
