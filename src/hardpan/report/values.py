"""Rows of a chart as Altair takes them: inside the specification, so that a page needs no other file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt


def data_of(rows: Sequence[dict[str, Any]]) -> alt.Data:
    """Give a drawing its rows.

    Example:
        >>> data_of([{"x": 1}]).to_dict()
        {'values': [{'x': 1}]}
    """
    return alt.Data(values=list(rows))  # type: ignore[no-untyped-call]  # Altair leaves its own signature open
