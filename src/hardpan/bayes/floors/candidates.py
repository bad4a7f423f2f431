"""What an estimator of the floor hands in, before it is weighed; and what is left of it afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hardpan.bayes.floors.gap import Difference
from hardpan.estimates import Estimate
from hardpan.files import record

Role = Literal["estimate", "lower", "upper", "classifier"]
Status = Literal["stands", "refuted", "unfounded", "disputed"]


@dataclass(frozen=True, slots=True)
class Check:
    """A test of a candidate's assumption against the data.

    Attributes:
        p_value: how probable what was seen is under the assumption.
        sentence: what was seen, to be said where the assumption fails.
    """

    p_value: float
    sentence: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """One number about the floor, what it claims to be, and what it assumes.

    Attributes:
        name: what to call it, once in a floor.
        role: "estimate" of the floor, "lower" or "upper" end under the assumption, or the held-out error of a
            "classifier": a count of errors on test examples, which assumes nothing of the data's form.
        estimate: the number.
        assumption: what it rests on; candidates with the same words share their fate and their lower end.
        check: a test of the assumption, where there is one.
    """

    name: str
    role: Role
    estimate: Estimate
    assumption: str
    check: Check | None = None


@record
@dataclass(frozen=True, slots=True)
class Entry:
    """A candidate after weighing.

    Attributes:
        name: what it is called.
        role: "estimate", "lower", "upper" or "classifier".
        estimate: the number.
        assumption: what it rests on.
        status: "stands"; "refuted" where it lies above the limit; "unfounded" where its assumption fails a test;
            "disputed" where it is a floor above a ceiling, or that ceiling: one of the two is wrong.
        against: what speaks against it: a classifier, its own decisions, or the other ends; empty where it stands.
        reason: the same in a sentence.
    """

    name: str
    role: str
    estimate: Estimate
    assumption: str
    status: str
    against: str
    reason: str


@record
@dataclass(frozen=True, slots=True)
class Crossing:
    """A floor whose value lies above that of a ceiling.

    Attributes:
        floor: name of the lower end or estimate.
        ceiling: name of the upper end.
        at_least: lower end of the floor's interval.
        at_most: upper end of the ceiling's interval.
        contradiction: whether ``at_least`` exceeds ``at_most``, so that chance does not explain it.
        sentence: the same in words.
    """

    floor: str
    ceiling: str
    at_least: float
    at_most: float
    contradiction: bool
    sentence: str


@record
@dataclass(frozen=True, slots=True)
class Floor:
    """Every estimate of the floor side by side, what refutes what, and the bracket that survives.

    Attributes:
        entries: the estimates, bounds and classifiers, in the order of their making.
        low: lower end of the bracket; it rests on ``low_assumption``. 0 where nothing stands.
        high: upper end: the smallest upper limit of a classifier's error, at the joint level.
        low_from: name of the entry that gives the lower end, empty where none stands.
        low_assumption: what the lower end assumes: without an assumption there is no lower end but 0.
        high_from: name of the classifier that gives the upper end.
        confidence: joint level of the classifiers' limits.
        n_classifiers: how many classifiers share that level (Bonferroni).
        n_classes: K.
        sentence: the verdict, in one sentence.
        notes: what limits the claims.
        left_out: estimators that could not be computed, and why.
        differences: how well each model's samples can be told from the data.
        crossings: floors above ceilings, contradictions or not.
    """

    entries: tuple[Entry, ...]
    low: float
    high: float
    low_from: str
    low_assumption: str
    high_from: str
    confidence: float
    n_classifiers: int
    n_classes: int
    sentence: str
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    crossings: tuple[Crossing, ...] = ()

    def __getitem__(self, name: str) -> Entry:
        """The entry of that name."""
        return {entry.name: entry for entry in self.entries}[name]

    @property
    def refuted(self) -> tuple[str, ...]:
        """Names of the estimates that lie above the limit."""
        return tuple(entry.name for entry in self.entries if entry.status == "refuted")

    @property
    def unfounded(self) -> tuple[str, ...]:
        """Names of the estimates whose assumption fails."""
        return tuple(entry.name for entry in self.entries if entry.status == "unfounded")

    @property
    def disputed(self) -> tuple[str, ...]:
        """Names of the floors and ceilings that contradict each other."""
        return tuple(entry.name for entry in self.entries if entry.status == "disputed")
