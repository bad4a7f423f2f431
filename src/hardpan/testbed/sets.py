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

from hardpan.arguments import one_of
from hardpan.data.opening import open_subset_rows, parse_data_source
from hardpan.errors import InputError, few
from hardpan.estimates import Estimate
from hardpan.files import file_hash
from hardpan.outcomes import Outcomes
from hardpan.outcomes.classes import check_both, check_same_classes
from hardpan.outcomes.outcomes import only_zero_or_one
from hardpan.stats.intervals import normal
from hardpan.stats.lines import fit_lines
from hardpan.stats.resampling import bootstrap

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
Evidence = Literal["examples", "counts"]
COVARIANCE_MODELS = 500  # more models than this, and no full covariance is computed
_ITEMS_AT_ONCE = 8192
_MOST_HASHED, _MOST_HASHED_BYTES = 100, 1 << 30
_DEFAULT_ID = re.compile(r"(?:.*/)?item-(\d+)")
_DATE = re.compile(r"(\d{4})-(\d{1,2})(?:-(\d{1,2}))?")
_DAYS_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
SET_COLUMNS, ROLES = ("set", "split"), ("original", "new")


@dataclass(frozen=True, slots=True, eq=False)
class SetScores:
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

    def take(self, models: NDArray[np.int64]) -> SetScores:
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
        metric: what counts as right.
        notes: what a reader has to know.
        hashes: sha256 of the files that were read, by name.
    """

    models: tuple[str, ...]
    original: SetScores
    new: SetScores
    group: tuple[str, ...] = ()
    date: tuple[float, ...] = ()
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

    def mean_gap(self, confidence: float = 0.95) -> Estimate:
        """Mean over models of original − new accuracy, with the sampling of both test sets in its interval.

        Items are drawn again jointly for all models: SE² = Σ_i (mean_m D_mi)² on each set, Student's t. From counts
        SE² ≤ F₁/n₁ + F₂/n₂, the case of nested errors.
        """
        value = float(self.gaps.mean())
        error = float(np.sqrt(self.original.mean_variance() + self.new.mean_variance()))
        size = int(min(self.original.total.min(), self.new.total.min()))
        method, df = "examples of both sets, drawn jointly for all models", max(size - 1, 1)
        if self.evidence == "counts":
            method, df = "bound for nested errors, from counts", 0
        return normal(value, error, size, confidence, least=-1.0, most=1.0, method=method, df=df)

    def gap_by_date(self, confidence: float = 0.95, seed: int = 0) -> Estimate | None:
        """Change of the gap per year of publication date by least squares, interval over models.

        None unless the dates of at least three models are known and differ.
        """
        dates = np.array(self.date, dtype=np.float64)
        known = np.isfinite(dates)
        if known.sum() < 3 or np.ptp(dates[known]) == 0:
            return None
        x, y = dates[known] - dates[known].mean(), self.gaps[known] - self.gaps[known].mean()

        def slope(means: Floats) -> Floats:
            spread = means[:, 2] - means[:, 0] ** 2
            flat = spread <= 1e-14 * means[:, 2]
            joint = means[:, 3] - means[:, 0] * means[:, 1]
            return np.where(flat, np.nan, joint / np.where(flat, 1.0, spread))

        estimate = bootstrap(np.stack([x, y, x * x, x * y], axis=1), slope, confidence=confidence, seed=seed)
        method = f"least squares of gap on date, {estimate.method}, over models"
        return replace(estimate, value=float(fit_lines(x, y)[0]), method=method)

    def excluded(self, exclude: Sequence[str] = (), groups: Sequence[str] = ()) -> Booleans:
        """Which models stay out of a fit: names matching a pattern (``fv_*``), or groups other than those wanted.

        A pattern or group that names nothing is refused: it would silently change the result.
        """
        out = np.zeros(len(self), dtype=np.bool_)
        for pattern in exclude:
            hits = np.array([fnmatch.fnmatchcase(name, pattern) for name in self.models], dtype=np.bool_)
            if not hits.any():
                listed = few(self.models, 5)
                raise InputError(f"must match a model, such as {listed}; got {pattern!r}", argument="exclude")
            out |= hits
        if not groups:
            return out
        if not self.group:
            raise InputError("must be empty where the table has no column 'group'", argument="groups")
        for name in groups:
            one_of("groups", name, sorted(set(self.group)))
        return out | ~np.isin(self.group, groups)

    def take(self, rows: NDArray[np.int64]) -> TwoSets:
        """The same for some of the models, by row number."""
        columns = {name: getattr(self, name) for name in ("models", "group", "date")}
        cut: dict[str, Any] = {
            name: tuple(column[row] for row in rows) if column else () for name, column in columns.items()
        }
        return replace(self, original=self.original.take(rows), new=self.new.take(rows), **cut)

    def outcomes(self, test_set: str) -> Outcomes:
        """Scores by item on the original or the new set."""
        side: SetScores = getattr(self, test_set)
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
    by_order: bool = False,
) -> TwoSets:
    """The models that both test sets have.

    Args:
        original: outcomes on the original set, or what :meth:`hardpan.Outcomes.open` opens; without ``new``,
            outcomes or a file with both sets. ``FILE@hard.json`` takes the examples of a subset.
        new: the same on the new set.
        metric: metric of counts.
        original_set: name of the original set, if a file has several sets.
        new_set: name of the new set, if a file has several sets.
        original_total: size of the original set, for tables of accuracies.
        new_total: size of the new set, for tables of accuracies.
        check_classes: refuse two sets of other classes, and models that are right on one of them only by chance.
        by_order: join examples by position if there are no ids.
    """
    if isinstance(original, TwoSets):
        if metric not in (None, original.metric):
            raise InputError(
                f": the sets were read as {original.metric}; got {metric!r}: leave it out", argument="metric"
            )
        return original
    options = {"metric": metric, "by_order": by_order}
    totals, named_sets = (original_total, new_total), (original_set, new_set)
    if new is None:
        one = _open_test_set_source(original, options, None if totals == (None, None) else list(totals))
        sources, names = [one, one], _two_names(one, *named_sets)
    else:
        sources = [
            _open_test_set_source(source, options, size)
            for source, size in zip((original, new), totals, strict=True)
        ]
        names = []
        for source, name, role in zip(sources, named_sets, ROLES, strict=True):
            alone = len(source.set_names) == 1 or source.outcomes.totals is not None
            names.append(name or (source.set_names[0] if alone else role))
    notes = [note for source in sources for note in source.outcomes.notes]
    sides = [item.side(name, role, notes) for item, name, role in zip(sources, names, ROLES, strict=True)]
    joined = _join_models(sides, [source.outcomes for source in sources], notes, metric)
    first, second = joined.original.key, joined.new.key
    if check_classes and first is not None and second is not None:
        check_same_classes(first, second)  # type: ignore[arg-type]  # names serve as well as numbers
        count = len(np.unique(np.concatenate([first, second])))
        check_both(joined.models, joined.original.accuracy, joined.new.accuracy, 1.0 / count)
    return replace(joined, hashes=_hashes(original) | _hashes(new))


@dataclass(frozen=True, slots=True)
class _TestSetSource:
    """Outcomes of one or several test sets, the manifest of a subset of their examples, and a name for messages."""

    outcomes: Outcomes
    manifest: str
    where: str

    @property
    def set_column(self) -> str:
        """The group column that names test sets; empty where there is none."""
        return next((column for column in SET_COLUMNS if column in self.outcomes.groups), "")

    @property
    def set_names(self) -> list[str]:
        """The test sets in order; of counts every item is a set."""
        if self.outcomes.totals is not None:
            return list(self.outcomes.items.tolist())
        return list(dict.fromkeys(self.outcomes.groups[self.set_column].tolist())) if self.set_column else [""]

    def subset(self) -> NDArray[np.int64]:
        """The items that the manifest names; without ids a file of one set has ``row-0000000``, ..."""
        ids = self.outcomes.items
        matches = [_DEFAULT_ID.fullmatch(item) for item in ids.tolist()]
        if all(matches):
            if len(self.set_names) > 1:
                raise InputError(f"{self.where}: its sets have no ids, so a subset cannot be found; add ids")
            ids = np.array([f"row-{int(match[1]):07d}" for match in matches if match])
        if len(np.unique(ids)) < len(ids):
            raise InputError(
                f"{self.where}: an id names two examples, so {self.manifest} could mean either; give each its own"
            )
        return open_subset_rows(self.manifest, ids)

    def side(self, name: str, role: str, notes: list[str]) -> SetScores:
        """All models on one of the test sets, for the role "original" or "new"; a subset adds a note."""
        if name not in self.set_names:
            listed = few(sorted(self.set_names))
            raise InputError(f"{self.where}: {role} must be one of the sets {listed}; got {name!r}")
        outcomes = self.outcomes
        if outcomes.totals is not None:
            column = self.set_names.index(name)
            accuracy, total = outcomes.scores[:, column], outcomes.totals[:, column]
            right = np.rint(np.nan_to_num(accuracy) * total).astype(np.int64)
            if (total[np.isfinite(accuracy)] < 1).any():
                raise InputError(
                    f"the table has accuracies, not counts: give the size of the {role} set ({role}_total=N)"
                )
            with np.errstate(invalid="ignore", divide="ignore"):
                return SetScores(name, right / total, total)
        items = np.arange(outcomes.n_items)
        if self.set_column:
            items = items[outcomes.groups[self.set_column] == name]
        rows = np.arange(len(items))
        if self.manifest:
            rows = np.flatnonzero(np.isin(items, self.subset()))
            if not len(rows):
                raise InputError(f"{self.manifest}: names no example of the {role} set in {self.where}")
            sizes = f"{len(rows):,} of {len(items):,}"
            notes.append(f"Only the {sizes} examples of the {role} set that {self.manifest} names.")
        if len(rows) < outcomes.n_items:
            outcomes = outcomes.select(items=items[rows])
        scores = outcomes.item_scores()
        accuracy, total = scores.mean(axis=1), np.isfinite(scores).sum(axis=1)
        for row in np.flatnonzero(np.isnan(accuracy) & (total > 0)):
            accuracy[row] = scores[row][np.isfinite(scores[row])].mean()
        answers = outcomes.answers if outcomes.answers is not None and outcomes.answers.ndim == 2 else None
        return SetScores(name or role, accuracy, total, scores, outcomes.items, rows, outcomes.key, answers)


def _open_test_set_source(source: Any, options: Mapping[str, Any], totals: Any = None) -> _TestSetSource:
    manifest, where = "", "table"
    if isinstance(source, (str, os.PathLike)):
        path, manifest = parse_data_source(os.fspath(source))
        source, where = Path(path), path
        if (source / "zarr.json").is_file():
            source = _store_outcomes(source)
    elif hasattr(source, "outcomes"):
        source, where = source.outcomes(), "predictions"
    if isinstance(source, Outcomes):
        if options.get("metric") not in (None, "top1"):
            raise InputError(
                f": {where} says right or wrong only; got {options['metric']!r}: leave it out", argument="metric"
            )
        return _TestSetSource(source, manifest, where)
    outcomes = Outcomes.open(source, **options, totals=totals)
    if manifest and outcomes.totals is not None:
        raise InputError(
            f"{where}: has counts, not the examples that {manifest} could choose; give predictions with ids"
        )
    return _TestSetSource(outcomes, manifest, where)


def _store_outcomes(path: Path) -> Outcomes:
    """Outcomes of a store of predictions: each seed is a model, named after the store's model or folder."""
    from hardpan.predictions import Predictions

    predictions = Predictions.open(path)
    outcomes, model = predictions.outcomes(), predictions.config.get("model")
    if predictions.named:
        return outcomes
    prefix = model if isinstance(model, str) else path.name
    return replace(outcomes, models=tuple(f"{prefix} {name}" for name in outcomes.models))


