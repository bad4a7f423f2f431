"""Small logs of evaluation harnesses with planted scores."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

DATE = "2026-01-02T03-04-05.678901"


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def choice_row(
    doc: int, logprobs: list[float], right: int, *, text: str = "", hashed: bool = True
) -> dict[str, Any]:
    """One line of a multiple-choice task of lm-evaluation-harness."""
    choices = [f"{'long ' * index}choice {index}" for index in range(len(logprobs))]
    lengths = np.array([len(choice) for choice in choices])
    content = text or f"question {doc}"
    row = {
        "doc_id": doc,
        "doc": {"question": content, "choices": choices, "subject": "even" if doc % 2 == 0 else "odd"},
        "target": right,
        "arguments": {
            f"gen_args_{index}": {"arg_0": content, "arg_1": f" {choice}"} for index, choice in enumerate(choices)
        },
        "resps": [[[str(value), "False"]] for value in logprobs],
        "filtered_resps": [[str(value), "False"] for value in logprobs],
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        "acc": float(np.argmax(logprobs) == right),
        "acc_norm": float(np.argmax(np.array(logprobs) / lengths) == right),
    }
    if hashed:
        row["doc_hash"] = hashlib.sha256(content.encode()).hexdigest()
    return row


def text_rows(doc: int, answer: str, target: str, filters: dict[str, str]) -> list[dict[str, Any]]:
    """The lines of one document of a generation task, one per filter (filter: extracted answer)."""
    return [
        {
            "doc_id": doc,
            "doc": {"question": f"how many {doc}"},
            "target": target,
            "arguments": {"gen_args_0": {"arg_0": f"how many {doc}", "arg_1": {"until": ["\n"]}}},
            "resps": [[answer]],
            "filtered_resps": [extracted],
            "filter": name,
            "metrics": ["exact_match"],
            "doc_hash": hashlib.sha256(f"how many {doc}".encode()).hexdigest(),
            "exact_match": float(extracted == target),
        }
        for name, extracted in filters.items()
    ]


def write_lm_eval(
    folder: Path, task: str, rows: list[dict[str, Any]], results: dict[str, Any] | None = None
) -> Path:
    if results is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"results_{DATE}.json").write_text(json.dumps({"configs": {}, **results}))
    return write_lines(folder / f"samples_{task}_{DATE}.jsonl", rows)


def inspect_log(
    model: str, samples: list[dict[str, Any]], task: str = "arc", scorer: str = "choice"
) -> dict[str, Any]:
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "task": task,
            "model": model,
            "created": "2026-01-02T03:04:05+00:00",
            "scorers": [{"name": scorer}],
        },
        "results": {"scores": [{"name": scorer, "scorer": scorer}]},
        "samples": samples,
    }


def sample(
    name: Any, value: Any, *, epoch: int = 1, scorer: str = "choice", target: str = "A", answer: str = "A"
) -> Any:
    return {
        "id": name,
        "epoch": epoch,
        "target": target,
        "metadata": {"subject": "physics"},
        "scores": {scorer: {"value": value, "answer": answer}},
    }


def write_eval(path: Path, log: dict[str, Any], compression: int = 8) -> Path:
    """An ``.eval`` archive: deflate (8) by ``zipfile``'s format, or zstandard (93), written by hand."""
    members = {
        "header.json": {key: value for key, value in log.items() if key != "samples"},
        "summaries.json": log["samples"],
    }
    body, directory = b"", b""
    for name, data in members.items():
        content = json.dumps(data).encode()
        packed = _packed(content, compression)
        sizes = (zlib.crc32(content), len(packed), len(content), len(name), 0)
        fields = struct.pack("<HHHHHIIIHH", 63, 0, compression, 0, 33, *sizes)
        directory += b"PK\x01\x02" + struct.pack("<H", 63) + fields + struct.pack("<HHHII", 0, 0, 0, 0, len(body))
        directory += name.encode()
        body += b"PK\x03\x04" + fields + name.encode() + packed
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), len(body), 0)
    path.write_bytes(body + directory + b"PK\x05\x06" + end)
    return path


def _packed(content: bytes, compression: int) -> bytes:
    if compression == 93:
        import pyarrow

        return bytes(pyarrow.Codec("zstd").compress(content, asbytes=True))
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(content) + packer.flush()


