"""Entries of a floor: the bracket that evidence supports, and the status of every other estimate.

The Bayes error is at most the error of any classifier on independent data, so the upper end of the bracket is the
smallest upper limit of a classifier's held-out error. No estimate from finitely many labelled examples bounds the
Bayes error from below without an assumption about how the posterior varies with x, unless inputs repeat. So the
lower end comes only from repeated inputs, from votes or soft labels, or from a noise rate that the user states. All
other numbers are estimates under an assumption; they are listed with what is known against them and never enter the
bracket.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hardpan.bayes.floors.error_estimates import held_out_error
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.stats import GroupedSample, grouped_sample, share

Role = Literal["estimate", "lower", "upper", "classifier"]
GUESSING = "guessing"
# Assumptions by name. What each one says is written in hardpan.pages.floors.
HELD_OUT = "held-out"  # the test examples are independent draws that no classifier was tuned on
NOT_SEEN = "not-seen"  # nobody has stated that the model was not trained on the test examples
MAY_HAVE_SEEN = "may have seen these rows"  # status of such a model's error
NOT_REFUTED = "not refuted"  # status of an entry that nothing excludes
REPEATS = "repeats"  # whether an input is repeated does not depend on its labels
VOTES = "votes"  # labels are drawn as annotators vote
SOFT_LABELS = "soft-labels"  # the soft labels are posteriors
NEIGHBOURS = "neighbours"  # a test example and its nearest neighbours have the same posterior
STATED_NOISE = "stated-noise"  # labels are flipped at the stated rate, at random given the true class
# How far an assumption is trusted: none is needed, it is about how data were collected, and all others.
_EVIDENCE, _STATED, _ASSUMED = 0, 1, 2
_TRUST = {HELD_OUT: _EVIDENCE, REPEATS: _STATED, VOTES: _STATED, SOFT_LABELS: _STATED, STATED_NOISE: _STATED}


@record
class AssumptionTest:
    """A test of an assumption: errors that it predicts, errors that were made, and the p-value."""

    p_value: float
    predicted: float
    observed: float


@record(dropped=("moving", "calibration"))
class Entry:
    """One number about the floor.

    Attributes:
        name: unique within a floor.
        role: "estimate" of the floor, "lower" or "upper" end under the assumption, or the held-out error of a
            "classifier".
        estimate: the number.
        assumption: what it assumes, a key of :data:`hardpan.pages.floors.ASSUMPTIONS`.
        model: the model that the assumption is about, where there is one.
        status: "not refuted"; "refuted" where evidence that needs no assumption excludes it; "assumption rejected"
            where a test rejects its assumption; "contradicted" where another entry excludes it, or it that entry.
        refuted_by: names of the entries that exclude it; its own name where a test rejects the assumption.
        check: the test of the assumption, where there is one.
        sample: of a classifier, what its error rests on where the test examples come in groups.
        apart: of a classifier, the same without the test examples that equal a training example, or without the
            columns that number the rows, where the bracket must hold for that too.
    """

    name: str
    role: Role
    estimate: Estimate
    assumption: str
    model: str = ""
    status: str = NOT_REFUTED
    refuted_by: tuple[str, ...] = ()
    check: AssumptionTest | None = None
    sample: GroupedSample | None = None
    apart: Entry | None = None

    @property
    def trust(self) -> int:
        """0 where no assumption is needed, 1 for one about how the data were collected, 2 otherwise."""
        return _TRUST.get(self.assumption, _ASSUMED)

    @property
    def under_assumption(self) -> bool:
        """Whether it is an estimate under an assumption, which never enters the bracket."""
        return self.trust == _ASSUMED

    @property
    def bounds_below(self) -> bool:
        """Whether it says that the floor is not below it."""
        return self.role in ("lower", "estimate")


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
        apart: whether the upper end is that of what is apart: without the test examples that equal a training
            example, or without the columns that number the rows.
    """

    low: float
    high: float
    low_from: str
    low_assumption: str
    high_from: str
    confidence: float
    n_classifiers: int
    apart: bool = False


