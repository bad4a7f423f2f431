"""Many models on two test sets: accuracies, lines, ranks, gaps, and what explains a drop."""

from hardpan.lazy import exports
from hardpan.testbed import followups
from hardpan.testbed.comparison import CompareConfig, Comparison, compare, pairs
from hardpan.testbed.discrimination import discriminate
from hardpan.testbed.explanations import ExplainConfig, Explanations, explain
from hardpan.testbed.followups import hardest, hardest_of, human_table
from hardpan.testbed.gaps import cross_validation, decompose, strategies
from hardpan.testbed.line import (
    difficulty,
    difficulty_from_line,
    fit_line,
    line_from_difficulty,
    simulate,
    simulate_counts,
)
from hardpan.testbed.sets import two_sets
from hardpan.testbed.skill_scale import one_scale

exports(__name__)
