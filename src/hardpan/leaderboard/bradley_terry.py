r"""Battles: which of two answers is better, over many pairs of models. Bradley–Terry strengths and their ranks.

P(a beats b) = σ(β_a − β_b + Σ_c γ_c z_c), Σβ = 0, with z_c what the two answers differ in (length, position). A tie
is half a win. The estimates solve Σ x (y − p) = 0, the logistic regression of y ∈ {0, ½, 1} on x = e_a − e_b; their
covariance is the sandwich H⁻¹ (Σ_g u_g u_gᵀ) H⁻¹ with H = Σ p(1 − p) x xᵀ and u_g the sum of x (y − p) over the
battles of a group g (one prompt, one judge), or over one battle. With half wins the model is no likelihood, and the
sandwich stays valid.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from hardpan.arguments import check_confidence
from hardpan.errors import InputError, few
from hardpan.estimates import Estimate, estimates_of_columns
from hardpan.files import record
from hardpan.leaderboard.pairs import Floats, PairTests
from hardpan.leaderboard.ranking import Ints, rank_sets, separated_pairs
from hardpan.outcomes.cells import BLANK
from hardpan.outcomes.score_columns import battle_options
from hardpan.report import Report
from hardpan.stats.intervals import share
from hardpan.tables import column_role_names, find_columns, is_number, plain_name, read_columns

ROLES = ("model_a", "model_b", "winner")
FEW_GROUPS = 20
_TIE = re.compile(r"(?:tie|tied|ties|draw|equal|same|both|all|neither|0_5)(?:_.*)?")
_BAD = re.compile(r"neither(?:_.*)?|.*_?bad")
_SIDES = {
    **dict.fromkeys(("model_a", "a", "model_1", "system_a", "left", "first", "1", "1_0", "m"), 1.0),
    **dict.fromkeys(("model_b", "b", "model_2", "system_b", "right", "second", "2", "2_0"), 0.0),
}
_STEPS = 100


@record
class StyleEffect:
    """What the two answers differ in besides their models.

    Attributes:
        name: "first position", or the column: "length" for length_a and length_b.
        effect: on the log-odds to win, per standard deviation of the difference (first position: of being first).
        alone: share of the decided battles that the first answer, or that with more of it, wins.
    """

    name: str
    effect: Estimate
    alone: Estimate


@record(eq=False)
class Battles(Report):
    """Strengths of models from battles, best first.

    Attributes:
        models: names.
        strength: β, log-odds to beat a model of average strength.
        stderr: its standard error, sandwich, clustered by ``cluster``.
        score: mean probability to beat each of the other models.
        score_stderr: its standard error (delta method).
        low: lower end of the interval of ``score``.
        high: upper end of it.
        rank_low: best rank that the tests of all pairs allow, all models together (Holm).
        rank_high: worst rank.
        tier: 1 for the first model and those not separated from it, and so on.
        battles: (M,) battles of each model.
        n_battles: number of battles.
        ties: how many are ties, both bad among them.
        both_bad: ties of two bad answers.
        cluster: the column that errors are clustered by, or "".
        groups: number of its groups.
        style: effects of position and style.
        style_strength: (M,) strengths where position and style are equal; empty without them.
        style_rank_low: (M,) best ranks of these.
        style_rank_high: (M,) worst ranks of these.
        skipped: rows that are no battle: without a winner, or with one model on both sides.
        left_out: models that have no finite strength: they won all, lost all, or met none of the others.
        separated: number of pairs that are separated.
        confidence: level of the intervals, and of all rank sets together.
        source: where the battles come from.
    """

    models: tuple[str, ...]
    strength: Floats
    stderr: Floats
    score: Floats
    score_stderr: Floats
    low: Floats
    high: Floats
    rank_low: Ints
    rank_high: Ints
    tier: Ints
    battles: Ints
    n_battles: int
    ties: int
    both_bad: int
    cluster: str
    groups: int
    style: tuple[StyleEffect, ...]
    style_strength: Floats
    style_rank_low: Ints
    style_rank_high: Ints
    left_out: tuple[str, ...]
    separated: int
    confidence: float
    source: str = ""
    skipped: int = 0

    @property
    def estimates(self) -> list[Estimate]:
        """The probabilities to win with their intervals, best first."""
        return estimates_of_columns(self.score, self.score_stderr, self.low, self.high, self.confidence)


def battles(
    source: Any,
    *,
    columns: Mapping[str, str] | None = None,
    group: str | None = None,
    confidence: float = 0.95,
) -> Battles:
    """Bradley–Terry strengths with sandwich errors, simultaneous rank sets, and the effects of position and style.

    Strengths and ranks are first those of the models alone. A second fit adds the position and, where the table has
    pairs of columns such as length_a and length_b, their differences: (a − b)/(a + b) for columns of at least 0,
    else a − b, divided by their standard deviation. Its strengths are those where style is equal. Errors are
    clustered by the first column of items or annotators whose values repeat. Pairs: z, or Student's t with G − 1
    degrees of freedom, corrected by Holm. A model that won or lost all its battles has no finite strength and is
    left out.

    Args:
        source: a table (path, frame, columns, rows) with model_a, model_b and winner: model_a, model_b, tie, both
            bad, or the name of the model. Rows without a winner, or with one model on both sides, are counted and
            skipped.
        columns: columns by role where their names do not say it: model_a, model_b, winner.
        group: column to cluster errors by; "" for battles as independent.
        confidence: level.

    Source: Bradley and Terry (1952); Chiang and others, "Chatbot Arena" (2024); Huber (1967), for the sandwich.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> first, second = rng.permuted(np.tile(np.arange(3), (600, 1)), axis=1)[:, :2].T
        >>> won = rng.random(600) < 1 / (1 + np.exp(-1.0 * (first - second)))
        >>> rows = [{"model_a": f"m{a}", "model_b": f"m{b}", "winner": "model_a" if w else "model_b"}
        ...         for a, b, w in zip(first, second, won)]
        >>> battles(rows).models
        ('m2', 'm1', 'm0')
    """
    level = check_confidence(confidence)
    table, where = _battle_columns(source)
    roles = find_columns(list(table), ROLES, columns, where=where)
    if missing := [role for role in ROLES if role not in roles]:
        remedy = battle_options(table) or f"rename those that are (the columns are {few(list(table))})"
        raise InputError(f": {where} has no {few(missing)}; {remedy}", argument="columns")
    names, codes, won, both_bad, rows = _read_battles(table, roles, where)
    skipped = len(table[roles["winner"]]) - len(rows)
    table = {name: [values[row] for row in rows] for name, values in table.items()} if skipped else table
    cluster, groups = _battle_groups(table, roles, group)
    has_strength = _models_with_strength(codes, won, len(names))
    left_out = tuple(name for name, has in zip(names, has_strength, strict=True) if not has)
    if has_strength.sum() < 2:
        raise InputError(
            f"{where}: no two models have each won against the other, directly or through others: no strength can "
            "be estimated; give more battles"
        )
    used: NDArray[np.bool_] = np.asarray(has_strength[codes].all(axis=1))
    new_code = np.cumsum(has_strength) - 1
    names, codes, won = (
        [n for n, has in zip(names, has_strength, strict=True) if has],
        new_code[codes[used]],
        won[used],
    )
    groups = None if groups is None else np.unique(groups[used], return_inverse=True)[1].astype(np.int64)
    m, plain = len(names), _fit_battles(codes, won, np.zeros((len(won), 0)), groups, len(names))
    tests = _strength_tests(plain, m, level)
    order = np.lexsort((np.arange(m), -plain.value[:m]))
    styles, labels = _style_differences(table, roles, used)
    style, controlled = tuple[StyleEffect, ...](), None
    with contextlib.suppress(InputError):  # position or style decides every battle
        controlled = _fit_battles(codes, won, styles, groups, m)
        style = _style_effects(controlled, styles, labels, won, level)
    score, score_error = _win_probabilities(plain, m)
    logit = special.logit(score)
    reach = plain.quantile(level) * score_error / np.maximum(score * (1 - score), 1e-300)
    styled = None if controlled is None else _strength_tests(controlled, m, level)
    sets = {} if styled is None else rank_sets(styled[0].difference, styled[1], order)
    return Battles(
        models=tuple(names[row] for row in order),
        strength=plain.value[order],
        stderr=np.sqrt(np.diag(plain.covariance))[order],
        score=score[order],
        score_stderr=score_error[order],
        low=special.expit(logit - reach)[order],
        high=special.expit(logit + reach)[order],
        **rank_sets(tests[0].difference, tests[1], order),
        battles=np.bincount(codes.ravel(), minlength=m)[order].astype(np.int64),
        n_battles=len(won),
        ties=int((won == 0.5).sum()),
        both_bad=int(both_bad[used].sum()),
        cluster=cluster if groups is not None else "",
        groups=0 if groups is None else int(groups.max()) + 1,
        style=style,
        style_strength=np.zeros(0) if controlled is None else controlled.value[:m][order],
        style_rank_low=sets.get("rank_low", np.zeros(0, dtype=np.int64)),
        style_rank_high=sets.get("rank_high", np.zeros(0, dtype=np.int64)),
        left_out=left_out,
        separated=int(np.triu(tests[1], 1).sum()),
        confidence=level,
        source=where,
        skipped=skipped,
    )


def is_battles(source: Any, columns: Mapping[str, str] | None = None) -> bool:
    """Whether a source is a table of battles."""
    try:
        table, where = _battle_columns(source)
        return len(find_columns(list(table), ROLES, columns, where=where)) == len(ROLES)
    except InputError:
        return False


def _battle_columns(source: Any) -> tuple[Mapping[str, Sequence[Any]], str]:
    """The columns of one table, or of several files with the same columns."""
    several = isinstance(source, (list, tuple)) and source and isinstance(source[0], (str, os.PathLike))
    paths = [Path(one) for one in (source if several else [source])] if _is_path(source) or several else []
    if not paths:
        return dict(read_columns(source, name="source")), "the table"
    tables = [read_columns(path) for path in paths]
    if any(list(table) != list(tables[0]) for table in tables):
        raise InputError("must be tables with the same columns", argument="source")
    joined = {name: [value for table in tables for value in table[name]] for name in tables[0]}
    return joined, few([str(path) for path in paths], 3)


def _is_path(source: Any) -> bool:
    return isinstance(source, (str, os.PathLike))


def _read_battles(
    table: Mapping[str, Sequence[Any]], roles: Mapping[str, str], where: str
) -> tuple[list[str], NDArray[np.int64], Floats, NDArray[np.bool_], NDArray[np.int64]]:
    """Names of the models, (n, 2) their numbers, (n,) 1, ½ or 0 for the first, which ties are of bad answers, rows.

    Rows without a winner, and of one model on both sides, are no battles.
    """
    known: dict[str, int] = {}
    codes, won, bad, rows = [], [], [], []
    words = [str(winner).strip().lower() for winner in table[roles["winner"]]]
    numbers = {float(word) for word in set(words) if is_number(word)}
    shares = 0.5 in numbers and numbers <= {0.0, 0.5, 1.0}  # of the win that the first model gets
    for row, (a, b, word) in enumerate(zip(table[roles["model_a"]], table[roles["model_b"]], words, strict=True)):
        first, second, plain = str(a), str(b), re.sub(r"[^a-z0-9]+", "_", word).strip("_")
        if word in BLANK or first == second:
            continue
        if word in (first.lower(), second.lower()):
            result = float(word == first.lower())
        elif shares and is_number(word):
            result = float(word)
        else:
            result = 0.5 if _TIE.fullmatch(plain) or _BAD.fullmatch(plain) else _SIDES.get(plain, -1.0)
        if result < 0 or (0.0 in numbers and not shares):
            raise InputError(
                f"{where}, row {row + 1}: {roles['winner']} must be {roles['model_a']}, {roles['model_b']}, tie, "
                f"both bad or the name of a model; got {table[roles['winner']][row]!r}"
                + ("" if result < 0 else ": 0 and 1 may be positions or wins; write the names of the models")
            )
        codes.append((known.setdefault(first, len(known)), known.setdefault(second, len(known))))
        won.append(result)
        bad.append(bool(_BAD.fullmatch(plain)))
        rows.append(row)
    if not rows:
        raise InputError(f"{where}: no row of column {roles['winner']!r} names a winner; fill it in")
    return list(known), np.array(codes, dtype=np.int64), np.array(won), np.array(bad), np.array(rows)


def _battle_groups(
    table: Mapping[str, Sequence[Any]], roles: Mapping[str, str], group: str | None
) -> tuple[str, NDArray[np.int64] | None]:
    """The column that errors are clustered by, and the number of the group of each battle."""
    if group == "":
        return "", None
    if group is not None and group not in table:
        raise InputError(f"must be a column of the table ({few(list(table))}); got {group!r}", argument="group")
    words = column_role_names("group", "item", "annotator")
    free = [name for name in table if name not in roles.values() and plain_name(name) in (*words, "judge", "user")]
    for name in free if group is None else [group]:
        labels, codes = np.unique([str(value) for value in table[name]], return_inverse=True)
        if group is not None or FEW_GROUPS <= len(labels) < len(codes):
            return name, codes.astype(np.int64)
    return "", None


def _models_with_strength(codes: NDArray[np.int64], won: Floats, m: int) -> NDArray[np.bool_]:
    """The largest set of models that are linked by wins both ways; the others have no finite strength."""
    first, second = codes.T
    winner, loser = np.r_[first[won > 0], second[won < 1]], np.r_[second[won > 0], first[won < 1]]
    graph = sparse.coo_array((np.ones(len(winner)), (winner, loser)), shape=(m, m))
    _, labels = sparse.csgraph.connected_components(graph.tocsr(), directed=True, connection="strong")
    return np.asarray(labels == np.bincount(labels).argmax())


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """Strengths and effects (M + C,), their covariance, and the degrees of freedom, 0 for the normal."""

    value: Floats
    covariance: Floats
    degrees: int

    def quantile(self, level: float) -> float:
        """Of the two-sided interval."""
        return float(
            special.stdtrit(self.degrees, 0.5 + level / 2) if self.degrees else special.ndtri(0.5 + level / 2)
        )


def _fit_battles(
    codes: NDArray[np.int64], won: Floats, z: Floats, groups: NDArray[np.int64] | None, m: int
) -> _Fit:
    """Newton's method on the logistic regression; Σβ = 0 by the pseudo-inverse."""
    n, c = len(won), z.shape[1]
    rows = np.arange(n)
    design = sparse.csr_array((np.r_[np.ones(n), -np.ones(n)], (np.r_[rows, rows], codes.T.ravel())), shape=(n, m))
    x = sparse.csr_array(sparse.hstack([design, sparse.csr_array(z)])) if c else design
    # A direction in which all strengths are equal; it keeps the matrix regular, and Σβ = 0.
    level = np.zeros((m + c, m + c))
    level[:m, :m] = 1.0 / m
    value = np.zeros(m + c)
    for _ in range(_STEPS):
        p = special.expit(x @ value)
        curvature = np.asarray((x.T @ (x * (p * (1 - p))[:, None])).todense()) + level
        if np.linalg.matrix_rank(curvature) < m + c:
            raise InputError(": position and style cannot be told from the models", argument="source")
        step = np.linalg.solve(curvature, x.T @ (won - p))
        largest = float(np.abs(step).max())
        value += step / max(1.0, largest / 2)
        if largest < 1e-10:
            break
    else:
        raise InputError(
            ": the strengths do not converge; position or style decides every battle", argument="source"
        )
    inverse = np.linalg.inv(curvature) - level
    residual = x * (won - p)[:, None]
    if groups is None:
        meat, degrees = np.asarray((residual.T @ residual).todense()) * n / (n - 1), 0
    else:
        count = int(groups.max()) + 1
        sums = sparse.csr_array((np.ones(n), (groups, rows)), shape=(count, n)) @ residual
        meat, degrees = np.asarray((sums.T @ sums).todense()) * count / (count - 1), count - 1
    return _Fit(value, inverse @ meat @ inverse, degrees)


