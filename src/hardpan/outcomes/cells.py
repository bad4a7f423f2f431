"""The cells that collect scores one at a time, whatever reads them, and the options of the readers."""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from array import array
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.arguments import clean_text, one_of, real_number
from hardpan.errors import InputError, counted, few
from hardpan.outcomes.outcomes import Choices, Outcomes

MOST_CELLS = 500_000_000  # models × items × repeats; 4 GB of scores
MOST_ANSWER_BYTES = 1 << 30  # of the table of answers, 4 bytes per letter
MOST_TEXT_BYTES = 256 << 20  # of all different answers while they are collected, and of answers in arrays
LONGEST_ANSWER = 48
LONGEST_LABEL = 200
LONGEST_QUESTION = 4000
LONGEST_TEXT = 3000  # of an answer or transcript, its beginning and its end
MOST_CHOICES = 10  # up to which always taking the first one, the second one and so on are rules
UNPARSED = ("wrong", "missing")

_WORDS = dict.fromkeys(("true", "yes", "correct", "right", "pass", "passed", "resolved", "success", "c", "✓"), 1.0)
_WORDS |= dict.fromkeys(
    ("false", "no", "incorrect", "wrong", "fail", "failed", "unresolved", "failure", "i", "✗"), 0.0
)
BLANK = frozenset(("", "nan", "na", "n/a", "none", "null", "<na>", "-"))
GROUPS = (
    *("subject", "category", "subcategory", "topic", "domain", "type", "level", "difficulty", "subset", "language"),
    *("passage", "passage_id", "article", "article_id", "story_id", "tags", "date", "release_date"),
)


@dataclass(frozen=True, slots=True)
class Options:
    """The choices of :meth:`hardpan.Outcomes.open`; ``columns`` are those of a table by role, with the group."""

    filter: str | None = None
    metric: str | None = None
    scorer: str | None = None
    unparsed: str = "wrong"
    group: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    max_score: float | None = None
    rows: str | None = None
    by_order: bool = False
    min_score: float = 0.0

    def in_range(self, score: float) -> float:
        """A score as a fraction of its range; as it is where it has none."""
        highest = 1.0 if self.max_score is None else self.max_score
        return score if math.isinf(highest) else (score - self.min_score) / (highest - self.min_score)


def shorten(text: str, longest: int = LONGEST_ANSWER) -> str:
    """A long answer as its beginning and a hash of the whole: equal texts stay equal, others differ.

    Example:
        >>> shorten("  42 "), len(shorten("x" * 1000))
        ('42', 48)
    """
    text = text.strip()
    if len(text) <= longest:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{text[: longest - 9]}…{digest}"


def score_of(value: Any) -> float | None:
    """A score as a number: numbers, booleans, and words such as "correct"; None where it is neither."""
    if isinstance(value, str):
        return _score_of_text(value) if len(value) < LONGEST_ANSWER else None
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        return float(value) if math.isfinite(value) else None
    return None


@functools.lru_cache(maxsize=1 << 14)
def _score_of_text(value: str) -> float | None:
    text = value.strip().lower()
    if text in _WORDS:
        return _WORDS[text]
    try:
        parsed = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        return None
    return parsed if math.isfinite(parsed) else None


