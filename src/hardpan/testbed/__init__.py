"""Many models on two test sets: accuracies, lines, ranks, gaps, and what explains a drop."""

from hardpan.testbed.compare import CompareConfig, Comparison, compare
from hardpan.testbed.line import LineFit, fit_line
from hardpan.testbed.predictions import SetPredictions, outcomes, set_predictions
from hardpan.testbed.read import read
from hardpan.testbed.redraw import Sampling, sampling_of
from hardpan.testbed.rows import ModelRow
from hardpan.testbed.tables import Counts, Outcomes, counts_table

__all__ = [
    "CompareConfig",
    "Comparison",
    "Counts",
    "LineFit",
    "ModelRow",
    "Outcomes",
    "Sampling",
    "SetPredictions",
    "compare",
    "counts_table",
    "fit_line",
    "outcomes",
    "read",
    "sampling_of",
    "set_predictions",
]
