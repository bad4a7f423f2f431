"""The input of a testbed: the same models on an original and on a new test set.

:func:`two_sets` takes whatever :meth:`hardpan.Outcomes.open` opens. Where scores are known item by item, sampling
errors of models on the same items are correlated: with D_mi = (s_mi − p_m)/n_m, the variance of Σ_m w_m p_m is
Σ_i (Σ_m w_m D_mi)². From counts the covariance between models is not identified, and (Σ_m |w_m| se_m)² bounds that
variance.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hardpan.data.opening import parse_source, subset_rows
from hardpan.errors import InputError
from hardpan.files import file_hash
from hardpan.outcomes import Outcomes
from hardpan.outcomes.classes import check_both, check_sets
from hardpan.outcomes.counts import right_and_total
from hardpan.outcomes.outcomes import only_zero_or_one
from hardpan.safe_files import few

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
Evidence = Literal["examples", "counts"]
COVARIANCE_MODELS = 500  # more models than this, and no full covariance is computed
_ITEMS_AT_ONCE = 8192
_MOST_HASHED, _MOST_HASHED_BYTES = 100, 1 << 30
_DEFAULT_ID = re.compile(r"(?:.*/)?item-(\d+)")
_DATE = re.compile(r"(\d{4})-(\d{1,2})(?:-(\d{1,2}))?")
_DAYS_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
SET_COLUMNS = ("set", "split")


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """M models on one test set.

    Attributes:
        name: of the set.
        accuracy: (M,) mean scores.
        total: (M,) items behind each.
        scores: (M, N) scores by item, NaN where missing; None where only counts are known.
        items: (N,) ids, or None.
        rows: (N,) row numbers in the whole set.
        key: (N,) right answers, or None.
        answers: (M, N) what the models answered, or None.
    """

    name: str
    accuracy: Floats
    total: NDArray[np.int64]
    scores: Floats | None = None
    items: NDArray[np.str_] | None = None
    rows: NDArray[np.int64] | None = None
    key: NDArray[np.str_] | None = None
    answers: NDArray[np.str_] | None = None

    @property
    def binary(self) -> bool:
        """Whether every score is 0 or 1, so that counts of right answers are whole numbers."""
        return self.scores is None or only_zero_or_one(self.scores)

    @property
    def correct(self) -> Floats:
        """(M,) sums of the scores; counts of right answers where scores are 0 or 1."""
        return np.asarray(np.rint(self.accuracy * self.total) if self.binary else self.accuracy * self.total)

    def take(self, models: NDArray[np.int64]) -> Side:
        """The same for some of the models, by row number."""
        if np.array_equal(models, np.arange(len(self.total))):
            return self  # scores are large: no copy
        return replace(
            self,
            accuracy=self.accuracy[models],
            total=self.total[models],
            scores=None if self.scores is None else self.scores[models],
            answers=None if self.answers is None else self.answers[models],
        )

    def select(self, rows: NDArray[np.int64]) -> Side:
        """The same on some of the items."""
        assert self.scores is not None
        scores = self.scores[:, rows]
        accuracy, total = _item_means(scores)
        return replace(
            self,
            accuracy=accuracy,
            total=total,
            scores=scores,
            items=None if self.items is None else self.items[rows],
            rows=rows if self.rows is None else self.rows[rows],
            key=None if self.key is None else self.key[rows],
            answers=None if self.answers is None else self.answers[:, rows],
        )

    def inside(self) -> Floats:
        """Accuracies, half an item away from 0 and 1, where a scale needs that."""
        return np.clip(self.accuracy, 0.5 / self.total, 1.0 - 0.5 / self.total)

    def variances(self) -> Floats:
        """(M,) sampling variances; for counts at an end that of a count one example inside."""
        if self.scores is not None and not self.binary:
            squares = sum((self._centred(block) ** 2).sum(axis=1) for block in self._blocks())
            return np.asarray(squares / self.total**2)
        k = np.clip(self.correct, 1.0, np.maximum(self.total - 1.0, 1.0))
        p = k / np.maximum(self.total, 2)
        return np.asarray(p * (1.0 - p) / self.total)

    def combined(self, weights: Floats) -> Floats:
        """Covariance (k, k) of k combinations of the accuracies, weights (k, M).

        From counts its bound: the standard error of each combination is at most Σ_m |w_m| se_m.
        """
        if self.scores is None:
            error = np.abs(weights) @ np.sqrt(self.variances())
            alone = (weights * self.variances()) @ weights.T
            scale = np.sqrt(np.maximum(np.diag(alone), 1e-300))
            return np.asarray(alone / np.outer(scale, scale) * np.outer(error, error))
        total = np.zeros((len(weights), len(weights)))
        scaled = weights / self.total
        for block in self._blocks():
            sums = scaled @ block if self._complete else scaled @ self._centred(block)
            sums -= (scaled @ self.accuracy)[:, None] if self._complete else 0.0
            total += sums @ sums.T
        return total

    def mean_variance(self) -> float:
        """Sampling variance of the mean accuracy over models; from counts the bound of nested errors.

        F/n with F = M⁻² Σ_{m,m'} min(p_m, p_m') − p̄²: no dependence between models can make it larger.
        """
        m = len(self.accuracy)
        if self.scores is not None:
            return float(self.combined(np.full((1, m), 1.0 / m))[0, 0])
        p = self.accuracy
        shared = np.minimum.outer(p, p) - np.outer(p, p)
        return float((shared / np.sqrt(np.outer(self.total, self.total))).mean())

    def noise(self, slopes: Floats) -> float:
        """What sampling adds to Σ_m (x_m − x̄)², x on a scale with derivatives ``slopes`` (M,).

        Σ_m V_mm − M Var(x̄): from counts, where V is not known beyond its diagonal, the most it can be is that of
        independent models.
        """
        m, own = len(self.accuracy), float((slopes**2 * self.variances()).sum())
        if self.scores is None:
            return own * (1.0 - 1.0 / m)
        return own - float(self.combined(slopes[None])[0, 0]) / m

    def covariance(self) -> Floats | None:
        """(M, M) covariance of the accuracies, where items are known and the models not too many."""
        if self.scores is None or len(self.accuracy) > COVARIANCE_MODELS:
            return None
        products = sum(block @ block.T for block in map(self._centred, self._blocks()))
        return np.asarray(products / np.outer(self.total, self.total))

    @property
    def _complete(self) -> bool:
        return self.scores is not None and bool((self.total == self.scores.shape[1]).all())

    def _blocks(self) -> Iterator[Floats]:
        assert self.scores is not None
        for start in range(0, self.scores.shape[1], _ITEMS_AT_ONCE):
            yield self.scores[:, start : start + _ITEMS_AT_ONCE]

    def _centred(self, block: Floats) -> Floats:
        """Scores less their means, 0 where missing."""
        centred = block - self.accuracy[:, None]
        return centred if self._complete else np.nan_to_num(centred, nan=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class TwoSets:
    """The same M models on an original and on a new test set.

    Attributes:
        models: (M,) names.
        original: the original set.
        new: the new set.
        group: (M,) families of models, or empty.
        date: (M,) decimal years, NaN where unknown, or empty.
        parameters: (M,) numbers of parameters, NaN where unknown, or empty.
        metric: what counts as right.
        notes: what a reader has to know.
        hashes: sha256 of the files that were read, by name.
    """

    models: tuple[str, ...]
    original: Side
    new: Side
    group: tuple[str, ...] = ()
    date: tuple[float, ...] = ()
    parameters: tuple[float, ...] = ()
    metric: str = "top1"
    notes: tuple[str, ...] = ()
    hashes: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.models)

    @property
    def evidence(self) -> Evidence:
        """ "examples" where scores are known item by item on both sets, else "counts"."""
        return "counts" if self.original.scores is None or self.new.scores is None else "examples"

    @property
    def gaps(self) -> Floats:
        """(M,) original minus new accuracies."""
        return self.original.accuracy - self.new.accuracy

    def take(self, rows: NDArray[np.int64]) -> TwoSets:
        """The same for some of the models, by row number."""
        columns = {name: getattr(self, name) for name in ("models", "group", "date", "parameters")}
        cut: dict[str, Any] = {
            name: tuple(column[row] for row in rows) if column else () for name, column in columns.items()
        }
        return replace(self, original=self.original.take(rows), new=self.new.take(rows), **cut)

    def outcomes(self, test_set: str) -> Outcomes:
        """Scores by item on the original or the new set."""
        side: Side = getattr(self, test_set)
        assert side.scores is not None
        assert side.items is not None
        return Outcomes(side.scores, self.models, side.items, answers=side.answers, key=side.key)


def two_sets(
    original: Any,
    new: Any = None,
    *,
    metric: str | None = None,
    original_set: str | None = None,
    new_set: str | None = None,
    original_total: int | None = None,
    new_total: int | None = None,
    check_classes: bool = True,
    n_classes: int | None = None,
    by_order: bool = False,
) -> TwoSets:
    """The models that both test sets have.

    Args:
        original: outcomes on the original set, or what :meth:`hardpan.Outcomes.open` opens; without ``new``,
            outcomes or a file with both sets, or a pair. ``FILE@hard.json`` takes the examples of a subset.
        new: the same on the new set.
        metric: metric of counts, or top1, top5, ... of predicted classes.
        original_set: name of the original set, if a file has several sets.
        new_set: name of the new set, if a file has several sets.
        original_total: size of the original set, for tables of accuracies.
        new_total: size of the new set, for tables of accuracies.
        check_classes: refuse predictions whose class columns look permuted or shifted.
        n_classes: number of classes, if some have no example.
        by_order: join examples by position if there are no ids.
    """
    if isinstance(original, TwoSets):
        if metric not in (None, original.metric):
            raise InputError(
                f": the sets were read as {original.metric}; got {metric!r}: leave it out", argument="metric"
            )
        return original
    if new is None and isinstance(original, (list, tuple)) and len(original) == 2:
        original, new = original if not isinstance(original[0], dict) else (original, None)
    options: dict[str, Any] = {
        "metric": metric,
        "check_classes": check_classes,
        "n_classes": n_classes,
        "by_order": by_order,
    }
    totals: Any = (original_total, new_total)
    if new is None:
        sizes = None if totals == (None, None) else list(totals)
        opened = [_open_source(original, options, sizes)] * 2
        sides = _sets_of_file(opened[0], original_set, new_set)
    else:
        opened = [_open_source(source, options, size) for source, size in zip((original, new), totals, strict=True)]
        if all(item.outcomes.totals is not None for item in opened) and _is_path(original) and _is_path(new):
            together = Outcomes.open([original, new], **options, totals=totals)
            opened = [replace(item, outcomes=together) for item in opened]
            sides = [_counted(together, 0), _counted(together, 1)]
        else:
            names = zip(opened, (original_set, new_set), ("original", "new"), strict=True)
            sides = [_set_of_file(item, name, side) for item, name, side in names]
    notes = [note for item in opened for note in item.outcomes.notes]
    for position, item in enumerate(opened):
        if item.manifest:
            whole, sides[position] = sides[position], _subset(sides[position], item)
            notes.append(_subset_note(("original", "new")[position], whole, sides[position], item.manifest))
    tables = [item.outcomes for item in opened]
    joined = _joined(sides, tables, tuple(dict.fromkeys(notes)), metric, check_classes, n_classes)
    return replace(joined, hashes=_hashes(original) | _hashes(new))


@dataclass(frozen=True, slots=True)
class _Opened:
    """Outcomes, the manifest of a subset of their examples, and what to call the source in a message."""

    outcomes: Outcomes
    manifest: str
    where: str


def _is_path(source: Any) -> bool:
    return isinstance(source, (str, os.PathLike))


def _open_source(source: Any, options: Mapping[str, Any], totals: Any) -> _Opened:
    if isinstance(source, Outcomes):
        _refuse_metric(options, source.source or "outcomes")
        return _Opened(source, "", source.source or "outcomes")
    if hasattr(source, "outcomes"):
        _refuse_metric(options, "predictions")
        return _Opened(source.outcomes(), "", "predictions")
    manifest = ""
    if _is_path(source):
        path = os.fspath(source)
        if not Path(path).exists():
            data, manifest = parse_source(path)
            source = Path(data)
        if (Path(source) / "zarr.json").is_file():
            _refuse_metric(options, str(source))
            return _Opened(store_outcomes(Path(source)), manifest, str(source))
    outcomes = Outcomes.open(source, **options, totals=totals)
    where = str(source) if _is_path(source) else "table"
    if manifest and outcomes.totals is not None:
        raise InputError(
            f"{where}: has counts, not the examples that {manifest} could choose; give predictions with ids"
        )
    return _Opened(outcomes, manifest, where)


def _refuse_metric(options: Mapping[str, Any], where: str) -> None:
    """Right and wrong of first answers know no other metric."""
    if options.get("metric") not in (None, "top1"):
        raise InputError(
            f": {where} says right or wrong only; got {options['metric']!r}: leave it out", argument="metric"
        )


def store_outcomes(path: Path) -> Outcomes:
    """Outcomes of a store of predictions: each seed is a model, named after the store's model or folder."""
    from hardpan.predictions import Predictions

    predictions = Predictions.open(path)
    outcomes = predictions.outcomes()
    model = predictions.config.get("model")
    prefix = model if isinstance(model, str) else path.name
    if predictions.named:
        return outcomes
    return replace(outcomes, models=tuple(f"{prefix} {name}" for name in outcomes.models))


