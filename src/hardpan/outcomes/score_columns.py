"""Which columns of a long table of scores name its models, items and runs, by what the columns hold.

Names alone cannot decide it: beside a column ``prompt_id``, a column ``ticket`` may be the item. A cell is a model
and an item in one run, and has one row if the columns are right. Where cells have several rows, a column that tells
those rows apart and whose values recur with other models or items belongs to the design of the table: it names
other items, other models, or runs, and the user says which.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError, counted, few
from hardpan.outcomes.cells import score_of
from hardpan.tables import ROLES, column_role_names, is_number, plain_name

Columns = Mapping[str, Sequence[Any]]
Roles = Mapping[str, str]
Codes = NDArray[np.int64]
Floats = NDArray[np.float64]

LONG_TEXT = 60  # characters; a question, not the name of a model
_JOINED = ("model", "item", "task", "run")  # roles that several columns together may have
_UNIQUE = 0.99  # share of the rows of cells with several that a column has to distinguish
_OFTEN = 0.1  # share of all rows from which columns are asked about whose names do not say what they are
_MOST_FACTORS = 6
_MOST_DESIGNED = 10  # columns, of which all pairs are tried
_MOST_KEYS = 200  # of objects that are read as columns; more are ids
_SIDES = frozenset(
    ("a", "b", "model_a", "model_b", "left", "right", "first", "second", "tie", "draw", "neither", "")
)
_DENSITY = 4.0  # at the mean of the others, in units of that of a uniform score: models and items are alike
_EXACT = 1e-9  # sums of numbers that are not rounded differ by less


def join_given_columns(columns: dict[str, Sequence[Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    """The given columns by role; several for one role, as ``"agent,model"`` or a list, become one in ``columns``.

    Example:
        >>> columns = {"agent": ["x", "y"], "model": ["a", "a"]}
        >>> join_given_columns(columns, {"model": "agent,model"}), columns["agent,model"]
        ({'model': 'agent,model'}, ['x, a', 'y, a'])
    """
    result = dict(given)
    plain = {plain_name(name): name for name in reversed(columns)}
    for role, value in given.items():
        names = [str(name) for name in value] if isinstance(value, (list, tuple)) else str(value).split(",")
        known = [plain[plain_name(name)] for name in names if plain_name(name) in plain]
        if role in _JOINED and value not in list(columns) and 1 < len(names) == len(known):
            cells = zip(*(columns[name] for name in known), strict=True)
            result[role] = ",".join(known)
            columns[result[role]] = [", ".join(map(str, row)) for row in cells]
    return result


def unnested(columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Columns of objects as one column per key, named by its path.

    Example:
        >>> unnested({"item": ["q1", "q2"], "judge": [{"score": 1, "votes": {"a": 2}}, {"score": 0}]})
        {'item': ['q1', 'q2'], 'judge.score': [1, 0], 'judge.votes.a': [2, None]}
    """
    result: dict[str, Sequence[Any]] = {}
    for name, values in columns.items():
        objects = [value for value in values if isinstance(value, dict)]
        keys = list(dict.fromkeys(key for value in objects for key in value))
        if not objects or len(keys) > _MOST_KEYS or any(value for value in values if not isinstance(value, dict)):
            result[name] = values
            continue
        inner = {f"{name}.{key}": [value.get(key) if value else None for value in values] for key in keys}
        result |= {key: value for key, value in unnested(inner).items() if key not in columns}
    return result


def battle_options(columns: Columns) -> str:
    """The options that name the columns of a table of battles; "" where it is no such table.

    Two columns of names share most of their values, and all values of a third are among these or say who won.

    Example:
        >>> battle_options({"left": ["gpt", "opus"], "right": ["opus", "gpt"], "better": ["A", "tie"]})
        'if rows are battles, pass --column model_a=left --column model_b=right --column winner=better'
    """
    values = {name: {str(cell).strip().lower() for cell in cells} for name, cells in columns.items()}
    names = [name for name, known in values.items() if len(known) > 1 and not all(map(is_number, known))]
    for first, second in itertools.combinations(names, 2):
        both = values[first] & values[second]
        if 2 * len(both) < min(len(values[first]), len(values[second])) or values[first] & _SIDES:
            continue
        known = values[first] | values[second] | _SIDES
        if winner := next((n for n in values if n not in (first, second) and values[n] <= known), ""):
            roles = {"model_a": first, "model_b": second, "winner": winner}
            listed = " ".join(f"--column {shlex.quote(f'{role}={name}')}" for role, name in roles.items())
            return f"if rows are battles, pass {listed}"
    return ""


