"""The verdict on a floor: the bracket that evidence supports, and the status of every other estimate.

The Bayes error is at most the error of any classifier on independent data, so the upper end of the bracket is the
smallest upper limit of a classifier's held-out error. No estimate from finitely many labelled examples bounds the
Bayes error from below without an assumption about how the posterior varies with x, unless inputs repeat. So the
lower end comes only from repeated inputs, from votes or soft labels, or from a noise rate that the user states. All
other numbers are estimates under an assumption; they are listed with what is known against them and never enter the
bracket.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal

from hardpan.bayes.floors.error_estimates import Moving, held_out_error
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.stats import clopper_pearson

Role = Literal["estimate", "lower", "upper", "classifier"]
GUESSING = "guessing"
# Assumptions by name. What each one says is written in hardpan.pages.floors.
HELD_OUT = "held-out"  # the test examples are independent draws that no classifier was tuned on
NOT_SEEN = "not-seen"  # nobody has stated that the model was not trained on the test examples
MAY_HAVE_SEEN = "may have seen these rows"  # status of such a model's error
REPEATS = "repeats"  # whether an input is repeated does not depend on its labels
VOTES = "votes"  # labels are drawn as annotators vote
SOFT_LABELS = "soft-labels"  # the soft labels are posteriors
STATED_NOISE = "stated-noise"  # labels are flipped at the stated rate, at random given the true class
# How far an assumption is trusted: what needs none, what the user vouches for, and all others.
_EVIDENCE, _STATED, _ASSUMED = 0, 1, 2
_TRUST = {HELD_OUT: _EVIDENCE, REPEATS: _EVIDENCE, VOTES: _STATED, SOFT_LABELS: _STATED, STATED_NOISE: _STATED}


@record
class AssumptionTest:
    """A test of an assumption: errors that it predicts, errors that were made, and the p-value."""

    p_value: float
    predicted: float
    observed: float


@record
class Entry:
    """One number about the floor.

    Attributes:
        name: unique within a floor.
        role: "estimate" of the floor, "lower" or "upper" end under the assumption, or the held-out error of a
            "classifier".
        estimate: the number.
        assumption: what it assumes, a key of :data:`hardpan.pages.floors.ASSUMPTIONS`.
        model: the model that the assumption is about, where there is one.
        calibration: how that model's probabilities were calibrated, where they were.
        status: "not refuted"; "refuted" where evidence that needs no assumption excludes it; "assumption rejected"
            where a test rejects its assumption; "contradicted" where another entry excludes it, or it that entry.
        refuted_by: names of the entries that exclude it; its own name where a test rejects the assumption.
        check: the test of the assumption, where there is one.
        moving: its value at half of the examples beside that at all, where it was computed.
    """

    name: str
    role: Role
    estimate: Estimate
    assumption: str
    model: str = ""
    status: str = "not refuted"
    refuted_by: tuple[str, ...] = ()
    check: AssumptionTest | None = None
    moving: Moving | None = None
    calibration: str = ""

    @property
    def trust(self) -> int:
        """0 where it needs no assumption about the data, 1 where the user vouches for it, 2 otherwise."""
        return _TRUST.get(self.assumption, _ASSUMED)

    @property
    def under_assumption(self) -> bool:
        """Whether it is an estimate under an assumption, which never enters the bracket."""
        return self.trust == _ASSUMED


@record
class Contradiction:
    """Two entries that cannot both be true: one says at least ``at_least``, the other at most ``at_most``."""

    lower: str
    upper: str
    at_least: float
    at_most: float


@record
class Bracket:
    """The bracket of the floor.

    Attributes:
        low: lower end, 0 where no evidence supports one.
        high: upper end: the smallest upper limit of a classifier's error, at the joint level.
        low_from: name of the entry that gives the lower end, or empty.
        low_assumption: its assumption, or empty.
        high_from: name of the classifier that gives the upper end.
        confidence: joint level of both ends.
        n_classifiers: how many classifiers share the level (Bonferroni).
    """

    low: float
    high: float
    low_from: str
    low_assumption: str
    high_from: str
    confidence: float
    n_classifiers: int


def weigh(
    entries: Sequence[Entry], *, n_classes: int, confidence: float = 0.95
) -> tuple[tuple[Entry, ...], Bracket, tuple[Contradiction, ...]]:
    """Compute the bracket, and the status of every entry.

    The upper end is the smallest one-sided Clopper–Pearson limit at level α/M over M classifiers (guessing errs in
    (K−1)/K, so no limit is higher), with α = 1 − confidence. Where a lower end is claimed as well, each end gets
    α/2. An entry is refuted where its value exceeds that limit; its assumption is rejected where its test has a
    p-value below (α/2)/tests. Any two remaining entries contradict each other where the lower limit of one exceeds
    the upper limit of the other: evidence that needs no assumption refutes, what the user vouches for prevails over
    what is assumed, and of two equals both are contradicted.

    Args:
        entries: without a classifier, votes or soft labels bound the error from above; without these, guessing.
        n_classes: K.

    Source: the Bayes error is the minimum over all classifiers; the limit is Clopper and Pearson's (1934).

    Example:
        >>> model = Estimate(0.0246, 0.0, 0.0246, 0.0246, method="a density model")
        >>> network = held_out_error(30, 10_000, method="a network")
        >>> entries = Entry("flow", "estimate", model, "flow"), Entry("network", "classifier", network, HELD_OUT)
        >>> weighed, bracket, _ = weigh(entries, n_classes=10)
        >>> weighed[0].status, weighed[0].refuted_by, bracket.low, round(bracket.high, 4)
        ('refuted', ('network',), 0.0, 0.0041)
    """
    _check_names(entries)
    alpha = 1.0 - confidence
    lowers = [item for item in entries if item.role in ("lower", "estimate") and not item.under_assumption]
    lowers = [item for item in lowers if item.estimate.low > 0]
    one_sided = alpha / 2 if lowers else alpha
    classifiers = [item for item in entries if item.role == "classifier"]
    limits = {item.name: upper_limit(item, one_sided / len(classifiers)) for item in classifiers}
    limits[GUESSING] = (n_classes - 1) / n_classes
    if not classifiers:
        limits |= {
            item.name: item.estimate.high
            for item in entries
            if item.trust == _STATED and item.role in ("estimate", "upper")
        }
    best = min(limits, key=lambda name: limits[name])
    high = limits[best]
    tests = max(1, sum(item.check is not None for item in entries))
    weighed = [_against_evidence(item, best, high, alpha / 2 / tests) for item in entries]
    weighed, contradictions = _against_each_other(weighed)
    usable = [
        item for item in weighed if item.name in {low.name for low in lowers} and item.status == "not refuted"
    ]
    lowest = max(usable, key=lambda item: item.estimate.low, default=None)
    bracket = Bracket(
        low=min(lowest.estimate.low, high) if lowest else 0.0,
        high=high,
        low_from=lowest.name if lowest else "",
        low_assumption=lowest.assumption if lowest else "",
        high_from=best,
        confidence=confidence,
        n_classifiers=len(classifiers),
    )
    return tuple(weighed), bracket, contradictions


def upper_limit(item: Entry, level: float) -> float:
    """The one-sided Clopper–Pearson limit of a classifier's error at the given level."""
    errors = item.estimate.value * item.estimate.n
    if item.estimate.n < 1 or not math.isfinite(errors) or abs(errors - round(errors)) > 1e-6 * item.estimate.n:
        raise InputError(
            f": {item.name!r} must be a proportion of n held-out examples; got value "
            f"{item.estimate.value} with n={item.estimate.n}",
            argument="classifiers",
        )
    return float(clopper_pearson(round(errors), item.estimate.n, 1 - 2 * level)[1])


