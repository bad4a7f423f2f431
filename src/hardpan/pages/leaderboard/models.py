"""Rankings and paired comparisons."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from hardpan import formatting
from hardpan.estimates import Estimate
from hardpan.files import versions_of
from hardpan.leaderboard.pairs import PairedComparison
from hardpan.leaderboard.ranking import Ranking
from hardpan.pages.leaderboard.common import (
    CHART_ROWS,
    ROWS,
    input_sections,
    points,
    short_name,
    signed_points,
)
from hardpan.report.base import View
from hardpan.report.generic import view
from hardpan.report.sections import Chart, Provenance, Section, Table
from hardpan.tables import csv_text

PAIRED = (
    "All pairs of models are tested on the items that both have and corrected by Holm. A model's rank set is "
    "[1 + number significantly better, M − number significantly worse]; all rank sets together contain the "
    "true ranks with the stated confidence. A tier is a model and those not separated from it.",
    "Clustered standard error: SE² = G/(G−1) Σ_g (Σ_{i∈g}(s_i − s̄))²/n²; intervals use Student's t with G − 1 "
    "degrees of freedom and the delete-a-group jackknife. Which standard error is right depends on the "
    "question: naive for these groups as they are, clustered if the groups are a sample of groups.",
)
CITATIONS = (
    "Miller, Adding error bars to evals: a statistical approach to language model evaluations (2024).",
    "Mogstad, Romano, Shaikh and Wilhelm, Inference for ranks with applications to mobility (2024).",
)


@view.register
def _(result: Ranking) -> View:
    return View(
        title="Leaderboard ranking",
        headline=ranking_headline(result),
        sections=(ranking_section(result), pairs_section(result), *input_sections(result.notes)),
        terminal=(ranking_section(result),),  # the matrix of pairs is too wide for a terminal
        provenance=Provenance(method=PAIRED, citations=CITATIONS, versions=versions_of("numpy", "scipy")),
        columns=ranking_columns(result),
        name=short_name(result.source),
        size=f"{formatting.counted(len(result.models), 'model')}, {formatting.counted(result.n_items, 'item')}",
        links={"ranking.csv": "ranking.csv"},
        downloads={"ranking.csv": csv_text(ranking_columns(result))},
    )


def ranking_columns(result: Ranking) -> dict[str, Any]:
    """The columns of ``to_frame`` of a ranking."""
    return {
        "model": result.models,
        "score": result.score,
        "stderr": result.stderr,
        "stderr_clustered": result.stderr_clustered,
        "low": result.low,
        "high": result.high,
        "rank_low": result.rank_low,
        "rank_high": result.rank_high,
        "tier": result.tier,
        "items": result.items,
    }


def first_tier(result: Ranking) -> int:
    """How many models from the top are in tier 1 before the first that is not."""
    other = np.flatnonzero(result.tier != 1)
    return int(other[0]) if other.size else len(result.models)


def undetected(difference: float) -> str:
    """What a test with this smallest detectable difference misses."""
    if difference >= 1:
        return "no difference is detected reliably (80 % power)"
    return f"differences below {points(difference)} points usually go undetected (80 % power)"


def ranking_headline(result: Ranking) -> str:
    """The sentence that an owner of the leaderboard would quote."""
    m, tied = len(result.models), first_tier(result)
    if m == 1:
        score = Estimate(
            float(result.score[0]), float(result.stderr[0]), float(result.low[0]), float(result.high[0])
        )
        return (
            f"{result.models[0]} scores {formatting.estimate(score)} on "
            f"{formatting.counted(result.n_items, 'item')}."
        )
    if result.unconnected and tied == m:
        if m == 2:
            return "The two models share no items: nothing can be said about their order."
        return f"Some of the {m:,} models share no items with the others, even indirectly: their order is unknown."
    detect = ""
    if math.isfinite(result.smallest_difference):
        by = f", clustered by {result.cluster}," if result.cluster else ""
        detect = f"with these {result.n_items:,} items{by} {undetected(result.smallest_difference)}"
    confidence = f"{100 * result.confidence:g} %"
    if tied == 1:
        lead = formatting.plain(result.lead, 100, "points") if math.isfinite(result.lead.value) else ""
        if m == 2:
            start = f"{result.models[0]} is ahead of {result.models[1]}"
            start += f" by {lead}, {confidence} confidence" if lead else f" ({confidence} confidence)"
        else:
            start = f"{result.models[0]} is ahead of all {m - 1:,} other models ({confidence} confidence"
            start += f"; {lead} before {result.models[1]})" if lead else ")"
        return f"{start}; {detect}." if detect else f"{start}."
    who = f"None of the {m:,} models" if tied == m else f"The first {tied:,} of {m:,} models"
    verb = "can be separated from the first" if tied == m else "cannot be separated"
    if tied == m == 2:
        who, verb = "The two models", "cannot be separated"
    elif tied < m and result.separated_at_top:  # the others of the first tier differ among themselves
        who, verb = f"The next {tied - 1:,} of {m:,} models", f"cannot be separated from {result.models[0]}"
    return f"{who} {verb}: {detect}." if detect else f"{who} {verb}."


def ranking_section(result: Ranking) -> Section:
    """The ranking: sentences, table, warnings."""
    m = len(result.models)
    sentences = []
    if m > 1:
        sentences.append(
            f"{result.separated:,} of {m * (m - 1) // 2:,} pairs of models are separated at "
            f"{100 * result.confidence:g} % confidence for all pairs together "
            f"({'McNemar’s exact test' if result.exact else 'paired tests'}, Holm)."
        )
    if m > 1 and math.isfinite(result.items_needed) and first_tier(result) > 1 and result.lead.value > 0:
        sentences.append(
            f"{result.models[0]} leads {result.models[1]} by {formatting.plain(result.lead, 100, 'points')}; "
            f"with a correction for all pairs it takes about {formatting.round_up(result.items_needed)} items like "
            "these to separate two models that differ by so much (80 % power)."
        )
    known = np.isfinite(result.stderr_clustered) & (result.stderr > 0)
    if known.any():
        ratio = float(np.median(result.stderr_clustered[known] / result.stderr[known]))
        use = "used here" if result.cluster else "not used here; they matter if the groups are a sample of groups"
        if result.few_groups:
            use += f"; {result.groups} groups are too few for a precise value"
        sentences.append(
            f"Clustered by {result.group_column} ({result.groups:,} groups), standard errors are {ratio:.1f} "
            f"times the naive ones ({use})."
        )
    if np.isfinite(result.within_variance).any():
        within = result.within_variance
        share = within / np.maximum(within + result.between_variance, 1e-300)
        sentences.append(
            f"With up to {result.repeats} runs per item, differences between runs of the same item are "
            f"{100 * float(np.nanmedian(share)):.0f} % of the variance of a score on one item (median over "
            "models); more runs reduce only this part. An effect of a whole run (seed, prompt, server) is not "
            "included."
        )
    return Section(
        "Ranking",
        tuple(sentences),
        charts=(ranking_chart(result),),
        tables=(ranking_table(result),),
        warnings=ranking_warnings(result),
        key="ranking",
        methods=PAIRED,
    )


def short_ranking_table(result: Ranking, rows: int) -> Table:
    """The table's columns that fit a terminal: model, score, ranks, tier."""
    table = ranking_table(result, rows)
    columns = [table.columns.index(name) for name in (*table.columns[:2], "ranks", "tier")]
    return Table(
        table.title,
        tuple(table.columns[i] for i in columns),
        tuple(tuple(row[i] for i in columns) for row in table.rows),
    )


