"""Logs of checks and judges of answers: promptfoo, DeepEval, AlpacaEval and MT-bench.

A judge that gave no verdict is a failure, not a score of 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hardpan.outcomes.cells import score_of, shorten
from hardpan.outcomes.log_entries import LogEntry, entry_harness, model_of_path
from hardpan.outcomes.logs import LogFile, json_at, json_list, json_object

_LONGEST_LABEL = 60
_FAILED_WITH_ERROR = 2  # of promptfoo's failureReason


def is_promptfoo(data: Any) -> bool:
    """Whether a JSON object is the output of promptfoo, or a line of it."""
    row = json_at(data, "results", "results", 0) or json_at(data, "results", 0) or data
    return isinstance(row, dict) and {"prompt", "vars", "success"} <= row.keys()


def _promptfoo_entries(log: LogFile, _: None) -> Iterator[LogEntry]:
    rows = [row for data in log.rows() for row in _promptfoo_rows(data)]
    prompts: dict[str, int] = {}
    for row in rows:
        prompts.setdefault(_promptfoo_prompt(row), len(prompts))
    for row in rows:
        provider = row.get("provider")
        name = json_at(provider, "label") or json_at(provider, "id") or provider or model_of_path(log.path)
        prompt = _promptfoo_prompt(row)
        if len(prompts) > 1:
            short = prompt if 0 < len(prompt) <= _LONGEST_LABEL else f"prompt {prompts[prompt] + 1}"
            name = f"{name}, {short}"
        inputs, description = json_object(row, "vars"), json_at(row, "testCase", "description")
        text = ", ".join(f"{key}={value}" for key, value in inputs.items())
        yield LogEntry(
            str(name),
            json.dumps([inputs, json_at(row, "testCase", "assert"), description], sort_keys=True),
            {"success": row.get("success"), "score": row.get("score"), **json_object(row, "namedScores")},
            label=shorten(str(description or text), _LONGEST_LABEL),
            failed=row.get("failureReason") == _FAILED_WITH_ERROR,
            answer=json_at(row, "response", "output"),
            question=json_at(row, "prompt", "raw"),
            document={**inputs, **json_object(row, "testCase", "metadata")},
        )


def _promptfoo_rows(data: Any) -> list[Any]:
    rows = json_list(data, "results", "results") or json_list(data, "results")
    return [row for row in rows or [data] if isinstance(row, dict)]


def _promptfoo_prompt(row: Any) -> str:
    return str(json_at(row, "prompt", "label") or json_at(row, "prompt", "display") or row.get("promptIdx") or "")


def is_deepeval(data: Any) -> bool:
    """Whether a JSON object is a test run of DeepEval."""
    run = json_at(data, "testRunData") or data
    cases = json_list(run, "testCases") + json_list(run, "conversationalTestCases")
    return bool(cases) and all(isinstance(json_at(case, "metricsData"), list) for case in cases[:1])


def _deepeval_entries(log: LogFile, _: None) -> Iterator[LogEntry]:
    data = log.value()
    run = json_object(data, "testRunData") or data
    model = json_at(run, "hyperparameters", "model") or run.get("identifier") or model_of_path(log.path)
    for case in json_list(run, "testCases") + json_list(run, "conversationalTestCases"):
        metrics = [metric for metric in json_list(case, "metricsData") if isinstance(metric, dict)]
        said = json_at(case, "input") or json_at(case, "scenario")
        yield LogEntry(
            str(model),
            json.dumps([said or json_at(case, "name"), json_at(case, "expectedOutput")]),
            {"success": json_at(case, "success"), **{str(one.get("name")): one.get("score") for one in metrics}},
            label=shorten(str(json_at(case, "name") or said), _LONGEST_LABEL),
            failed=any(metric.get("error") for metric in metrics),
            answer=json_at(case, "actualOutput"),
            key=json_at(case, "expectedOutput"),
            question=said,
            document=json_at(case, "metadata"),
        )


def is_alpaca_eval(data: Any) -> bool:
    """Whether a JSON object is an annotation of AlpacaEval."""
    return isinstance(data, dict) and {"instruction", "generator_1", "generator_2", "preference"} <= data.keys()


def _alpaca_eval_entries(log: LogFile, _: None) -> Iterator[LogEntry]:
    for position, row in enumerate(log.rows()):
        preference = score_of(json_at(row, "preference"))
        if preference == 0.0:  # a draw, as 1.5 is
            preference = 1.5
        yield LogEntry(
            str(json_at(row, "generator_2")),
            str(json_at(row, "instruction")),
            {"preference": None if preference is None else preference - 1.0},
            label=str(position),
            task=f"{json_at(row, 'annotator') or 'judge'} against {json_at(row, 'generator_1')}",
            answer=json_at(row, "output_2"),
            question=json_at(row, "instruction"),
            document=row,
        )


def is_mt_bench(data: Any) -> bool:
    """Whether a JSON object is a judgment of one answer by MT-bench."""
    return isinstance(data, dict) and {"question_id", "model", "judge", "score", "turn"} <= data.keys()


def _mt_bench_entries(log: LogFile, _: None) -> Iterator[LogEntry]:
    for row in log.rows():
        judge, turn, score = json_at(row, "judge"), json_at(row, "turn"), score_of(json_at(row, "score"))
        yield LogEntry(
            str(json_at(row, "model")),
            (str(json_at(row, "question_id")), str(turn)),
            {"score": score},
            label=f"{json_at(row, 'question_id')}, turn {turn}",
            task=str(judge[0] if isinstance(judge, list) and judge else judge),
            highest=10.0,
            failed=score is None or score < 0.0,  # -1: no score was found in the judgment
            groups={"question": str(json_at(row, "question_id")), "turn": str(turn)},
        )


HARNESSES = (
    entry_harness(
        "promptfoo outputs",
        _promptfoo_entries,
        is_log=is_promptfoo,
        roles="the model is the provider or the file (with the prompt, where there are several), an item is a test "
        "with its variables, the score is success, runs are repeats of a test; an error is a failure",
    ),
    entry_harness(
        "DeepEval test runs",
        _deepeval_entries,
        is_log=is_deepeval,
        roles="the model is hyperparameters.model or the name of the file, an item is an input with its expected "
        "output, the score is success, runs are repeats of an input; an error of a metric is a failure",
    ),
    entry_harness(
        "AlpacaEval annotations",
        _alpaca_eval_entries,
        is_log=is_alpaca_eval,
        roles="the model is generator_2, an item is an instruction, the score is the preference for the model "
        "(1: it wins, 0.5: a draw); an annotation without a preference is a failure",
    ),
    entry_harness(
        "MT-bench judgments",
        _mt_bench_entries,
        is_log=is_mt_bench,
        roles="an item is a question with its turn, the score is that of the judge, divided by 10; a score of -1 "
        "(the judgment has no score) is a failure",
    ),
)