def write_helm(folder: Path, model: str, scores: list[float], *, perturbed: int = 0) -> Path:
    folder.mkdir(parents=True)
    spec = {
        "name": f"mmlu:subject=law,model={model}",
        "scenario_spec": {"args": {"subject": "law"}},
        "adapter_spec": {"model": model},
        "metric_specs": [{"args": {"names": ["exact_match"]}}],
    }
    stats = [
        {
            "instance_id": f"id{index}",
            "train_trial_index": 0,
            "stats": [
                {"name": {"name": "num_references", "split": "test"}, "count": 1, "sum": 4, "mean": 4.0},
                {"name": {"name": "exact_match", "split": "test"}, "count": 1, "sum": score, "mean": score},
            ],
        }
        for index, score in enumerate(scores)
    ]
    stats += [{**stats[0], "perturbation": {"name": "typos"}} for _ in range(perturbed)]
    states = [
        {
            "instance": {
                "id": f"id{index}",
                "references": [
                    {"output": {"text": "yes"}, "tags": ["correct"]},
                    {"output": {"text": "no"}, "tags": []},
                ],
            },
            "train_trial_index": 0,
            "output_mapping": {"A": "no", "B": "yes"},
            "result": {"completions": [{"text": " B" if score else " A"}]},
        }
        for index, score in enumerate(scores)
    ]
    for name, data in (
        ("run_spec", spec),
        ("per_instance_stats", stats),
        ("scenario_state", {"request_states": states}),
    ):
        (folder / f"{name}.json").write_text(json.dumps(data))
    return folder


