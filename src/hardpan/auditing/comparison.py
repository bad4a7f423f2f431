"""Audits side by side: two of them measure by measure, several ranked by hardness."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import field

from hardpan import stats
from hardpan.auditing.running import Audit
from hardpan.bayes.floors.entries import Entry
from hardpan.confusion.banding import FEWEST_ERRORS
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.report import Report

FEWEST_FOR_AGREEMENT = 3
MEASURES = (
    "bracket",
    "flow_floor",
    "best_error",
    "headroom",
    "mean_confusion",
    "tail_share",
    "drop",
    "bits",
    "duplicated",
)
"""Numbers that every audit gives by the same names; hardpan.pages.auditing says what they are."""
HARDNESS = ("best_error", "mean_confusion", "flow_floor")
"""Measures by which datasets are ranked: larger is harder."""
RANGES = ("bracket",)
"""Measures that are two ends rather than a number: they have no difference."""


def is_comparable(measure: str, item: Estimate) -> bool:
    """Whether a measure rests on enough errors to be compared."""
    return measure != "tail_share" or item.n >= FEWEST_ERRORS


@record
class HardnessOrder:
    """The datasets by one measure, hardest first; those without it are left out.

    Attributes:
        measure: which one.
        names: the datasets.
        values: the measure.
        not_separated: pairs whose difference has an interval that contains 0, Bonferroni-corrected over all pairs.
    """

    measure: str
    names: tuple[str, ...]
    values: tuple[float, ...]
    not_separated: tuple[tuple[str, str], ...] = ()


@record(dropped=("stability", "left_out"))
class AuditComparison(Report):
    """Several audits side by side.

    Attributes:
        names: the datasets, each once.
        values: by measure, by dataset: the estimate.
        differences: for two audits, second minus first by measure; else empty.
        rankings: the datasets by each measure of hardness that at least two of them have.
        agreement: Kendall's τ between two such rankings, by "measure, measure", of three datasets or more.
        verdicts: by measure, by dataset: the entry of the floor that the number comes from.
        hashes: of the data of the audits.
    """

    names: tuple[str, ...]
    values: Mapping[str, Mapping[str, Estimate]]
    differences: Mapping[str, Estimate]
    rankings: tuple[HardnessOrder, ...]
    agreement: Mapping[str, Estimate]
    verdicts: Mapping[str, Mapping[str, Entry]] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)


def compare(audits: Sequence[Audit]) -> AuditComparison:
    """Compare audits: their measures, what changed between two, and which is hardest among several.

    The interval of a difference combines the two intervals (MOVER, Zou and Donner 2008):
    d − √((b − b_low)² + (a_high − a)²) to d + √((b_high − b)² + (a − a_low)²) with d = b − a, as for independent
    measurements; on the same test set it is wider than need be. All differences hold together: the level is shared
    by the measures that are compared (Bonferroni).

    Args:
        audits: two or more.

    Returns:
        The comparison.
    """
    for item in audits:
        if not isinstance(item, Audit):
            raise InputError(f"must be results of hardpan.audit; got {type(item).__name__}", argument="audits")
    if len(audits) < 2:
        raise InputError(f": a comparison needs at least two; got {len(audits)}", argument="audits")
    audits = [dataclasses.replace(item, measures=_known_measures(item)) for item in audits]
    named = dict(zip(_audit_names(audits), audits, strict=True))
    values = {
        measure: by_name
        for measure in MEASURES
        if (by_name := {name: item.measures[measure] for name, item in named.items() if measure in item.measures})
    }
    rankings = tuple(_hardness_order(measure, named) for measure in HARDNESS)
    rankings = tuple(item for item in rankings if len(item.names) >= 2)
    compared = [
        measure
        for measure, by_name in values.items()
        if len(audits) == 2 and len(by_name) == 2 and measure not in RANGES
        if all(is_comparable(measure, item) for item in by_name.values())
    ]
    differences = {
        measure: difference(*(_widened_for_comparison(item, len(compared)) for item in values[measure].values()))
        for measure in compared
    }
    # Of two audits the order says what the differences say: both have the interval that all differences share.
    rankings = tuple(
        dataclasses.replace(
            item,
            not_separated=((item.names[0], item.names[1]),)
            if differences[item.measure].low <= 0 <= differences[item.measure].high
            else (),
        )
        if item.measure in differences
        else item
        for item in rankings
    )
    return AuditComparison(
        names=tuple(named),
        values=values,
        differences=differences,
        rankings=rankings,
        agreement=_compare_orders(rankings),
        verdicts={
            measure: {name: item.verdicts[measure] for name, item in named.items() if measure in item.verdicts}
            for measure in values
            if any(measure in item.verdicts for item in audits)
        },
        hashes={
            f"{name}: {key}": digest for name, item in named.items() for key, digest in item.origin.hashes.items()
        },
    )


def _known_measures(audit: Audit) -> dict[str, Estimate]:
    """The measures that are numbers: a file may have null in their place."""
    ends = {name: (item.value, item.low, item.high) for name, item in audit.measures.items()}
    return {name: audit.measures[name] for name, listed in ends.items() if None not in listed}


def difference(a: Estimate, b: Estimate) -> Estimate:
    """Give b − a with the interval that the two intervals make together.

    Example:
        >>> d = difference(Estimate(0.10, 0.01, 0.08, 0.12), Estimate(0.15, 0.01, 0.13, 0.18))
        >>> round(d.value, 3), round(d.low, 4), round(d.high, 4)
        (0.05, 0.0217, 0.0861)
    """
    value = b.value - a.value
    low = value - math.hypot(b.value - b.low, a.high - a.value)
    high = value + math.hypot(b.high - b.value, a.value - a.low)
    spread = math.hypot(a.stderr, b.stderr)
    return Estimate(
        value,
        spread,
        low,
        high,
        min(a.confidence, b.confidence),
        "difference of two estimates (MOVER)",
        min(a.n, b.n),
    )


def _audit_names(audits: Sequence[Audit]) -> list[str]:
    """The datasets' names; one that comes twice gets a number."""
    datasets = [item.dataset for item in audits]
    counts = [datasets[: number + 1].count(name) for number, name in enumerate(datasets)]
    return [f"{name} ({count})" if count > 1 else name for name, count in zip(datasets, counts, strict=True)]


