"""Counts as the columns of a table, and the two sets that they open as."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hardpan import testbed
from hardpan.testbed.sets import TwoSets


def counts_columns(
    models: Sequence[str], original: Any, original_total: Any, new: Any, new_total: Any, **more: Any
) -> dict[str, Any]:
    n = len(models)
    numbers = {
        "original_correct": original,
        "original_total": original_total,
        "new_correct": new,
        "new_total": new_total,
    }
    columns: dict[str, Any] = {"model": list(models)}
    columns |= {name: np.broadcast_to(np.asarray(values), (n,)).tolist() for name, values in numbers.items()}
    return columns | {
        name: [values] * n if isinstance(values, str) else list(values) for name, values in more.items()
    }


def counts_table(*arguments: Any, metric: str | None = None, **more: Any) -> TwoSets:
    return testbed.two_sets(counts_columns(*arguments, **more), metric=metric)