def write_json(path: Path, data: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")
    return path


Scores = Sequence[int | None]  # None is a failure


def write_swe_bench(folder: Path, model: str, scores: Scores) -> Path:
    """The report of a run of SWE-bench."""
    names = [f"django__django-{10 + number}" for number in range(len(scores))]
    by_score = {
        score: [name for name, value in zip(names, scores, strict=True) if value == score] for score in (0, 1)
    }
    failed = [name for name, value in zip(names, scores, strict=True) if value is None]
    lists = {
        "submitted_ids": names,
        "completed_ids": [*by_score[0], *by_score[1]],
        "incomplete_ids": ["django__django-99"],
        "resolved_ids": by_score[1],
        "unresolved_ids": by_score[0],
        "empty_patch_ids": failed,
        "error_ids": [],
    }
    return write_json(folder / f"{model}.json", {"total_instances": 4, **lists, "schema_version": 2})


def write_swe_bench_pro(folder: Path, model: str, scores: Scores) -> Path:
    results = {
        f"instance_org__repo-{number}": None if score is None else bool(score)
        for number, score in enumerate(scores)
    }
    return write_json(folder / model / "eval_results.json", results)


def write_terminal_bench(folder: Path, model: str, scores: Scores, run: str = "run") -> Path:
    """A run of terminal-bench with its trials, each also in a file of its own."""
    trials = [
        {
            "id": f"{run}-{number}",
            "trial_name": f"task-{number}.1-of-1.{run}",
            "task_id": f"task-{number}",
            "instruction": "Build it.",
            "is_resolved": None if score is None else bool(score),
            "failure_mode": "agent_timeout" if score is None else "unset",
        }
        for number, score in enumerate(scores)
    ]
    where = folder / model / run
    write_json(where / "run_metadata.json", {"run_id": run, "agent_name": model, "model_name": None})
    for trial in trials:
        write_json(where / str(trial["task_id"]) / str(trial["trial_name"]) / "results.json", trial)
    resolved = [trial["task_id"] for trial in trials if trial["is_resolved"]]
    return write_json(where / "results.json", {"id": run, "results": trials, "resolved_ids": resolved})


def write_harbor(folder: Path, model: str, scores: Scores) -> None:
    """A job of Harbor: its own result, and one folder per trial."""
    job = folder / f"job-{model}"
    write_json(job / "result.json", {"id": "job", "n_total_trials": len(scores), "stats": {"evals": {}}})
    for number, score in enumerate(scores):
        trial = {
            "id": str(number),
            "task_name": f"suite/task-{number}",
            "trial_name": f"task-{number}__x",
            "source": "suite",
            "config": {"agent": {"name": model}},
            "agent_info": {"name": model, "version": "1", "model_info": None},
            "verifier_result": None if score is None else {"rewards": {"part": 0.5, "reward": float(score)}},
            "exception_info": {"exception_type": "AgentTimeoutError"} if score is None else None,
        }
        write_json(job / f"task-{number}__x" / "result.json", trial)


def write_promptfoo(folder: Path, model: str, scores: Scores) -> Path:
    """The output of promptfoo with one prompt and one provider."""
    rows = [
        {
            "testIdx": number,
            "promptIdx": 0,
            "provider": {"id": model, "label": ""},
            "prompt": {"raw": f"Say {number}", "label": "Say {{number}}"},
            "vars": {"number": number},
            "testCase": {"vars": {"number": number}, "assert": [{"type": "equals", "value": str(number)}]},
            "response": {"output": str(number)},
            "success": bool(score),
            "failureReason": 2 if score is None else int(not score),
            "score": 0.75 if score else 0.25,
            "namedScores": {"style": 0.5},
        }
        for number, score in enumerate(scores)
    ]
    return write_json(folder / model / "output.json", {"evalId": "e", "results": {"version": 3, "results": rows}})


def write_deepeval(folder: Path, model: str, scores: Scores) -> Path:
    """A test run of DeepEval with one metric."""
    cases = [
        {
            "name": f"test_case_{number}",
            "input": f"How many? {number}",
            "actualOutput": "4",
            "expectedOutput": "4",
            "success": bool(score),
            "metricsData": [
                {"name": "Faithfulness", "score": score, "error": "timeout" if score is None else None}
            ],
            "order": number,
        }
        for number, score in enumerate(scores)
    ]
    run = {"testCases": cases, "conversationalTestCases": [], "hyperparameters": {"model": model}}
    return write_json(folder / model / "test_run_1.json", {"testRunData": run})


def write_alpaca_eval(folder: Path, model: str, scores: Scores) -> Path:
    rows = [
        {
            "instruction": f"Explain {number}.",
            "output_1": "One.",
            "generator_1": "reference",
            "dataset": "helpful_base",
            "output_2": "Two.",
            "generator_2": model,
            "annotator": "judge",
            "preference": None if score is None else score + 1.0,
        }
        for number, score in enumerate(scores)
    ]
    return write_json(folder / model / "annotations.json", rows)


def write_mt_bench(folder: Path, model: str, scores: Scores) -> Path:
    rows = [
        {
            "question_id": 81 + number // 2,
            "model": model,
            "judge": ["judge", "single-v1"],
            "judgment": "Rating: [[10]]",
            "score": -1 if score is None else 10 * score,
            "turn": 1 + number % 2,
        }
        for number, score in enumerate(scores)
    ]
    return write_lines(folder / f"{model}_single.jsonl", rows)


def write_live_code_bench(folder: Path, model: str, scores: Scores) -> Path:
    rows = [
        {
            "question_id": f"abc{number}",
            "difficulty": "easy",
            "platform": "atcoder",
            "contest_date": "2026-01-02T00:00:00",
            "code_list": ["print()"],
            "graded_list": [None if score is None else bool(score)],
            "pass@1": score or 0.0,
        }
        for number, score in enumerate(scores)
    ]
    return write_json(folder / model / "Scenario.codegeneration_1_0.2_eval_all.json", rows)


def write_eval_plus(folder: Path, model: str, scores: Scores) -> Path:
    statuses = {1: "pass", 0: "fail", None: "timeout"}
    solutions = {
        f"HumanEval/{number}": [{"solution": "", "base_status": "pass", "plus_status": statuses[score]}]
        for number, score in enumerate(scores)
    }
    return write_json(folder / f"{model}_eval_results.json", {"date": "2026-01-02 03:04", "eval": solutions})


def write_bfcl(folder: Path, model: str, scores: Scores) -> Path:
    """Scores of BFCL: counts in the first line, wrong answers below it."""
    wrong = [number for number, score in enumerate(scores) if not score]
    right = len(scores) - len(wrong)
    first = {"accuracy": right / len(scores), "correct_count": right, "total_count": len(scores)}
    rows = [{"id": f"simple_{number}", "model_name": model, "valid": False} for number in wrong]
    return write_lines(folder / "score" / model / "BFCL_v3_simple_score.json", [first, *rows])


def write_lighteval(folder: Path, model: str, scores: Scores) -> Path:
    """Details of lighteval: one Parquet file per task."""
    from pyarrow import Table, parquet

    rows = [
        {
            "doc": {
                "id": str(number),
                "query": "?",
                "choices": ["A", "B"],
                "gold_index": [0],
                "task_name": "quiz|0",
            },
            "metric": {"acc": None if score is None else float(score), "length": 3.0},
            "model_response": {"text": ["A"]},
        }
        for number, score in enumerate(scores)
    ]
    path = folder / "details" / model / "2026-01-02T03-04-05.678" / "details_quiz|0_2026-01-02T03-04-05.678.parquet"
    path.parent.mkdir(parents=True)
    parquet.write_table(Table.from_pylist(rows), path)
    return path


def write_open_compass(folder: Path, model: str, scores: Scores) -> Path:
    details = [
        {"example_abbr": f"quiz_{number}", "pred": ["A"], "answer": ["A"], "correct": [score]}
        for number, score in enumerate(scores)
    ]
    return write_json(folder / "results" / model / "quiz.json", {"accuracy": 50.0, "details": details})


def write_mteb(folder: Path, model: str, scores: Scores) -> None:
    """Results of MTEB: one file per task, beside the description of the model."""
    where = folder / model / "revision"
    write_json(where / "model_meta.json", {"name": model, "revision": "revision"})
    for number, score in enumerate(scores):
        rows = [{"accuracy": score, "main_score": score, "hf_subset": "default", "languages": ["eng-Latn"]}]
        task = {"task_name": f"Task{number}", "mteb_version": "2.0.0", "dataset_revision": "x"}
        write_json(where / f"Task{number}.json", {**task, "scores": {"test": rows}})


def write_every_eval_ever(folder: Path, model: str, scores: Scores) -> Path:
    rows = [
        {
            "schema_version": "0.3.0",
            "evaluation_id": f"quiz/{model}/1",
            "model_id": model,
            "evaluation_name": "quiz",
            "sample_id": str(number),
            "interaction_type": "single_turn",
            "input": {"raw": "?", "reference": ["4"]},
            "output": {"raw": ["4"]},
            "answer_attribution": [{"extracted_value": "4"}],
            "evaluation": {"score": float(score or 0), "is_correct": bool(score)},
            "error": "timeout" if score is None else None,
        }
        for number, score in enumerate(scores)
    ]
    return write_lines(folder / f"{model}_samples.jsonl", rows)


# By the name of the harness: writes the log of one model with these scores of its items.
LOGS: dict[str, Callable[[Path, str, Any], Any]] = {
    "lm-evaluation-harness logs": lambda folder, model, scores: write_lm_eval(
        folder / model, "quiz", [choice_row(doc, [-1.0, -2.0], 1 - score) for doc, score in enumerate(scores)]
    ),
    "Inspect logs": lambda folder, model, scores: write_eval(
        folder / f"{model}.eval", inspect_log(model, [sample(i, "IC"[score]) for i, score in enumerate(scores)])
    ),
    "HELM runs": lambda folder, model, scores: write_helm(folder / model, model, [float(s) for s in scores]),
    "BFCL scores": write_bfcl,
}
# The same, for logs that state failures.
LOGS_WITH_FAILURES: dict[str, Callable[[Path, str, Scores], Any]] = {
    "terminal-bench results": write_terminal_bench,
    "Harbor trials": write_harbor,
    "SWE-bench Pro results": write_swe_bench_pro,
    "SWE-bench reports": write_swe_bench,
    "promptfoo outputs": write_promptfoo,
    "DeepEval test runs": write_deepeval,
    "AlpacaEval annotations": write_alpaca_eval,
    "MT-bench judgments": write_mt_bench,
    "LiveCodeBench results": write_live_code_bench,
    "EvalPlus results": write_eval_plus,
    "lighteval details": write_lighteval,
    "OpenCompass details": write_open_compass,
    "MTEB results": write_mteb,
    "Every Eval Ever instances": write_every_eval_ever,
}
LOGS |= LOGS_WITH_FAILURES
