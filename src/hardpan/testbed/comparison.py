"""Many models on two test sets: accuracies, gaps, ranks, the line between the sets, and who leaves it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.stats.correlation import kendall_tau
from hardpan.stats.intervals import check_confidence
from hardpan.stats.resampling import Floats, IntervalKind, bootstrap
from hardpan.testbed.dates import gap_by_date, has_dates
from hardpan.testbed.difficulties import Difficulty
from hardpan.testbed.line import LineFit, fit_scales
from hardpan.testbed.reading import as_table
from hardpan.testbed.redraw import Sampling, sampling_of
from hardpan.testbed.rows import ModelRow, model_rows
from hardpan.testbed.tables import Booleans, Counts, Outcomes, excluded_rows

TIES = "equal accuracies share the best of their places (1, 2, 2, 4)"
GROUP_RESAMPLES = 10_000


@record
@dataclass(frozen=True, slots=True)
class CompareConfig:
    """The choices of a comparison, saved with its result.

    Attributes:
        scale: of the line: "linear", "probit" or "logit".
        exclude: patterns of model names that stay out of the fit.
        groups: the groups that enter the fit; empty for all.
        metric: which metric of the table; None for top1 or the only one.
        bootstrap: resamples of the line.
        interval: "percentile" or "bca".
        resample: what the bootstrap redraws: "models", "examples" or "both".
        confidence: level of every interval.
        seed: of everything random.
    """

    scale: str = "linear"
    exclude: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    metric: str | None = None
    bootstrap: int = 100_000
    interval: IntervalKind = "percentile"
    resample: str = "models"
    confidence: float = 0.95
    seed: int = 0


@record
@dataclass(frozen=True, slots=True)
class GroupFit:
    """The line without one group of models."""

    left_out: str
    models: int
    fit: LineFit


@record
@dataclass(frozen=True, slots=True)
class FitReport:
    """A line alone, with the models it uses and how it moves without each group.

    Attributes:
        fit: the line.
        models: names of the models in it.
        excluded: names of those left out.
        without_group: the line without each group in turn.
        difficulty: of the new set, where a spread of the original set was given.
        notes: what a reader has to know.
    """

    fit: LineFit
    models: tuple[str, ...]
    excluded: tuple[str, ...]
    without_group: tuple[GroupFit, ...]
    difficulty: Difficulty | None = None
    notes: tuple[str, ...] = ()


@record
@dataclass(frozen=True, slots=True)
class Comparison:
    """What :func:`compare` returns.

    Attributes:
        rows: one a model, in the order of the original ranks.
        fit: the line on the scale asked for.
        other_fit: the line on the probit scale, or on the linear one where probit was asked for.
        kendall: Kendall τ-b between the two orders.
        mean_gap: average gap over all models, with a bootstrap interval over models.
        metric: what counts as right.
        excluded: names of the models that stayed out of the fit.
        without_group: the line without each group in turn; empty without groups.
        by_date: change of the gap a year, where at least three models have dates.
        ties: how equal accuracies are ranked.
        rank_method: how the rank intervals were made.
        config: the choices made.
        notes: what a reader has to know.
    """

    rows: tuple[ModelRow, ...]
    fit: LineFit
    other_fit: LineFit
    kendall: Estimate
    mean_gap: Estimate
    metric: str
    excluded: tuple[str, ...]
    without_group: tuple[GroupFit, ...]
    by_date: Estimate | None
    ties: str
    rank_method: str
    config: CompareConfig
    notes: tuple[str, ...] = ()

    def row(self, model: str) -> ModelRow:
        """The row of a model."""
        for item in self.rows:
            if item.model == model:
                return item
        raise InputError(f"model must be one of the {len(self.rows)} in the comparison; got {model!r}")

    def compact(self) -> Comparison:
        """The same without bootstrap draws, for JSON."""
        groups = tuple(replace(item, fit=item.fit.compact()) for item in self.without_group)
        return replace(self, fit=self.fit.compact(), other_fit=self.other_fit.compact(), without_group=groups)


def compare(table: Any, config: CompareConfig | None = None, **choices: Any) -> Comparison:
    """Compare many models on an original and a new test set.

    Args:
        table: :class:`Counts`, :class:`Outcomes`, a file (see :func:`hardpan.testbed.read`), or columns or rows
            with the names of a counts table.
        config: the choices; further keyword arguments replace its fields (``scale="probit"``).

    Source: Recht et al., "Do ImageNet Classifiers Generalize to ImageNet?", Table 1 and Figure 1; effective
    robustness as in Taori et al., "Measuring Robustness to Natural Distribution Shifts" (2020).

    Example:
        >>> from hardpan.testbed import counts_table
        >>> table = counts_table(list("abcd"), [90, 80, 70, 60], 100, [85, 69, 51, 35], 100)
        >>> report = compare(table, bootstrap=1000)
        >>> [row.delta_rank for row in report.rows], round(report.row("a").gap.value, 3)
        ([0, 0, 0, 0], 0.05)
    """
    for name in ("exclude", "groups"):
        if isinstance(choices.get(name), str):
            choices[name] = (choices[name],)
    try:
        chosen = replace(config or CompareConfig(), **choices)
    except TypeError as error:
        raise InputError(f"compare has no such choice: {error}") from error
    source = as_table(table)
    outcomes = source if isinstance(source, Outcomes) else None
    counts = source.counts() if isinstance(source, Outcomes) else source
    counts = counts.for_metric(chosen.metric)
    sampling = sampling_of(outcomes if outcomes is not None else counts)
    check_confidence(chosen.confidence)
    out = excluded_rows(counts.models, counts.group, chosen.exclude, chosen.groups)
    scales = (chosen.scale, "linear" if chosen.scale == "probit" else "probit")
    fit, other = _fits(counts, sampling, ~out, chosen, scales)
    rows, rank_method = model_rows(counts, sampling, ~out, fit, chosen.confidence, chosen.seed)
    return Comparison(
        rows=rows,
        fit=fit,
        other_fit=other,
        kendall=kendall_tau(counts.original_accuracy, counts.new_accuracy, chosen.confidence),
        mean_gap=_mean_gap(counts, chosen),
        metric=counts.metric[0],
        excluded=tuple(name for name, left in zip(counts.models, out, strict=True) if left),
        without_group=_without_groups(counts, sampling, ~out, chosen),
        by_date=gap_by_date(counts, confidence=chosen.confidence, seed=chosen.seed) if has_dates(counts) else None,
        ties=TIES,
        rank_method=rank_method,
        config=chosen,
        notes=counts.notes,
    )


def _fits(
    counts: Counts, sampling: Sampling, inside: Booleans, config: CompareConfig, scales: tuple[str, ...]
) -> tuple[LineFit, ...]:
    if np.count_nonzero(inside) < 3:
        left = np.count_nonzero(inside)
        raise InputError(f"a line needs at least 3 models; {left} are left after the exclusions")
    return fit_scales(
        counts.original_accuracy[inside],
        counts.new_accuracy[inside],
        scales=scales,
        bootstrap=config.bootstrap,
        seed=config.seed,
        confidence=config.confidence,
        interval=config.interval,
        resample=config.resample,
        sampling=sampling.take(inside),
    )


def _without_groups(
    counts: Counts, sampling: Sampling, inside: Booleans, config: CompareConfig
) -> tuple[GroupFit, ...]:
    if not counts.group:
        return ()
    fits = []
    fewer = replace(config, bootstrap=min(config.bootstrap, GROUP_RESAMPLES))
    family = np.array(counts.group)
    for name in sorted(set(family[inside])):
        rest = inside & (family != name)
        if np.count_nonzero(rest) >= 3 and np.ptp(counts.original_accuracy[rest]) > 0:
            removed = int(np.count_nonzero(inside) - np.count_nonzero(rest))
            fits.append(
                GroupFit(str(name), removed, _fits(counts, sampling, rest, fewer, (config.scale,))[0].compact())
            )
    return tuple(fits)


def _mean_gap(counts: Counts, config: CompareConfig) -> Estimate:
    gaps = counts.original_accuracy - counts.new_accuracy
    if len(gaps) < 2:
        return Estimate(float(gaps[0]), float("nan"), float("nan"), float("nan"), method="one model", n=1)
    return mean_over_models(gaps, config.confidence, config.seed)


def mean_over_models(values: Floats, confidence: float = 0.95, seed: int = 0) -> Estimate:
    """The mean over models with a percentile bootstrap interval, resampling models."""
    return bootstrap(values, lambda means: means[:, 0], confidence=confidence, seed=seed)
