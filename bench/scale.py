"""ImageNet's size on one machine: predictions of 1,331,167 examples × 1,000 classes recorded, scored and compared,
near-duplicates among a million descriptors, and folders of very many images.

Predictions are synthetic: softmax of Gaussian logits with a top class from undecided to certain, in float16, where
about three in ten numbers round to zero. The disk holds three seeds of one epoch, and one of a second model.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import shutil
import signal
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench import harness

PEERS = ("faiss-cpu", "numba", "zarr", "distributed", "ray")
CORES = 2
SCALE = float(os.environ.get("BENCH_SCALE", "1"))

TRAIN, TEST, CLASSES = 1_281_167, 50_000, 1000
SEEDS, EPOCHS = 3, 5  # what the whole would be; the disk holds one epoch
BATCH = 1024
MOST = 2000  # MB of a process, whatever N
GROWN, FILES = 120_000, 100_000  # examples on clusters; images in a folder
REFERENCES, QUERIES, SLICE, WIDTH = 1_000_000, 50_000, 2000, 64  # descriptors; the slice is timed
LEVELS, EACH = 32, 64
WRONG = 0.01  # of the recorded labels


def sized(full: int, least: int = 1) -> int:
    return max(least, round(full * SCALE))


class Outputs:
    """Probabilities of any rows of a model, without keeping them: rolled rows of a pool of softmax outputs."""

    def __init__(self, examples: int, classes: int, model: int) -> None:
        rng = np.random.default_rng(0)
        logits = 2.5 * rng.standard_normal((LEVELS, EACH, classes), dtype=np.float32)
        logits[:, :, 0] = np.linspace(2, 24, LEVELS)[:, None] + rng.standard_normal((LEVELS, EACH))
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        pool = (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float16)
        twice = np.concatenate([pool, pool[..., :-1]], axis=-1)
        # Window c of a row has its top class at place -c.
        self._windows = np.lib.stride_tricks.sliding_window_view(twice, classes, axis=-1)
        self.labels = rng.integers(0, classes, examples)
        wrong = rng.random(examples) < WRONG
        self.given = np.where(wrong, (self.labels + rng.integers(1, classes, examples)) % classes, self.labels)
        self._ease = rng.normal(18, 7, examples) + np.random.default_rng(1 + model).normal(0, 2, examples)
        self._classes, self._model = classes, model

    def rows(self, seed: int, epoch: int, start: int, stop: int) -> np.ndarray[Any, Any]:
        rng = np.random.default_rng([self._model, seed, epoch, start])
        ease = self._ease[start:stop] + epoch + rng.normal(0, 2, stop - start)
        level = np.clip(ease, 0, LEVELS - 1).astype(int)
        miss = rng.random(stop - start) > 1 / (1 + np.exp((10 - ease) / 3))
        answer = np.where(miss, rng.integers(0, self._classes, stop - start), self.labels[start:stop])
        rows: np.ndarray[Any, Any] = self._windows[
            level, rng.integers(0, EACH, stop - start), -answer % self._classes
        ]
        return rows


def names(examples: int) -> tuple[list[str], np.ndarray[Any, Any]]:
    ids = [f"n{i:08d}" for i in range(examples)]
    split = np.where(np.arange(examples) < examples * TRAIN // (TRAIN + TEST), "train", "test")
    return ids, split


def cpu_seconds() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    wall, used = time.perf_counter(), cpu_seconds()
    answer = work()
    return answer, {"wall": time.perf_counter() - wall, "cpu": cpu_seconds() - used}


def forget(place: Path) -> None:
    """Write out what the file cache has of a folder, and drop it: reading then comes from the disk."""
    for file in place.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def prepare_record(place: str, examples: int, classes: int, model: int, seeds: int) -> dict[str, Any]:
    from hardpan.predictions.recorder import Recorder

    ids, split = names(examples)
    outputs = Outputs(examples, classes, model)
    told = {"ids": ids, "n_classes": classes, "labels": outputs.given, "split": split, "outputs": "probabilities"}
    return {"recorder": Recorder(place, **told), "outputs": outputs, "seeds": seeds}


def record(given: dict[str, Any]) -> dict[str, float]:
    """Record an epoch of every seed in batches, in the order of the ids; what making them takes is not counted."""
    recorder, outputs = given["recorder"], given["outputs"]
    examples, inside, made = len(outputs.labels), 0.0, 0.0
    begun = cpu_seconds()
    for seed in range(given["seeds"]):
        for start in range(0, examples, BATCH):
            index = np.arange(start, min(start + BATCH, examples))
            used = time.thread_time()
            rows = outputs.rows(seed, 0, start, start + len(index))
            made += time.thread_time() - used
            at = time.perf_counter()
            recorder.record(rows, index, seed=seed, epoch=0)
            inside += time.perf_counter() - at
    at = time.perf_counter()
    recorder.close()
    return {"wall": inside + time.perf_counter() - at, "cpu": cpu_seconds() - begun - made}


def prepare_steps(place: str) -> Path:
    import hardpan

    hardpan.confusion.scores(np.full((2, 1, 8, 16), 1 / 16, dtype=np.float16))  # loads what was compiled before
    forget(Path(place))
    return Path(place)


def score(place: Path) -> dict[str, float]:
    import hardpan

    found, spent = timed(lambda: hardpan.confusion.scores(place / "large"))
    other = hardpan.confusion.scores(place / "small")
    np.savez(place / "scores.npz", ids=found.ids, large=found.values, small=other.values)
    return spent | {"result": float(found.values.mean())}


def issues(place: Path) -> dict[str, float]:
    import hardpan

    found, spent = timed(lambda: hardpan.confusion.label_issues(place / "large"))
    return spent | {"result": len(found)}


def kept_scores(place: Path) -> tuple[Any, Any]:
    from hardpan.confusion import Scores

    with np.load(place / "scores.npz") as kept:
        ids = kept["ids"]
        first, second = (Scores(ids, kept[name], n_classes=CLASSES) for name in ("large", "small"))
    return first, second


def error_by_band(place: Path) -> dict[str, float]:
    import hardpan

    small = kept_scores(place)[1]
    right = hardpan.Predictions.open(place / "large")
    found, spent = timed(lambda: hardpan.confusion.bands(small, right))
    return spent | {"result": found.rho.value}


def hard_subset(place: Path) -> dict[str, float]:
    import hardpan

    large = kept_scores(place)[0]
    found, spent = timed(lambda: hardpan.confusion.subset(large, fraction=0.1))
    return spent | {"result": len(found)}


def transfer(place: Path) -> dict[str, float]:
    import hardpan

    large, small = kept_scores(place)
    found, spent = timed(lambda: hardpan.confusion.transfer(small, large))
    return spent | {"result": found.tau.value}


# What is read of the store: seeds of which epochs; and what the column "result" has.
STEPS: dict[str, tuple[Callable[[Path], dict[str, float]], int, str]] = {
    "score": (score, SEEDS, "mean score, bits"),
    "label issues": (issues, SEEDS, "labels that differ from the prediction"),
    "error by band": (error_by_band, SEEDS, "ρ of error and the second model's score"),
    "hardest tenth": (hard_subset, 0, "examples"),
    "transfer": (transfer, 0, "Kendall's τ of the two models"),
}


def machine_speeds(place: Path, size: int) -> list[dict[str, Any]]:
    """Bytes per second of the disk and of a copy in memory: what bounds everything else."""
    block = np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)
    target, again = place / "plain", np.empty_like(block)
    again[:] = 1

    def write() -> None:
        with target.open("wb") as file:
            file.write(block.data)
            os.fsync(file.fileno())

    _, written = timed(write)
    forget(place)
    _, read = timed(target.read_bytes)
    _, copied = timed(lambda: np.copyto(again, block))
    target.unlink()
    rows = []
    for name, spent in (("disk, write and sync", written), ("disk, read", read), ("memory, copy", copied)):
        rows.append(
            {"step": name, "GB": size / 1e9, "seconds": spent["wall"], "CPU seconds": spent["cpu"],
             "MB/s": size / 1e6 / spent["wall"], "MB/s of CPU time": size / 1e6 / max(spent["cpu"], 1e-3)}
        )  # fmt: skip
    return rows


def one_machine(place: Path) -> dict[str, Any]:
    examples = sized(TRAIN + TEST, 5000)
    epoch = 2 * examples * CLASSES / 1e9
    rows = machine_speeds(place, sized(512 * 2**20, 2**20))

    def add(step: str, m: harness.Measurement, gigabytes: float, what: str = "") -> None:
        peak = ((m.before_bytes or 0) + (m.extra_bytes or 0)) / 1e6
        row = {"step": step, "GB": gigabytes or None, "seconds": m.output["wall"], "CPU seconds": m.output["cpu"]}
        row["MB/s"] = 1e3 * gigabytes / m.output["wall"] or None
        row["MB/s of CPU time"] = 1e3 * gigabytes / max(m.output["cpu"], 1e-3) or None
        row["CPU seconds for 3 × 5"] = m.output["cpu"] * EPOCHS if gigabytes and step != "error by band" else None
        row |= {"peak MB of the process": peak, "result": m.output.get("result"), "of": what}
        rows.append(row | harness.against(peak, at_most=MOST, unit="MB"))

    for model, (name, seeds) in enumerate((("large", SEEDS), ("small", 1))):
        told = {"place": str(place / name), "examples": examples, "classes": CLASSES}
        m = harness.isolated(prepare_record, record, cores=CORES, model=model, seeds=seeds, **told)
        add(f"record {seeds} seed{'s' if seeds > 1 else ''}", m, seeds * epoch)
    on_disk = sum(file.stat().st_size for file in place.rglob("*") if file.is_file()) / 1e9
    for step, (work, seeds, what) in STEPS.items():
        add(step, harness.isolated(prepare_steps, work, cores=CORES, place=str(place)), seeds * epoch, what)
    notes = [
        f"{examples:,} examples × {CLASSES:,} classes, float16: {epoch:.2f} GB a seed and epoch, {on_disk:.1f} GB "
        f"on disk for four of them; three seeds and five epochs would be {15 * epoch:.0f} GB, and "
        f"{15 * on_disk / 4:.0f} GB on disk: extrapolated by the growth below (error by band reads one epoch)",
        "GB are those of the numbers; the file cache is dropped before every step; times of one process with two "
        "cores; the peak is the whole of the process, with Python and the libraries",
    ]
    return harness.table("ImageNet's size, one machine", rows, seed=0, notes=notes)


def fill(place: Path, examples: int, classes: int, seeds: int, epochs: int, block: int) -> Path:
    from hardpan import Predictions

    outputs = Outputs(examples, classes, 0)
    into = Predictions.create(place, ids=names(examples)[0], n_classes=classes, labels=outputs.given, block=block)
    for seed in range(seeds):
        for epoch in range(epochs):
            for start in range(0, examples, block):
                rows = outputs.rows(seed, epoch, start, min(start + block, examples))
                into.write(seed, epoch, rows, start)
    return place


def kill_a_worker(backend: str) -> bool:
    """Kill one worker process of the cluster that this process has started."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        try:
            line = " ".join(child.cmdline())
        except psutil.Error:
            continue
        if backend == "ray":
            worker = line.startswith(("ray::IDLE", "ray::run_task"))
        else:
            worker = "spawn_main" in line and not child.children()
        if worker:
            child.send_signal(signal.SIGKILL)
            return True
    return False


