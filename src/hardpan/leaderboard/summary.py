"""The whole leaderboard in one result: ranking, items, keys, groups, and a shorter test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.execution.mapping import between, no_progress
from hardpan.files import record
from hardpan.leaderboard.costs import PEOPLE, Amounts, amounts
from hardpan.leaderboard.item_analysis import ItemFit, item_means, items
from hardpan.leaderboard.item_groups import task_column
from hardpan.leaderboard.judges import JudgedScores, judge
from hardpan.leaderboard.keys import FEWEST_MODELS, SuspectKeys, suspect_keys
from hardpan.leaderboard.pairs import Floats, column_blocks
from hardpan.leaderboard.ranking import Ranking, rank
from hardpan.leaderboard.repeated_runs import Runs, runs
from hardpan.leaderboard.short_tests import FOLDS, ShortTest, shorten
from hardpan.leaderboard.suites import Suite, suite
from hardpan.outcomes import Outcomes
from hardpan.report import Report
from hardpan.stats.intervals import mean as interval_of_mean
from hardpan.stats.intervals import share

PICTURE = (100, 400)  # rows and columns of the picture of all scores, at most
MOST_GROUPS = 12
MOST_ANSWERS = 6  # different ones to an item
TOP = 10
SHORT_ITEMS = 0.15
SHORTEST, MOST_SHORT_ITEMS = 40, 10_000
MOST_SUITE_MODELS = 500  # of which all pairs are tested in every task
MOST_CHOICES = 10  # different keys, up to which always giving one of them is a rule
FEWEST_KEYS = 20


@record(eq=False)
class GroupScores:
    """Scores of the best models by item group, (T, G); NaN where a model has no item of a group."""

    column: str
    groups: tuple[str, ...]
    sizes: NDArray[np.int64]
    models: tuple[str, ...]
    scores: Floats
    left_out: int


@record(eq=False)
class ReferenceFailures:
    """Items that a reference solution fails: nobody can be judged by them.

    Attributes:
        model: name of the reference, which is not ranked.
        items: ids of the items that it fails, those that most models pass first.
        score: (K,) its scores there.
        models_score: (K,) mean scores of the models there.
        n_items: number of items that it has.
        nobody: how many items no model passes, of all.
    """

    model: str
    items: NDArray[np.str_]
    score: Floats
    models_score: Floats
    n_items: int
    nobody: int


@record
class BlindBaseline:
    """What a rule that reads no question scores.

    Attributes:
        rule: what it answers: "the most frequent answer, 'B'", "the longest choice", "choice 2".
        score: its mean over the items with a key, or with choices.
        models_below: names of the models with at most this score on these items.
    """

    rule: str
    score: Estimate
    models_below: tuple[str, ...]


@record(eq=False)
class ItemAnswers:
    """What the models answered to an item, the most frequent answers first.

    Attributes:
        item: its id.
        question: what was asked; "" where logs do not say.
        key: the right answer; "" where logs do not say.
        answers: different answers; "" for those that logs do not have.
        scores: the score of each.
        models: who gave each, the best models first.
        texts: the whole answer or transcript of the first of them, where the log has it.
    """

    item: str
    question: str
    key: str
    answers: tuple[str, ...]
    scores: tuple[float, ...]
    models: tuple[tuple[str, ...], ...]
    texts: tuple[str, ...] = ()


@record(eq=False, dropped=("group_columns",))
class LeaderboardSummary(Report):
    """What the owner of a leaderboard needs on one page.

    Attributes:
        ranking: scores, ranks and tiers.
        fit: the item analysis; None with fewer than 2 models or equal scores.
        keys: suspect keys; None without any, as where answers are free text or models are few.
        short: a shorter test; None with fewer than 5 models, few items, or where held-out models contradict it.
        groups: scores by group of the best models; None without groups.
        picture: models (best first) × items (easiest first), averaged to at most 100 × 400 cells; NaN missing.
        source: where the scores come from.
        notes: what the reader of the scores reported.
        suite: the average over tasks; None with one task.
        runs: pass@k, flaky items and whole runs; None with one run per item.
        judge: scores as people would give them; None without a column of scores by people.
        amounts: costs, times and tokens beside the scores; None without such columns.
        reference: items that the reference solution fails; None without one.
        blind: what rules that read no question score; none without keys or choices.
        examples: the answers to items that look broken or wrongly keyed, or separate models least; of one model, to
            those with the lowest scores.
        files: what was read: file, harness, version and date, as far as logs have them.
    """

    ranking: Ranking
    fit: ItemFit | None
    keys: SuspectKeys | None
    short: ShortTest | None
    groups: GroupScores | None
    picture: Floats
    source: str = ""
    notes: tuple[str, ...] = ()
    suite: Suite | None = None
    runs: Runs | None = None
    judge: JudgedScores | None = None
    amounts: Amounts | None = None
    reference: ReferenceFailures | None = None
    blind: tuple[BlindBaseline, ...] = ()
    examples: tuple[ItemAnswers, ...] = ()
    files: tuple[tuple[str, ...], ...] = ()


def summarize(
    outcomes: object,
    *,
    group: str | None = None,
    model: str = "2pl",
    choices: int = 4,
    short_items: int | None = None,
    weights: Mapping[str, float] | None = None,
    reference: str | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
) -> LeaderboardSummary:
    """Rank the models, analyse the items and keys, and look for a shorter test: one result, one page.

    Args:
        outcomes: :class:`hardpan.Outcomes`, or what its ``open`` opens: scores of the models.
        group: as in :func:`hardpan.leaderboard.rank`.
        model: item response model: "rasch", "2pl" or "3pl".
        choices: number of choices per item, for "3pl".
        short_items: number of items of the shorter test; default: 15 % of all, at most 10,000.
        weights: of every task in the average over tasks; by default equal.
        reference: the model that is a reference solution: it is not ranked, and items that it fails are listed.
        confidence: level of intervals and rank sets.
        seed: of everything random.
        progress: called with a step and the fraction done.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p = 1 / (1 + np.exp(-(np.linspace(-1, 1, 8)[:, None] + rng.normal(size=300))))
        >>> board = summarize(Outcomes.from_arrays(rng.random((8, 300)) < p))
        >>> board.ranking.models[0], len(board.short.items)
        ('model-7', 45)
    """
    outcomes, failures = _without_reference(Outcomes.of_items(outcomes), reference)
    scores = outcomes.item_scores()
    known = np.isfinite(scores)
    used = outcomes if known.any(axis=0).all() else outcomes.select(items=known.any(axis=0))
    tell = progress or no_progress
    ranking = rank(used, group, confidence=confidence, seed=seed, progress=between(tell, 0.0, 0.3))
    scores = used.item_scores()
    varied = np.nanmin(scores) < np.nanmax(scores)
    fit = keys = None
    if min(used.n_models, used.n_items) > 1 and varied:
        fit = items(used, model, choices=choices, seed=seed, progress=between(tell, 0.3, 0.8))
    tell("examining keys", 0.8)
    answered = used.answers is not None and used.key is not None and bool((used.answers != "").any())
    if answered and used.n_models >= FEWEST_MODELS:
        with contextlib.suppress(InputError):  # answers and keys on different items
            suspects = suspect_keys(used)
            keys = suspects if suspects.suspicious else None
    tell("shortening the test", 0.9)
    default = min(max(SHORTEST, round(SHORT_ITEMS * used.n_items)), MOST_SHORT_ITEMS)
    count = short_items if short_items is not None else default
    short = None
    if used.n_models >= FOLDS and count < used.n_items and varied:
        method = "stratified" if used.groups else "random"
        try:
            made = shorten(
                used, count, method=method, confidence=confidence, seed=seed, progress=between(tell, 0.9, 1.0)
            )
            short = made if isinstance(made, ShortTest) else None
        except InputError:
            if short_items is not None:
                raise
    if short is not None and short.contradicted and short_items is None:
        short = None
    rows = {name: row for row, name in enumerate(used.models)}
    return LeaderboardSummary(
        ranking=ranking,
        fit=fit,
        keys=keys,
        short=short,
        groups=_group_scores(used, ranking),
        picture=_summary_picture(scores, [rows[name] for name in ranking.models]),
        source=outcomes.source,
        notes=outcomes.notes,
        reference=failures,
        blind=tuple(_blind_baselines(used, confidence)),
        examples=_item_answers(used, ranking, fit, keys),
        files=outcomes.files,
        **_further_results(used, group, weights, confidence, seed),
    )


def _without_reference(outcomes: Outcomes, reference: str | None) -> tuple[Outcomes, ReferenceFailures | None]:
    """The other models, and the items that the reference solution fails."""
    if reference is None:
        return outcomes, None
    try:
        row = outcomes.index(reference)
    except InputError as error:
        raise InputError(f"must be a model: {error}", argument="reference") from error
    if outcomes.n_models < 2:
        raise InputError("must be one of several models; there is no other one", argument="reference")
    scores, name = outcomes.item_scores(), outcomes.models[row]
    others = outcomes.select(models=np.arange(outcomes.n_models) != row)
    rest = np.delete(scores, row, axis=0)
    count = np.isfinite(rest).sum(axis=0)
    mean = np.where(count > 0, np.nansum(rest, axis=0) / np.maximum(count, 1), np.nan)
    failed = np.flatnonzero(scores[row] < 1)
    failed = failed[np.argsort(-np.nan_to_num(mean[failed], nan=-1.0), kind="stable")]
    nobody = int((mean == 0).sum())
    known = int(np.isfinite(scores[row]).sum())
    failures = ReferenceFailures(name, outcomes.items[failed], scores[row, failed], mean[failed], known, nobody)
    return others, failures


def _blind_baselines(outcomes: Outcomes, level: float) -> Iterator[BlindBaseline]:
    """The most frequent key, where keys are answers to a choice; the longest choice, and the best position."""
    rules = dict(outcomes.blind)
    keyed = np.zeros(outcomes.n_items, dtype=bool) if outcomes.key is None else outcomes.key != ""
    if outcomes.key is not None and keyed.sum() >= FEWEST_KEYS:
        labels, counts = np.unique(outcomes.key[keyed], return_counts=True)
        if 2 <= len(labels) <= MOST_CHOICES:
            most = str(labels[counts.argmax()])
            named = {f"the most frequent answer, {most!r}": np.where(keyed, outcomes.key == most, np.nan)}
            rules = named | {name: values for name, values in rules.items() if not name.startswith("choice ")}
    places = [name for name in rules if name.startswith("choice ")]
    best = max(places, key=lambda name: np.nansum(rules[name]), default="")
    scores = outcomes.item_scores()
    for name, values in rules.items():
        has = np.isfinite(values)
        if has.sum() < FEWEST_KEYS or (name in places and name != best):
            continue
        known = np.isfinite(scores[:, has])
        mean = np.where(known, scores[:, has], 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        sure = np.isin(values[has], (0, 1)).all()
        n, total = int(has.sum()), float(values[has].sum())
        score = share(round(total), n, level) if sure else interval_of_mean(values[has], level, least=0.0, most=1.0)
        below = [model for model, value in zip(outcomes.models, mean, strict=True) if value <= score.value]
        yield BlindBaseline(name, score, tuple(below))


def _further_results(
    outcomes: Outcomes, group: str | None, weights: Mapping[str, float] | None, confidence: float, seed: int
) -> dict[str, Any]:
    """What tasks, runs, scores by people, costs and times allow to say."""
    common: dict[str, Any] = {"group": group, "confidence": confidence}
    results: dict[str, Any] = {}
    small = outcomes.n_models <= MOST_SUITE_MODELS
    if weights is not None or (small and task_column(outcomes)):
        within = common | {"group": None if group == task_column(outcomes) else group}
        with contextlib.nullcontext() if weights is not None else contextlib.suppress(InputError):
            results["suite"] = suite(outcomes, weights=weights, **within)
    if outcomes.n_repeats > 1:
        results["runs"] = runs(outcomes, **common, seed=seed)
    if small and PEOPLE in outcomes.measures:
        with contextlib.suppress(InputError):  # a model with too few scores by people
            results["judge"] = judge(outcomes, **common)
    if small and outcomes.measures.keys() - {PEOPLE}:
        results["amounts"] = amounts(outcomes, **common, seed=seed)
    return results


def _item_answers(
    outcomes: Outcomes, ranking: Ranking, fit: ItemFit | None, keys: SuspectKeys | None
) -> tuple[ItemAnswers, ...]:
    if outcomes.answers is None and outcomes.questions is None and not outcomes.texts:
        return ()
    first = item_means(outcomes.item_scores())  # without slopes the items with the lowest scores
    slopes = first if fit is None else np.where(fit.flag == "broken", fit.slope - 1e6, fit.slope)
    ids = {str(name): column for column, name in enumerate(outcomes.items)}
    picked = [] if keys is None else [ids[str(name)] for name in keys.items[: min(keys.suspicious, TOP)]]
    picked += np.argsort(slopes, kind="stable")[:TOP].tolist()
    best = outcomes.align(ranking.models).select(items=np.array(list(dict.fromkeys(picked)), dtype=np.int64))
    answers = np.full(best.scores.shape, "") if best.answers is None else best.answers
    scores = best.scores.reshape(best.n_models, best.n_items, -1)
    answers = answers.reshape(scores.shape)
    result = []
    for column, name in enumerate(best.items):
        said: dict[tuple[str, float], dict[str, None]] = {}
        for model, run in zip(*np.nonzero(np.isfinite(scores[:, column])), strict=True):
            answer = str(answers[model, column, run]), float(scores[model, column, run])
            said.setdefault(answer, {})[best.models[model]] = None
        order = sorted(said, key=lambda answer: -len(said[answer]))[:MOST_ANSWERS]
        result.append(
            ItemAnswers(
                str(name),
                "" if best.questions is None else best.questions[column],
                "" if best.key is None else str(best.key[column]),
                tuple(answer for answer, _ in order),
                tuple(score for _, score in order),
                tuple(tuple(said[answer]) for answer in order),
                tuple(best.texts.get((next(iter(said[answer])), str(name)), "") for answer in order),
            )
        )
    return tuple(result)


def _group_scores(outcomes: Outcomes, ranking: Ranking) -> GroupScores | None:
    """The group column with the fewest groups, 2 or more, that is no copy of the ids; its largest groups."""
    columns = {
        name: np.unique(np.asarray(values).astype(np.str_), return_inverse=True)
        for name, values in outcomes.groups.items()
    }
    usable = {name: result for name, result in columns.items() if 2 <= len(result[0]) <= outcomes.n_items // 3}
    if not usable:
        return None
    name = min(usable, key=lambda key: len(usable[key][0]))
    labels, codes = usable[name]
    sizes = np.bincount(codes)
    largest = np.sort(np.argsort(-sizes, kind="stable")[:MOST_GROUPS])
    models = ranking.models[:TOP]
    scores = outcomes.align(models).item_scores()
    table = np.full((len(models), len(largest)), np.nan)
    for column, group in enumerate(largest):
        subset = scores[:, codes == group]
        known = np.isfinite(subset)
        count = known.sum(axis=1)
        table[:, column] = np.where(
            count > 0, np.where(known, subset, 0).sum(axis=1) / np.maximum(count, 1), np.nan
        )
    return GroupScores(
        name,
        tuple(str(labels[group]) for group in largest),
        sizes[largest].astype(np.int64),
        models,
        table,
        len(labels) - len(largest),
    )


def _summary_picture(scores: Floats, order: list[int]) -> Floats:
    """Rows in order, columns by falling mean, averaged to a size that a page can show."""
    n = scores.shape[1]
    ease, bins = np.concatenate([item_means(scores[:, block]) for block in column_blocks(n)]), min(n, PICTURE[1])
    starts = np.linspace(0, n, bins, endpoint=False).astype(int)
    column = np.empty(n, dtype=np.int64)
    column[np.argsort(-ease, kind="stable")] = np.repeat(np.arange(bins), np.diff(np.r_[starts, n]))
    filled, known = np.empty((2, len(order), bins))
    for position, row in enumerate(order):
        answered = np.isfinite(scores[row])
        filled[position] = np.bincount(column, np.where(answered, scores[row], 0.0), bins)
        known[position] = np.bincount(column, answered, bins)
    if len(order) > PICTURE[0]:
        starts = np.linspace(0, len(order), PICTURE[0], endpoint=False).astype(int)
        filled, known = (np.add.reduceat(matrix, starts, axis=0) for matrix in (filled, known))
    return np.asarray(np.where(known > 0, filled / np.maximum(known, 1e-300), np.nan)).round(2)
