"""Small logs of evaluation harnesses with planted scores."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Callable
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


# By the name of the harness: writes the log of one model with these scores of its items.
LOGS: dict[str, Callable[[Path, str, list[int]], Any]] = {
    "lm-evaluation-harness logs": lambda folder, model, scores: write_lm_eval(
        folder / model, "quiz", [choice_row(doc, [-1.0, -2.0], 1 - score) for doc, score in enumerate(scores)]
    ),
    "Inspect logs": lambda folder, model, scores: write_eval(
        folder / f"{model}.eval", inspect_log(model, [sample(i, "IC"[score]) for i, score in enumerate(scores)])
    ),
    "HELM runs": lambda folder, model, scores: write_helm(folder / model, model, [float(s) for s in scores]),
}
