"""Item response on the probit scale, for :func:`one_scale`: does one scale of skill explain two test sets?"""

from hardpan.testbed.items.fit import ItemFit, check_matrix, fit_items
from hardpan.testbed.items.scales import OneScale, one_scale

__all__ = ["ItemFit", "OneScale", "check_matrix", "fit_items", "one_scale"]
