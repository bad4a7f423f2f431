"""Battles of two models, and scores by a judge beside those by people."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from hardpan.errors import counted, few
from hardpan.leaderboard.bradley_terry import Battles
from hardpan.leaderboard.judges import JudgedScores
from hardpan.pages import formatting
from hardpan.pages.field_views import view
from hardpan.pages.leaderboard.models import (
    ROWS,
    columns_by_model,
    leader_words,
    percents,
    rank_sets_of,
    ranked_chart,
    view_of_sections,
)
from hardpan.pages.sections import ProblemLine, Section, View, table_of_columns

BATTLE_METHODS = (
    "P(a beats b) = σ(β_a − β_b), a tie is half a win; logistic regression with sandwich errors, clustered where a "
    "column of prompts or judges is named. All pairs are corrected by Holm. The score of a model is its mean "
    "probability to beat each of the others.",
    "Position and style: a second regression with the position of the answer and the difference of each pair of "
    "columns NAME_a, NAME_b, in standard deviations. Its strengths are for answers of equal style.",
)
JUDGE_METHODS = (
    "PPI++: θ̂ = ȳ + λ(f̄_N − f̄_n) with n answers scored by people (y) and by the judge (f), N by the judge alone, "
    "λ = Cov(y, f)/((1 + n/N) Var(f)), Student's t with n − 2 degrees of freedom. It is valid for any judge if the "
    "answers that people scored are a random sample.",
)
ELO = 400 / math.log(10)


@view.register
def _battles_view(result: Battles) -> View:
    names = (
        "strength",
        "stderr",
        "score",
        "score_stderr",
        "low",
        "high",
        "rank_low",
        "rank_high",
        "tier",
        "battles",
    )
    columns = columns_by_model(result, *names)
    sections = [battles_section(result)]
    if result.style:
        columns["style_strength"] = result.style_strength
        sections.append(style_section(result))
    problems = []
    blind = [effect for effect in result.style if effect.alone.low > 0.5 or effect.alone.high < 0.5]
    for effect in sorted(blind, key=lambda effect: -abs(effect.alone.value - 0.5)):
        more = effect.alone.value > 0.5
        rule = f"with {'more' if more else 'less'} {effect.name}"
        if effect.name == "first position":
            rule = "in the first position" if more else "in the second position"
        at = effect.alone
        advantage = at if more else replace(at, value=1 - at.value, low=1 - at.high, high=1 - at.low)
        won = formatting.estimate(advantage)
        title = f"The answer {rule} wins {won} of the decided battles, whatever the model"
        problems.append(ProblemLine("blind", "medium", title, "A rule that reads no answer.", link="#style"))
    return view_of_sections(
        result,
        "Battles",
        leader_words(result, f" in {result.n_battles:,} battles"),
        sections,
        columns,
        file="battles.csv",
        size=f"{counted(len(result.models), 'model')}, {result.n_battles:,} battles",
        problems=tuple(problems),
    )


def battles_section(result: Battles) -> Section:
    """Strengths and ranks of the models."""
    m = len(result.models)
    ties = f"{result.ties:,} of {result.n_battles:,} battles are ties and count as half a win"
    sentences = [
        f"{result.separated:,} of {m * (m - 1) // 2:,} pairs of models are separated.",
        f"{ties}; in {result.both_bad:,} of them both answers are bad." if result.both_bad else f"{ties}.",
    ]
    if result.skipped:
        rows = counted(result.skipped, "row")
        sentences.append(f"{rows} without a winner, or with one model on both sides, left out.")
    if result.cluster:
        sentences.append(f"Errors are clustered by {result.cluster} ({result.groups:,} groups).")
    columns: dict[str, Any] = {
        "model": result.models,
        f"beats the others, % ({formatting.level(result.confidence)} interval)": formatting.aligned(
            result.estimates[:ROWS], scale=100
        ),
        "strength, Elo points": [round(1000 + ELO * float(value)) for value in result.strength],
        "standard error": [round(ELO * float(value), 1) for value in result.stderr],
        "ranks": rank_sets_of(result),
        "tier": result.tier,
        "battles": result.battles,
    }
    warnings = list[str]()
    if result.left_out:
        lost = f"{counted(len(result.left_out), 'model')} won all, lost all or met none of the others"
        warnings.append(f"{lost}: no finite strength, left out ({few(result.left_out, 4)}).")
    chart = ranked_chart(
        result,
        "Probability to beat the other models",
        leader_words(result),
        x_title="mean probability to win",
    )
    return Section(
        "Strengths from battles",
        tuple(sentences),
        charts=(chart,),
        tables=(table_of_columns("Models", columns, ROWS),),
        warnings=tuple(warnings),
        key="ranking",
        short="Ranking",
        methods=BATTLE_METHODS[:1],
    )


def style_section(result: Battles) -> Section:
    """What position and style do, and the ranks without them."""
    table = table_of_columns(
        "Position and style",
        {
            "what": [effect.name for effect in result.style],
            "log-odds to win": [formatting.signed(effect.effect, 1.0, "") for effect in result.style],
            "wins of the answer with more of it, %": formatting.aligned([e.alone for e in result.style], scale=100),
            "battles": [effect.alone.n for effect in result.style],
        },
    )
    low, high = result.style_rank_low, result.style_rank_high
    before = np.argsort(np.argsort(-result.strength, kind="stable"), kind="stable")
    after = np.argsort(np.argsort(-result.style_strength, kind="stable"), kind="stable")
    moved = int((before != after).sum())
    models = {
        "model": result.models,
        "strength, Elo points": [round(1000 + ELO * float(value)) for value in result.strength],
        "with equal position and style": [round(1000 + ELO * float(value)) for value in result.style_strength],
        "ranks then": [f"{a}–{b}" for a, b in zip(low, high, strict=True)],
    }
    names = formatting.listed([effect.name for effect in result.style])
    sentence = f"With {names} held equal, {moved:,} of {len(result.models):,} models have another place."
    return Section(
        "Position and style",
        (sentence,),
        tables=(table,),
        folded=(table_of_columns("Strengths where position and style are equal", models, ROWS),),
        key="style",
        short="Style",
        methods=BATTLE_METHODS[1:],
    )


@view.register
def _judged_scores_view(result: JudgedScores) -> View:
    names = ("score", "stderr", "low", "high", "rank_low", "rank_high", "tier", "judge", "people", "labelled")
    headline = leader_words(result, " in scores as people would give them")
    columns, sections = columns_by_model(result, *names), (judged_section(result),)
    size = counted(len(result.models), "model")
    return view_of_sections(result, "A judge beside people", headline, sections, columns, size=size)


def judged_section(result: JudgedScores) -> Section:
    """Corrected scores, and how far the judge is from people."""
    n = int(np.median(result.labelled))
    gain = float(np.nanmedian(result.gain)) if np.isfinite(result.gain).any() else float("nan")
    sentences = [
        leader_words(result, " in scores as people would give them"),
        f"People scored {n:,} answers per model (median), the judge {int(np.median(result.answers)):,}; the "
        "correction is valid for any judge if those answers are a random sample.",
    ]
    if result.cluster:
        sentences.append(f"Intervals and tests are clustered by {result.cluster}.")
    if math.isfinite(gain):
        sentences.append(f"With the judge, one score by people is worth {formatting.number(gain, 2)} (median).")
    if math.isfinite(result.same_bias):
        same = "is not the same for all models" if result.same_bias <= 0.05 else "is not shown to differ by model"
        sentences.append(f"The judge's bias {same} (p = {formatting.p_value(result.same_bias)}).")
    columns: dict[str, Any] = {
        "model": result.models,
        f"corrected, % ({formatting.level(result.confidence)} interval)": formatting.aligned(
            result.estimates[:ROWS], scale=100
        ),
        "ranks": rank_sets_of(result),
        "judge, %": percents(result.judge),
        "people, %": percents(result.people),
        "judge − people, points": [formatting.signed(item, unit="") for item in result.bias],
        "scored by people": result.labelled,
    }
    chart = ranked_chart(result, "Scores as people would give them", sentences[0], x_title="corrected score")
    return Section(
        "The judge corrected by people",
        tuple(sentences),
        charts=(chart,),
        tables=(table_of_columns("Models", columns, ROWS),),
        key="judge",
        short="Judge",
        methods=JUDGE_METHODS,
    )