def check_score_columns(columns: Columns, roles: Roles, given: Mapping[str, Any], where: str) -> None:
    """Refuse roles under which a cell has rows that another column tells apart, with the choices that decide.

    A given item or run decides that further rows of a cell are repeats, a given model that other columns that may
    be the model are none.

    Args:
        columns: of a long table, with a column of items.
        roles: the column of each role that was found or given.
        given: those that the user gave.
        where: the table in messages.
    """
    codes = {name: _column_codes(columns[name]) for name in roles.values()}
    if "item" not in roles or not len(_rows_of_several(_cell_codes(codes, roles))):
        return
    codes = {name: _column_codes(values) for name, values in columns.items()}
    if not (factors := _factors_of_cells(codes, roles, given)):
        return
    choices: list[dict[str, str]] = []
    for choice in itertools.chain.from_iterable(_choices_of_roles(factor, roles, codes) for factor in factors):
        joined = dict(codes)
        names = {role: _joined_codes(joined, name) for role, name in choice.items()}
        others = {role: name for role, name in roles.items() if role not in names and name not in names.values()}
        if _factors_of_cells(joined, others | names, {**given, **choice}):
            choice = {role: roles[role] for role in ("model", "item") if role in others} | choice
        if choice not in choices:
            choices.append(choice)
    named = [role for role in ("model", "task", "item") if role in roles]
    row = int(_rows_of_several(_cell_codes(codes, roles))[0])
    cell = ", ".join(f"{roles[role]} {str(columns[roles[role]][row])[:40]!r}" for role in named)
    apart = " and ".join(repr(name) for name in dict.fromkeys(itertools.chain.from_iterable(factors)))
    options = [" ".join(f"--column {shlex.quote(f'{r}={n}')}" for r, n in choice.items()) for choice in choices]
    raise InputError(
        f": {where} has several rows of {cell}, which differ in {apart}; decide with {' or '.join(options)} (in "
        f"Python columns={choices[0]!r}). Rows that still share a model and an item are then repeats",
        argument="columns",
    )


def item_columns(columns: Columns, roles: Roles) -> list[str]:
    """Columns that may name the items of a long table without a known name for them, the best first, at most three.

    Their values differ within a model and recur with other models; of columns that number the same rows, the one
    with the shortest values is listed.
    """
    free = [name for name in columns if name not in roles.values() or name == roles.get("task")]
    codes = {name: _column_codes(columns[name]) for name in (*free, *roles.values())}
    without_task = {role: name for role, name in roles.items() if role in ("model", "run")}
    models = _codes_of_roles(codes, without_task, "model")
    m, ranked = int(models.max()) + 1, list[tuple[bool, int, int, str]]()
    for name in free:
        count = int(codes[name].max()) + 1
        pairs = _combined_codes(models, codes[name])
        recurs = m == 1 or 2 * (int(pairs.max()) + 1) >= m * count
        cells = _cell_codes(codes, {**without_task, "item": name})
        unique = not len(_rows_of_several(cells))
        if count > 2 and recurs and (unique or m > 1) and not _has_fractions(columns[name]):
            ranked.append((not unique, -count, sum(map(len, map(str, columns[name]))), name))
    ranked.sort()
    listed = [name for other, count, _, name in ranked if (other, 2 * count) <= (ranked[0][0], ranked[0][1])]
    return _without_copies(codes, listed)[:3]


