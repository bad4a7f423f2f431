"""Scores in JSON without a known schema, as rows of a table.

Four forms are read: a list of records, also as the only such list in an object; ``{item: score}``, of one model;
lists of ids, of which one has the items that were resolved; and objects whose values have one of these forms, by
model where they share their items, else by task.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hardpan.errors import counted, few
from hardpan.outcomes.cells import score_of
from hardpan.tables import column_role_names, plain_name

Rows = list[dict[str, Any]]
READABLE = (
    'A readable table has one row or object per model and item, such as {"model": "a", "item": "q1", "score": 1}; '
    'a file of one model may also be {"q1": true, "q2": false, ...}, a file of all models {"a": {"q1": true}, ...}'
)
_RESOLVED = re.compile(r"(?:.*_)?(?:resolved|solved|passed|correct|successful|succeeded)(?:_[a-z]+)?")
_OPPOSITE = re.compile(r"(?:.*_)?(?:un|not_|in)(?:resolved|solved|passed|correct|successful)(?:_[a-z]+)?")
_METRICS = frozenset(
    ("acc", "f1", "precision", "recall", "auc", "loss", "mean", "average", "avg", "bleu", "rouge", "overall", "std")
)
_FEWEST = 3  # items of one model: fewer true and false may be settings
_FEWEST_FRACTIONS = 20  # fewer may be the scores of whole test sets
_FEWEST_INSIDE = 10  # items in an object beside others, which may be settings
_DEPTH = 4


def json_score_rows(value: Any) -> Rows | Mapping[str, Any] | None:
    """The rows, or columns, of the table of scores that JSON holds; None where it holds none of a known form.

    Example:
        >>> json_score_rows({"a": {"q1": True, "q2": None}, "b": {"q1": False, "q2": True}})[:2]
        [{'item': 'q1', 'score': True, 'model': 'a'}, {'item': 'q2', 'score': None, 'model': 'a'}]
        >>> json_score_rows({"resolved": ["q1"], "all": ["q1", "q2"]})
        [{'item': 'q1', 'score': True}, {'item': 'q2', 'score': False}]
        >>> json_score_rows({"learning_rate": 0.1, "shuffle": True}) is None
        True
    """
    if isinstance(value, list):
        return list(value) if value and all(isinstance(row, dict) for row in value) else None
    if not isinstance(value, dict):
        return None
    if (columns := _columns_of_json(value)) is not None:
        return columns
    return _rows_of_object(value, _FEWEST, _DEPTH)


def describe_json(values: Sequence[Collection[str] | None]) -> str:
    """What JSON files hold that are not read, by the names of their keys; None for what is no object."""
    counts: dict[tuple[str, ...], int] = {}
    for keys in values:
        listed = ("",) if keys is None else tuple(sorted(map(str, keys)))
        counts[listed] = counts.get(listed, 0) + 1
    kinds = sorted(counts.items(), key=lambda kind: -kind[1])
    texts = [
        f"{counted(count, 'JSON file')} {'without keys' if keys in ((), ('',)) else 'with keys ' + few(keys, 5)}"
        for keys, count in kinds[:3]
    ]
    return "; ".join(texts) + (f"; {len(kinds) - 3:,} other kinds" if len(kinds) > 3 else "")


def _rows_of_object(value: Mapping[str, Any], fewest: int, depth: int) -> Rows | None:
    return (
        _rows_of_ids(value)
        or _rows_of_item_scores(value, fewest)
        or _rows_of_item_records(value, fewest)
        or (_rows_of_parts(value, depth) if depth else None)
    )


def _columns_of_json(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Columns as lists, or as pandas writes them: ``{"model": {"0": "a"}, "score": {"0": 1}}``."""
    if not value:
        return None
    words = column_role_names("model", "item", "task", "score", "answer", "key")
    known = sum(plain_name(name) in words for name in value)
    columns = list(value.values())
    if known > 1 and all(isinstance(column, dict) for column in columns):
        rows = list(dict.fromkeys(row for column in columns for row in column))
        return {name: [column.get(row) for row in rows] for name, column in value.items()}
    lists = all(isinstance(column, list) and column for column in columns)
    if not lists or any(isinstance(cell, (dict, list)) for column in columns for cell in column):
        return None
    scores = all(score_of(cell) is not None or cell is None for column in columns for cell in column)
    return value if (known > 1 or scores) and len({len(column) for column in columns}) == 1 else None


