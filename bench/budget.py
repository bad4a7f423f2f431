"""Wall-clock time of audits of 12 named shapes with ``--budget 30s``, beside the promise of 1.5 times the budget.

Each audit runs in a fresh process on one core, so that imports count. The data are classes with other means plus
noise; what was left out because the time was used up is in the table.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from bench import harness

PEERS = ("scikit-learn", "torch")
BUDGET = 30.0
MOST = 1.5
SHAPES: dict[str, dict[str, Any]] = {
    "a small table": {"rows": 569, "columns": 30, "classes": 2},
    "a wide table": {"rows": 500, "columns": 5000, "classes": 2},
    "a long table": {"rows": 200_000, "columns": 20, "classes": 2},
    "a table of categories": {"rows": 30_000, "columns": 14, "classes": 2, "kind": "categories"},
    "an official split": {"rows": 10_000, "columns": 50, "classes": 5, "kind": "split"},
    "100 classes": {"rows": 20_000, "columns": 100, "classes": 100},
    "150 classes of 12 rows": {"rows": 1800, "columns": 384, "classes": 150},
    "1,000 classes": {"rows": 5000, "columns": 40, "classes": 1000},
    "small images": {"rows": 1797, "columns": 64, "classes": 10, "kind": "images"},
    "images of 28 × 28": {"rows": 20_000, "columns": 784, "classes": 10, "kind": "images"},
    "a matrix of mostly zeros": {"rows": 3000, "columns": 5000, "classes": 20, "kind": "zeros"},
    "texts": {"rows": 1800, "columns": 2000, "classes": 150, "kind": "texts"},
}


def prepare(rows: int, columns: int, classes: int, kind: str = "table") -> Any:
    rng = np.random.default_rng(0)
    labels = np.concatenate([np.arange(classes), rng.integers(0, classes, rows - classes)])
    if kind == "texts":
        words = np.array([f"word{number}" for number in range(columns)])
        favourites = rng.integers(0, columns, (classes, 12))
        own = rng.random((rows, 8)) < 0.5
        drawn = np.where(
            own, favourites[labels[:, None], rng.integers(0, 12, (rows, 8))], rng.integers(0, columns, (rows, 8))
        )
        return {"text": [" ".join(words[row]) for row in drawn], "label": [f"intent {label}" for label in labels]}
    if kind == "zeros":
        shift = np.where(rng.random((rows, 30)) < 0.3, 40 * labels[:, None], 0)
        values = np.zeros((rows, columns), dtype=np.float32)
        np.put_along_axis(values, (shift + rng.integers(0, columns - 1000, (rows, 30))) % columns, 1.0, axis=1)
        return values, labels
    x = (0.6 * rng.normal(size=(classes, columns)))[labels] + rng.normal(size=(rows, columns))
    if kind == "images":
        side = int(columns**0.5)
        return np.clip(128 + 40 * x, 0, 255).astype(np.uint8).reshape(rows, side, side), labels
    if kind == "categories":
        import pyarrow as pa

        names = {f"column {j}": pa.array(np.round(x[:, j]).astype(int).astype(str)) for j in range(columns // 2)}
        names |= {f"column {j}": pa.array(x[:, j]) for j in range(columns // 2, columns)}
        return pa.table(names | {"label": pa.array(labels.astype(str))})
    if kind == "split":
        edge = 4 * rows // 5
        return x[:edge], labels[:edge], x[edge:], labels[edge:]
    return x, labels


def work(data: Any) -> dict[str, Any]:
    import tempfile

    import hardpan as hp

    if isinstance(data, dict):
        import pyarrow as pa

        dataset = hp.Dataset.open(pa.table(data), text="text", label="label")
    else:
        dataset = hp.Dataset.open(data)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = hp.audit(dataset, budget=BUDGET, out=folder)
    dropped = [note.details["step"] for note in report.notes if note.details.get("why") == "no-time"]
    return {"seconds": time.monotonic() - begin, "dropped": ", ".join(dropped), "error": report.headline[:60]}


def run() -> dict[str, Any]:
    rows = []
    for name, shape in SHAPES.items():
        output = harness.isolated(prepare, work, repeats=1, **shape).output
        seconds = output["seconds"]
        row = {"shape": name, **{key: shape[key] for key in ("rows", "columns", "classes")}}
        row |= {"seconds": round(seconds, 1), "left out": output["dropped"]}
        rows.append(row | harness.against(seconds / BUDGET, at_most=MOST, unit="× the budget"))
    notes = ["after reading, with the page, one core; searches and steps that do not fit are left out and named"]
    return harness.table("Audits with --budget 30s", rows, seed=0, notes=notes)
