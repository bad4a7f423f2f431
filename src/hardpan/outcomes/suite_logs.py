"""Logs of suites of benchmarks: LiveCodeBench, EvalPlus, BFCL, lighteval, OpenCompass, MTEB and Every Eval Ever."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardpan.errors import InputError
from hardpan.files import read_json, stem_of
from hardpan.outcomes.log_entries import LogEntry, entry_harness, model_of_path
from hardpan.outcomes.logs import LogFile, json_at, json_list, json_object

_SCENARIO = re.compile(r"Scenario\.(?P<name>[a-z]+)_.*")
_DETAILS = re.compile(r"details_(?P<task>.+?)(?:_(?P<date>\d{4}-\d\d-\d\dT[\d\-.]+))?$")
_CORRECT = ("correct", "is_correct", "cascade_correct")
_SAID = ("pred", "prediction", "predictions", "origin_prediction", "prompt", "example_abbr")
_MTEB_WITHOUT_SCORE = ({"mteb_version", "mteb_dataset_name"}, {"name", "revision", "release_date", "languages"})
_KEYS = ("answer", "refr", "references", "gold")


def is_live_code_bench(data: Any) -> bool:
    """Whether a JSON object is a problem with its graded answers in LiveCodeBench."""
    return (
        isinstance(data, dict)
        and "question_id" in data
        and {"graded_list", "pass1", "pass@1"} & data.keys() != set()
    )


def _live_code_bench_entries(log: LogFile, _: None) -> Iterator[LogEntry]:
    scenario = _SCENARIO.fullmatch(stem_of(log.path))
    model = log.path.resolve().parent.name if scenario else model_of_path(log.path)
    for row in log.rows():
        number, test_id = str(json_at(row, "question_id")), json_at(row, "test_id")
        test_id = json_at(row, "id") if test_id is None else test_id
        label = number if test_id is None else f"{number}/{test_id}"
        graded = json_list(row, "graded_list")
        for index, score in enumerate(graded or [json_at(row, "pass@1") or json_at(row, "pass1")]):
            yield LogEntry(
                model,
                label,
                {"pass@1": score},
                task=scenario["name"] if scenario else "",
                answer=json_at(row, "code_list", index),
                question=json_at(row, "question_content"),
                document=row,
            )


def is_eval_plus(data: Any) -> bool:
    """Whether a JSON object has the solutions of EvalPlus with their statuses, by task."""
    first = next(iter(json_object(data, "eval").values()), None)
    return "base_status" in json_object(json_at(first, 0))


def _eval_plus_entries(log: LogFile, _: None) -> Iterator[LogEntry]:
    for name, solutions in json_object(log.value(), "eval").items():
        for solution in solutions if isinstance(solutions, list) else ():
            base, plus = json_at(solution, "base_status"), json_at(solution, "plus_status")
            scores = {"plus": base == plus == "pass"} if plus is not None else {}
            yield LogEntry(
                model_of_path(log.path).removesuffix("_eval_results"),
                str(name),
                {**scores, "base": base == "pass"},
                failed="timeout" in (base, plus),
                answer=json_at(solution, "solution"),
            )


def is_bfcl(data: Any) -> bool:
    """Whether a JSON object is the first line of a score file of BFCL, which lists the wrong answers below it."""
    return isinstance(data, dict) and {"accuracy", "correct_count", "total_count"} <= data.keys()


@dataclass(frozen=True, slots=True)
class _BfclCategory:
    """The number of items of a category, by the file that says so, and those that some model got wrong."""

    path: Path
    total: int
    wrong: dict[str, None]


def _bfcl_overview(logs: Sequence[LogFile]) -> Mapping[str, _BfclCategory]:
    categories: dict[str, _BfclCategory] = {}
    for log in logs:
        total, right, wrong = _bfcl_wrong(log)
        known = categories.setdefault(stem_of(log.path), _BfclCategory(log.path, total, {}))
        known.wrong.update(dict.fromkeys(wrong))
        if total != known.total or len(wrong) != total - right or len(known.wrong) > total:
            raise InputError(
                f"{log.path}: {total:,} items, {right:,} right and {len(wrong):,} listed as wrong, but "
                f"{known.total:,} items in {known.path}; give score files of one version of the benchmark"
            )
    return categories


def _bfcl_wrong(log: LogFile) -> tuple[int, int, list[str]]:
    rows = list(log.rows())
    counts = [json_at(rows[0], name) for name in ("total_count", "correct_count")]
    if not all(isinstance(count, int) for count in counts):
        raise InputError(f"{log.path}: no whole numbers as total_count and correct_count; write it again")
    return counts[0], counts[1], list(dict.fromkeys(str(json_at(row, "id")) for row in rows[1:]))


def _bfcl_entries(log: LogFile, categories: Mapping[str, _BfclCategory]) -> Iterator[LogEntry]:
    name, parts = stem_of(log.path), log.path.resolve().parts
    model = parts[len(parts) - parts[::-1].index("score")] if "score" in parts[:-2] else parts[-2]
    category, wrong = categories[name], set(_bfcl_wrong(log)[2])
    unlisted = [f"right for all {number + 1}" for number in range(category.total - len(category.wrong))]
    for item in (*sorted(category.wrong, key=lambda item: (len(item), item)), *unlisted):
        yield LogEntry(model, item, {"valid": item not in wrong}, task=name.removesuffix("_score"))


def is_lighteval(columns: Collection[str]) -> bool:
    """Whether a Parquet file with these columns has details of lighteval."""
    return {"doc", "metric", "model_response"} <= {name.strip("_") for name in columns}


def _lighteval_entries(log: LogFile, _: None) -> Iterator[LogEntry]:
    from pyarrow import ArrowException, parquet

    named = _DETAILS.fullmatch(stem_of(log.path))
    log.advance(log.path.stat().st_size)
    try:
        table = parquet.read_table(log.path)
        rows = table.rename_columns([name.strip("_") for name in table.column_names]).to_pylist()
    except (OSError, ArrowException) as error:
        raise InputError(f"{log.path}: cannot be read as Parquet ({error}); write it again") from error
    for position, row in enumerate(rows):
        doc, metrics = json_object(row, "doc"), json_object(row, "metric")
        number = str(doc.get("id") or position)
        gold = doc.get("gold_index")
        yield LogEntry(
            _lighteval_model(log.path),
            number,
            {name: value for name, value in metrics.items() if not isinstance(value, (list, dict))},
            task=str(doc.get("task_name") or (named["task"] if named else "")),
            folder=log.path.parent,
            answer=json_at(row, "model_response", "text", 0),
            key=json_at(doc, "choices", gold[0] if isinstance(gold, list) and gold else gold or 0),
            question=doc.get("query"),
            document=doc.get("specific"),
        )


def _lighteval_model(path: Path) -> str:
    """The folders between "details" and the date: details/ORGANISATION/MODEL/DATE/details_TASK_DATE.parquet."""
    parts = path.resolve().parts[:-1]
    if "details" not in parts:
        return model_of_path(path.parent)
    start = len(parts) - parts[::-1].index("details")
    names = [name for name in parts[start:] if not re.match(r"\d{4}-\d\d-\d\dT", name)]
    return "/".join(names) or model_of_path(path.parent)


def is_open_compass(data: Any) -> bool:
    """Whether a JSON object is the result of a dataset in OpenCompass, with details."""
    details = json_at(data, "details")
    values = list(details.values() if isinstance(details, dict) else details if isinstance(details, list) else ())
    first = next((value for value in values if isinstance(value, dict)), {})
    return any(name in first for name in _SAID) and any(name in first for name in (*_CORRECT, *_KEYS))


def _open_compass_entries(log: LogFile, _: None) -> Iterator[LogEntry]:
    details = json_at(log.value(), "details")
    rows = details.items() if isinstance(details, dict) else enumerate(details)
    for name, row in rows:
        if not isinstance(row, dict):  # "type": "GEN"
            continue
        metric = next((word for word in _CORRECT if word in row), None)
        if metric is None:
            raise InputError(
                f"{log.path}: the details do not say which answers are correct; evaluate the predictions again "
                "with an evaluator that does (mode eval, --dump-eval-details)"
            )
        number = str(row.get("example_abbr", name))
        said, key = (next((word for word in words if word in row), "") for words in (_SAID, _KEYS))
        scores = row[metric] if isinstance(row[metric], list) else [row[metric]]
        for index, score in enumerate(scores):
            yield LogEntry(
                log.path.resolve().parent.name,
                number,
                {metric: score},
                task=stem_of(log.path),
                answer=json_at(row, said, index) if isinstance(row.get(said), list) else row.get(said),
                key=json_at(row, key, index) if isinstance(row.get(key), list) else row.get(key),
                question=row.get("prompt"),
            )


def is_mteb(data: Any) -> bool:
    """Whether a JSON object is the result of a task of MTEB."""
    return isinstance(data, dict) and {"mteb_version", "task_name", "scores"} <= data.keys()


def is_mteb_without_score(data: Any) -> bool:
    """Whether a JSON object describes a model of MTEB, or is a result before version 1.11 (no main score)."""
    return isinstance(data, dict) and any(keys <= data.keys() for keys in _MTEB_WITHOUT_SCORE)


def _mteb_entries(log: LogFile, _: None) -> Iterator[LogEntry]:
    data, folder = log.value(), log.path.resolve().parent
    described = read_json(folder / "model_meta.json") if (folder / "model_meta.json").is_file() else {}
    model = json_at(described, "name") or folder.parent.name.replace("__", "/")
    for split, rows in json_object(data, "scores").items():
        for row in rows if isinstance(rows, list) else ():
            subset = json_at(row, "hf_subset")
            parts = [str(data["task_name"]), *([str(subset)] if subset not in (None, "default") else []), split]
            yield LogEntry(
                str(model),
                tuple(parts),
                {"main_score": json_at(row, "main_score")},
                label="/".join(parts),
                folder=folder,
                groups={"benchmark": parts[0], "language": json_at(row, "languages")},
            )


def is_every_eval_ever(data: Any) -> bool:
    """Whether a JSON object is an instance of Every Eval Ever."""
    return isinstance(data, dict) and {"model_id", "evaluation_name", "sample_id", "evaluation"} <= data.keys()


def is_every_eval_ever_summary(data: Any) -> bool:
    """Whether a JSON object is the aggregate file of Every Eval Ever."""
    return isinstance(data, dict) and {"schema_version", "evaluation_id", "evaluation_results"} <= data.keys()


def _every_eval_ever_entries(log: LogFile, _: None) -> Iterator[LogEntry]:
    for line, row in enumerate(log.rows(), start=1):
        if not is_every_eval_ever(row):
            raise InputError(f"{log.path}, line {line}: not an instance of Every Eval Ever (no evaluation)")
        evaluation = json_object(row, "evaluation")
        number = str(row["sample_id"])
        yield LogEntry(
            str(row["model_id"]),
            (number, str(json_at(row, "sample_hash"))),
            {name: evaluation.get(name) for name in ("score", "is_correct")},
            label=number,
            task=str(row["evaluation_name"]),
            failed=bool(row.get("error")),
            folder=log.path.parent,
            answer=json_at(row, "answer_attribution", 0, "extracted_value") or json_at(row, "output", "raw", 0),
            key=json_at(row, "input", "reference", 0),
            question=json_at(row, "input", "raw"),
            document=row.get("metadata"),
        )


HARNESSES = (
    entry_harness(
        "LiveCodeBench results",
        _live_code_bench_entries,
        is_log=is_live_code_bench,
        roles="the model is the folder, an item is a question, the score is whether an answer passed, runs are "
        "the answers to a question (graded_list)",
    ),
    entry_harness(
        "EvalPlus results",
        _eval_plus_entries,
        is_log=is_eval_plus,
        roles="the model is the file or the folder, an item is a task, the score is whether a solution passes all "
        "tests (plus; --metric base: the original ones), runs are the solutions; a timeout is a failure",
    ),
    entry_harness(
        "BFCL scores",
        _bfcl_entries,
        overview=_bfcl_overview,
        is_log=is_bfcl,
        roles="the model is the folder below score, an item is an entry of a category, the score is whether it is "
        "valid; the files list wrong answers only: items that all models got right have numbers in place of ids",
    ),
    entry_harness(
        "lighteval details",
        _lighteval_entries,
        is_parquet=is_lighteval,
        roles="the model is the folder, an item is a document of a task, the score is the first metric of the task",
    ),
    entry_harness(
        "OpenCompass details",
        _open_compass_entries,
        is_log=is_open_compass,
        roles="the model is the folder, an item is an example of a dataset (the file), the score is whether it "
        "is correct, runs are the replicas of an example",
    ),
    entry_harness(
        "MTEB results",
        _mteb_entries,
        is_log=is_mteb,
        is_aggregate=is_mteb_without_score,
        roles="the model is that of model_meta.json or the folder, an item is a task (with its subset and "
        "split), the score is main_score",
        bounded=True,
    ),
    entry_harness(
        "Every Eval Ever instances",
        _every_eval_ever_entries,
        is_log=is_every_eval_ever,
        is_aggregate=is_every_eval_ever_summary,
        roles="the model is model_id, an item is a sample of an evaluation, the score is evaluation.score; a "
        "sample with an error is a failure",
    ),
)