def open_outcomes(source: Any, test_set: str | None = None) -> Outcomes:
    """Outcomes of one test set: ``test_set`` where the source has several; ``FILE@hard.json`` takes a subset."""
    opened = _open_source(source, {}, None)
    outcomes, where = opened.outcomes, opened.where
    if outcomes.totals is not None:
        raise InputError(f"{where}: has counts; expected scores or predictions example by example")
    column, known = _set_names(outcomes)
    if test_set is not None and test_set not in known:
        raise InputError(f"{where}: test_set must be one of {few(sorted(known))}; got {test_set!r}")
    if len(known) > 1:
        if test_set is None:
            raise InputError(f"{where}: state which set to use (test_set=NAME), one of {few(sorted(known))}")
        outcomes = outcomes.select(items=outcomes.groups[column] == test_set)
    if opened.manifest:
        ids = _row_names(outcomes.items, 1, where)
        outcomes = outcomes.select(items=subset_rows(opened.manifest, ids))
    return outcomes


def _set_names(outcomes: Outcomes) -> tuple[str, list[str]]:
    """The group column that names test sets, and the sets in order; of counts every item is a set."""
    if outcomes.totals is not None:
        return "", outcomes.items.tolist()
    for column in SET_COLUMNS:
        if column in outcomes.groups:
            return column, list(dict.fromkeys(outcomes.groups[column].tolist()))
    return "", [""]


