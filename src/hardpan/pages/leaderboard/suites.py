"""Suites of tasks, several runs, and what scores cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from hardpan.errors import counted, few
from hardpan.leaderboard.costs import Amount, Amounts
from hardpan.leaderboard.ranking import Ranking
from hardpan.leaderboard.repeated_runs import Runs
from hardpan.leaderboard.suites import Suite
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
from hardpan.pages.sections import Chart, ProblemLine, Section, View, table_of_columns

SUITE_METHODS = (
    "Average A = Σ_t w_t s̄_t over fixed tasks; Var(A) = Σ_t w_t² SE_t², with items (or clusters of items) as "
    "samples within tasks; differences of two models likewise, on paired items. Student's t with Satterthwaite's "
    "degrees of freedom; all pairs are corrected by Holm.",
)
RUN_METHODS = (
    "pass@k = mean over items of 1 − C(n−c, k)/C(n, k), pass^k = mean of C(c, k)/C(n, k), with c of n runs right: "
    "both are unbiased. The effect of a whole run is the random effect of the two-way analysis of variance (runs, "
    "items), joined over the models; runs of one number are taken as one whole run.",
)
AMOUNT_METHODS = (
    "Means have bootstrap-t intervals over the items. They are an approximation: no interval of a mean without a "
    "range is valid for every distribution. Ranks: paired t-tests of the means, Holm. As good: the one-sided lower "
    "limit of the paired difference of the scores, corrected for all models (Bonferroni), is above −margin.",
)
FEWEST_TASKS = 5  # from which the spread between them says something about further tasks
UNITS = {"cost": "cost", "duration": "duration", "tokens": "tokens", "loss": "loss", "score": "score"}


@view.register
def _suite_view(result: Suite) -> View:
    names = ("score", "stderr", "stderr_tasks", "low", "high", "rank_low", "rank_high", "tier", "pooled")
    columns = columns_by_model(result, *names)
    columns |= {task: result.task_scores[:, k] for k, task in enumerate(result.tasks) if task not in columns}
    tasks = counted(len(result.tasks), "task")
    headline, size = (
        leader_words(result, f" in the average over these {tasks}"),
        f"{counted(len(result.models), 'model')}",
    )
    sections, title = (suite_section(result),), "Average over tasks"
    return view_of_sections(result, title, headline, sections, columns, file="suite.csv", size=f"{size}, {tasks}")


def suite_section(result: Suite) -> Section:
    """The average over tasks: ranks, and the tasks that decide them."""
    t, m, equal = len(result.tasks), len(result.models), bool(np.ptp(result.weights) < 1e-9)
    weights = "equal weights" if equal else "the weights of the table"
    which = f"in the average over {counted(t, 'task')} with {weights}"
    sentences = [leader_words(result, f" {which}")]
    if m > 1:
        sentences.append(f"{result.separated:,} of {m * (m - 1) // 2:,} pairs of averages are separated.")
    if t >= FEWEST_TASKS:
        sentences.append(
            f"Errors are for further items of these tasks: {formatting.points(result.stderr[0], '', 2)} points for "
            f"{result.models[0]}; for further tasks of the same kind "
            f"{formatting.points(result.stderr_tasks[0], '', 2)} points."
        )
    decisive = [name for name, moved in zip(result.tasks, result.moved, strict=True) if moved]
    other = [
        f"{first} without {task}"
        for task, first in zip(result.tasks, result.first_without, strict=True)
        if first and first != result.models[0]
    ]
    if m > 1 and t > 1:
        sentences.append(f"Another model is first if one task is left out: {few(other, 4)}." if other else "")
        sentences.append(
            f"Leaving out one of {few(decisive, 4)} changes the order of some models."
            if decisive
            else "Leaving out any one task changes the order of no two models."
        )
    if math.isfinite(result.run_stderr):
        sentences.append(
            f"The errors include the effect of whole runs on the average, standard deviation "
            f"{formatting.points(result.run_stderr, '', 2)} points, over {result.runs} runs."
        )
    columns: dict[str, Any] = {
        "model": result.models,
        f"average, % ({formatting.level(result.confidence)} interval)": formatting.aligned(
            result.estimates[:ROWS], scale=100
        ),
        "standard error": [formatting.points(value, "", 2) for value in result.stderr],
        "ranks": rank_sets_of(result),
        "tier": result.tier,
        "all items pooled, %": percents(result.pooled),
    }
    tasks: dict[str, Any] = {
        "task": result.tasks,
        "weight, %": percents(result.weights),
        "items": result.sizes,
        f"{result.models[0]}, %": percents(result.task_scores[0]),
    }
    if m > 1:
        tasks |= {
            f"adds to the lead over {result.models[1]}, points": [
                formatting.points(x, "+", 2) for x in result.lead
            ],
            "pairs in another order without it": result.moved,
            "first without it": result.first_without,
        }
    warnings = []
    if result.lacking:
        lack = f"{counted(len(result.lacking), 'model')} without items of some task"
        warnings.append(f"{lack}: no average, not ranked here ({few(result.lacking, 4)}).")
    chart = ranked_chart(result, f"Average over {counted(t, 'task')}", sentences[0], x_title="average over tasks")
    return Section(
        "Average over tasks",
        tuple(filter(None, sentences)),
        charts=(chart,),
        tables=(table_of_columns("What each task does to the order", tasks, ROWS),),
        folded=(table_of_columns("Averages", columns, ROWS),),
        warnings=tuple(warnings),
        key="suite",
        short="Tasks",
        methods=SUITE_METHODS,
    )


def suite_problem_lines(suite: Suite, ranking: Ranking) -> Iterator[ProblemLine]:
    """Whether pooled items and the average over tasks have another first model."""
    if suite.models[0] != ranking.models[0] and ranking.models[0] in suite.models:
        title = f"{suite.models[0]} leads the average over tasks, {ranking.models[0]} leads all items pooled"
        detail = "Large tasks count more where items are pooled: state which of the two is meant."
        yield ProblemLine("task-weights", "medium", title, detail, link="#suite", link_text="tasks")


@view.register
def _runs_view(result: Runs) -> View:
    columns: dict[str, Any] = {"model": result.models, "runs": result.runs}
    for name, values in (("pass@", result.passed), ("pass^", result.all_passed)):
        columns |= {f"{name}{k}": values[:, i] for i, k in enumerate(result.k)}
    columns |= {name: getattr(result, name) for name in ("flaky", "differing", "run_spread")}
    section = runs_section(result)
    size = f"{counted(len(result.models), 'model')}, up to {int(result.runs.max())} runs"
    return view_of_sections(result, "Several runs", f"{section.title}.", (section,), columns, size=size)


def runs_section(result: Runs) -> Section:
    """Pass@k, flaky items, whole runs."""
    title = "Differences between runs"
    if math.isfinite(result.noise):
        title = f"Two runs of one model differ by up to {formatting.in_points(result.noise)} (95 % of pairs)"
    effect, sentences = result.run_effect, []
    if math.isfinite(effect.value):
        limit = f"{formatting.points(effect.low, '', 2)} to {formatting.points(effect.high, '', 2)}"
        verdict = "An effect of whole runs is seen" if result.p_value <= 0.05 else "No effect of whole runs is seen"
        sentences.append(
            f"{verdict} beyond independent answers (p = {formatting.p_value(result.p_value)}). Its standard "
            f"deviation is {formatting.points(effect.value, '', 2)} points ({limit}), taken as equal for all "
            "models. More items do not reduce it, more runs do."
        )
    if not len(result.k):
        sentences.append("pass@k needs scores of right and wrong.")
    columns: dict[str, Any] = {"model": result.models, "runs": result.runs}
    for name, values, low, high in (
        ("pass@", result.passed, result.passed_low, result.passed_high),
        ("pass^", result.all_passed, result.all_passed_low, result.all_passed_high),
    ):
        for column, k in enumerate(result.k.tolist()):
            if k == result.k[-1] > 1 or (name == "pass@" and k == 1):
                columns[f"{name}{k}, %"] = [
                    formatting.percent_range(a, b).removesuffix(" %") if math.isnan(v) else _share(v, a, b)
                    for v, a, b in zip(values[:, column], low[:, column], high[:, column], strict=True)
                ]
    columns |= {
        "flaky items, %": percents(result.flaky),
        "two runs differ, %": percents(result.differing),
        "run SD, points": [formatting.points(value, "", 2) for value in result.run_spread],
    }
    level = formatting.level(result.confidence)
    return Section(
        title,
        tuple(sentences),
        tables=(table_of_columns(f"Runs ({level} intervals over items)", columns, ROWS),),
        key="runs",
        short="Runs",
        methods=RUN_METHODS,
    )


def _share(value: float, low: float, high: float) -> str:
    return f"{100 * value:.1f} ({100 * low:.1f}–{100 * high:.1f})"


@view.register
def _amounts_view(result: Amounts) -> View:
    first = result.amounts[0]
    columns: dict[str, Any] = {"amount": [a.name for a in result.amounts for _ in a.models]}
    columns["model"] = [model for a in result.amounts for model in a.models]
    for name in ("mean", "stderr", "low", "high", "median", "trimmed", "rank_low", "rank_high", "tier", "items"):
        columns[name] = np.concatenate([getattr(a, name) for a in result.amounts])
    return view_of_sections(
        result,
        "Costs and times" if result.trade_offs else "Scores without a range",
        _front_headline(result) or leader_words(first, f" by mean {UNITS.get(first.name, first.name)}"),
        tuple(amount_sections(result)),
        columns,
        file="amounts.csv",
        size=counted(len(first.models), "model"),
    )


def _front_headline(result: Amounts) -> str:
    """The cheapest model that is as good as the best one, by the first amount."""
    name = result.amounts[0].name
    rows = [trade for trade in result.trade_offs if trade.amount == name]
    good = [trade for trade in rows if trade.as_good and trade.model != result.best and trade.ratio.value < 1]
    if not rows:
        return ""
    margin = formatting.in_points(result.margin)
    if good:
        best = good[0]
        return (
            f"{best.model} is as good as {result.best} within {margin}, at {formatting.estimate(best.ratio)} of "
            f"its {name}."
        )
    return f"No model with a lower {name} than {result.best} is shown to be as good within {margin}."


def amount_sections(result: Amounts) -> Iterator[Section]:
    """One section per amount: means beside medians, and the Pareto front with the scores."""
    for amount in result.amounts:
        trades = [trade for trade in result.trade_offs if trade.amount == amount.name]
        word = UNITS.get(amount.name, amount.name)
        sentences = [leader_words(amount, f" by mean {word}")]
        sentences.append("Intervals of means are an approximation (bootstrap-t).")
        charts: tuple[Chart, ...] = ()
        tables = []
        if trades:
            front = [trade.model for trade in trades if trade.on_front]
            sentences.insert(0, f"No model has a higher score for less: {few(front, 6)}.")
            charts = (_front_chart(trades, word, result.best),)
            rows = {
                "model": [trade.model for trade in trades],
                "score, %": percents([trade.score for trade in trades]),
                f"mean {word}": [float(f"{trade.mean:.4g}") for trade in trades],
                f"of that of {result.best}, %": formatting.aligned([trade.ratio for trade in trades], scale=100),
                f"as good within {formatting.in_points(result.margin)}": [trade.as_good for trade in trades],
                "on the front": [trade.on_front for trade in trades],
            }
            tables.append(table_of_columns(f"Score and {word}", rows, ROWS))
        tables.append(table_of_columns(f"{formatting.capital(word)} per answer", _amount_columns(amount), ROWS))
        title = f"Score and {word}" if trades else f"{formatting.capital(word)}, lower is better"
        if not amount.lower_is_better:
            title = "Scores without a range"
        yield Section(
            title,
            tuple(sentences),
            charts=charts,
            tables=tuple(tables[:1]),
            folded=tuple(tables[1:]),
            key=amount.name,
            short=formatting.capital(word),
            methods=AMOUNT_METHODS,
        )


def _amount_columns(amount: Amount) -> dict[str, Any]:
    return {
        "model": amount.models,
        f"mean ({formatting.level(amount.confidence)} interval, approximate)": [
            formatting.plain(item) for item in amount.estimates
        ],
        "median": [float(f"{value:.4g}") for value in amount.median],
        "mean without the outer tenths": [float(f"{value:.4g}") for value in amount.trimmed],
        "ranks": rank_sets_of(amount),
        "tier": amount.tier,
        "items": amount.items,
    }


def _front_chart(trades: list[Any], word: str, best: str) -> Chart:
    rows = tuple(
        {
            "x": trade.mean,
            "y": trade.score,
            "name": trade.model,
            "role": "floor" if trade.on_front else "muted",
            "label": trade.model[:24] if trade.on_front else "",
        }
        for trade in trades
    )
    words = "Models by cost and score; coloured: no other model has a higher score for less."
    options = {"x_title": f"mean {word} per answer", "y_title": "score", "percent_y": True}
    return Chart("points", f"Score against {word}", rows, words, options)
