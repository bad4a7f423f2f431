"""How large an input may be for ten CPU minutes: each heavy step at three small sizes, its exponent, extrapolated.

Every size runs in a fresh process on one core. The cost is CPU time, so that other programs on the machine matter
little. The size for ten minutes is the largest measured one times (600 s / its CPU seconds)^(1 / exponent);
that for 24 GB continues the line of the peak memory.
"""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import harness

PEERS = ("numba", "pyarrow")
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
SECONDS, MEMORY = 600.0, 24e9 / 2**20
COLUMNS, BLOCK = 50, 10_000
LEAST_BYTES = 16  # per unit of the input, below which memory was not seen to grow


@dataclass(frozen=True)
class Step:
    """A heavy step: what its size counts, three sizes, its functions, and what to use beyond."""

    name: str
    unit: str
    sizes: tuple[int, int, int]
    prepare: Callable[..., Any]
    work: Callable[[Any], Any]
    beyond: str


def measured(work: Callable[[], Any]) -> dict[str, float]:
    """CPU seconds of a call in this process, and the peak memory of the process in MB."""
    begun = time.process_time()
    work()
    return {
        "seconds": time.process_time() - begun,
        "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def prepare_table(size: int) -> Path:
    import pyarrow
    from pyarrow import parquet

    rng, path = np.random.default_rng(0), Path(tempfile.mkdtemp(prefix="hardpan-ten-")) / "table.parquet"
    atexit.register(shutil.rmtree, path.parent)
    names = [f"x{k}" for k in range(COLUMNS)]
    schema = pyarrow.schema([*((name, pyarrow.float64()) for name in names), ("label", pyarrow.int64())])
    schema = schema.append(pyarrow.field("split", pyarrow.string()))
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, size, BLOCK):
            n = min(BLOCK, size - start)
            x = rng.normal(size=(COLUMNS, n))
            split = np.where(rng.random(n) < 0.1, "test", "train")
            writer.write_table(pyarrow.table([*x, (x[0] > 0).astype(int), split], schema=schema))
    return path


def read_table_and_facts(path: Path) -> dict[str, float]:
    """All that an audit does with every row: reading, copies, repeats, conflicts, classes, missing cells."""
    from hardpan import Dataset
    from hardpan.auditing import problems, running
    from hardpan.auditing.evidence import AuditConfig

    def work() -> None:
        evidence = running._gather_evidence(Dataset.open(path, sample=10_000), AuditConfig())
        for detect in (problems._copy_problems, problems._repeat_problems, problems._class_problems):
            list(detect(evidence))

    return measured(work)


def prepare_scores(models: int, size: int) -> Any:
    from hardpan import Outcomes

    rng = np.random.default_rng(0)
    easy, skill = rng.normal(size=size), rng.normal(size=(models, 1))
    right = rng.random((models, size)) < 1 / (1 + np.exp(-skill - easy))
    return Outcomes.from_arrays(right)


def prepare_items(size: int) -> Any:
    return prepare_scores(100, size)


def prepare_models(size: int) -> Any:
    return prepare_scores(size, 1000)


def rank(outcomes: Any) -> dict[str, float]:
    from hardpan import leaderboard

    return measured(lambda: leaderboard.rank(outcomes))


def fit_items(outcomes: Any) -> dict[str, float]:
    from hardpan import leaderboard

    return measured(lambda: leaderboard.items(outcomes))


def prepare_predictions(size: int) -> Any:
    from hardpan import Predictions

    rng = np.random.default_rng(0)
    probs = rng.random((3, 1, size, 100), dtype=np.float32) ** 8
    return Predictions.from_arrays(probs / probs.sum(axis=-1, keepdims=True), labels=rng.integers(0, 100, size))


def score(predictions: Any) -> dict[str, float]:
    from hardpan import confusion

    return measured(lambda: confusion.scores(predictions, stderr=True))


def prepare_vectors(size: int) -> Any:
    return np.random.default_rng(0).normal(size=(size, 64)).astype(np.float32)


def search_vectors(x: Any) -> dict[str, float]:
    from hardpan.neighbors.exact import nearest

    nearest(x[:100], x[:100], 5)  # compiled before
    return measured(lambda: nearest(x, x, 5))


def prepare_images(size: int) -> Any:
    small = np.random.default_rng(0).integers(0, 256, (size, 8, 8)).astype(np.uint8)
    return small.repeat(4, axis=1).repeat(4, axis=2)


