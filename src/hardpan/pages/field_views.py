"""The view of a small result, made from its fields: no sentence has to be written for it.

A result is a frozen record that derives from :class:`hardpan.report.Report`. Its fields are shown in order:
estimates by name, numbers and short texts in one table, a list of records as a table with a row per record, arrays
by their shape and range. The name of a field is its heading ("new_error" is "new error"); ``config`` and fields
that are not written to JSON are left out. ``to_frame`` has the first list of records, else the arrays, else one
row.

The headline is a template of the class, filled with the fields (:func:`fill_fields`)::

    @record
    class Merged(Report):
        HEADLINE = "{examples:counted example} of {stores:counted,store} in {folder}."

        folder: str
        examples: int
        stores: int

Where a template is not enough, a module of :mod:`hardpan.pages` registers a function that makes the sentence, or a
whole view with charts and prose::

    from hardpan.pages.field_views import view_of_fields, view

    @view.register
    def _(result: Merged) -> View:
        return view_of_fields(result, headline="..." if result.stores == 1 else "...")

An estimate is a fraction, written as percent, unless its field says otherwise:
``gap: Estimate = field(metadata={"unit": "points"})``.
"""

from __future__ import annotations

import dataclasses
import re
import string
from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from hardpan.errors import counted
from hardpan.estimates import Estimate, Interval
from hardpan.pages import formatting
from hardpan.pages.sections import Section, Table, View, table_of_columns

HIDDEN = ("config",)
MOST_LISTED = 12  # values of a list that are shown in one cell


@singledispatch
def view(result: Any) -> View:
    """What a result says and shows; modules of :mod:`hardpan.pages` register other views by type."""
    return view_of_fields(result)


def view_of_fields(result: Any, headline: str = "", *, title: str = "", warnings: Sequence[str] = ()) -> View:
    """The view of a result from its fields.

    Args:
        result: a frozen dataclass.
        headline: the finding in one sentence; from the class's ``HEADLINE`` where it is empty.
        title: of the page; the name of the class where it is empty.
        warnings: what limits the claim.

    Example:
        >>> from hardpan.files import record
        >>> @record
        ... class TwoScores:
        ...     HEADLINE = "{n:counted example}: error {error}."
        ...     n: int
        ...     error: Estimate
        >>> made = view_of_fields(TwoScores(359, Estimate(0.0139, 0.006, 0.0046, 0.0322)))
        >>> made.title, made.headline
        ('Two scores', '359 examples: error 1.4 % (0.5–3.2 %).')
        >>> made.sections[0].tables[0].rows, list(made.sections[0].estimates), made.columns["error_low"]
        ((('n', '359'),), ['error'], [0.0046])
    """
    title = title or field_name_words(type(result).__name__)
    template = getattr(result, "HEADLINE", "")
    if not headline:
        headline = fill_fields(template, result) if template else _headline_of_fields(title, result)
    first = _section_of_fields(title, result)
    first = dataclasses.replace(first, warnings=tuple(warnings))
    nested = [
        _section_of_fields(field_name_words(name), value)
        for name, value, _ in _fields_to_show(result)
        if _is_record(value)
    ]
    sections = tuple(item for item in (first, *nested) if item.warnings or item.estimates or item.tables)
    return View(title, headline, sections, columns=frame_of_fields(result))


def field_name_words(name: str) -> str:
    """The name of a class or field in words.

    Example:
        >>> field_name_words("BandErrors"), field_name_words("new_error"), field_name_words("ROCCurve")
        ('Band errors', 'new error', 'ROC curve')
    """
    if "_" in name or name.islower():
        return name.replace("_", " ").strip()
    first, *others = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*", name)
    return " ".join([first, *(word if word.isupper() else word.lower() for word in others)])


def fill_fields(template: str, result: Any) -> str:
    """A sentence with the fields of a result: ``{name}``, or ``{name:function,argument}``.

    The function is ``counted`` or one of :mod:`hardpan.pages.formatting`.

    Example:
        >>> fill_fields("{value} of {n:counted example}, {low:percent}.", Estimate(0.5, 0.1, 0.3, 0.7, n=1200))
        '0.5 of 1,200 examples, 30.0 %.'
    """
    return _FieldsTemplate().vformat(template, (result,), {})


class _FieldsTemplate(string.Formatter):
    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return getattr(args[0], str(key))

    def format_field(self, value: Any, format_spec: str) -> str:
        name, *arguments = re.split(r",\s*|(?<=^counted) ", format_spec)
        if name == "counted":
            return counted(value, *arguments)
        return str(getattr(formatting, name)(value, *arguments)) if name else field_text(value)