@contextlib.contextmanager
def cluster(backend: str) -> Iterator[str]:
    """The address of a cluster of two workers on this machine; empty for threads and processes."""
    if backend == "dask":
        import distributed

        options = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
        with distributed.LocalCluster(**options) as local:
            yield local.scheduler_address
    elif backend == "ray":
        import ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        try:
            yield "auto"
        finally:
            ray.shutdown()
    else:
        yield ""


def prepare_cluster(place: str, backend: str, kill: bool) -> dict[str, Any]:
    import hardpan

    here = hardpan.confusion.scores(place)
    return {"place": place, "backend": backend, "kill": kill, "here": here.values}


def on_cluster(given: dict[str, Any]) -> dict[str, Any]:
    import hardpan

    killed: list[bool] = []

    def progress(step: str, done: float) -> None:
        if given["kill"] and not killed and done >= 0.2:
            killed.append(kill_a_worker(given["backend"]))

    def measured() -> Any:
        with cluster(given["backend"]) as address, hardpan.parallel(given["backend"], workers=2, address=address):
            return hardpan.confusion.scores(given["place"], progress=progress)

    found, spent = timed(measured)
    return spent | {"same": bool(np.array_equal(found.values, given["here"])), "killed": any(killed)}


def clusters(place: Path) -> dict[str, Any]:
    examples = sized(GROWN, 4000)
    fill(place, examples, CLASSES, SEEDS, 1, 4096 if SCALE == 1 else 512)
    rows = []
    for backend in ("threads", "processes", "dask", "ray"):
        for kill in (False, True) if backend in ("dask", "ray") else (False,):
            m = harness.isolated(
                prepare_cluster, on_cluster, cores=CORES, place=str(place), backend=backend, kill=kill
            )
            row = {"back end": backend, "worker killed": m.output["killed"], "seconds": m.output["wall"],
                   "same bits": m.output["same"]}  # fmt: skip
            rows.append(row | harness.against(float(m.output["same"]), at_least=1, unit="same bits"))
    notes = [
        f"scores of {SEEDS} seeds × {examples:,} examples × {CLASSES:,} classes with two workers; a cluster is "
        "started for the call and its time counts; one worker process is killed after a fifth of the tasks"
    ]
    return harness.table("The same scores on two processes", rows, seed=0, notes=notes)


