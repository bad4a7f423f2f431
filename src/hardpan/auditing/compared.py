"""A comparison of audits as a page: sentences, pictures and tables."""

from __future__ import annotations

from collections.abc import Sequence

from hardpan import numbers
from hardpan.auditing.comparing import AuditComparison, HardnessOrder, OrderStability
from hardpan.auditing.finished import Audit
from hardpan.auditing.measures import MEASURES, PLAIN, in_sentence, in_words
from hardpan.estimates import Estimate
from hardpan.files import versions_of
from hardpan.report.sections import Chart, Provenance, Section, Table

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

SMALLEST_SHOWN = 1e-12
_AS_FITTED = ({"x": 1.0, "label": "as fitted"},)
_ROLES = {"flow_floor": "floor", "best_error": "ceiling"}


def headline(found: AuditComparison) -> str:
    """The one sentence to take away."""
    ranking = _believed(found)
    if ranking is None:
        return f"{numbers.listed(found.names)} share no measure of hardness."
    words = in_sentence(ranking.measure)
    if len(ranking.names) > 2:
        return f"From hard to easy by the {words}: {', '.join(ranking.names)}."
    change = found.differences.get(ranking.measure)
    if change is not None and change.low <= 0 <= change.high:
        return f"{numbers.listed(found.names)} are not told apart by the {words}: {_pair(found, ranking)}."
    return f"{ranking.names[0]} is the harder one by the {words}: {_pair(found, ranking)}."


def _believed(found: AuditComparison) -> HardnessOrder | None:
    """The first ranking whose numbers all stand; where there is none, the first."""
    for ranking in found.rankings:
        verdicts = found.verdicts.get(ranking.measure, {})
        if all(verdicts[name].status == "stands" for name in ranking.names if name in verdicts):
            return ranking
    return found.rankings[0] if found.rankings else None


def section(found: AuditComparison) -> tuple[Section, ...]:
    """The comparison in parts: measures, rankings, and how far an order hangs on the temperature."""
    parts = [_measures(found)]
    if found.rankings:
        parts.append(_rankings(found))
    if found.stability:
        parts.append(_stability(found.stability))
    return tuple(parts)


def to_html(found: AuditComparison, audits: Sequence[Audit], command: str = "") -> str:
    """The comparison as one self-contained page."""
    from hardpan.report import page  # the drawing library loads when a page is first written

    made = Provenance(
        METHOD,
        CITATIONS,
        command,
        audits[0].config.seed,
        versions_of(),
        {
            f"{name}: {key}": digest
            for name, item in zip(found.names, audits, strict=True)
            for key, digest in _hashes(item)
        },
    )
    return page(
        section(found),
        title=f"Comparison of {numbers.listed(found.names)}",
        headline=headline(found),
        provenance=made,
    )


def _hashes(item: Audit) -> list[tuple[str, str]]:
    return list(item.provenance.hashes.items())


def _measures(found: AuditComparison) -> Section:
    rows = []
    for measure in found.values:
        shown = [_shown(found, measure, name) for name in found.names]
        change = _change(measure, found.differences.get(measure))
        rows.append((MEASURES[measure], *shown, *([change] if found.differences else [])))
    columns = ("measure", *found.names, *(["second minus first"] if found.differences else []))
    missing = [
        f"Not measured on {name}: {', '.join(in_sentence(measure) for measure in lacking)}."
        for name in found.names
        if (lacking := [m for m, values in found.values.items() if name not in values])
    ]
    charts = [_chart(m, found) for m in _ROLES if len(found.values.get(m, {})) >= 2]
    sentences = tuple(_changes(found)) or ("Every number is that of the audit's own page.",)
    return Section(
        "Side by side",
        sentences,
        charts=tuple(charts),
        tables=(Table("Measures", columns, tuple(rows)),),
        warnings=(*_doubts(found), *missing),
    )


def _changes(found: AuditComparison) -> list[str]:
    """For two audits: what is told apart, in words."""
    said = []
    for measure, change in found.differences.items():
        if change.low <= 0 <= change.high:
            continue
        way = "higher" if change.value > 0 else "lower"
        size = _change(measure, change)
        said.append(f"{MEASURES[measure]} is {way} on {found.names[1]} than on {found.names[0]}: {size}.")
    if found.differences and not said:
        said.append("No measure tells the two apart at the level of their intervals.")
    return said


def _chart(measure: str, found: AuditComparison) -> Chart:
    values = found.values[measure]
    ordered = sorted(values, key=lambda name: -values[name].value)
    rows = []
    for name in ordered:
        item, verdict = values[name], found.verdicts.get(measure, {}).get(name)
        status = "stands" if verdict is None else verdict.status
        # What is disputed may be true: it keeps its colour, and is drawn hollow.
        role = "refuted" if status in ("refuted", "unfounded") else _ROLES[measure]
        reason = item.method if verdict is None else verdict.reason
        ends = {"value": item.value, "low": item.low, "high": item.high}
        rows.append({"name": name, **ends, "role": role, "status": status, "reason": reason})
    doubts = {str(row["name"]): "" if row["status"] == "stands" else f" ({row['status']})" for row in rows}
    told = "; ".join(f"{name} {numbers.estimate(values[name])}{doubts[name]}" for name in ordered)
    positive = [e.value for e in values.values() if e.value > 0]
    wide = bool(positive) and max(positive) > 30 * min(positive)
    options = {"x_title": in_sentence(measure), "log": wide}
    return Chart("intervals", MEASURES[measure], tuple(rows), f"{MEASURES[measure]}: {told}.", options)