def row_designs(columns: Columns, roles: Roles) -> list[dict[str, str]]:
    """What further columns may be so that a cell has one row: models, items and runs that are not known yet.

    At most three choices, those first whose columns have names of ids and many values.
    """
    times = column_role_names("time")
    free = [n for n in columns if n not in roles.values() and "." not in n and plain_name(n) not in (*times, "ts")]
    free += [roles["task"]] if "task" in roles and "item" not in roles else []
    codes = {name: _column_codes(columns[name]) for name in (*free, *roles.values())}
    known = {role: roles[role] for role in ("model", "item", "run") if role in roles}
    n = len(next(iter(codes.values())))
    factors = [name for name in free if 1 < _distinct(codes[name]) <= n / 2 and not _has_fractions(columns[name])]
    factors.sort(key=lambda name: (not is_id(name), -_distinct(codes[name])))
    factors = factors[:_MOST_DESIGNED]

    def is_design(choice: Roles) -> bool:
        parts = [codes[name] for name in {**known, **choice}.values()]
        cells = _combined_codes(np.zeros(n, dtype=np.int64), *parts)
        return _distinct(cells) >= _UNIQUE * n

    choices: list[dict[str, str]] = [{}]
    if "item" not in known:
        listed = [name for name in item_columns(columns, roles) if name in codes] if "model" in known else []
        listed += [name for name in factors if is_id(name) and name not in listed]
        choices = [{"item": name} for name in listed or factors]
        if "model" not in known:
            choices = [
                {"model": model, "item": item}
                for item, model in itertools.permutations(factors, 2)
                if _distinct(codes[model]) < _distinct(codes[item])
            ]
    found = [choice for choice in choices if is_design(choice)]
    if "run" not in known and not found:
        with_run = [
            {**choice, "run": name}
            for choice in choices
            for name in factors
            if name not in choice.values()
            and _distinct(codes[name]) <= _distinct(codes[choice.get("item", known.get("item", name))])
        ]
        found = [choice for choice in with_run if is_design(choice)]
        if "item" in known:  # what tells the rows apart names runs, or other items
            found = [c for run in found for c in (run, {"item": f"{known['item']},{run['run']}"})]
    return (found or [choice for choice in choices if choice and "model" in known])[:3]


def repeats_of_rows(columns: Columns, roles: Roles) -> tuple[list[int], str]:
    """The number of the run of each row, and a note where no column of runs explains several rows of one cell.

    Rows of one cell that differ in any column are repeats, rows that are equal are one.
    """
    used = {role: roles[role] for role in ("model", "task", "item", "run") if role in roles}
    codes = {name: _column_codes(columns[name]) for name in used.values()}
    cells, runs = _cell_codes(codes, used), _codes_of_roles(codes, used, "run")
    several = _rows_of_several(cells)
    result = (runs * (len(several) + 1)).tolist()
    seen: dict[int, dict[tuple[str, ...], int]] = {}
    for row in several.tolist():
        known = seen.setdefault(int(cells[row]), {})
        result[row] += known.setdefault(tuple(str(values[row]) for values in columns.values()), len(known))
    names = list(columns)
    differing = {
        names[position]
        for rows in seen.values()
        for first in itertools.islice(rows, 1)
        for other in rows
        for position in range(len(names))
        if other[position] != first[position] and names[position] not in (roles.get("score"), roles.get("answer"))
    }
    listed = few([name for name in names if name in differing], 5)
    count = sum(len(rows) > 1 for rows in seen.values())
    apart = f"that differ in {listed}" if listed else "with different scores"
    note = f"Rows of one model and item {apart} are read as repeats: {counted(count, 'cell')}."
    return [int(run) for run in np.unique(result, return_inverse=True)[1]], note if count else ""


def summary_lines(columns: Columns, highest: float) -> tuple[list[str], list[int]]:
    """The columns and the rows of a matrix of scores that are the mean or the sum of the others.

    One of these agrees with the others in all places but one (where a summary of rows crosses one of columns), up
    to the rounding of its numbers, and another line would do so with a chance below 0.01 / lines. That chance is
    the product over places of four times the width of the rounding by the range of the others, for sums once, by
    the range of their sums; where another line has the same value, at least four by the number of values, for sums
    1.

    Args:
        columns: equally long, of scores.
        highest: the highest possible score; lines that are mostly above it are not among the others.

    Example:
        >>> scores = {"a": [1, 0, 0] * 4, "b": [1, 1, 0] * 4, "c": [0, 1, 1] * 4}
        >>> summary_lines({**scores, "avg": [0.67, 0.67, 0.33] * 4}, 1.0)
        (['avg'], [])
        >>> summary_lines({**scores, "d": [1, 1, 0] * 4}, 1.0)
        ([], [])
    """
    known = {cell: _score_and_decimals(cell) for values in columns.values() for cell in values}
    cells = np.array([[known[cell] for cell in values] for values in columns.values()], dtype=np.float64)
    scores, decimals, names = cells[:, :, 0], cells[:, :, 1], list(columns)
    return [names[line] for line in _summary_rows(scores, decimals, highest)], _summary_rows(
        scores.T, decimals.T, highest
    )