TURNS = 9
SMALL = {"examples": 30_000, "classes": 100, "epochs": 2, "workers": 1}
GROWTH = {
    "examples": (30_000, 60_000, 120_000),
    "classes": (50, 100, 200, 400),
    "epochs": (2, 4, 8),
    "workers": (1, 2),
}


def prepare_growth(place: str) -> dict[str, Any]:
    stores: dict[tuple[int, int, int], Path] = {}
    for what, sizes in GROWTH.items():
        for size in sizes:
            told = SMALL | {what: size}
            key = (sized(told["examples"], 1000), told["classes"], told["epochs"])
            if key not in stores:
                stores[key] = fill(Path(place) / str(len(stores)), key[0], key[1], 2, key[2], 2048)
    return {"stores": stores}


def grow(given: dict[str, Any]) -> list[float]:
    import hardpan

    settings = [SMALL | {what: size} for what, sizes in GROWTH.items() for size in sizes]
    answers = [math.inf] * len(settings)
    for _ in range(TURNS):  # by turns: a slow minute of the machine meets all of them
        for at, told in enumerate(settings):
            store = given["stores"][sized(told["examples"], 1000), told["classes"], told["epochs"]]
            with hardpan.parallel("threads", workers=told["workers"]):
                spent = timed(lambda at=store: hardpan.confusion.scores(at))[1]["cpu"]
            answers[at] = min(answers[at], spent)
    return answers


