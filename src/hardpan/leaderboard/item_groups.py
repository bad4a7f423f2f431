"""Groups of items, such as the questions about one text: intervals are clustered by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hardpan.errors import InputError, few
from hardpan.outcomes import Outcomes
from hardpan.tables import column_role_names, plain_name

Floats = NDArray[np.float64]
FEW_GROUPS = 20
FEWEST_GROUPS = 5  # with fewer, intervals for further groups are too wide to use unless they are asked for
LARGE_GROUP = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class ItemGroups:
    """The groups of the items: the name of the column, (N,) codes 0..G−1, and their sizes (G,)."""

    name: str
    codes: NDArray[np.int64]
    sizes: Floats

    @property
    def count(self) -> int:
        """G, how many groups there are."""
        return len(self.sizes)

    def indicator(self) -> sparse.csr_array:
        """(N, G) with 1 where an item belongs to a group."""
        n = len(self.codes)
        return sparse.csr_array((np.ones(n), (np.arange(n), self.codes)), shape=(n, self.count))

    def deviations(self, scores: Floats, mean: Floats) -> Floats:
        """(M, G) sums over the items of a group of scores (M, N) minus the models' means (M,)."""
        return np.asarray((self.indicator().T @ scores.T).T) - mean[:, None] * self.sizes


def item_groups(outcomes: Outcomes, group: str | None = None) -> ItemGroups | None:
    """The groups of items to cluster by, or None where items count as independent.

    Those of the named column; without a name, of the first column with at least 5 groups and fewer than items
    (``doc_id`` numbers the documents of a task and is no group); None for "".
    """
    if group == "":
        return None
    if group is not None and group not in outcomes.groups:
        known = few(list(outcomes.groups)) if outcomes.groups else "none"
        raise InputError(f"must be a column of item groups (known: {known}); got {group!r}", argument="group")
    for name in outcomes.groups if group is None else (group,):
        labels, codes = np.unique(np.asarray(outcomes.groups[name]).astype(np.str_), return_inverse=True)
        usable = len(labels) >= 2 and name == group
        if usable or (group is None and name != "doc_id" and FEWEST_GROUPS <= len(labels) < outcomes.n_items):
            return ItemGroups(name, codes.astype(np.int64), np.bincount(codes).astype(np.float64))
    if group is not None:
        raise InputError(f"must be a column with 2 or more groups; {group!r} has one", argument="group")
    return None


def task_column(outcomes: Outcomes) -> str:
    """The group column that names the tasks of a suite; "" without one, or where the items have one task."""
    words = column_role_names("task")
    return next(
        (n for n in outcomes.groups if plain_name(n) in words and len(np.unique(outcomes.groups[n])) > 1), ""
    )


def item_group_counts(groups: ItemGroups | None) -> dict[str, Any]:
    """The fields of a result on its groups: how many, whether they are few, and whether one is large."""
    if groups is None:
        return {"groups": 0, "few_groups": False, "large_group": False}
    large = bool(groups.sizes.max() > LARGE_GROUP * groups.sizes.sum())
    return {"groups": groups.count, "few_groups": groups.count < FEW_GROUPS, "large_group": large}
