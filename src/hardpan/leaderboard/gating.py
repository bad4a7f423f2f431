"""Is a new run worse than the baseline? Pass, fail or cannot tell, for continuous integration."""

from __future__ import annotations

import bisect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hardpan.arguments import one_of, real_number
from hardpan.errors import InputError, few
from hardpan.estimates import Estimate
from hardpan.files import folder_entries, record, suffix_of
from hardpan.leaderboard.item_groups import item_groups
from hardpan.leaderboard.pairs import FLAT, Floats, paired_difference
from hardpan.outcomes import Outcomes
from hardpan.report import Report
from hardpan.stats.hypothesis_tests import POWER, holm, smallest_difference_by_t
from hardpan.stats.intervals import normal
from hardpan.tables import SUFFIXES, column_role_names, plain_name

LEAST_SHARED = 0.9  # of the items of a task; below it the gate cannot tell
FEWEST_RUNS = 3  # of the baseline, the current one included, from which the noise of runs is learnt
MOST_RUNS = 1000  # that are suggested
EXIT_CODES = {"pass": 0, "fail": 1, "cannot tell": 3}


@record
class TaskDifference:
    """One task of a gate.

    Attributes:
        task: its name, "" where there is only one.
        items: how many items the baseline or the candidate has.
        shared: how many of them all runs have; the numbers below are about these.
        score_baseline: mean score of the baseline, with a history of all its runs; NaN without shared items.
        score_candidate: mean score of the candidate.
        difference: candidate − baseline; each end of its interval is a one-sided limit of this task alone.
        p_worse: one-sided p-value that the candidate is worse, Holm-adjusted over the tasks.
        worse: whether it is at most 1 − confidence.
    """

    task: str
    items: int
    shared: int
    score_baseline: float
    score_candidate: float
    difference: Estimate
    p_worse: float
    worse: bool


@record(eq=False)
class Gate(Report):
    """Whether a candidate is worse than a baseline.

    Attributes:
        verdict: "pass", "fail" or "cannot tell".
        reason: why it cannot tell: "missing tasks", "few shared items" or "uncertain"; else "".
        margin: the drop that is still accepted, as a fraction.
        difference: candidate − baseline of the mean over tasks; each end of its interval is a one-sided limit.
        confidence: of each one-sided limit; an unchanged candidate fails with probability 1 − confidence at most.
        equivalent: whether both limits lie within the margin.
        score_baseline: mean over tasks; with a history over all runs of the baseline.
        score_candidate: mean over tasks.
        runs: runs of the baseline from which the noise was learnt, the current one included; 0 without a history.
        candidate_runs: runs of the candidate.
        smallest_margin: the margin that an unchanged candidate passes with a power of 0.8.
        items_needed: items that decide with a power of 0.8 if the true difference is the measured one; NaN where it
            decided, or where more items do not help.
        runs_needed: likewise runs of the candidate, with at least as many of the baseline.
        equal_runs: runs of the baseline whose scores equal those of an earlier run on every item.
        unshared: items that are not used because a run lacks them, or has them with another task or answer key.
        difference_unshared_wrong: the difference if an item that one of the two lacks is wrong there.
        new_items: items of tasks that the baseline lacks; not used.
        tasks: one by one.
        flipped: ids of the shared items on which the scores differ, largest loss first.
        flipped_tasks: their tasks.
        flipped_scores: (items, 2) scores of baseline and candidate; with a history a third column, the mean of the
            past runs.
        cluster: the group column that the intervals of items follow, or "".
        baseline: name of the model.
        candidate: name of the model.
        cannot_tell: what a gate that cannot tell does: "fail", "pass", or "" for an exit code of its own.
        notes: what the reader of the scores reported.
        unscored: answers of the baseline and of the candidate without a score that count as wrong.
    """

    PAGE: ClassVar[str] = "card.md"

    verdict: str
    reason: str
    margin: float
    difference: Estimate
    confidence: float
    equivalent: bool
    score_baseline: float
    score_candidate: float
    runs: int
    candidate_runs: int
    smallest_margin: float
    items_needed: float
    runs_needed: float
    equal_runs: int
    unshared: int
    difference_unshared_wrong: float
    new_items: int
    tasks: tuple[TaskDifference, ...]
    flipped: NDArray[np.str_]
    flipped_tasks: NDArray[np.str_]
    flipped_scores: Floats
    cluster: str
    baseline: str
    candidate: str
    cannot_tell: str = ""
    notes: tuple[str, ...] = ()
    unscored: tuple[int, int] = (0, 0)

    @property
    def exit_code(self) -> int:
        """0 pass, 1 fail, 3 cannot tell, unless ``cannot_tell`` makes it one of the others."""
        decided = self.cannot_tell if self.verdict == "cannot tell" and self.cannot_tell else self.verdict
        return EXIT_CODES[decided]