def growth(place: Path) -> dict[str, Any]:
    flat = iter(harness.isolated(prepare_growth, grow, cores=CORES, place=str(place)).output)
    rows = []
    for what, sizes in GROWTH.items():
        seconds = [next(flat) for _ in sizes]
        power = harness.exponent(sizes, seconds)
        row = {"grows with": what, "from": sizes[0], "to": sizes[-1], "CPU seconds at first": seconds[0],
               "at last": seconds[-1], "exponent": power}  # fmt: skip
        most = 0.2 if what == "workers" else 1.1
        rows.append(row | harness.against(power, at_most=most))
    notes = [
        f"CPU seconds of scores from a store, best of {TURNS} by turns, around {SMALL['examples']:,} examples × "
        f"{SMALL['classes']} classes × 2 seeds × 2 epochs; "
        "with workers an exponent of 0 means that no work is done twice"
    ]
    return harness.table("Growth of the cost of scores", rows, seed=0, notes=notes)


def descriptors(rows: int, seed: int) -> np.ndarray[Any, Any]:
    """Unit vectors with most of their variance in 16 of 64 directions."""
    rng = np.random.default_rng(seed)
    basis = np.random.default_rng(9).standard_normal((16, WIDTH), dtype=np.float32)
    found = np.empty((rows, WIDTH), np.float32)
    for start in range(0, rows, 50_000):
        part = found[start : start + 50_000]
        part[:] = rng.standard_normal((len(part), 16), dtype=np.float32) @ basis
        part += 0.5 * rng.standard_normal(part.shape, dtype=np.float32)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found


def prepare_search(queries: int, references: int) -> dict[str, Any]:
    from hardpan.neighbors.near_duplicates import near_duplicates

    x, y = descriptors(queries, 0), descriptors(references, 1)
    near_duplicates(x[:20], y[:200], k=10)  # compiles, or loads what was compiled before
    return {"x": x, "y": y}


