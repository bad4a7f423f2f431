"""Train ensembles on a GPU and bring back scores, not predictions: confusion_figures.py draws from them.

    PYTHONPATH=src python3 -m reproductions.confusion_device --data cifar10 --out OUT --minutes 8
    PYTHONPATH=src python3 -m reproductions.confusion_device --data cifar10 --out OUT --minutes 8 \\
        --groups OUT/resnet18.npz --objectives erm,groupdro,reweight,upsample,subsample

The first call trains every architecture of --models with every seed, several processes at a time on the one device,
and writes OUT/MODEL.npz as its seeds advance; it ends before --minutes are over, whatever is done by then. The
second trains one architecture with several objectives on two groups, cut at half the score's range, and writes
OUT/mitigation.npz. With --rates 0.4,0.1,0.025 it first tries each learning rate with each objective on nine tenths
of the training examples, for as long as it will train (or for --sweep-epochs), and takes the rate with the smallest
error on the last tenth. Subsampling then has about as many steps as the others, in more epochs of smaller batches;
--lengths '{"reweight": 5}' gives an objective five times the epochs. Both formats are described in
confusion_figures.py. It needs NumPy, torch and hardpan.training.
Probabilities stay in a temporary folder, half precision, one file a run; a model's npz is made from them epoch by
epoch. Killed or out of time, nothing is lost that an npz was made of, and ``finished`` says whether a run is whole.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardpan.data.dataset import Dataset

STEPS = 65535  # entropies are kept as whole numbers of log2(C) / 65535
REFRESH_SECONDS = 60.0
RESERVE_SECONDS = 25.0  # for the last npz files, and for processes to end
OBJECTIVES = "erm,groupdro,reweight,upsample,subsample"


class Collector:
    """Gathers what the figures need from probabilities that come epoch by epoch, on whatever device they are.

    ``add`` takes (S, N, C) of one epoch: S seeds, N examples, C classes. What it keeps is small: S + 1 entropies an
    example and epoch, and for the last epoch which seeds are right.
    """

    def __init__(self, labels: NDArray[np.int64], train: NDArray[np.bool_], n_classes: int) -> None:
        self.labels, self.train, self.n_classes = labels, train, n_classes
        self.entropy: list[NDArray[np.uint16]] = []
        self.accuracy: list[NDArray[np.float32]] = []
        self.total = np.zeros(len(labels))
        self.correct = np.zeros((0, len(labels)), dtype=bool)
        self.predicted = np.zeros((0, len(labels)), dtype=np.uint16)

    @torch.no_grad()
    def add(self, probs: Tensor) -> None:
        """Take one epoch."""
        wide = probs.float()
        bits = [_entropy(wide.mean(dim=0)), *(_entropy(one) for one in wide)]
        scaled = torch.stack(bits) / math.log2(self.n_classes) * STEPS
        self.entropy.append(scaled.round().clamp(0, STEPS).to(torch.int32).cpu().numpy().astype(np.uint16))
        self.total += bits[0].double().cpu().numpy()
        self.predicted = wide.argmax(dim=-1).cpu().numpy().astype(np.uint16)
        self.correct = self.predicted == self.labels
        parts = [
            self.correct[:, mask].mean(axis=1) if mask.any() else np.full(len(wide), np.nan)
            for mask in (self.train, ~self.train)
        ]
        self.accuracy.append(np.stack(parts, axis=1).astype(np.float32))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of the npz: see confusion_figures.py."""
        return {
            "labels": self.labels.astype(np.uint16),
            "train": self.train,
            "n_classes": np.array(self.n_classes),
            "scores": (self.total / max(1, len(self.entropy))).astype(np.float32),
            "entropy": np.stack(self.entropy, axis=1),
            "correct": self.correct,
            "predicted": self.predicted,
            "accuracy": np.stack(self.accuracy, axis=1),
        }


def _entropy(probs: Tensor) -> Tensor:
    """Bits of entropy along the last axis; 0·log 0 = 0."""
    return -(probs * torch.log2(probs.clamp_min(1e-30))).sum(dim=-1)