def _sets_of_file(opened: _Opened, original: str | None, new: str | None) -> list[Side]:
    """Both sets of a source that has several."""
    _, known = _set_names(opened.outcomes)
    if len(known) < 2:
        raise InputError(f"{opened.where}: has one test set; give the other set, too")
    first = original or ("original" if "original" in known else None)
    rest = [name for name in known if name != first]
    second = new or ("new" if "new" in known else rest[0] if len(rest) == 1 else None)
    if first is None and len(known) == 2 and second is not None:
        first = next(name for name in known if name != second)
    for side, name in (("original", first), ("new", second)):
        if name is None:
            listed = few(sorted(known))
            raise InputError(f"{opened.where}: state which of the sets {listed} is the {side} one ({side}=NAME)")
    return [_named_set(opened, str(name), side) for name, side in ((first, "original"), (second, "new"))]


def _set_of_file(opened: _Opened, name: str | None, side: str) -> Side:
    """The original or the new set of a source of its own."""
    _, known = _set_names(opened.outcomes)
    one = len(known) == 1 or opened.outcomes.totals is not None
    return _named_set(opened, name or (known[0] if one else side), side)


def _named_set(opened: _Opened, name: str, side: str) -> Side:
    outcomes = opened.outcomes
    column, known = _set_names(outcomes)
    if name not in known:
        raise InputError(f"{opened.where}: {side} must be one of the sets {few(sorted(known))}; got {name!r}")
    return (
        _counted(outcomes, known.index(name))
        if outcomes.totals is not None
        else _scored(outcomes, name, column, side)
    )