def search(given: dict[str, Any]) -> dict[str, float]:
    from hardpan.neighbors.near_duplicates import near_duplicates

    found, spent = timed(lambda: near_duplicates(given["x"], given["y"], k=10))
    return spent | {"sum": float(found.indices.sum())}


def faiss_search(given: dict[str, Any]) -> dict[str, float]:
    import faiss

    faiss.omp_set_num_threads(1)

    def ask() -> Any:
        index = faiss.IndexFlatL2(WIDTH)
        index.add(given["y"])
        return index.search(given["x"], 10)

    found, spent = timed(ask)
    return spent | {"sum": float(found[1].sum())}


def prepare_blocks(backend: str, queries: int, references: int) -> dict[str, Any]:
    from hardpan.neighbors.near_duplicates import near_duplicates

    given = prepare_search(queries, references)
    return given | {"backend": backend, "here": near_duplicates(given["x"], given["y"], k=10)}


def search_blocks(given: dict[str, Any]) -> dict[str, Any]:
    import hardpan
    from hardpan.neighbors.near_duplicates import near_duplicates

    with cluster(given["backend"]) as address, hardpan.parallel(given["backend"], workers=2, address=address):
        found, spent = timed(lambda: near_duplicates(given["x"], given["y"], k=10))
    here = given["here"]
    same = np.array_equal(found.indices, here.indices) and np.array_equal(found.distances, here.distances)
    return spent | {"same": bool(same)}


def prepare_recall(queries: int, references: int) -> dict[str, Any]:
    from bench._images import cifar

    x, source = cifar(references)
    return {"x": x[:queries], "y": x, "source": source}


def recall(given: dict[str, Any]) -> dict[str, Any]:
    from hardpan.neighbors.near_duplicates import near_duplicates

    found, spent = timed(lambda: near_duplicates(given["x"], given["y"], k=10, metric="ssim", recall_queries=50))
    assert found.recall is not None
    told = {"value": found.recall.value, "low": found.recall.low, "high": found.recall.high}
    return spent | told | {"source": given["source"]}


def search_table() -> dict[str, Any]:
    queries, references = sized(SLICE, 100), sized(REFERENCES, 5000)
    rows, base = [], 0.0
    for name, work in (("faiss-cpu Flat", faiss_search), ("hardpan near_duplicates", search)):
        m = harness.isolated(prepare_search, work, queries=queries, references=references)
        peak = ((m.before_bytes or 0) + (m.extra_bytes or 0)) / 1e6
        row = {"search": name, "queries": queries, "references": references, "CPU seconds": m.output["cpu"],
               "ns a pair": 1e9 * m.output["cpu"] / queries / references,
               "CPU minutes for 50,000 queries": m.output["cpu"] * QUERIES / queries / 60,
               "peak MB of the process": peak, "sum of numbers": m.output["sum"]}  # fmt: skip
        if work is search:
            row |= harness.against(base / m.output["cpu"], at_least=1.0, unit="× faiss's CPU time")
        base = m.output["cpu"]
        rows.append(row)
    for backend in ("processes", "dask", "ray"):
        told = {"queries": sized(1000, 50), "references": sized(200_000, 5000)}
        m = harness.isolated(prepare_blocks, search_blocks, cores=CORES, backend=backend, **told)
        row = {"search": f"hardpan, blocks on {backend}", **told, "same bits": m.output["same"]}
        rows.append(row | harness.against(float(m.output["same"]), at_least=1, unit="same bits"))
    told = {"queries": sized(300, 60), "references": sized(5000, 500)}
    m = harness.isolated(prepare_recall, recall, **told)
    row = {"search": "hardpan, by SSIM: recall of the filter", **told, "CPU seconds": m.output["cpu"],
           "recall": m.output["value"], "low": m.output["low"], "high": m.output["high"]}  # fmt: skip
    rows.append(row | harness.against(m.output["low"], at_least=0.9))
    notes = [
        f"{WIDTH} float32 numbers a descriptor; the ten nearest, exact; one thread; the whole is extrapolated from "
        "a slice of the queries, each of which costs the same",
        f"recall of the ten nearest by SSIM over all pairs of 50 queries, Clopper–Pearson: {m.output['source']}",
    ]
    return harness.table("Near-duplicates among a million descriptors", rows, seed=0, notes=notes)


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    side = len(pixels)
    lines = np.concatenate([np.zeros((side, 1), np.uint8), pixels.reshape(side, -1)], axis=1)
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(lines.tobytes(), 1)) + chunk(b"IEND", b"")


