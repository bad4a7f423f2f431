"""Logs of lm-evaluation-harness: ``samples_TASK_DATE.jsonl``, one line per document and filter.

A document is joined across models by its task and ``doc_hash``; where a task repeats a document, or a log is too
old to have hashes, by ``doc_id``. One filter and one metric are read per task. For multiple choice the
log-probabilities of the choices are kept (:class:`hardpan.outcomes.Choices`).
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardpan.errors import InputError, counted, few
from hardpan.files import read_json, stem_of
from hardpan.outcomes.cells import Cells, score_of, shorten
from hardpan.outcomes.logs import Harness, LogFile, json_at, json_list, json_object

_NAME = re.compile(r"samples_(?P<task>.+?)(?:_(?P<date>\d{4}-\d\d-\d\dT[\d:.\-]+))?$")
_DATED = re.compile(r".+_(?P<date>\d{4}-\d\d-\d\dT[\d:.\-]+)")
_FIELDS = frozenset(
    (
        *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash"),
        *("prompt_hash", "target_hash", "task_name", "schema"),
    )
)
_VARIANT = re.compile(r"\b(?:peft|delta|revision|subfolder|gguf_file|load_in_[48]bit)=[^,]+")
_NO_ANSWER = frozenset(("", "[invalid]", "[no match]"))
_TOLERANCE = 1e-6
_QUESTION = ("question", "problem", "query", "prompt", "input", "ctx", "sentence", "text")


def is_lm_eval_sample(row: Any) -> bool:
    """Whether a JSON object is a line of a samples file."""
    return isinstance(row, dict) and "doc_id" in row and ("filtered_resps" in row or "doc" in row or "resps" in row)


def is_lm_eval_results(data: Any) -> bool:
    """Whether a JSON object is a file of aggregate results."""
    if not isinstance(data, Mapping) or not isinstance(data.get("results"), Mapping):
        return False
    return "configs" in data or ("versions" in data and "config" in data)  # the second: before version 0.4


def read_lm_eval_logs(logs: Sequence[LogFile], cells: Cells) -> None:
    """Read samples files into the cells, and state what was chosen."""
    results_of = functools.cache(_lm_eval_results_by_date)
    options, summary = cells.options, _LmEvalSummary()
    unscored: list[tuple[str, _NoMetricError]] = []
    for log in logs:
        stem = stem_of(log.path)
        name = _NAME.fullmatch(stem)
        dated = results_of(log.path.parent)
        only = next(iter(dated.values())) if len(dated) == 1 else {}
        results = dated.get((name and name["date"]) or "") or only
        # A file of the first versions is MODEL_TASK.jsonl: the longest name in the results that ends it.
        ends = (known for known in json_object(results, "results") if stem.endswith(known))
        task = name["task"] if name else max(ends, key=len, default="")
        model, folder = _model_and_folder(log.path, results, named=name is not None)
        try:
            run = _TaskRun(model, folder, task, results)
            _read_lm_eval_file(log, cells, run, summary)
        except _NoMetricError as error:
            # A folder of many tasks may have some without scores, such as perplexities.
            unscored.append((task or log.path.name, error))
            continue
        date = ((name and name["date"]) or "")[:10]
        if date and run.index is not None:
            cells.describe_model(run.index, "date", date)
        version = results.get("lm_eval_version") or results.get("git_hash")
        cells.files[log.path] = str(version or ""), date
    if len(unscored) == len(logs):
        raise unscored[0][1]
    for option, value, used in (
        ("metric", options.metric, summary.metric),
        ("filter", options.filter, summary.filter),
    ):
        if value is not None and used and value not in used.values():
            raise InputError(f"must be one of {few(sorted(set(used.values())))}; got {value!r}", argument=option)
    if unscored:
        cells.notes.append(
            "Logs without a metric between 0 and 1, not read: "
            f"{few([f'{task} ({error.metrics})' for task, error in unscored], 3)}."
        )
    cells.note_by_task("Metric", summary.metric, summary.metrics)
    cells.note_by_task("Filter", summary.filter, summary.filters)
    cells.notes += summary.checks()


class _NoMetricError(InputError):
    """A log whose lines have no metric with values between 0 and 1."""

    def __init__(self, where: str, metrics: Sequence[str], highest: float) -> None:
        self.metrics = few(metrics)
        super().__init__(
            f"{where}: no metric has a value between 0 and {highest:g}; the metrics are {self.metrics}; pass "
            "max_score (--set max_score=...) to divide by the highest possible score"
        )


@dataclass(slots=True)
class _TaskRun:
    """One model on one task."""

    model: str
    folder: Path
    task: str
    results: Mapping[str, Any]
    metric: str = ""
    filter: str = ""
    index: int | None = None


@dataclass(slots=True)
class _LmEvalSummary:
    """What was chosen for each task, and how the sums compare with the aggregate results."""

    metric: dict[str, str] = field(default_factory=dict)
    filter: dict[str, str] = field(default_factory=dict)
    metrics: set[str] = field(default_factory=set)
    filters: set[str] = field(default_factory=set)
    choices: dict[int, tuple[list[str], list[str]]] = field(default_factory=dict)  # texts and short names by item
    changed: dict[str, int] = field(default_factory=dict)  # documents with the number of another one, by task
    mixed: list[str] = field(default_factory=list)
    agree: int = 0
    differ: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)

    def compare(self, run: _TaskRun, count: int, mean: float) -> None:
        metric = run.metric
        reported = _task_entry(run.results.get("results"), run.task)
        value = score_of(reported.get(f"{metric},{run.filter}", reported.get(metric)))
        if value is None:
            return
        size = _task_entry(run.results.get("n-samples"), run.task).get("effective")
        if isinstance(size, int) and size != count:
            self.incomplete.append(f"{run.task} has {count:,} of {size:,} documents")
        elif math.isclose(value, mean, abs_tol=_TOLERANCE):
            self.agree += 1
        else:
            self.differ.append(f"{run.task} {metric} is {mean:.4g} here and {value:.4g} there")

    def checks(self) -> list[str]:
        changed = [f"{task} ({counted(count, 'document')})" for task, count in self.changed.items()]
        runs = f"s of {self.agree:,} task runs agree" if self.agree > 1 else " of 1 task run agrees"
        lists = {
            "Other content under the same doc_id (doc_hash differs), read as other items": changed,
            "Models that lack the task's metric or filter are read otherwise": self.mixed,
            "Means that differ from the results file": self.differ,
            "Logs that are shorter than the results file says": self.incomplete,
        }
        notes = [f"The mean{runs} with the results files beside them."] if self.agree else []
        return notes + [f"{what}: {few(listed, 3)}." for what, listed in lists.items() if listed]


def _task_entry(table: Any, task: str) -> dict[str, Any]:
    """The entry of a task; file names have "_" for what is no letter or number in its name."""
    entries = json_object(table)
    plain = next((name for name in entries if re.sub(r"\W", "_", name) == task), task)
    return json_object(entries, task if task in entries else plain)


def _lm_eval_results_by_date(folder: Path) -> dict[str, Mapping[str, Any]]:
    """Aggregate results in a folder."""
    results: dict[str, Mapping[str, Any]] = {}
    for path in sorted((*folder.glob("*.json"), *folder.glob("*.json.gz"))):
        stem = stem_of(path)
        dated = _DATED.fullmatch(stem)  # --output_path NAME.json makes NAME_DATE.json
        if (dated or stem.startswith("results")) and is_lm_eval_results(data := read_json(path)):
            results[dated["date"] if dated else ""] = data
    return results


def _model_and_folder(path: Path, results: Mapping[str, Any], named: bool) -> tuple[str, Path]:
    """The name of a log's model; and its folder, and below it what was loaded besides, such as an adapter."""
    settings = json_at(results, "config", "model_args")
    if isinstance(settings, Mapping):
        settings = ",".join(f"{key}={value}" for key, value in settings.items())
    settings = settings if isinstance(settings, str) else ""
    parent, name = path.resolve().parent, results.get("model_name")
    if not (isinstance(name, str) and name):
        match = re.search(r"(?:pretrained|model)=([^,]+)", settings)
        folder = (parent.name or stem_of(path)).replace("__", "/") if named else stem_of(path)
        name = match[1] if match else folder
    return name, parent.joinpath(*(match[0] for match in _VARIANT.finditer(settings)))


