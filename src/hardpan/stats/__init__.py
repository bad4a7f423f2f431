"""Intervals, bootstrap, line fits, ranks and agreement: arrays in, arrays or estimates out."""

from hardpan.stats.agreement import cohen_kappa, holm, mcnemar, paired_bootstrap
from hardpan.stats.correlation import kendall_tau, pearson
from hardpan.stats.intervals import clopper_pearson, mean, normal, normal_quantile, share
from hardpan.stats.lines import bootstrap_lines, fit_lines, from_scale, to_scale
from hardpan.stats.ranking import rank_intervals, ranks
from hardpan.stats.resampling import (
    bca_interval,
    bootstrap,
    bootstrap_draws,
    jackknife_values,
    percentile_interval,
    resample_counts,
)
from hardpan.stats.selective import risk_coverage

__all__ = [
    "bca_interval",
    "bootstrap",
    "bootstrap_draws",
    "bootstrap_lines",
    "clopper_pearson",
    "cohen_kappa",
    "fit_lines",
    "from_scale",
    "holm",
    "jackknife_values",
    "kendall_tau",
    "mcnemar",
    "mean",
    "normal",
    "normal_quantile",
    "paired_bootstrap",
    "pearson",
    "percentile_interval",
    "rank_intervals",
    "ranks",
    "resample_counts",
    "risk_coverage",
    "share",
    "to_scale",
]


def __dir__() -> list[str]:
    return sorted(__all__)
