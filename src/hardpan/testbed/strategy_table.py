"""Several new test sets at once: how each way of choosing its images moves the accuracies (Table 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.testbed.comparison import mean_over_models
from hardpan.testbed.reading import as_table
from hardpan.testbed.tables import Counts, Outcomes


@record
@dataclass(frozen=True, slots=True)
class Strategy:
    """One new test set against the original one.

    Attributes:
        name: of the set or of its sampling strategy.
        selection_frequency: average share of annotators that selected its images, if given.
        change: average change of accuracy by metric, new − original, over models.
        models: how many models each change rests on.
    """

    name: str
    selection_frequency: float | None
    change: Mapping[str, Estimate]
    models: Mapping[str, int]


@record
@dataclass(frozen=True, slots=True)
class Strategies:
    """What :func:`strategies` returns: sets in the order given, metrics, and the span of average changes."""

    rows: tuple[Strategy, ...]
    metrics: tuple[str, ...]
    span: Mapping[str, float]
    notes: tuple[str, ...] = ()


def strategies(
    tables: Mapping[str, Any],
    *,
    frequencies: Mapping[str, float] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Strategies:
    """Average change of accuracy on several new test sets, each against the original.

    Only models that every set has are averaged, so that the sets can be compared.

    Args:
        tables: a table (as for :func:`compare`) by the name of its set.
        frequencies: average selection frequency by the name of the set.
        confidence: level of the intervals, which resample models.
        seed: of the draws.

    Source: Recht et al., section 4 and Table 2.

    Example:
        >>> from hardpan.testbed import counts_table
        >>> hard = counts_table(["a", "b"], [90, 80], 100, [70, 66], 100)
        >>> easy = counts_table(["a", "b"], [90, 80], 100, [92, 82], 100)
        >>> [round(row.change["top1"].value, 2) for row in strategies({"hard": hard, "easy": easy}).rows]
        [-0.17, 0.02]
    """
    if not tables:
        raise InputError("give at least one table of a new test set")
    given = dict(frequencies or {})
    for name in given:
        if name not in tables:
            raise InputError(f"frequencies names {name!r}, which is none of the sets {', '.join(tables)}")
        if not 0.0 <= float(given[name]) <= 1.0:
            raise InputError(f"selection frequency of {name} must lie in 0..1; got {given[name]!r}")
    counts = {name: _counts(table) for name, table in tables.items()}
    metrics = [
        m for m in dict.fromkeys(next(iter(counts.values())).metric) if all(m in c.metric for c in counts.values())
    ]
    if not metrics:
        raise InputError("the tables share no metric; give the same metrics for every set")
    shared = {metric: _shared(counts, metric) for metric in metrics}
    rows = [
        Strategy(
            name,
            float(given[name]) if name in given else None,
            {metric: _change(counts[name], metric, shared[metric], confidence, seed) for metric in metrics},
            {metric: len(shared[metric]) for metric in metrics},
        )
        for name in counts
    ]
    span = {metric: float(np.ptp([row.change[metric].value for row in rows])) for metric in metrics}
    return Strategies(tuple(rows), tuple(metrics), span, _notes(counts, shared))


def _counts(table: Any) -> Counts:
    source = as_table(table)
    return source.counts() if isinstance(source, Outcomes) else source


def _shared(counts: Mapping[str, Counts], metric: str) -> tuple[str, ...]:
    names = [set(table.for_metric(metric).models) for table in counts.values()]
    shared = set.intersection(*names)
    if len(shared) < 2:
        raise InputError(f"the tables share {len(shared)} models for {metric}; at least 2 are needed")
    return tuple(sorted(shared))


def _change(table: Counts, metric: str, models: tuple[str, ...], confidence: float, seed: int) -> Estimate:
    part = table.for_metric(metric)
    rows = [part.models.index(name) for name in models]
    return mean_over_models((part.new_accuracy - part.original_accuracy)[rows], confidence, seed)


def _notes(counts: Mapping[str, Counts], shared: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    notes = [note for table in counts.values() for note in table.notes]
    for metric, models in shared.items():
        most = max(len(table.for_metric(metric)) for table in counts.values())
        if most > len(models):
            notes.append(f"{metric}: left out, because not in every set: {most - len(models)} of {most} models")
    return tuple(dict.fromkeys(notes))
