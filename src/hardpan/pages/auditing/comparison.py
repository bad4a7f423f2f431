"""What a comparison of audits says and shows."""

from __future__ import annotations

import itertools
from typing import Any

from hardpan.auditing.comparison import AuditComparison, HardnessOrder, is_comparable
from hardpan.estimates import Estimate
from hardpan.pages import floors, formatting
from hardpan.pages.auditing.problems import first_names
from hardpan.pages.sections import Chart, Section, Table, View, fields_of
from hardpan.report import Provenance, versions_of
from hardpan.tables import columns_of

MEASURES = {
    "bracket": "bracket of the lowest error (its lower end under the condition that the audit states)",
    "flow_floor": "Bayes error of the flow",
    "gaussian_floor": "Bayes error of the Gaussian model",  # in reports of earlier versions
    "best_error": "error of the best model",
    "headroom": "headroom",
    "mean_confusion": "mean confusion (bits)",
    "tail_share": "errors in the confusing tenth",
    "drop": "drop on fresh data",
    "bits": "bits per dimension of the flow",
    "duplicated": "test examples with a copy in train",
}
"""What each measure is, in words."""
PLAIN = ("mean_confusion", "bits")  # measures that are no fractions
DIFFERENCES = ("headroom", "drop")  # measures in points
COMPARISON_METHOD = (
    "Every number is read from the reports of the audits; nothing is computed again from the data. The interval "
    "of a difference combines the two intervals (Zou and Donner's MOVER), as for independent samples; all "
    "differences hold together: the level is shared by the measures.",
    "A dataset is harder than another by a measure when its number is larger; two are not separated when the "
    "interval of their difference, corrected for the number of pairs, contains 0. Kendall's τ compares two "
    "orders: 1 is the same order, −1 the reverse.",
)
COMPARISON_CITATIONS = (
    "Theisen, Wang, Varshney, Xiong and Socher, “Evaluating State-of-the-Art Classification Models Against Bayes "
    "Optimality”, 2021, Table 1.",
    "Zou and Donner, “Construction of confidence limits about effect measures: a general approach”, 2008.",
)


def comparison_view(comparison: AuditComparison) -> View:
    """The page of a comparison."""
    cells = [(m, name, item) for m, values in comparison.values.items() for name, item in values.items()]
    sections = [_measures_section(comparison)]
    if comparison.rankings:
        sections.append(_rankings_section(comparison))
    return View(
        title=f"Comparison of {formatting.listed(comparison.names)}",
        headline=comparison_headline(comparison),
        sections=tuple(sections),
        provenance=Provenance(
            COMPARISON_METHOD, COMPARISON_CITATIONS, versions=versions_of(), hashes=comparison.hashes
        ),
        columns={
            "measure": [measure for measure, _, _ in cells],
            "dataset": [name for _, name, _ in cells],
            **columns_of([item for *_, item in cells], "value", "low", "high"),
        },
        name=formatting.listed(comparison.names),
    )


def measure_words(measure: str, item: Estimate) -> str:
    """A measure as a person reads it, with its interval.

    Example:
        >>> measure_words("tail_share", Estimate(1.0, 0.0, 0.16, 1.0, n=2))
        'too few errors (2)'
        >>> measure_words("bracket", Estimate(0.02, 0.0, 0.005, 0.02))
        '0.5–2.0 %'
        >>> measure_words("bits", Estimate(2.3456, 0.0, 2.3, 2.4))
        '2.35 (2.30–2.40)'
    """
    if not is_comparable(measure, item):
        return f"too few errors ({item.n})"
    if measure == "bracket":
        return formatting.percent_range(item.low, item.high)
    if measure in PLAIN:
        return formatting.plain(item)
    return formatting.plain(item, scale=100, unit="points") if measure in DIFFERENCES else formatting.estimate(item)


def comparison_headline(comparison: AuditComparison) -> str:
    """Which dataset is harder, or which ones are not separated."""
    ranking = _first_unrefuted(comparison)
    if ranking is None:
        return f"{formatting.listed(comparison.names)} share no measure of hardness."
    words = MEASURES[ranking.measure]
    order = f"From hard to easy by the {words}: {', '.join(ranking.names)}"
    if len(ranking.names) > 2:
        pairs = [f"{a} and {b}" for a, b in ranking.not_separated]
        return f"{order}; not separated: {'; '.join(first_names(pairs))}." if pairs else f"{order}."
    shown_values = " against ".join(
        measure_words(ranking.measure, comparison.values[ranking.measure][name]) for name in ranking.names
    )
    if ranking.not_separated:
        return f"{formatting.listed(ranking.names)} are not separated by the {words}: {shown_values}."
    return f"{ranking.names[0]} is harder than {ranking.names[1]} by the {words}: {shown_values}."


