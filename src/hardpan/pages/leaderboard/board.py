"""The whole leaderboard on one page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import counted, few
from hardpan.leaderboard.item_analysis import ItemFit
from hardpan.leaderboard.keys import SuspectKeys
from hardpan.leaderboard.ranking import Ranking
from hardpan.leaderboard.summary import GroupScores, ItemAnswers, LeaderboardSummary, ReferenceFailures
from hardpan.pages import formatting
from hardpan.pages.field_views import view
from hardpan.pages.galleries import png_address
from hardpan.pages.leaderboard.battles import judged_section
from hardpan.pages.leaderboard.items import IRT, ITEM_METHODS, SHORT_METHODS, short_section
from hardpan.pages.leaderboard.models import (
    CITATIONS,
    PAIRED,
    failed_answer_lines,
    ranking_table,
    scores_read_sections,
    separated_pairs_charts,
)
from hardpan.pages.leaderboard.suites import amount_sections, runs_section, suite_problem_lines, suite_section
from hardpan.pages.sections import SEVERITIES, Chart, ProblemLine, Section, Table, View, table_of_columns
from hardpan.report import Provenance, versions_of
from hardpan.tables import csv_text

TALLEST_RASTER = 0.6  # of its width
LONGEST_QUESTION = 600


@view.register
def _leaderboard_summary_view(result: LeaderboardSummary) -> View:
    ranking, fit, keys, short = result.ranking, result.fit, result.keys, result.short
    ranked = ranking.view()
    lede = []
    if keys is not None and keys.suspicious:
        lede.append(keys.headline)
    if short is not None:
        lede.append(short.headline)
    lede += [other.headline for other in (result.suite, result.judge, result.amounts) if other is not None]
    section = ranked.sections[0]
    sections = [replace(section, charts=(), tables=(), folded=section.tables)]
    hero = [*section.charts, *separated_pairs_charts(ranking)]
    picture = scores_raster(result.picture)
    downloads, links = {**ranked.downloads}, {**ranked.links}
    if fit is not None:
        items, information = fit.view().sections[:2]
        folded = (*items.folded, *answer_tables(result.examples), *information.charts)
        sections.append(replace(items, charts=(*items.charts, picture), folded=folded))
        downloads |= fit.view().downloads
        links |= fit.view().links
    elif min(result.picture.shape) > 1:
        sections.append(Section("All scores", charts=(picture,), key="items", short="Scores"))
    if keys is not None:
        sections.append(keys.view().sections[0])
        downloads |= keys.view().downloads
        links |= keys.view().links
    if result.groups is not None:
        sections.append(group_scores_section(result.groups))
    if len(ranking.models) > 1:
        sections.append(ranked.sections[1])
    if short is not None:
        sections.append(short_section(short))
        downloads |= short.view().downloads
        name = "samples.json" if short.lm_eval else "short_items.csv"
        links["short test for lm-eval" if short.lm_eval else "short test"] = name
    sections[1:1] = _sections_of_further_columns(result)
    sections += scores_read_sections(result.notes, result.files)
    problems = [*_ranking_problem_lines(ranking), *_item_problem_lines(fit, keys)]
    problems += _reference_problem_lines(result)
    if result.reference is not None and len(result.reference.items):
        downloads["errata.csv"] = errata_sheet(result.reference)
    if result.suite is not None:
        problems += suite_problem_lines(result.suite, ranking)
        downloads |= result.suite.view().downloads
    table = ranking_table(ranking, 10)
    fitting = {name: cells for name, *cells in zip(table.columns, *table.rows, strict=True)}
    narrow = [name for name in ("ranks", "tier", "without a score") if name in fitting]
    brief = table_of_columns(table.title, {k: fitting[k] for k in (*table.columns[:2], *narrow)})
    size = f"{counted(len(ranking.models), 'model')}, {counted(ranking.n_items, 'item')}"
    if ranking.groups:
        size += f", {ranking.groups:,} groups ({ranking.cluster})"
    return View(
        title="Leaderboard",
        headline=ranked.headline,
        lede=tuple(lede),
        sections=tuple(sections),
        provenance=Provenance(
            method=(*PAIRED, *ITEM_METHODS, *SHORT_METHODS),
            citations=(*CITATIONS, IRT),
            versions=versions_of("numpy", "scipy"),
        ),
        columns=ranked.columns,
        name=PurePath(result.source).name or "Leaderboard",
        size=size,
        problems=tuple(sorted(problems, key=lambda problem: SEVERITIES.index(problem.severity))),
        hero=tuple(hero),
        links=links,
        downloads=downloads,
        terminal=(Section("Ranking", tables=(brief,)),),
    )


def errata_sheet(reference: ReferenceFailures) -> str:
    """CSV for a person: the items that the reference fails, with columns for a new key or to drop the item."""
    count = len(reference.items)
    columns: dict[str, Any] = {"item": reference.items, "reference_score": reference.score}
    columns |= {"models_score": reference.models_score, "correct_key": [""] * count, "drop": [""] * count}
    return csv_text(columns)


def _reference_problem_lines(result: LeaderboardSummary) -> Iterator[ProblemLine]:
    reference = result.reference
    if reference is not None and len(reference.items):
        failed, names = len(reference.items), few(reference.items.tolist(), 3)
        title = f"The reference solution {reference.model} fails {failed:,} of {counted(reference.n_items, 'item')}"
        passed = int((reference.models_score > 0).sum())
        detail = (
            f"Some model passes {passed:,} of them ({names}); no model passes {reference.nobody:,} of all items."
        )
        yield ProblemLine("reference", "high", title, detail, link="errata.csv", link_text="errata sheet")
    for baseline in result.blind:
        if baseline.models_below:
            score, below = formatting.estimate(baseline.score), few(baseline.models_below, 3)
            title = f"Always giving {baseline.rule} scores {score}: at least as much as {below}"
            detail = "A rule that reads no question; give its score beside the board."
            yield ProblemLine("blind", "medium", title, detail)


def _sections_of_further_columns(result: LeaderboardSummary) -> Iterator[Section]:
    """What tasks, runs, scores by people, costs and times allow to say."""
    if result.suite is not None:
        yield suite_section(result.suite)
    if result.judge is not None:
        yield judged_section(result.judge)
    if result.runs is not None:
        yield runs_section(result.runs)
    if result.amounts is not None:
        yield from amount_sections(result.amounts)


def _ranking_problem_lines(ranking: Ranking) -> Iterator[ProblemLine]:
    m, tied = len(ranking.models), ranking.first_tier
    for kind, severity, line in zip(
        ("failures", "failures-order"), ("medium", "high"), failed_answer_lines(ranking), strict=False
    ):
        yield ProblemLine(kind, severity, *line, link="ranking.csv", link_text="which")
    if ranking.unconnected:
        title = "Some models share no items with the others"
        yield ProblemLine("overlap", "high", title, "They cannot be ranked.")
    if ranking.complete < m:
        title = f"{m - ranking.complete:,} of {m:,} models lack some of the items"
        detail = "Pairs are compared on the items both have; scores are adjusted."
        if ranking.unconnected:
            detail = "Each score is that of the model's own items; only pairs with common items are compared."
        severity = "high" if ranking.few_shared else "medium"
        yield ProblemLine("missing", severity, title, detail, link="ranking.csv", link_text="which")
    if tied > 1:
        whole = tied < m and not ranking.separated_at_top
        title = f"The first {tied:,} models cannot be separated" if whole else "The first model is not separated"
        detail = "Report ranks as sets, or add items."
        if math.isfinite(ranking.items_needed) and ranking.lead.value > 0:
            lead, needed = 100 * ranking.lead.value, formatting.round_up(ranking.items_needed)
            both = " on the items that both have" if ranking.complete < m else ""
            detail = f"Report ranks as sets; a lead of {lead:.1f} points{both} needs about {needed} items."
        yield ProblemLine("ties", "medium", title, detail, link="#ranking", link_text="ranks")


def _item_problem_lines(fit: ItemFit | None, keys: SuspectKeys | None) -> Iterator[ProblemLine]:
    if fit is not None and (broken := int((fit.flag == "broken").sum())):
        title = f"On {counted(broken, 'item')} better models do worse"
        yield ProblemLine("broken-items", "high", title, "Check their keys and wording.", None, "#items", "which")
    if keys is not None and keys.suspicious:
        title = f"{counted(keys.suspicious, 'answer key')} should be checked"
        detail = "More models agree on another answer than on the key."
        yield ProblemLine("keys", "high", title, detail, link="review.csv", link_text="review sheet")
    if fit is None:
        return
    cohort = fit.cohorts[min(1, len(fit.cohorts) - 1)]
    share = cohort.dead / max(cohort.items, 1)
    if share > 0.2 and len(fit.cohorts) > 1 and cohort.size < len(fit.models):
        title = f"{100 * share:.0f} % of the items do not separate the {cohort.size} best models"
        detail = f"All have the same score: {cohort.all_right:,} all right, {cohort.all_wrong:,} all wrong."
        yield ProblemLine("dead-items", "medium", title, detail, link="items.csv", link_text="items.csv")
    if not fit.converged:
        yield ProblemLine("fit", "medium", "The item analysis did not converge", "Do not use its numbers.")


def scores_raster(scores: NDArray[np.float64]) -> Chart:
    """All scores (models × items, in 0..1; NaN where missing) as an image."""
    from PIL import Image

    high, low, missing = (np.array(colour) for colour in ((0, 114, 178), (238, 243, 248), (190, 195, 201)))
    known = np.nan_to_num(scores)[..., None]
    pixels = np.where(np.isnan(scores)[..., None], missing, low + (high - low) * known)
    image = Image.fromarray(np.rint(pixels).astype(np.uint8)).quantize(64)
    # The page shows it as wide as a column: neither a line nor many screens high.
    stretch = max(1, round(image.width / (4 * image.height)))
    widen = max(1, math.ceil(image.height / (TALLEST_RASTER * image.width)))
    image = image.resize((image.width * widen, image.height * stretch), Image.Resampling.NEAREST)
    words = "Scores of all models (best on top) on all items (easiest left); darker is higher, grey is missing."
    title = "Models (best on top) × items (easiest left)"
    ends = {"left": "easiest items", "right": "hardest items"}
    return Chart("raster", title, (), words, {"png": png_address(image), **ends})


def answer_tables(examples: Sequence[ItemAnswers]) -> tuple[Table, ...]:
    """A row per item and answer, with the models that gave it; the question stands in its first row."""
    rows = [
        (
            example.item,
            "" if first else example.question[-LONGEST_QUESTION:],
            example.key,
            answer,
            round(100 * score, 1),
            few(models, 4),
        )
        for example in examples
        for first, (answer, score, models) in enumerate(
            zip(example.answers, example.scores, example.models, strict=True)
        )
    ]
    names = ("item", "question", "key", "answer", "score, %", "models")
    used = [k for k in range(len(names)) if any(row[k] != "" for row in rows)]
    cells = tuple(tuple(row[k] for k in used) for row in rows)
    whole = tuple(
        (example.item, models[0], text)
        for example in examples
        for models, text in zip(example.models, example.texts, strict=False)
        if text
    )
    tables = (Table("Answers to these items", tuple(names[k] for k in used), cells),) if rows else ()
    return tables + ((Table("Whole answers to these items", ("item", "model", "text"), whole),) if whole else ())


def group_scores_section(groups: GroupScores) -> Section:
    """Scores by group of the best models."""
    rows = tuple(
        {"row": name, "column": group, "value": None if math.isnan(value) else round(float(value), 4)}
        for i, name in enumerate(groups.models)
        for group, value in zip(groups.groups, groups.scores[i], strict=True)
    )
    left_out = (f"{counted(groups.left_out, 'smaller group')} not shown.",) if groups.left_out else ()
    chart = Chart(
        "matrix",
        f"Score by {groups.column}, percent",
        rows,
        f"Scores of the first {len(groups.models)} models by {groups.column}.",
        {"x_title": groups.column, "y_title": "", "contrast": True},
    )
    return Section("Scores by group", left_out, charts=(chart,), key="groups", short="Groups")
