"""What an audit will do, and how long it will take: decided before it begins, from a short try on this machine."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hardpan.audit.evidence import AuditConfig, Evidence
from hardpan.records import Dataset, record

if TYPE_CHECKING:
    from hardpan.flows import FlowConfig

ENSEMBLE_SHARE, FLOW_SHARE = 0.35, 0.35
MOST_ENSEMBLE_EPOCHS, ENOUGH_EPOCHS = 30, 8
MOST_FLOW_EPOCHS, FEWEST_FLOW_EPOCHS, FEWEST_FLOW_ROWS = 40, 12, 1000
START_OF_A_PROCESS = 4.0  # seconds until a worker has imported torch
IMAGE_MODELS, VECTOR_MODELS = ("convnet", "mlp", "linear"), ("mlp", "linear")
NO_TORCH = "torch is not installed; run: pip install 'hardpan[torch]'"


@record
@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of an audit: what it does, about how many seconds it takes, and why it is done or left out."""

    name: str
    seconds: float
    why: str = ""


@record
@dataclass(frozen=True, slots=True)
class AuditPlan:
    """What will run, in order, and the settings that the budget decided.

    Attributes:
        steps: in order; a step of 0 seconds is left out, and says why.
        ensemble: architecture to train, empty where none is.
        ensemble_epochs: its epochs.
        flow_epochs: epochs of the flow, 0 where none is fitted.
        flow_rows: training rows that it sees.
        in_processes: whether the seeds run side by side.
    """

    steps: tuple[PlanStep, ...]
    ensemble: str = ""
    ensemble_epochs: int = 0
    flow_epochs: int = 0
    flow_rows: int = 0
    in_processes: bool = False

    @property
    def seconds(self) -> float:
        """All of it."""
        return sum(step.seconds for step in self.steps)


def make_plan(evidence: Evidence) -> AuditPlan:
    """Choose what to train within the budget: the largest of the small models that gets enough epochs."""
    config = evidence.config
    steps = [_estimators(evidence)]
    plan = AuditPlan(())
    has_torch = importlib.util.find_spec("torch") is not None
    if config.predictions:
        steps.append(PlanStep("read the given predictions", 1.0))
    elif config.ensemble == "none":
        steps.append(PlanStep("no ensemble", 0.0, "asked for none"))
    elif not has_torch:
        steps.append(PlanStep("no ensemble", 0.0, NO_TORCH))
    else:
        plan, step = _ensemble(evidence, plan)
        steps.append(step)
    if config.flow not in ("auto", "none"):
        steps.append(PlanStep("ask the given flow", _seconds_of_flow(evidence)))
    elif config.flow == "none":
        steps.append(PlanStep("no flow", 0.0, "asked for none"))
    elif not has_torch:
        steps.append(PlanStep("no flow", 0.0, NO_TORCH))
    else:
        plan, step = _flow(evidence, plan)
        steps.append(step)
    steps.append(PlanStep("look for duplicates, join and write", 3.0 + 2e-4 * len(evidence.dataset)))
    return dataclasses.replace(plan, steps=tuple(steps))


def _seconds_of_flow(evidence: Evidence) -> float:
    """Seconds that a given flow needs for the posteriors of validation and test examples: from a short try."""
    from hardpan import flows

    flow, rows = flows.load(evidence.config.flow), evidence.split.test[:64]
    asked = len(evidence.split.test) + len(evidence.split.validation)
    flow.posterior(evidence.dataset.x[rows[:8]])  # the first call loads libraries
    return 5.0 + 2 * _timed(lambda: flow.posterior(evidence.dataset.x[rows])) / len(rows) * asked


def reduced(dataset: Dataset, evidence: Evidence, rows: int) -> Dataset:
    """The dataset with at most so many training rows, its parts as they are; the same rows for the same seed."""
    split = evidence.split
    names = np.full(len(dataset), "validation")
    names[split.train], names[split.test] = "train", "test"
    train = split.train
    if rows < len(train):
        train = _by_class(train, evidence, rows)
    kept = np.sort(np.concatenate([train, split.validation[: max(rows, 2000)], split.test]))
    return Dataset(
        dataset.name, dataset.x[kept], dataset.ids[kept], evidence.labels[kept], dataset.class_names, names[kept]
    )


def _by_class(train: NDArray[np.int64], evidence: Evidence, rows: int) -> NDArray[np.int64]:
    """So many training rows, every class with its share and with one at least."""
    rng = np.random.default_rng([evidence.config.seed, 7])
    mixed = rng.permutation(train)
    labels = evidence.labels[mixed]
    first = np.unique(labels, return_index=True)[1]
    rest = np.setdiff1d(np.arange(len(mixed)), first)
    return np.asarray(mixed[np.concatenate([first, rest[: max(0, rows - len(first))]])])


def _estimators(evidence: Evidence) -> PlanStep:
    n, m, d = len(evidence.split.train), len(evidence.split.test), evidence.features.shape[1]
    seconds = 2.0 + 2e-10 * n * m + 1.5e-11 * n * m * d + 1e-9 * min(n, 8192) * d * min(d, 8192)
    return PlanStep("estimate the floor from the features", seconds)


