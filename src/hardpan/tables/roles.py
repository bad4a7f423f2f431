"""What a column of a table holds: found by its name, or given."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hardpan.errors import InputError, few

# What a column holds: the other names it goes by, and names that mean it only where no other column does.
ROLES = {
    "id": ("ids", "example image filename"),
    "label": ("labels target targets class y_true", "y"),
    "text": ("texts sentence document body content", ""),
    "image": ("images picture photo", "path filename file"),
    "group": ("groups cluster", ""),
    "time": ("timestamp datetime created_at", "date"),
    "split": ("", ""),
    "model": (
        "model_name model_id system submission",
        "participant llm agent agent_name framework generator method classifier algorithm solver",
    ),
    "item": (
        "item_id question_id example_id doc_id sample_id instance_id problem_id prompt_id task_id qid uid id",
        "example question prompt instruction problem image filename query user_input input",
    ),
    "task": ("set test_set dataset", "split"),
    "score": (
        "correct is_correct right exact_match acc acc_norm accuracy passed pass resolved solved success is_success "
        "outcome",
        "reward result value",
    ),
    "run": (
        "run_id run_idx run_index run_number repeat repetition epoch trial trial_id trial_index seed attempt",
        "",
    ),
    "seed": ("run", ""),
    "epoch": ("", ""),
    "answer": (
        "prediction predictions pred predicted predicted_label response extracted_answer y_pred output",
        "model_answer actual_output completion",
    ),
    "key": (
        "target targets label labels true_label gold gold_answer correct_answer y_true reference ground_truth",
        "expected expected_answer expected_output",
    ),
    "annotator": ("annotator_id rater rater_id worker worker_id", ""),
    "model_a": ("model_1 system_a", ""),
    "model_b": ("model_2 system_b", ""),
    "winner": ("preferred preference", ""),
    "cost": ("price cost_usd total_cost", ""),
    "duration": ("seconds latency runtime elapsed", ""),
    "tokens": ("total_tokens n_tokens token_count output_tokens completion_tokens", ""),
    "human": ("human_score human_label human_rating expert_score", ""),
    "frequency": ("selection_frequency", ""),
    "votes": ("", "n"),
    "subclass": ("sub_class keyword", ""),
}
SHORTCUTS = ("label", "id", "text", "group")  # roles with an argument and an option of their own


def plain_name(name: str) -> str:
    """A column name as it is compared: case, spaces and hyphens do not matter, nor the case of "isCorrect".

    Example:
        >>> plain_name(" Question ID"), plain_name("top-1"), plain_name("questionId")
        ('question_id', 'top_1', 'question_id')
    """
    return re.sub(r"[\s-]+|(?<=[a-z])(?=[A-Z])", "_", name.strip()).lower()


def column_role_names(*roles: str) -> list[str]:
    """The names of the columns of roles in the order in which they count: their own, synonyms, weak names.

    Example:
        >>> column_role_names("task")
        ['task', 'set', 'test_set', 'dataset', 'split']
    """
    return [name for role in roles for names in (role, *ROLES[role]) for name in names.split()]


def find_columns(
    names: Sequence[str],
    wanted: Collection[str],
    given: Mapping[str, Any] | None = None,
    *,
    exact: Collection[str] = (),
    only_given: Collection[str] = (),
    where: str = "the table",
) -> dict[str, str]:
    """The column of each role that a table has: the given one, or the only one whose name says it.

    A column is taken by its name in three steps: it has the name of the role, or one of its synonyms, or one of its
    weak names, which are tried only if no other column fits. A step that two columns fit is refused. A column that
    was given for one role, or that has the name of another role of the same call, is not taken for a second role.

    Args:
        names: the columns of the table.
        wanted: roles that are found by name.
        given: names of columns by role, as users pass them; None, and a role whose name is None, say nothing.
        exact: those of the wanted roles for which synonyms and weak names do not count.
        only_given: roles that no column has unless it is given.
        where: the table in messages.

    Example:
        >>> find_columns(["Model", "question id", "question", "acc"], ["model", "item", "score"])
        {'model': 'Model', 'item': 'question id', 'score': 'acc'}
        >>> find_columns(["sample_id", "question_id"], ["item"])
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: columns: the table has 'sample_id' and 'question_id', which may both be the \
item; decide with --column item=sample_id or --column item=question_id (in Python columns={"item": "sample_id"})
    """
    roles = (*wanted, *only_given)
    columns = given_columns(names, roles, given or {}, where)
    free = [(name, plain_name(name)) for name in names if name not in columns.values()]
    for role in wanted:
        if role in columns:
            continue
        others = [other for other in roles if other != role]
        for words in (role,) if role in exact else (role, *ROLES[role]):
            fitting = [name for name, plain in free if plain in words.split() and plain not in others]
            if len(fitting) > 1:
                short = role in SHORTCUTS
                option = f"--{role} " if short else f"--column {role}="
                python = f'{role}="{fitting[0]}"' if short else f'columns={{"{role}": "{fitting[0]}"}}'
                listed, both = " and ".join(map(repr, fitting[:4])), "both" if len(fitting) == 2 else "all"
                options = " or ".join(option + name for name in fitting[:4])
                raise InputError(
                    f": {where} has {listed}, which may {both} be the {role}; decide with {options} (in Python "
                    f"{python})",
                    argument=role if short else "columns",
                )
            if fitting:
                columns[role] = fitting[0]
                break
    return {role: columns[role] for role in roles if role in columns}


def table_columns_by_role(columns: Mapping[str, Any] | None, **shortcuts: Any) -> dict[str, Any]:
    """The columns that a user gave by role: ``columns`` and the arguments for single roles in one mapping.

    Example:
        >>> table_columns_by_role({"time": "date"}, label="ill", id=None)
        {'time': 'date', 'label': 'ill'}
    """
    if columns is not None and not isinstance(columns, Mapping):
        raise InputError(f"must map roles to names of columns; got {columns!r}", argument="columns")
    named = {role: name for role, name in (columns or {}).items() if name is not None}
    for role, name in shortcuts.items():
        if name is not None and named.setdefault(role, name) != name:
            raise InputError(f"has another column for the {role} than {role}={name!r}", argument="columns")
    return named


def given_columns(
    names: Sequence[str], roles: Collection[str], given: Mapping[str, Any], where: str = "the table"
) -> dict[str, str]:
    """The columns that were given by role; refuses other roles, columns that do not exist, and one column twice."""
    columns: dict[str, str] = {}
    for role, value in given.items():
        argument = role if role in SHORTCUTS else "columns"
        if role not in roles:
            raise InputError(
                f": {where} has no {role!r}; columns may be given for {few(roles, 30)}", argument=argument
            )
        if value is None:
            continue
        name = named_column(names, value, argument, where)
        if name in columns.values():
            other = next(item for item, column in columns.items() if column == name)
            raise InputError(f": column {name!r} is given as {other} and as {role}", argument=argument)
        columns[role] = name
    return columns


def named_column(names: Sequence[str], value: Any, argument: str, where: str = "the table") -> str:
    """The column that a user names, who may write it in another case; refuses one that does not exist."""
    # pandas allows numbers and tuples as names of columns.
    name = str(value) if isinstance(value, (int, tuple)) and not isinstance(value, bool) else value
    if not isinstance(name, str):
        raise InputError(f"must be the name of a column; got {value!r}", argument=argument)
    fitting = [name] if name in names else [item for item in names if plain_name(item) == plain_name(name)]
    if len(fitting) != 1:
        close = difflib.get_close_matches(plain_name(name), names, 1)
        meant = f"did you mean {close[0]}? It" if close else "it"
        raise InputError(f": {where} has no column {name!r}; {meant} has {few(names)}", argument=argument)
    return fitting[0]
