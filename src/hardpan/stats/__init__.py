"""Intervals, bootstrap, line fits, ranks and agreement: arrays in, arrays or estimates out."""

from typing import TYPE_CHECKING

from hardpan.lazy import exports

if TYPE_CHECKING:
    from hardpan.stats.annotators import (
        CROWDLAB,
        DAWID_SKENE,
        MAJORITY,
        Consensus,
        consensus,
        count_answers,
        krippendorff_alpha,
    )
    from hardpan.stats.classification import auroc, average_precision, balanced_error, paired_gain
    from hardpan.stats.correlation import kendall_tau, pearson
    from hardpan.stats.hypothesis_tests import (
        holm,
        kept_together_test,
        mcnemar,
        mcnemar_power,
        mcnemar_sample_size,
        smallest_difference,
        unpaired_shares,
    )
    from hardpan.stats.intervals import (
        GroupedSample,
        bounded_mean_limits,
        clopper_pearson,
        grouped_sample,
        grouped_share,
        mean,
        normal,
        normal_quantile,
        share,
    )
    from hardpan.stats.lines import fit_lines
    from hardpan.stats.ranking import rank_intervals, ranks
    from hardpan.stats.resampling import bootstrap, paired_bootstrap

exports(__name__)
