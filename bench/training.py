"""Training throughput beside plain PyTorch loops: the same model, batch, crops, flips, optimiser and precision.

One plain loop keeps the data on the device and works eagerly; the other reads it through a DataLoader whose workers
crop and flip each image, as most training scripts do.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from bench import harness

PEERS = ("torch",)
CORES = 1

# A quick look, not a measurement: BENCH_SCALE=0.1 makes every size smaller.
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
BATCH, CLASSES, PAD = 128, 10, 4
LOADER_WORKERS = 8  # where there is a GPU; on one core they would only wait for one another


def prepare(model: str, images: int, epochs: int, batch: int, device: str) -> dict[str, Any]:
    import torch

    rng = np.random.default_rng(0)
    torch.set_num_threads(1)
    if device == "cuda" and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))  # the loader of the plain loop may use every core
    labels = rng.integers(0, CLASSES, images)
    x = rng.integers(0, 256, (images, 32, 32, 3), dtype=np.uint8)
    x[np.arange(images), labels, labels] = 255  # something to learn, so that the losses can be compared
    return {"model": model, "x": x, "labels": labels, "epochs": epochs, "batch": batch, "device": device}


def ours(given: dict[str, Any]) -> dict[str, float]:
    """The engine's task: data on the device as bytes, one gather a batch, the step captured on a GPU."""
    import torch

    from hardpan.engine import devices
    from hardpan.training import TrainConfig, classifiers
    from hardpan.training.config import with_defaults
    from hardpan.training.examples import examples_on, normalization
    from hardpan.training.fitting import ClassifierTask, TrainingSet, fitting_device

    config = TrainConfig(
        model=given["model"], epochs=1 + given["epochs"], batch=given["batch"], device=given["device"]
    )
    config = with_defaults(config, given["model"], (3, 32, 32))
    with fitting_device(config) as (device, precision):
        examples = examples_on(given["x"], normalization(given["x"]), device)
        model = classifiers.build(given["model"], input_shape=(3, 32, 32), n_classes=CLASSES).to(device)
        model = model.to(memory_format=torch.channels_last)
        rows, labels = torch.arange(len(given["x"]), device=device), torch.from_numpy(given["labels"]).to(device)
        task = ClassifierTask(
            model, TrainingSet(examples, rows, labels, CLASSES), config, seed=0, precision=precision
        )
        for epoch in range(1 + given["epochs"]):
            if epoch == 1:  # the first warms up, captures and lets the libraries choose
                devices.synchronize(device)
                start = time.perf_counter()
            task.begin_epoch(epoch)
            for step in range(task.steps):
                task.step(step)
            loss = task.means()["loss"]
        devices.synchronize(device)
        seen = given["epochs"] * task.steps * task.examples_per_step
        return {"images/s": seen / (time.perf_counter() - start), "loss": loss}


def plain(given: dict[str, Any], loader: bool) -> dict[str, float]:
    """What one writes without a library: eager steps, torch's optimiser and schedule, the loss read each step."""
    import torch
    from torch.nn.functional import cross_entropy

    from hardpan.training import TrainConfig, classifiers
    from hardpan.training.config import with_defaults

    torch.manual_seed(0)
    device = torch.device(given["device"])
    config = with_defaults(TrainConfig(batch=given["batch"]), given["model"], (3, 32, 32))
    x = torch.from_numpy(given["x"]).permute(0, 3, 1, 2).contiguous()
    mean, std = x.float().mean((0, 2, 3)).view(3, 1, 1), x.float().std((0, 2, 3)).view(3, 1, 1)
    labels = torch.from_numpy(given["labels"])
    model = classifiers.build(given["model"], input_shape=(3, 32, 32), n_classes=CLASSES).to(device)
    kinds = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}
    more = {"momentum": 0.9, "nesterov": True} if config.optimizer == "sgd" else {}
    optimizer = kinds[config.optimizer](
        model.parameters(), lr=config.rate, weight_decay=config.weight_decay, **more
    )
    batches = Loaded(x, labels, mean, std, given) if loader else OnDevice(x, labels, mean, std, given, device)
    steps = len(x) // given["batch"]
    total = (1 + given["epochs"]) * steps
    rise = max(1, round(0.05 * total))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda i: (i + 1) / (rise + 1) if i < rise else 0.5 * (1 + np.cos(np.pi * (i - rise) / (total - rise))),
    )
    if device.type == "cuda":
        model = model.to(memory_format=torch.channels_last)
        torch.backends.cudnn.benchmark = True
    start, sums = 0.0, 0.0
    for epoch in range(1 + given["epochs"]):
        if epoch == 1:
            start = time.perf_counter()  # the loss was read, so the device is idle
        sums = 0.0
        for images, wanted in batches:
            images, wanted = images.to(device, non_blocking=True), wanted.to(device, non_blocking=True)
            if device.type == "cuda":
                images = images.contiguous(memory_format=torch.channels_last)
            optimizer.zero_grad()
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
                loss = cross_entropy(model(images), wanted)
            loss.backward()
            if config.clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
            optimizer.step()
            schedule.step()
            sums += loss.item()
    seen = given["epochs"] * steps * given["batch"]
    return {"images/s": seen / (time.perf_counter() - start), "loss": sums / steps}


