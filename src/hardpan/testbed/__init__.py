"""Many models on two test sets: accuracies, lines, ranks, gaps, and what explains a drop."""

from hardpan.lazy import exports
from hardpan.testbed import subset_accuracies
from hardpan.testbed.comparison import CompareConfig, Comparison, compare, pairs
from hardpan.testbed.decomposition import decompose
from hardpan.testbed.explanations import ExplainConfig, Explanations, explain
from hardpan.testbed.humans import human_table
from hardpan.testbed.line import difficulty, difficulty_from_line, fit_line, line_from_difficulty, simulate
from hardpan.testbed.sets import two_sets
from hardpan.testbed.subset_accuracies import hardest, hardest_of

exports(__name__)
