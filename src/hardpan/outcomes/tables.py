"""Scores in tables: long (one row per model and item) or wide (one row per model, or one per item)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardpan.errors import InputError
from hardpan.outcomes.cells import BLANK, Cells, number
from hardpan.outcomes.sources import GROUPS, Options
from hardpan.safe_files import few, read_json, read_json_lines
from hardpan.tables import csv_rows, suffix_of
from hardpan.tables import read_columns as table_columns

Columns = dict[str, Sequence[Any]]
MODEL = (
    *("model", "model_name", "model_id", "system", "submission", "participant", "llm", "agent", "method"),
    *("classifier", "algorithm"),
)
ITEM = (
    *(
        "item",
        "item_id",
        "question_id",
        "example_id",
        "doc_id",
        "sample_id",
        "instance_id",
        "problem_id",
        "prompt_id",
    ),
    *("task_id", "id", "example", "qid", "uid", "question", "image", "filename", "index", "row"),
)
SCORE = (
    *("score", "correct", "is_correct", "right", "exact_match", "acc", "acc_norm", "accuracy", "outcome", "passed"),
    *("pass", "resolved", "success", "result", "value"),
)
ANSWER = ("answer", "prediction", "response", "pred", "output", "extracted_answer")
KEY = ("key", "target", "label", "gold", "correct_answer", "reference", "y_true", "labels", "targets")
RUN = ("repeat", "epoch", "run", "trial", "seed", "attempt")
SET = ("set", "test_set", "split", "dataset")
_INDEX = re.compile(r"|unnamed: ?\d+|__index_level_\d+__|index", re.IGNORECASE)
_ITEM_LIKE = re.compile(r"(?:item|question|q|example|task|problem|id|doc)?[\s_\-#]*\d+", re.IGNORECASE)
_MODEL_LIKE = re.compile(r"(?:model|system|llm)[\s_\-#]*\w*", re.IGNORECASE)
ROWS = ("models", "items")
_ERRORS = re.compile(r"(?:.*_)?(?:err|errors?|error_rate|wrong|mistakes|loss)", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"-?\d+,\d+%?")


def read_columns(path: Path) -> Columns:
    """The columns of a CSV, TSV, JSON, JSON Lines or Parquet file."""
    suffix = suffix_of(path)
    if suffix in (".parquet", ".pq"):
        return _parquet(path)
    if suffix in (".jsonl", ".ndjson"):
        return columns_of(list(read_json_lines(path)), str(path))
    if suffix == ".json":
        return columns_of(read_json(path), str(path))
    return _csv(path)


def columns_of(data: Any, where: str = "table") -> Columns:
    """Columns of a frame, of rows (mappings), of columns, or of nested mappings {model: {item: score}}."""
    if not isinstance(data, (Mapping, list, tuple)) and hasattr(data, "__arrow_c_stream__"):
        import pyarrow

        data = pyarrow.table(data) if not hasattr(data, "iloc") else pyarrow.Table.from_pandas(data)
    if hasattr(data, "to_pydict"):
        data = data.to_pydict()
    elif hasattr(data, "columns") and hasattr(data, "__getitem__") and not isinstance(data, Mapping):
        data = {str(name): list(data[name]) for name in data.columns}
    if isinstance(data, Mapping) and data:
        if all(isinstance(values, Mapping) for values in data.values()):
            items = dict.fromkeys(str(item) for values in data.values() for item in values)
            rows = [{str(key): value for key, value in values.items()} for values in data.values()]
            return {"model": [str(name) for name in data]} | {
                item: [row.get(item) for row in rows] for item in items
            }
        if all(isinstance(values, (list, tuple, np.ndarray)) for values in data.values()):
            columns: Columns = {_known(str(name)): list(values) for name, values in data.items()}
            sizes = {len(values) for values in columns.values()}
            if len(sizes) == 1:
                return _distinct_names(columns, where)
            raise InputError(
                f"{where}: columns must have one length; got {few([str(size) for size in sorted(sizes)])}"
            )
    if isinstance(data, (list, tuple)) and data and all(isinstance(row, Mapping) for row in data):
        names = dict.fromkeys(str(name) for row in data for name in row)
        return {_known(name): [row.get(name) for row in data] for name in names}
    raise InputError(f"{where}: expected rows or columns with names; got {type(data).__name__}")


def _distinct_names(columns: Columns, where: str) -> Columns:
    if not columns or not len(next(iter(columns.values()))):
        raise InputError(f"{where}: the table has no rows")
    return columns


_PLAIN = frozenset(
    (
        *(*MODEL, *ITEM, *SCORE, *ANSWER, *KEY, *RUN, *SET, "metric", "group", "date", "parameters", "param_count"),
        *("total", "n", "top1", "top5", "img_size", "n_correct", "num_correct", "task", "subject", "category"),
    )
)


def _known(name: str) -> str:
    """Names that mean something here lose case and spaces; others may be names of models and stay."""
    plain = re.sub(r"[\s-]+", "_", name.strip().lower())
    return plain if plain in _PLAIN or re.fullmatch(r".+_(?:correct|total|accuracy)", plain) else name.strip()


def _csv(path: Path) -> Columns:
    rows, delimiter = csv_rows(path)
    header = [cell.strip() for cell in rows[0]]
    if all(number(cell) is not None or cell.lower() in BLANK for cell in header) and len(header) > 1:
        integers = [str(position) for position in range(len(header))]
        if header != integers and (header[0] or header[1:] != integers[:-1]):
            rows.insert(0, [f"item-{position}" for position in range(len(header))])  # a matrix without a header
            header = rows[0]
    for line, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise InputError(f"{path}: row {line} has {len(row)} cells, and the header {len(header)}")
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise InputError(f"{path}: column names must differ; {twice!r} appears {header.count(twice)} times")
    if len(rows) < 2:
        raise InputError(f"{path}: the table has a header and no rows")
    if delimiter == ";":
        rows[1:] = [
            [c.replace(",", ".") if _DECIMAL_COMMA.fullmatch(c.strip()) else c for c in r] for r in rows[1:]
        ]
    cells = zip(*rows[1:], strict=True)
    return {_known(name): [cell.strip() for cell in column] for name, column in zip(header, cells, strict=True)}


def _parquet(path: Path) -> Columns:
    return {_known(name): values for name, values in table_columns(path).items()}


def read(columns: Columns, where: str, stem: str, cells: Cells, options: Options) -> None:
    """Read a long or wide table of scores into the cells."""
    columns = _without_row_numbers(dict(columns))
    model, item = _first(columns, MODEL), _first(columns, ITEM)
    score = options.metric if options.metric in columns else _first(columns, SCORE)
    if options.metric is not None and score != options.metric:
        raise InputError(
            f"{where}: metric {options.metric!r} is not a column; the columns are {few(list(columns))}"
        )
    for name in options.groups:
        if name not in columns:
            raise InputError(
                f"{where}: groups has {name!r}, which is not a column; the columns are {few(list(columns))}"
            )
    answer, key = _first(columns, ANSWER), _first(columns, KEY)
    if score is None and item is not None and answer is not None and key is not None:
        score = "score"
        pairs = zip(map(_text, columns[answer]), map(_text, columns[key]), strict=True)
        columns[score] = [said == right if said else "not answered" for said, right in pairs]
        cells.notes.append(f"Scores: 1 where {answer!r} equals {key!r}.")
    wrong = next((name for name in columns if _ERRORS.fullmatch(name)), None)
    if score is None and wrong is not None and _numeric(columns[wrong]):
        raise InputError(
            f"{where}: column {wrong!r} has errors, not scores; give 1 - error as 'score', or 'correct'"
        )
    alone = score is not None and len([name for name in columns if _numeric(columns[name])]) == 1
    if score is not None and (
        item is not None or (model is not None and _varied(columns[model])) or (model is None and alone)
    ):
        _read_long(columns, model, item, score, where, stem, cells, options)
    else:
        _read_wide(columns, model, item, where, cells, options)


def _without_row_numbers(columns: Columns) -> Columns:
    """Drop an unnamed index that only counts rows; an index with names becomes the column of row names."""
    for name in list(columns):
        if _INDEX.fullmatch(name) and len(columns) > 1 and name != "index":
            values = [str(value) for value in columns[name]]
            if values == [str(row) for row in range(len(values))]:
                del columns[name]
    return columns


def _varied(values: Sequence[Any]) -> bool:
    return len(set(map(str, values))) < len(values)


def _read_long(
    columns: Columns,
    model: str | None,
    item: str | None,
    score: str,
    where: str,
    stem: str,
    cells: Cells,
    options: Options,
) -> None:
    if item is None and not options.by_order:
        raise InputError(
            f"{where}: no column names the items (such as 'item' or 'question_id'); add one, or pass by_order=True "
            "(--by-order) if every model has its rows in the same order"
        )
    if model is None and item is not None and _first(columns, RUN) is None and _varied(columns[item]):
        first: dict[str, str] = {}
        again = (
            name
            for name, value in zip(columns[item], columns[score], strict=True)
            if first.setdefault(str(name), str(value)) != str(value)
        )
        if (name := next(again, None)) is not None:
            raise InputError(
                f"{where}: {item} {str(name)!r} has several scores, and no column names the models; call it "
                f"'model', or 'repeat' if they are repeats (the columns are {few(list(columns))})"
            )
    answer, key, run = (_first(columns, names) for names in (ANSWER, KEY, RUN))
    task = _first(columns, ("task", *SET))
    used = {model, item, score, answer, key, run}
    groups = _group_names(columns, item, task, used, options)
    count: dict[str, int] = {}
    _check_numbers(columns[score], score, where)
    runs: dict[str, int] = {}
    for row, value in enumerate(columns[score]):
        name = str(columns[model][row]) if model is not None else stem
        position = count[name] = count.get(name, -1) + 1
        label = str(columns[item][row]) if item is not None else f"item-{position}"
        group = str(columns[task][row]) if task is not None else ""
        index = cells.item((group, label), label if not group or not _is_number(label) else f"{group}/{label}")
        cells.describe(index, {column: columns[column][row] for column in groups})
        if key is not None:
            cells.set_key(index, _text(columns[key][row]))
        cells.add(
            cells.model(name),
            index,
            number(value),
            run=runs.setdefault(str(columns[run][row]), len(runs)) if run is not None else 0,
            answer=_text(columns[answer][row]) if answer is not None else "",
            where=f"{where}, row {row + 1}",
            missing=_blank(value),
        )


def _group_names(
    columns: Columns, item: str | None, task: str | None, used: set[str | None], options: Options
) -> list[str]:
    """The columns with one value per item: tasks, subjects, dates of questions."""
    names = []
    ids = [] if item is None else [str(value) for value in columns[item]]
    if task is not None:
        ids = [f"{group}/{name}" for group, name in zip(columns[task], ids, strict=True)] if ids else []
    for name, values in columns.items():
        if name in options.groups:
            names.append(name)
        elif name not in used and item is not None:
            known: dict[str, str] = {}
            if all(known.setdefault(key, str(value)) == str(value) for key, value in zip(ids, values, strict=True)):
                varied = len(set(known.values()))
                if 1 < varied < len(known) or name in GROUPS:
                    names.append(name)
    return names


def _read_wide(
    columns: Columns, model: str | None, item: str | None, where: str, cells: Cells, options: Options
) -> None:
    names = model or item or next((name for name in columns if _INDEX.fullmatch(name)), None)
    if names is None and not _numeric(next(iter(columns.values()))):
        names = next(iter(columns))
    by_item = options.rows == "items" or (model is None and item is not None)
    body = _wide_scores(columns, {names, *options.groups, *KEY, *RUN, *(GROUPS if by_item else ())}, where)
    count = len(next(iter(body.values())))
    labels = [str(value) for value in columns[names]] if names is not None else None
    rows = options.rows or ("models" if model is not None else "items" if item is not None else None)
    if rows is None:
        rows = _row_kind(list(body), labels, count)
        cells.notes.append(f"Rows are read as {rows} (pass rows=, --rows, to change this).")
    if rows == "models":
        models = labels or [f"model-{row}" for row in range(count)]
        items = list(body)
        matrix = [[body[name][row] for name in items] for row in range(count)]
    else:
        models = list(body)
        _check_highest(body, cells.max_score or 1.0, where)
        items = labels or [f"item-{row}" for row in range(count)]
        matrix = [list(body[name]) for name in models]
    if len(set(models)) < len(models):
        twice = next(name for name in models if models.count(name) > 1)
        raise InputError(
            f"{where}: model {twice!r} appears {models.count(twice)} times; name each model once, or in a table "
            "with one row per model and item call the columns 'model', 'item' and 'score'"
        )
    index = [cells.item(("", name), name) for name in items]
    others = {name: values for name, values in columns.items() if name not in body and name != names}
    key = _first(others, KEY)
    for name, values in others.items():
        for row, value in enumerate(values):
            if rows == "models":
                cells.describe_model(cells.model(models[row]), name, value)
            elif name == key:
                cells.set_key(index[row], _text(value))
            else:
                cells.describe(index[row], {name: value})
    for one, values in zip(models, matrix, strict=True):
        for column, value in zip(index, values, strict=True):
            cells.add(cells.model(one), column, number(value), where=f"{where}, {one}", missing=_blank(value))


def _wide_scores(columns: Columns, other: set[str | None], where: str) -> dict[str, Any]:
    """The columns of scores of a wide table; ``other`` are no scores."""
    body = {name: values for name, values in columns.items() if name not in other and _numeric(values)}
    if not body:
        raise InputError(
            f"{where}: no scores; expected a column of scores (such as 'score' or 'correct') beside 'model' and "
            "'item', or 'answer' and 'key' beside them, or a wide table of numbers in [0, 1]; the columns are "
            f"{few(list(columns))}"
        )
    values = [value for name, cells in columns.items() if name not in other for value in cells]
    if _has_answers(values) and any(_letter(value) for cells in body.values() for value in cells):
        raise InputError(
            f"{where}: the cells are answers, not scores; give one row per model and item with columns 'model', "
            "'item', 'answer' and 'key'"
        )
    return body


def _check_highest(body: Mapping[str, Any], highest: float, where: str) -> None:
    for name, values in body.items():
        if max(number(value) or 0.0 for value in values) > highest:
            raise InputError(
                f"{where}: column {name!r} has values above {highest:g}; pass groups={name!r} (--groups {name}) if "
                "it is not a model, or max_score (--max-score) to divide by the highest one"
            )


def _row_kind(columns: Sequence[str], labels: Sequence[str] | None, count: int) -> str:
    """What the rows of a wide table are, where no column name states it: by names such as "q12" or "model-3"."""
    if _mostly(_ITEM_LIKE, columns):
        return "models"
    if _mostly(_MODEL_LIKE, columns) or (labels is not None and _mostly(_ITEM_LIKE, labels)):
        return "items"
    return "models" if labels is not None or len(columns) >= count else "items"


def _mostly(pattern: re.Pattern[str], names: Sequence[str]) -> bool:
    return 2 * sum(bool(pattern.fullmatch(name)) for name in names) > len(names)


def _first(columns: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((name for name in names if name in columns), None)


def _blank(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in BLANK
    return value is None or (isinstance(value, float) and math.isnan(value))


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdecimal()


def _text(value: Any) -> str:
    return "" if _blank(value) else str(value)


def _numeric(values: Sequence[Any]) -> bool:
    """Whether at least half of the cells that are not blank are scores."""
    full = [value for value in values if not _blank(value)]
    return (
        bool(full) and not _has_answers(full) and 2 * sum(number(value) is not None for value in full) >= len(full)
    )


def _letter(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 1 and value.isalpha()


def _has_answers(values: Sequence[Any]) -> bool:
    """Whether some values are single letters that Inspect does not use for scores: "C" is an answer beside "A"."""
    return any(_letter(value) and value not in "CIPN" for value in values)


def _check_numbers(values: Sequence[Any], name: str, where: str) -> None:
    if not _numeric(values):
        some = next((value for value in values if not _blank(value)), "only empty cells")
        raise InputError(f"{where}: column {name!r} must hold scores (numbers, true or false); got {some!r}")