def gate(
    baseline: object,
    candidate: object,
    *,
    margin: float = 0.01,
    history: object = None,
    group: str | None = None,
    cannot_tell: str = "",
    confidence: float = 0.95,
    reading: Mapping[str, Any] | None = None,
) -> Gate:
    """Whether a candidate is worse than a baseline: pass, fail or cannot tell.

    The score is the mean over tasks of the mean over the items that all runs have. Pass if the lower limit of
    candidate − baseline is above −margin; otherwise fail if the upper limit is below 0; otherwise cannot tell. Each
    limit is one-sided. A task that the candidate lacks, or fewer than 90 % shared items in a task, is cannot tell.

    With a history the noise is that of whole runs: x̄ − m̄ ± t(H−1)·s·√(1/K + 1/H), with H runs of the baseline, the
    current one among them, s the standard deviation of their scores, and K runs of the candidate. Without a history
    the items are the sample: per task the interval of :func:`hardpan.leaderboard.compare`, half-widths joined over
    tasks by squares; effects of a whole run (seed, server, hardware) are then not covered.

    Args:
        baseline: one run: :class:`hardpan.Outcomes` with one model, or what its ``open`` opens; ``FILE::MODEL``
            is one of several in a file.
        candidate: one run, or a list of runs.
        margin: the drop that is accepted, as a fraction: 0.01 is one point.
        history: earlier runs of the baseline: a folder with a file or folder per run, a table with a model per run,
            or a list of runs; at least 3 with the current one.
        group: column of item groups by which differences are clustered where there is no history; by default the
            first with at least 5 groups; "" for items as independent.
        cannot_tell: what to do if it cannot tell: "fail", "pass", or "" for an exit code of its own.
        confidence: of each one-sided limit.
        reading: options of :meth:`hardpan.Outcomes.open` with which paths are read.

    Source: Zou and Donner, "Construction of confidence limits about effect measures" (2008), for the joined limits.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> old, new = (Outcomes.from_arrays(rng.random((1, 800)) < p) for p in (0.8, 0.6))
        >>> gate(old, new).verdict
        'fail'
    """
    accepted, sure = real_number("margin", margin, "[0, 0.5]"), real_number("confidence", confidence, "(0.5, 1)")
    one_of("cannot_tell", cannot_tell, ("", "fail", "pass"))
    options = dict(reading or {})
    old = _one_run("baseline", baseline, options)
    sources: Any = candidate if _are_runs(candidate) else [candidate]
    new = [_one_run("candidate", source, options) for source in sources]
    past = [] if history is None else _past_runs(history, [baseline, *sources], options)
    runs = _align_runs(old, new, past)
    if history is not None and len(runs.old) < FEWEST_RUNS:
        raise InputError(
            f"must hold at least {FEWEST_RUNS - 1} runs beside the baseline, each in a file or folder of its own "
            f"with 90 % of the items; got {len(runs.old) - 1} such of {len(past)}; leave it out until then",
            argument="history",
        )
    unscored = _counted_as_wrong([old]), _counted_as_wrong(new)
    return replace(_decide(runs, accepted, sure, group, cannot_tell), unscored=unscored)


