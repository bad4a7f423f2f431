"""Item analysis: skills of models and difficulties of examples from a matrix of right and wrong."""

from hardpan.testbed.items.fit import ItemFit, check_matrix, fit_items
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

__all__ = [
    "Cohort",
    "ItemFit",
    "OneScale",
    "ShorterTest",
    "check_matrix",
    "cohorts",
    "fewest_items",
    "fit_items",
    "information_curve",
    "kr20",
    "one_scale",
]
