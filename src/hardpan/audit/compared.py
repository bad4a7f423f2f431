"""A comparison of audits as a page: sentences, pictures and tables."""

from __future__ import annotations

from collections.abc import Sequence

import hardpan
from hardpan.audit.comparing import AuditComparison, OrderStability
from hardpan.audit.finished import Audit
from hardpan.audit.measures import MEASURES, PLAIN
from hardpan.records import Chart, Estimate, Provenance, Section, Table
from hardpan.report import numbers, page

METHOD = (
    "Every number is read from the reports of the audits; nothing is computed anew from the data. The interval of "
    "a difference is put together from the two intervals (Zou and Donner's MOVER), as for independent samples.",
    "A dataset is harder than another by a measure when its number is larger. Kendall's τ says how far two such "
    "orders agree: 1 is the same order, −1 the reverse. The floor of a flow changes with the temperature that "
    "scales its latents; an order that holds over a wide span of temperatures does not hang on the fit.",
)
CITATIONS = (
    "Theisen, Wang, Varshney, Xiong and Socher, “Evaluating State-of-the-Art Classification Models Against Bayes "
    "Optimality”, 2021, Table 1.",
    "Zou and Donner, “Construction of confidence limits about effect measures: a general approach”, 2008.",
)


def headline(found: AuditComparison) -> str:
    """The one sentence to take away."""
    ranking = found.rankings[0] if found.rankings else None
    if ranking is None:
        return f"{_listed(found.names)} share no measure of hardness."
    words = MEASURES[ranking.measure].lower()
    if len(ranking.names) == 2:
        return f"{ranking.names[0]} is the harder one by its {words}: {_pair(ranking.values, ranking.measure)}."
    return f"From hard to easy by the {words}: {', '.join(ranking.names)}."


def section(found: AuditComparison) -> tuple[Section, ...]:
    """The comparison in parts: measures, rankings, and how far an order hangs on the temperature."""
    parts = [_measures(found)]
    if len(found.names) > 2 or found.left_out:
        parts.append(_rankings(found))
    if found.stability:
        parts.append(_stability(found.stability))
    return tuple(parts)


def to_html(found: AuditComparison, audits: Sequence[Audit], command: str = "") -> str:
    """The comparison as one self-contained page."""
    made = Provenance(
        METHOD,
        CITATIONS,
        command,
        audits[0].config.seed,
        {"hardpan": hardpan.__version__},
        {
            f"{name}: {key}": digest
            for name, item in zip(found.names, audits, strict=True)
            for key, digest in _hashes(item)
        },
    )
    return page(
        section(found),
        title=f"Comparison of {_listed(found.names)}",
        headline=headline(found),
        provenance=made,
    )


def _hashes(item: Audit) -> list[tuple[str, str]]:
    return list(item.provenance.hashes.items())


def _measures(found: AuditComparison) -> Section:
    rows = []
    for measure, values in found.values.items():
        shown = [_shown(measure, values.get(name)) for name in found.names]
        change = _shown(measure, found.differences.get(measure), signed=True)
        rows.append((MEASURES[measure], *shown, *([change] if found.differences else [])))
    columns = ("measure", *found.names, *(["second minus first"] if found.differences else []))
    missing = [
        f"{name} has no {', no '.join(MEASURES[m].lower() for m in lacking)}."
        for name in found.names
        if (lacking := [m for m, values in found.values.items() if name not in values])
    ]
    charts = [_chart(m, found) for m in ("flow_floor", "best_error") if len(found.values.get(m, {})) >= 2]
    sentences = tuple(_changes(found)) or ("Every number is that of the audit's own page.",)
    return Section(
        "Side by side",
        sentences,
        charts=tuple(charts),
        tables=(Table("Measures", columns, tuple(rows)),),
        warnings=tuple(missing),
    )


def _changes(found: AuditComparison) -> list[str]:
    """For two audits: what is told apart, in words."""
    said = []
    for measure, change in found.differences.items():
        if change.low <= 0 <= change.high:
            continue
        way = "higher" if change.value > 0 else "lower"
        size = _shown(measure, change, signed=True)
        said.append(f"{MEASURES[measure]} is {way} on {found.names[1]} than on {found.names[0]}: {size}.")
    if found.differences and not said:
        said.append("No measure tells the two apart at the level of their intervals.")
    return said


def _chart(measure: str, found: AuditComparison) -> Chart:
    values = found.values[measure]
    ordered = sorted(values, key=lambda name: -values[name].value)
    rows = tuple(
        {"name": name, "value": e.value, "low": e.low, "high": e.high, "role": "floor", "reason": e.method}
        for name in ordered
        for e in (values[name],)
    )
    told = "; ".join(f"{name} {numbers.estimate(values[name])}" for name in ordered)
    positive = [e.value for e in values.values() if e.value > 0]
    wide = bool(positive) and max(positive) > 30 * min(positive)
    options = {"x_title": MEASURES[measure].lower(), "log": wide}
    return Chart("intervals", MEASURES[measure], rows, f"{MEASURES[measure]}: {told}.", options)


def _rankings(found: AuditComparison) -> Section:
    rows = tuple((MEASURES[item.measure], " > ".join(item.names), len(item.names)) for item in found.rankings)
    agreement = tuple(
        (" and ".join(MEASURES[m].lower() for m in pair.split(", ")), round(tau.value, 3), tau.n)
        for pair, tau in found.agreement.items()
    )
    tables = [Table("From hard to easy", ("by", "order", "datasets"), rows)]
    if agreement:
        tables.append(Table("Agreement of the orders", ("orders", "Kendall's τ", "datasets"), agreement))
    left_out = tuple(f"{name} is left out of the rankings: {why}." for name, why in found.left_out.items())
    return Section("Which is harder?", (headline(found),), tables=tuple(tables), warnings=left_out)


def _stability(items: Sequence[OrderStability]) -> Section:
    rows = tuple(
        {"series": item.curve, "x": temperature, "y": tau}
        for item in items
        for temperature, tau in zip(item.temperatures, item.agreement, strict=True)
    )
    told = tuple(
        f"By the floor of the {item.curve}, the order at temperature 1 ({' > '.join(item.names)}) holds from "
        f"{item.low:.2g} to {item.high:.2g}."
        for item in items
    )
    chart = Chart(
        "lines",
        "Does the order hold when the temperature is turned?",
        rows,
        " ".join(told),
        {
            "x_title": "temperature",
            "y_title": "agreement with the order at temperature 1 (Kendall's τ)",
            "log_x": True,
            "percent": False,
            "marks": ({"x": 1.0, "label": "as fitted"},),
        },
    )
    return Section("Temperature", told, charts=(chart,))


def _shown(measure: str, item: Estimate | None, *, signed: bool = False) -> str | None:
    if item is None:
        return None
    if measure in PLAIN:
        return f"{item.value:+.3g} ({item.low:+.3g} to {item.high:+.3g})" if signed else f"{item.value:.3g}"
    if signed:
        return f"{100 * item.value:+.3g} points ({100 * item.low:+.2g} to {100 * item.high:+.2g})"
    return numbers.estimate(item)


def _pair(values: Sequence[float], measure: str) -> str:
    first, second = (f"{v:.3g}" if measure in PLAIN else numbers.percent(v) for v in values)
    return f"{first} against {second}"


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
