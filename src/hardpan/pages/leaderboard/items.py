"""Item analysis, answer keys, shorter tests."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from hardpan.errors import counted
from hardpan.files import json_text
from hardpan.leaderboard.adaptive_tests import AdaptiveTest
from hardpan.leaderboard.item_analysis import ItemFit
from hardpan.leaderboard.keys import FEWEST_MODELS, CorrectedKeys, SuspectKeys
from hardpan.leaderboard.short_tests import ShortTest
from hardpan.pages import formatting
from hardpan.pages.field_views import view
from hardpan.pages.leaderboard.models import ROWS, columns_by_model, percents, view_of_sections
from hardpan.pages.sections import Chart, Section, Table, View, table_of_columns
from hardpan.tables import csv_text

BARS, MOST_POINTS = 15, 1500  # keys and items in a chart

ITEM_METHODS = (
    "P(right) = c + (1 − c) σ(slope · skill + intercept). Skills are standard normal and integrated out; "
    "slopes and intercepts maximise the marginal likelihood (Newton's method), standard errors come from the "
    "observed information, for fractions from the sandwich.",
    "Broken items: one-sided rank test of an item's scores against the mean score on the other items "
    "(Mann–Whitney for right and wrong), corrected by Benjamini–Hochberg at 5 %. It treats models as "
    "exchangeable: families of related models weaken it.",
)
IRT = "Bock and Aitkin, Marginal maximum likelihood estimation of item parameters (1981)."


@view.register
def _item_fit_view(result: ItemFit) -> View:
    names = ("slope", "slope_stderr", "intercept", "intercept_stderr", "mean_score", "flag")
    columns: dict[str, Any] = {"item": result.items, **{name: getattr(result, name) for name in names}}
    skills: dict[str, Any] = {"model": result.models, "skill": result.skill, "skill_stderr": result.skill_stderr}
    return view_of_sections(
        result,
        "Item analysis",
        items_headline(result),
        (items_section(result), information_section(result)),
        columns,
        citations=(IRT,),
        size=f"{counted(len(result.models), 'model')}, {counted(len(result.items), 'item')}",
        links={"items.csv": "items.csv"},
        downloads={"items.csv": csv_text(columns), "skills.csv": csv_text(skills)},
    )


def _no_broken_items(result: ItemFit) -> str:
    if max(result.broken_power, default=0.0) < 0.05:
        return f"{len(result.models)} models are too few to show that an item is broken"
    return "No item is shown to be broken"


def items_headline(result: ItemFit) -> str:
    """What the items are worth, in one sentence."""
    broken = int((result.flag == "broken").sum())
    start = f"On {counted(broken, 'item')} better models do worse, beyond chance"
    start = start if broken else _no_broken_items(result)
    cohort = result.cohorts[min(1, len(result.cohorts) - 1)]
    share = cohort.dead / max(cohort.items, 1)
    best = f"the best {cohort.size} models" if cohort.size < len(result.models) else "any models"
    return f"{start}; {100 * share:.0f} % of the {cohort.items:,} items do not separate {best}."


def items_section(result: ItemFit) -> Section:
    """The item map and the items that need attention."""
    broken = np.flatnonzero(result.flag == "broken")
    warnings = () if result.converged else ("The fit did not converge; do not use its numbers.",)
    lowest = broken if len(broken) else np.argsort(result.slope, kind="stable")[:10]
    rows = lowest[np.isfinite(result.slope[lowest])]
    table = table_of_columns(
        "Broken items" if len(broken) else "Items with the lowest slopes",
        {
            "item": result.items[rows],
            "mean score, %": percents(result.mean_score[rows]),
            "slope": result.slope[rows].round(2),
            "standard error": result.slope_stderr[rows].round(2),
            "adjusted p": [float(f"{p:.2g}") for p in result.p_adjusted[rows]],
        },
        ROWS,
    )
    cohorts = Table(
        "Items that do not separate the best models",
        ("best models", "all right", "all wrong", "same score", "items"),
        tuple((c.size, c.all_right, c.all_wrong, c.dead, c.items) for c in result.cohorts),
    )
    charts = (item_map_chart(result),) if result.model != "rasch" else ()
    title = f"{counted(len(broken), 'item')} look{'s' if len(broken) == 1 else ''} broken"
    if not len(broken):
        title = (
            _no_broken_items(result) if max(result.broken_power, default=0.0) >= 0.05 else "Difficulty of the items"
        )
    return Section(
        title,
        _item_sentences(result, len(broken)),
        charts=charts,
        tables=(table,) if len(broken) else (),
        folded=(cohorts,) if len(broken) else (table, cohorts),
        warnings=warnings,
        key="items",
        short="Items",
        methods=ITEM_METHODS,
    )


def _item_sentences(result: ItemFit, broken: int) -> tuple[str, ...]:
    negative = int((result.slope < 0).sum())
    first = result.cohorts[min(1, len(result.cohorts) - 1)]
    sentences = []
    if result.model != "rasch":
        chance = "as chance gives with few models" if not broken and negative else "the flagged ones excepted"
        sentences.append(
            f"{counted(negative, 'slope')} of {len(result.items):,} {'is' if negative == 1 else 'are'} "
            f"negative, {chance}; {broken} survive the rank test with Benjamini–Hochberg at 5 %."
            if negative
            else f"None of the {len(result.items):,} slopes is negative."
        )
    power = ", ".join(
        f"{100 * value:.0f} % at slope {slope:g}".replace("-", "−")
        for slope, value in zip(result.broken_slopes, result.broken_power, strict=True)
    )
    if max(result.broken_power, default=0.0) < 0.05:
        sentences = [f"{_no_broken_items(result)}."]
    else:
        sentences.append(f"The test would flag a broken item of medium difficulty with a chance of {power}.")
    sentences.append(
        f"Of {first.items:,} items the best {first.size} models get {first.all_right:,} all right and "
        f"{first.all_wrong:,} all wrong."
    )
    if result.robust:
        sentences.append("Scores are fractions: fitted by quasi-likelihood with robust standard errors.")
    if result.few_models:
        sentences.append(
            f"With {len(result.models)} models slopes are shrunk towards {result.slope_prior[0]:g} (normal "
            f"prior, standard deviation {result.slope_prior[1]:g})."
        )
    return tuple(sentences)


def item_map_chart(result: ItemFit) -> Chart:
    """Difficulty against discrimination, one point per item; suspects named."""
    known = np.flatnonzero(np.isfinite(result.slope))
    flagged = known[result.flag[known] == "broken"]
    if len(known) > MOST_POINTS:
        known = np.union1d(known[:: math.ceil(len(known) / MOST_POINTS)], flagged[:200])
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
        "skills have standard deviation 1)."
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
        "x_title": f"skill (ticks: the {'ten best ' if len(skill) > 10 else ''}models)",
        "y_title": "information about skill",
        "rug": [round(float(value), 3) for value in skill[:10]],
        "percent": False,
        "domain": [0.0, float(curve.max()) * 1.05],
        "height": 190,
    }
    return Chart("lines", "How well does the test measure the best models?", rows, words, options)


@view.register
def _suspect_keys_view(result: SuspectKeys) -> View:
    return view_of_sections(
        result,
        "Answer keys that look wrong",
        keys_headline(result),
        (keys_section(result),),
        _key_columns(result),
        size=counted(result.answered, "item"),
        links={"review sheet": "review.csv"},
        downloads={"review.csv": review_sheet(result)},
    )


KEY_METHODS = (
    "margin = proportion of models on the most frequent other answer − proportion on the key. Equal margins "
    "share a "
    "rank. Models have equal weight: weights by skill or correlation gave no better ranking on expert-checked "
    "keys.",
)


def _key_columns(result: SuspectKeys) -> dict[str, Any]:
    names = ("key", "suggested", "margin", "models")
    return {"item": result.items, **{name: getattr(result, name) for name in names}}


def review_sheet(result: SuspectKeys) -> str:
    """CSV for a reviewer: the question where logs have it, the key, what models say, columns for the verdict."""
    count = len(result.votes)
    columns: dict[str, Any] = {"rank": result.position, **_key_columns(result)}
    cut = {name: values[:count] for name, values in columns.items()}
    said = [
        ", ".join(f"{answer}: {100 * share:.0f} %" for answer, share in votes.items()) for votes in result.votes
    ]
    if result.questions:
        cut["question"] = result.questions
    cut |= {"answers": said, "correct_key": [""] * count, "comment": [""] * count}
    return csv_text({**cut, **{name: values for name, values in result.groups.items() if name not in cut}})


def keys_headline(result: SuspectKeys) -> str:
    """How many keys should be looked at."""
    most = int(result.models.max())
    if most < FEWEST_MODELS:
        return (
            f"{'One model is' if most == 1 else f'{most} models are'} too few to suspect a key: an answer that "
            "differs from it says more about the model."
        )
    if not result.comparable.any():
        return "No key can be suspected: the models' answers hardly repeat, as in free text, or the models are few."
    if not result.suspicious:
        return f"On none of {result.answered:,} items do more models agree on another answer than on the key."
    return (
        f"On {result.suspicious:,} of {result.answered:,} items more models agree on another answer than on the "
        "key: check these keys first."
    )


def keys_section(result: SuspectKeys) -> Section:
    """The most suspicious items."""
    table = table_of_columns(
        "Suspect keys",
        {
            "rank": result.position,
            "item": result.items,
            "key": [str(text)[:60] for text in result.key],
            "suggested": [str(text)[:60] for text in result.suggested],
            "margin": result.margin.round(3),
            "models": result.models,
        },
        max(10, min(result.suspicious, ROWS)),
    )
    sentences = [
        "A positive margin is a reason to read the question, no proof: hard questions have attractive wrong "
        "answers.",
        f"The models' answers are worth about {result.effective_models:.1f} independent models: models with "
        "similar errors also agree on wrong answers.",
    ]
    most = int(result.models.max())
    if most < 5:
        sentences.append(f"At most {counted(most, 'model')} answered an item: a margin says little.")
    tied = int((result.position == 1).sum())
    if tied > 1:
        sentences.append(f"{tied} items share the highest margin.")
    if result.unanswered:
        sentences.append(f"{counted(result.unanswered, 'item')} without a key or an answer were not examined.")
    bars: tuple[dict[str, Any], ...] = tuple(
        {"name": f"{item}: {key} → {suggested}", "value": margin}
        for _, item, key, suggested, margin, _ in table.rows[:BARS]
        if margin > 0
    )
    chart = Chart(
        "bars",
        "Margin of the other answer over the key",
        bars,
        "; ".join(f"{bar['name']} {formatting.percent(bar['value'])}" for bar in bars) + ".",
        {"percent": True, "x_title": "margin, of the models"},
    )
    return Section(
        "Keys to check, most suspicious first",
        tuple(sentences),
        charts=(chart,) if bars else (),
        tables=(table,),
        key="keys",
        short="Keys",
        methods=KEY_METHODS,
    )


@view.register
def _corrected_keys_view(result: CorrectedKeys) -> View:
    moved = int((result.rank_before != result.rank_after).sum())
    tiers = int((result.tier_before != result.tier_after).sum())
    change = 100 * np.abs(result.score_after - result.score_before)
    done = [counted(len(result.items), "corrected key")] if result.items or not result.dropped else []
    done += [counted(len(result.dropped), "dropped item")] if result.dropped else []
    headline = f"{' and '.join(done)} of {result.n_items:,}: scores change by up to {change.max():.1f} points, "
    if moved or tiers:
        headline += f"{moved:,} of {len(result.models):,} models change rank, {tiers:,} change tier."
    else:
        headline += "no model changes its rank or tier."
    names = [f"{name}_{when}" for name in ("score", "rank", "tier") for when in ("before", "after")]
    columns = columns_by_model(result, *names)
    words = {name: name.replace("_", " ") + (", %" if name.startswith("score") else "") for name in columns}
    cells = {words[name]: percents(v) if name.startswith("score") else v for name, v in columns.items()}
    keys = {"item": result.items, "old key": result.old_key, "new key": result.new_key}
    section = Section(
        "Scores with the corrected keys",
        (
            "Only items whose key changed are scored again: 1 where an answer equals the new key, else 0. Dropped "
            "items count for no model.",
        ),
        tables=(table_of_columns("Models", cells, ROWS),),
        folded=(
            *([table_of_columns("Corrected keys", keys)] if result.items else []),
            *([table_of_columns("Dropped items", {"item": result.dropped}, ROWS)] if result.dropped else []),
        ),
    )
    return View("Corrected keys", headline, (section,), columns=columns)


ADAPTIVE_METHODS = (
    "Two-parameter logistic model of the items; the next item has the largest information a² p(1 − p) at the mean "
    "skill so far. The estimate is the mean score on all items given the answers. Its variance has three parts: "
    "the skill, the answers that were not seen, and the squared errors on held-out models beyond these two. "
    "Held-out models take no part in the fit of the items that they are tested with.",
)
SHORT_METHODS = (
    "Random or stratified items: mean_all P̂ + mean_S(x − P̂) with a design-based standard error; P̂ is a "
    "logistic curve in the items' mean scores with the new model's own offset. It stays nearly unbiased where "
    "P̂ is wrong.",
    "Coverage is measured on models that were held out of the calibration (5 folds, 10 selections each for "
    "random and stratified items).",
)


@view.register
def _short_test_view(result: ShortTest) -> View:
    columns: dict[str, Any] = {
        "item": result.items,
        "row": result.rows,
        "task": result.tasks,
        "doc_id": result.doc_ids,
    }
    section = short_section(result)
    tables = tuple(item for item in section.folded if isinstance(item, Table))
    section = dataclasses.replace(section, title="How many items are enough", tables=tables, folded=())
    return view_of_sections(
        result,
        "A shorter test",
        short_headline(result),
        (section,),
        columns,
        size=f"{len(result.items):,} of {counted(result.n_items, 'item')}",
        links={
            **({"items for lm-eval --samples": "samples.json"} if result.lm_eval else {}),
            "short_items.csv": "short_items.csv",
        },
        downloads={
            **({"samples.json": result.samples() + "\n"} if result.lm_eval else {}),
            "short_items.csv": csv_text(columns),
            "short_items.json": json_text([str(name) for name in result.items]) + "\n",
        },
    )


@view.register
def _adaptive_test_view(result: AdaptiveTest) -> View:
    items_used = f"{result.used:,.0f} of {counted(len(result.items), 'item')} (median)"
    headline = (
        f"An adaptive test asks {items_used} and estimates a new model's full score to "
        f"±{100 * result.half_width:.1f} points ({formatting.level(result.confidence)})."
    )
    sentences = (
        f"On {counted(result.held_out, 'held-out model')} the interval contained the full score in "
        f"{100 * result.coverage:.0f} % of the cases; mean error {100 * result.mean_error:.1f} points, on the best "
        f"fifth of the models {formatting.points(result.bias_best)} points on average. The mean of as many random "
        f"items has a mean error of {100 * result.random_error:.1f} points.",
        f"It stops at ±{100 * result.stop:.1f} points as far as the item model goes, or after {result.longest:,} "
        f"items. Intervals include the misfit of that model on held-out models, {100 * result.misfit:.1f} points "
        "(one standard deviation): more items do not reduce it.",
    )
    warning = "On held-out models the interval covered less often than stated: do not rely on it."
    warnings = (warning,) if result.contradicted else ()
    section = Section("Adaptive test", sentences, warnings=warnings, key="short", methods=ADAPTIVE_METHODS)
    columns: dict[str, Any] = {"item": result.items, "slope": result.slope, "intercept": result.intercept}
    return view_of_sections(
        result,
        "An adaptive test",
        headline,
        (section,),
        columns,
        file="adaptive_items.csv",
        size=counted(len(result.items), "item"),
        links={"items": "adaptive_items.csv"},
    )


def short_headline(result: ShortTest) -> str:
    """What the shorter test is good for."""
    return (
        f"{len(result.items):,} of {result.n_items:,} items estimate a new model's full score to "
        f"±{100 * result.half_width:.1f} points ({formatting.level(result.confidence)})."
    )


def short_section(result: ShortTest) -> Section:
    """Error against the number of items, coverage on held-out models."""
    selection = {
        "random": "chosen at random",
        "stratified": "chosen at random within groups",
        "information": "chosen for their information",
    }[result.method]
    sentences = [
        f"Items {selection}. On held-out models the interval contained the full score in "
        f"{100 * result.coverage:.0f} % of {result.held_out:,} trials; mean error {100 * result.mean_error:.1f} "
        f"points, on the best fifth of the models {formatting.points(result.bias_best)} points on average."
    ]
    warning = "The interval covered less often than stated on held-out models: do not use this selection."
    curves = {
        "half width of the interval": result.size_half_width,
        "mean error on held-out models": result.size_error,
    }
    rows = tuple(
        {"series": name, "x": int(size), "y": round(float(value), 5)}
        for name, values in curves.items()
        for size, value in zip(result.sizes, values, strict=True)
    )
    chart = Chart(
        "lines",
        "Error of the full score against the number of items",
        rows,
        f"With {len(result.items):,} items the interval is ±{100 * result.half_width:.1f} points wide.",
        {"x_title": "items", "y_title": "error of the full score", "log_x": True},
    )
    table = table_of_columns(
        "Other numbers of items",
        {
            "items": result.sizes,
            "± points": percents(result.size_half_width),
            "mean error, points": percents(result.size_error),
            "coverage, %": percents(result.size_coverage),
        },
        ROWS,
    )
    return Section(
        short_headline(result).removesuffix("."),
        tuple(sentences),
        charts=(chart,),
        folded=(table,),
        warnings=(warning,) if result.contradicted else (),
        key="short",
        short="Short test",
        methods=SHORT_METHODS,
    )