def _read_lm_eval_file(log: LogFile, cells: Cells, run: _TaskRun, summary: _LmEvalSummary) -> None:
    # All models of a task are read by one filter where they have it.
    filter_name = cells.options.filter
    usual = filter_name or summary.filter.get(run.task)
    filters, count, total = _read_lm_eval_rows(log, cells, run, summary, usual)
    if count == 0 and usual is not None and (filter_name is None or len(filters) == 1):
        # A task with one filter has no choice to make: --filter is meant for the tasks that have several.
        filters, count, total = _read_lm_eval_rows(log, cells, run, summary, None)
    summary.filters |= filters
    if count == 0 and filters:
        raise InputError(f"{log.path}: filter must be one of {few(sorted(filters))}; got {filter_name!r}")
    if count:
        summary.compare(run, count, total / count)


def _read_lm_eval_rows(
    log: LogFile, cells: Cells, run: _TaskRun, summary: _LmEvalSummary, only: str | None
) -> tuple[set[str], int, float]:
    """The filters in a log, and how many rows of one of them there are, with the sum of their scores."""
    filters: set[str] = set()
    first_id: dict[str, Any] = {}
    count, total = 0, 0.0
    for line, row in enumerate(log.rows(), start=1):
        where = f"{log.path}, line {line}"
        if not is_lm_eval_sample(row):
            raise InputError(f"{where}: not a sample of lm-evaluation-harness (no doc_id)")
        name = str(row.get("filter", "none"))
        filters.add(name)
        only = name if only is None else only
        if name != only:
            continue
        if run.index is None:
            usual = summary.metric.get(run.task)
            metric = _lm_eval_metric(row, cells.options.metric, usual, cells.options.max_score or 1.0, where)
            run.metric, run.filter = metric, name
            first = (summary.metric.setdefault(run.task, metric), summary.filter.setdefault(run.task, name))
            if first != (metric, name):  # the first choice for a task is that of all models that have it
                summary.mixed.append(f"{run.task} by {metric}, {name}")
            summary.metrics.update(
                name for name in _lm_eval_metric_names(row) if _lm_eval_score(row[name]) is not None
            )
            run.index = cells.model_of_log(run.model, run.folder, run.task)
        item = _item_number(row, cells, run.task, first_id, summary)
        score = _lm_eval_score(row.get(run.metric))
        count, total = count + 1, total + (score or 0.0)
        _add_sample(row, score, item, cells, run, log.path, line, summary)
    return filters, count, total


