"""Several new test sets at once: how each way of sampling its images changes the accuracies (Table 2)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.report.base import Report
from hardpan.testbed.comparison import mean_gap, over_models
from hardpan.testbed.sets import Evidence, TwoSets, two_sets

METRICS = ("top1", "top5")


@record
class Strategy:
    """One new test set against the original one.

    Attributes:
        name: of the set or of its sampling strategy.
        selection_frequency: mean proportion of annotators that selected its images, if stated.
        change: mean change of accuracy by metric, new − original; the interval contains the sampling of both sets.
        over_models: the same means with intervals over models, the test sets as they are.
        models: how many models each change rests on.
    """

    name: str
    selection_frequency: float | None
    change: Mapping[str, Estimate]
    over_models: Mapping[str, Estimate]
    models: Mapping[str, int]


@record
class Strategies(Report):
    """What :func:`strategies` returns: sets in order, metrics, and the span of the mean changes.

    ``evidence`` by metric is "counts" where any set has counts only: the intervals are then upper bounds.
    """

    rows: tuple[Strategy, ...]
    metrics: tuple[str, ...]
    span: Mapping[str, float]
    confidence: float
    evidence: Mapping[str, Evidence]
    notes: tuple[str, ...] = ()


def strategies(
    tables: Mapping[str, Any],
    *,
    frequencies: Mapping[str, float] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    **options: Any,
) -> Strategies:
    """Mean change of accuracy on several new test sets, each against the original.

    Only models that every set has are averaged, so that the sets can be compared. Both top1 and top5 are read where
    every table has them.

    Args:
        tables: a table or a pair (as for :func:`compare`) by the name of its set.
        frequencies: mean selection frequency by the name of the set.
        confidence: level of the intervals.
        seed: of the draws of models.
        options: how to open the tables: ``original_total``, ``new_total``, ...

    Source: Recht et al., section 4 and Table 2.

    Example:
        >>> def table(new):
        ...     return {"model": ["a", "b"], "original_correct": [90, 80], "original_total": [100] * 2,
        ...             "new_correct": new, "new_total": [100] * 2}
        >>> result = strategies({"hard": table([70, 66]), "easy": table([92, 82])})
        >>> [round(row.change["top1"].value, 2) for row in result.rows]
        [-0.17, 0.02]
    """
    if not isinstance(tables, Mapping) or not tables:
        raise InputError("must have at least one new test set by name", argument="tables")
    stated = dict(frequencies or {})
    for name in stated:
        if name not in tables:
            raise InputError(f"frequencies names {name!r}, which is none of the sets {', '.join(tables)}")
        if not 0.0 <= float(stated[name]) <= 1.0:
            raise InputError(
                f": the frequency of {name} must lie in 0..1; got {stated[name]!r}", argument="frequencies"
            )
    sets: dict[str, dict[str, TwoSets]] = {}
    for metric in METRICS:
        with contextlib.suppress(InputError):
            sets[metric] = {name: two_sets(table, metric=metric, **options) for name, table in tables.items()}
    if not sets:  # another metric, or tables that cannot be read: the error says which
        parts = {name: two_sets(table, **options) for name, table in tables.items()}
        sets = {next(iter(parts.values())).metric: parts}
    shared = {metric: _shared(parts, metric) for metric, parts in sets.items()}
    rows = []
    for name in tables:
        taken = {metric: _of_models(sets[metric][name], shared[metric]) for metric in sets}
        rows.append(
            Strategy(
                name,
                float(stated[name]) if name in stated else None,
                {metric: _negated(mean_gap(pair, confidence)) for metric, pair in taken.items()},
                {metric: over_models(-pair.gaps, confidence, seed) for metric, pair in taken.items()},
                {metric: len(pair) for metric, pair in taken.items()},
            )
        )
    span = {metric: float(np.ptp([row.change[metric].value for row in rows])) for metric in sets}
    evidence: dict[str, Evidence] = {
        metric: "counts" if any(item.evidence == "counts" for item in parts.values()) else "examples"
        for metric, parts in sets.items()
    }
    return Strategies(tuple(rows), tuple(sets), span, confidence, evidence, _notes(sets, shared))


def _negated(gap: Estimate) -> Estimate:
    return replace(gap, value=-gap.value, low=-gap.high, high=-gap.low)


def _shared(parts: Mapping[str, TwoSets], metric: str) -> tuple[str, ...]:
    shared = set.intersection(*(set(item.models) for item in parts.values()))
    if len(shared) < 2:
        raise InputError(f"must share at least 2 models for {metric}; they share {len(shared)}", argument="tables")
    return tuple(sorted(shared))


def _of_models(sets: TwoSets, models: tuple[str, ...]) -> TwoSets:
    return sets.take(np.array([sets.models.index(name) for name in models]))


def _notes(sets: Mapping[str, Mapping[str, TwoSets]], shared: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    notes = [note for parts in sets.values() for item in parts.values() for note in item.notes]
    for metric, models in shared.items():
        most = max(len(item) for item in sets[metric].values())
        if most > len(models):
            notes.append(
                f"{metric}: {most - len(models)} of {most} models are left out, as not every set has them."
            )
    return tuple(dict.fromkeys(notes))
