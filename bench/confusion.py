"""Confusion scores: the fused kernel against SciPy on the NumPy mean, memory of a streamed store, rankings."""

from __future__ import annotations

import atexit
import importlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench import harness

PEERS = ("numpy", "scipy", "numba", "zarr")

# A quick look, not a measurement: BENCH_SCALE=0.05 makes every size smaller.
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
SEEDS, CLASSES, EPOCHS = 3, 1000, 20


def sized(full: int, least: int = 1) -> int:
    return max(least, round(full * SCALE))


def softmax_rows(rng: np.random.Generator, rows: int, classes: int) -> np.ndarray[Any, Any]:
    logits = 3 * rng.standard_normal((rows, classes), dtype=np.float32)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (powers / powers.sum(axis=1, keepdims=True)).astype(np.float16)


def prepare_epoch(examples: int) -> dict[str, Any]:
    confusion = importlib.import_module("hardpan.confusion")
    rng = np.random.default_rng(0)
    probs = np.stack([softmax_rows(rng, examples, CLASSES) for _ in range(SEEDS)])
    confusion.scores(probs[:, None, :8])  # compiles, or loads what was compiled before
    return {"probs": probs}


def ours(given: dict[str, Any]) -> dict[str, float]:
    from hardpan import confusion, parallel

    with parallel(workers=1):
        values = confusion.scores(given["probs"][:, None]).values
    return {"mean": float(values.mean()), "worst": float(np.abs(values - exact(given["probs"])).max())}


def scored(given: dict[str, Any]) -> dict[str, float]:
    from hardpan import confusion, parallel

    with parallel(workers=1):
        return {"mean": float(confusion.scores(given["probs"][:, None]).values.mean())}


def scored_by_numpy(given: dict[str, Any]) -> dict[str, float]:
    from hardpan import confusion, parallel
    from hardpan.confusion import row_tasks

    compiled, row_tasks.COMPILED = row_tasks.COMPILED, ()
    try:
        with parallel(workers=1):
            return {"mean": float(confusion.scores(given["probs"][:, None]).values.mean())}
    finally:
        row_tasks.COMPILED = compiled


def entr_of_mean(given: dict[str, Any]) -> dict[str, float]:
    from scipy.special import entr

    mean = given["probs"].mean(axis=0)
    return {"mean": float((entr(mean).sum(axis=-1) / np.log(2)).mean())}


def entr_of_single_mean(given: dict[str, Any]) -> dict[str, float]:
    from scipy.special import entr

    mean = given["probs"].mean(axis=0, dtype=np.float32)
    return {"mean": float((entr(mean).sum(axis=-1) / np.log(2)).mean())}