def ranking_table(result: Ranking, rows: int = ROWS) -> Table:
    """One row per model, best first."""
    scores = formatting.aligned(
        (
            Estimate(float(s), float(e), float(low), float(high))
            for s, e, low, high in zip(
                result.score[:rows], result.stderr[:rows], result.low[:rows], result.high[:rows], strict=True
            )
        ),
        scale=100,
    )
    body = []
    for i, name in enumerate(result.models[:rows]):
        ranks = f"{result.rank_low[i]}–{result.rank_high[i]}"
        row: tuple[Any, ...] = (name, scores[i], points(float(result.stderr[i]), 2))
        if result.group_column:
            row += (points(float(result.stderr_clustered[i]), 2),)
        body.append((*row, ranks, int(result.tier[i]), int(result.items[i])))
    head: tuple[str, ...] = ("model", f"score, % ({100 * result.confidence:g} % interval)", "standard error")
    if result.group_column:
        head += (f"clustered by {result.group_column}",)
    return Table("Models", (*head, "ranks", "tier", "items"), tuple(body))


def ranking_chart(result: Ranking, rows: int = CHART_ROWS) -> Chart:
    """Dots with intervals, the first tier shaded, rank sets at the right."""
    tied = first_tier(result)  # a model with few items may be in tier 1 further down
    marks = tuple(
        {
            "name": name,
            "value": float(result.score[i]),
            "low": float(result.low[i]),
            "high": float(result.high[i]),
            "tier": 1 if i < tied else 2,
            "note": f"{result.rank_low[i]}–{result.rank_high[i]}",
        }
        for i, name in enumerate(result.models[:rows])
        if math.isfinite(result.score[i])  # a model without a score has no place on the axis
    )
    more = f" (the first {rows} of {len(result.models):,})" if len(result.models) > rows else ""
    best = f"{result.models[0]} has the highest score, {100 * result.score[0]:.1f} %."
    note = {"note": f"Shaded: not separated from {result.models[0]}."} if 1 < tied < len(result.models) else {}
    return Chart(
        "ranking",
        f"Scores with {100 * result.confidence:g} % intervals and possible ranks{more}",
        marks,
        f"{best} The shaded models are not separated from it.",
        {"x_title": "score", "note_title": "ranks"} | note,
    )