def field_text(value: Any, unit: str = "percent") -> str:
    """A value of a field as a person reads it.

    Example:
        >>> field_text(("a", "b")), field_text(1200), field_text(Estimate(0.02, 0.005, 0.01, 0.03), "points")
        ('a, b', '1,200', '+2.0 points (+1.0 to +3.0)')
        >>> field_text(np.array([0.5, 1.5])), field_text(Interval(0.25, 0.75)), field_text({"test": 0.5})
        ('2 numbers, 0.5 to 1.5', '25–75 %', 'test 0.5')
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Estimate) and unit != "percent":
        return formatting.signed(value) if unit == "points" else formatting.plain(value, unit=unit)
    if isinstance(value, Interval):
        scale, mark = (100.0, " %") if unit == "percent" else (100.0, " points") if unit == "points" else (1.0, "")
        return formatting.aligned([value], scale)[0] + mark
    if isinstance(value, np.ndarray):
        return _array_field_text(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {field_text(item, unit)}" for key, item in value.items())
    if isinstance(value, (tuple, list)):
        texts = [field_text(item, unit) for item in value[:MOST_LISTED]]
        return ", ".join(texts) + (f" and {len(value) - MOST_LISTED:,} more" if len(value) > MOST_LISTED else "")
    return formatting.cell(value)


def _array_field_text(values: Any) -> str:
    """How many numbers an array has, and its range."""
    size = " × ".join(f"{length:,}" for length in values.shape)
    if values.dtype.kind not in "iuf" or not values.size or not np.isfinite(values).any():
        return f"{size} values"
    known = values[np.isfinite(values)]
    return f"{size} numbers, {formatting.cell(known.min().item())} to {formatting.cell(known.max().item())}"


def _fields_to_show(result: Any) -> list[tuple[str, Any, str]]:
    """Name, value and unit of every field that people look at."""
    return [
        (item.name, getattr(result, item.name), item.metadata.get("unit", "percent"))
        for item in dataclasses.fields(result)
        if item.name not in HIDDEN and not item.metadata.get("transient")
    ]


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, (type, Estimate, Interval))


def _field_records(value: Any) -> list[Any]:
    """The rows of a field that is a list of records, or a mapping to records."""
    items = (
        list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, (tuple, list)) else []
    )
    return list(items) if items and all(map(_is_record, items)) else []


def _section_of_fields(title: str, result: Any) -> Section:
    estimates: dict[str, Estimate] = {}
    numbers: list[tuple[str, str]] = []
    tables: list[Table] = []
    for name, value, unit in _fields_to_show(result):
        words = field_name_words(name)
        if rows := _field_records(value):
            tables.append(_table_of_fields(words, rows, list(value) if isinstance(value, Mapping) else None))
        elif isinstance(value, Estimate) and unit == "percent":
            estimates[words] = value
        elif isinstance(value, Mapping) and all(isinstance(item, Estimate) for item in value.values()):
            if unit == "percent":
                estimates |= {str(key): item for key, item in value.items()}
            else:
                numbers += [(str(key), field_text(item, unit)) for key, item in value.items()]
        elif not _is_record(value) and value is not None and not (hasattr(value, "__len__") and len(value) == 0):
            numbers.append((words, field_text(value, unit)))
    if numbers:
        tables.insert(0, Table("", ("", "value"), tuple(numbers)))
    return Section(title, estimates=estimates, tables=tuple(tables))


def _table_of_fields(title: str, rows: Sequence[Any], names: Sequence[Any] | None = None) -> Table:
    columns = {"": [str(name) for name in names]} if names is not None else {}
    for position, (name, _, unit) in enumerate(_fields_to_show(rows[0])):
        values = [_fields_to_show(row)[position][1] for row in rows]
        if any(isinstance(value, Estimate) for value in values):
            scale, sign, mark = {"percent": (100.0, "", ", %"), "points": (100.0, "+", ", points")}.get(
                unit, (1.0, "", f", {unit}" if unit else "")
            )
            columns[field_name_words(name) + mark] = formatting.aligned(values, scale, sign)
        elif unit == "points" and all(isinstance(value, float) for value in values):
            columns[f"{field_name_words(name)}, points"] = [formatting.points(value) for value in values]
        else:
            plain = all(value is None or isinstance(value, (bool, int, float, str)) for value in values)
            columns[field_name_words(name)] = values if plain else [field_text(value, unit) for value in values]
    return table_of_columns(title, columns)


def frame_of_fields(result: Any) -> dict[str, list[Any]]:
    """The columns of ``to_frame``: of the first list of records, else of arrays, else one row of the numbers."""
    fields = _fields_to_show(result)
    for _, value, _ in fields:
        if rows := _field_records(value):
            columns = {"name": list(map(str, value))} if isinstance(value, Mapping) else {}
            for row in rows:
                for name, cell in _frame_fields(row).items():
                    columns.setdefault(name, []).append(cell)
            return columns
    arrays = {name: value for name, value, _ in fields if isinstance(value, np.ndarray) and value.ndim == 1}
    longest = max(map(len, arrays.values()), default=0)
    if longest:
        return {name: value.tolist() for name, value in arrays.items() if len(value) == longest}
    return {name: [cell] for name, cell in _frame_fields(result).items()}


def _frame_fields(row: Any) -> dict[str, Any]:
    """The fields of a record as cells of a frame: an estimate has three, its value and its ends."""
    cells: dict[str, Any] = {}
    for name, value, _ in _fields_to_show(row):
        if isinstance(value, Estimate):
            cells |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
        elif isinstance(value, Interval):
            cells |= {f"{name}_low": value.low, f"{name}_high": value.high}
        elif value is None or isinstance(value, (bool, int, float, str, np.generic)):
            cells[name] = value
    return cells


def _headline_of_fields(title: str, result: Any) -> str:
    known = [
        (name, value, unit)
        for name, value, unit in _fields_to_show(result)
        if isinstance(value, (Estimate, int, float))
    ]
    numbers = ", ".join(f"{field_name_words(name)} {field_text(value, unit)}" for name, value, unit in known[:3])
    return f"{title}: {numbers}." if numbers else f"{title}."