def search_images(images: Any) -> dict[str, float]:
    from hardpan.neighbors.image_copies import find_image_copies

    half = len(images) // 2
    find_image_copies(images[:20], images[20:40])  # compiled before
    return measured(lambda: find_image_copies(images[:half], images[half:]))


def prepare_texts(size: int) -> Any:
    rng = np.random.default_rng(0)
    words = np.array([f"w{k}" for k in range(20_000)])
    rank = (20_000 ** rng.random((size, 30))).astype(int)  # as frequent as the words of a language, 1/rank
    return [" ".join(words[row]) for row in rank]


def search_texts(texts: Any) -> dict[str, float]:
    from hardpan.neighbors.text_copies import match_texts

    half = len(texts) // 2
    return measured(lambda: match_texts(texts[:half], texts[half:]))


STEPS = (
    Step(
        "audit of a table: what concerns every row",
        f"rows of {COLUMNS} columns",
        (1_000_000, 2_000_000, 4_000_000),
        prepare_table,
        read_table_and_facts,
        "audit one file per machine; models use a sample in any case",
    ),
    Step(
        "leaderboard rank, 100 models",
        "items",
        (250_000, 500_000, 1_000_000),
        prepare_items,
        rank,
        "tasks by themselves, then `--suite`",
    ),
    Step(
        "leaderboard rank, 1,000 items",
        "models",
        (400, 800, 1_600),
        prepare_models,
        rank,
        "the models in question, or one job per task",
    ),
    Step(
        "leaderboard items (2PL), 100 models",
        "items",
        (100_000, 200_000, 400_000),
        prepare_items,
        fit_items,
        "one fit per group of items",
    ),
    Step(
        "confusion score, 3 seeds × 100 classes",
        "examples",
        (150_000, 300_000, 600_000),
        prepare_predictions,
        score,
        "`--set backend=dask` or ray",
    ),
    Step(
        "nearest neighbours of 64 numbers, all pairs",
        "examples",
        (10_000, 20_000, 40_000),
        prepare_vectors,
        search_vectors,
        '`with hardpan.parallel("dask")`, or `device="cuda"`',
    ),
    Step(
        "altered copies of images",
        "images, half of them test",
        (1_000, 2_000, 4_000),
        prepare_images,
        search_images,
        "the audit draws a sample of the test images",
    ),
    Step(
        "altered copies of texts",
        "texts, half of them test",
        (16_000, 32_000, 64_000),
        prepare_texts,
        search_texts,
        "the audit draws a sample of the test texts",
    ),
)


def run() -> dict[str, Any]:
    rows = []
    for step in STEPS:
        sizes = [max(20, round(size * SCALE)) for size in step.sizes]
        outputs = [harness.isolated(step.prepare, step.work, warmup=1, size=size).output for size in sizes]
        power = harness.exponent(sizes, [item["seconds"] for item in outputs])
        in_time = sizes[-1] * (SECONDS / outputs[-1]["seconds"]) ** (1 / max(1.0, power))
        each = max(1e-9, (outputs[-1]["MB"] - outputs[0]["MB"]) / (sizes[-1] - sizes[0]))
        in_memory = sizes[-1] + (MEMORY - outputs[-1]["MB"]) / each
        hidden = each * 2**20 < LEAST_BYTES  # the peak is that of something else
        rows.append(
            {
                "step": step.name,
                "size counts": step.unit,
                "largest measured": sizes[-1],
                "CPU s": round(outputs[-1]["seconds"], 2),
                "peak MB": round(outputs[-1]["MB"]),
                "exponent": round(power, 2),
                "bytes per unit": None if hidden else round(each * 2**20),
                "in 10 CPU minutes": float(f"{in_time:.1g}"),
                "in 24 GB": None if hidden else float(f"{in_memory:.1g}"),
                "beyond": step.beyond,
            }
        )
    notes = [
        "extrapolated from three small sizes: time by the exponent (below 1, where fixed costs count, by 1), "
        "memory by a line",
        "the smaller of the two limits holds; what is beyond the measured size by more than a factor of 100 is a "
        "guess",
    ]
    return harness.table(
        "How much fits into ten CPU minutes on one core, and into 24 GB", rows, seed=0, notes=notes
    )