def ranking_warnings(result: Ranking) -> tuple[str, ...]:
    """What limits the ranking."""
    m = len(result.models)
    warnings = []
    if result.complete < m:
        warnings.append(
            f"{m - result.complete:,} of {m:,} models lack some of the {result.n_items:,} items: pairs "
            "are compared on shared items, and scores are adjusted for the items that a model lacks."
        )
    if result.few_shared:
        warnings.append(
            f"{formatting.counted(result.few_shared, 'pair')} of models share fewer than 30 items and can hardly "
            "be compared; their rank sets are wide."
        )
    if result.unconnected:
        warnings.append("Some models share no items with the others, even indirectly; their order means nothing.")
    if result.cluster and result.few_groups:
        warnings.append(f"Only {result.groups} groups: clustered intervals are approximate below 20 groups.")
    if result.cluster and result.large_group:
        warnings.append("One group has more than a tenth of the items: clustered intervals are approximate.")
    return tuple(warnings)


def pairs_section(result: Ranking) -> Section:
    """Paired differences of the first models."""
    pairs = result.pairs
    names = pairs.models
    body = []
    for i, name in enumerate(names):
        cells = []
        for j in range(len(names)):
            if i == j:
                cells.append("")
                continue
            mark = "*" if pairs.p_holm[i, j] <= 1 - result.confidence else ""
            value = pairs.difference[i, j]
            cells.append(f"{signed_points(value)}{mark}" if math.isfinite(value) else formatting.NOTHING)
        body.append((f"{i + 1} {name}", *cells))
    table = Table("Row minus column, points", ("model", *(str(i + 1) for i in range(len(names)))), tuple(body))
    return Section(
        "Paired differences of the first models",
        (
            "Each cell is the row's score minus the column's on the items both have; * marks separated pairs "
            "(Holm).",
        ),
        tables=(table,) if len(names) > 1 else (),
        key="pairs",
        short="Pairs",
    )


