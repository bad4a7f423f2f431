"""Scores in tables: long (one row per model and item) or wide (one row per model, or one per item)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardpan.errors import InputError, few
from hardpan.files import suffix_of
from hardpan.outcomes.cells import BLANK, GROUPS, Cells, score_of
from hardpan.outcomes.counts import COUNT_WORDS
from hardpan.tables import column_role_names, find_columns, plain_name, read_columns

Columns = Mapping[str, Sequence[Any]]
ROWS = ("models", "items")
SCORE_ROLES = ("model", "item", "task", "score", "run", "answer", "key")
_ROW_NUMBERS = ("index", "row")  # they name the items where no other column does
_INDEX = re.compile(r"|unnamed: ?\d+|__index_level_\d+__|index", re.IGNORECASE)
_ITEM_LIKE = re.compile(r"(?:item|question|q|example|task|problem|id|doc)?[\s_\-#]*\d+", re.IGNORECASE)
_MODEL_LIKE = re.compile(r"(?:model|system|llm)[\s_\-#]*\w*", re.IGNORECASE)
_LABELS = ("label", "labels", "target", "targets", "y_true")  # beside them other columns are predicted classes
_WORDS = {*GROUPS, *COUNT_WORDS, *column_role_names(*SCORE_ROLES)}
_ERRORS = re.compile(r"(?:.*_)?(?:err|errors?|error_rate|wrong|mistakes|loss)", re.IGNORECASE)


def score_table_columns(source: Any, where: str) -> Columns:
    """The columns of a file, a frame, rows, columns, or nested mappings {model: {item: score}}; of CSV as text.

    Names that mean something here lose case, spaces and hyphens; others may be names of models, and stay.
    """
    is_file = isinstance(source, Path)
    if hasattr(source, "iloc"):
        import pyarrow

        try:
            source = pyarrow.Table.from_pandas(source)  # the index may name the models or items
        except pyarrow.ArrowException as error:
            raise InputError(f"cannot be converted to columns ({error}); make every column one type") from error
    elif isinstance(source, Mapping) and source and all(isinstance(row, Mapping) for row in source.values()):
        source = [{"model": str(model), **row} for model, row in source.items()]
    is_csv = is_file and suffix_of(source) in (".csv", ".tsv", ".txt")
    columns = read_columns(source, text=is_csv, unnamed="item-" if is_file else "", name=where)
    named: dict[str, Sequence[Any]] = {}
    for name, values in columns.items():
        word = plain_name(name)
        known = word in _WORDS or re.fullmatch(r".+_(?:correct|total|accuracy)", word)
        named[word if known and word not in named else name.strip()] = values
    return named


def read_score_table(columns: Columns, where: str, stem: str, cells: Cells) -> None:
    """Read a long or wide table of scores into the cells."""
    options = cells.options
    columns = dict(columns)
    for name in [name for name in columns if _INDEX.fullmatch(name) and name != "index"]:
        counted = map(str, range(len(columns[name])))
        if len(columns) > 1 and list(map(str, columns[name])) == list(counted):
            del columns[name]  # an index that only counts rows; one with names becomes the column of row names
    given = dict(options.columns)
    if options.metric is not None:
        if options.metric not in columns:
            raise InputError(
                f"{options.metric!r} is not a column of {where}; it has {few(list(columns))}", argument="metric"
            )
        given["score"] = options.metric
    roles = find_columns(list(columns), SCORE_ROLES, given, only_given=("group",), where=where)
    if "item" not in roles and (number := next((name for name in columns if plain_name(name) in _ROW_NUMBERS), "")):
        roles["item"] = number  # a row number names the items where no other column does
    if "key" in roles and not roles.keys() & {"score", "answer", "model"}:
        columns, roles = _long_table_of_answers(columns, roles)
    if "score" not in roles and roles.keys() >= {"answer", "key"}:
        answers, keys = ([_score_text(value) for value in columns[roles[role]]] for role in ("answer", "key"))
        if not set(answers) & set(keys):
            raise InputError(
                f"{where}: no answer in column {roles['answer']!r}, such as {answers[0]!r}, is a value of "
                f"{roles['key']!r}, such as {keys[0]!r}: write both with the same names"
            )
        columns["score"] = [
            said == right if said else "not answered" for said, right in zip(answers, keys, strict=True)
        ]
        cells.notes.append(f"Scores: 1 where {roles['answer']!r} equals {roles['key']!r}.")
        _read_long_table(columns, roles | {"score": "score"}, where, stem, cells)
        return
    model, item, score = roles.get("model"), roles.get("item"), roles.get("score")
    wrong = next((name for name in columns if _ERRORS.fullmatch(name)), None)
    if score is None and wrong is not None and _is_score_column(columns[wrong]):
        raise InputError(
            f"{where}: column {wrong!r} has errors, not scores; give 1 - error as 'score', or 'correct'"
        )
    alone = score is not None and len([name for name in columns if _is_score_column(columns[name])]) == 1
    if score is not None and (
        item is not None or (alone if model is None else len(set(map(str, columns[model]))) < len(columns[model]))
    ):
        _read_long_table(columns, roles, where, stem, cells)
    else:
        _read_wide_table(columns, model, item, roles.get("group"), where, cells)


def _long_table_of_answers(columns: Columns, roles: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """A wide table of answers beside a key as a long one; the table itself where its other columns are scores."""
    names = [name for name in columns if name not in roles.values() and plain_name(name) not in GROUPS]
    scored = any(_is_score_column(columns[name]) for name in names)
    if not names or (scored and plain_name(roles["key"]) not in _LABELS):
        return dict(columns), dict(roles)
    long = {name: list(values) * len(names) for name, values in columns.items() if name not in names}
    if "item" not in roles:
        sets = [f"{name}/" for name in columns[roles["task"]]] if "task" in roles else [""] * len(columns[names[0]])
        long["item"] = [f"{name}item-{row}" for row, name in enumerate(sets)] * len(names)
        roles = {**roles, "item": "item"}
    long["model"] = [name for name in names for _ in columns[name]]
    long["answer"] = [value for name in names for value in columns[name]]
    return long, {**roles, "model": "model", "answer": "answer"}


def _read_long_table(columns: Columns, roles: Mapping[str, str], where: str, stem: str, cells: Cells) -> None:
    model, item, score, task, run = (roles.get(role) for role in ("model", "item", "score", "task", "run"))
    assert score is not None
    if item is None and not cells.options.by_order:
        raise InputError(
            f": {where} has no column that names the items (such as 'item' or 'question_id'); add one, or pass "
            "True if every model has its rows in the same order",
            argument="by_order",
        )
    if model is None and item is not None and run is None:
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
    groups = _group_columns_of_scores(columns, roles)
    if not _is_score_column(columns[score]):
        some = next((value for value in columns[score] if not _is_blank_score(value)), "only empty cells")
        raise InputError(f"{where}: column {score!r} must hold scores (numbers, true or false); got {some!r}")
    count: dict[str, int] = {}
    runs: dict[str, int] = {}
    for row, value in enumerate(columns[score]):
        name = str(columns[model][row]) if model is not None else stem
        position = count[name] = count.get(name, -1) + 1
        label = str(columns[item][row]) if item is not None else f"item-{position}"
        group = str(columns[task][row]) if task is not None else ""
        number = label.lstrip("-").isdecimal()
        index = cells.item((group, label), f"{group}/{label}" if group and number else label)
        cells.describe(index, {column: columns[column][row] for column in groups})
        if "key" in roles:
            cells.set_key(index, _score_text(columns[roles["key"]][row]))
        cells.add(
            cells.model(name),
            index,
            score_of(value),
            run=runs.setdefault(str(columns[run][row]), len(runs)) if run is not None else 0,
            answer=_score_text(columns[roles["answer"]][row]) if "answer" in roles else "",
            where=f"{where}, row {row + 1}",
            missing=_is_blank_score(value),
        )


def _group_columns_of_scores(columns: Columns, roles: Mapping[str, str]) -> list[str]:
    """The columns with one value per item: tasks, subjects, dates of questions."""
    item, task, group = (roles.get(role) for role in ("item", "task", "group"))
    used = {name for role, name in roles.items() if role not in ("task", "group")}
    ids = [] if item is None else [str(value) for value in columns[item]]
    if task is not None and ids:
        ids = [f"{name}/{label}" for name, label in zip(columns[task], ids, strict=True)]
    names = []
    for name, values in columns.items():
        if name == group:
            names.append(name)
        elif name not in used and item is not None:
            known: dict[str, str] = {}
            if all(known.setdefault(key, str(value)) == str(value) for key, value in zip(ids, values, strict=True)):
                varied = len(set(known.values()))
                if 1 < varied < len(known) or plain_name(name) in GROUPS:
                    names.append(name)
    return names


def _read_wide_table(
    columns: Columns, model: str | None, item: str | None, group: str | None, where: str, cells: Cells
) -> None:
    names = model or item or next((name for name in columns if _INDEX.fullmatch(name)), None)
    if names is None and not _is_score_column(next(iter(columns.values()))):
        names = next(iter(columns))
    by_item = cells.options.rows == "items" or (model is None and item is not None)
    words = set(column_role_names("key", "run"))
    words |= set(GROUPS) if by_item else set()
    other = {names, group, *(name for name in columns if plain_name(name) in words)}
    body = _wide_scores(columns, other, where)
    count = len(next(iter(body.values())))
    labels = [str(value) for value in columns[names]] if names is not None else None
    rows = cells.options.rows or ("models" if model is not None else "items" if item is not None else None)
    if rows is None:
        rows = _rows_of_score_table(list(body), labels, count)
        cells.notes.append(f"Rows are read as {rows} (pass rows=, --set rows=..., to change this).")
    if rows == "models":
        models = labels or [f"model-{row}" for row in range(count)]
        items = list(body)
        matrix = [[body[name][row] for name in items] for row in range(count)]
    else:
        models = list(body)
        highest = cells.options.max_score or 1.0
        high = next((name for name in body if max(score_of(value) or 0.0 for value in body[name]) > highest), None)
        if high is not None:
            raise InputError(
                f": column {high!r} of {where} has values above {highest:g}; pass group={high!r} (--group {high}) "
                "if it is not a model, or max_score (--set max_score=...) to divide by the highest one",
                argument="group",
            )
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
    key = find_columns(list(others), ("key",), where=where).get("key")
    for name, values in others.items():
        for row, value in enumerate(values):
            if rows == "models":
                cells.describe_model(cells.model(models[row]), name, value)
            elif name == key:
                cells.set_key(index[row], _score_text(value))
            else:
                cells.describe(index[row], {name: value})
    for one, values in zip(models, matrix, strict=True):
        for column, value in zip(index, values, strict=True):
            cells.add(
                cells.model(one), column, score_of(value), where=f"{where}, {one}", missing=_is_blank_score(value)
            )


def _wide_scores(columns: Columns, other: set[str | None], where: str) -> dict[str, Any]:
    """The columns of scores of a wide table; ``other`` are no scores."""
    body = {name: values for name, values in columns.items() if name not in other and _is_score_column(values)}
    if not body:
        raise InputError(
            f"{where}: no scores; expected a column of scores (such as 'score' or 'correct') beside 'model' and "
            "'item', or 'answer' and 'key' beside them, or a wide table of numbers in [0, 1]; the columns are "
            f"{few(list(columns))}"
        )
    values = [value for name, cells in columns.items() if name not in other for value in cells]
    if _holds_answers(values) and any(_is_answer_letter(value) for cells in body.values() for value in cells):
        raise InputError(
            f"{where}: the cells are answers, not scores; give one row per model and item with columns 'model', "
            "'item', 'answer' and 'key'"
        )
    return body


def _rows_of_score_table(columns: Sequence[str], labels: Sequence[str] | None, count: int) -> str:
    """What the rows of a wide table are, where no column name states it: by names such as "q12" or "model-3"."""

    def most_are(pattern: re.Pattern[str], names: Sequence[str]) -> bool:
        return 2 * sum(bool(pattern.fullmatch(name)) for name in names) > len(names)

    if most_are(_ITEM_LIKE, columns):
        return "models"
    if most_are(_MODEL_LIKE, columns) or (labels is not None and most_are(_ITEM_LIKE, labels)):
        return "items"
    return "models" if labels is not None or len(columns) >= count else "items"


def _is_blank_score(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and value.strip().lower() in BLANK)


def _score_text(value: Any) -> str:
    return "" if _is_blank_score(value) else str(value)


def _is_score_column(values: Sequence[Any]) -> bool:
    """Whether at least half of the cells that are not blank are scores."""
    full = [value for value in values if not _is_blank_score(value)]
    scores = sum(score_of(value) is not None for value in full)
    return bool(full) and not _holds_answers(full) and 2 * scores >= len(full)


def _holds_answers(values: Sequence[Any]) -> bool:
    """Whether some values are single letters that Inspect does not use for scores: "C" is an answer beside "A"."""
    return any(_is_answer_letter(value) and value not in "CIPN" for value in values)


def _is_answer_letter(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 1 and value.isalpha()
