"""What the results of :mod:`hardpan.leaderboard` say and show."""

from __future__ import annotations

import math
from functools import singledispatch
from pathlib import PurePath
from typing import Any

import numpy as np

from hardpan import numbers
from hardpan.estimates import Estimate
from hardpan.files import versions_of
from hardpan.leaderboard.agreement_line import AgreementLine
from hardpan.leaderboard.item_analysis import ItemFit
from hardpan.leaderboard.keys import CorrectedKeys, SuspectKeys
from hardpan.leaderboard.pairs import PairedComparison
from hardpan.leaderboard.ranking import Ranking
from hardpan.leaderboard.score_inflation import Inflation
from hardpan.leaderboard.short_tests import ShortTest
from hardpan.leaderboard.summary import GroupScores, LeaderboardSummary
from hardpan.report.base import View
from hardpan.report.figures import raster_chart
from hardpan.report.sections import Chart, Problem, Provenance, Section, Table
from hardpan.tables import csv_text

CHART_ROWS = 24
HERO_ROWS = 16
ROWS = 100  # of a table on a page; to_frame has all of them
_PAIRED = (
    "All pairs of models are tested on the items that both have and corrected by Holm. A model's rank set is "
    "[1 + number significantly better, M − number significantly worse]; all rank sets together contain the true "
    "ranks with the stated confidence. A tier is a model and those not separated from it.",
    "Clustered standard error: SE² = G/(G−1) Σ_g (Σ_{i∈g}(s_i − s̄))²/n²; intervals use "
    "Student's t with G − 1 degrees of "
    "freedom and the delete-a-group jackknife. Which standard error is right depends on the question: naive for "
    "these "
    "groups as they are, clustered if the groups are a sample of groups.",
)
_CITATIONS = (
    "Miller, Adding error bars to evals: a statistical approach to language model evaluations (2024).",
    "Mogstad, Romano, Shaikh and Wilhelm, Inference for ranks with applications to mobility (2024).",
)


@singledispatch
def view(result: Any) -> View:
    """What a result says and shows."""
    raise TypeError(f"no view of {type(result).__name__}")


def points(value: float, digits: int = 1) -> str:
    """A difference of scores in points: 100 times the fraction."""
    return numbers.NOTHING if not math.isfinite(value) else f"{100 * value:.{digits}f}"


@view.register
def _(result: Ranking) -> View:
    return View(
        title="Leaderboard ranking",
        headline=ranking_headline(result),
        sections=(ranking_section(result), pairs_section(result)),
        provenance=Provenance(
            method=_PAIRED, citations=_CITATIONS, versions=versions_of("numpy", "scipy"), warnings=result.notes
        ),
        columns=ranking_columns(result),
        name=_name(result.source),
        size=f"{numbers.counted(len(result.models), 'model')}, {numbers.counted(result.n_items, 'item')}",
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


def ranking_headline(result: Ranking) -> str:
    """The sentence that an owner of the leaderboard would quote."""
    m, tied = len(result.models), first_tier(result)
    if m == 1:
        score = Estimate(
            float(result.score[0]), float(result.stderr[0]), float(result.low[0]), float(result.high[0])
        )
        return f"{result.models[0]} scores {numbers.estimate(score)} on {result.n_items:,} items."
    detect = ""
    if math.isfinite(result.smallest_difference):
        by = f", clustered by {result.cluster}," if result.cluster else ""
        detect = (
            f"with these {result.n_items:,} items{by} differences below {points(result.smallest_difference)} "
            f"points "
            "usually go undetected (80 % power)"
        )
    confidence = f"{100 * result.confidence:g} %"
    if tied == 1:
        lead = numbers.plain(result.lead, 100, "points") if math.isfinite(result.lead.value) else ""
        start = f"{result.models[0]} is ahead of all {m - 1:,} other models ({confidence} confidence"
        start += f"; {lead} before {result.models[1]})" if lead else ")"
        return f"{start}; {detect}." if detect else f"{start}."
    who = f"None of the {m:,} models" if tied == m else f"The first {tied:,} of {m:,} models"
    verb = "can be separated from the first" if tied == m else "cannot be separated"
    if tied == m == 2:
        who, verb = "The two models", "cannot be separated"
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
            f"{result.models[0]} leads {result.models[1]} by {numbers.plain(result.lead, 100, 'points')}; about "
            f"{_round_up(result.items_needed)} items like these would separate two models that differ by so much, "
            "among all pairs (80 % power)."
        )
    known = np.isfinite(result.stderr_clustered) & (result.stderr > 0)
    if known.any():
        ratio = float(np.median(result.stderr_clustered[known] / result.stderr[known]))
        use = "used here" if result.cluster else "not used here; they matter if the groups are a sample of groups"
        sentences.append(
            f"Clustered by {result.group_column} ({result.groups:,} groups), standard errors are {ratio:.1f} "
            f"times the "
            f"naive ones ({use})."
        )
    if np.isfinite(result.within_variance).any():
        within = result.within_variance
        share = within / np.maximum(within + result.between_variance, 1e-300)
        sentences.append(
            f"With up to {result.repeats} runs per item, differences between runs of the same item are "
            f"{100 * float(np.nanmedian(share)):.0f} % of the variance of a score on one item (median over "
            f"models); more "
            "runs reduce only this part. An effect of a whole run (seed, prompt, server) is not included."
        )
    return Section(
        "Ranking",
        tuple(sentences),
        charts=(ranking_chart(result),),
        tables=(ranking_table(result),),
        warnings=ranking_warnings(result),
        key="ranking",
        methods=_PAIRED,
    )