def weigh(
    entries: Sequence[Entry], *, n_classes: int, confidence: float = 0.95, apart: bool = False
) -> tuple[tuple[Entry, ...], Bracket]:
    """Compute the bracket, and the status of every entry.

    The upper end is the smallest one-sided Clopper–Pearson limit at level α/M over M classifiers (guessing errs in
    (K−1)/K, so no limit is higher), with α = 1 − confidence. Where a lower end is claimed as well, each end gets
    α/2. With ``apart`` it is the larger of the limits with and without what is apart. A classifier that was
    evaluated on fewer examples than others is left out: all limits are of one set of rows.

    An entry is refuted where its value exceeds that limit; its assumption is rejected where its test has a p-value
    below (α/2)/tests. Any two remaining entries contradict each other where the lower limit of one exceeds the
    upper limit of the other: evidence that needs no assumption refutes, what the user vouches for prevails over
    what is assumed, and of two equals both are contradicted.

    Args:
        entries: without a classifier, votes or soft labels bound the error from above; without these, guessing.
        n_classes: K.
        apart: whether the upper end must hold for what is apart in the entries, too.

    Source: the Bayes error is the minimum over all classifiers; the limit is Clopper and Pearson's (1934).

    Example:
        >>> model = Estimate(0.0246, 0.0, 0.0246, 0.0246, method="a density model")
        >>> network = held_out_error(30, 10_000, method="a network")
        >>> entries = Entry("flow", "estimate", model, "flow"), Entry("network", "classifier", network, HELD_OUT)
        >>> weighed, bracket = weigh(entries, n_classes=10)
        >>> weighed[0].status, weighed[0].refuted_by, bracket.low, round(bracket.high, 4)
        ('refuted', ('network',), 0.0, 0.0041)
    """
    _check_entries(entries)
    alpha = 1.0 - confidence
    lowers = {
        item.name for item in entries if item.bounds_below and not item.under_assumption and item.estimate.low > 0
    }
    one_sided = alpha / 2 if lowers else alpha
    every = [item for item in entries if item.role == "classifier"]
    most = max((item.estimate.n for item in every), default=0)
    classifiers = [item for item in every if item.estimate.n == most]
    limits = {item.name: upper_limit(item, one_sided / len(every)) for item in classifiers}
    limits[GUESSING] = (n_classes - 1) / n_classes
    if not classifiers:
        stated = (item for item in entries if item.trust == _STATED and item.role != "lower")
        limits |= {item.name: item.estimate.high for item in stated}
    best = min(limits, key=lambda name: limits[name])
    high = limits[best]
    if apart:
        rest = {item.name: upper_limit(item.apart, one_sided / len(every)) for item in classifiers if item.apart}
        rest[GUESSING] = limits[GUESSING]
        best_apart = min(rest, key=lambda name: rest[name])
        apart = rest[best_apart] > high
        best, high = (best_apart, rest[best_apart]) if apart else (best, high)
    tests = max(1, sum(item.check is not None for item in entries))
    weighed = _entries_against_each_other(
        [_entry_against_evidence(item, best, high, alpha / 2 / tests) for item in entries]
    )
    usable = [item for item in weighed if item.name in lowers and item.status == NOT_REFUTED]
    lowest = max(usable, key=lambda item: item.estimate.low, default=None)
    bracket = Bracket(
        low=min(lowest.estimate.low, high) if lowest else 0.0,
        high=high,
        low_from=lowest.name if lowest else "",
        low_assumption=lowest.assumption if lowest else "",
        high_from=best,
        confidence=confidence,
        n_classifiers=len(every),
        apart=apart,
    )
    return weighed, bracket


def upper_limit(item: Entry, level: float) -> float:
    """The one-sided Clopper–Pearson limit of a classifier's error at the given level."""
    errors = item.estimate.value * item.estimate.n
    if item.estimate.n < 1 or not math.isfinite(errors) or abs(errors - round(errors)) > 1e-6 * item.estimate.n:
        raise InputError(
            f": {item.name!r} must be a proportion of n held-out examples; got value "
            f"{item.estimate.value} with n={item.estimate.n}",
            argument="classifiers",
        )
    if item.sample is not None:
        return item.sample.limits(item.estimate.value, 1 - 2 * level)[1]
    return share(round(errors), item.estimate.n, 1 - 2 * level).high


def _check_entries(entries: Sequence[Entry]) -> None:
    names = [item.name for item in entries]
    for item in entries:
        if names.count(item.name) > 1:
            raise InputError(f": names must be unique; {item.name!r} occurs twice", argument="predictions")
        if math.isnan(item.estimate.value):
            raise InputError(f"{item.name}: the estimate must be a number; got NaN")


def _entry_against_evidence(item: Entry, best: str, limit: float, level: float) -> Entry:
    """The entry after the classifiers' limit and its own test."""
    if item.bounds_below and item.estimate.value > limit and item.name != best:
        return dataclasses.replace(item, status="refuted", refuted_by=(best,))
    if item.check is not None and item.check.p_value < level:
        return dataclasses.replace(item, status="assumption rejected", refuted_by=(item.name,))
    return item


def _entries_against_each_other(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The entries after comparing every two of those that remain."""
    remaining = [item for item in entries if item.status == NOT_REFUTED and item.role != "classifier"]
    status: dict[str, str] = {}
    against: dict[str, list[str]] = {}
    for low, high in itertools.permutations(remaining, 2):
        if not low.bounds_below or high.role == "lower" or low.estimate.low <= high.estimate.high:
            continue
        for item, other in ((low, high), (high, low)):
            if item.trust < other.trust:
                continue
            refuted = other.trust == _EVIDENCE and item.trust > _EVIDENCE
            status[item.name] = "refuted" if refuted else status.get(item.name, "contradicted")
            against.setdefault(item.name, []).append(other.name)
    return tuple(
        dataclasses.replace(item, status=status[item.name], refuted_by=tuple(against[item.name]))
        if item.name in status
        else item
        for item in entries
    )


@dataclass(frozen=True, slots=True, eq=False)
class Sampling:
    """How test examples were drawn.

    Attributes:
        group: (m,) the independent group of each; None where each is a draw of its own.
        apart: (m,) which remain when copies of training examples are left out; None where no claim is made that
            there are copies.
    """

    group: NDArray[np.int64] | None = None
    apart: NDArray[np.bool_] | None = None

    def of(self, rows: NDArray[np.bool_]) -> Sampling:
        """The same of some of the examples."""
        group = None if self.group is None else self.group[rows]
        return Sampling(group, None if self.apart is None else self.apart[rows])


def classifier_entry(
    name: str, wrong: NDArray[np.bool_], method: str, confidence: float, sampling: Sampling | None = None
) -> Entry:
    """The entry of a classifier from which of the held-out examples it got wrong."""
    sampled = sampling or Sampling()
    sample = None if sampled.group is None else grouped_sample(wrong, sampled.group)
    error = held_out_error(int(wrong.sum()), len(wrong), method=method, confidence=confidence, sample=sample)
    apart = None
    if sampled.apart is not None and sampled.apart.any():
        rest = Sampling(sampled.group).of(sampled.apart)
        apart = classifier_entry(name, wrong[sampled.apart], f"{method}, without copies", confidence, rest)
    return Entry(name, "classifier", error, HELD_OUT, name, sample=sample, apart=apart)