@view.register
def _(result: PairedComparison) -> View:
    section = _pair_section(result)
    return View(
        title=f"{result.first} and {result.second}",
        headline=_pair_headline(result),
        sections=(replace(section, charts=(_pair_chart(result),)), *input_sections(result.notes)),
        terminal=(section,),
        provenance=Provenance(method=PAIRED[1:], citations=CITATIONS[:1], versions=versions_of("numpy", "scipy")),
        columns={
            "item": result.differing,
            "score_first": result.scores[:, 0],
            "score_second": result.scores[:, 1],
            "difference": result.scores[:, 0] - result.scores[:, 1],
        },
        size=formatting.counted(result.items, "shared item"),
    )


def _pair_headline(result: PairedComparison) -> str:
    d = result.difference
    ahead, behind = (result.first, result.second) if d.value >= 0 else (result.second, result.first)
    if d.low > 0 or d.high < 0:
        lead = Estimate(abs(d.value), d.stderr, min(abs(d.low), abs(d.high)), max(abs(d.low), abs(d.high)))
        by = formatting.plain(lead, 100, "points")
        return f"{ahead} is better than {behind} by {by} on {result.items:,} shared items."
    headline = f"{result.first} and {result.second} cannot be separated on {result.items:,} shared items: "
    headline += formatting.signed(d)
    return headline + (f"; {undetected(result.smallest_difference)}." if result.smallest_difference > 0 else ".")


def _pair_section(result: PairedComparison) -> Section:
    d = result.difference
    sentences = [
        f"{result.first} − {result.second}: {formatting.signed(d)}.",
        f"{result.first} scores {100 * result.score_first:.1f} %, {result.second} "
        f"{100 * result.score_second:.1f} %; {result.first} is better on {result.only_first:,} items, "
        f"{result.second} on {result.only_second:,}.",
    ]
    p = f"p = {formatting.p_value(result.p_value)}"
    sentences.append(
        f"Interval: {d.method}; {p}" + (" (McNemar’s exact test)." if result.p_value == result.mcnemar else ".")
    )
    if math.isfinite(result.stderr_clustered):
        use = "" if result.cluster else "; cluster if the groups are a sample of groups"
        sentences.append(
            f"Standard error {points(result.stderr, 2)} points, {points(result.stderr_clustered, 2)} clustered "
            f"({result.groups:,} groups{use})."
        )
    if math.isfinite(result.stderr_repeats):
        sentences.append(
            f"Differences between runs of the same item contribute {points(result.stderr_repeats, 2)} points."
        )
    if math.isfinite(result.items_needed) and d.low <= 0 <= d.high:
        sentences.append(
            f"About {formatting.round_up(result.items_needed)} items like these would detect a difference of this "
            "size (80 % power)."
        )
    warnings = []
    if result.missing:
        warnings.append(f"{formatting.counted(result.missing, 'item')} that one of the models lacks are not used.")
    if result.cluster and result.few_groups:
        warnings.append(f"Only {result.groups} groups: the clustered interval is approximate below 20 groups.")
    if result.cluster and result.large_group:
        warnings.append("One group has more than a tenth of the items: the clustered interval is approximate.")
    rows = tuple(
        (str(name), float(a), float(b))
        for name, (a, b) in zip(result.differing[:ROWS], result.scores[:ROWS], strict=True)
    )
    return Section(
        "Paired difference",
        tuple(sentences),
        warnings=tuple(warnings),
        folded=(Table("Items on which they differ", ("item", result.first, result.second), rows),),
        methods=PAIRED[1:],
    )


def _pair_chart(result: PairedComparison) -> Chart:
    counts = {
        f"{result.first} is better": result.only_first,
        "no difference": result.items - result.only_first - result.only_second,
        f"{result.second} is better": result.only_second,
    }
    return Chart(
        "composition",
        f"On how many of the {result.items:,} items each is better",
        tuple(
            {"name": name, "value": count / result.items, "shown": formatting.counted(count, "item")}
            | ({"role": "muted"} if name == "no difference" else {})
            for name, count in counts.items()
        ),
        "; ".join(f"{name}: {formatting.counted(count, 'item')}" for name, count in counts.items()) + ".",
        {},
    )