def _counted(outcomes: Outcomes, item: int) -> Side:
    right, total = right_and_total(outcomes, item)
    if (total[np.isfinite(outcomes.scores[:, item])] < 1).any():
        side = "original" if item == 0 else "new"
        raise InputError(f"the table has accuracies, not counts: give the size of the {side} set ({side}_total=N)")
    with np.errstate(invalid="ignore", divide="ignore"):
        return Side(str(outcomes.items[item]), right / total, total)


def _scored(outcomes: Outcomes, name: str, column: str, side: str) -> Side:
    """One set of the outcomes: a view of its scores, not a copy, where its items are adjacent."""
    positions = np.flatnonzero(outcomes.groups[column] == name) if column else np.arange(outcomes.n_items)
    adjacent = len(positions) > 0 and positions[-1] - positions[0] + 1 == len(positions)
    index: Any = slice(int(positions[0]), int(positions[-1]) + 1) if adjacent else positions
    scores = outcomes.item_scores()[:, index]
    accuracy, total = _item_means(scores)
    key = None if outcomes.key is None else outcomes.key[index]
    answers = outcomes.answers
    answers = None if answers is None or answers.ndim != 2 else answers[:, index]
    rows = np.arange(len(positions))
    return Side(name or side, accuracy, total, scores, outcomes.items[index], rows, key, answers)