@dataclasses.dataclass(frozen=True)
class Job:
    """One run: an architecture, an objective and a seed."""

    model: str
    seed: int
    objective: str = "erm"
    epochs: int = 0
    batch: int = 0
    rate: float = 0.0
    sweep: bool = False

    @property
    def tag(self) -> str:
        trial = f".rate{self.rate:g}" if self.sweep else ""
        return f"{self.model}.{self.objective}.{self.seed}{trial}"


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument(
        "--data", required=True, help="for hardpan.Dataset.open, or a packed file (flow_device.py pack)"
    )
    found.add_argument("--out", type=Path, required=True)
    found.add_argument("--minutes", type=float, default=8.0, help="wall time, everything included")
    found.add_argument("--models", default="resnet18,convnet,vgg16,resnet50")
    found.add_argument(
        "--with-training", default="all", help="models that predict the training examples, too, with commas, or all"
    )
    found.add_argument("--seeds", type=int, default=3)
    found.add_argument("--epochs", type=int, default=20)
    found.add_argument("--batch", type=int, default=512)
    found.add_argument(
        "--rate", type=float, default=0.0, help="learning rate (default: what suits the architecture)"
    )
    found.add_argument(
        "--options", type=json.loads, default={}, help='of architectures, as JSON: {"vgg16": {"dropout": 0.25}}'
    )
    found.add_argument("--at-once", type=int, default=4, help="runs at a time on the device")
    found.add_argument("--device", default="auto")
    found.add_argument("--rows", type=int, default=0, help="only so many training and test examples, to try it")
    found.add_argument("--groups", type=Path, help="npz of the first call: train with objectives over its groups")
    found.add_argument("--objectives", default=OBJECTIVES)
    found.add_argument("--rates", default="", help="learning rates to choose from for each objective, with commas")
    found.add_argument("--sweep-epochs", type=int, default=0, help="of the runs that choose rates (default: all)")
    found.add_argument(
        "--lengths", type=json.loads, default={}, help='epochs by objective, as multiples: {"reweight": 5}'
    )
    found.add_argument("--step-size", type=float, default=0.01, help="of the group weights of GroupDRO")
    found.add_argument("--job", help=argparse.SUPPRESS)
    found.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    return found


def main() -> None:
    options = parser().parse_args()
    if options.job:
        run_job(Job(**json.loads(options.job)), options)
        return
    began = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    # Probabilities are large and stay behind.
    with tempfile.TemporaryDirectory(prefix="confusion-") as folder:
        options.work = Path(folder)
        np.savez(options.work / "given.npz", **given(options))
        deadline = began + 60 * options.minutes - RESERVE_SECONDS
        rates = choose_rates(options, deadline) if options.rates else {}
        jobs = planned(options, rates)
        print(f"{len(jobs)} runs, {options.at_once} at a time", flush=True)
        supervise(jobs, options, deadline)
        join(jobs, options)
    print(f"{time.monotonic() - began:.0f} s", flush=True)


def choose_rates(options: argparse.Namespace, deadline: float) -> dict[str, float]:
    """The learning rate of each objective with the smallest error on validation rows, from short runs."""
    goals = options.objectives.split(",")
    model = options.models.split(",")[0]
    jobs = [
        Job(model, 0, goal, *schedule(options, goal, options.sweep_epochs or options.epochs), float(rate), True)
        for rate in options.rates.split(",")
        for goal in goals
    ]
    supervise(jobs, options, deadline)
    with np.load(options.work / "given.npz") as stored:
        labels, train = stored["labels"], stored["train"]
    rows = validation_rows(train)
    errors: dict[str, dict[str, float]] = {goal: {} for goal in goals}
    for job in jobs:
        if (options.work / f"{job.tag}.json").is_file():
            probs = np.load(options.work / f"{job.tag}.npy", mmap_mode="r")[-1]
            errors[job.objective][f"{job.rate:g}"] = float((probs[rows].argmax(axis=1) != labels[rows]).mean())
    best = {goal: min(known, key=known.__getitem__) for goal, known in errors.items() if known}
    epochs = {job.objective: job.epochs for job in jobs}
    sweep = {"epochs": epochs, "validation_rows": len(rows), "errors": errors, "rates": best}
    (options.out / "sweep.json").write_text(json.dumps(sweep, indent=1) + "\n")
    print(json.dumps(sweep), flush=True)
    return {goal: float(rate) for goal, rate in best.items()}