def _check_names(entries: Sequence[Entry]) -> None:
    names = [item.name for item in entries]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f": names must be unique; {twice!r} occurs twice", argument="predictions")
    for item in entries:
        if math.isnan(item.estimate.value):
            raise InputError(f"{item.name}: the estimate must be a number; got NaN")


def _against_evidence(item: Entry, best: str, limit: float, level: float) -> Entry:
    """The entry after the classifiers' limit and its own test."""
    if item.role in ("estimate", "lower") and item.estimate.value > limit and item.name != best:
        return dataclasses.replace(item, status="refuted", refuted_by=(best,))
    if item.check is not None and item.check.p_value < level:
        return dataclasses.replace(item, status="assumption rejected", refuted_by=(item.name,))
    return item


def _against_each_other(entries: Sequence[Entry]) -> tuple[list[Entry], tuple[Contradiction, ...]]:
    """The entries after comparing every two of those that remain, and the pairs that cannot both be true."""
    open_entries = [item for item in entries if item.status == "not refuted" and item.role != "classifier"]
    pairs = [
        (low, high)
        for low in open_entries
        if low.role in ("estimate", "lower")
        for high in open_entries
        if high.role in ("estimate", "upper") and high is not low and low.estimate.low > high.estimate.high
    ]
    status: dict[str, str] = {}
    against: dict[str, list[str]] = {}
    for low, high in pairs:
        for one, other in ((low, high), (high, low)):
            if one.trust < other.trust:
                continue
            refuted = other.trust == _EVIDENCE and one.trust > _EVIDENCE
            status[one.name] = "refuted" if refuted else status.get(one.name, "contradicted")
            against.setdefault(one.name, []).append(other.name)
    weighed = [
        dataclasses.replace(item, status=status[item.name], refuted_by=tuple(against[item.name]))
        if item.name in status
        else item
        for item in entries
    ]
    return weighed, tuple(Contradiction(a.name, b.name, a.estimate.low, b.estimate.high) for a, b in pairs)


def classifier_entry(name: str, wrong: int, n: int, method: str, confidence: float) -> Entry:
    """The entry of a classifier that got ``wrong`` of n held-out examples wrong."""
    return Entry(name, "classifier", held_out_error(wrong, n, method=method, confidence=confidence), HELD_OUT, name)