def _lm_eval_score(value: Any) -> float | None:
    """A metric's value as a number; several answers right or wrong, as of instructions, count by their mean."""
    if isinstance(value, list) and value and all(entry in (0, 1) for entry in value):
        return sum(value) / len(value)
    return score_of(value)


def _lm_eval_metric_names(row: Mapping[str, Any]) -> list[str]:
    listed = [str(name) for name in json_list(row, "metrics")]
    return [name for name in listed if name in row] or [name for name in row if name not in _FIELDS]


def _lm_eval_metric(
    row: Mapping[str, Any], asked: str | None, usual: str | None, highest: float, where: str
) -> str:
    names = _lm_eval_metric_names(row)
    empty = [name for name in names if row[name] is None or row[name] != row[name]]
    if asked is not None:
        if asked in names and (asked in empty or _lm_eval_score(row[asked]) is not None):
            return asked
        if asked in names:
            raise InputError(f"{where}: metric {asked!r} has no number as its value")
        if len(names) > 1:
            raise InputError(f"{where}: metric must be one of {few(names)}; got {asked!r}")
    # A task with one metric has no choice to make: --metric is meant for the tasks that have several.
    for name in sorted(names, key=lambda name: name != usual):
        value, text = score_of(row[name]), isinstance(row[name], str)
        if value is not None and 0.0 <= value <= highest and (not text or row[name] in ("True", "False")):
            return name
    if empty:  # an answer without a score says nothing about the metric
        return empty[0]
    raise _NoMetricError(where, names, highest)


def _item_number(
    row: Mapping[str, Any], cells: Cells, task: str, first_id: dict[str, Any], summary: _LmEvalSummary
) -> int:
    doc_id, digest = row["doc_id"], row.get("doc_hash")
    number_of = doc_id if isinstance(doc_id, (int, str)) else str(doc_id)
    by_id, count = (task, "id", number_of), len(cells.labels)
    label = f"{task}/{number_of}" if task else str(number_of)
    if not isinstance(digest, str):
        item = cells.item(by_id, label)
    elif first_id.setdefault(digest, number_of) == number_of:
        known = cells.items.get((task, digest))
        if known is None and (by_id, "hashed") not in cells.items:
            known = cells.items.get(by_id)  # a log without hashes has it; with a hash it would be another document
        elif known is None:
            summary.changed[task] = summary.changed.get(task, 0) + 1
        item = cells.item((task, digest), label) if known is None else known
        for key in ((task, digest), by_id, (by_id, "hashed")):
            cells.items.setdefault(key, item)
    else:
        item = cells.item((task, digest, number_of), label)
    if item < count:
        return item
    cells.describe(item, {"task": task, "doc_id": number_of})
    cells.describe_document(item, task, row.get("doc"))
    doc, prompts = json_object(row, "doc"), row.get("arguments")
    named = next((doc[name] for name in _QUESTION if isinstance(doc.get(name), str)), None)
    prompt = json_at(prompts, 0, 0) or json_at(prompts, 0) or json_at(prompts, "gen_args_0", "arg_0")
    cells.ask(item, named or prompt)
    return item


