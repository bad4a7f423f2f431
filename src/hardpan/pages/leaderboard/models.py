"""Rankings, paired comparisons, and scores on another set."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

from hardpan.errors import counted, few
from hardpan.estimates import Estimate
from hardpan.leaderboard.pairs import PairedComparison
from hardpan.leaderboard.prediction import AgreementLine, Inflation
from hardpan.leaderboard.ranking import FEW_SHARED, Ranking
from hardpan.pages import formatting
from hardpan.pages.field_views import view
from hardpan.pages.sections import Chart, Section, Table, View, fields_of, table_of_columns
from hardpan.report import Provenance, versions_of
from hardpan.tables import csv_text

CHART_ROWS = 24
ROWS = 100  # of a table on a page; to_frame has all of them
PAIRED = (
    "All pairs of models are tested on the items that both have and corrected by Holm. A model's rank set is "
    "[1 + number significantly better, M − number significantly worse]; all rank sets together contain the "
    "true ranks with the stated confidence. A tier is a model and those not separated from it.",
    "Clustered standard error: SE² = G/(G−1) Σ_g (Σ_{i∈g}(s_i − s̄))²/n²; intervals use Student's t with G − 1 "
    "degrees of freedom and the delete-a-group jackknife. Which standard error is right depends on the "
    "question: clustered, as here where items come in groups, if the groups are a sample of groups; naive "
    "(--group '') for these groups as they are.",
)
UNPAIRED = (
    "Only counts of right answers are known, not which items they are: models are compared as independent samples. "
    "All pairs are tested by Fisher's exact test (with over 1,000 right and wrong ones by the pooled normal "
    "test), corrected by Holm; rank sets and tiers follow from the separated pairs. Intervals are exact below "
    "300 answers, or with few right or wrong ones, else normal.",
)
CITATIONS = (
    "Miller, Adding error bars to evals: a statistical approach to language model evaluations (2024).",
    "Mogstad, Romano, Shaikh and Wilhelm, Inference for ranks with applications to mobility (2024).",
)
INFLATION_METHODS = (
    "Per model: the probit line of the others with the slope corrected for noise in the reference scores; "
    "SE² = scatter + Var(y) + slope² Var(x) + line, Student's t with M − 3 degrees of freedom, one-sided, "
    "Holm over the models.",
)


def scores_read_sections(notes: tuple[str, ...], files: tuple[tuple[str, ...], ...] = ()) -> tuple[Section, ...]:
    """How the scores were read: metric and filter, rows dropped, answers not parsed; which files."""
    columns = (
        dict(zip(("file", "read as", "version", "date"), zip(*files, strict=True), strict=True)) if files else {}
    )
    kept = {name: cells for name, cells in columns.items() if any(cells)}
    folded = (table_of_columns("Files", kept, ROWS),) if kept else ()
    return (
        (Section("How the scores were read", notes, folded=folded, key="input", short="Input"),)
        if notes or kept
        else ()
    )


def percents(values: Any) -> list[float]:
    """Fractions in percent, rounded."""
    return [round(100 * float(value), 1) for value in values]


def interval_marks(
    names: Iterable[str], estimates: Iterable[Estimate], further: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, Any], ...]:
    """Rows of a chart: a name, an estimate, and further fields; models without a value are left out."""
    cells = zip(names, estimates, further, strict=True)
    return tuple({"name": n} | fields_of(e) | dict(more) for n, e, more in cells if math.isfinite(e.value))


def columns_by_model(result: Any, *names: str) -> dict[str, Any]:
    """Columns of a frame: the models, and these arrays of a result."""
    return {"model": result.models, **{name: getattr(result, name) for name in names}}


def view_of_sections(
    result: Any,
    title: str,
    headline: str,
    sections: Sequence[Section],
    columns: Mapping[str, Any],
    *,
    wide: Sequence[Section] = (),
    file: str = "",
    citations: tuple[str, ...] = (),
    **further: Any,
) -> View:
    """The view of a result of scores: its sections, and how the scores were read.

    Args:
        result: with ``notes``, ``source`` and ``seed`` where it has them.
        title: of the page.
        headline: the finding.
        sections: of the page and the terminal; their methods are those of the page.
        columns: of ``to_frame``.
        wide: sections that a terminal does not show.
        file: name of a CSV file with the columns beside the page.
        citations: the papers it rests on.
        **further: fields of :class:`View`.
    """
    methods = dict.fromkeys(method for section in sections for method in section.methods)
    versions, seed = versions_of("numpy", "scipy"), getattr(result, "seed", 0)
    return View(
        title,
        headline,
        (*sections, *wide, *scores_read_sections(getattr(result, "notes", ()))),
        terminal=tuple(sections),
        provenance=Provenance(tuple(methods), citations, seed=seed, versions=versions),
        columns=columns,
        **{
            "name": PurePath(getattr(result, "source", "")).name,
            "downloads": {file: csv_text(columns)} if file else {},
        }
        | further,
    )


def rank_sets_of(result: Any) -> list[str]:
    """The rank sets of a result with ``rank_low`` and ``rank_high``."""
    return [f"{low}–{high}" for low, high in zip(result.rank_low, result.rank_high, strict=True)]


def first_tier_of(result: Any) -> int:
    """How many models from the top are in tier 1 before the first that is not."""
    other = np.flatnonzero(result.tier != 1)
    return int(other[0]) if other.size else len(result.models)


def ranked_chart(result: Any, title: str, description: str, **options: Any) -> Chart:
    """Models with intervals and rank sets, the first tier shaded."""
    further = [
        {"tier": 1 if tier == 1 else 2, "note": note}
        for tier, note in zip(result.tier, rank_sets_of(result), strict=True)
    ]
    rows = interval_marks(result.models, result.estimates, further)[:CHART_ROWS]
    return Chart("ranking", title, rows, description, {"note_title": "ranks", **options})


def leader_words(result: Any, what: str = "") -> str:
    """Who is ahead, or how many cannot be separated, from ``models``, ``tier`` and ``confidence``."""
    m, tied = len(result.models), first_tier_of(result)
    sure = f"{formatting.level(result.confidence)} confidence"
    if m == 1:
        return f"{result.models[0]} is the only model{what}."
    if tied == 1:
        others = "all other models" if m > 2 else result.models[1]
        return f"{result.models[0]} is ahead of {others}{what} ({sure})."
    if tied == m:
        who = "The two models cannot" if m == 2 else f"None of the {m:,} models can"
        return f"{who} be separated{' from the first' if m > 2 else ''}{what} ({sure})."
    return f"The first {tied:,} of {m:,} models cannot be separated{what} ({sure})."


@view.register
def _ranking_view(result: Ranking) -> View:
    names = ("score", "stderr", "stderr_clustered", "low", "high", "rank_low", "rank_high", "tier", "items")
    columns = columns_by_model(result, *names)
    if result.failures is not None:
        columns |= {"failures": result.failures, "other_score": result.other_score}
    return view_of_sections(
        result,
        "Leaderboard ranking",
        ranking_headline(result),
        (ranking_section(result),),
        columns,
        wide=(pairs_section(result),),
        file="ranking.csv",
        citations=CITATIONS,
        size=f"{counted(len(result.models), 'model')}, {counted(result.n_items, 'item')}",
        links={"ranking.csv": "ranking.csv"},
    )


def _ranking_power(result: Ranking) -> str:
    """What one planned comparison finds, and what the ranking of all models needs."""
    these, ranked = f"these {result.n_items:,} items", result.smallest_difference_ranked
    if not result.smallest_difference < 1:
        return f"One planned comparison of two models finds no difference reliably with {these} (80 % power)"
    least = formatting.in_points(result.smallest_difference)
    first = f"One planned comparison of two models finds {least} with {these}"
    if len(result.models) == 2 or math.isnan(ranked):  # an earlier file does not have it
        return f"{first} (80 % power)"
    needs = f"needs {formatting.in_points(ranked)}" if ranked < 1 else "finds none"
    return f"{first}; this ranking of {len(result.models):,} {needs} (80 % power)"


def ranking_headline(result: Ranking) -> str:
    """The sentence that an owner of the leaderboard would quote."""
    m, tied = len(result.models), result.first_tier
    if m == 1:
        score = formatting.estimate(result.estimates[0])
        return f"{result.models[0]} scores {score} on {counted(result.n_items, 'item')}."
    if result.unconnected and tied == m:
        if m == 2:
            return "The two models share no items: nothing can be said about their order."
        return f"Some of the {m:,} models share no items with the others, even indirectly: their order is unknown."
    detect, confidence = _ranking_power(result), formatting.level(result.confidence)
    where = f" on further groups like these {result.groups:,} ({result.cluster})" if result.cluster else ""
    if tied == 1:
        lead = formatting.plain(result.lead, 100, "points") if math.isfinite(result.lead.value) else ""
        if m == 2:
            start = f"{result.models[0]} is ahead of {result.models[1]}{where}"
            start += f" by {lead}, {confidence} confidence" if lead else f" ({confidence} confidence)"
        else:
            start = f"{result.models[0]} is ahead of all {m - 1:,} other models{where} ({confidence} confidence"
            start += f"; {lead} before {result.models[1]})" if lead else ")"
        return f"{start}. {detect}."
    who = f"None of the {m:,} models" if tied == m else f"The first {tied:,} of {m:,} models"
    verb = "can be separated from the first" if tied == m else "cannot be separated"
    if tied == m == 2:
        who, verb = "The two models", "cannot be separated"
    elif tied < m and result.separated_at_top:  # the others of the first tier differ among themselves
        who = f"{int(result.rank_high[0]) - 1:,} of the {m - 1:,} other models"
        verb = f"cannot be separated from {result.models[0]}"
    return f"{who} {verb}{where}. {detect}."


def ranking_section(result: Ranking) -> Section:
    """The ranking: sentences, table, warnings."""
    m = len(result.models)
    sentences = []
    test = "McNemar’s exact test" if result.exact else "paired tests"
    if m > 1:
        sentences.append(
            f"{result.separated:,} of {m * (m - 1) // 2:,} pairs of models are separated at "
            f"{100 * result.confidence:g} % confidence for all pairs together "
            f"({'unpaired tests' if result.unpaired else test}, Holm)."
        )
    if result.unpaired:
        sentences.append(
            "The comparison is unpaired: only the number of right answers of each model is known. With scores per "
            "item the same models can be compared on the same items."
        )
    elif result.repeats == 1:
        sentences.append("Every item was run once: how much a model's score differs between runs is not known.")
    if m > 1 and math.isfinite(result.items_needed) and result.first_tier > 1 and result.lead.value > 0:
        sentences.append(
            f"{result.models[0]} leads {result.models[1]} by {formatting.plain(result.lead, 100, 'points')}"
            f"{' on the items that both have' if result.complete < m else ''}; with a correction for all pairs it "
            f"takes about {formatting.round_up(result.items_needed)} items like these to separate two models that "
            "differ by so much (80 % power)."
        )
    known = np.isfinite(result.stderr_clustered) & (result.stderr > 0)
    if known.any():
        ratio = np.median(result.stderr_clustered[known] / result.stderr[known])
        sentences.append(
            f"Intervals, tests and ranks are for further groups like these {result.groups:,} ({result.cluster}): "
            f"clustered standard errors are {ratio:.1f} times those of independent items."
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
    warnings = [f"{title}. {detail}".removesuffix(" ") for title, detail in failed_answer_lines(result)]
    if result.complete < m and not result.unconnected:
        warnings.append(
            f"{m - result.complete:,} of {m:,} models lack some of the {result.n_items:,} items: pairs "
            "are compared on shared items, and scores are adjusted for the items that a model lacks."
        )
    if result.few_shared:
        warnings.append(
            f"{counted(result.few_shared, 'pair')} of models share fewer than "
            f"{min(FEW_SHARED, result.n_items):,} items and can hardly "
            "be compared; their rank sets are wide."
        )
    if result.unconnected:
        warnings.append(
            "Some models share no items with the others, even indirectly: their order means nothing, and every "
            "score is that of the model's own items."
        )
    warnings += _group_warnings(result)
    return Section(
        "Ranking",
        tuple(sentences),
        charts=(ranking_chart(result),),
        tables=(ranking_table(result),),
        warnings=tuple(warnings),
        key="ranking",
        methods=UNPAIRED if result.unpaired else PAIRED,
    )


def failed_answer_lines(result: Ranking) -> list[tuple[str, str]]:
    """Titles and details on answers without a score: how many by model, and whether they decide the order."""
    if result.failures is None or result.other_score is None:
        return []
    order = np.argsort(-result.failures, kind="stable")
    by_model = few([f"{result.models[row]} {result.failures[row]:,}" for row in order if result.failures[row]], 4)
    wrong, missing = "count as wrong", "are left out"
    treated, other = (wrong, missing) if result.failed_as == "wrong" else (missing, wrong)
    option = f"With --unparsed {'missing' if result.failed_as == 'wrong' else 'wrong'} they {other}."
    answers = counted(int(result.failures.sum()), "answer")
    lines = [(f"{answers} without a score {treated}: {by_model}", option)]
    now, then = (np.nan_to_num(values, nan=-1.0) for values in (result.score, result.other_score))
    moved = np.argwhere((now[:, None] > now) & (then[:, None] < then))
    if len(moved):
        behind, ahead = (f"{result.models[row]} {100 * then[row]:.1f} %" for row in moved[0])
        detail = f"{counted(len(moved), 'pair')} of models would be in the other order: {ahead} before {behind}."
        lines.append((f"The order of models changes if answers without a score {other}", detail))
    return lines


def ranking_table(result: Ranking, rows: int = ROWS) -> Table:
    """One row per model, best first."""
    scores = formatting.aligned(result.estimates[:rows], scale=100)
    columns: dict[str, Any] = {
        "model": result.models,
        f"score, % ({formatting.level(result.confidence)} interval)": scores,
        "standard error": [formatting.points(value, "", 2) for value in result.stderr],
    }
    if result.cluster:
        clustered = [formatting.points(value, "", 2) for value in result.stderr_clustered]
        columns[f"clustered by {result.cluster}"] = clustered
    columns |= {"ranks": rank_sets_of(result), "tier": result.tier, "items": result.items}
    if result.failures is not None:
        columns["without a score"] = result.failures
    return table_of_columns("Models", columns, rows)


def ranking_chart(result: Ranking) -> Chart:
    """Dots with intervals, the first tier shaded, rank sets at the right."""
    tied = result.first_tier  # a model with few items may be in tier 1 further down
    further = [{"tier": 1 if i < tied else 2, "note": note} for i, note in enumerate(rank_sets_of(result))]
    more = f" (the first {CHART_ROWS} of {len(result.models):,})" if len(result.models) > CHART_ROWS else ""
    best = f"{result.models[0]} has the highest score, {100 * result.score[0]:.1f} %."
    note = {"note": f"Shaded: not separated from {result.models[0]}."} if 1 < tied < len(result.models) else {}
    return Chart(
        "ranking",
        f"Scores with {100 * result.confidence:g} % intervals and possible ranks{more}",
        interval_marks(result.models, result.estimates, further)[:CHART_ROWS],
        f"{best} The shaded models are not separated from it.",
        {"x_title": "score", "note_title": "ranks"} | note,
    )


def separated_pairs_charts(result: Ranking) -> tuple[Chart, ...]:
    """By how much the first models are ahead of those that they are separated from; none where no pair is."""
    pairs = result.pairs
    ahead = (pairs.p_holm <= 1 - result.confidence) & (pairs.difference > 0)
    if len(pairs.models) < 3 or not ahead.any():
        return ()
    numbers = [f"{position + 1} {name}" for position, name in enumerate(pairs.models)]
    rows = tuple(
        {"row": label, "column": str(j + 1), "value": float(pairs.difference[i, j]) if ahead[i, j] else None}
        for i, label in enumerate(formatting.short_names(numbers))
        for j in range(len(numbers))
    )
    words = f"{int(ahead.sum())} pairs of the first {len(numbers)} models are separated; empty cells are not."
    title = f"Points ahead, pairs that are separated ({formatting.level(result.confidence)})"
    return (Chart("matrix", title, rows, words, {"x_title": "behind: the model with this number", "y_title": ""}),)


def _group_warnings(result: Ranking | PairedComparison) -> list[str]:
    warnings = []
    if result.cluster and result.few_groups:
        warnings.append(f"Only {result.groups} groups: clustered intervals are approximate below 20 groups.")
    if result.cluster and result.large_group:
        warnings.append("One group has more than a tenth of the items: clustered intervals are approximate.")
    return warnings


def pairs_section(result: Ranking) -> Section:
    """Paired differences of the first models."""
    pairs, names = result.pairs, result.pairs.models
    marks = np.where(pairs.p_holm <= 1 - result.confidence, "*", "")
    columns: dict[str, Any] = {"model": [f"{i + 1} {name}" for i, name in enumerate(names)]}
    for j in range(len(names)):
        cells = zip(pairs.difference[:, j], marks[:, j], strict=True)
        columns[str(j + 1)] = [
            "" if i == j else formatting.points(value) + (mark if math.isfinite(value) else "")
            for i, (value, mark) in enumerate(cells)
        ]
    where = "" if result.unpaired else " on the items both have"
    return Section(
        f"{'Differences' if result.unpaired else 'Paired differences'} of the first models",
        (f"Each cell is the row's score minus the column's{where}; * marks separated pairs (Holm).",),
        tables=(table_of_columns("Row minus column, points", columns),) if len(names) > 1 else (),
        key="pairs",
        short="Pairs",
    )


@view.register
def _paired_comparison_view(result: PairedComparison) -> View:
    d = result.difference
    sentences = [
        f"{result.first} − {result.second}: {formatting.signed(d)}.",
        f"{result.first} scores {100 * result.score_first:.1f} %, {result.second} "
        f"{100 * result.score_second:.1f} %; {result.first} is better on {result.only_first:,} items, "
        f"{result.second} on {result.only_second:,}.",
    ]
    exact = " (McNemar’s exact test)" if result.p_value == result.mcnemar else ""
    sentences.append(f"Interval: {d.method}; p = {formatting.p_value(result.p_value)}{exact}.")
    if math.isfinite(result.stderr_clustered):
        sentences.append(
            f"Standard error {100 * result.stderr_clustered:.2f} points, clustered by {result.cluster} "
            f"({result.groups:,} groups); {100 * result.stderr:.2f} with independent items."
        )
    if math.isfinite(result.items_needed) and d.low <= 0 <= d.high:
        sentences.append(
            f"About {formatting.round_up(result.items_needed)} items like these would detect a difference of this "
            "size (80 % power)."
        )
    warnings = []
    if result.missing:
        warnings.append(f"{counted(result.missing, 'item')} that one of the models lacks are not used.")
    warnings += _group_warnings(result)
    columns = {"item": result.differing, result.first: result.scores[:, 0], result.second: result.scores[:, 1]}
    table = table_of_columns("Items on which they differ", columns, ROWS)
    section = Section(
        "Paired difference",
        tuple(sentences),
        warnings=tuple(warnings),
        folded=(table,),
        methods=PAIRED[1:],
    )
    first, second = result.scores.T
    frame = {"item": result.differing, "score_first": first, "score_second": second, "difference": first - second}
    title, size = f"{result.first} and {result.second}", counted(result.items, "shared item")
    headline = _paired_comparison_headline(result)
    return view_of_sections(result, title, headline, (section,), frame, citations=CITATIONS[:1], size=size)


def _paired_comparison_headline(result: PairedComparison) -> str:
    d = result.difference
    ahead, behind = (result.first, result.second) if d.value >= 0 else (result.second, result.first)
    if d.low > 0 or d.high < 0:
        lead = Estimate(abs(d.value), d.stderr, min(abs(d.low), abs(d.high)), max(abs(d.low), abs(d.high)))
        by = formatting.plain(lead, 100, "points")
        return f"{ahead} is better than {behind} by {by} on {result.items:,} shared items."
    headline = f"{result.first} and {result.second} cannot be separated on {result.items:,} shared items: "
    headline += formatting.signed(d)
    least = result.smallest_difference
    return headline + (
        f"; this test finds {formatting.in_points(least)} with 80 % power." if 0 < least < 1 else "."
    )


@view.register
def _inflation_view(result: Inflation) -> View:
    sentences = [
        f"Line on the probit scale: slope {result.slope:.2f} (uncorrected for noise "
        f"{result.slope_uncorrected:.2f}), offset {formatting.fixed(result.offset, 2, '+')}; "
        f"{100 * result.noise_share:.0f} % of the spread of the reference scores is noise.",
        "An excess can mean contamination, tuning on this test set, or skills that the reference set does not "
        "measure.",
    ]
    outside = int(result.outside.sum())
    if outside:
        verb = "lies" if outside == 1 else "lie"
        sentences.append(
            f"{counted(outside, 'model')} {verb} outside the range of the others on the reference set "
            "and cannot be judged."
        )
    verdicts = np.where(result.outside, "outside", np.where(result.inflated, "inflated", ""))
    columns = {
        "model": result.models,
        "score, %": percents(result.score),
        "reference, %": percents(result.reference_score),
        "predicted, %": percents(result.predicted),
        "excess, points": [formatting.signed(item, unit="") for item in result.estimates],
        "p (Holm)": [float(f"{p:.2g}") for p in result.p_holm],
        "verdict": verdicts,
    }
    roles = [{"role": "left out" if inflated else "in the fit"} for inflated in result.inflated]
    chart = Chart(
        "deviations",
        "Score minus what the reference set predicts",
        interval_marks(result.models, result.estimates, roles)[:CHART_ROWS],
        _inflation_headline(result),
        {"x_title": "excess"},
    )
    section = Section(
        "Score against the reference set",
        tuple(sentences),
        charts=(chart,),
        tables=(table_of_columns("Models", columns, ROWS),),
        methods=INFLATION_METHODS,
    )
    arrays = ("score", "reference_score", "predicted", "excess", "low", "high", "p_value", "p_holm")
    frame = columns_by_model(result, *arrays, "inflated", "outside")
    size = f"{len(result.models):,} models, {result.items:,} and {result.reference_items:,} items"
    headline = _inflation_headline(result)
    return view_of_sections(result, "Scores against a reference set", headline, (section,), frame, size=size)


def _inflation_headline(result: Inflation) -> str:
    flagged = [name for name, bad in zip(result.models, result.inflated, strict=True) if bad]
    if flagged:
        which = formatting.listed(flagged[:5]) + (f" and {len(flagged) - 5} more" if len(flagged) > 5 else "")
        return (
            f"{which} score{'s' if len(flagged) == 1 else ''} higher than the reference set predicts, beyond "
            f"chance ({100 * result.confidence:g} % confidence for all {len(result.models)} models together)."
        )
    return (
        f"No model of {len(result.models)} scores higher than the reference set predicts, beyond chance "
        f"({100 * result.confidence:g} % confidence for all together)."
    )


@view.register
def _agreement_line_view(result: AgreementLine) -> View:
    drop = float((result.accuracy - result.estimate).mean())
    word = "lower" if drop >= 0 else "higher"
    headline = (
        f"Estimate under an assumption: on the unlabelled set the {len(result.models)} models are "
        f"{100 * abs(drop):.1f} points {word} on average, if they share errors equally on both sets."
    )
    sentences = [
        f"Line of pairwise agreements on the probit scale: slope {result.slope:.2f} ± "
        f"{result.slope_stderr:.2f}, offset {formatting.fixed(result.offset, 2, '+')}, r² {result.r2:.3f}.",
        "Intervals contain the sampling of both sets' examples and a transfer error of "
        f"{100 * result.transfer_error:.1f} points (one standard error) for the assumption, which cannot be "
        "tested without labels.",
    ]
    warnings = []
    if result.r2 < 0.9:
        warnings.append("The agreements do not lie on a line (r² below 0.9): the method does not apply here.")
    level = formatting.level(result.confidence)
    columns = {
        "model": result.models,
        "labelled set, %": percents(result.accuracy),
        f"unlabelled set, % ({level} interval)": formatting.aligned(result.estimates[:ROWS], scale=100),
    }
    notes = [{"note": f"{100 * value:.1f}"} for value in result.accuracy]
    chart = Chart(
        "ranking",
        f"Estimated accuracy with {level} intervals; at the right the labelled set",
        interval_marks(result.models, result.estimates, notes)[:CHART_ROWS],
        headline,
        {"x_title": "accuracy on the unlabelled set", "note_title": "labelled set, %"},
    )
    section = Section(
        "Estimated accuracies",
        tuple(sentences),
        charts=(chart,),
        tables=(table_of_columns("Models", columns, ROWS),),
        warnings=tuple(warnings),
    )
    return View(
        title="Accuracy on an unlabelled set",
        headline=headline,
        sections=(section,),
        provenance=Provenance(
            method=section.sentences[1:],
            citations=("Baek, Jiang, Raghunathan and Kolter, Agreement-on-the-line (2022).",),
            seed=result.seed,
            versions=versions_of("numpy", "scipy"),
        ),
        columns=columns_by_model(result, "accuracy", "estimate", "stderr", "low", "high"),
        size=f"{result.examples_old:,} labelled and {result.examples_new:,} unlabelled examples",
    )