def _summary_rows(scores: Floats, decimals: Floats, highest: float) -> list[int]:
    rounding = 0.5 * 10.0 ** -decimals.max(axis=1, keepdims=True)
    plain = 2 * (scores > highest).sum(axis=1) < np.isfinite(scores).sum(axis=1)
    plain = plain if plain.any() else ~plain
    summaries, new = list[int](), [-1]
    while new:
        others = np.where(plain[:, None], scores, np.nan)
        has = np.isfinite(others)
        number = has.sum(axis=0) - has
        total = np.nansum(others, axis=0) - np.nan_to_num(others)
        new = []
        for is_sum, expected in ((False, total / np.maximum(number, 1)), (True, total)):
            agrees = (np.abs(scores - expected) <= rounding + _EXACT) & (number > 1)
            misses = (np.isfinite(scores) & ~agrees).sum(axis=1)
            for line in np.flatnonzero((misses <= 1) & (2 * agrees.sum(axis=1) > scores.shape[1])).tolist():
                at = agrees[line]
                rest = np.delete(others, line, axis=0)[:, at]
                span = np.nanmax(rest, axis=0) - np.nanmin(rest, axis=0)
                span = np.nanmax(np.abs(rest), axis=0) * number[line, at] if is_sum else span
                width, values = 2 * rounding[line] + _EXACT, np.unique(rest[np.isfinite(rest)])
                equal = np.isin(scores[line, at], values) * (1.0 if is_sum else 1 / len(values))
                density = 1.0 if is_sum else _DENSITY
                chance = np.minimum(1.0, density * np.maximum(width / np.maximum(span, width), equal))
                if line not in summaries + new and np.log(chance).sum() < np.log(0.01 / len(scores)):
                    new.append(line)
        plain[new] = False
        summaries += new
    return sorted(summaries)


def _score_and_decimals(cell: Any) -> tuple[float, int]:
    """A score, NaN for what is none, and how many decimals it is written with."""
    score, text = score_of(cell), str(cell).strip()
    if score is None:
        return np.nan, 0
    decimals = len(text.rstrip("%").partition(".")[2]) + 2 * text.endswith("%")
    return score, decimals if text.replace(".", "").strip("+-%").isdecimal() else 17 * bool(score % 1)


def has_long_texts(values: Sequence[Any]) -> bool:
    """Whether most values are texts of the length of a question."""
    return 2 * sum(len(str(value)) > LONG_TEXT for value in values) > len(values)


