"""Many models on two test sets: accuracies, gaps, ranks, the line between the sets, and who leaves it.

The mean gap has two intervals. ``mean_gap`` contains the sampling of both test sets, for these models on fresh
sets; ``gap_over_models`` generalises over models and takes the test sets as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from hardpan.arguments import check_confidence, one_of
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.report import Report
from hardpan.stats.correlation import kendall_tau
from hardpan.stats.hypothesis_tests import holm, mcnemar
from hardpan.stats.intervals import clopper_pearson, mean, normal
from hardpan.stats.ranking import rank_intervals, ranks
from hardpan.stats.resampling import paired_bootstrap
from hardpan.testbed.line import AccuracyLine, Difficulty, NoLine, difficulty, line_of_sets, no_line
from hardpan.testbed.sets import Booleans, Evidence, SetScores, TwoSets, two_sets

TIES = "equal accuracies share the best rank (1, 2, 2, 4)"
GROUP_RESAMPLES = 10_000
MOST_PAIRS = 20_000


@record(dropped=("interval",))
class CompareConfig:
    """The choices of a comparison, saved with its result.

    Attributes:
        scale: scale of the line: "linear", "probit" or "logit".
        exclude: models to leave out of the line, by name or pattern, such as ``fv_*``.
        groups: groups of models in the line; default: all.
        metric: the metric; None for top1 or the only one.
        bootstrap: number of bootstrap resamples for the intervals of the line.
        resample: what is resampled for the interval of the line: "examples", "models" (as in the paper) or "both".
        confidence: level of every interval.
        pairs: pairs of models to test, if scores are known by example: "neighbours" in the ranking, "all" or none.
        test_set: test set on which pairs are tested: "original" or "new".
        sigma: spread of difficulty of the original set, to estimate that of the new set from a probit line.
        seed: of everything random.
    """

    scale: str = "linear"
    exclude: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    metric: str | None = None
    bootstrap: int = 100_000
    resample: str = "examples"
    confidence: float = 0.95
    seed: int = 0
    pairs: str = ""
    test_set: str = "new"
    sigma: float | None = None


@record(dropped=("group", "parameters"))
class ModelRow:
    """One model on both sets.

    Attributes:
        model: its name.
        original: accuracy on the original set with its Clopper–Pearson interval.
        new: likewise on the new set.
        gap: original − new accuracy, with an interval for two independent samples.
        original_rank: rank among all models, 1 the best.
        new_rank: likewise on the new set.
        delta_rank: original rank − new rank; negative for a fall.
        original_rank_low: lower end of the interval of the true rank on the original set.
        original_rank_high: its upper end.
        new_rank_low: lower end of the interval of the true rank on the new set.
        new_rank_high: its upper end.
        residual: effective robustness, new accuracy minus what the line predicts.
        in_fit: whether the model entered the line.
        date: publication date as a decimal year, if known.
    """

    model: str
    original: Estimate
    new: Estimate
    gap: Estimate
    original_rank: int
    new_rank: int
    delta_rank: int
    original_rank_low: int
    original_rank_high: int
    new_rank_low: int
    new_rank_high: int
    residual: Estimate
    in_fit: bool
    date: float | None = None


@record
class GroupFit:
    """The line without one group of models."""

    left_out: str
    models: int
    fit: AccuracyLine


@record
class Comparison(Report):
    """What :func:`compare` returns.

    Attributes:
        rows: one per model, in the order of the original ranks.
        fit: the line on the scale asked for.
        other_fit: the line on the probit scale, or on the linear one where probit was asked for.
        kendall: Kendall τ-b between the two orders.
        mean_gap: mean gap of the models, with an interval that contains the sampling of both test sets.
        gap_over_models: the same mean with an interval over models, the test sets as they are.
        evidence: "examples" where scores are known item by item, else "counts": ``mean_gap`` then has a bound.
        metric: what counts as right.
        excluded: names of the models left out of the line.
        without_group: the line without each group in turn; empty without groups.
        by_date: change of the gap per year, where at least three models have dates.
        rank_method: how the rank intervals were computed.
        config: the settings.
        notes: what a reader has to know.
        hashes: sha256 of the files that were read, by name.
        pairs: tests of pairs of models, where they were asked for.
        difficulty: of the new set, where the spread of the original set was stated.
    """

    rows: tuple[ModelRow, ...]
    fit: AccuracyLine
    other_fit: AccuracyLine
    kendall: Estimate
    mean_gap: Estimate
    gap_over_models: Estimate
    evidence: Evidence
    metric: str
    excluded: tuple[str, ...]
    without_group: tuple[GroupFit, ...]
    by_date: Estimate | None
    rank_method: str
    config: CompareConfig
    notes: tuple[str, ...] = ()
    hashes: Mapping[str, str] = field(default_factory=dict)
    pairs: ComparedPairs | None = None
    difficulty: Difficulty | None = None

    def row(self, model: str) -> ModelRow:
        """The row of a model."""
        one_of("model", model, [item.model for item in self.rows])
        return next(item for item in self.rows if item.model == model)

    def line(self, scale: str) -> AccuracyLine:
        """The line on a scale: the one asked for, or the other one."""
        one_of("scale", scale, (self.fit.scale, self.other_fit.scale))
        return self.fit if scale == self.fit.scale else self.other_fit


def compare(original: Any, new: Any = None, config: CompareConfig | None = None, **choices: Any) -> Comparison:
    """Compare many models on an original and a new test set.

    Args:
        original: outcomes on the original set, or what :meth:`hardpan.Outcomes.open` opens; without ``new``, a
            table or file with both sets.
        new: the same on the new set.
        config: the settings; further keyword arguments replace its fields (``scale="probit"``).

    Source: Recht et al., "Do ImageNet Classifiers Generalize to ImageNet?", Table 1 and Figure 1; effective
    robustness as in Taori et al., "Measuring Robustness to Natural Distribution Shifts" (2020).

    Example:
        >>> table = {"model": list("abcd"), "original_correct": [90, 80, 70, 60], "original_total": [100] * 4,
        ...          "new_correct": [85, 69, 51, 35], "new_total": [100] * 4}
        >>> report = compare(table, bootstrap=1000)
        >>> [row.delta_rank for row in report.rows], round(report.row("a").gap.value, 3)
        ([0, 0, 0, 0], 0.05)
    """
    settings = settings_of(config, choices)
    sets = two_sets(original, new, metric=settings.metric)
    check_confidence(settings.confidence)
    one_of("pairs", settings.pairs, ("", "neighbours", "all"))
    out = sets.excluded(settings.exclude, settings.groups)
    scales = (settings.scale, "linear" if settings.scale == "probit" else "probit")
    notes = list(sets.notes)
    fit, other = _lines_on_scales(sets, ~out, settings, scales, notes)
    probit = fit if fit.scale == "probit" else other
    rows, rank_method = _model_rows(sets, ~out, fit, settings.confidence, settings.seed)
    tested = None
    if settings.pairs:
        options = {name: getattr(settings, name) for name in ("test_set", "confidence", "seed")}
        tested = pairs(sets, neighbours=settings.pairs == "neighbours", **options)
    df = len(sets) - 1
    method = f"t with {df} degrees of freedom, over models"
    return Comparison(
        rows=rows,
        fit=fit,
        other_fit=other,
        kendall=kendall_tau(sets.original.accuracy, sets.new.accuracy, settings.confidence),
        mean_gap=sets.mean_gap(settings.confidence),
        gap_over_models=mean(sets.gaps, settings.confidence, least=-1.0, most=1.0, method=method, df=df),
        evidence=sets.evidence,
        metric=sets.metric,
        excluded=tuple(name for name, left in zip(sets.models, out, strict=True) if left),
        without_group=_lines_without_groups(sets, ~out, settings),
        by_date=sets.gap_by_date(settings.confidence, settings.seed),
        rank_method=rank_method,
        config=settings,
        notes=tuple(notes),
        hashes=sets.hashes,
        pairs=tested,
        difficulty=None if settings.sigma is None else difficulty(probit, settings.sigma),
    )


def settings_of(config: CompareConfig | None, choices: dict[str, Any]) -> CompareConfig:
    """A config with some of its fields replaced."""
    try:
        return replace(config or CompareConfig(), **choices)
    except TypeError as error:
        raise InputError(f"no such setting: {error}") from error


def _lines_on_scales(
    sets: TwoSets, inside: Booleans, config: CompareConfig, scales: tuple[str, ...], notes: list[str]
) -> tuple[AccuracyLine, ...]:
    if np.count_nonzero(inside) < 3:
        raise InputError(
            f"a line needs at least 3 models; {np.count_nonzero(inside)} are left after the exclusions"
        )
    fitted = sets.take(np.flatnonzero(inside))
    fits = []
    options = {name: getattr(config, name) for name in ("resample", "bootstrap", "seed", "confidence")}
    for scale in scales:
        try:
            fits.append(line_of_sets(fitted, scale, **options))
        except NoLine as error:
            notes.append(f"{scale} scale: {error}.")
            fits.append(no_line(fitted, scale, config.resample, config.confidence, str(error)))
    return tuple(fits)


def _lines_without_groups(sets: TwoSets, inside: Booleans, config: CompareConfig) -> tuple[GroupFit, ...]:
    if not sets.group:
        return ()
    fits = []
    fewer = replace(config, bootstrap=min(config.bootstrap, GROUP_RESAMPLES))
    family = np.array(sets.group)
    for name in sorted(set(family[inside])):
        rest = inside & (family != name)
        if np.count_nonzero(rest) >= 3 and np.ptp(sets.original.accuracy[rest]) > 0:
            removed = int(np.count_nonzero(inside) - np.count_nonzero(rest))
            fits.append(GroupFit(str(name), removed, _lines_on_scales(sets, rest, fewer, (config.scale,), [])[0]))
    return tuple(fits)


def _model_rows(
    sets: TwoSets, in_fit: Booleans, fit: AccuracyLine, level: float, seed: int
) -> tuple[tuple[ModelRow, ...], str]:
    """One row per model in the order of the original ranks, and how the rank intervals were computed."""
    original, new = _accuracy_estimates(sets.original, level), _accuracy_estimates(sets.new, level)
    ranks_original, low, high, method = _ranks_and_limits(sets.original, level, seed)
    ranks_new, new_low, new_high, _ = _ranks_and_limits(sets.new, level, seed)
    residuals = _residual_estimates(sets, fit, original, new, level)
    rows = tuple(
        ModelRow(
            model=sets.models[i],
            original=original[i],
            new=new[i],
            gap=gap_estimate(original[i], new[i]),
            original_rank=int(ranks_original[i]),
            new_rank=int(ranks_new[i]),
            delta_rank=int(ranks_original[i] - ranks_new[i]),
            original_rank_low=int(low[i]),
            original_rank_high=int(high[i]),
            new_rank_low=int(new_low[i]),
            new_rank_high=int(new_high[i]),
            residual=residuals[i],
            in_fit=bool(in_fit[i]),
            date=float(sets.date[i]) if sets.date and np.isfinite(sets.date[i]) else None,
        )
        for i in np.lexsort((np.arange(len(sets)), ranks_new, ranks_original))
    )
    shared = "models independent" if sets.evidence == "counts" else "models share examples"
    return rows, f"{method}; {shared}"


def _ranks_and_limits(side: SetScores, level: float, seed: int) -> tuple[Any, Any, Any, str]:
    """Ranks (M,), their lower and upper limits, and how the limits were computed."""
    shared = side.covariance()
    variance = side.variances() if shared is None else shared
    return ranks(side.accuracy), *rank_intervals(side.accuracy, variance, confidence=level, seed=seed)


def _accuracy_estimates(side: SetScores, level: float) -> list[Estimate]:
    if not side.binary:
        error, how = np.sqrt(side.variances()), "mean of scores, Student's t"
        return [
            normal(float(a), float(e), int(n), level, least=0.0, most=1.0, method=how, df=max(int(n) - 1, 1))
            for a, e, n in zip(side.accuracy, error, side.total, strict=True)
        ]
    error = np.sqrt(side.accuracy * (1.0 - side.accuracy) / side.total)
    columns = (side.accuracy, error, *clopper_pearson(side.correct, side.total, level), side.total)
    return [
        Estimate(value, stderr, low, high, level, "Clopper–Pearson", n)
        for value, stderr, low, high, n in zip(*(column.tolist() for column in columns), strict=True)
    ]


def gap_estimate(original: Estimate, new: Estimate) -> Estimate:
    """Difference of two independent accuracies.

    Each end combines the distances to the limits of the two accuracies (Newcombe's construction), so that the
    interval stays sensible where an accuracy is 0 or 1 and its standard error vanishes.
    """
    value = original.value - new.value
    low = value - float(np.hypot(original.value - original.low, new.high - new.value))
    high = value + float(np.hypot(original.high - original.value, new.value - new.low))
    error = float(np.hypot(original.stderr, new.stderr))
    method = f"difference of independent sets, from {original.method} limits"
    return Estimate(value, error, max(low, -1.0), min(high, 1.0), original.confidence, method, new.n)


def _residual_estimates(
    sets: TwoSets, fit: AccuracyLine, original: Sequence[Estimate], new: Sequence[Estimate], level: float
) -> list[Estimate]:
    x = sets.original.accuracy if fit.scale == "linear" else sets.original.inside()
    step = 1e-6
    inner = np.clip(x, step, 1 - step)
    steepness = (fit.predict(inner + step / 2) - fit.predict(inner - step / 2)) / step
    original_error, new_error = (np.array([item.stderr for item in items]) for items in (original, new))
    error = np.sqrt(new_error**2 + (steepness * original_error) ** 2 + fit.prediction_error(x) ** 2)
    value = sets.new.accuracy - fit.predict(x)
    method = f"new accuracy minus the {fit.scale} line, delta method"
    return [normal(float(v), float(e), fit.n, level, method=method) for v, e in zip(value, error, strict=True)]


@record
class Pair:
    """Two models on the same examples.

    Attributes:
        first: the model with the higher accuracy.
        second: the other one.
        difference: accuracy of the first − of the second, with a paired bootstrap interval.
        only_first: examples that only the first gets right.
        only_second: examples that only the second gets right.
        p: exact McNemar p-value.
        p_holm: the same after Holm's correction over all pairs of the table.
    """

    first: str
    second: str
    difference: Estimate = field(metadata={"unit": "points"})
    only_first: int
    only_second: int
    p: float
    p_holm: float


@record(kind="Pairs")
class ComparedPairs(Report):
    """What :func:`pairs` returns: the pairs in the order of the first's, then the second's accuracy."""

    HEADLINE = (
        "{separated} of {pair_count} pairs of models differ significantly on the {test_set} set at level {level} "
        "(McNemar's exact test, Holm's correction)."
    )

    rows: tuple[Pair, ...]
    test_set: str
    metric: str
    confidence: float
    separated: int

    @property
    def pair_count(self) -> int:
        """How many pairs were tested."""
        return len(self.rows)

    @property
    def level(self) -> str:
        """The level of the tests, all together."""
        return f"{1 - self.confidence:.3g}"


def pairs(
    original: Any,
    new: Any = None,
    *,
    test_set: str = "new",
    neighbours: bool = False,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> ComparedPairs:
    """McNemar's test and the paired bootstrap for every pair of models, with Holm's correction.

    Args:
        original: as for :func:`compare`; scores item by item are needed.
        new: likewise.
        test_set: test set on which models are compared, "original" or "new".
        neighbours: only pairs that are adjacent in the ranking.
        confidence: level of the intervals.
        resamples: of the examples.
        seed: of the draws.

    Example:
        >>> from hardpan.testbed import simulate
        >>> result = pairs(*simulate([0.0, 2.0], examples=(200, 200)), resamples=500)
        >>> result.rows[0].first, result.rows[0].p < 0.001
        ('model-1', True)
    """
    sets = two_sets(original, new)
    one_of("test_set", test_set, ("original", "new"))
    side: SetScores = getattr(sets, test_set)
    if side.scores is None or not side.binary:
        raise InputError(
            "must be right or wrong example by example for pairs; got counts or fractions", argument="scores"
        )
    names, right = sets.models, side.scores == 1.0
    if len(names) < 2:
        raise InputError("must have at least two models for a pair; got one", argument="scores")
    order = np.argsort(-right.mean(axis=1), kind="stable")
    count = len(order)
    couples = [(i, j) for i in range(count) for j in ((i + 1,) if neighbours else range(i + 1, count)) if j < count]
    if len(couples) > MOST_PAIRS:
        raise InputError(
            f"must have fewer models for {MOST_PAIRS:,} pairs at most, or neighbours=True; got {count:,}",
            argument="scores",
        )
    only = [
        (int((right[order[i]] & ~right[order[j]]).sum()), int((right[order[j]] & ~right[order[i]]).sum()))
        for i, j in couples
    ]
    p_values = mcnemar([item[0] for item in only], [item[1] for item in only])
    options: dict[str, Any] = {"resamples": resamples, "confidence": confidence, "seed": seed}
    rows = tuple(
        Pair(
            names[order[i]],
            names[order[j]],
            paired_bootstrap(right[order[i]], right[order[j]], **options),
            *counts,
            float(p),
            float(corrected),
        )
        for (i, j), counts, p, corrected in zip(couples, only, p_values, holm(p_values), strict=True)
    )
    separated = sum(row.p_holm < 1.0 - confidence for row in rows)
    return ComparedPairs(rows, test_set, sets.metric, confidence, separated)