def ranking_table(result: Ranking, rows: int = ROWS) -> Table:
    """One row per model, best first."""
    scores = numbers.aligned(
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
    )
    more = f" (the first {rows} of {len(result.models):,})" if len(result.models) > rows else ""
    best = f"{result.models[0]} has the highest score, {100 * result.score[0]:.1f} %."
    return Chart(
        "ranking",
        f"Scores with {100 * result.confidence:g} % intervals, and rank sets{more}",
        marks,
        f"{best} The shaded models are not separated from it.",
        {"x_title": "score", "note_title": "ranks"},
    )


def ranking_warnings(result: Ranking) -> tuple[str, ...]:
    """What limits the ranking."""
    m = len(result.models)
    warnings = []
    if result.complete < m:
        warnings.append(
            f"{numbers.counted(m - result.complete, 'model')} of {m:,} lack some of the {result.n_items:,} "
            f"items: pairs "
            "are compared on shared items, and scores are adjusted for the items that a model lacks."
        )
    if result.few_shared:
        warnings.append(
            f"{numbers.counted(result.few_shared, 'pair')} of models share fewer than 30 items and can hardly be "
            "compared; their rank sets are wide."
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
            cells.append(f"{_signed(value)}{mark}" if math.isfinite(value) else numbers.NOTHING)
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
    d = result.difference
    size = numbers.signed(d)
    ahead, behind = (result.first, result.second) if d.value >= 0 else (result.second, result.first)
    if d.low > 0 or d.high < 0:
        lead = Estimate(abs(d.value), d.stderr, min(abs(d.low), abs(d.high)), max(abs(d.low), abs(d.high)))
        by = numbers.plain(lead, 100, "points")
        headline = f"{ahead} is better than {behind} by {by} on {result.items:,} shared items."
    else:
        headline = (
            f"{result.first} and {result.second} cannot be separated on {result.items:,} shared items: {size}; "
            f"differences below {points(result.smallest_difference)} points usually go undetected (80 % power)."
        )
    sentences = [
        f"{result.first} scores {100 * result.score_first:.1f} %, {result.second} "
        f"{100 * result.score_second:.1f} %; "
        f"{result.first} is better on {result.only_first:,} items, {result.second} on {result.only_second:,}."
    ]
    p = f"p = {result.p_value:.2g}"
    sentences.append(
        f"Interval: {d.method}; {p}" + (" (McNemar’s exact test)." if result.p_value == result.mcnemar else ".")
    )
    if math.isfinite(result.stderr_clustered):
        sentences.append(
            f"Standard error {points(result.stderr, 2)} points, {points(result.stderr_clustered, 2)} clustered "
            f"({result.groups:,} groups)."
        )
    if math.isfinite(result.stderr_repeats):
        sentences.append(
            f"Differences between runs of the same item contribute {points(result.stderr_repeats, 2)} points."
        )
    if math.isfinite(result.items_needed) and d.low <= 0 <= d.high:
        sentences.append(
            f"About {_round_up(result.items_needed)} items like these would detect a difference of this size "
            f"(80 % power)."
        )
    warnings = []
    if result.missing:
        warnings.append(f"{numbers.counted(result.missing, 'item')} that one of the models lacks are not used.")
    if result.cluster and result.few_groups:
        warnings.append(f"Only {result.groups} groups: the clustered interval is approximate below 20 groups.")
    if result.cluster and result.large_group:
        warnings.append("One group has more than a tenth of the items: the clustered interval is approximate.")
    differing = result.differing
    rows = tuple(
        (str(name), float(a), float(b)) for name, (a, b) in zip(differing[:ROWS], result.scores[:ROWS], strict=True)
    )
    section = Section(
        "Paired difference",
        tuple(sentences),
        {f"{result.first} − {result.second}": d},
        warnings=tuple(warnings),
        folded=(Table("Items on which they differ", ("item", result.first, result.second), rows),),
        methods=_PAIRED[1:],
    )
    return View(
        title=f"{result.first} and {result.second}",
        headline=headline,
        sections=(section,),
        provenance=Provenance(method=_PAIRED[1:], citations=_CITATIONS[:1], versions=versions_of("numpy", "scipy")),
        columns={
            "item": differing,
            "score_first": result.scores[:, 0],
            "score_second": result.scores[:, 1],
            "difference": result.scores[:, 0] - result.scores[:, 1],
        },
        size=numbers.counted(result.items, "shared item"),
    )


def _name(source: str) -> str:
    """The last part of a path, without the folders that only its owner knows."""
    return PurePath(source).name if source else ""


def _signed(value: float) -> str:
    """A difference in points with its sign."""
    return f"{100 * value:+.1f}".replace("-", "−")


def _round_up(count: float) -> str:
    """A number of items with two significant digits, rounded up."""
    step = 10 ** max(0, math.floor(math.log10(max(count, 1))) - 1)
    return f"{math.ceil(count / step) * step:,}"


_ITEM_METHODS = (
    "P(right) = c + (1 − c) σ(slope · skill + intercept). Skills are standard normal and integrated out; slopes "
    "and "
    "intercepts maximise the marginal likelihood (Newton's method), standard errors come from the observed "
    "information, for fractions from the sandwich.",
    "Broken items: one-sided rank test of an "
    "item's scores against the mean score on the other items (Mann–Whitney for "
    "right and wrong), corrected by Benjamini–Hochberg at 5 %. It treats models as exchangeable: families of "
    "related "
    "models weaken it.",
)
_IRT = "Bock and Aitkin, Marginal maximum likelihood estimation of item parameters (1981)."


@view.register
def _(result: ItemFit) -> View:
    return View(
        title="Item analysis",
        headline=items_headline(result),
        sections=(items_section(result), information_section(result)),
        provenance=Provenance(method=_ITEM_METHODS, citations=(_IRT,), versions=versions_of("numpy", "scipy")),
        columns=item_columns(result),
        name=_name(result.source),
        size=f"{numbers.counted(len(result.models), 'model')}, {numbers.counted(len(result.items), 'item')}",
        links={"items.csv": "items.csv"},
        downloads={"items.csv": csv_text(item_columns(result)), "skills.csv": csv_text(skill_columns(result))},
    )


def item_columns(result: ItemFit) -> dict[str, Any]:
    """The columns of ``to_frame`` of an item analysis."""
    return {
        "item": result.items,
        "slope": result.slope,
        "slope_stderr": result.slope_stderr,
        "intercept": result.intercept,
        "intercept_stderr": result.intercept_stderr,
        "mean_score": result.mean_score,
        "flag": result.flag,
    }


def skill_columns(result: ItemFit) -> dict[str, Any]:
    """Skills of the models as columns."""
    return {"model": result.models, "skill": result.skill, "skill_stderr": result.skill_stderr}


def items_headline(result: ItemFit) -> str:
    """What the items are worth, in one sentence."""
    broken = int((result.flag == "broken").sum())
    start = (
        "No item is shown to be broken"
        if not broken
        else f"On {numbers.counted(broken, 'item')} better models do worse, beyond chance"
    )
    cohort = result.cohorts[min(1, len(result.cohorts) - 1)]
    share = cohort.dead / max(cohort.items, 1)
    best = f"the best {cohort.size} models" if cohort.size < len(result.models) else "any models"
    return f"{start}; {100 * share:.0f} % of the {cohort.items:,} items do not separate {best}."


def items_section(result: ItemFit, key: str = "items") -> Section:
    """The item map and the items that need attention."""
    broken = np.flatnonzero(result.flag == "broken")
    negative = int((result.slope < 0).sum())
    first = result.cohorts[min(1, len(result.cohorts) - 1)]
    sentences = []
    if result.model != "rasch":
        chance = "as chance gives with few models" if not len(broken) and negative else "the flagged ones excepted"
        sentences.append(
            f"{numbers.counted(negative, 'slope')} of {len(result.items):,} are negative"
            + (f", {chance}" if negative else "")
            + f"; {len(broken)} survive the rank test with Benjamini–Hochberg at 5 %."
        )
    power = ", ".join(
        f"slope {slope:g}: {100 * value:.0f} %".replace("-", "−")
        for slope, value in zip(result.broken_slopes, result.broken_power, strict=True)
    )
    sentences.append(f"Chance that the test flags a broken item of medium difficulty: {power}.")
    sentences.append(
        f"Of {first.items:,} items the best {first.size} models get {first.all_right:,} all right and "
        f"{first.all_wrong:,} all wrong."
    )
    warnings = [] if result.converged else ["The fit did not converge; do not use its numbers."]
    if result.robust:
        sentences.append("Scores are fractions: fitted by quasi-likelihood with robust standard errors.")
    if result.few_models:
        sentences.append(
            f"With {len(result.models)} models slopes are shrunk towards {result.slope_prior[0]:g} (normal "
            f"prior, standard "
            f"deviation {result.slope_prior[1]:g})."
        )
    table = Table(
        "Broken items" if len(broken) else "Items with the lowest slopes",
        ("item", "mean score, %", "slope", "standard error", "adjusted p"),
        tuple(
            (
                str(result.items[i]),
                round(100 * float(result.mean_score[i]), 1),
                round(float(result.slope[i]), 2),
                round(float(result.slope_stderr[i]), 2),
                float(f"{result.p_adjusted[i]:.2g}"),
            )
            for i in (broken if len(broken) else np.argsort(result.slope, kind="stable")[:10])[:ROWS]
            if math.isfinite(result.slope[i])
        ),
    )
    cohorts = Table(
        "Items that do not separate the best models",
        ("best models", "all right", "all wrong", "same score", "items"),
        tuple((c.size, c.all_right, c.all_wrong, c.dead, c.items) for c in result.cohorts),
    )
    charts = (item_map(result),) if result.model != "rasch" else ()
    title = (
        "No item is shown to be broken"
        if not len(broken)
        else f"{numbers.counted(len(broken), 'item')} look{'s' if len(broken) == 1 else ''} broken"
    )
    return Section(
        title,
        tuple(sentences),
        charts=charts,
        tables=(table,) if len(broken) else (),
        folded=(cohorts,) if len(broken) else (table, cohorts),
        warnings=tuple(warnings),
        key=key,
        short="Items",
        methods=_ITEM_METHODS,
    )


def item_map(result: ItemFit, most: int = 1500) -> Chart:
    """Difficulty against discrimination, one point per item; suspects named."""
    known = np.flatnonzero(np.isfinite(result.slope))
    flagged = known[result.flag[known] == "broken"]
    if len(known) > most:
        known = np.union1d(known[:: math.ceil(len(known) / most)], flagged[:200])
    hard = -result.intercept / np.maximum(np.abs(result.slope), 0.25)
    low, high = np.quantile(result.skill[np.isfinite(result.skill)], [0.0, 1.0])
    hard = np.clip(hard, low - 3, high + 3)
    named = set(flagged[:6].tolist())
    rows = tuple(
        {
            "x": round(float(hard[i]), 3),
            "y": round(float(result.slope[i]), 3),
            "name": str(result.items[i]),
            "role": "ceiling" if result.flag[i] == "broken" else "muted" if result.flag[i] == "dead" else "floor",
            "label": str(result.items[i])[:24] if i in named else "",
        }
        for i in known
    )
    rug = [round(float(value), 3) for value in result.skill[np.isfinite(result.skill)][:200]]
    words = "Items by difficulty and discrimination; below zero better models do worse."
    options = {
        "x_title": "difficulty (ticks: skills of the models)",
        "y_title": "discrimination (slope)",
        "rule": 0.0,
        "rule_text": "below: better models do worse",
        "rug": rug,
    }
    return Chart("points", "Each point is an item", rows, words, options)


def information_section(result: ItemFit) -> Section:
    """Where along skill the test measures well."""
    skill = np.sort(result.skill[np.isfinite(result.skill)])[::-1]
    top = float(skill[0])
    error = 1 / math.sqrt(max(float(result.information([top])[0]), 1e-12))
    sentence = (
        f"At the skill of the best model the whole test measures skill to ±{error:.2f} (one standard error; "
        f"skills have "
        "standard deviation 1)."
    )
    return Section(
        "Where the test measures well",
        (sentence,),
        charts=(information_chart(result),),
        key="information",
        short="Information",
    )


def information_chart(result: ItemFit) -> Chart:
    """Information along skill, with the ten best models as ticks."""
    skill = np.sort(result.skill[np.isfinite(result.skill)])[::-1]
    grid = np.linspace(skill[-1] - 0.7, skill[0] + 0.7, 61)
    curve = result.information(grid)
    rows = tuple(
        {"series": "information", "x": round(float(x), 3), "y": round(float(y), 3)}
        for x, y in zip(grid, curve, strict=True)
    )
    peak = float(grid[int(curve.argmax())])
    words = f"Information is highest at skill {peak:.1f}; the best model has skill {skill[0]:.1f}."
    options = {
        "x_title": "skill (ticks: the ten best models)",
        "y_title": "information",
        "rug": [round(float(value), 3) for value in skill[:10]],
        "percent": False,
        "domain": [0.0, float(curve.max()) * 1.05],
    }
    return Chart("lines", "Which items still measure the best models?", rows, words, options)


@view.register
def _(result: SuspectKeys) -> View:
    return View(
        title="Answer keys that look wrong",
        headline=keys_headline(result),
        sections=(keys_section(result),),
        provenance=Provenance(method=_KEY_METHODS, versions=versions_of("numpy")),
        columns=key_columns(result),
        name=_name(result.source),
        size=numbers.counted(result.answered, "item"),
        links={"review sheet": "review.csv"},
        downloads={"review.csv": review_sheet(result)},
    )


_KEY_METHODS = (
    "margin = share of models on the most frequent other answer − share on the key. Equal margins share a rank. "
    "The margin "
    "is plain on purpose: weighting models by skill or correlations gained nothing on expert-checked keys.",
)


def key_columns(result: SuspectKeys) -> dict[str, Any]:
    """The columns of ``to_frame`` of suspect keys."""
    return {
        "item": result.items,
        "key": result.key,
        "suggested": result.suggested,
        "margin": result.margin,
        "models": result.models,
    }


def review_sheet(result: SuspectKeys) -> str:
    """CSV for a reviewer: the question where logs have it, the key, what models say, an empty column for the "
    "verdict."""
    count = len(result.votes)
    columns: dict[str, Any] = {"rank": result.position, **key_columns(result)}
    cut = {name: values[:count] for name, values in columns.items()}
    said = [
        ", ".join(f"{answer}: {100 * share:.0f} %" for answer, share in votes.items()) for votes in result.votes
    ]
    more = {name: values for name, values in result.groups.items() if name not in cut}
    return csv_text({**cut, "answers": said, "correct_key": [""] * count, "comment": [""] * count, **more})


def keys_headline(result: SuspectKeys) -> str:
    """How many keys should be looked at."""
    if not result.suspicious:
        return f"On none of {result.answered:,} items do more models agree on another answer than on the key."
    return (
        f"On {numbers.counted(result.suspicious, 'item')} of {result.answered:,} more models give the same "
        f"other answer "
        "than the key: check these keys first."
    )


def keys_section(result: SuspectKeys) -> Section:
    """The most suspicious items."""
    rows = tuple(
        (
            int(result.position[i]),
            str(result.items[i]),
            str(result.key[i])[:60],
            str(result.suggested[i])[:60],
            round(float(result.margin[i]), 3),
            int(result.models[i]),
        )
        for i in range(min(len(result.items), max(10, min(result.suspicious, ROWS))))
    )
    sentences = [
        "A positive margin is a reason to read the question, no proof: hard questions have attractive wrong "
        "answers.",
        f"The "
        f"models' answers are worth about {result.effective_models:.1f} independent models: models that err alike "
        "agree on wrong answers too.",
    ]
    most = int(result.models.max())
    if most < 5:
        sentences.append(f"At most {numbers.counted(most, 'model')} answered an item: a margin says little.")
    tied = int((result.position == 1).sum())
    if tied > 1:
        sentences.append(f"{tied} items share the highest margin.")
    if result.unanswered:
        sentences.append(
            f"{numbers.counted(result.unanswered, 'item')} without a key or an answer were not examined."
        )
    return Section(
        "Keys to check, most suspicious first",
        tuple(sentences),
        tables=(Table("Suspect keys", ("rank", "item", "key", "suggested", "margin", "models"), rows),),
        key="keys",
        short="Keys",
        methods=_KEY_METHODS,
    )


@view.register
def _(result: CorrectedKeys) -> View:
    moved = int((result.rank_before != result.rank_after).sum())
    tiers = int((result.tier_before != result.tier_after).sum())
    change = 100 * np.abs(result.score_after - result.score_before)
    headline = (
        f"{numbers.counted(len(result.items), 'corrected key')} of {result.n_items:,}: scores change by up to "
        f"{change.max():.1f} points, {moved} of {len(result.models):,} models change rank, {tiers} change tier."
    )
    rows = tuple(
        (
            name,
            round(100 * float(result.score_before[i]), 1),
            round(100 * float(result.score_after[i]), 1),
            int(result.rank_before[i]),
            int(result.rank_after[i]),
            int(result.tier_before[i]),
            int(result.tier_after[i]),
        )
        for i, name in enumerate(result.models[:ROWS])
    )
    head = ("model", "score before, %", "after, %", "rank before", "after", "tier before", "after")
    keys = Table(
        "Corrected keys",
        ("item", "old key", "new key"),
        tuple(zip(result.items, result.old_key, result.new_key, strict=True)),
    )
    section = Section("Scores with the corrected keys", tables=(Table("Models", head, rows),), folded=(keys,))
    return View(
        title="Corrected keys",
        headline=headline,
        sections=(section,),
        columns={
            "model": result.models,
            "score_before": result.score_before,
            "score_after": result.score_after,
            "rank_before": result.rank_before,
            "rank_after": result.rank_after,
            "tier_before": result.tier_before,
            "tier_after": result.tier_after,
        },
    )


_SHORT_METHODS = (
    "Random or stratified items: mean_all P̂ + mean_S(x − P̂) with a design-based standard error; P̂ is a "
    "logistic curve in the "
    "items' mean scores with the new model's own offset. It stays nearly unbiased where P̂ is wrong.",
    "Coverage is measured on models that were held out of the calibration (5 folds, 10 selections each for "
    "random and "
    "stratified items).",
)


@view.register
def _(result: ShortTest) -> View:
    return View(
        title="A shorter test",
        headline=short_headline(result),
        sections=(short_section(result),),
        provenance=Provenance(method=_SHORT_METHODS, seed=result.seed, versions=versions_of("numpy", "scipy")),
        columns={"item": result.items, "row": result.rows, "task": result.tasks, "doc_id": result.doc_ids},
        size=f"{len(result.items):,} of {numbers.counted(result.n_items, 'item')}",
        links={"items for lm-eval --samples": "samples.json", "short_items.csv": "short_items.csv"},
        downloads=short_files(result),
    )


def short_files(result: ShortTest) -> dict[str, str]:
    """The list of items: for lm-eval, as CSV, as JSON."""
    columns: dict[str, Any] = {
        "item": result.items,
        "row": result.rows,
        "task": result.tasks,
        "doc_id": result.doc_ids,
    }
    names = [str(name) for name in result.items]
    from hardpan.files import dumps

    return {
        "samples.json": result.samples() + "\n",
        "short_items.csv": csv_text(columns),
        "short_items.json": dumps(names) + "\n",
    }


def short_headline(result: ShortTest) -> str:
    """What the shorter test is good for."""
    return (
        f"{len(result.items):,} of {result.n_items:,} items estimate a new model's full score to "
        f"±{points(result.half_width)} points ({100 * result.confidence:g} %)."
    )


def short_section(result: ShortTest) -> Section:
    """Error against the number of items, coverage on held-out models."""
    chosen = {
        "random": "chosen at random",
        "stratified": "chosen at random within groups",
        "information": "chosen for their information",
    }[result.method]
    sentences = [
        f"Items {chosen}. On held-out models the interval contained the full score in "
        f"{100 * result.coverage:.0f} % of "
        f"{result.held_out:,} trials; mean error {points(result.mean_error)} points, on the best fifth of the "
        f"models "
        f"{_signed(result.bias_best)} points on average."
    ]
    warnings = []
    if result.method == "information":
        warnings.append(
            "Items chosen for information shrink unusual models towards those it was calibrated on; use random or "
            "stratified items where the best models matter."
        )
    low = 100 * result.confidence - 4
    if 100 * result.coverage < low:
        warnings.append("The interval covered less often than stated; use more items.")
    rows = tuple(
        {"series": "half width of the interval", "x": int(size), "y": round(float(value), 5)}
        for size, value in zip(result.sizes, result.size_half_width, strict=True)
    ) + tuple(
        {"series": "mean error on held-out models", "x": int(size), "y": round(float(value), 5)}
        for size, value in zip(result.sizes, result.size_error, strict=True)
    )
    chart = Chart(
        "lines",
        "Error of the full score against the number of items",
        rows,
        f"With {len(result.items):,} items the interval is ±{points(result.half_width)} points wide.",
        {"x_title": "items", "y_title": "error of the full score", "log_x": True, "percent": True},
    )
    table = Table(
        "Other numbers of items",
        ("items", "± points", "mean error, points", "coverage, %"),
        tuple(
            (int(n), round(100 * float(w), 1), round(100 * float(e), 1), round(100 * float(c), 1))
            for n, w, e, c in zip(
                result.sizes, result.size_half_width, result.size_error, result.size_coverage, strict=True
            )
        ),
    )
    return Section(
        short_headline(result),
        tuple(sentences),
        charts=(chart,),
        folded=(table,),
        warnings=tuple(warnings),
        key="short",
        short="Short test",
        methods=_SHORT_METHODS,
    )


@view.register
def _(result: Inflation) -> View:
    flagged = [name for name, bad in zip(result.models, result.inflated, strict=True) if bad]
    if flagged:
        which = numbers.listed(flagged[:5]) + (f" and {len(flagged) - 5} more" if len(flagged) > 5 else "")
        headline = (
            f"{which} score{'s' if len(flagged) == 1 else ''} higher than the reference set predicts, beyond "
            f"chance "
            f"({100 * result.confidence:g} % confidence for all {len(result.models)} models together)."
        )
    else:
        headline = (
            f"No model of {len(result.models)} scores higher than the reference set predicts, beyond chance "
            f"({100 * result.confidence:g} % confidence for all together)."
        )
    sentences = [
        f"Line on the probit scale: slope {result.slope:.2f} (uncorrected for noise "
        f"{result.slope_uncorrected:.2f}), "
        f"offset {result.offset:.2f}; {100 * result.noise_share:.0f} % of the spread of the reference scores is "
        f"noise.",
        "An excess can mean contamination, tuning on this test set, or skills that the reference set does not "
        "measure.",
    ]
    outside = int(result.outside.sum())
    if outside:
        verb = "lies" if outside == 1 else "lie"
        sentences.append(
            f"{numbers.counted(outside, 'model')} {verb} outside the range of the others on the reference set "
            f"and can "
            "not be judged."
        )
    rows = tuple(
        (
            name,
            round(100 * float(result.score[i]), 1),
            round(100 * float(result.reference_score[i]), 1),
            round(100 * float(result.predicted[i]), 1),
            numbers.signed(
                Estimate(float(result.excess[i]), 0.0, float(result.low[i]), float(result.high[i])), unit=""
            ),
            float(f"{result.p_holm[i]:.2g}"),
            "outside" if result.outside[i] else "inflated" if result.inflated[i] else "",
        )
        for i, name in enumerate(result.models[:ROWS])
    )
    head = ("model", "score, %", "reference, %", "predicted, %", "excess, points", "p (Holm)", "verdict")
    chart = Chart(
        "deviations",
        "Score minus what the reference set predicts",
        tuple(
            {
                "name": name,
                "value": float(result.excess[i]),
                "low": float(result.low[i]),
                "high": float(result.high[i]),
                "role": "left out" if result.inflated[i] else "in the fit",
            }
            for i, name in enumerate(result.models[:CHART_ROWS])
        ),
        headline,
        {"x_title": "excess"},
    )
    section = Section(
        "Score against the reference set", tuple(sentences), charts=(chart,), tables=(Table("Models", head, rows),)
    )
    method = (
        "Per model: the probit line of the others with the slope corrected for noise in the reference scores; "
        "SE² = scatter "
        "+ Var(y) + slope² Var(x) + line, "
        "Student's t with M − 3 degrees of freedom, one-sided, Holm over the models.",
    )
    return View(
        title="Scores against a reference set",
        headline=headline,
        sections=(section,),
        provenance=Provenance(method=method, versions=versions_of("numpy", "scipy")),
        columns={
            "model": result.models,
            "score": result.score,
            "reference_score": result.reference_score,
            "predicted": result.predicted,
            "excess": result.excess,
            "low": result.low,
            "high": result.high,
            "p_value": result.p_value,
            "p_holm": result.p_holm,
            "inflated": result.inflated,
            "outside": result.outside,
        },
        size=f"{len(result.models):,} models, {result.items:,} and {result.reference_items:,} items",
    )


@view.register
def _(result: AgreementLine) -> View:
    drop = float((result.accuracy - result.estimate).mean())
    word = "lower" if drop >= 0 else "higher"
    headline = (
        f"Estimate under an assumption: on the unlabelled set the {len(result.models)} models are "
        f"{points(abs(drop))} points "
        f"{word} on average, if they share errors equally on both sets."
    )
    sentences = [
        f"Line of pairwise agreements on the probit scale: slope {result.slope:.2f} ± "
        f"{result.slope_stderr:.2f}, offset "
        f"{result.offset:.2f}, r² {result.r2:.3f}.",
        f"Intervals contain the sampling of both "
        f"sets' examples and a transfer error of {points(result.transfer_error)} "
        "points (one standard error) for the assumption, which cannot be tested without labels.",
    ]
    warnings = []
    if result.r2 < 0.9:
        warnings.append("The agreements do not lie on a line (r² below 0.9): the method does not apply here.")
    estimates = numbers.aligned(
        (
            Estimate(float(e), 0.0, float(low), float(high))
            for e, low, high in zip(result.estimate, result.low, result.high, strict=True)
        ),
        scale=100,
    )
    rows = tuple(
        (name, round(100 * float(result.accuracy[i]), 1), estimates[i])
        for i, name in enumerate(result.models[:ROWS])
    )
    head = ("model", "labelled set, %", f"unlabelled set, % ({100 * result.confidence:g} % interval)")
    return View(
        title="Accuracy on an unlabelled set",
        headline=headline,
        sections=(
            Section(
                "Estimated accuracies",
                tuple(sentences),
                tables=(Table("Models", head, rows),),
                warnings=tuple(warnings),
            ),
        ),
        provenance=Provenance(
            method=(sentences[1],),
            citations=("Baek, Jiang, Raghunathan and Kolter, Agreement-on-the-line (2022).",),
            seed=result.seed,
            versions=versions_of("numpy", "scipy"),
        ),
        columns={
            "model": result.models,
            "accuracy": result.accuracy,
            "estimate": result.estimate,
            "stderr": result.stderr,
            "low": result.low,
            "high": result.high,
        },
        size=f"{result.examples_old:,} labelled and {result.examples_new:,} unlabelled examples",
    )


@view.register
def _(result: LeaderboardSummary) -> View:
    ranking, fit, keys, short = result.ranking, result.fit, result.keys, result.short
    headline = ranking_headline(ranking)
    lede = []
    if keys is not None and keys.suspicious:
        lede.append(keys_headline(keys))
    if short is not None:
        lede.append(short_headline(short))
    ranked = ranking_section(ranking)
    sections = [
        Section(
            "Ranking",
            ranked.sentences,
            folded=(ranking_table(ranking),),
            warnings=ranked.warnings,
            key="ranking",
            methods=_PAIRED,
        )
    ]
    picture = picture_chart(result)
    downloads: dict[str, Any] = {"ranking.csv": csv_text(ranking_columns(ranking))}
    links = {"ranking.csv": "ranking.csv"}
    hero = [ranking_chart(ranking, HERO_ROWS)]
    if fit is not None:
        found = items_section(fit)
        sections.append(
            Section(
                found.title,
                found.sentences,
                charts=(*found.charts, picture),
                tables=found.tables,
                folded=found.folded,
                warnings=found.warnings,
                key="items",
                short="Items",
                methods=found.methods,
            )
        )
        hero.append(information_chart(fit))
        downloads |= {"items.csv": csv_text(item_columns(fit)), "skills.csv": csv_text(skill_columns(fit))}
        links["items.csv"] = "items.csv"
    else:
        sections.append(Section("All scores", charts=(picture,), key="items", short="Scores"))
    if keys is not None:
        sections.append(keys_section(keys))
        downloads["review.csv"] = review_sheet(keys)
        links["review sheet"] = "review.csv"
    if result.groups is not None:
        sections.append(groups_section(result.groups))
    if len(ranking.models) > 1:
        sections.append(pairs_section(ranking))
    if short is not None:
        sections.append(short_section(short))
        downloads |= short_files(short)
        links["short test for lm-eval"] = "samples.json"
    if result.notes:
        sections.append(Section("How the scores were read", tuple(result.notes), key="input", short="Input"))
    size = f"{numbers.counted(len(ranking.models), 'model')}, {numbers.counted(ranking.n_items, 'item')}"
    if ranking.groups:
        size += f", {ranking.groups:,} groups ({ranking.group_column})"
    return View(
        title="Leaderboard",
        headline=headline,
        lede=tuple(lede),
        sections=tuple(sections),
        provenance=Provenance(
            method=(*_PAIRED, *_ITEM_METHODS, *_SHORT_METHODS),
            citations=(*_CITATIONS, _IRT),
            versions=versions_of("numpy", "scipy"),
        ),
        columns=ranking_columns(ranking),
        name=_name(result.source) or "Leaderboard",
        size=size,
        problems=leaderboard_problems(result),
        hero=tuple(hero),
        links=links,
        downloads=downloads,
        terminal=(Section("Ranking", tables=(ranking_table(ranking, 10),)),),
    )


def leaderboard_problems(result: LeaderboardSummary) -> tuple[Problem, ...]:
    """What endangers the ranking, worst first."""
    ranking, fit, keys = result.ranking, result.fit, result.keys
    m = len(ranking.models)
    found = []
    if ranking.unconnected:
        found.append(
            Problem("overlap", "high", "Some models share no items with the others", "They cannot be ranked.")
        )
    if fit is not None and (fit.flag == "broken").any():
        count = int((fit.flag == "broken").sum())
        title = f"On {numbers.counted(count, 'item')} better models do worse"
        found.append(
            Problem(
                "broken-items", "high", title, "Check their keys and wording.", link="#items", link_text="which"
            )
        )
    if keys is not None and keys.suspicious:
        title = f"{numbers.counted(keys.suspicious, 'answer key')} should be checked"
        detail = "More models agree on another answer than on the key."
        found.append(Problem("keys", "high", title, detail, link="review.csv", link_text="review sheet"))
    if ranking.complete < m:
        title = f"{m - ranking.complete:,} of {m:,} models lack some of the items"
        detail = "Pairs are compared on the items both have; scores are adjusted."
        severity = "high" if ranking.few_shared else "medium"
        found.append(Problem("missing", severity, title, detail, link="ranking.csv", link_text="which"))
    tied = first_tier(ranking)
    if tied > 1:
        title = f"The first {tied:,} models cannot be separated" if tied < m else "The first model is not separated"
        detail = "Report ranks as sets, or add items."
        found.append(Problem("ties", "medium", title, detail, link="#ranking", link_text="ranks"))
    if fit is not None and len(fit.cohorts) > 1:
        cohort = fit.cohorts[min(1, len(fit.cohorts) - 1)]
        share = cohort.dead / max(cohort.items, 1)
        if share > 0.2 and cohort.size < m:
            title = f"{100 * share:.0f} % of the items do not separate the {cohort.size} best models"
            detail = f"All have the same score: {cohort.all_right:,} all right, {cohort.all_wrong:,} all wrong."
            found.append(Problem("dead-items", "medium", title, detail, link="items.csv", link_text="items.csv"))
    known = np.isfinite(ranking.stderr_clustered) & (ranking.stderr > 0)
    if known.any() and not ranking.cluster:
        ratio = float(np.median(ranking.stderr_clustered[known] / ranking.stderr[known]))
        if ratio > 1.2:
            title = f"Clustered by {ranking.group_column}, standard errors are {ratio:.1f} times as large"
            detail = f"Matters if the {ranking.groups} groups are a sample; use --cluster {ranking.group_column}."
            found.append(Problem("clusters", "medium", title, detail, link="#ranking", link_text="why"))
    if fit is not None and not fit.converged:
        found.append(Problem("fit", "medium", "The item analysis did not converge", "Do not use its numbers."))
    order = {"high": 0, "medium": 1, "low": 2, "note": 3}
    return tuple(sorted(found, key=lambda problem: order[problem.severity]))


def picture_chart(result: LeaderboardSummary) -> Chart:
    """All scores as an image."""
    words = "Scores of all models (best on top) on all items (easiest left); darker is higher, grey is missing."
    title = "Models (best on top) × items (easiest left)"
    return raster_chart(result.picture, title, words, left="easiest items", right="hardest items")


def groups_section(groups: GroupScores) -> Section:
    """Scores by group of the best models."""
    rows = tuple(
        {"row": name, "column": group, "value": None if math.isnan(value) else round(float(value), 4)}
        for i, name in enumerate(groups.models)
        for group, value in zip(groups.groups, groups.scores[i], strict=True)
    )
    spread = groups.scores - np.nanmean(groups.scores, axis=0)
    j = int(np.nanargmax(np.nanmax(spread, axis=0) - np.nanmin(spread, axis=0)))
    sentences = [f"The models differ most on {groups.groups[j]}."]
    if groups.left_out:
        sentences.append(f"{numbers.counted(groups.left_out, 'smaller group')} not shown.")
    chart = Chart(
        "matrix",
        f"Score by {groups.column}, percent",
        rows,
        f"Scores of the first {len(groups.models)} models by {groups.column}.",
        {"x_title": groups.column, "y_title": "", "percent": True, "text": True},
    )
    return Section("Where the best models differ", tuple(sentences), charts=(chart,), key="groups", short="Groups")