def _item_means(scores: Floats) -> tuple[Floats, NDArray[np.int64]]:
    accuracy, total = scores.mean(axis=1), np.full(len(scores), scores.shape[1], dtype=np.int64)
    for row in np.flatnonzero(np.isnan(accuracy)).tolist():
        known = scores[row][np.isfinite(scores[row])]
        accuracy[row], total[row] = (known.mean() if len(known) else np.nan), len(known)
    return accuracy, total


def _subset(side: Side, opened: _Opened) -> Side:
    """The examples of a set that the manifest of a subset names."""
    assert side.items is not None
    outcomes, manifest, where = opened.outcomes, opened.manifest, opened.where
    ids = _row_names(outcomes.items, len(_set_names(outcomes)[1]), where)
    if len(np.unique(ids)) < len(ids):
        raise InputError(f"{where}: an id names two examples, so {manifest} could mean either; give each its own")
    names = ids[subset_rows(manifest, ids)]
    rows = np.flatnonzero(np.isin(_row_names(side.items, 1, where), names)).astype(np.int64)
    if not len(rows):
        raise InputError(f"{manifest}: names no example of the {side.name} set in {where}; give two files")
    return side.select(rows)


def _subset_note(side: str, whole: Side, subset: Side, manifest: str) -> str:
    assert whole.items is not None
    assert subset.items is not None
    sizes = f"{len(subset.items):,} of {len(whole.items):,}"
    return f"Only the {sizes} examples of the {side} set that {manifest} names."


def _hashes(source: Any) -> dict[str, str]:
    """Hashes of the files of a source; of folders only where they are small."""
    if not _is_path(source):
        return {}
    data, manifest = (os.fspath(source), "") if Path(source).exists() else parse_source(os.fspath(source))
    path = Path(data)
    paths = [path] if path.is_file() else sorted(item for item in path.rglob("*") if item.is_file())
    if len(paths) > _MOST_HASHED or sum(item.stat().st_size for item in paths) > _MOST_HASHED_BYTES:
        paths = []
    return {item.name: file_hash(item) for item in (*paths, *([Path(manifest)] if manifest else []))}


def _row_names(items: NDArray[np.str_], sets: int, where: str) -> NDArray[np.str_]:
    """Ids as given; a file of one set without ids has ``row-0000000``, ``row-0000001``, ..."""
    matches = [_DEFAULT_ID.fullmatch(item) for item in items.tolist()]
    if not all(matches):
        return items
    if sets > 1:
        raise InputError(f"{where}: its sets have no ids, so a subset cannot be found in them; add ids")
    return np.array([f"row-{int(match[1]):07d}" for match in matches if match])