def _first_unrefuted(comparison: AuditComparison) -> HardnessOrder | None:
    """The first ranking without a refuted number; where there is none, the first."""
    for ranking in comparison.rankings:
        verdicts = comparison.verdicts.get(ranking.measure, {})
        if all(verdicts[name].status == "not refuted" for name in ranking.names if name in verdicts):
            return ranking
    return comparison.rankings[0] if comparison.rankings else None


def _measures_section(comparison: AuditComparison) -> Section:
    rows: list[tuple[Any, ...]] = []
    rejected: list[tuple[Any, ...]] = []
    for measure in comparison.values:
        cells = [_measure_cell(comparison, measure, name) for name in comparison.names]
        change = _change_words(measure, comparison.differences.get(measure))
        row = (formatting.capital(MEASURES[measure]), *cells, *([change] if comparison.differences else []))
        doubted = any(entry.status != "not refuted" for entry in comparison.verdicts.get(measure, {}).values())
        (rejected if doubted else rows).append(row)
    columns = ("measure", *comparison.names, *(["second minus first"] if comparison.differences else []))
    folded: list[Table | Chart] = []
    if rejected:
        reasons = (
            (formatting.capital(MEASURES[measure]), name, floors.reason(entry))
            for measure, entries in comparison.verdicts.items()
            for name, entry in entries.items()
            if entry.status != "not refuted"
        )
        folded.append(Table("Estimates that an audit rejects", columns, tuple(rejected)))
        folded.append(Table("Why they are rejected", ("measure", "dataset", "reason"), tuple(reasons)))
    charts = [
        _measure_chart(m, comparison)
        for m in ("best_error", "flow_floor")
        if len(comparison.values.get(m, {})) >= 2
    ]
    if rejected:
        folded += [item for item in charts if any(row["status"] != "not refuted" for row in item.rows)]
        charts = [item for item in charts if item not in folded]
    return Section(
        "Side by side",
        tuple(_change_sentences(comparison)) or ("Every number is from the audit's own report.",),
        charts=tuple(charts),
        tables=(Table("Measures", columns, tuple(rows)),),
        folded=tuple(folded),
        key="measures",
    )


def _change_sentences(comparison: AuditComparison) -> list[str]:
    """For two audits: what differs, in words."""
    said = []
    for measure, change in comparison.differences.items():
        if change.low <= 0 <= change.high:
            continue
        way = "higher" if change.value > 0 else "lower"
        size = _change_words(measure, change)
        said.append(
            f"{formatting.capital(MEASURES[measure])}: {way} on {comparison.names[1]} than on "
            f"{comparison.names[0]}, {size}."
        )
    if comparison.differences and not said:
        said.append("No measure separates the two.")
    return said


def _measure_chart(measure: str, comparison: AuditComparison) -> Chart:
    values = comparison.values[measure]
    ordered = sorted(values, key=lambda name: -values[name].value)
    rows = []
    for name in ordered:
        item, entry = values[name], comparison.verdicts.get(measure, {}).get(name)
        status = "not refuted" if entry is None else entry.status
        role = "refuted" if status in ("refuted", "assumption rejected") else "ceiling"
        reason = item.method if entry is None else floors.reason(entry)
        rows.append({"name": name, **fields_of(item), "role": role, "status": status, "reason": reason})
    words = "; ".join(f"{name} {_measure_cell(comparison, measure, name)}" for name in ordered)
    positive = [e.value for e in values.values() if e.value > 0]
    wide = bool(positive) and max(positive) > 30 * min(positive)
    options = {"x_title": MEASURES[measure], "log": wide}
    title = formatting.capital(MEASURES[measure])
    return Chart("intervals", title, tuple(rows), f"{title}: {words}.", options)


def _rankings_section(comparison: AuditComparison) -> Section:
    rows = tuple(
        (
            formatting.capital(MEASURES[item.measure]),
            " > ".join(item.names),
            "; ".join(f"{a} and {b}" for a, b in item.not_separated) or None,
        )
        for item in comparison.rankings
    )
    agreement = tuple(
        (f"{MEASURES[a.measure]} and {MEASURES[b.measure]}", round(tau.value, 3), tau.n)
        for a, b in itertools.combinations(comparison.rankings, 2)
        if (tau := comparison.agreement.get(f"{a.measure}, {b.measure}")) is not None
    )
    tables = [Table("The order by each measure", ("by", "from hard to easy", "not separated"), rows)]
    if agreement:
        tables.append(Table("Agreement of the orders", ("orders", "Kendall's τ", "datasets"), agreement))
    return Section("Which is harder?", tables=tuple(tables), key="order")


def _measure_cell(comparison: AuditComparison, measure: str, name: str) -> str | None:
    item, entry = comparison.values[measure].get(name), comparison.verdicts.get(measure, {}).get(name)
    if item is None:
        return None
    doubt = f", {entry.status}" if entry is not None and entry.status != "not refuted" else ""
    return f"{measure_words(measure, item)}{doubt}"


def _change_words(measure: str, item: Estimate | None) -> str | None:
    if item is None:
        return None
    return formatting.signed(item, 1.0, "") if measure in PLAIN else formatting.signed(item)
