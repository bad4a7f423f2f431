"""Rows of a chart as Altair takes them: inside the specification, so that a page needs no other file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from hardpan.estimates import Estimate


def data_of(rows: Sequence[dict[str, Any]]) -> alt.Data:
    """Give a drawing its rows.

    Example:
        >>> data_of([{"x": 1}]).to_dict()
        {'values': [{'x': 1}]}
    """
    return alt.Data(values=list(rows))  # type: ignore[no-untyped-call]  # Altair leaves its own signature open


def estimate_of(row: Mapping[str, Any], value: str = "value", low: str = "low", high: str = "high") -> Estimate:
    """A value of a row with its interval; what the row leaves out is not known.

    Example:
        >>> estimate_of({"x": 0.5, "x_low": 0.4, "x_high": 0.6}, "x", "x_low", "x_high").high
        0.6
    """
    given = (row.get(name) for name in (value, low, high))
    known = [math.nan if number is None else float(number) for number in given]
    return Estimate(known[0], 0.0, known[1], known[2])