def _strength_tests(fit: _Fit, m: int, level: float) -> tuple[PairTests, NDArray[np.bool_]]:
    """Tests of all pairs of strengths, and which are separated together."""
    beta, covariance = fit.value[:m], fit.covariance[:m, :m]
    difference, own = beta[:, None] - beta, np.diag(covariance)
    stderr = np.sqrt(np.maximum(own[:, None] + own - 2 * covariance, 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(stderr > 0, np.abs(difference) / stderr, 0.0)
    p = 2 * (special.stdtr(fit.degrees, -t) if fit.degrees else special.ndtr(-t))
    tests = PairTests(difference, stderr, p, np.zeros((m, m), dtype=np.int64), False)
    return tests, separated_pairs(tests, 1 - level)[1]


def _win_probabilities(fit: _Fit, m: int) -> tuple[Floats, Floats]:
    """Mean probability to beat each of the others, and its standard error."""
    p = special.expit(fit.value[:m, None] - fit.value[:m])
    slope = p * (1 - p) / (m - 1)
    np.fill_diagonal(p, 0.0)
    np.fill_diagonal(slope, 0.0)
    gradient = np.diag(slope.sum(axis=1)) - slope
    variance = np.einsum("ij,jk,ik->i", gradient, fit.covariance[:m, :m], gradient)
    return p.sum(axis=1) / (m - 1), np.sqrt(np.maximum(variance, 0.0))


def _style_differences(
    table: Mapping[str, Sequence[Any]], roles: Mapping[str, str], used: NDArray[np.bool_]
) -> tuple[Floats, list[str]]:
    """(n, C) the position and standardised differences of columns NAME_a and NAME_b, and their names."""
    differences, labels = [np.ones(int(used.sum()))], ["first position"]
    for name in table:
        other = name.removesuffix("_a") + "_b"
        if not name.endswith("_a") or name in roles.values() or other not in table:
            continue
        try:
            a, b = (np.asarray(table[column], dtype=np.float64)[used] for column in (name, other))
        except (TypeError, ValueError):
            continue
        if not np.isfinite([a, b]).all():
            continue
        total = np.where(a + b > 0, a + b, 1.0)
        z = (a - b) / total if min(a.min(), b.min()) >= 0 else a - b
        if z.std() > 0:
            differences.append(z / z.std())
            labels.append(name.removesuffix("_a"))
    return np.stack(differences, axis=1), labels


def _style_effects(
    fit: _Fit, z: Floats, labels: Sequence[str], won: Floats, level: float
) -> tuple[StyleEffect, ...]:
    m = len(fit.value) - z.shape[1]
    error, reach, results = np.sqrt(np.diag(fit.covariance)[m:]), fit.quantile(level), []
    for column, name in enumerate(labels):
        value, stderr = float(fit.value[m + column]), float(error[column])
        decided = (won != 0.5) & (z[:, column] != 0)
        right = int(((z[decided, column] > 0) == (won[decided] == 1)).sum())
        alone = share(right, int(decided.sum()), level)
        method = "logistic regression with the models, sandwich"
        effect = Estimate(value, stderr, value - reach * stderr, value + reach * stderr, level, method, len(won))
        results.append(StyleEffect(name, effect, alone))
    return tuple(results)
