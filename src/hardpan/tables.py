"""Columns: read and written as CSV, Parquet, JSON and data frames."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

from hardpan.errors import InputError, MissingExtra

FRAMES = ("pandas", "polars", "pyarrow")


def to_frame(columns: Mapping[str, Any], kind: str | None = None) -> Any:
    """Columns as a data frame.

    Args:
        columns: equally long columns by name.
        kind: "pandas", "polars" or "pyarrow"; None takes the first of them that is installed.

    Example:
        >>> to_frame({"model": ["a", "b"], "error": [0.1, 0.2]}, "pyarrow").column_names
        ['model', 'error']
    """
    if kind is None:
        kind = next(name for name in FRAMES if importlib.util.find_spec(name) is not None)
    if kind not in FRAMES:
        raise InputError(f"kind must be one of {', '.join(FRAMES)}; got {kind!r}")
    try:
        library = importlib.import_module(kind)
    except ImportError as error:
        raise MissingExtra(kind, kind) from error
    data = {name: list(values) if isinstance(values, tuple) else values for name, values in columns.items()}
    return library.DataFrame(data) if kind in ("pandas", "polars") else library.table(data)
