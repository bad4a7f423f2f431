"""Scores in [0, 1]: models × items (× repeats)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.arguments import clean_column, clean_names
from hardpan.errors import InputError, few
from hardpan.tables import table_columns_by_role

GROUP = "group"  # the name of the group column where only one sequence of labels is given


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """Log-probabilities that models give to the choices of multiple-choice items.

    Attributes:
        logprobs: (M, N, C) log-probabilities; NaN where an item has fewer choices, or a cell is missing.
        right: (N,) the number of the right choice; -1 where it is not known.
    """

    logprobs: NDArray[np.float32]
    right: NDArray[np.int64]

    def probabilities(self) -> NDArray[np.float64]:
        """(M, N, C) probabilities of the choices, exp(l) / Σ exp(l); 0 for a choice that an item lacks, NaN for a
        missing cell.

        Example:
            >>> Choices(np.log(np.array([[[0.1, 0.3]]], dtype=np.float32)), np.array([1])).probabilities().round(3)
            array([[[0.25, 0.75]]])
        """
        values = self.logprobs.astype(np.float64)
        known = np.isfinite(values)
        highest = np.max(np.where(known, values, -np.inf), axis=2, keepdims=True)
        weights = np.where(known, np.exp(values - np.where(np.isfinite(highest), highest, 0.0)), 0.0)
        total = weights.sum(axis=2, keepdims=True)
        return np.where(total > 0, weights / np.where(total > 0, total, 1.0), np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """What every model scored on every item of one test set.

    Attributes:
        scores: (M, N) or (M, N, R) numbers in [0, 1]; NaN is a missing cell.
        models: M names, each once.
        items: N ids, each once.
        groups: columns of N labels by name: task, subject, passage, date, ...
        answers: what each model answered, text of the shape of ``scores`` ("" where unknown), or None.
        key: the N right answers, or None.
        source: where the scores come from.
        notes: what a reader has to know: the metric and filter chosen, rows dropped, answers not parsed.
        choices: log-probabilities of the choices, where logs hold them, or None.
        totals: (M, N) where an item is a whole test set of which only accuracies are known: the size of the set,
            0 if unknown; else None.
        model_groups: columns of M labels by name: group, date, parameters.
        questions: N texts of the questions ("" where unknown), where logs hold them, or None.
        failed: of the shape of ``scores``: answers without a score (empty, timeout, not parsed), which have 0 or
            NaN there, as ``unparsed`` says; None without any.
        measures: further numbers of the answers by name, each (M, N), means over the repeats, NaN missing: cost,
            duration, tokens; human, scores by people of some answers; score or loss, scores without a range as
            they are (``scores`` are then these, scaled to [0, 1]).
        blind: (N,) scores of rules that read no question, by what they answer ("the longest choice", "choice 1");
            NaN where logs do not have the choices.
        texts: whole answers or transcripts by model and item, of the first run, where longer than ``answers``.
        files: what was read: rows of file, harness, version and date, as far as logs have them.
    """

    scores: NDArray[np.float64]
    models: tuple[str, ...]
    items: NDArray[np.str_]
    groups: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    answers: NDArray[np.str_] | None = None
    key: NDArray[np.str_] | None = None
    source: str = ""
    notes: tuple[str, ...] = ()
    choices: Choices | None = None
    totals: NDArray[np.int64] | None = None
    model_groups: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    questions: tuple[str, ...] | None = None
    failed: NDArray[np.bool_] | None = None
    measures: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    blind: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    texts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    files: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        """Clean the names that reach charts, pages and tables (:func:`hardpan.arguments.clean_text`)."""
        object.__setattr__(self, "models", clean_names("models", self.models))
        object.__setattr__(self, "items", np.array(clean_names("items", self.items.tolist()), dtype=np.str_))
        for field_name in ("groups", "model_groups"):
            columns: Mapping[str, NDArray[Any]] = getattr(self, field_name)
            names = clean_names(field_name, tuple(columns))
            cleaned = dict(zip(names, map(clean_column, columns.values()), strict=True))
            object.__setattr__(self, field_name, cleaned)

    @classmethod
    def open(
        cls,
        source: Any,
        *,
        filter: str | None = None,
        metric: str | None = None,
        scorer: str | None = None,
        unparsed: str = "wrong",
        group: str | None = None,
        columns: Mapping[str, str] | None = None,
        max_score: float | None = None,
        min_score: float = 0.0,
        rows: str | None = None,
        by_order: bool = False,
        totals: int | Sequence[int] | Mapping[str, int] | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> Outcomes:
        """Open scores; the format is recognised by content.

        Read are: logs of lm-evaluation-harness (``samples_*.jsonl``), Inspect (``.eval``, ``.json``), HELM (run
        folders) and other harnesses (docs/bring-your-data.md); long and wide tables (CSV, TSV, JSON, JSONL,
        Parquet, data frames); matrices (npy, npz, arrays); answers or predicted classes beside a key in tables;
        counts (``model, correct, total``, and timm's results). What was chosen, dropped or not parsed is in
        ``notes``. Several logs of one model and task are repeats where they are in one folder, and several models,
        named by folder, where not.

        Args:
            source: a file, a folder, a list of them, a frame, rows, columns, or an array.
            filter: filter of lm-eval logs; default: the first in the file.
            metric: metric to read; default: the first with values from 0 to 1.
            scorer: scorer of Inspect logs; default: the first.
            unparsed: count answers that could not be parsed, and rows without a score or with a score of -1, as
                "wrong" or "missing".
            group: column with groups of items, such as a passage: of a table, or a field of a log's documents or
                metadata; it comes first in ``groups``.
            columns: of a table, columns by role where their names do not say it: model, item, task, score, run,
                answer, key, group, cost, duration, tokens, human (scores by people, in the range of the scores).
            max_score: the highest possible score; inf for scores without a range, such as losses and times.
            min_score: the lowest possible score: (score − min_score)/(max_score − min_score) is read.
            rows: what the rows of a wide table are, "models" or "items"; default: by its names.
            by_order: join items by position if files have no item ids.
            totals: sizes of the test sets of tables with accuracies: one for all, one per set, or by name.
            progress: called with a step and the fraction done.

        Example:
            >>> rows = [{"model": "a", "item": "q1", "correct": 1}, {"model": "b", "item": "q1", "correct": 0}]
            >>> Outcomes.open(rows).scores.tolist()
            [[1.0], [0.0]]
        """
        from hardpan.outcomes.cells import Options  # the readers build Outcomes: imported when first used
        from hardpan.outcomes.reading import read_outcomes

        for name, value in (("filter", filter), ("metric", metric), ("scorer", scorer), ("group", group)):
            if value is not None and not isinstance(value, str):
                raise InputError(f"must be text; got {value!r}", argument=name)
        named = table_columns_by_role(columns, group=group)
        group = named.get("group")
        options = Options(filter, metric, scorer, unparsed, group, named, max_score, rows, by_order, min_score)
        return read_outcomes(source, options, totals=totals, progress=progress)

    @classmethod
    def of_items(cls, source: Any, *, models: int = 1, items: int = 1, counts: bool = False) -> Outcomes:
        """Scores item by item of outcomes, of predictions, or of what :meth:`open` opens.

        Args:
            source: accuracies of whole test sets are refused.
            models: number of models that are needed.
            items: number of items that are needed.
            counts: accept accuracies of whole test sets.
        """
        try:
            outcomes = cls.open(source.outcomes() if hasattr(source, "outcomes") else source)
        except InputError as error:
            raise error.renamed({"source": "outcomes"}) from error.__cause__
        if outcomes.totals is not None and not counts:
            raise InputError(
                "must be scores item by item, not accuracies of whole test sets; rank these with hardpan "
                "leaderboard rank, or compare two test sets with hardpan testbed compare",
                argument="outcomes",
            )
        if outcomes.is_unbounded():
            raise InputError(
                "must be scores with a range, such as 0 to 1; these have none: use leaderboard.amounts, or give "
                "max_score",
                argument="outcomes",
            )
        for what, count, least in (("models", outcomes.n_models, models), ("items", outcomes.n_items, items)):
            if count < least:
                raise InputError(f"must have at least {least} {what}; got {count:,}", argument="outcomes")
        return outcomes

    @classmethod
    def from_arrays(
        cls,
        scores: ArrayLike,
        models: Sequence[str] | None = None,
        items: Sequence[Any] | None = None,
        groups: Sequence[Any] | Mapping[str, Sequence[Any]] | None = None,
        answers: ArrayLike | None = None,
        key: Sequence[Any] | None = None,
    ) -> Outcomes:
        """Outcomes of arrays.

        Args:
            scores: (models, items) or (models, items, repeats), booleans or numbers in [0, 1]; NaN is missing.
            models: names; ``model-0``, ``model-1``, ... if None.
            items: ids; ``item-0``, ``item-1``, ... if None.
            groups: one label per item, or several columns of them by name.
            answers: what each model answered, of the shape of ``scores``.
            key: the right answer of each item.

        Example:
            >>> Outcomes.from_arrays([[1, 0, 1], [0.5, 1, float("nan")]], groups=["a", "a", "b"])
            Outcomes(2 models × 3 items, 5 of 6 cells, groups: group)
        """
        array = _checked_scores(scores)
        m, n = array.shape[:2]
        names = _outcome_texts("models", [f"model-{i}" for i in range(m)] if models is None else models, m)
        ids = _outcome_texts("items", [f"item-{i}" for i in range(n)] if items is None else items, n)
        for name, listed in (("models", names), ("items", ids)):
            repeated, count = Counter(listed).most_common(1)[0]
            if count > 1:
                raise InputError(f"must be unique; {repeated!r} appears {count} times", argument=name)
        if groups is None:
            groups = {}
        elif not isinstance(groups, Mapping):
            groups = {GROUP: groups}
        columns = {
            str(name): np.array(_outcome_texts(f"groups[{name!r}]", values, n)) for name, values in groups.items()
        }
        answer_texts = None
        if answers is not None:
            answer_texts = np.asarray(answers, dtype=np.str_)
            if answer_texts.shape != array.shape:
                raise InputError(
                    f"must have the shape of scores, {array.shape}; got {answer_texts.shape}", argument="answers"
                )
        right = None if key is None else np.array(_outcome_texts("key", key, n))
        return cls(array, tuple(names), np.array(ids), columns, answer_texts, right)

    @property
    def n_models(self) -> int:
        """How many models there are."""
        return len(self.models)

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return len(self.items)

    @property
    def n_repeats(self) -> int:
        """How often each item was tried, at most."""
        return 1 if self.scores.ndim == 2 else int(self.scores.shape[2])

    def is_binary(self) -> bool:
        """Whether every cell is one run that is right or wrong; missing cells do not matter.

        Example:
            >>> [Outcomes.from_arrays(scores).is_binary() for scores in ([[1, 0, float("nan")]], [[0.5, 1]])]
            [True, False]
        """
        return self.n_repeats == 1 and only_zero_or_one(self.scores)

    def is_unbounded(self) -> bool:
        """Whether the scores have no range, such as losses and times; they are in ``measures``."""
        return not self.measures.keys().isdisjoint(("score", "loss"))

    def item_scores(self) -> NDArray[np.float64]:
        """(M, N) means over the repeats of a cell; NaN where all are missing."""
        if self.scores.ndim == 2:
            return self.scores
        known = np.isfinite(self.scores)
        count = known.sum(axis=2)
        total = np.where(known, self.scores, 0.0).sum(axis=2)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def index(self, model: str | int) -> int:
        """The row of a model, by name or number.

        Of "org/name" the last part is enough where one model has it, and of "name (folder)" the folder.
        """
        if isinstance(model, str):
            if model not in self.models:
                ends = (f"/{model}", f" ({model})")
                rows = [row for row, name in enumerate(self.models) if name.endswith(ends)]
                if len(rows) == 1:
                    return rows[0]
                raise InputError(f"model {model!r} is not among the {self.n_models} models: {few(self.models)}")
            return self.models.index(model)
        if isinstance(model, bool) or not isinstance(model, (int, np.integer)):
            raise InputError(f"must be a name or a row number; got {model!r}", argument="model")
        if not -self.n_models <= model < self.n_models:
            raise InputError(f"model {model} is outside 0..{self.n_models - 1}")
        return int(model) % self.n_models

    def select(self, *, models: Any = None, items: Any = None) -> Outcomes:
        """Some of the models and items: a mask, row numbers, or names and ids; None keeps all."""
        rows = _rows_of_outcomes("models", models, self.models)
        columns = _rows_of_outcomes("items", items, self.items.tolist())
        cells, choices = np.ix_(rows, columns), self.choices
        return replace(
            self,
            scores=self.scores[cells],
            models=tuple(self.models[row] for row in rows),
            items=self.items[columns],
            groups={name: values[columns] for name, values in self.groups.items()},
            answers=None if self.answers is None else self.answers[cells],
            key=None if self.key is None else self.key[columns],
            choices=None if choices is None else Choices(choices.logprobs[cells], choices.right[columns]),
            totals=None if self.totals is None else self.totals[cells],
            model_groups={name: values[rows] for name, values in self.model_groups.items()},
            questions=None if self.questions is None else tuple(self.questions[column] for column in columns),
            failed=None if self.failed is None else self.failed[cells],
            measures={name: values[cells] for name, values in self.measures.items()},
            blind={name: values[columns] for name, values in self.blind.items()},
        )

    def align(self, models: Outcomes | Sequence[str]) -> Outcomes:
        """The same models in the order of others; a model that is missing here is refused."""
        names = models.models if isinstance(models, Outcomes) else tuple(models)
        return self.select(models=names)

    def __repr__(self) -> str:
        known = int(np.isfinite(self.scores).sum())
        text = f"Outcomes({self.n_models:,} models × {self.n_items:,} items"
        text += f" × {self.n_repeats} repeats" if self.n_repeats > 1 else ""
        text += f", {known:,} of {self.scores.size:,} cells" if known < self.scores.size else ""
        text += f", groups: {', '.join(self.groups)}" if self.groups else ""
        return text + ")"


def _checked_scores(scores: ArrayLike) -> NDArray[np.float64]:
    try:
        array = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"must be numbers in [0, 1]; {error}", argument="scores") from error
    if array.ndim not in (2, 3) or 0 in array.shape:
        raise InputError(
            f"must be (models, items) or (models, items, repeats); got the shape {array.shape}", argument="scores"
        )
    low, high = np.fmin.reduce(array, axis=None), np.fmax.reduce(array, axis=None)
    if low < 0 or high > 1:
        span = f"{low:g} to {high:g}"
        raise InputError(f"must lie in [0, 1]; got {span}: divide by the highest possible score", argument="scores")
    if are_probabilities(array):
        raise InputError(
            f"scores {array.shape} sum to 1 over the last axis: class probabilities, not repeats of an item; pass "
            "Predictions.from_arrays(probs, models=[...], labels=...).outcomes()"
        )
    return array


def only_zero_or_one(scores: NDArray[np.float64]) -> bool:
    """Whether every score that is not missing is 0 or 1."""
    return all(bool(((row == 0) | (row == 1) | np.isnan(row)).all()) for row in scores)


def are_probabilities(scores: NDArray[np.float64]) -> bool:
    """Whether three axes are (models, examples, classes): fractions that sum to 1 over the last axis."""
    if scores.ndim != 3 or scores.shape[2] < 2 or np.isin(scores[:, :100], (0.0, 1.0)).all():
        return False
    return bool(np.abs(scores.sum(axis=2) - 1).max() < 1e-3)


def _outcome_texts(name: str, values: Any, count: int) -> list[str]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InputError(f"must be a list; got {values!r}", argument=name)
    texts = list(map(str, values))
    if len(texts) != count:
        raise InputError(f"must have {count} entries, as scores has; got {len(texts)}", argument=name)
    return texts


def _rows_of_outcomes(name: str, subset: Any, known: Sequence[str]) -> NDArray[np.int64]:
    if subset is None:
        return np.arange(len(known))
    array = np.asarray(list(subset) if not isinstance(subset, np.ndarray) else subset)
    if array.dtype == np.bool_:
        if array.shape != (len(known),):
            raise InputError(f"{name}: a mask must have {len(known)} entries; got {array.shape}")
        return np.flatnonzero(array)
    if array.dtype.kind in "iu":
        if array.size and not (-len(known) <= array.min() and array.max() < len(known)):
            raise InputError(f"{name}: numbers must be within 0..{len(known) - 1}")
        return array.astype(np.int64) % max(len(known), 1)
    rows = {value: row for row, value in enumerate(known)}
    missing = [str(value) for value in array if str(value) not in rows]
    if missing:
        raise InputError(f"{name}: {few(missing)} not found; there are {few(known)}")
    return np.array([rows[str(value)] for value in array], dtype=np.int64)