def _joined(
    sides: Sequence[Side],
    columns: Sequence[Outcomes],
    notes: tuple[str, ...],
    metric: str | None,
    check_classes: bool,
    n_classes: int | None,
) -> TwoSets:
    names = [columns[0].models, columns[-1].models]
    present = [
        [name for name, value in zip(models, side.accuracy, strict=True) if np.isfinite(value)]
        for models, side in zip(names, sides, strict=True)
    ]
    shared = [name for name in present[0] if name in set(present[1])]
    if not shared:
        raise InputError("the original and the new set share no model name; check that both name models alike")
    for side, here in (("original", present[0]), ("new", present[1])):
        if len(here) > len(shared):
            lone = [name for name in here if name not in set(shared)]
            notes = (*notes, f"Left out, because only the {side} set has them: {few(lone, 5)}.")
    rows = [{name: row for row, name in enumerate(models)} for models in names]
    taken = [side.take(np.array([row[name] for name in shared])) for side, row in zip(sides, rows, strict=True)]
    described = {name: values for item in reversed(columns) for name, values in item.model_groups.items()}

    def column(name: str) -> tuple[str, ...]:
        values = described.get(name)
        return () if values is None else tuple(str(values[rows[0][model]]) for model in shared)

    if check_classes and taken[0].key is not None and taken[1].key is not None:
        if n_classes is None:
            check_sets(taken[0].key, taken[1].key)  # type: ignore[arg-type]  # names serve as well as numbers
        count = n_classes or len(np.unique(np.concatenate([taken[0].key, taken[1].key])))
        check_both(shared, taken[0].accuracy, taken[1].accuracy, 1.0 / count)
    return TwoSets(
        tuple(shared),
        taken[0],
        taken[1],
        column("group"),
        tuple(decimal_year(value) for value in column("date")),
        tuple(_number_of_text(value) for value in column("parameters")),
        metric or ("accuracy" if taken[0].scores is not None and taken[0].key is None else "top1"),
        notes,
    )


def _number_of_text(text: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return float("nan")


def decimal_year(value: Any) -> float:
    """A date as a decimal year: 2017, 2017.5, "2017-06" or "2017-06-21"; NaN for an empty cell.

    Example:
        >>> decimal_year("2017-07-02")
        2017.4986301369863
    """
    text = "" if value is None else str(value).strip()
    if text in ("", "nan", "NaT"):
        return float("nan")
    match = _DATE.match(text)
    if match:
        year, month, day = (int(digits or 1) for digits in match.groups())
        if 1 <= month <= 12 and 1 <= day <= 31:
            return year + (_DAYS_BEFORE[month - 1] + day - 1) / 365.0
    try:
        year_number = float(text)
    except ValueError:
        year_number = 0.0
    if 1900 <= year_number <= 2200:
        return year_number
    raise InputError(f"must be a year or YYYY-MM-DD; got {text!r}", argument="date")


def excluded_rows(
    models: Sequence[str], group: Sequence[str], exclude: Sequence[str] = (), groups: Sequence[str] = ()
) -> Booleans:
    """Which models stay out of a fit: names matching a pattern (``fv_*``), or groups other than those wanted.

    A pattern or group that names nothing is refused: it would silently change the result.

    Example:
        >>> excluded_rows(["fv_4k", "resnet50"], [], exclude=["fv_*"]).tolist()
        [True, False]
    """
    out = np.zeros(len(models), dtype=np.bool_)
    for pattern in exclude:
        hits = np.array([fnmatch.fnmatchcase(name, pattern) for name in models], dtype=np.bool_)
        if not hits.any():
            raise InputError(f"must match a model, such as {few(models, 5)}; got {pattern!r}", argument="exclude")
        out |= hits
    if groups:
        known = sorted(set(group))
        if not known:
            raise InputError("must be empty where the table has no column 'group'", argument="groups")
        for name in groups:
            if name not in known:
                raise InputError(f"must be among {', '.join(known)}; got {name!r}", argument="groups")
        out |= np.array([name not in groups for name in group], dtype=np.bool_)
    return out