def _rows_of_ids(value: Mapping[str, Any]) -> Rows | None:
    """Rows of a list of resolved ids beside lists of others, or of all."""
    lists = {
        plain_name(name): ids
        for name, ids in value.items()
        if isinstance(ids, list) and all(isinstance(item, str) for item in ids)
    }
    named = [name for name in lists if _RESOLVED.fullmatch(name) and not _OPPOSITE.fullmatch(name)]
    if len(named) != 1 or len(lists) < 2:
        return None
    resolved = set(lists[named[0]])
    items = list(dict.fromkeys(item for ids in lists.values() for item in ids))
    if not items or (len(items) == len(resolved) and not any(map(_OPPOSITE.fullmatch, lists))):
        return None
    return [{**_shared_fields(value), "item": item, "score": item in resolved} for item in items]


def _rows_of_item_scores(value: Mapping[str, Any], fewest: int) -> Rows | None:
    """Rows of ``{item: score}``; None where the scores may be settings, metrics, or those of whole test sets."""
    words = {*_METRICS, *column_role_names("score", "run")}
    numbers = all(cell is None or isinstance(cell, (bool, int, float)) for cell in value.values())
    if not numbers and any(not isinstance(cell, str) or score_of(cell) not in (0, 1) for cell in value.values()):
        return None
    scores = [score_of(cell) for cell in value.values() if cell is not None]
    fractions = any(score not in (0.0, 1.0, -1.0) for score in scores)
    if len(value) < (max(fewest, _FEWEST_FRACTIONS) if fractions else fewest):
        return None
    if not scores or any(plain_name(name) in words for name in value):
        return None
    return [{"item": item, "score": cell} for item, cell in value.items()]


def _rows_of_item_records(value: Mapping[str, Any], fewest: int) -> Rows | None:
    """Rows of ``{item: record}``, where each record is right or wrong."""
    records = list(value.values())
    if len(records) < fewest or not all(isinstance(record, dict) and _score_name([record]) for record in records):
        return None
    name = _score_name(records)
    if not name or any(score_of(record.get(name)) not in (0.0, 1.0, -1.0, None) for record in records):
        return None
    label = "entry" if any(plain_name(key) in column_role_names("item") for key in records[0]) else "item"
    return [{label: item, **record} for item, record in value.items()]


def _rows_of_parts(value: Mapping[str, Any], depth: int) -> Rows | None:
    """Rows of an object whose values have rows: one of them beside others without, or all of them."""
    parts: dict[str, Rows] = {}
    nested = {name: item for name, item in value.items() if isinstance(item, (dict, list)) and item}
    for name, item in nested.items():
        fewest = _FEWEST_INSIDE if len(nested) == 1 else 1
        if isinstance(item, list):
            rows = item if all(isinstance(row, dict) for row in item) and _score_name(item) else None
        else:
            rows = _rows_of_object(item, fewest, depth - 1)
        if rows:
            parts[name] = rows
    if len(parts) == 1 and (
        isinstance(value[next(iter(parts))], list) or len(next(iter(parts.values()))) > _FEWEST
    ):
        return [{**_shared_fields(value), **row} for row in next(iter(parts.values()))]
    if len(parts) < 2 or len(parts) < len(nested):
        return None
    items = [{_item_of(row) for row in rows} - {None} for rows in parts.values()]
    shared = 2 * len(set.intersection(*items)) >= min(map(len, items))
    label = "model" if shared and not any("model" in row for rows in parts.values() for row in rows) else "task"
    return [{**row, label: name} for name, rows in parts.items() for row in rows]


def _shared_fields(value: Mapping[str, Any]) -> dict[str, str]:
    """The model and task of a whole file, also in an object of settings such as "config"."""
    words = column_role_names("model", "task")
    for fields in (value, *(item for item in value.values() if isinstance(item, dict))):
        shared = {
            name: text for name, text in fields.items() if isinstance(text, str) and plain_name(name) in words
        }
        if any(plain_name(name) in column_role_names("model") for name in shared):
            return shared
    return {name: text for name, text in value.items() if isinstance(text, str) and plain_name(name) in words}


def _score_name(records: Sequence[Mapping[str, Any]]) -> str:
    """The key of the scores of records, the same in all; "" without one, "key" for answers beside keys."""
    names = dict.fromkeys(name for record in records for name in record)
    plain = {plain_name(name): name for name in reversed(names)}
    for word in column_role_names("score"):
        if word in plain:
            return plain[word]
    answered = any(word in plain for word in column_role_names("answer"))
    return next((plain[word] for word in column_role_names("key") if answered and word in plain), "")


def _item_of(row: Mapping[str, Any]) -> str | None:
    plain = {plain_name(name): name for name in row}
    return next((str(row[plain[word]]) for word in column_role_names("item") if word in plain), None)