class Cells:
    """Collects scores by model and item; 24 bytes per score, whatever the size of the files."""

    def __init__(self, options: Options) -> None:
        one_of("unparsed", options.unparsed, UNPARSED)
        if options.max_score not in (None, math.inf):
            real_number("max_score", options.max_score, "(0, inf)")
        if not options.min_score < (1.0 if options.max_score is None else options.max_score):
            raise InputError(
                f"must be below the highest possible score, max_score; got {options.min_score!r}",
                argument="min_score",
            )
        self.loss = False  # whether lower scores are better, where they have no range
        self.options = options
        self.notes: list[str] = []
        self._models: dict[tuple[str, tuple[str, ...]], int] = {}  # by name and folder
        self._logs: dict[tuple[int, str], int] = {}  # how many, by model and task
        self.items: dict[Hashable, int] = {}  # several keys may name one item
        self.labels: list[str] = []
        self._columns: dict[str, dict[int, str]] = {}
        self._model_columns: dict[str, dict[int, str]] = {}
        self._keys: dict[int, str] = {}
        self._runs: dict[Hashable, int] = {}
        self._other_keys = 0
        self._questions: dict[int, str] = {}
        self._texts: dict[str, int] = {"": 0}
        self._text_bytes, self._too_long = 0, False
        self._model_of, self._item_of, self._run_of, self._answer_of = (array("i") for _ in range(4))
        self._scores = array("d")
        self._failed = array("q")
        self._measures: dict[str, tuple[array[int], array[float]]] = {}  # numbers of scores, and values, by name
        self._logprobs, self._logprob_rows = array("f"), array("q")
        self._right: dict[int, tuple[int, bool]] = {}
        self._choice_lengths: dict[int, list[int]] = {}
        self._whole: dict[tuple[int, int], str] = {}  # whole answers by model and item
        self._whole_bytes = 0
        self.files: dict[Path, tuple[str, str]] = {}  # version and date of logs

    def __len__(self) -> int:
        return len(self._scores)

    def model(self, name: str) -> int:
        """The number of a model."""
        return self._models.setdefault((name, ()), len(self._models))

    def run(self, name: Hashable) -> int:
        """The number of a run that several tables may have."""
        return self._runs.setdefault(name, len(self._runs))

    def check_overlap_of_tables(self, starts: Sequence[int], names: Sequence[str]) -> None:
        """Refuse tables with different scores of one model and item, which may be parts of a test or repeats."""
        if len(starts) < 2:
            return
        table = np.repeat(np.arange(len(starts)), np.diff([*starts, len(self)]))
        columns = (_int32_array(self._model_of), _int32_array(self._item_of), _int32_array(self._run_of))
        order = np.lexsort((table, *columns[::-1]))
        same = np.logical_and.reduce([np.diff(column[order]) == 0 for column in columns])
        score = np.frombuffer(self._scores, dtype=np.float64)[order]
        differ = (score[1:] != score[:-1]) & ~(np.isnan(score[1:]) & np.isnan(score[:-1]))
        clash = np.flatnonzero(same & differ & (np.diff(table[order]) != 0))
        if not len(clash):
            return
        first, second = order[clash[0]], order[clash[0] + 1]
        model, label = list(self._models)[columns[0][first]][0], self.labels[columns[1][first]]
        raise InputError(
            f": {names[table[first]]} and {names[table[second]]} have different scores of {model[:60]!r} on "
            f"{label[:60]!r}: are the files parts of the test, or repeats? decide with --column task=file or "
            "--column run=file (in Python columns={'task': 'file'})",
            argument="columns",
        )

    def model_of_log(self, name: str, folder: Path, task: str) -> int:
        """The number of the model of a log.

        Logs of one model and task are repeats if they are in one folder. In several folders they are several
        models, named by the folder.
        """
        model = self._models.setdefault((name, folder.parts), len(self._models))
        self._logs[model, task] = self._logs.get((model, task), 0) + 1
        return model

    def item(self, key: Hashable, label: str) -> int:
        """The number of an item; ``label`` becomes its id where no other item has it."""
        index = self.items.get(key)
        if index is None:
            index = self.items[key] = len(self.labels)
            self.labels.append(label)
        return index

    def describe(self, item: int, columns: Mapping[str, Any]) -> None:
        """Group labels of an item; the first that is known stays."""
        for name, value in columns.items():
            if text := self._label(value):
                self._columns.setdefault(name, {}).setdefault(item, text)

    @staticmethod
    def _label(value: Any) -> str:
        """A group label as text: lists are joined, long passages shortened; "" for what is no label."""
        if isinstance(value, (list, tuple)) and all(isinstance(item, (str, int)) for item in value):
            value = ", ".join(map(str, value))
        if isinstance(value, str):
            return shorten(value, LONGEST_LABEL)
        if isinstance(value, float) and math.isfinite(value):
            return f"{value:g}"
        return str(value) if isinstance(value, int) else ""

    def describe_document(self, item: int, task: str, document: Any) -> None:
        """Group labels of an item: the task, and what its document or metadata has under the usual names."""
        known = document if isinstance(document, dict) else {}
        names = (name for name in (*GROUPS, self.options.group or "") if name in known)
        self.describe(item, {"task": task} | {name: known[name] for name in names})

    def note_by_task(self, what: str, by_task: Mapping[str, str], available: Iterable[str] = ()) -> None:
        """A note on what was chosen for each task, such as "Metric: acc_norm (arc), acc (boolq, piqa).", and what
        else the logs have."""
        tasks: dict[str, list[str]] = {}
        for task, value in by_task.items():
            tasks.setdefault(value, []).append(task)
        chosen = [f"{value} ({few(names, 3)})" if len(tasks) > 1 else value for value, names in tasks.items()]
        rest = sorted(set(available).difference(tasks))
        if chosen:
            also = f" Also in the logs: {few(rest, 5)}." if rest else ""
            self.notes.append(f"{what}: {', '.join(chosen)}.{also}")

    def describe_model(self, model: int, name: str, value: Any) -> None:
        """A property of a model: its group, the date of its run, its number of parameters."""
        if text := self._label(value):
            self._model_columns.setdefault(name, {})[model] = text

    def set_key(self, item: int, text: str) -> None:
        """The right answer of an item; where files disagree, the first stays and the others are counted."""
        if self._keys.get(item) == text:
            return
        text = shorten(text)
        if text and self._keys.setdefault(item, text) != text:
            self._other_keys += 1

    def ask(self, item: int, text: Any) -> None:
        """The question of an item, where a log has it; of a long one the end, where a prompt asks."""
        if isinstance(text, str) and text.strip():
            text = text.strip()
            self._questions.setdefault(
                item, text if len(text) <= LONGEST_QUESTION else f"…{text[-LONGEST_QUESTION:]}"
            )

    def set_right_choice(self, item: int, choice: int, certain: bool) -> None:
        """Which choice of an item is right; what a score of 1 shows replaces what the target says."""
        before = self._right.get(item)
        if before is None or (certain and not before[1]):
            self._right[item] = (choice, certain)

    def choose(self, item: int, choices: Sequence[Any]) -> None:
        """The texts of the choices of an item."""
        if item not in self._choice_lengths:
            self._choice_lengths[item] = [len(text) if isinstance(text, str) else 0 for text in choices]

    def add(
        self,
        model: int,
        item: int,
        score: float | None,
        *,
        run: int = 0,
        answer: str = "",
        logprobs: Sequence[float] = (),
        where: object = "",
        line: int = 0,
        missing: bool = False,
        text: str = "",
    ) -> None:
        """One score; None is an answer that could not be parsed, ``missing`` a cell that was left out.

        ``text`` is a transcript; without one, an answer that is too long to be kept as such is.
        """
        if missing:
            value = math.nan
        elif score is None:
            self._failed.append(len(self._scores))
            counts = self.options.unparsed == "wrong" and self.options.max_score != math.inf
            value = 0.0 if counts else math.nan
        else:
            highest, value = self.options.max_score, self.options.in_range(score)
            if not 0.0 <= value <= 1.0 and highest != math.inf:
                most = "1" if highest is None else f"max_score={highest:g}"
                position = f"{where}, line {line}" if line else where
                raise InputError(
                    f"{position}: a score of {score:g} is outside {self.options.min_score:g} to {most}; choose "
                    "another metric, or pass "
                    "max_score (--set max_score=...) to divide by the highest possible score"
                )
        self._model_of.append(model)
        self._item_of.append(item)
        self._run_of.append(run)
        self._scores.append(value)
        text = text or (answer if len(answer) > LONGEST_ANSWER else "")
        if text and self._whole_bytes < MOST_TEXT_BYTES // 4 and (model, item) not in self._whole:
            half = LONGEST_TEXT // 2
            text = text.strip() if len(text) <= LONGEST_TEXT else f"{text[:half]}\n…\n{text[-half:]}"
            self._whole[model, item] = clean_text(text, lines=True)
            self._whole_bytes += 4 * len(text)
        known = self._texts.get(answer)
        self._answer_of.append(self._answer_number(answer) if known is None else known)
        if logprobs:
            self._logprob_rows.extend((len(self._scores) - 1, len(self._logprobs), len(logprobs)))
            self._logprobs.extend(logprobs)

    def measure(self, name: str, value: float) -> None:
        """A further number of the score that was added last, such as its cost."""
        numbers, values = self._measures.setdefault(name, (array("q"), array("d")))
        numbers.append(len(self._scores) - 1)
        values.append(value)

    def add_failed(self, failed: Sequence[tuple[int, int, int]]) -> None:
        """Runs that ended in an error, by model, item and run: without a score, unless another log has one."""
        pending = set(failed)
        known = zip(self._model_of, self._item_of, self._run_of, strict=True) if pending else ()
        scored = pending.intersection(known)
        for model, item, run in failed:
            if (model, item, run) not in scored:
                self.add(model, item, None, run=run)
        if scored:
            samples = counted(len(scored), "sample")
            self.notes.append(f"Failed in one log and scored in another, which counts: {samples}.")

    def add_outcomes(self, outcomes: Outcomes, where: str, by_id: bool = False) -> None:
        """All scores of a matrix, which other files share; with ``by_id``, items that are there are refused."""
        names = outcomes.groups.get("set", np.full(outcomes.n_items, ""))
        keys = list(zip(names.tolist(), outcomes.items.tolist(), strict=True))
        if by_id and any(key in self.items for key in keys):
            raise InputError(
                f"must be True to join {where} by position: the files have no item ids; or add ids",
                argument="by_order",
            )
        items = np.array([self.item(key, key[1]) for key in keys], dtype=np.int32)
        for column, labels in outcomes.groups.items():
            for item, label in zip(items.tolist(), labels.tolist(), strict=True):
                self.describe(item, {column: label})
        scores = outcomes.scores.reshape(*outcomes.scores.shape[:2], -1)
        for row, model in enumerate(map(self.model, outcomes.models)):
            at, run = np.nonzero(~np.isnan(scores[row]))
            self._item_of.frombytes(items[at].tobytes())
            self._scores.frombytes(scores[row][at, run].tobytes())
            self._run_of.frombytes(run.astype(np.int32).tobytes())
            self._model_of.extend([model] * len(at))
            self._answer_of.extend([0] * len(at))

    def _answer_number(self, answer: str) -> int:
        """The number of an answer's text; none are kept once there are too many."""
        text = shorten(answer)
        known = self._texts.get(text)
        if known is not None or self._too_long:
            return known or 0
        self._text_bytes += 4 * len(text)
        if self._text_bytes > MOST_TEXT_BYTES:
            self._texts, self._too_long = {"": 0}, True
            return 0
        self._texts[text] = len(self._texts)
        return len(self._texts) - 1

    def outcomes(self, source: str) -> Outcomes:
        """All scores as one table."""
        models = self._named_models()
        m, n = len(models), len(self.labels)
        if not m or not n or not len(self):
            raise InputError(f"{source}: no scores; expected at least one model with one scored item")
        order, repeat = self._cell_repeats(n)
        r = int(repeat.max()) + 1
        if m * n * r > MOST_CELLS:
            raise InputError(
                f"{source}: {m:,} models × {n:,} items × {r:,} repeats are more than {MOST_CELLS:,} cells; read "
                "fewer tasks, and check that the models share their item ids"
            )
        rows, columns = _int32_array(self._model_of)[order], _int32_array(self._item_of)[order]
        measures = self._mean_measures((m, n))
        scores = np.full((m, n, r), np.nan)
        scores[rows, columns, repeat] = np.frombuffer(self._scores, dtype=np.float64)[order]
        if self.options.max_score == math.inf:
            low, high = np.nanmin(scores), np.nanmax(scores)
            measures["loss" if self.loss else "score"] = _means_over_runs(scores)
            scores = (scores - low) / (high - low if high > low else 1.0)
        answers = self._answers(rows, columns, repeat, order, scores.shape)
        if self._too_long or (answers is None and len(self._texts) > 1):
            self.notes.append("The models' answers are left out: together they need too much memory.")
        if self._other_keys:
            rows_of = counted(self._other_keys, "row")
            self.notes.append(f"Another key for an item in {rows_of}; the first key is used.")
        failed = self._failed_cells(rows, columns, repeat, order, models, scores.shape)
        choices, labels = self._choices(m, n), distinct(self.labels)

        def column(values: Mapping[int, str], count: int = n) -> NDArray[np.str_]:
            return np.array([values.get(index, "") for index in range(count)], dtype=np.str_)

        return Outcomes(
            scores if r > 1 else scores[:, :, 0],
            models,
            np.array(labels, dtype=np.str_),
            {name: column(values) for name, values in self._columns.items()},
            answers if answers is None or r > 1 else answers[:, :, 0],
            column(self._keys) if self._keys else None,
            source,
            tuple(dict.fromkeys(self.notes)),
            choices=choices,
            model_groups={name: column(values, m) for name, values in self._model_columns.items()},
            questions=tuple(self._questions.get(i, "") for i in range(n)) if self._questions else None,
            failed=failed if failed is None or r > 1 else failed[:, :, 0],
            measures=measures,
            blind=self._blind_rules(n),
            texts={(models[model], labels[item]): text for (model, item), text in self._whole.items()},
        )

    def _blind_rules(self, n: int) -> dict[str, NDArray[np.float64]]:
        """Scores of always taking the longest choice, which ties share, and of one position."""
        known = {item: lengths for item, lengths in self._choice_lengths.items() if item in self._right}
        most = max(map(len, known.values()), default=0)
        names = ["the longest choice", *(f"choice {k + 1}" for k in range(most if most <= MOST_CHOICES else 0))]
        rules = {name: np.full(n, np.nan) for name in names if known}
        for item, lengths in known.items():
            right, longest = self._right[item][0], max(lengths)
            if right < len(lengths) and longest:
                rules[names[0]][item] = (lengths[right] == longest) / lengths.count(longest)
            for k, name in enumerate(names[1:]):
                rules[name][item] = k == right
        return rules

    def _mean_measures(self, shape: tuple[int, int]) -> dict[str, NDArray[np.float64]]:
        """Further numbers by name, means over the rows of a model and item."""
        result = {}
        for name, (numbers, values) in self._measures.items():
            at = np.frombuffer(numbers, dtype=np.int64)
            cell = _int32_array(self._model_of)[at].astype(np.int64) * shape[1] + _int32_array(self._item_of)[at]
            size = shape[0] * shape[1]
            count = np.bincount(cell, minlength=size)
            total = np.bincount(cell, np.frombuffer(values, dtype=np.float64), size)
            result[name] = np.where(count > 0, total / np.maximum(count, 1), np.nan).reshape(shape)
        return result

    def _failed_cells(
        self,
        rows: Any,
        columns: Any,
        repeat: Any,
        order: NDArray[np.int64],
        models: Sequence[str],
        shape: tuple[int, ...],
    ) -> NDArray[np.bool_] | None:
        """Which cells have an answer without a score, whatever they count as, with a note on them."""
        if not self._failed:
            return None
        flags = np.zeros(len(self), dtype=np.bool_)
        flags[np.frombuffer(self._failed, dtype=np.int64)] = True
        failed = np.zeros(shape, dtype=np.bool_)
        failed[rows, columns, repeat] = flags[order]
        counts = failed.sum(axis=(1, 2))
        by_model = [f"{models[row]} {counts[row]:,}" for row in np.argsort(-counts, kind="stable") if counts[row]]
        why, treated = "could not be parsed or had no score, and", "treated as missing"
        missed = counted(int(counts.sum()), f"answer {why} was", f"answers {why} were")
        treated = "counted as wrong" if self.options.unparsed == "wrong" else treated
        self.notes.append(f"{missed} {treated}: {few(by_model, 5)}.")
        return failed

    def _named_models(self) -> tuple[str, ...]:
        """The names of the models; those in several folders are joined, or named by folder if they share a task."""

        folders: dict[str, list[tuple[str, ...]]] = {}
        tasks: dict[str, list[str]] = {}
        for name, folder in self._models:
            folders.setdefault(name, []).append(folder)
        keys = list(self._models)
        for model, task in self._logs:
            tasks.setdefault(keys[model][0], []).append(task)
        apart = {name for name, several in tasks.items() if len(set(several)) < len(several)}
        names: dict[str, int] = {}
        rows = []
        for name, folder in keys:
            suffix = ""
            if name in apart:  # what all paths start and end with does not distinguish them
                start = common_parts(folders[name])
                end = common_parts([path[start:][::-1] for path in folders[name]])
                suffix = "/".join(folder[start : len(folder) - end])
            rows.append(names.setdefault(f"{name} ({suffix})" if suffix else name, len(names)))
        if apart:
            apart_names = few(sorted(apart), 3)
            self.notes.append(f"Named by folder or adapter, as runs of one task are several: {apart_names}.")
        again = {(keys[model][0], task): count for (model, task), count in self._logs.items() if count > 1}
        if again:
            logs = [f"{counted(count, 'log')} of {name} on {task}" for (name, task), count in again.items()]
            self.notes.append(f"Logs of one model and task in one folder are joined: {few(logs, 3)}.")
        if len(names) < len(keys):
            self._model_of = array("i", np.array(rows, dtype=np.int32)[_int32_array(self._model_of)].tobytes())
            self._whole = {(rows[model], item): text for (model, item), text in reversed(self._whole.items())}
            self._model_columns = {
                name: {rows[model]: text for model, text in values.items()}
                for name, values in self._model_columns.items()
            }
        return tuple(names)

    def _cell_repeats(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which scores to keep, and the number of the repeat of each."""
        cell = _int32_array(self._model_of).astype(np.int64) * n + _int32_array(self._item_of)
        run, score = _int32_array(self._run_of), np.frombuffer(self._scores, dtype=np.float64)
        if (np.diff(cell) > 0).all():
            return np.arange(len(cell)), np.zeros(len(cell), dtype=np.int64)
        order = np.lexsort((run, cell))
        cell, run, score = cell[order], run[order], np.nan_to_num(score[order], nan=-1.0)
        new_cell = np.r_[True, cell[1:] != cell[:-1]]
        new_run = new_cell | np.r_[True, run[1:] != run[:-1]]
        starts = np.flatnonzero(new_run)
        sizes = np.diff(np.r_[starts, len(cell)])
        conflict = np.maximum.reduceat(score, starts) != np.minimum.reduceat(score, starts)
        keep = new_run | np.repeat(conflict, sizes)
        if dropped := int((~keep).sum()):
            equal = "with equal scores"
            rows = counted(dropped, f"duplicate row {equal} was", f"duplicate rows {equal} were")
            self.notes.append(f"{rows} dropped.")
        if conflict.any():
            cells = counted(int(conflict.sum()), "cell")
            self.notes.append(f"Rows with different scores in {cells}; these are treated as repeats.")
        first = np.flatnonzero(new_cell[keep])
        position = np.arange(int(keep.sum()))
        repeat = position - np.repeat(first, np.diff(np.r_[first, len(position)]))
        numbers = np.unique(run[keep])
        if (
            not conflict.any() and len(numbers) == int(repeat.max()) + 1
        ):  # a cell that lacks a run keeps the numbers of the others
            repeat = np.searchsorted(numbers, run[keep])
        return order[keep], repeat

    def _answers(
        self, rows: Any, columns: Any, repeat: Any, order: NDArray[np.int64], shape: tuple[int, ...]
    ) -> NDArray[np.str_] | None:
        longest = max(map(len, self._texts))
        if not longest or math.prod(shape) * 4 * longest > MOST_ANSWER_BYTES:
            return None
        texts = np.array(list(self._texts), dtype=np.str_)
        numbers = np.zeros(shape, dtype=np.int32)
        numbers[rows, columns, repeat] = _int32_array(self._answer_of)[order]
        return np.asarray(texts[numbers])

    def _choices(self, m: int, n: int) -> Choices | None:
        if not self._logprob_rows:
            return None
        rows, starts, counts = np.frombuffer(self._logprob_rows, dtype=np.int64).reshape(-1, 3).T
        most = int(counts.max())
        if m * n * most > MOST_CELLS:
            self.notes.append("Log-probabilities of the choices are left out: they are too many.")
            return None
        values = np.frombuffer(self._logprobs, dtype=np.float32)
        logprobs = np.full((m, n, most), np.nan, dtype=np.float32)
        models, items = _int32_array(self._model_of)[rows], _int32_array(self._item_of)[rows]
        for count in np.unique(counts):
            at = counts == count
            block = values[starts[at][:, None] + np.arange(count)]
            # A repeat of a cell overwrites nothing: the first run is the one that is kept.
            logprobs[models[at][::-1], items[at][::-1], :count] = block[::-1]
        right = np.full(n, -1, dtype=np.int64)
        for item, (choice, _) in self._right.items():
            right[item] = choice
        return Choices(logprobs, right)


def common_parts(paths: Sequence[Sequence[str]]) -> int:
    """How many parts all paths start with."""
    return len(list(itertools.takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))))


def _means_over_runs(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    known = np.isfinite(scores)
    count = known.sum(axis=2)
    return np.where(count > 0, np.where(known, scores, 0.0).sum(axis=2) / np.maximum(count, 1), np.nan)


def _int32_array(values: array[int]) -> NDArray[np.int32]:
    return np.frombuffer(values, dtype=np.int32)


def distinct(labels: Sequence[str]) -> list[str]:
    """Ids that differ: a label that another item has gets a number behind it."""
    used: set[str] = set()
    count: dict[str, int] = {}
    result = []
    for label in labels:
        text = label
        while text in used:
            count[label] = count.get(label, 1) + 1
            text = f"{label}#{count[label]}"
        used.add(text)
        result.append(text)
    return result