def plain_on_device(given: dict[str, Any]) -> dict[str, float]:
    return plain(given, loader=False)


def plain_with_loader(given: dict[str, Any]) -> dict[str, float]:
    return plain(given, loader=True)


class OnDevice:
    """Batches of a plain loop that keeps its data on the device: one crop for a batch, a flip for each image."""

    def __init__(self, x: Any, labels: Any, mean: Any, std: Any, given: dict[str, Any], device: Any) -> None:
        self.x, self.labels, self.mean, self.std = (item.to(device) for item in (x, labels, mean, std))
        self.batch, self.device = given["batch"], device

    def __iter__(self) -> Any:
        import torch
        from torch.nn.functional import pad

        order = torch.randperm(len(self.x), device=self.device)
        for first in range(0, len(order) - self.batch + 1, self.batch):
            rows = order[first : first + self.batch]
            images = (self.x[rows].float() - self.mean) / self.std
            down, right = np.random.default_rng().integers(0, 2 * PAD + 1, 2)
            images = pad(images, (PAD,) * 4)[:, :, down : down + 32, right : right + 32]
            mirrored = torch.rand(len(rows), device=self.device) < 0.5
            images = torch.where(mirrored[:, None, None, None], images.flip(3), images)
            yield images, self.labels[rows]


class Loaded:
    """Batches of a DataLoader whose workers crop, flip and normalise each image."""

    def __init__(self, x: Any, labels: Any, mean: Any, std: Any, given: dict[str, Any]) -> None:
        from torch.utils.data import DataLoader

        gpu = given["device"] == "cuda"
        self.loader = DataLoader(
            Images(x, labels, mean, std),
            batch_size=given["batch"],
            shuffle=True,
            drop_last=True,
            num_workers=LOADER_WORKERS if gpu else 0,
            pin_memory=gpu,
            persistent_workers=gpu,
        )

    def __iter__(self) -> Any:
        return iter(self.loader)


class Images:
    """One image at a time, as datasets of scripts give them."""

    def __init__(self, x: Any, labels: Any, mean: Any, std: Any) -> None:
        self.x, self.labels, self.mean, self.std = x, labels, mean, std

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, row: int) -> Any:
        import torch
        from torch.nn.functional import pad

        image = pad(self.x[row], (PAD,) * 4)
        down, right, mirrored = torch.randint(0, 2 * PAD + 1, (3,)).tolist()
        image = image[:, down : down + 32, right : right + 32]
        if mirrored % 2:
            image = image.flip(2)
        return (image.float() - self.mean) / self.std, self.labels[row]


def plans(gpu: bool) -> list[tuple[str, int, int, int]]:
    """Models with images, timed epochs and batch."""
    if gpu:
        return [("resnet18", 25_600, 1, 512), ("resnet50", 25_600, 1, 512), ("mlp", 25_600, 2, 512)]
    return [("mlp", 8_192, 3, BATCH), ("convnet", 1_024, 2, BATCH), ("resnet32", 512, 1, BATCH)]


def measured(model: str, images: int, epochs: int, batch: int, gpu: bool) -> dict[str, Any]:
    """One row: the engine and both plain loops, each in a process of its own."""
    given = {"images": max(2 * batch, round(images * SCALE)), "epochs": epochs, "batch": batch}
    given["device"] = "cuda" if gpu else "cpu"
    found = {
        work.__name__: harness.isolated(prepare, work, model=model, **given).output
        for work in (ours, plain_on_device, plain_with_loader)
    }
    speed = {name: value["images/s"] for name, value in found.items()}
    return {
        "model": model,
        "batch": batch,
        "hardpan images/s": speed["ours"],
        "plain, data on the device": speed["plain_on_device"],
        "plain, DataLoader": speed["plain_with_loader"],
        "× device": speed["ours"] / speed["plain_on_device"],
        "× DataLoader": speed["ours"] / speed["plain_with_loader"],
        "loss": found["ours"]["loss"],
        "plain loss": found["plain_on_device"]["loss"],
    }


def notes(gpu: bool) -> list[str]:
    where = (
        f"GPU, bf16 autocast, channels last, {LOADER_WORKERS} loader workers" if gpu else "CPU, one thread, float32"
    )
    return [
        f"{where}; random images of 32 × 32 × 3, crops of 4 pixels and flips",
        "the plain loop on the device crops all images of a batch at the same position, ours crops each image "
        "separately",
        "losses are those of the last epoch in training mode; orders and crops are drawn differently, so losses "
        "differ",
    ]


def run() -> dict[str, Any]:
    import torch

    gpu = torch.cuda.is_available()
    rows = [measured(*plan, gpu) for plan in plans(gpu)]
    return harness.table("Training throughput", rows, seed=0, notes=notes(gpu))
