"""Item analysis: skills of models and difficulties of examples from a matrix of right and wrong."""

from hardpan.testbed.items.fit import ItemFit, check_matrix, fit_items
from hardpan.testbed.items.reading import Matrix, read_matrix
from hardpan.testbed.items.scales import (
    Cohort,
    OneScale,
    ShorterTest,
    cohorts,
    fewest_items,
    information_curve,
    kr20,
    one_scale,
)
from hardpan.testbed.items.shown import ItemSummary, analyse, section

__all__ = [
    "Cohort",
    "ItemFit",
    "ItemSummary",
    "Matrix",
    "OneScale",
    "ShorterTest",
    "analyse",
    "check_matrix",
    "cohorts",
    "fewest_items",
    "fit_items",
    "information_curve",
    "kr20",
    "one_scale",
    "read_matrix",
    "section",
]