def validation_rows(train: NDArray[np.bool_]) -> NDArray[np.int64]:
    """A random tenth of the training rows, the same in every process."""
    rows = np.random.default_rng([0, 7]).permutation(np.flatnonzero(train))
    return np.sort(rows[: len(rows) // 10])


def schedule(options: argparse.Namespace, goal: str, epochs: int) -> tuple[int, int]:
    """Epochs and batch of an objective: the steps of ordinary training, times its length in ``--lengths``.

    Subsampling leaves few rows, so it has smaller batches and more epochs.
    """
    epochs = max(1, round(epochs * options.lengths.get(goal, 1)))
    if goal != "subsample" or not options.rates:
        return epochs, options.batch
    with np.load(options.work / "given.npz") as stored:
        groups, train = stored["groups"], stored["train"]
    rows = 2 * int(np.bincount(groups[train]).min())
    batch = min(options.batch, 128)
    steps = epochs * (int(train.sum()) // options.batch)
    return max(1, round(steps / max(1, rows // batch))), batch


def planned(options: argparse.Namespace, rates: dict[str, float]) -> list[Job]:
    """Runs in the order in which they start: an architecture's seeds together, so that some are whole early."""
    models = options.models.split(",")
    if options.groups is None:
        return [Job(model, seed) for model in models for seed in range(options.seeds)]
    return [
        Job(models[0], seed, goal, *schedule(options, goal, options.epochs), rate=rates.get(goal, 0.0))
        for seed in range(options.seeds)
        for goal in options.objectives.split(",")
    ]


def given(options: argparse.Namespace) -> dict[str, NDArray[Any]]:
    """Examples, labels and which are for training; groups where there are some."""
    dataset = load(options.data)
    train = training_mask(dataset)
    if dataset.labels is None:
        raise SystemExit(f"confusion_device: {options.data} has no labels")
    if options.rows:
        kept = np.concatenate([np.flatnonzero(train)[: options.rows], np.flatnonzero(~train)[: options.rows]])
    else:
        kept = np.arange(len(dataset))
    found = {"x": dataset.x[kept], "labels": dataset.labels[kept], "train": train[kept], "ids": dataset.ids[kept]}
    found["n_classes"] = np.array(dataset.n_classes)
    if options.groups is not None:
        with np.load(options.groups) as stored:
            if not np.array_equal(stored["ids"], found["ids"]):
                raise SystemExit(f"confusion_device: {options.groups} is not of the examples of {options.data}")
            scores = stored["scores"].astype(np.float64)
        cut = math.log2(dataset.n_classes) / 2
        hard = scores >= cut
        count = int(hard[found["train"]].sum())
        print(
            f"hard training examples, {cut:.2f} bits and more: {count} of {int(found['train'].sum())}", flush=True
        )
        if not 0 < count < found["train"].sum():
            raise SystemExit("confusion_device: one of the two groups has no training example")
        found |= {"scores": scores, "groups": hard.astype(np.int64), "cut": np.array(cut)}
    return found


def load(data: str) -> Dataset:
    """A dataset for hardpan.Dataset.open, or a file that ``flow_device.py pack`` wrote for a slow line."""
    path = Path(data)
    if path.is_file():
        with path.open("rb") as stream:
            packed = stream.read(1) == b"{"
        if packed:
            from reproductions.flow_jobs.packing import unpack

            return unpack(path)
    return Dataset.open(data)


def training_mask(dataset: Dataset) -> NDArray[np.bool_]:
    """The official training part, or what the common split does not test on."""
    if dataset.split is not None:
        return np.asarray(dataset.split == "train")
    mask = np.ones(len(dataset), dtype=bool)
    mask[dataset.splits().test] = False
    return mask


def supervise(jobs: list[Job], options: argparse.Namespace, deadline: float) -> None:
    """Run the jobs, some at a time, until all are done or time is up; npz files are renewed now and then."""
    waiting, running, refreshed = list(jobs), {}, time.monotonic()
    try:
        while (waiting or running) and time.monotonic() < deadline:
            while waiting and len(running) < options.at_once:
                job = waiting.pop(0)
                running[job.tag] = start(job, options)
            time.sleep(0.5)
            for tag, process in list(running.items()):
                if process.poll() is not None:
                    del running[tag]
                    print(
                        f"{tag}: {'done' if process.returncode == 0 else f'failed ({process.returncode})'}",
                        flush=True,
                    )
            if time.monotonic() - refreshed > REFRESH_SECONDS:
                join(jobs, options)
                refreshed = time.monotonic()
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
    for job in [*waiting, *(job for job in jobs if job.tag in running)]:
        print(f"{job.tag}: time was up", flush=True)


def start(job: Job, options: argparse.Namespace) -> subprocess.Popen[bytes]:
    """Begin a run in a process of its own."""
    said = ["--data", options.data, "--out", str(options.out), "--epochs", str(options.epochs)]
    said += ["--batch", str(options.batch), "--device", options.device, "--work", str(options.work)]
    said += ["--with-training", options.with_training]
    if options.groups is not None:
        said += ["--groups", str(options.groups)]
    said += [
        "--rate",
        str(options.rate),
        "--step-size",
        str(options.step_size),
        "--options",
        json.dumps(options.options),
        "--job",
        json.dumps(dataclasses.asdict(job)),
    ]
    program = [sys.executable, "-m", "reproductions.confusion_device", *said]
    return subprocess.Popen(program, env=os.environ | {"OMP_NUM_THREADS": "2"})


def run_job(job: Job, options: argparse.Namespace) -> None:
    """Train one model and keep its probabilities of all examples after every epoch."""
    from hardpan.training import TrainConfig
    from hardpan.training.config import with_defaults
    from hardpan.training.examples import as_training_examples, examples_on, normalization
    from hardpan.training.fitting import Evaluation, TrainingSet, fit_model, fitting_device

    with np.load(options.work / "given.npz") as stored:
        held = {name: stored[name] for name in stored.files}
    x, classes = as_training_examples(held["x"]), int(held["n_classes"])
    goal = {"step": options.step_size} if job.objective == "groupdro" else {}
    config = TrainConfig(
        model=job.model,
        seeds=1,
        epochs=job.epochs or options.epochs,
        batch=job.batch or options.batch,
        rate=job.rate or options.rate or None,
        record_every=(job.epochs or 1) if options.groups is not None else 1,
        objective=job.objective,
        objective_options=goal,
        model_options=options.options.get(job.model, {}),
        device=options.device,
        threads=2,
    )
    config = with_defaults(config, job.model, x.shape[1:])
    rows = np.flatnonzero(held["train"])
    if job.sweep:
        rows = np.setdiff1d(rows, validation_rows(held["train"]))
    count, recorded = len(config.recorded_epochs()), recorded_rows(job.model, held["train"], options)
    shape = count, len(recorded), classes
    kept = np.lib.format.open_memmap(options.work / f"{job.tag}.npy", "w+", np.float16, shape)
    began = time.monotonic()

    def record(epoch: int, probs: NDArray[np.float32]) -> None:
        kept[epoch // config.record_every - 1] = probs
        kept.flush()
        seconds = time.monotonic() - began
        right = float((probs.argmax(axis=1) == held["labels"][recorded])[~held["train"][recorded]].mean())
        told = {"epochs": epoch, "seconds": seconds, "config": dataclasses.asdict(config)}
        status = options.work / f"{job.tag}.json"
        status.with_suffix(".new").write_text(json.dumps(told, default=dict))
        status.with_suffix(".new").replace(status)
        print(f"{job.tag}: epoch {epoch}, {seconds:.0f} s, test accuracy {100 * right:.2f} %", flush=True)

    with fitting_device(config) as (device, precision):
        examples = examples_on(x, normalization(x, rows), device)
        groups = held.get("groups") if job.objective != "erm" else None
        training = TrainingSet(
            examples,
            torch.from_numpy(rows).to(device),
            torch.from_numpy(held["labels"]).to(device),
            classes,
            None if groups is None else torch.from_numpy(groups).to(device),
        )
        predicted = examples
        if len(recorded) < len(x):
            predicted = examples_on(x[recorded], normalization(x, rows), device)
        fit_model(config, training, Evaluation(predicted, record), seed=job.seed, precision=precision)


def recorded_rows(model: str, train: NDArray[np.bool_], options: argparse.Namespace) -> NDArray[np.int64]:
    """The examples that a model predicts after every epoch: all, or those of the test set."""
    everything = options.with_training == "all" or model in options.with_training.split(",")
    return np.arange(len(train)) if everything or options.groups is not None else np.flatnonzero(~train)


def join(jobs: list[Job], options: argparse.Namespace) -> None:
    """Make the npz files from what the runs have kept so far."""
    with np.load(options.work / "given.npz") as stored:
        held = {name: stored[name] for name in stored.files if name != "x"}
    told = {job.tag: status for job in jobs if (status := _status(options.work / f"{job.tag}.json")) is not None}
    if options.groups is not None:
        join_objectives(jobs, told, held, options)
        return
    for model in dict.fromkeys(job.model for job in jobs):
        begun = [job for job in jobs if job.model == model and job.tag in told]
        if begun:
            join_model(model, begun, told, held, options)


def join_model(
    model: str, jobs: list[Job], told: dict[str, Any], held: dict[str, NDArray[Any]], options: argparse.Namespace
) -> None:
    """One architecture: the epochs that all of its begun seeds have."""
    epochs = min(told[job.tag]["epochs"] for job in jobs)
    kept = [np.load(options.work / f"{job.tag}.npy", mmap_mode="r") for job in jobs]
    device = torch.device("cuda" if torch.cuda.is_available() and options.device != "cpu" else "cpu")
    recorded = recorded_rows(model, held["train"], options)
    collector = Collector(held["labels"][recorded], held["train"][recorded], int(held["n_classes"]))
    for epoch in range(epochs):
        collector.add(torch.from_numpy(np.stack([run[epoch] for run in kept])).to(device))
    whole = epochs == options.epochs and len(jobs) == options.seeds
    about = {
        "name": np.array(model),
        "ids": held["ids"][recorded],
        "seeds": np.array([job.seed for job in jobs]),
        "epochs": np.arange(1, epochs + 1),
        "finished": np.array(whole),
        "seconds": np.array([told[job.tag]["seconds"] for job in jobs]),
        "config": np.array(json.dumps(told[jobs[0].tag]["config"])),
        "data": np.array(Path(options.data).name),
    }
    _write(options.out / f"{model}.npz", about | collector.arrays())


def join_objectives(
    jobs: list[Job], told: dict[str, Any], held: dict[str, NDArray[Any]], options: argparse.Namespace
) -> None:
    """All objectives: which examples each finished run gets right at its last epoch."""
    done = [job for job in jobs if told.get(job.tag, {}).get("epochs") == (job.epochs or options.epochs)]
    if not done:
        return
    last = [np.load(options.work / f"{job.tag}.npy", mmap_mode="r")[-1] for job in done]
    correct = np.stack([probs.argmax(axis=1) == held["labels"] for probs in last])
    about = {
        "name": np.array(done[0].model),
        "ids": held["ids"],
        "labels": held["labels"].astype(np.uint16),
        "train": held["train"],
        "n_classes": held["n_classes"],
        "scores": held["scores"].astype(np.float32),
        "cut": held["cut"],
        "objectives": np.array([job.objective for job in done]),
        "seeds": np.array([job.seed for job in done]),
        "correct": correct,
        "epochs": np.array([job.epochs or options.epochs for job in done]),
        "batches": np.array([job.batch or options.batch for job in done]),
        "rates": np.array([told[job.tag]["config"]["rate"] for job in done]),
        "config": np.array(json.dumps(told[done[0].tag]["config"])),
        "command": np.array(shlex.join(["python3", "-m", "reproductions.confusion_device", *sys.argv[1:]])),
        "device": np.array(torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"),
        "torch": np.array(torch.__version__),
        "finished": np.array(len(done) == len(jobs)),
    }
    _write(options.out / "mitigation.npz", about)


def _status(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found


def _write(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    waiting = path.with_name(f"{path.stem}.new.npz")
    np.savez_compressed(waiting, **arrays)  # type: ignore[arg-type]
    waiting.replace(path)


if __name__ == "__main__":
    main()
