"""The page of an audit: headline, tiles, first screen, learning curve, what was trained; and of a comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hardpan.auditing.comparison import AuditComparison, is_comparable
from hardpan.auditing.data_curve import DataCurve
from hardpan.auditing.evidence import AuditNote, AuditStep
from hardpan.auditing.metrics import ErrorBudget
from hardpan.auditing.running import Audit
from hardpan.pages import floors, formatting
from hardpan.pages.auditing.comparison import comparison_view
from hardpan.pages.auditing.first_screen import actions, numbers, verdict
from hardpan.pages.auditing.problems import problem_lines
from hardpan.pages.auditing.sections import (
    FRESH_METHOD,
    audit_sections,
    contents_section,
    learning_chart,
    learning_section,
    run_section,
)
from hardpan.pages.confusion import CITATIONS as HARD_CITATIONS
from hardpan.pages.confusion import METHOD as HARD_METHOD
from hardpan.pages.field_views import view
from hardpan.pages.sections import Chart, Section, Table, Tile, View
from hardpan.report import Provenance

__all__ = ["view"]
RELOAD_SECONDS = 3  # of the page of an audit that still runs
IN_HERO = 7  # confusing examples beside the problems


@view.register
def audit_view(audit: Audit) -> View:
    """The page of an audit."""
    size = audit.size
    learning = [learning_section(audit.learning)] if audit.learning is not None else []
    floor: list[Section] = []
    if audit.floor is not None:
        floor = [floors.floor_section(audit.floor, bracket_in_title=True), *floors.consensus_section(audit.floor)]
    parts: tuple[Section, ...] = ()
    if audit.evidence is not None and audit.pending:  # drawing takes seconds
        parts = (dataclasses.replace(contents_section(audit.evidence), charts=()),)
    elif audit.evidence is not None:
        parts = audit_sections(audit.evidence, audit.problems)
    first = [section for section in parts if section.key in ("hard", "fresh", "labels", "models")]
    last = [section for section in parts if section not in first]
    run = None if audit.pending else run_section(audit)
    seen = [] if audit.floor is None else [entry.name for entry in audit.floor.seen]
    return View(
        title=f"Audit of {audit.dataset}",
        headline=verdict(audit),
        sections=(*first, *learning, *floor, *last, *([run] if run is not None else [])),
        lede=(*numbers(audit), *((floors.may_have_seen_warning(seen),) if seen else ())),
        tiles=tiles(audit),
        provenance=_audit_provenance(audit),
        name=audit.dataset,
        size=f"{size['train']:,} train, {size['test']:,} test, {size['classes']:,} classes" if size else "",
        problems=problem_lines(audit.problems, parts, audit.measures.get("best_error")),
        hero=tuple(_audit_hero(audit, parts)),
        links={"report.json": "report.json"} | ({} if audit.pending else {"labels.csv": "problems/labels.csv"}),
        refresh=RELOAD_SECONDS if audit.live else 0,
        terminal=(),
        downloads=audit.downloads,
        actions=actions(audit),
    )


def tiles(audit: Audit) -> tuple[Tile, ...]:
    """Further numbers of an audit; the best model, guessing and the bracket are under the headline."""
    measures, floor = audit.measures, audit.floor
    broken = any(item.breaks for item in audit.problems)
    results = []
    if floor is not None and not broken:
        headroom = measures.get("headroom")
        if headroom is not None and floor.bracket.low_from:
            detail = "From the best error down to the lower end of the lowest possible error."
            write = formatting.in_points if headroom.high >= 0.01 else formatting.rounded_points
            results.append(Tile("Headroom", f"at most {write(headroom.high)}", detail))
        if audit.learning is not None and audit.learning.promises:
            double = audit.learning.at_double
            detail = f"{formatting.capital(audit.learning.model)}, extrapolated: {formatting.estimate(double)}."
            results.append(Tile("With twice the data", f"about {formatting.value_of(double)}", detail))
    tail = measures.get("tail_share")
    if (
        tail is not None and is_comparable("tail_share", tail) and tail.low > 0.1
    ):  # else scores do not predict errors
        detail = f"Of the errors of the model whose confusion was scored: {formatting.estimate(tail)}."
        results.append(Tile("Errors in the most confusing tenth", formatting.value_of(tail), detail))
    drop = measures.get("drop")
    if drop is not None:
        results.append(Tile("Drop on fresh data", formatting.signed(drop, interval=False), formatting.signed(drop)))
    return tuple(results)


def _audit_hero(audit: Audit, parts: Sequence[Section]) -> list[Chart]:
    if audit.pending or any(item.breaks for item in audit.problems):
        return []
    charts = []
    budget = audit.budget
    if budget is not None and sum(item.value > 0 for item in (budget.labels, budget.agreed, budget.rest)) > 1:
        charts.append(_error_budget_chart(budget))
    if audit.learning is not None:
        charts.append(learning_chart(audit.learning, height=150))
    elif audit.floor is not None:
        charts.append(floors.ceilings_chart(audit.floor))
    if len(charts) < 2:
        charts += [
            dataclasses.replace(chart, title="The most confusing examples", rows=chart.rows[:IN_HERO])
            for section in parts
            if section.key == "hard"
            for chart in section.charts
            if chart.drawing == "gallery"
        ]
    return charts


def _error_budget_chart(budget: ErrorBudget) -> Chart:
    parts = (
        *([("annotators outvote the label", budget.labels)] if budget.labels.value else []),
        ("all models predict the same other class", budget.agreed),
        ("models disagree", budget.rest),
    )
    rows = tuple(
        {"name": name, "value": item.value, "shown": formatting.rounded_points(item.value), "low": item.low}
        for name, item in parts
    )
    words = "; ".join(f"{name} {formatting.estimate(item)}" for name, item in parts)
    words = f"Errors of {budget.model}, the best model here: {words}"
    total = formatting.value_of(budget.total)
    return Chart("composition", f"Where the {total} error of {budget.model} comes from", rows, words, {})


def _audit_provenance(audit: Audit) -> Provenance:
    """How the audit was computed; an audit that was read from a file has the words already."""
    evidence = audit.evidence
    if evidence is None:
        return audit.origin
    method, citations = list(floors.METHOD), list(floors.CITATIONS)
    if evidence.hard is not None:
        method, citations = [*method, *HARD_METHOD], [*citations, *HARD_CITATIONS]
    if evidence.fresh is not None and evidence.fresh.comparison is not None:
        from hardpan.pages import testbed as testbed_page

        comparison = testbed_page.comparison_provenance(evidence.fresh.comparison)
        method, citations = [*method, *comparison.method], [*citations, *comparison.citations]
    elif evidence.fresh is not None:
        method += FRESH_METHOD
    return dataclasses.replace(audit.origin, method=tuple(method), citations=tuple(dict.fromkeys(citations)))


view.register(AuditComparison, comparison_view)