def _doubts(found: AuditComparison) -> list[str]:
    """Numbers that their own audits do not believe: why, or, where there are many, which."""
    said = []
    for measure, verdicts in found.verdicts.items():
        doubted = {name: verdict for name, verdict in verdicts.items() if verdict.status != "stands"}
        if len(found.names) == 2:
            said += [f"{MEASURES[measure]} of {name}: {verdict.reason}" for name, verdict in doubted.items()]
            continue
        for status in ("refuted", "unfounded", "disputed"):
            names = [name for name, verdict in doubted.items() if verdict.status == status]
            if names:
                said.append(
                    f"{MEASURES[measure]}: {status} on {numbers.listed(names)}. Their own pages say by what."
                )
    return said


def _table_1(found: AuditComparison) -> Table:
    """The datasets from hard to easy with what says so, as in Table 1 of the paper."""
    columns = ("flow_floor", "gaussian_floor", "bracket", "bits", "best_error", "mean_confusion")
    known = [measure for measure in columns if measure in found.values]
    ranking = _believed(found) or found.rankings[0]
    order = ranking.names
    rows = tuple(
        (
            order.index(name) + 1 if name in order else None,
            name,
            *(_shown(found, measure, name) for measure in known),
        )
        for name in (*order, *(name for name in found.names if name not in order))
    )
    title = f"From hard to easy by the {in_sentence(ranking.measure)}"
    return Table(title, ("rank", "dataset", *(in_sentence(measure) for measure in known)), rows)


def _rankings(found: AuditComparison) -> Section:
    rows = tuple((MEASURES[item.measure], " > ".join(item.names), len(item.names)) for item in found.rankings)
    agreement = tuple(
        (" and ".join(in_sentence(m) for m in pair.split(", ")), round(tau.value, 3), tau.n)
        for pair, tau in found.agreement.items()
    )
    tables = [_table_1(found), Table("The order by each measure", ("by", "from hard to easy", "datasets"), rows)]
    if agreement:
        tables.append(Table("Agreement of the orders", ("orders", "Kendall's τ", "datasets"), agreement))
    left_out = tuple(f"{name} is left out of the rankings: {why}." for name, why in found.left_out.items())
    return Section("Which is harder?", (headline(found),), tables=tuple(tables), warnings=left_out)


def _stability(items: Sequence[OrderStability]) -> Section:
    told = tuple(
        f"By the floor of the {item.curve}, the order at temperature 1 ({' > '.join(item.names)}) holds from "
        f"{item.low:.2g} to {item.high:.2g}."
        for item in items
    )
    return Section("Temperature", told, charts=(*(_floors(item) for item in items), _agreements(items, told)))


def _floors(item: OrderStability) -> Chart:
    rows = tuple(
        {"series": name, "x": temperature, "y": error}
        for name in item.names
        for temperature, error in zip(item.temperatures, item.errors[name], strict=True)
        if error > SMALLEST_SHOWN
    )
    words = f"Floors of the {item.curve} of {numbers.listed(item.names)}: where lines cross, the order turns."
    options = {
        "x_title": "temperature τ",
        "y_title": "Bayes error",
        "log_x": True,
        "log": True,
        "marks": _AS_FITTED,
    }
    return Chart("lines", f"The floor of the {item.curve} against temperature", rows, words, options)


def _agreements(items: Sequence[OrderStability], told: Sequence[str]) -> Chart:
    rows = tuple(
        {"series": item.curve, "x": temperature, "y": tau}
        for item in items
        for temperature, tau in zip(item.temperatures, item.agreement, strict=True)
    )
    options = {
        "x_title": "temperature τ",
        "y_title": "Kendall's τ with the order at temperature 1",
        "log_x": True,
        "percent": False,
        "domain": (-1.05, 1.05),
        "marks": _AS_FITTED,
    }
    return Chart("lines", "Does the order hold when the temperature is turned?", rows, " ".join(told), options)


def _shown(found: AuditComparison, measure: str, name: str) -> str | None:
    item, verdict = found.values[measure].get(name), found.verdicts.get(measure, {}).get(name)
    if item is None:
        return None
    doubt = f", {verdict.status}" if verdict is not None and verdict.status != "stands" else ""
    return f"{in_words(measure, item)}{doubt}"


def _change(measure: str, item: Estimate | None) -> str | None:
    if item is None:
        return None
    return numbers.signed(item, 1.0, "") if measure in PLAIN else numbers.signed(item)


def _pair(found: AuditComparison, ranking: HardnessOrder) -> str:
    shown = (in_words(ranking.measure, found.values[ranking.measure][name]) for name in ranking.names)
    return " against ".join(words.partition(" (")[0] for words in shown)
