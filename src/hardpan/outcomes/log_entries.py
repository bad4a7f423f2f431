"""Logs as entries: one score of one model on one item each, whatever the harness; metric and runs are chosen here.

A reader of a harness is then a function that yields the entries of a log file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardpan.errors import InputError, counted, few
from hardpan.files import stem_of
from hardpan.outcomes.cells import Cells, score_of
from hardpan.outcomes.logs import Harness, LogFile

_PLAIN_NAMES = frozenset(
    (
        *(
            "results",
            "result",
            "report",
            "final_report",
            "eval_results",
            "output",
            "outputs",
            "annotations",
            "eval",
        ),
        *("log", "logs", "scores", "details", "evaluation", "evaluations", "eval_outputs", "per_instance_details"),
    )
)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One score in a log.

    Attributes:
        model: the name of the model, or of the agent and its model.
        item: what identifies the item within its task, in the logs of other models, too.
        scores: values by metric; the first is read unless ``metric`` names another. What is no number is a failure.
        label: the id of the item, if ``item`` is not readable.
        task: the benchmark, or the part of it.
        run: what identifies the run of the model; None if entries of one item are counted.
        highest: the highest possible score, by which scores are divided unless ``max_score`` is given.
        failed: whether the entry is an error, so that its scores do not count.
        folder: the folder in which logs belong together; None is that of the log.
        answer: what the model answered.
        key: the right answer.
        question: what was asked.
        groups: labels of the item by column: what items have in common.
        document: what else the log has of the item, for the usual columns of groups or the one asked for.
    """

    model: str
    item: Hashable
    scores: Mapping[str, Any]
    label: str = ""
    task: str = ""
    run: Hashable = None
    highest: float = 1.0
    failed: bool = False
    folder: Path | None = None
    answer: Any = None
    key: Any = None
    question: Any = None
    groups: Mapping[str, Any] = field(default_factory=dict)
    document: Any = None


def entry_harness(
    name: str,
    entries: Callable[[LogFile, Any], Iterable[LogEntry]],
    *,
    roles: str,
    overview: Callable[[Sequence[LogFile]], Any] = lambda _: None,
    bounded: bool = False,
    **recognised: Callable[[Any], bool],
) -> Harness:
    """A harness whose logs are read entry by entry.

    Args:
        name: what the logs are called.
        entries: the entries of a log; its second argument is what ``overview`` returns.
        roles: what is taken for the model, the item, the score and the run, for the notes.
        overview: what has to be known of all logs before one is read.
        bounded: leave out items with a score below 0 or above 1, for all models.
        recognised: how the logs are recognised, by the fields of :class:`Harness`.
    """

    def read_logs(logs: Sequence[LogFile], cells: Cells) -> None:
        cells.notes.append(f"{name}: {roles}.")
        known = overview(logs)
        listed = ((log, entry) for log in logs for entry in entries(log, known))
        reading = _EntryReading(cells)
        for log, entry in _without_unbounded(list(listed), cells) if bounded else listed:
            reading.add(log, entry)
        reading.note()

    return Harness(name, read_logs, **recognised)


def _without_unbounded(listed: list[tuple[LogFile, LogEntry]], cells: Cells) -> list[tuple[LogFile, LogEntry]]:
    highest = cells.options.max_score or 1.0
    outside = {
        (entry.task, entry.item): entry.label
        for _, entry in listed
        for value in [score_of(entry.scores.get(_entry_metric(entry, cells.options.metric)))]
        if value is not None and not 0.0 <= value <= highest
    }
    if outside:
        items = counted(len(outside), "item")
        cells.notes.append(
            f"Left out, scores below 0 or above {highest:g}: {items} ({few([*outside.values()], 3)})."
        )
    return [pair for pair in listed if (pair[1].task, pair[1].item) not in outside]


def _entry_metric(entry: LogEntry, wanted: str | None) -> str:
    """The metric to read: the one that ``wanted`` names, or the first."""
    # A log with one metric has no choice to make: --metric is meant for those that have several.
    return next(iter(entry.scores), "") if wanted is None or len(entry.scores) == 1 else wanted


class _EntryReading:
    """The state of reading: models, runs and metrics that are known."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._models: dict[tuple[Path, str, str], int] = {}
        self._runs: dict[tuple[int, Hashable], int] = {}
        self._run_count: Counter[int] = Counter()
        self._times: Counter[tuple[int, int]] = Counter()
        self._metric: dict[str, str] = {}
        self._available: dict[str, None] = {}
        self._without_metric = 0

    def add(self, log: LogFile, entry: LogEntry) -> None:
        """Add one entry to the cells."""
        cells, task = self._cells, entry.task or "all"
        self._available |= dict.fromkeys(entry.scores)
        metric = _entry_metric(entry, cells.options.metric or self._metric.get(task))
        if metric not in entry.scores and not entry.failed:
            self._without_metric += 1
            return
        if metric in entry.scores:
            self._metric.setdefault(task, metric)
        item = cells.item((entry.task, entry.item), _entry_label(entry))
        cells.describe_document(item, entry.task, entry.document)
        cells.describe(item, entry.groups)
        cells.ask(item, entry.question)
        if key := _plain_text(entry.key):
            cells.set_key(item, key)
        model = self._model(log, entry)
        score = None if entry.failed else score_of(entry.scores.get(metric))
        if score is not None and cells.options.max_score is None:
            score /= entry.highest
        cells.add(
            model, item, score, run=self._run(model, item, entry), answer=_plain_text(entry.answer), where=log.path
        )

    def _model(self, log: LogFile, entry: LogEntry) -> int:
        source = (entry.folder or log.path, entry.model, entry.task)
        if source not in self._models:
            folder = (entry.folder or log.path.parent).resolve()
            self._models[source] = self._cells.model_of_log(entry.model, folder, entry.task)
        return self._models[source]

    def _run(self, model: int, item: int, entry: LogEntry) -> int:
        if entry.run is None:
            self._times[model, item] += 1
            return self._times[model, item] - 1
        if (model, entry.run) not in self._runs:
            self._runs[model, entry.run] = self._run_count[model]
            self._run_count[model] += 1
        return self._runs[model, entry.run]

    def note(self) -> None:
        """State the metrics; refuse one that no entry has."""
        metric, available = self._cells.options.metric, list(self._available)
        if metric is not None and metric not in self._available and len(available) > 1:
            raise InputError(f"must be one of {few(available)}; got {metric!r}", argument="metric")
        if self._without_metric:
            entries = counted(self._without_metric, "entry", "entries")
            self._cells.notes.append(f"Without the metric of their task, left out: {entries}.")
        self._cells.note_by_task("Metric", self._metric, available)


def _entry_label(entry: LogEntry) -> str:
    label = entry.label or str(entry.item)
    return f"{entry.task}/{label}" if entry.task else label


def _plain_text(value: Any) -> str:
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return str(value).strip()
    return ""


def model_of_path(path: Path) -> str:
    """The name of a model: that of the file, or of the first folder above it that has not a name of every run.

    Example:
        >>> model_of_path(Path("runs/gpt-9/results/results.json")), model_of_path(Path("runs/gpt-9.json"))
        ('gpt-9', 'gpt-9')
    """
    names = [stem_of(path), *(parent.name for parent in path.resolve().parents)]
    plain = (name for name in names if name.lower() not in _PLAIN_NAMES and not name.startswith("."))
    return next((name for name in plain if name), names[0])