def _add_sample(
    row: dict[str, Any],
    score: float | None,
    item: int,
    cells: Cells,
    run: _TaskRun,
    path: Path,
    line: int,
    summary: _LmEvalSummary,
) -> None:
    responses = row.get("filtered_resps")
    logprobs = _choice_logprobs(responses)
    answer, target = "", row.get("target")
    if logprobs:
        known = summary.choices.get(item)
        if known is None or len(known[0]) != len(logprobs):
            known = summary.choices[item] = _choice_texts_and_names(row.get("arguments"), len(logprobs))
        texts, names = known
        choice = _best_choice(logprobs, texts, run.metric)
        right = _right_choice(target, texts, len(logprobs), choice, score)
        answer = names[choice]
        cells.choose(item, texts)
        if right is not None:
            cells.set_right_choice(item, right[0], right[1])
            cells.set_key(item, names[right[0]])
    else:
        said = responses
        while isinstance(said, list) and said and isinstance(said[0], (list, str)):
            said = said[0]
        if isinstance(said, str):
            answer = said
            if said.strip().lower() in _NO_ANSWER and not score:
                answer, score = "", None
        if isinstance(target, (str, int, float)) and not isinstance(target, bool):
            cells.set_key(item, str(target))
    assert run.index is not None
    cells.add(run.index, item, score, answer=answer, logprobs=logprobs, where=path, line=line)


def _choice_logprobs(responses: Any) -> list[float]:
    """The log-probability of each of two or more choices: [[logprob, greedy], ...], as numbers or as text."""
    values = []
    for pair in responses if isinstance(responses, list) and len(responses) > 1 else ():
        if not (isinstance(pair, list) and len(pair) == 2 and pair[1] in ("True", "False", 0, 1)):
            return []
        try:
            values.append(float(pair[0]))
        except (TypeError, ValueError):
            return []
    return [] if any(map(math.isnan, values)) else values


def _choice_texts_and_names(arguments: Any, count: int) -> tuple[list[str], list[str]]:
    """The texts of the choices, and names for them: short texts, or numbers where the texts are equal."""
    said = [json_at(arguments, k, 1) or json_at(arguments, f"gen_args_{k}", "arg_1") for k in range(count)]
    texts = [text.strip() if isinstance(text, str) else "" for text in said]
    names = [shorten(text) for text in texts]
    if len(set(names)) < count or "" in names:
        names = [str(index) for index in range(count)]
    return texts, names


def _best_choice(logprobs: Sequence[float], texts: Sequence[str], metric: str) -> int:
    lengths = [1] * len(texts)
    if metric in ("acc_norm", "acc_bytes"):
        lengths = [max(len(text if metric == "acc_norm" else text.encode()), 1) for text in texts]
    values = [value / length for value, length in zip(logprobs, lengths, strict=True)]
    return max(range(len(values)), key=values.__getitem__)


def _right_choice(
    target: Any, texts: Sequence[str], count: int, choice: int, score: float | None
) -> tuple[int, bool] | None:
    """The right choice, and whether the score shows it; None where target and score leave it open."""
    if score == 1.0:
        return choice, True
    right = None
    if isinstance(target, int) and not isinstance(target, bool):
        right = target
    elif isinstance(target, str):
        text = target.strip()
        if texts.count(text) == 1:
            right = texts.index(text)
        elif text.isdecimal() and len(text) < 4:
            right = int(text)
        elif len(text) == 1 and "A" <= text <= "Z":
            right = ord(text) - ord("A")
    if right is not None and 0 <= right < count and not (score == 0.0 and right == choice):
        return right, False
    return (1 - choice, True) if count == 2 and score == 0.0 else None


HARNESS = Harness(
    "lm-evaluation-harness logs", read_lm_eval_logs, is_lm_eval_sample, is_aggregate=is_lm_eval_results
)