def _factors_of_cells(codes: Mapping[str, Codes], roles: Roles, given: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Columns, or else pairs of columns, that distinguish the rows of cells with several; at most two."""
    cells = _cell_codes(codes, roles)
    several = _rows_of_several(cells)
    n, often = len(cells), len(several) >= _OFTEN * len(cells)
    models, items = (_codes_of_roles(codes, roles, role) for role in ("model", "item"))
    one_model, settled = not models.any(), bool(given.keys() & {"item", "run"})
    model_words, factors = column_role_names("model"), list[str]()
    for name, values in codes.items() if len(several) else ():
        used = {factor for column in roles.values() for factor in (column, *column.split(","))}
        is_model = plain_name(name) in model_words
        if name in used or (is_model and "model" in given) or (settled and not is_model):
            continue
        recurs = any(2 * _distinct(_combined_codes(other, values)) <= n for other in (models, items))
        if (recurs and (often or is_model or is_id(name))) or (one_model and is_id(name)):
            factors.append(name)
    alone = [(name,) for name in factors if _share_told_apart(cells, several, codes[name]) >= _UNIQUE]
    if alone:
        names = sorted((name for (name,) in alone), key=lambda name: _distinct(codes[name]))
        return [(name,) for name in _without_copies(codes, names)[:2]]
    factors = _without_copies(codes, sorted(factors, key=lambda name: -_distinct(codes[name])))[:_MOST_FACTORS]
    pairs: list[tuple[str, ...]] = list(itertools.combinations(factors, 2))
    return [pair for pair in pairs if _share_told_apart(cells, several, *map(codes.get, pair)) >= _UNIQUE][:1]


def _choices_of_roles(factor: Sequence[str], roles: Roles, codes: Mapping[str, Codes]) -> list[dict[str, str]]:
    """What columns that tell the rows of a cell apart can be: the given roles that each choice needs."""
    model, item = roles.get("model"), roles["item"]
    may_be_model = [name for name in factor if plain_name(name) in column_role_names("model")]
    if model is None and len(factor) > 1:
        one, other = factor
        return [{"model": one, "run": other}, {"model": other, "run": one}, {"model": f"{one},{other}"}]
    if may_be_model and model is not None:
        return [{"model": f"{may_be_model[0]},{model}"}, {"model": model}, {"model": may_be_model[0]}]
    if model is None and not is_id(factor[0]):
        if _distinct(codes[factor[0]]) > _distinct(codes[item]):  # what the item seemed to be has fewer values
            return [{"model": item, "item": factor[0]}, {"run": factor[0]}]
        return [{"model": factor[0]}, {"run": factor[0]}]
    choices = [{"item": factor[0]}, {"item": item}, {"item": ",".join((item, *factor))}]
    return choices + [{"model": f"{model},{name}"} for name in factor if model is not None and not is_id(name)]


def is_id(name: str) -> bool:
    """Whether the name of a column says that it numbers or names rows: "id", "seg_id", "row_index"."""
    plain = plain_name(name)
    if plain.partition("_")[0] in column_role_names("run"):
        return False
    return plain in ROLES["item"][0].split() or plain.endswith(("_id", "_idx", "_index", "_key", "_hash", "uuid"))


def _has_fractions(values: Sequence[Any]) -> bool:
    return any(isinstance(value, float) and value % 1 for value in values) or any(
        isinstance(value, str) and "." in value and value.replace(".", "", 1).lstrip("-").isdecimal()
        for value in values
    )


def _column_codes(values: Sequence[Any]) -> Codes:
    known: dict[str, int] = {}
    return np.array([known.setdefault(str(value), len(known)) for value in values], dtype=np.int64)


def _joined_codes(codes: dict[str, Codes], name: str) -> str:
    """The name of a column, or of several, whose codes are added."""
    if name not in codes:
        codes[name] = _combined_codes(*(codes[column] for column in name.split(",")))
    return name


def _combined_codes(*codes: Codes) -> Codes:
    result = codes[0]
    for other in codes[1:]:
        result = np.unique(result * (other.max() + 1) + other, return_inverse=True)[1].astype(np.int64)
    return result


def _distinct(codes: Codes) -> int:
    return int(codes.max()) + 1


def _codes_of_roles(codes: Mapping[str, Codes], roles: Roles, role: str) -> Codes:
    """The codes of a role, of items within their tasks; zeros where no column has it."""
    size = len(next(iter(codes.values())))
    names = [roles[name] for name in (("task", "item") if role == "item" else (role,)) if name in roles]
    return _combined_codes(np.zeros(size, dtype=np.int64), *(codes[name] for name in names))


def _cell_codes(codes: Mapping[str, Codes], roles: Roles) -> Codes:
    """The number of the cell of each row: its model, task, item, and run.

    A run counts if its values recur: seeds that are drawn anew for each cell say nothing about what differs in it.
    """
    models = _codes_of_roles(codes, roles, "model")
    cells = _combined_codes(models, _codes_of_roles(codes, roles, "item"))
    if "run" not in roles:
        return cells
    runs = _combined_codes(models, codes[roles["run"]])
    most = int(np.bincount(cells).max())
    recurs = _distinct(runs) <= 2 * most * _distinct(models)
    return _combined_codes(cells, codes[roles["run"]]) if recurs else cells


def _rows_of_several(cells: Codes) -> Codes:
    return np.flatnonzero(np.bincount(cells)[cells] > 1)


def _share_told_apart(cells: Codes, several: Codes, *columns: Codes | None) -> float:
    keys = _combined_codes(cells[several], *(column[several] for column in columns if column is not None))
    return float((np.bincount(keys)[keys] == 1).mean())


def _without_copies(codes: Mapping[str, Codes], names: Sequence[str]) -> list[str]:
    """The columns without those that number the rows as an earlier one does."""
    result: list[str] = []
    for name in names:
        pairs = ((_distinct(_combined_codes(codes[name], codes[other])), codes[other]) for other in result)
        if not any(count == _distinct(codes[name]) == _distinct(other) for count, other in pairs):
            result.append(name)
    return result