def open_outcomes(source: Any, test_set: str | None = None) -> Outcomes:
    """Outcomes of one test set: ``test_set`` where the source has several; ``FILE@hard.json`` takes a subset."""
    opened = _open_test_set_source(source, {})
    outcomes, names = opened.outcomes, opened.set_names
    if outcomes.totals is not None:
        raise InputError(f"{opened.where}: has counts; expected scores or predictions example by example")
    if test_set not in names and (test_set is not None or len(names) > 1):
        raise InputError(f"{opened.where}: test_set must be one of {few(sorted(names))}; got {test_set!r}")
    if len(names) > 1:
        opened = replace(opened, outcomes=outcomes.select(items=outcomes.groups[opened.set_column] == test_set))
    return opened.outcomes.select(items=opened.subset()) if opened.manifest else opened.outcomes


def _two_names(source: _TestSetSource, original: str | None, new: str | None) -> list[str]:
    """The names of the original and the new set in a source with several."""
    known = source.set_names
    if len(known) < 2:
        raise InputError(f"{source.where}: has one test set; give the other set, too")
    first = original or ("original" if "original" in known else None)
    rest = [name for name in known if name != first]
    second = new or ("new" if "new" in known else rest[0] if len(rest) == 1 else None)
    if first is None and len(known) == 2 and second is not None:
        first = next(name for name in known if name != second)
    for role, name in zip(ROLES, (first, second), strict=True):
        if name is None:
            listed = few(sorted(known))
            raise InputError(f"{source.where}: state which of the sets {listed} is the {role} one ({role}=NAME)")
    return [str(first), str(second)]


