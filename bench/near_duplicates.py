"""The ten nearest images of 10,000 among 60,000, exactly: time and memory beside faiss and scikit-learn."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from bench import harness
from bench._images import cifar, natural

PEERS = ("faiss-cpu", "scikit-learn")
CORES = 2
SCALE = float(os.environ.get("BENCH_SCALE", "1"))


def prepare(queries: int, references: int, real: bool) -> dict[str, Any]:
    x, source = cifar(references) if real else (natural(references, 0), "made-up images")
    return {"q": x[-queries:].reshape(queries, -1), "r": x.reshape(references, -1), "source": source}


def ours(given: dict[str, Any]) -> dict[str, Any]:
    from hardpan.replicate import near_duplicates

    distances, indices = near_duplicates(given["q"], given["r"], k=10)
    return summary(distances, indices, given)


def faiss_flat(given: dict[str, Any]) -> dict[str, Any]:
    import faiss

    faiss.omp_set_num_threads(CORES)
    index = faiss.IndexFlatL2(given["r"].shape[1])
    index.add(given["r"].astype(np.float32))
    squared, indices = index.search(given["q"].astype(np.float32), 10)
    return summary(np.sqrt(np.maximum(squared, 0)), indices, given)


def scikit_learn(given: dict[str, Any]) -> dict[str, Any]:
    from sklearn.neighbors import NearestNeighbors

    model = NearestNeighbors(n_neighbors=10, algorithm="brute").fit(given["r"].astype(np.float32))
    distances, indices = model.kneighbors(given["q"].astype(np.float32))
    return summary(distances, indices, given)


def summary(distances: Any, indices: Any, given: dict[str, Any]) -> dict[str, Any]:
    """What is compared: the sum of all distances, and of those of some queries computed anew in integers."""
    rows = np.linspace(0, len(given["q"]) - 1, 40).astype(int)
    difference = given["q"][rows, None, :].astype(np.int64) - given["r"][indices[rows]]
    exact = np.sqrt((difference**2).sum(axis=2))
    return {
        "sum": float(np.sum(distances)),
        "off": float(np.abs(exact - distances[rows]).max()),
        "source": given["source"],
    }


def run() -> list[dict[str, Any]]:
    kinds = {"made-up images with the spectrum of photographs": False}
    if os.environ.get("BENCH_CIFAR"):
        kinds = {"CIFAR-10": True} | kinds
    return [compare(name, real) for name, real in kinds.items()]


def compare(images: str, real: bool) -> dict[str, Any]:
    queries, references = max(100, round(10_000 * SCALE)), max(2000, round(60_000 * SCALE))
    measured = {}
    for work in (ours, faiss_flat, scikit_learn):
        measured[work.__name__] = harness.isolated(
            prepare,
            work,
            repeats=2,
            warmup=1 if SCALE < 0.2 else 0,
            cores=CORES,
            queries=queries,
            references=references,
            real=real,
        )
    fastest = min(measured["faiss_flat"].best, measured["scikit_learn"].best)
    rows = []
    names = {
        "ours": "hardpan near_duplicates",
        "faiss_flat": "faiss-cpu Flat",
        "scikit_learn": "scikit-learn brute",
    }
    for key, m in measured.items():
        row = {
            "search": names[key],
            "seconds": m.best,
            "times the faster peer": fastest / m.best,
            "largest error of a distance": m.output["off"],
            "sum of distances": m.output["sum"],
            "extra MB": m.extra_megabytes,
        }
        if key == "ours":
            row |= harness.against(fastest / m.best, at_least=1.0, unit="×")
        rows.append(row)
    memory = measured["ours"].extra_megabytes or 0.0
    rows.append(
        {"search": "hardpan, memory", "extra MB": memory} | harness.against(memory, at_most=2000, unit="MB")
    )
    notes = [
        f"{queries:,} × {references:,} images of 3,072 bytes; {CORES} cores",
        "CIFAR-10 where BENCH_CIFAR names its npz file",
        "errors against distances computed in integers; peers work in float32",
    ]
    return harness.table(f"Ten nearest images, exact l2: {images}", rows, seed=0, notes=notes)