def make_folder(place: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    for number in range(100):
        (place / "train" / f"class{number:02d}").mkdir(parents=True)
        (place / "test" / f"class{number:02d}").mkdir(parents=True)
    for number in range(count):
        small = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        part = "test" if number % 10 == 9 else "train"
        path = place / part / f"class{(number // 10) % 100:02d}" / f"{number:07d}.png"
        path.write_bytes(png(small.repeat(8, axis=0).repeat(8, axis=1)))


def prepare_folder(place: str) -> Path:
    import hardpan.data.images as reader

    reader.IN_MEMORY = 0  # as a folder of a million is read
    return Path(place)


def open_folder(place: Path) -> dict[str, Any]:
    import hardpan

    before = own_megabytes()
    found, spent = timed(lambda: hardpan.Dataset.open(place))
    return spent | {"before": before, "after": own_megabytes(), "pixels": found.x.nbytes / 1e6}


def own_megabytes() -> float:
    """What only this process has in memory: without pages of files, which the system takes back at need."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("RssAnon:"))


def open_explorer(place: Path) -> dict[str, float]:
    """The explorer's table of the folder, its first page and the sheet of pictures read from the files."""
    import hardpan
    from hardpan.auditing import example_table
    from hardpan.web.explorer.query import ExampleQueries
    from hardpan.web.explorer.site import Thumbnails

    dataset = hardpan.Dataset.open(place)
    parts = {part: np.flatnonzero(dataset.split == part) for part in ("train", "test")}
    table = example_table.join_example_table(
        dataset, parts, {"confusion": np.random.default_rng(0).random(len(dataset))}
    )

    def page() -> int:
        explorer = ExampleQueries(example_table.Examples(table))
        rows = explorer.order((), "confusion", descending=True)[:120]
        return len(Thumbnails(None, table["path"].to_pylist(), place).sheet(rows))

    size, spent = timed(page)
    return spent | {"size": float(size)}


def folder_table(place: Path) -> dict[str, Any]:
    count = sized(FILES, 500)
    make_folder(place, count)
    rows = []
    m = harness.isolated(prepare_folder, open_folder, place=str(place))
    times = 1_000_000 / count
    memory = m.output["before"] + (m.output["after"] - m.output["before"]) * times
    row = {"what": "open the folder", "files": count, "CPU seconds": m.output["cpu"],
           "µs an image": 1e6 * m.output["cpu"] / count, "MB of its own": m.output["after"],
           "MB of pixels, on disk": m.output["pixels"],
           "for 1,000,000: CPU seconds": m.output["cpu"] * times, "MB": memory}  # fmt: skip
    rows.append(row | harness.against(memory, at_most=MOST, unit="MB"))
    m = harness.isolated(prepare_folder, open_explorer, place=str(place))
    row = {"what": "explorer: first ordered page with 120 pictures", "files": count, "CPU seconds": m.output["cpu"]}
    rows.append(row | harness.against(m.output["cpu"], at_most=2.0, unit="s"))
    notes = [
        "images of 32 × 32 × 3 in 100 classes, read as more than 1 GiB of pixels are: into a temporary file, of "
        "which the system keeps what it has room for; MB of its own are what only this process has (RssAnon)"
    ]
    return harness.table("A folder of very many images", rows, seed=0, notes=notes)


def in_folder(measure: Any) -> Any:
    """A measurement in a folder of its own, which is removed afterwards; TMPDIR says where, 8 GB at most."""

    def measured() -> dict[str, Any]:
        place = Path(tempfile.mkdtemp(prefix="hardpan-scale-"))
        try:
            return dict(measure(place))
        finally:
            shutil.rmtree(place, ignore_errors=True)

    return measured


TABLES = {
    "one_machine": in_folder(one_machine),
    "clusters": in_folder(lambda place: clusters(place / "store")),
    "growth": in_folder(growth),
    "search": search_table,
    "folder": in_folder(lambda place: folder_table(place / "images")),
}


def run() -> list[dict[str, Any]]:
    return [measure() for measure in TABLES.values()]
