"""Intervals, bootstrap, line fits, ranks and agreement: arrays in, arrays or estimates out."""

from hardpan.lazy import exports
from hardpan.stats.agreement import holm, mcnemar, paired_bootstrap
from hardpan.stats.correlation import kendall_tau, pearson
from hardpan.stats.intervals import clopper_pearson, mean, normal, normal_quantile, share
from hardpan.stats.lines import fit_lines
from hardpan.stats.ranking import rank_intervals, ranks
from hardpan.stats.resampling import bootstrap

exports(__name__)
