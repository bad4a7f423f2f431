"""The verdict: what held-out evidence leaves of the estimates of the floor.

The Bayes error is at most the error of any classifier on independent data. So an estimate above the upper
confidence limit of some classifier's held-out error is refuted, whatever produced it. A model of the data whose own
decisions err more or less often than it promises is not the data, and its number has nothing to rest on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hardpan.bayes.floors.candidates import Candidate, Check, Entry, Floor
from hardpan.bayes.floors.crossings import crossed_pairs, disputed, in_verdict
from hardpan.bayes.floors.gap import Difference
from hardpan.bayes.floors.refits import binomial_tails, normal_mixture
from hardpan.bayes.floors.wording import joined, lower_first, percent
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.stats import clopper_pearson

GUESSING = "guessing"
HELD_OUT = "the test examples are independent draws that nothing was tuned on"
OWN_DECISIONS = "its own decisions"


def weigh(
    candidates: Sequence[Candidate],
    *,
    n_classes: int,
    confidence: float = 0.95,
    notes: Iterable[str] = (),
    left_out: Iterable[str] = (),
    differences: Iterable[Difference] = (),
) -> Floor:
    """Weigh estimates of the floor against classifiers' held-out errors and against their own assumptions.

    With M classifiers on one test set each limit is the upper Clopper–Pearson limit at level
    1 − (1 − confidence)/M, so that all of them hold together at ``confidence``. An estimate or a lower end is
    refuted when its value exceeds the smallest limit (guessing errs in (K−1)/K, so no limit is higher). It is
    unfounded when a test of its assumption fails, at level (1 − confidence)/2 shared among the tests. So where all
    assumptions are true, the chance that any limit or any test speaks falsely is at most 1 − confidence. Upper ends
    and calibrated plug-ins are ceilings: a high one is not refuted, and being only as good as their assumption they
    refute nothing. But a floor whose interval lies above a ceiling's contradicts it: one of the two assumptions is
    false, nothing here says which, and both are disputed (:mod:`hardpan.bayes.floors.crossings`).

    The surviving bracket runs to the smallest limit, from the lowest of the lower ends that stand; of those that
    share an assumption the highest counts, since a loose bound does not speak against a tight one. So it never
    lies above a ceiling that stands, and a dispute never raises its lower end.

    Args:
        candidates: at least one of them a classifier.
        n_classes: K.

    Source: the Bayes error is the minimum over all classifiers; the limit is Clopper and Pearson's (1934).

    Example:
        >>> from hardpan.bayes.floors.means import held_out_error
        >>> model = Estimate(0.0246, 0.0, 0.0246, 0.0246, method="a density model")
        >>> network = held_out_error(30, 10_000, method="a network")
        >>> found = weigh(
        ...     [Candidate("flow", "estimate", model, "the flow is the data"),
        ...      Candidate("network", "classifier", network, HELD_OUT)], n_classes=10)
        >>> found.refuted, found.low, round(found.high, 4)
        (('flow',), 0.0, 0.0043)
    """
    classifiers = [item for item in candidates if item.role == "classifier"]
    if not classifiers:
        raise InputError("a floor needs the held-out error of at least one classifier; got none")
    names = [item.name for item in candidates]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"names must differ; {twice!r} is given twice")
    limits = {item.name: _limit(item, confidence, len(classifiers)) for item in classifiers}
    limits[GUESSING] = (n_classes - 1) / n_classes
    best = min(limits, key=lambda name: limits[name])
    tests = sum(item.check is not None for item in candidates)
    # The limits are one-sided and use half of the allowance; the tests share the other half.
    level = (1 - confidence) / 2 / max(tests, 1)
    weighed = [_weighed(item, best, limits[best], level) for item in candidates]
    crossed = crossed_pairs(weighed)
    entries = disputed(weighed, crossed)
    lowest = _lowest(entries)
    low = min(lowest.estimate.low, limits[best]) if lowest else 0.0
    return Floor(
        entries=entries,
        low=low,
        high=limits[best],
        low_from=lowest.name if lowest else "",
        low_assumption=lowest.assumption if lowest else "",
        high_from=best,
        confidence=confidence,
        n_classifiers=len(classifiers),
        n_classes=n_classes,
        sentence=_sentence(entries, lowest, low, best, limits[best], confidence, in_verdict(crossed)),
        notes=tuple(notes),
        left_out=tuple(left_out),
        differences=tuple(differences),
        crossings=crossed,
    )


def own_decisions_check(promised: Estimate, made: Estimate) -> Check:
    """Test whether a model's own classifier errs as often as the model's Bayes error promises.

    If the model were the data, the errors made on n test examples would be binomial with the promised share.

    Binomial tails are averaged over what the promise may be, by its standard error. This tests the very model that
    is given: to doubt a family of models, of which one was fitted, the error of the fit has to be known besides
    (:func:`hardpan.bayes.floors.refits.fit_error`).

    Args:
        promised: the model's Bayes error.
        made: held-out error of its decisions.

    Example:
        >>> exact = Estimate(0.008, 0.0, 0.008, 0.008)
        >>> own_decisions_check(exact, Estimate(0.109, 0.0, 0.1, 0.12, n=10_000)).p_value < 1e-9
        True
    """
    wrong, n = round(made.value * made.n), made.n
    shares = normal_mixture(promised.value, promised.stderr)
    as_few, as_many = np.mean([binomial_tails(wrong, n, float(share)) for share in shares], axis=0)
    p_value = min(1.0, 2 * float(min(as_many, as_few)))
    promise = f"it promises {percent(promised.value)} of errors"
    return Check(p_value, f"{promise}, and its own decisions make {percent(made.value)}")


def _limit(item: Candidate, confidence: float, n_classifiers: int) -> float:
    errors = item.estimate.value * item.estimate.n
    if item.estimate.n < 1 or abs(errors - round(errors)) > 1e-6 * item.estimate.n:
        raise InputError(
            f"classifier {item.name!r} must be a share of n held-out examples; got value {item.estimate.value} "
            f"with n={item.estimate.n}"
        )
    return float(clopper_pearson(round(errors), item.estimate.n, 1 - (1 - confidence) / n_classifiers)[1])


def _weighed(item: Candidate, best: str, limit: float, level: float) -> Entry:
    if np.isnan(item.estimate.value):
        raise InputError(f"{item.name!r} must be a number; got NaN")
    status, against = "stands", ""
    if item.role == "classifier":
        reason = "The floor lies below the upper end of this interval: no classifier is better than the best one."
    elif item.role != "upper" and item.estimate.value > limit:
        status, against = "refuted", best
        reason = f"Refuted: {best} makes fewer errors on held-out examples than this calls possible"
        reason += "." if item.estimate.low > limit else ", though its own interval reaches below that limit."
    elif item.check is not None and item.check.p_value < level:
        status, against = "unfounded", OWN_DECISIONS
        reason = f"Unfounded: {item.check.sentence}, so it is not true that {item.assumption}."
    elif item.role == "upper":
        reason = f"A ceiling if {item.assumption}."
    else:
        reason = f"Stands if {item.assumption}: no classifier here is surely better"
        reason += "." if item.estimate.high <= limit else ", though its own interval reaches above the limit."
    return Entry(item.name, item.role, item.estimate, item.assumption, status, against, reason)


def _lowest(entries: Sequence[Entry]) -> Entry | None:
    """The entry that gives the lower end: the highest one of each assumption, and of these the lowest."""
    by_assumption: dict[str, Entry] = {}
    for entry in entries:
        if entry.role in ("estimate", "lower") and entry.status == "stands":
            other = by_assumption.get(entry.assumption)
            if other is None or entry.estimate.low > other.estimate.low:
                by_assumption[entry.assumption] = entry
    return min(by_assumption.values(), key=lambda entry: entry.estimate.low, default=None)


def _sentence(
    entries: Sequence[Entry],
    lowest: Entry | None,
    low: float,
    best: str,
    high: float,
    confidence: float,
    contradicted: str,
) -> str:
    text = f"The lowest possible error is at most {percent(high)} "
    text += f"(the {100 * confidence:g} % limit of {lower_first(best)})"
    if lowest is not None:
        text += f" and, if {lowest.assumption}, at least {percent(low)} ({lower_first(lowest.name)})"
    else:
        text += ", and no estimate that could bound it from below is left"
    refuted = [
        f"{lower_first(entry.name)} ({percent(entry.estimate.value)})"
        for entry in entries
        if entry.status == "refuted"
    ]
    if refuted:
        text += f"; refuted by that limit: {joined(refuted)}"
    unfounded = [lower_first(entry.name) for entry in entries if entry.status == "unfounded"]
    if unfounded:
        text += f"; contradicted by {'its' if len(unfounded) == 1 else 'their'} own errors: {joined(unfounded)}"
    text += contradicted
    if not refuted and not unfounded and not contradicted and lowest is not None:
        text += "; nothing is refuted, though a better classifier still may do it"
    return text + "."
