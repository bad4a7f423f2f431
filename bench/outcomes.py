"""Reading the logs of lm-evaluation-harness: megabytes per second, and memory with the number of files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench import harness

# A quick look, not a measurement: BENCH_SCALE=0.05 makes every size smaller.
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
ITEMS = 10_000


def _document(item: int, rng: np.random.Generator) -> dict[str, Any]:
    words = rng.integers(0, 3_000, size=60)
    question = " ".join(f"word{number}" for number in words)
    choices = [" ".join(f"word{number}" for number in rng.integers(0, 3_000, size=4)) for _ in range(4)]
    return {
        "doc_id": item,
        "doc": {"question": question, "choices": choices, "subject": f"subject {item % 57}"},
        "target": str(item % 4),
        "arguments": {f"gen_args_{k}": {"arg_0": question, "arg_1": f" {text}"} for k, text in enumerate(choices)},
        "doc_hash": hashlib.sha256(question.encode()).hexdigest(),
        "prompt_hash": hashlib.sha256(question[::-1].encode()).hexdigest(),
        "filter": "none",
        "metrics": ["acc"],
    }


def prepare(files: int, items: int) -> dict[str, Any]:
    """One file per model; the documents are the same, the log-probabilities differ."""
    rng = np.random.default_rng(0)
    folder = Path(tempfile.mkdtemp(prefix="hardpan-bench-"))
    heads = [json.dumps(_document(item, rng))[:-1] for item in range(items)]
    size = 0
    total = np.zeros(files)
    for model in range(files):
        values = rng.normal(-20.0, 4.0, size=(items, 4)).round(4)
        right = values.argmax(axis=1) == np.arange(items) % 4
        total[model] = right.mean()
        target = folder / f"lab__model-{model}"
        target.mkdir()
        with (target / "samples_quiz_2026-01-02T03-04-05.678901.jsonl").open("w", encoding="utf-8") as stream:
            for item, head in enumerate(heads):
                pairs = ", ".join(f'["{value}", "False"]' for value in values[item])
                nested = ", ".join(f'[["{value}", "False"]]' for value in values[item])
                size += stream.write(
                    f'{head}, "resps": [{nested}], "filtered_resps": [{pairs}], "acc": {float(right[item])}}}\n'
                )
    return {"folder": str(folder), "bytes": size, "means": total}


def prepare_texts(files: int, items: int) -> dict[str, Any]:
    """Short lines of a generation task; every answer is another text."""
    folder = Path(tempfile.mkdtemp(prefix="hardpan-bench-"))
    heads = [
        f'{{"doc_id": {item}, "doc": {{}}, "target": "{item % 7}", "filter": "none", "metrics": ["exact_match"], '
        f'"doc_hash": "{hashlib.sha256(str(item).encode()).hexdigest()}"'
        for item in range(items)
    ]
    size = 0
    for model in range(files):
        target = folder / f"lab__model-{model}"
        target.mkdir()
        with (target / "samples_quiz_2026-01-02T03-04-05.678901.jsonl").open("w", encoding="utf-8") as stream:
            for item, head in enumerate(heads):
                score = float((item + model) % 4 == 0)
                text = f"model {model} says {item * score}"
                size += stream.write(f'{head}, "filtered_resps": ["{text}"], "exact_match": {score}}}\n')
    return {"folder": str(folder), "bytes": size}


def read_texts(given: dict[str, Any]) -> dict[str, Any]:
    from hardpan import Outcomes

    calls: list[float] = []
    start = time.process_time()
    outcomes = Outcomes.open(given["folder"], progress=lambda _, fraction: calls.append(fraction))
    spent = time.process_time() - start
    shutil.rmtree(given["folder"])
    held = outcomes.scores.nbytes + (0 if outcomes.answers is None else outcomes.answers.nbytes)
    right = bool(np.allclose(outcomes.scores.mean(axis=1), 0.25, atol=1e-3))
    return {"bytes": given["bytes"], "result": held, "agree": right, "progress": len(calls), "cpu": spent}


def read(given: dict[str, Any]) -> dict[str, Any]:
    """Read all logs; the folder is removed afterwards."""
    from hardpan import Outcomes

    start = time.process_time()
    outcomes = Outcomes.open(given["folder"])
    spent = time.process_time() - start
    order = [outcomes.models.index(f"lab/model-{model}") for model in range(len(given["means"]))]
    shutil.rmtree(given["folder"])
    assert outcomes.choices is not None
    assert outcomes.answers is not None
    held = outcomes.scores.nbytes + outcomes.choices.logprobs.nbytes + outcomes.answers.nbytes
    return {
        "bytes": given["bytes"],
        "result": held,
        "cpu": spent,
        "agree": bool(np.allclose(outcomes.scores.mean(axis=1)[order], given["means"])),
    }


def many_files() -> dict[str, Any]:
    rows = []
    items = max(100, round(ITEMS * min(1.0, SCALE * 10)))
    for files in (max(2, round(count * SCALE)) for count in (100, 300, 1000)):
        m = harness.isolated(prepare_texts, read_texts, files=files, items=items)
        cells = files * items
        rows.append(
            {
                "files": files,
                "lines per file": items,
                "MB": m.output["bytes"] / 1e6,
                "CPU seconds": m.output["cpu"],
                "result MB": m.output["result"] / 1e6,
                "extra MB": m.extra_megabytes,
                "extra bytes per score": m.extra_megabytes * 1e6 / cells if m.extra_megabytes is not None else None,
                "calls of progress": m.output["progress"],
                "means agree": m.output["agree"],
            }
        )
    notes = ["simulated generation logs, every answer another text; too many different texts are not kept"]
    return harness.table("Memory with the number of files", rows, seed=0, notes=notes)


def run() -> list[dict[str, Any]]:
    rows = []
    for files in (max(2, round(20 * SCALE)), max(4, round(200 * SCALE))):
        items = max(100, round(ITEMS * min(1.0, SCALE * 10)))
        m = harness.isolated(prepare, read, files=files, items=items)
        megabytes = m.output["bytes"] / 1e6
        rows.append(
            {
                "files": files,
                "lines per file": items,
                "MB": megabytes,
                "seconds": m.best,
                "CPU seconds": m.output["cpu"],
                "MB per second": megabytes / m.best,
                "MB per CPU second": megabytes / m.output["cpu"],
                "result MB": m.output["result"] / 1e6,
                "extra MB": m.extra_megabytes,
                "means agree": m.output["agree"],
                **harness.against(megabytes / m.best, at_least=50, unit="MB/s"),
            }
        )
    notes = [
        "simulated multiple-choice logs of four choices; the result holds scores, log-probabilities and answers",
        "judged by wall-clock time; where it is far above the CPU time, other programs ran on the machine",
    ]
    return [harness.table("Reading logs of lm-evaluation-harness", rows, seed=0, notes=notes), many_files()]