def assert_not_worse(
    baseline: object,
    candidate: object,
    *,
    margin: float = 0.01,
    history: object = None,
    group: str | None = None,
    cannot_tell: str = "fail",
) -> Gate:
    """The gate as an assertion: AssertionError if it fails, or if it cannot tell and ``cannot_tell`` is "fail".

    Args:
        baseline: as in :func:`gate`.
        candidate: likewise.
        margin: the drop that is accepted, as a fraction.
        history: earlier runs of the baseline.
        group: column of item groups.
        cannot_tell: "fail" or "pass".

    Returns:
        The gate that passed.

    Example:
        >>> run = Outcomes.from_arrays(np.random.default_rng(0).random((1, 800)) < 0.8)
        >>> assert_not_worse(run, run).verdict
        'pass'
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    result = gate(
        baseline, candidate, margin=margin, history=history, group=group, cannot_tell=cannot_tell or "fail"
    )
    if result.exit_code:
        raise AssertionError(result.headline)
    return result


def _are_runs(source: object) -> bool:
    """Whether a list holds runs: paths or outcomes, not the rows of a table."""
    kinds = (str, os.PathLike, Outcomes)
    return isinstance(source, (list, tuple)) and bool(source) and all(isinstance(one, kinds) for one in source)


def _opened_runs(argument: str, source: Any, options: Mapping[str, Any]) -> Outcomes:
    """The outcomes of the models of a source."""
    is_path = isinstance(source, (str, os.PathLike)) or _are_runs(source)
    try:
        return Outcomes.of_items(Outcomes.open(source, **options) if is_path else source)
    except InputError as error:
        raise error.renamed({"source": argument, "outcomes": argument}) from error.__cause__


def _one_run(argument: str, source: Any, options: Mapping[str, Any]) -> Outcomes:
    """The outcomes of one model; ``FILE::MODEL`` is one of several."""
    path, mark, model = source.rpartition("::") if isinstance(source, str) else ("", "", "")
    if mark and not os.path.exists(source):
        outcomes = _opened_runs(argument, path, options)
        return outcomes.select(models=[outcomes.index(model)])
    outcomes = _opened_runs(argument, source, options)
    if outcomes.n_models > 1:
        names, first = few(outcomes.models, 4), outcomes.models[0]
        raise InputError(
            f"must be one model; {source if mark or path else 'it'} holds {outcomes.n_models} ({names}): name one, "
            f"such as FILE::{first} or outcomes.select(models=[{first!r}])",
            argument=argument,
        )
    return outcomes


def _counted_as_wrong(runs: Sequence[Outcomes]) -> int:
    """The number of answers without a score that have a score of 0, not a missing one."""
    return sum(int(run.failed[np.isfinite(run.scores)].sum()) for run in runs if run.failed is not None)


def _past_runs(history: Any, others: Sequence[Any], options: Mapping[str, Any]) -> list[Outcomes]:
    """The runs of a history: a list, the entries of a folder without the baseline and the candidates, or models."""
    if _are_runs(history):
        return [_one_run("history", source, options) for source in history]
    if not isinstance(history, (str, os.PathLike)) or not os.path.isdir(history):
        outcomes = _opened_runs("history", history, options)
        return [outcomes.select(models=[row]) for row in range(outcomes.n_models)]
    paths = [str(other).partition("::")[0] for other in others if isinstance(other, (str, os.PathLike))]
    used = [Path(path).resolve() for path in paths]
    entries = [
        entry
        for entry in folder_entries(Path(history))
        if (entry.is_dir() or suffix_of(entry) in SUFFIXES) and not entry.name.startswith(".")
        if not any(path.is_relative_to(entry.resolve()) for path in used)
    ]
    return [_one_run("history", str(entry), options) for entry in entries]


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """Runs on the N items that the baseline or a candidate has, those of the baseline first.

    Attributes:
        baseline: outcomes of the baseline.
        candidate: outcomes of the first candidate.
        items: (N,) ids.
        tasks: (N,) names of the tasks.
        old: (H, N) scores of the baseline, then of past runs that have 90 % of the items; NaN missing.
        new: (K, N) scores of the candidates; missing is also an item with another task or key than the baseline's.
        new_items: how many items of the candidate are left out, as the baseline lacks their task.
    """

    baseline: Outcomes
    candidate: Outcomes
    items: NDArray[np.str_]
    tasks: NDArray[np.str_]
    old: Floats
    new: Floats
    new_items: int


def _align_runs(old: Outcomes, new: Sequence[Outcomes], past: Sequence[Outcomes]) -> _Runs:
    """Join the runs by the ids of their items."""
    known, cells, nothing = _scores_by_item(old), [_scores_by_item(run) for run in new], ("", "", 0.0)
    tasks = {item: task for item, (task, _, _) in known.items()}
    left_out: set[str] = set()
    own = set(tasks.values())
    for run in cells:
        for item, (task, _, _) in run.items():
            if task in own or len(own) == 1:
                tasks.setdefault(item, task if task in own else next(iter(own)))
            elif item not in tasks:
                left_out.add(item)
    place, names = (
        {item: column for column, item in enumerate(tasks)},
        np.array(list(tasks.values()), dtype=np.str_),
    )

    def row_of(run: Mapping[str, tuple[str, str, float]]) -> Floats:
        row = np.full(len(place), np.nan)
        for item, (task, key, score) in run.items():
            own_task, own_key, _ = known.get(item, nothing)
            same = (task == own_task or not (task and own_task)) and (key == own_key or not (key and own_key))
            if same and item in place:
                row[place[item]] = score
        return row

    first, candidates = row_of(known), np.array([row_of(run) for run in cells])
    needed = np.isfinite(first) & np.isfinite(candidates).all(axis=0)
    rows = [row_of(_scores_by_item(run)) for run in past]
    rows = [row for row in rows if _has_most_items(np.isfinite(row), needed, names)]
    items = np.array(list(place), dtype=np.str_)
    return _Runs(old, new[0], items, names, np.array([first, *rows]), candidates, len(left_out))


def _scores_by_item(run: Outcomes) -> dict[str, tuple[str, str, float]]:
    """Task, answer key and score of each item of a run; "" where they are not known."""
    names = [name for name in run.groups if plain_name(name) in column_role_names("task")]
    tasks = np.asarray(run.groups[names[0]] if names else [""] * run.n_items).astype(np.str_).tolist()
    keys = [""] * run.n_items if run.key is None else run.key.tolist()
    values = zip(tasks, keys, run.item_scores()[0].tolist(), strict=True)
    return dict(zip(run.items.tolist(), values, strict=True))


def _has_most_items(has: NDArray[np.bool_], needed: NDArray[np.bool_], tasks: NDArray[np.str_]) -> bool:
    """Whether a run has 90 % of the items that are needed, in every task."""
    codes = np.unique(tasks, return_inverse=True)[1].ravel()
    return bool((np.bincount(codes, has & needed) >= LEAST_SHARED * np.bincount(codes, needed)).all())


def _decide(runs: _Runs, margin: float, sure: float, group: str | None, cannot_tell: str) -> Gate:
    """The verdict on aligned runs; ``sure`` is the confidence of a one-sided limit."""
    shared = np.asarray(np.isfinite(np.vstack([runs.old, runs.new])).all(axis=0), dtype=np.bool_)
    if not shared.any():
        raise InputError("shares no item with the baseline; both need the same item ids", argument="candidate")
    pooled, tasks, cluster = _task_differences(runs, shared, group, sure)
    past = len(runs.old) if len(runs.old) > 1 else 0
    least = min(task.shared / task.items for task in tasks)
    if least < LEAST_SHARED:
        verdict, reason = "cannot tell", "few shared items" if least else "missing tasks"
    elif pooled.low > -margin or pooled.high < 0:
        verdict, reason = "pass" if pooled.low > -margin else "fail", ""
    else:
        verdict, reason = "cannot tell", "uncertain"
    power = 1 + float(special.ndtri(POWER) / special.ndtri(sure))
    smallest = _smallest_margin(pooled, past, sure) if past else (pooled.value - pooled.low) * power
    distance = max(pooled.value + margin, -pooled.value)  # to the nearer verdict
    items = needed = float("nan")
    if reason == "uncertain" and past:
        needed = _runs_needed(pooled, past, len(runs.new), distance, sure)
    elif reason == "uncertain" and distance > 0:
        items = float(np.ceil(pooled.n * (smallest / distance) ** 2))
    wrong = np.nan_to_num(runs.new).mean(axis=0) - np.nan_to_num(runs.old[0])
    equal = (bool((runs.old[:k, shared] == runs.old[k, shared]).all(axis=1).any()) for k in range(len(runs.old)))
    known = [task for task in tasks if task.shared]
    return Gate(
        verdict=verdict,
        reason=reason,
        margin=margin,
        difference=pooled,
        confidence=sure,
        equivalent=verdict == "pass" and pooled.high < margin,
        score_baseline=float(np.mean([task.score_baseline for task in known])),
        score_candidate=float(np.mean([task.score_candidate for task in known])),
        runs=past,
        candidate_runs=len(runs.new),
        smallest_margin=smallest,
        items_needed=items,
        runs_needed=needed,
        equal_runs=sum(equal),
        unshared=int((~shared).sum()),
        difference_unshared_wrong=float(np.mean([wrong[runs.tasks == task.task].mean() for task in tasks])),
        new_items=runs.new_items,
        tasks=tasks,
        cluster=cluster,
        baseline=runs.baseline.models[0],
        candidate=runs.candidate.models[0],
        cannot_tell=cannot_tell,
        notes=tuple(dict.fromkeys([*runs.baseline.notes, *runs.candidate.notes])),
        **_flips(runs, shared),
    )


def _task_differences(
    runs: _Runs, shared: NDArray[np.bool_], group: str | None, sure: float
) -> tuple[Estimate, tuple[TaskDifference, ...], str]:
    """The difference of the mean over tasks, the tasks, and the column that clusters their items."""
    names, cluster = list(dict.fromkeys(runs.tasks.tolist())), ""
    columns = {name: np.flatnonzero(shared & (runs.tasks == name)) for name in names}
    means: dict[str, tuple[Floats, Floats]] = {}
    tests: dict[str, tuple[Estimate, float]] = {}
    for name, at in columns.items():
        if at.size:
            means[name] = runs.old[:, at].mean(axis=1), runs.new[:, at].mean(axis=1)
            if len(runs.old) > 1:
                tests[name] = _run_difference(*means[name], sure)
            else:
                tests[name], by = _item_difference(runs, at, group, sure)
                cluster = cluster or by
    if len(runs.old) > 1:
        old, new = (np.mean([side[k] for side in means.values()], axis=0) for k in (0, 1))
        pooled, _ = _run_difference(old, new, sure)
    else:
        pooled = _mean_of_differences([interval for interval, _ in tests.values()])
    adjusted = dict(zip(tests, holm([p for _, p in tests.values()]).tolist(), strict=True))
    nan = float("nan")
    unknown = Estimate(nan, nan, nan, nan, round(2 * sure - 1, 12), "no shared items")
    tasks = tuple(
        TaskDifference(
            task=name,
            items=int((runs.tasks == name).sum()),
            shared=at.size,
            score_baseline=float(means[name][0].mean()) if at.size else float("nan"),
            score_candidate=float(means[name][1].mean()) if at.size else float("nan"),
            difference=tests[name][0] if at.size else unknown,
            p_worse=adjusted.get(name, float("nan")),
            worse=adjusted.get(name, 1.0) <= 1 - sure,
        )
        for name, at in columns.items()
    )
    return pooled, tasks, cluster


def _run_difference(old: Floats, new: Floats, sure: float) -> tuple[Estimate, float]:
    """x̄ − m̄ ± t(H−1)·s·√(1/K + 1/H) of K new and H old runs, and the one-sided p-value that it is below 0."""
    h, value = len(old), float(new.mean() - old.mean())
    stderr = float(old.std(ddof=1) * np.sqrt(1 / len(new) + 1 / h))
    stderr = stderr if stderr > FLAT else 0.0
    method = f"t with {h - 1} degrees of freedom over {h} runs of the baseline"
    interval = normal(value, stderr, h, round(2 * sure - 1, 12), least=-1.0, most=1.0, method=method, df=h - 1)
    return interval, float(special.stdtr(h - 1, value / stderr)) if stderr else float(value >= -FLAT)


def _item_difference(
    runs: _Runs, at: NDArray[np.int64], group: str | None, sure: float
) -> tuple[tuple[Estimate, float], str]:
    """The paired difference of a task over its items, its one-sided p-value, and the column of clusters."""
    scores, level = np.vstack([runs.new[:, at].mean(axis=0), runs.old[0, at]]), round(2 * sure - 1, 12)
    d = scores[0] - scores[1]
    if len(d) < 2:
        return (Estimate(float(d[0]), float("nan"), -1.0, 1.0, level, "one item", 1), 1.0), ""
    groups = item_groups(runs.baseline.select(items=at), group)  # the first items are those of the baseline
    binary = bool(np.isin(scores, (0.0, 1.0)).all())
    interval, p = paired_difference(d, groups, level, binary=binary)
    return (interval, p / 2 if interval.value < 0 else 1 - p / 2), "" if groups is None else groups.name


def _mean_of_differences(tasks: Sequence[Estimate]) -> Estimate:
    """The mean of independent differences: their half-widths add by squares (MOVER)."""
    if len(tasks) == 1:
        return tasks[0]
    value, below, above, stderr = np.array(
        [(t.value, t.value - t.low, t.high - t.value, t.stderr) for t in tasks]
    ).T
    mean, (below, above, error) = (
        float(value.mean()),
        (float(np.sqrt((side**2).sum())) / len(tasks) for side in (below, above, stderr)),
    )
    n, method = sum(task.n for task in tasks), f"{tasks[0].method}, joined over {len(tasks)} tasks"
    return Estimate(mean, error, max(mean - below, -1.0), min(mean + above, 1.0), tasks[0].confidence, method, n)


def _smallest_margin(pooled: Estimate, runs: int, sure: float) -> float:
    """The margin that a run without a true difference passes with power 0.8, as far as the past runs show."""
    return smallest_difference_by_t(pooled.stderr, runs - 1, 2 * (1 - sure)) if pooled.stderr else 0.0


def _runs_needed(pooled: Estimate, runs: int, new: int, distance: float, sure: float) -> float:
    """The number of runs of the candidate, with as many or more of the baseline, that decides; NaN above 1,000."""
    spread = pooled.stderr / np.sqrt(1 / new + 1 / runs)

    def decides(count: int) -> bool:
        past = max(runs, count)
        error = float(spread * np.sqrt(1 / count + 1 / past))
        return smallest_difference_by_t(error, past - 1, 2 * (1 - sure)) <= distance

    return (
        float(bisect.bisect_left(range(MOST_RUNS), True, new, key=decides)) if decides(MOST_RUNS) else float("nan")
    )


def _flips(runs: _Runs, shared: NDArray[np.bool_]) -> dict[str, Any]:
    """The shared items on which baseline and candidate differ, largest loss first."""
    new, past = runs.new.mean(axis=0), runs.old.mean(axis=0)
    at = np.flatnonzero(shared & (new != runs.old[0]))
    at = at[np.lexsort((-past[at], (new - runs.old[0])[at]))]
    scores = [runs.old[0, at], new[at], *([past[at]] if len(runs.old) > 1 else [])]
    return {"flipped": runs.items[at], "flipped_tasks": runs.tasks[at], "flipped_scores": np.column_stack(scores)}