def _hardness_order(measure: str, named: Mapping[str, Audit]) -> HardnessOrder:
    values = {name: item.measures[measure].value for name, item in named.items() if measure in item.measures}
    names = tuple(sorted(values, key=lambda name: -values[name]))
    pairs = list(itertools.combinations(names, 2))
    items = {name: _widened_for_comparison(named[name].measures[measure], len(pairs)) for name in names}
    close = tuple((a, b) for a, b in pairs if difference(items[b], items[a]).low <= 0)
    return HardnessOrder(measure, names, tuple(values[name] for name in names), close)


def _widened_for_comparison(item: Estimate, pairs: int) -> Estimate:
    """The estimate with its interval stretched from its level to that of one of so many comparisons."""
    if pairs < 2:
        return item
    alpha = 1 - item.confidence
    factor = stats.normal_quantile(1 - alpha / pairs) / stats.normal_quantile(item.confidence)
    low, high = item.value - factor * (item.value - item.low), item.value + factor * (item.high - item.value)
    return dataclasses.replace(item, low=low, high=high)


def _compare_orders(rankings: Sequence[HardnessOrder]) -> dict[str, Estimate]:
    agreement = {}
    for first, second in itertools.combinations(rankings, 2):
        a, b = (dict(zip(ranking.names, ranking.values, strict=True)) for ranking in (first, second))
        shared = [name for name in a if name in b]
        if len(shared) >= FEWEST_FOR_AGREEMENT:
            tau = stats.kendall_tau([a[name] for name in shared], [b[name] for name in shared])
            agreement[f"{first.measure}, {second.measure}"] = tau
    return agreement