def exact(probs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    from scipy.special import entr

    rows = [entr(part.astype(np.float64).mean(axis=0)).sum(axis=-1) for part in np.array_split(probs, 50, axis=1)]
    return np.concatenate(rows) / np.log(2)


def prepare_store(examples: int, epochs: int) -> dict[str, Any]:
    confusion, store, execution = (
        importlib.import_module(f"hardpan.{name}") for name in ("confusion", "predictions", "execution")
    )
    rng = np.random.default_rng(0)
    folder = tempfile.mkdtemp(prefix="bench-confusion-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    kept = store.Predictions.create(Path(folder) / "s", ids=[f"e{i}" for i in range(examples)], n_classes=CLASSES)
    block = softmax_rows(rng, min(examples, 4096), CLASSES)
    rows = np.resize(block, (examples, CLASSES))
    for seed in range(SEEDS):
        for epoch in range(epochs):
            kept.write(seed, epoch, np.roll(rows, 97 * seed + 31 * epoch, axis=0))
    with execution.parallel(workers=1):
        confusion.scores(kept, epochs=[0])
    return {"path": str(Path(folder) / "s")}


def stream(given: dict[str, Any]) -> dict[str, float]:
    from hardpan import confusion

    return {"mean": float(confusion.scores(given["path"]).values.mean())}


def prepare_ranking(examples: int) -> dict[str, Any]:
    importlib.import_module("hardpan.confusion")
    rng = np.random.default_rng(0)
    a = rng.random(examples)
    return {"a": a, "b": a + rng.random(examples)}


def our_kendall(given: dict[str, Any]) -> dict[str, float]:
    from hardpan.stats.correlation import kendall_pair_sums

    sums = kendall_pair_sums(given["a"], given["b"]).sum(axis=0)
    return {"tau": float(sums[0] / np.sqrt(sums[1] * sums[2]))}


def run() -> list[dict[str, Any]]:
    return [kernel_table(), stream_table(), ranking_table()]


def kernel_table() -> dict[str, Any]:
    examples = sized(50_000, 2000)
    fused = harness.isolated(prepare_epoch, scored, repeats=7, warmup=1, examples=examples)
    right = harness.isolated(prepare_epoch, ours, examples=examples)
    plain = harness.isolated(prepare_epoch, scored_by_numpy, repeats=3, examples=examples)
    scipy_half = harness.isolated(prepare_epoch, entr_of_mean, repeats=3, examples=examples)
    scipy_single = harness.isolated(prepare_epoch, entr_of_single_mean, repeats=3, examples=examples)
    faster = scipy_single.best / fused.best
    rows = [
        {
            "method": "hardpan.confusion.scores",
            "seconds": fused.best,
            "extra MB": fused.extra_megabytes,
            "mean, bits": fused.output["mean"],
            "× faster": faster,
            **harness.against(faster, at_least=5, unit="× faster than entr of the float32 mean"),
        },
        {
            "method": "the same, largest error against float64",
            "bits": right.output["worst"],
            **harness.against(right.output["worst"], at_most=1e-5, unit="bits"),
        },
        {"method": "the same without numba", "seconds": plain.best, "mean, bits": plain.output["mean"]},
        {
            "method": "scipy.special.entr of numpy's mean, float32",
            "seconds": scipy_single.best,
            "extra MB": scipy_single.extra_megabytes,
            "mean, bits": scipy_single.output["mean"],
        },
        {
            "method": "scipy.special.entr of numpy's mean, as given (float16)",
            "seconds": scipy_half.best,
            "extra MB": scipy_half.extra_megabytes,
            "mean, bits": scipy_half.output["mean"],
        },
    ]
    title = (
        f"One epoch: {SEEDS} seeds × {examples:,} examples × {CLASSES:,} classes in float16, in memory, one core"
    )
    return harness.table(title, rows, seed=0, notes=["rows are checked to be probabilities on the way"])


def stream_table() -> dict[str, Any]:
    rows = []
    sizes = ((sized(50_000, 1000), 2), (sized(12_500, 500), EPOCHS), (sized(50_000, 1000), EPOCHS))
    for examples, epochs in sizes:
        done = harness.isolated(prepare_store, stream, examples=examples, epochs=epochs)
        gigabytes = SEEDS * epochs * examples * CLASSES * 2 / 1e9
        peak = (done.extra_bytes or 0) / 1e9
        rows.append(
            {
                "examples": examples,
                "epochs": epochs,
                "store, GB": gigabytes,
                "seconds": done.best,
                "GB/s": gigabytes / done.best,
                "extra GB": peak,
                **harness.against(peak, at_most=1.0, unit="GB"),
            }
        )
    return harness.table("A whole store streamed", rows, seed=0, notes=["from the file cache of the machine"])


def ranking_table() -> dict[str, Any]:
    rows = []
    for examples in (sized(10_000, 1000), sized(100_000, 2000), sized(1_000_000, 5000)):
        done = harness.isolated(prepare_ranking, our_kendall, examples=examples)
        rows.append(
            {"examples": examples, "seconds": done.best, "τ": done.output["tau"], "extra MB": done.extra_megabytes}
        )
    note = "what a jackknife or bootstrap of Kendall's τ needs of every example; growth n log n"
    return harness.table("Sums over pairs for Kendall's τ", rows, seed=0, notes=[note])
