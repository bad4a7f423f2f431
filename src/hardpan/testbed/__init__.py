"""Many models on two test sets: accuracies, lines, ranks, gaps, and what explains a drop."""

import importlib
from types import ModuleType

from hardpan.testbed.comparison import CompareConfig, Comparison, FitReport, GroupFit, compare
from hardpan.testbed.crossval import CrossValidated, CrossValidation, cross_validation
from hardpan.testbed.dates import gap_by_date
from hardpan.testbed.difficulties import (
    Difficulty,
    difficulty,
    difficulty_from_line,
    expected_accuracies,
    line_from_difficulty,
    simulate,
    simulate_counts,
)
from hardpan.testbed.gaps import Decomposition, decompose
from hardpan.testbed.humans import Hardest, Humans, hardest, hardest_of, human_table
from hardpan.testbed.line import LineFit, fit_line
from hardpan.testbed.paired import Pair, Pairs, pairs
from hardpan.testbed.predictions import SetPredictions, outcomes, set_predictions
from hardpan.testbed.reading import read
from hardpan.testbed.redraw import Sampling, sampling_of
from hardpan.testbed.rows import ModelRow
from hardpan.testbed.shown import provenance, section
from hardpan.testbed.strategy_table import Strategies, strategies
from hardpan.testbed.tables import Counts, Outcomes, counts_table

__all__ = [
    "CompareConfig",
    "Comparison",
    "Counts",
    "CrossValidated",
    "CrossValidation",
    "Decomposition",
    "Difficulty",
    "FitReport",
    "GroupFit",
    "Hardest",
    "Humans",
    "LineFit",
    "ModelRow",
    "Outcomes",
    "Pair",
    "Pairs",
    "Sampling",
    "SetPredictions",
    "Strategies",
    "compare",
    "counts_table",
    "cross_validation",
    "decompose",
    "difficulty",
    "difficulty_from_line",
    "expected_accuracies",
    "fit_line",
    "gap_by_date",
    "hardest",
    "hardest_of",
    "human_table",
    "line_from_difficulty",
    "outcomes",
    "pairs",
    "provenance",
    "read",
    "sampling_of",
    "section",
    "set_predictions",
    "simulate",
    "simulate_counts",
    "strategies",
]

_ON_FIRST_USE = ("discriminate", "followups", "items", "shared_errors")


def __getattr__(name: str) -> ModuleType:
    """Import what needs optimisers and classifiers only when it is used."""
    if name in _ON_FIRST_USE:
        return importlib.import_module(f"hardpan.testbed.{name}")
    raise AttributeError(f"module 'hardpan.testbed' has no attribute {name!r}")