def _hashes(source: Any) -> dict[str, str]:
    """Hashes of the files of a source; of folders only where they are small."""
    if not isinstance(source, (str, os.PathLike)):
        return {}
    data, manifest = parse_data_source(os.fspath(source))
    path = Path(data)
    paths = [path] if path.is_file() else sorted(item for item in path.rglob("*") if item.is_file())
    if len(paths) > _MOST_HASHED or sum(item.stat().st_size for item in paths) > _MOST_HASHED_BYTES:
        paths = []
    return {item.name: file_hash(item) for item in (*paths, *([Path(manifest)] if manifest else []))}


def _join_models(
    sides: Sequence[SetScores], outcomes: Sequence[Outcomes], notes: list[str], metric: str | None
) -> TwoSets:
    """Both sets with the models that they share, in the order of the original set."""
    present = [
        [name for name, value in zip(item.models, side.accuracy, strict=True) if np.isfinite(value)]
        for item, side in zip(outcomes, sides, strict=True)
    ]
    shared = [name for name in present[0] if name in set(present[1])]
    if not shared:
        raise InputError("the original and the new set share no model name; check that both name models alike")
    for role, names in zip(ROLES, present, strict=True):
        if lone := [name for name in names if name not in set(shared)]:
            notes.append(f"Left out, because only the {role} set has them: {few(lone, 5)}.")
    rows = [np.array([item.models.index(name) for name in shared]) for item in outcomes]
    original, new = (side.take(row) for side, row in zip(sides, rows, strict=True))
    described = {**outcomes[1].model_groups, **outcomes[0].model_groups}

    def column(name: str) -> tuple[str, ...]:
        return tuple(map(str, described[name][rows[0]])) if name in described else ()

    return TwoSets(
        tuple(shared),
        original,
        new,
        column("group"),
        tuple(decimal_year(value) for value in column("date")),
        metric or ("accuracy" if original.scores is not None and original.key is None else "top1"),
        tuple(dict.fromkeys(notes)),
    )


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
