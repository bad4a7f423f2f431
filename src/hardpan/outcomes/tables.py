"""Scores in tables: long (one row per model and item) or wide (one row per model, or one per item)."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from hardpan.errors import InputError, counted, few
from hardpan.files import suffix_of
from hardpan.outcomes.cells import BLANK, GROUPS, Cells, Options, distinct, score_of
from hardpan.outcomes.counts import COUNT_WORDS, counts_in_columns
from hardpan.outcomes.json_scores import READABLE, json_score_rows
from hardpan.outcomes.score_columns import (
    battle_options,
    check_score_columns,
    has_long_texts,
    is_id,
    item_columns,
    join_given_columns,
    repeats_of_rows,
    row_designs,
    summary_lines,
    unnested,
)
from hardpan.tables import column_role_names, find_columns, plain_name, read_columns

Columns = Mapping[str, Sequence[Any]]
ROWS = ("models", "items")
FILE = "file"  # as the column of a role: the name of the file
_FEWEST_DESCRIBED = 20  # twice the items from which a column that is constant in each of them is no score
MOST_SENTINELS = 0.25  # share of scores of -1 up to which they mark failures, and no losses of -1, 0 and 1
SCORE_ROLES = ("model", "item", "task", "score", "run", "answer", "key")
MEASURES = ("cost", "duration", "tokens", "human")  # further numbers of each answer
_ROW_NUMBERS = ("index", "row")  # they name the items where no other column does
_INDEX = re.compile(r"|unnamed: ?\d+|__index_level_\d+__|index", re.IGNORECASE)
_ITEM_LIKE = re.compile(r"(?:item|question|q|example|task|problem|id|doc)?[\s_\-#]*\d+", re.IGNORECASE)
_MODEL_LIKE = re.compile(r"(?:model|system|llm)[\s_\-#]*\w*", re.IGNORECASE)
_LABELS = ("label", "labels", "target", "targets", "y_true")  # beside them other columns are predicted classes
_WORDS = {*GROUPS, *COUNT_WORDS, *column_role_names(*SCORE_ROLES)}
_ERRORS = re.compile(
    r"(?:.*[_.\s])?(?:err|errors?|error_rate|wrong|mistakes|loss|wer|cer|perplexity)", re.IGNORECASE
)
_METRICS = re.compile(  # names of metrics and of properties of answers, which are not names of models
    r"(?:is|has|was|did|can|should)_.+|.*(?:score|bleu|rouge|meteor|chrf|precision|recall|accuracy|relevan|faithful).*"
    r"|(?:.*_)?(?:f1|em|exact_match|acc|auc|correctness|similarity|confidence|probability|valid|success|passed)",
    re.IGNORECASE,
)
_RANKS = ("rank", "place", "elo")  # of the rows of a board, which are no items
_SUMMARIES = re.compile(
    r"(?:(?:macro|micro|grand)_)?(?:overall|average|avg|mean|total)(?:_(?:score|accuracy|acc))?"
)
_AMOUNTS = re.compile(
    r"tokens?(?:_|$)|latency|seconds|duration|elapsed|cost|price|(?:^|_)(?:ms|s|time|steps|turns)$"
)
_LIKELY_HIGHEST = (5.0, 10.0, 100.0)
_LOSSES = re.compile(r"loss|perplexity|bits_per|nll|seconds|latency|duration|time")


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
        rows = json_score_rows(source)
        if rows is None:
            raise InputError(f"{where}: no scores of a known form. {READABLE}")
        source = rows
    is_csv = is_file and suffix_of(source) in (".csv", ".tsv", ".txt")
    read = read_columns(source, text=is_csv, unnamed="item-" if is_file else "", name=where)
    columns: Columns = read if is_csv else unnested(read)
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
    named = dict(options.columns)
    if FILE in named.values() and FILE not in columns:
        columns[FILE] = [stem] * len(next(iter(columns.values()), ()))
    columns, has_metric = _rows_of_metric(columns, options.metric, where)
    if options.metric is not None and not has_metric:
        if options.metric not in columns:
            raise InputError(
                f"{options.metric!r} is not a column of {where}; it has {few(list(columns))}", argument="metric"
            )
        named["score"] = options.metric
    named = join_given_columns(columns, named)
    _refuse_battles(columns, where)
    measures = _measure_columns(columns, {role: named.pop(role) for role in MEASURES if role in named}, where)
    rows = len(next(iter(columns.values()), ()))
    each = [
        n
        for n in columns
        if plain_name(n) in column_role_names("run") and len(set(map(str, columns[n]))) == rows > 1
    ]
    names = [name for name in columns if name not in each or name in named.values()]  # numbers of rows are no runs
    roles = find_columns(names, SCORE_ROLES, named, only_given=("group",), where=where)
    if "item" not in roles and (number := next((name for name in columns if plain_name(name) in _ROW_NUMBERS), "")):
        roles["item"] = number  # a row number names the items where no other column does
    if "key" in roles and not roles.keys() & {"score", "answer", "model"}:
        columns, roles = _long_table_of_answers(columns, roles)
    if "score" not in roles and roles.keys() >= {"answer", "key"}:
        answers, keys = ([_score_text(value) for value in columns[roles[role]]] for role in ("answer", "key"))
        if not set(answers) & set(keys):
            free = {name: values for name, values in columns.items() if name not in roles.values()}
            scores = _score_options(free, options)
            raise InputError(
                f"{where}: no answer in column {roles['answer']!r}, such as {answers[0][:60]!r}, is a value of "
                f"{roles['key']!r}, such as {keys[0][:60]!r}: "
                + (f"say which column has the scores ({scores})" if scores else "add a column 'correct', 1 or 0")
            )
        columns["score"] = [
            said == right if said else "not answered" for said, right in zip(answers, keys, strict=True)
        ]
        cells.notes.append(f"Scores: 1 where {roles['answer']!r} equals {roles['key']!r}.")
        _read_long_table(columns, roles | {"score": "score"}, named, where, stem, cells, measures)
        return
    model, item, score = roles.get("model"), roles.get("item"), roles.get("score")
    measures = {role: name for role, name in measures.items() if name not in roles.values()}
    wrong = next(iter(_score_candidates(columns, roles, options)), "") if score is None else ""
    if _ERRORS.fullmatch(plain_name(wrong)):
        raise InputError(
            f"{where}: column {wrong!r} has errors, not scores; give 1 - error as 'score', or 'correct'; for "
            f"losses without a range pass --column {shlex.quote(f'score={wrong}')} --set max_score=inf"
        )
    if (counts := counts_in_columns(columns)) and score in (None, counts[0]):
        raise InputError(
            f"{where}: columns {counts[0]!r} and {counts[1]!r} are counts of answers, not scores; give one row per "
            "model and test set with the columns 'model', 'correct' and 'total', or, if each row is an item, their "
            "fraction as 'score'"
        )
    if score is not None and (
        item is not None
        or "score" in named
        or (model is None and _is_long_without_names(columns, score))
        or (model is not None and len(set(map(str, columns[model]))) < len(columns[model]))
    ):
        _read_long_table(columns, roles, named, where, stem, cells, measures)
    elif score is None and model is not None and len(set(map(str, columns[model]))) < len(columns[model]):
        _refuse_long_table(columns, roles, where, options)
    else:
        _read_wide_table(columns, roles, where, cells)


def _long_table_of_answers(columns: Columns, roles: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """A wide table of answers beside a key as a long one; the table itself where its other columns are scores."""
    names = [
        name
        for name, values in columns.items()
        if name not in roles.values()
        and plain_name(name) not in GROUPS
        and _may_be_classes(values, columns[roles["key"]])
    ]
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


def _read_long_table(
    columns: Columns,
    roles: Mapping[str, str],
    given: Mapping[str, Any],
    where: str,
    stem: str,
    cells: Cells,
    measures: Mapping[str, str],
) -> None:
    columns, roles = _with_items(columns, roles, where, cells.options)
    for role in ("model", "item"):
        empty = [row for row, value in enumerate(columns[roles[role]]) if _is_empty(value)] if role in roles else []
        if empty:
            raise InputError(
                f"{where}: column {roles[role]!r} names no {role} in {counted(len(empty), 'row')}, first in row "
                f"{empty[0] + 1}; remove these rows, or write their {role}"
            )
    check_score_columns(columns, roles, given, where)
    if "model" in roles and not {"model", "item"} & given.keys():
        _refuse_metrics_as_items(columns, roles["model"], roles["item"], where)
    model, item, score, task = (roles.get(role) for role in ("model", "item", "score", "task"))
    assert item is not None
    assert score is not None
    if model is None and not {"run", "item"} & given.keys() and "run" not in roles:
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
    groups = _group_columns_of_scores(columns, roles, measures.values(), cells)
    cells.loss = bool(_ERRORS.fullmatch(plain_name(score)) or _LOSSES.search(plain_name(score)))
    if not _is_score_column(columns[score]):
        some = next((value for value in columns[score] if not _is_blank_score(value)), "only empty cells")
        raise InputError(f"{where}: column {score!r} must hold scores (numbers, true or false); got {some!r}")
    failed = _sentinel_of_failure(columns[score], where, cells)
    _check_range_of_scores(columns, roles, failed, where, cells.options)
    runs, note = repeats_of_rows(columns, roles)
    if "run" in roles:  # the same in all tables
        runs = [cells.run((str(name), run)) for name, run in zip(columns[roles["run"]], runs, strict=True)]
    cells.notes += [note] if note else []
    for row, value in enumerate(columns[score]):
        label = str(columns[item][row])
        group = str(columns[task][row]) if task is not None else ""
        number = label.lstrip("-").isdecimal()
        index = cells.item((group, label), f"{group}/{label}" if group and number else label)
        cells.describe(index, {column: columns[column][row] for column in groups})
        if "key" in roles:
            cells.set_key(index, _score_text(columns[roles["key"]][row]))
        number_of_score = score_of(value)
        cells.add(
            cells.model(str(columns[model][row]) if model is not None else stem),
            index,
            None if number_of_score == failed else number_of_score,
            run=runs[row],
            answer=_score_text(columns[roles["answer"]][row]) if "answer" in roles else "",
            where=f"{where}, row {row + 1}",
        )
        for role, name in measures.items():
            if (further := score_of(columns[name][row])) is not None:
                cells.measure(role, cells.options.in_range(further) if role == "human" else further)


def _refuse_metrics_as_items(columns: Columns, model: str, item: str, where: str) -> None:
    """Refuse a table whose items are all named as metrics: its models may be the items of one model."""
    items = list(dict.fromkeys(map(str, columns[item])))
    if all(map(_METRICS.fullmatch, items)):
        swap = f"--column {shlex.quote(f'model={item}')} --column {shlex.quote(f'item={model}')}"
        raise InputError(
            f": nothing in {where} says whether {str(columns[model][0])[:60]!r} with {few(items, 3)} is an item or "
            f"a model; decide with {swap} (items of one model) or --column {shlex.quote(f'model={model}')} (in "
            f"Python columns={{'model': {item!r}, 'item': {model!r}}} or {{'model': {model!r}}})",
            argument="columns",
        )


def _refuse_battles(columns: Columns, where: str) -> None:
    if {"model_a", "model_b", "winner"} <= find_columns(list(columns), ("model_a", "model_b", "winner")).keys():
        raise InputError(
            f"{where}: each row is a battle of two models, not a score; use hardpan leaderboard rank, or "
            "leaderboard.battles"
        )


def _measure_columns(columns: Columns, given: Mapping[str, Any], where: str) -> dict[str, str]:
    """The columns of further numbers by role; one that is not given needs a clear name and numbers."""
    measures = dict[str, str]()
    for role in MEASURES:
        try:
            measures |= find_columns(list(columns), (role,), {role: given.get(role)}, where=where)
        except InputError:
            if role in given:
                raise
    return {role: name for role, name in measures.items() if _is_score_column(columns[name])}


def _may_be_classes(values: Sequence[Any], keys: Sequence[Any]) -> bool:
    """Whether values are mostly among the keys, or are at most as many different numbers."""
    known = set(map(_score_text, keys))
    if 2 * sum(_score_text(value) in known for value in values) >= len(values):
        return True
    return _is_score_column(values) and len(set(map(str, values))) <= max(2, len(known))


def _is_long_without_names(columns: Columns, score: str) -> bool:
    """Whether a table with a column of scores has no other one, or texts that repeat as names of models do."""
    others = [name for name in columns if name != score]
    if not any(_is_score_column(columns[name]) for name in others):
        return True
    texts = next((columns[name] for name in others if not _is_score_column(columns[name])), ())
    return 2 * len(set(map(str, texts))) <= len(texts)


def _with_items(
    columns: Columns, roles: Mapping[str, str], where: str, options: Options
) -> tuple[Columns, Mapping[str, str]]:
    """A long table with a column of items: its own, tasks of which each model has one row, or positions."""
    if "item" in roles:
        return columns, roles
    if options.by_order:
        count: dict[str, int] = {}
        names = map(str, columns[roles["model"]] if "model" in roles else [""] * len(columns[roles["score"]]))
        labels = []
        for name in names:
            count[name] = count.get(name, -1) + 1
            labels.append(f"item-{count[name]}")
        return {**columns, "item": labels}, {**roles, "item": "item"}
    rank = next((name for name in columns if plain_name(name) in _RANKS), None)
    if rank is not None and 2 * len(set(map(str, columns[rank]))) > len(columns[rank]):
        raise InputError(
            f"{where}: one row for each {rank}: scores of whole test sets, without items; give one row per model "
            "and item, or counts (the columns model, correct, total)"
        )
    known = item_columns(columns, roles)
    if known == [roles.get("task")]:
        return columns, {role: name for role, name in roles.items() if role != "task"} | {"item": known[0]}
    ids = [name for name in columns if is_id(name) and name not in roles.values()]
    if len(known) == 1 and known == ids:  # the only candidate
        return columns, {**roles, "item": known[0]}
    _refuse_long_table(columns, roles, where, options)
    raise AssertionError


def _check_range_of_scores(
    columns: Columns, roles: Mapping[str, str], failed: float, where: str, options: Options
) -> None:
    """Refuse scores outside 0 to the highest possible one, with the columns that may be meant instead."""

    def is_in_range(values: Sequence[Any]) -> bool:
        known = [score for value in values if (score := score_of(value)) is not None and score != failed]
        return bool(known) and min(known) >= options.min_score and max(known) <= (options.max_score or 1.0)

    if options.max_score == math.inf or is_in_range(columns[roles["score"]]):
        return
    scores = {score for value in columns[roles["score"]] if (score := score_of(value)) is not None} - {failed}
    used = roles.values()
    others = [
        name
        for name in columns
        if name not in used and _is_score_column(columns[name]) and is_in_range(columns[name])
    ]
    choose = [f"--metric {shlex.quote(name)}" for name in others[:3]]
    remedy = (
        f"pass --set max_score=inf for scores without a range, or both ends of it (--set min_score={min(scores):g} "
        f"--set max_score={max(1.0, max(scores)):g}, if these are the ends)"
        if min(scores) < options.min_score
        else _max_score_option(max(scores))
    )
    span = f"{options.min_score:g} to {options.max_score or 1.0:g}"
    raise InputError(
        f"{where}: column {roles['score']!r} has scores from {min(scores):g} to {max(scores):g}, outside {span}; "
        + remedy
        + (f"; or choose another column ({' or '.join(choose)})" if choose else "")
    )


def _group_columns_of_scores(
    columns: Columns, roles: Mapping[str, str], measures: Collection[str], cells: Cells
) -> list[str]:
    """The columns with one value per item that are groups by their names, or given; others are noted."""
    item, task, group = (roles.get(role) for role in ("item", "task", "group"))
    used = {name for role, name in roles.items() if role not in ("task", "group")} | {*measures}
    ids = list(map(str, columns[item])) if item is not None else []
    if task is not None and ids:
        ids = [f"{name}/{label}" for name, label in zip(columns[task], ids, strict=True)]
    named, others = list[str](), list[str]()
    for name, values in columns.items():
        if name in (group, task):
            named.append(name)
        elif name not in used and item is not None:
            known: dict[str, str] = {}
            if all(known.setdefault(key, str(value)) == str(value) for key, value in zip(ids, values, strict=True)):
                if _names_groups(name):
                    named.append(name)
                elif "." not in name and 1 < len(set(known.values())) <= len(known) / 2:
                    others.append(name)
    _note_other_groups(others, cells)
    return named


def _names_groups(name: str) -> bool:
    return plain_name(name) in (*GROUPS, *column_role_names("group"))


def _note_other_groups(names: Sequence[str], cells: Cells) -> None:
    """A note on columns whose names do not say that their values group items."""
    if names and "group" not in cells.options.columns:
        options = " or ".join(f"--group {shlex.quote(name)}" for name in names[:3])
        cells.notes.append(f"Columns with one value per item, not read as groups of items; {options} does so.")


def _read_wide_table(columns: Columns, roles: Mapping[str, str], where: str, cells: Cells) -> None:
    model, item, group, task, run = (roles.get(role) for role in ("model", "item", "group", "task", "run"))
    names = model or item or next((name for name in columns if _INDEX.fullmatch(name)), None)
    if names is None and not _is_score_column(next(iter(columns.values()))):
        names = next(iter(columns))
    by_item = cells.options.rows == "items" or (model is None and item is not None)
    words, high = set(column_role_names("key", "run")), list[str]()
    words |= set(GROUPS) if by_item else set()
    other = {names, group, task, run, *(name for name in columns if plain_name(name) in words)}
    body = _wide_scores(columns, other, where)
    columns, body = _without_summaries(columns, body, names, cells)
    count = len(next(iter(body.values())))
    labels = [str(value) for value in columns[names]] if names is not None else None
    rows = cells.options.rows or ("models" if model is not None else "items" if item is not None else None)
    if rows is None:
        rows = _rows_of_score_table(list(body), labels, count)
        metrics = [name for name in body if len(body) == 1 or _METRICS.fullmatch(name)]
        if rows == "models" and names is not None and 2 * len(metrics) >= len(body):
            scores = shlex.quote(f"score={metrics[0]}")
            raise InputError(
                f": nothing in {where} says whether {str(columns[names][0])[:60]!r} is an item or a model; decide "
                f"with --column {shlex.quote(f'item={names}')} --column {scores} (items of one model) or --set "
                f"rows=models (in Python columns={{'item': {names!r}, 'score': {metrics[0]!r}}} or rows='models')",
                argument="columns",
            )
        cells.notes.append(f"Rows are read as {rows} (pass rows=, --set rows=..., to change this).")
    if rows == "models":
        if names is not None and len(set(map(str, columns[names]))) < count:
            _refuse_long_table(columns, {**roles, "model": names}, where, cells.options)
        _check_board(body, names, where, cells.options)
        models = labels or [f"model-{row}" for row in range(count)]
        items = list(body)
        matrix = [[body[name][row] for name in items] for row in range(count)]
    else:
        highest = cells.options.max_score or 1.0
        metrics = [name for name in body if _METRICS.fullmatch(name)]
        if cells.options.rows is None and 2 * len(metrics) >= len(body):
            raise InputError(
                f": {few(list(map(repr, metrics)))} of {where} are no names of models; say which column has the "
                f"scores ({_score_options(body, cells.options)}), or pass "
                "rows='items' (--set rows=items) if they are models",
                argument="metric",
            )
        high = [name for name in body if max(score_of(value) or 0.0 for value in body[name]) > highest]
        if high and (group is None or len(high) == len(body)):
            verb, first = "has" if len(high) == 1 else "have", high[0]
            raise InputError(
                f": {few(list(map(repr, high)))} of {where} {verb} values above {highest:g}; if all other numbers "
                f"are scores of models, pass group={first!r} (--group {shlex.quote(first)}); if one column has the "
                f"scores of one model, name it ({_score_options(body, cells.options)}); max_score divides by the "
                "highest score",
                argument="group",
            )
        if high:
            cells.notes.append(f"Columns with values above {highest:g} are read as groups of items: {few(high)}.")
            body = {name: values for name, values in body.items() if name not in high}
        models = list(body)
        items = labels or [f"item-{row}" for row in range(count)]
        if task is not None:
            items = [f"{prefix}/{label}" for prefix, label in zip(columns[task], items, strict=True)]
        matrix = [list(body[name]) for name in models]
    if len(set(models)) < len(models):
        twice = next(name for name in models if models.count(name) > 1)
        raise InputError(
            f"{where}: model {twice!r} appears {models.count(twice)} times; name each model once, or in a table "
            f"with one row per model and item say which has the scores: {_score_options(body, cells.options)}"
        )
    if len(set(items)) < len(items) and cells.options.by_order:
        items = distinct(items)
    if len(set(items)) < len(items):
        twice = next(name for name in items if items.count(name) > 1)
        options = "" if len(body) > 1 and has_long_texts(items) else _score_options(body, cells.options)
        raise InputError(
            f": {where} has several rows of {twice[:60]!r}; if each row is an item of its own, pass True (--set "
            "by_order=true)"
            + (f"; if it has one row per model and item, say which has the scores: {options}" if options else ""),
            argument="columns" if options else "by_order",
        )
    index = [cells.item(("", name), name) for name in items]
    others = {name: values for name, values in columns.items() if name not in body and name != names}
    key = find_columns(list(others), ("key",), where=where).get("key")
    named = {task, group, *(name for name in others if _names_groups(name)), *high}
    by_name = list[str]()
    for name, values in others.items():
        texts, questions = rows != "models" and name not in named and name != key, has_long_texts(values)
        if texts and not questions and 1 < len(set(map(str, values))) <= len(values) / 2:
            by_name.append(name)
        for row, value in enumerate(values):
            if rows == "models":
                cells.describe_model(cells.model(models[row]), name, value)
            elif name == key:
                cells.set_key(index[row], _score_text(value))
            elif not texts:
                cells.describe(index[row], {name: value})
            elif questions:
                cells.ask(index[row], value)
    _note_other_groups(by_name, cells)
    failed = _sentinel_of_failure([value for values in matrix for value in values], where, cells)
    for one, values in zip(models, matrix, strict=True):
        for column, value in zip(index, values, strict=True):
            number = score_of(value)
            cells.add(
                cells.model(one),
                column,
                None if number == failed else number,
                run=cells.run(columns[run][0]) if run is not None else 0,
                where=f"{where}, {one}",
                missing=_is_blank_score(value),
            )


def _rows_of_metric(columns: Columns, metric: str | None, where: str) -> tuple[dict[str, Any], bool]:
    """The rows of one metric of a table with a column of their names beside one of scores; whether it was named."""
    names = [str(name) for name in columns.get("metric", ())]
    known = dict.fromkeys(names)
    scores = [name for name in columns if name in column_role_names("score")]
    if not scores or not 1 < len(known) <= len(names) / 2 or (metric is not None and metric in columns):
        return dict(columns), False
    if metric not in known:
        raise InputError(
            f"must be one of {few(list(known))}, of which column 'metric' of {where} has several"
            + ("" if metric is None else f"; got {metric!r}"),
            argument="metric",
        )
    selected = {
        name: [value for value, own in zip(values, names, strict=True) if own == metric]
        for name, values in columns.items()
        if name != "metric"
    }
    return selected, True


def _max_score_option(highest: float) -> str:
    """The option that divides scores by the highest possible one, which is likely to be 5, 10 or 100."""
    if highest > _LIKELY_HIGHEST[-1]:
        return (
            "pass max_score (--set max_score=inf) for scores without a range, or the highest possible score to "
            f"divide by it (--set max_score={highest:g}, if that is {highest:g})"
        )
    likely = next(value for value in _LIKELY_HIGHEST if highest <= value)
    option = f"pass max_score (--set max_score={likely:g}) to divide by the highest possible score"
    return f"{option}, if that is {likely:g}"


def _refuse_long_table(columns: Columns, roles: Mapping[str, str], where: str, options: Options) -> None:
    """Refuse a table with one row per model and item, with the commands that name what its columns are."""
    designs = row_designs(columns, roles) or [{}]
    named = {**roles, **{f"as {role}": name for role, name in designs[0].items()}}
    scores = [roles["score"]] if "score" in roles else _score_candidates(columns, named, options)
    pairs = [(designs[0], name) for name in scores[:3]]
    pairs[1:1] = [(design, scores[0]) for design in designs[1:3] if scores]
    choices = [{**design, "score": name} for design, name in pairs]
    if "key" in roles and not {"score", "answer"} & roles.keys():
        keys, free = columns[roles["key"]], [name for name in columns if name not in named.values()]
        if said := [name for name in free if _may_be_classes(columns[name], keys)]:
            choices = [{**designs[0], "answer": name} for name in said[:3]]
    if "score" in roles:
        choices = [{role: name for role, name in choice.items() if role != "score"} for choice in choices]
    if not any("item" in {**roles, **choice} for choice in choices):
        raise (
            InputError(
                f": {where} has no column that can name the items (it has {few(list(columns))}); add one, name "
                "each model once, or pass True (--set by_order=true) if every model has its rows in the same order",
                argument="by_order",
            )
            if scores
            else InputError(f"{where}: no scores; {_expected(columns)}")
        )
    commands = [
        " ".join(f"--column {shlex.quote(f'{role}={name}')}" for role, name in choice.items())
        + _range_option(columns.get(choice.get("score", roles.get("score", "")), ()), options)
        for choice in choices
    ]
    raise InputError(
        f": the names of the columns of {where} do not say what is what; decide with {' or '.join(commands)} (in "
        f"Python columns={choices[0]!r})",
        argument="columns",
    )


def _score_candidates(columns: Columns, roles: Mapping[str, str], options: Options) -> list[str]:
    """The columns of numbers that may be scores: of right and wrong first, then those in the range of scores.

    What is the same in all rows of every item describes the items.
    """
    highest, used, item = options.max_score or 1.0, {*roles.values()}, roles.get("item", roles.get("as item"))
    several = [*columns.get(item, ())] if item else []
    several = several if len(several) >= 2 * len({*map(str, several)}) > _FEWEST_DESCRIBED else []
    found = dict[str, tuple[bool, bool, bool]]()
    for name, values in columns.items():
        plain = plain_name(name)
        known = {score for value in values if (score := score_of(value)) is not None}
        if name in used or _AMOUNTS.search(plain) or is_id(name) or plain in (*_RANKS, *column_role_names("run")):
            continue
        if several and len({*zip(map(str, several), map(str, values), strict=True)}) == len({*map(str, several)}):
            continue
        if _is_score_column(values) and len(known) > 1:
            inside = min(known) >= 0.0 and max(known) <= highest
            found[name] = bool(_ERRORS.fullmatch(plain)), not inside, not known <= {0.0, 1.0}
    fitting = [name for name, (_, outside, _) in found.items() if not outside]
    return sorted(fitting or list(found), key=lambda name: found[name])


def _range_option(values: Sequence[Any], options: Options) -> str:
    """The option that a column of scores needs whose numbers are outside the range."""
    known = [score for value in values if (score := score_of(value)) is not None]
    if (
        options.max_score is not None
        or not known
        or ((min(known) in (0.0, -1.0) or min(known) > 0) and max(known) <= 1)
    ):
        return ""
    likely = next((value for value in _LIKELY_HIGHEST if max(known) <= value), math.inf)
    return f" --set max_score={math.inf if min(known) < 0 else likely:g}"


def _expected(columns: Columns) -> str:
    return battle_options(columns) or (
        "expected a column of scores (such as 'score' or 'correct') beside 'model' and 'item', or 'answer' and "
        f"'key' beside them, or a wide table of numbers in [0, 1]; the columns are {few(list(columns))}"
    )


def _check_board(body: Columns, names: str | None, where: str, options: Options) -> None:
    """Refuse a table with one row per model whose columns are no items of one test: several ranges, or metrics."""
    highest = {name: max(score_of(value) or 0.0 for value in values) for name, values in body.items()}
    above = [name for name, value in highest.items() if value > (options.max_score or 1.0)]
    metrics = [name for name in body if _METRICS.fullmatch(name) or _AMOUNTS.search(plain_name(name))]
    if names is not None and options.rows is None and 2 * len(metrics) >= len(body) > 1:
        raise InputError(
            f": {few(metrics, 4)} of {where} are metrics of whole test sets, no items; give one row per model and "
            "item, or counts (the columns model, correct, total); if they are items, pass rows='models' (--set "
            "rows=models)",
            argument="rows",
        )
    if not above:
        return
    listed = few([f"{name} up to {highest[name]:g}" for name in above], 5)
    if len(above) < len(body) or max(highest.values()) > _LIKELY_HIGHEST[-1] or options.max_score is not None:
        within = few([name for name in body if name not in above], 5)
        raise InputError(
            f"{where}: a row per model, and columns of several ranges ({listed}; {within or 'none'} up to "
            f"{options.max_score or 1:g}), which are no items of one test; remove those that are no scores"
        )
    raise InputError(
        f"{where}: a row per model, and values above 1: {_max_score_option(max(highest.values()))} ({listed})"
    )


def _is_empty(value: Any) -> bool:
    return value is None or value != value or not str(value).strip()


def _score_options(columns: Columns, options: Options) -> str:
    """The options that name a column of numbers as that of the scores; "" where none may be it."""
    names = _score_candidates(columns, {}, options)[:3]
    return " or ".join(
        f"--column {shlex.quote(f'score={name}')}{_range_option(columns[name], options)}" for name in names
    )


def _wide_scores(columns: Columns, other: set[str | None], where: str) -> dict[str, Any]:
    """The columns of scores of a wide table; ``other`` are no scores."""
    body = {name: values for name, values in columns.items() if name not in other and _is_score_column(values)}
    if not body:
        raise InputError(f"{where}: no scores; {_expected(columns)}")
    values = [value for name, cells in columns.items() if name not in other for value in cells]
    if _holds_answers(values) and any(_is_answer_letter(value) for cells in body.values() for value in cells):
        raise InputError(
            f"{where}: the cells are answers, not scores; give one row per model and item with columns 'model', "
            "'item', 'answer' and 'key'"
        )
    return body


def _without_summaries(
    columns: Columns, body: Columns, names: str | None, cells: Cells
) -> tuple[Columns, dict[str, Any]]:
    """The table and its scores without the columns and rows that are means or sums of the others, with a note."""
    left, rows = summary_lines(body, cells.options.max_score or 1.0)
    left += [name for name in body if _SUMMARIES.fullmatch(plain_name(name)) and name not in left]
    labels = [] if names is None else [plain_name(str(label)) for label in columns[names]]
    rows += [row for row, label in enumerate(labels) if _SUMMARIES.fullmatch(label) and row not in rows]
    if len(left) == len(body) or len(rows) == len(next(iter(body.values()))):
        return columns, dict(body)
    listed = [f"column {name!r}" for name in left]
    listed += [f"row {str(columns[names][row])[:60]!r}" if names else f"row {row + 1}" for row in rows]
    if not listed:
        return columns, dict(body)
    cells.notes.append(f"Left out, as the mean or sum of the others by numbers or name: {few(listed)}.")
    columns = {
        name: [value for row, value in enumerate(values) if row not in rows]
        for name, values in columns.items()
        if name not in left
    }
    return columns, {name: columns[name] for name in body if name not in left}


def _rows_of_score_table(columns: Sequence[str], labels: Sequence[str] | None, count: int) -> str:
    """What the rows of a wide table are, where no column name states it: by names such as "q12" or "model-3"."""

    def most_are(pattern: re.Pattern[str], names: Sequence[str]) -> bool:
        return 2 * sum(bool(pattern.fullmatch(name)) for name in names) > len(names)

    if most_are(_ITEM_LIKE, columns):
        return "models"
    named = labels is not None and (most_are(_ITEM_LIKE, labels) or has_long_texts(labels))
    if most_are(_MODEL_LIKE, columns) or named:
        return "items"
    return "models" if labels is not None or len(columns) >= count else "items"


def _sentinel_of_failure(values: Sequence[Any], where: str, cells: Cells) -> float:
    """-1 where it can only mark answers without a score, among scores of at least 0; else NaN, no score."""
    scores = [score for value in values if (score := score_of(value)) is not None]
    count = scores.count(-1.0)
    if (
        not count
        or cells.options.max_score == math.inf
        or min(scores) < -1.0
        or any(-1.0 < score < 0.0 for score in scores)
    ):
        return math.nan
    if count > MOST_SENTINELS * len(scores):
        raise InputError(
            f"{where}: {count:,} of {len(scores):,} scores are -1, too many to be a mark of failed answers; write "
            "0 for wrong answers, and leave the cells of failed ones empty"
        )
    cells.notes.append(f"Scores of -1 are read as failed answers: {count:,}.")
    return -1.0


def _is_blank_score(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and value.strip().lower() in BLANK)


def _score_text(value: Any) -> str:
    return "" if _is_blank_score(value) else str(value)


def _is_score_column(values: Sequence[Any]) -> bool:
    """Whether at least half of the cells that are not blank are scores."""
    try:
        counted = Counter(values)
    except TypeError:  # lists and mappings
        return False
    full = {value: count for value, count in counted.items() if not _is_blank_score(value)}
    scores = sum(count for value, count in full.items() if score_of(value) is not None)
    return bool(full) and not _holds_answers(list(full)) and 2 * scores >= sum(full.values())


def _holds_answers(values: Sequence[Any]) -> bool:
    """Whether some values are single letters that Inspect does not use for scores: "C" is an answer beside "A"."""
    return any(_is_answer_letter(value) and value not in "CIPN" for value in values)


def _is_answer_letter(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 1 and value.isalpha()
