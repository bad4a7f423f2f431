"""The store of predictions: speed beside .npy files and Parquet, memory whatever N, overhead of the recorder."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench import harness

PEERS = ("zarr", "numpy", "pyarrow", "torch")
CORES = 1
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
FORMS = ("hardpan store", ".npy memmap", "Parquet")
# How far apart logits are: of a network that has learned little, and of one that is sure of most examples.
DATA = {"unsure": 3.0, "sure": 12.0}


def predictions(examples: int, classes: int, scale: float) -> np.ndarray[Any, Any]:
    from hardpan.predictions.checks import softmax

    rng = np.random.default_rng(0)
    rows = np.empty((examples, classes), dtype=np.float16)
    for start in range(0, examples, 5000):
        part = rows[start : start + 5000]
        part[:] = softmax(scale * rng.standard_normal(part.shape, dtype=np.float32))
    return rows


def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="hardpan-bench-"))


def prepare_write(form: str, examples: int, classes: int, scale: float) -> dict[str, Any]:
    import pyarrow.parquet  # noqa: F401  # imports are not measured

    import hardpan.predictions.store  # noqa: F401

    return {"form": form, "rows": predictions(examples, classes, scale), "folder": folder()}


def write(given: dict[str, Any]) -> dict[str, Any]:
    rows, place = given["rows"], given["folder"]
    shutil.rmtree(place)
    place.mkdir()
    begun = time.perf_counter()
    put(given["form"], place, rows)
    seconds = time.perf_counter() - begun
    size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    return {"seconds": seconds, "bytes": size}


def put(form: str, place: Path, rows: np.ndarray[Any, Any]) -> None:
    """Write so that it is on the disk afterwards, whatever the form."""
    if form == "hardpan store":
        from hardpan.predictions import Predictions

        made = Predictions.create(place / "run", ids=np.arange(len(rows)), n_classes=rows.shape[1])
        made.write(0, 0, rows)
        return
    if form == ".npy memmap":
        mapped = np.lib.format.open_memmap(place / "p.npy", mode="w+", dtype=rows.dtype, shape=rows.shape)
        mapped[:] = rows
        mapped.flush()
        return
    import pyarrow
    import pyarrow.parquet

    flat = pyarrow.array(rows.astype(np.float32).reshape(-1))
    table = pyarrow.table({"p": pyarrow.FixedSizeListArray.from_arrays(flat, rows.shape[1])})
    pyarrow.parquet.write_table(table, place / "p.parquet", row_group_size=8192)
    with open(place / "p.parquet", "rb") as file:
        os.fsync(file.fileno())


def prepare_read(form: str, examples: int, classes: int, scale: float) -> dict[str, Any]:
    given = prepare_write(form, examples, classes, scale)
    put(form, given["folder"], given["rows"])
    given["bytes"] = given.pop("rows").nbytes
    return given


def read(given: dict[str, Any]) -> dict[str, Any]:
    """Read every row once, about 16 MiB at a time, as a scorer does."""
    place, total = given["folder"], 0
    if given["form"] == "hardpan store":
        from hardpan.predictions import Predictions

        held = Predictions.open(place / "run")
        for start, stop in held.blocks():
            total += held.read(0, 0, start, stop).nbytes
    elif given["form"] == ".npy memmap":
        mapped = np.load(place / "p.npy", mmap_mode="r")
        for start in range(0, len(mapped), 8192):
            total += np.array(mapped[start : start + 8192]).nbytes
    else:
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(place / "p.parquet") as file:
            for batch in file.iter_batches(batch_size=8192):
                total += batch.column(0).flatten().to_numpy().astype(np.float16).nbytes
    assert total == given["bytes"]
    return {}


def speeds() -> dict[str, Any]:
    examples, classes = max(2000, round(50_000 * SCALE)), 1000
    size = 2 * examples * classes
    rows = []
    for name, scale in DATA.items():
        for form in FORMS:
            settings = {"form": form, "examples": examples, "classes": classes, "scale": scale}
            written = harness.isolated(prepare_write, write, repeats=3, **settings)
            got = harness.isolated(prepare_read, read, repeats=3, **settings)
            rows.append(
                {
                    "predictions": name,
                    "form": form,
                    "MB on disk": written.output["bytes"] / 1e6,
                    "write MB/s": size / written.best / 1e6,
                    "read MB/s": size / got.best / 1e6,
                    "extra MB to read": got.extra_megabytes,
                }
            )
    notes = [
        f"one seed and epoch of {examples:,} × {classes} float16, {size / 1e6:.0f} MB; best of 3; files in the "
        "page cache; writing ends when the data is on the disk",
        "the store also checks that every row is a probability, hashes every shard, and checks it when it is read; "
        "Parquet has no plain float16 in lists, so it holds float32",
    ]
    return harness.table("Writing and reading predictions", rows, seed=0, notes=notes)


def prepare_stream(examples: int, shuffled: bool) -> dict[str, Any]:
    from hardpan.predictions.checks import softmax
    from hardpan.predictions.recorder import Recorder

    probs = softmax(np.random.default_rng(0).standard_normal((1000, 100), dtype=np.float32))
    order = np.random.default_rng(1).permutation(examples) if shuffled else np.arange(examples)
    recorder = Recorder(folder() / "run", ids=np.arange(examples), n_classes=100)
    return {"probs": probs, "order": order, "recorder": recorder}


def stream(given: dict[str, Any]) -> dict[str, Any]:
    order, recorder = given["order"], given["recorder"]
    for start in range(0, len(order), 1000):
        recorder.record(given["probs"], order[start : start + 1000], epoch=0)
    recorder.close()
    assert recorder.done(epoch=0)
    held = recorder.predictions
    for start, stop in held.blocks():
        held.read(0, 0, start, stop)
    return {}


def memory() -> dict[str, Any]:
    rows = []
    for millions, shuffled in ((0.25, False), (1.0, False), (1.0, True)):
        examples = max(10_000, round(millions * 1e6 * SCALE / 1000) * 1000)
        m = harness.isolated(prepare_stream, stream, examples=examples, shuffled=shuffled)
        rows.append(
            {
                "examples": examples,
                "order": "shuffled" if shuffled else "of the ids",
                "MB of an epoch": examples * 200 / 1e6,
                "seconds": m.best,
                "extra MB": m.extra_megabytes,
                **({} if shuffled else harness.against(m.extra_megabytes, at_most=200, unit="MB")),
            }
        )
    notes = ["an epoch of 100 classes recorded in batches of 1,000, then read in blocks"]
    return harness.table("Memory of recording", rows, seed=0, notes=notes)


def prepare_training(classes: int, shuffled: bool, side: int = 32) -> dict[str, Any]:
    import torch

    from hardpan.predictions.recorder import Recorder

    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    n = max(512, round((4096 if device == "cpu" else 32_768 if side == 32 else 8192) * SCALE))
    return {
        "model": (small_network(classes) if device == "cpu" else resnet(classes, side)).to(device),
        "device": device,
        "x": torch.randn(n, 3, side, side, device=device),
        "y": torch.randint(0, classes, (n,), device=device),
        "order": torch.randperm(n) if shuffled else torch.arange(n),
        "recorder": Recorder(folder() / "run", ids=np.arange(n), n_classes=classes),
        "epoch": 0,
    }


def small_network(classes: int) -> Any:
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, classes),
    )


def resnet(classes: int, side: int) -> Any:
    """What a GPU is bought for: a network that keeps it busy."""
    from hardpan.training import classifiers

    return classifiers.build("resnet18", input_shape=(3, side, side), n_classes=classes)


def train(given: dict[str, Any]) -> dict[str, Any]:
    """One epoch of training and one of evaluation, with and without recording, and what the recorder takes.

    On the CPU that is the time of its calls and the CPU time of its threads beside them; one core gives both.
    A GPU runs behind its calls, so there it is the difference between the two epochs.
    """
    given["epoch"] += 1
    whole, calls, beside = epoch_seconds(given, recording=True)
    without, _, _ = epoch_seconds(given, recording=False)
    inside = whole - without if given["device"] == "cuda" else calls + max(beside, 0.0)
    return {"whole": whole, "without": without, "calls": calls, "inside": inside, "device": given["device"]}


def of_other_threads() -> float:
    """CPU seconds that all threads but this one have used."""
    return time.process_time() - time.thread_time()


def epoch_seconds(given: dict[str, Any], recording: bool) -> tuple[float, float, float]:
    """Seconds of an epoch, of the calls of the recorder, and CPU seconds of other threads outside these calls."""
    import torch

    model, x, y, recorder = given["model"], given["x"], given["y"], given["recorder"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    gpu, batch = given["device"] == "cuda", 512 if given["device"] == "cuda" else 128
    precision = torch.autocast(given["device"], torch.bfloat16, enabled=gpu)
    begun, calls, within, others = time.perf_counter(), 0.0, 0.0, of_other_threads()
    for rows in torch.randperm(len(x)).split(batch):
        optimizer.zero_grad()
        with precision:
            loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        for rows in given["order"].split(batch):
            with precision:
                outputs = model(x[rows])
            at, used = time.perf_counter(), of_other_threads()
            if recording:
                recorder.record(outputs, rows, epoch=given["epoch"])
            calls += time.perf_counter() - at
            within += of_other_threads() - used
    if gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - begun, calls, of_other_threads() - others - within


RECORDED = ((10, False), (10, True), (1000, False), (1000, True))  # classes; whether rows come shuffled


def overhead() -> dict[str, Any]:
    rows = []
    for classes, shuffled in RECORDED:
        m = harness.isolated(prepare_training, train, repeats=3, warmup=1, classes=classes, shuffled=shuffled)
        share = m.output["inside"] / m.output["whole"]
        rows.append(
            {
                "device": m.output["device"],
                "classes": classes,
                "order": "shuffled" if shuffled else "of the ids",
                "seconds an epoch": m.output["whole"],
                "without recording": m.output["without"],
                "in calls of the recorder": m.output["calls"],
                "all it takes": m.output["inside"],
                "share": share,
                **harness.against(share, at_most=0.03),
            }
        )
    notes = [
        "a small convolutional network on 32 × 32 images, one core: an epoch is training and a pass of evaluation; "
        "softmax, rounding, checks, hashing and writing to disk all count as the recorder's, also where its "
        "threads do them beside the training; on a GPU, where resnet18 is trained, all it takes is "
        "the difference between epochs with and without it"
    ]
    return harness.table("Overhead of the recorder", rows, seed=0, notes=notes)


def shard_check() -> dict[str, Any]:
    """Reading with and without the comparison of every shard with its marker, by turns in one process."""
    from hardpan.predictions import Predictions

    rows = []
    for classes, examples in ((10, 1_000_000), (1000, 50_000)):
        size = max(2000, round(examples * SCALE))
        path = folder()
        put("hardpan store", path, predictions(size, classes, DATA["unsure"]))
        spent: dict[str, list[float]] = {"read_block": [], "read": []}
        for turn in range(101):
            for name in sorted(spent, reverse=turn % 2 == 0):
                held = Predictions.open(path / "run")  # one that has checked nothing yet
                begun = time.process_time()
                for start, stop in held.blocks():
                    getattr(held, name)(0, 0, start, stop)
                spent[name].append(time.process_time() - begun)
        shutil.rmtree(path)
        without, checked = (statistics.median(spent[name]) for name in ("read_block", "read"))
        rows.append(
            {"classes": classes, "MB": 2e-6 * size * classes, "CPU ms without": 1e3 * without}
            | {"CPU ms with": 1e3 * checked, "×": checked / without}
            | harness.against(checked / without, at_most=1.05, unit="×")
        )
    notes = ["CPU time of reading all rows once, median of 101, by turns; files in the page cache"]
    return harness.table("Comparing every shard with its marker", rows, seed=0, notes=notes)


TABLES = {"speeds": speeds, "memory": memory, "overhead": overhead, "shard_check": shard_check}


def run() -> list[dict[str, Any]]:
    return [measure() for measure in TABLES.values()]