def _ensemble(evidence: Evidence, plan: AuditPlan) -> tuple[AuditPlan, PlanStep]:
    config = evidence.config
    names: tuple[str, ...] = IMAGE_MODELS if evidence.dataset.x.ndim > 2 else VECTOR_MODELS
    if config.ensemble != "auto":
        names = (config.ensemble,)
    cores = max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    share = ENSEMBLE_SHARE * config.budget
    best: tuple[str, int, float, bool] | None = None
    for name in names:
        epoch = _seconds_an_epoch(evidence, name)
        alone, rounds = config.seeds * epoch, math.ceil(config.seeds / cores) * epoch
        in_processes = cores > 1 and config.seeds > 1 and alone * ENOUGH_EPOCHS > 4 * START_OF_A_PROCESS
        each = rounds if in_processes else alone
        start = START_OF_A_PROCESS if in_processes else 0.0
        epochs = config.ensemble_epochs or max(1, min(MOST_ENSEMBLE_EPOCHS, int((share - start) / each)))
        if best is None or epochs > best[1]:
            best = (name, epochs, start + epochs * each, in_processes)
        if epochs >= ENOUGH_EPOCHS:
            break
    assert best is not None
    name, epochs, seconds, in_processes = best
    step = PlanStep(f"train {config.seeds} seeds of {name}, {epochs} epochs", seconds)
    return dataclasses.replace(plan, ensemble=name, ensemble_epochs=epochs, in_processes=in_processes), step


def _flow(evidence: Evidence, plan: AuditPlan) -> tuple[AuditPlan, PlanStep]:
    config, train = evidence.config, len(evidence.split.train)
    row = _seconds_a_flow_row(evidence)
    share = FLOW_SHARE * config.budget - row * 0.5 * (len(evidence.split.test) + len(evidence.split.validation))
    affordable = int(max(share, 0.0) / (row * FEWEST_FLOW_EPOCHS))
    rows = config.flow_rows or min(train, max(min(FEWEST_FLOW_ROWS, train), affordable))
    epochs = config.flow_epochs or max(3, min(MOST_FLOW_EPOCHS, int(share / (row * rows))))
    told = f"{rows:,} of {train:,} training rows" if rows < train else f"{rows:,} training rows"
    step = PlanStep(
        f"fit a small flow to {told}, {epochs} epochs", row * rows * epochs + row * len(evidence.split.test)
    )
    return dataclasses.replace(plan, flow_epochs=epochs, flow_rows=rows), step


def _seconds_an_epoch(evidence: Evidence, model: str) -> float:
    """Seconds that one seed's epoch takes, predictions included: from two short tries."""
    from hardpan.training import fit_arrays

    x, labels = evidence.dataset.x, evidence.labels
    train = evidence.split.train

    def attempt(rows: int) -> None:
        chosen = np.resize(train, rows)
        fit_arrays(
            x[chosen], labels[chosen], x[chosen[:1]], n_classes=evidence.dataset.n_classes, model=model, seeds=1,
            epochs=1, device=evidence.config.device,
        )  # fmt: skip

    each = _difference(attempt, 128, 640)
    return each * (len(train) + len(evidence.dataset) / 3)


def _seconds_a_flow_row(evidence: Evidence) -> float:
    """Seconds that one row takes in one epoch of the flow: a try of three epochs less one of one."""
    from hardpan.flows import fit

    rows = min(192, len(evidence.split.train))
    small = reduced(evidence.dataset, evidence, rows)
    assert small.split is not None
    assert small.labels is not None
    # A handful of other rows keep its parts whole without costing time.
    parts = [
        np.flatnonzero(small.split == part)[:few] for part, few in (("train", None), ("validation", 4), ("test", 4))
    ]
    kept = np.concatenate(parts)
    tried = Dataset("try", small.x[kept], small.ids[kept], small.labels[kept], small.class_names, small.split[kept])
    with one_thread():
        short = _timed(lambda: fit(tried, flow_config(evidence.config, 1)))
        long = _timed(lambda: fit(tried, flow_config(evidence.config, 3)))
    return max(long - short, 1e-4) / (2 * len(parts[0]))


@contextmanager
def one_thread() -> Iterator[None]:
    """Fit small flows on one core: their steps are too short to be shared, and shared they wait for one another."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def flow_config(config: AuditConfig, epochs: int) -> FlowConfig:
    """Settings of the small flow."""
    from hardpan.flows import FlowConfig

    return FlowConfig(preset="tiny", epochs=epochs, seed=config.seed, device=config.device)


def _difference(attempt: Callable[[int], None], few: int, many: int) -> float:
    """Seconds a row, without what every try takes."""
    attempt(few)  # the first call loads libraries
    short, long = _timed(lambda: attempt(few)), _timed(lambda: attempt(many))
    return max(long - short, 1e-6 * (many - few)) / (many - few)


def _timed(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start
