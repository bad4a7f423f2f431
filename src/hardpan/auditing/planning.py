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

from hardpan.auditing.evidence import AuditConfig, Evidence
from hardpan.data.dataset import Dataset
from hardpan.files import record

if TYPE_CHECKING:
    from hardpan.flows import FlowConfig

ENSEMBLE_SHARE, FLOW_SHARE = 0.35, 0.35
MOST_ENSEMBLE_EPOCHS, ENOUGH_EPOCHS, FEWEST_ENSEMBLE_ROWS = 30, 8, 3000
MOST_FLOW_EPOCHS, FEWEST_FLOW_EPOCHS, FEWEST_FLOW_ROWS = 40, 12, 1000
LEAST_OF_A_TRY = 0.2  # share of a try's time that its rows take at the least; the rest is what every try takes
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
        ensemble_rows: training rows that it sees.
        flow_epochs: epochs of the flow, 0 where none is fitted.
        flow_rows: training rows that it sees.
        in_processes: whether the seeds run side by side.
    """

    steps: tuple[PlanStep, ...]
    ensemble: str = ""
    ensemble_epochs: int = 0
    ensemble_rows: int = 0
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


def reduced(dataset: Dataset, evidence: Evidence, rows: int, validation: int | None = None) -> Dataset:
    """The dataset with at most so many training rows, its test part as it is; the same rows for the same seed.

    Args:
        dataset: all of it.
        evidence: its split and labels.
        rows: training rows to keep.
        validation: validation rows to keep; all of them if None.
    """
    split = evidence.split
    names = np.full(len(dataset), "validation")
    names[split.train], names[split.test] = "train", "test"
    train = split.train
    if rows < len(train):
        train = _by_class(train, evidence, rows)
    kept = np.sort(np.concatenate([train, split.validation[:validation], split.test]))
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
    """The largest of the small models that gets enough epochs, on fewer training rows where there are too many."""
    config, train = evidence.config, len(evidence.split.train)
    names: tuple[str, ...] = IMAGE_MODELS if evidence.dataset.x.ndim > 2 else VECTOR_MODELS
    if config.ensemble != "auto":
        names = (config.ensemble,)
    for name in names:
        row = _seconds_a_row(evidence, name)
        rows = config.ensemble_rows or train
        speed = _Speed(evidence, row)
        if not config.ensemble_rows and not config.ensemble_epochs:
            rows = speed.rows_for(ENOUGH_EPOCHS)
        if rows >= min(train, FEWEST_ENSEMBLE_ROWS):
            break
    if not config.ensemble_rows:
        rows = max(rows, FEWEST_ENSEMBLE_ROWS)
    rows = min(rows, train)
    epochs = config.ensemble_epochs or max(1, min(MOST_ENSEMBLE_EPOCHS, speed.epochs_with(rows)))
    told = "" if rows == train else f" on {rows:,} of {train:,} training rows"
    step = PlanStep(f"train {config.seeds} seeds of {name}{told}, {epochs} epochs", speed.seconds(rows, epochs))
    chosen = dataclasses.replace(
        plan, ensemble=name, ensemble_epochs=epochs, ensemble_rows=rows, in_processes=speed.in_processes
    )
    return chosen, step


class _Speed:
    """How long an ensemble takes, from the seconds that a row takes in an epoch of one seed."""

    def __init__(self, evidence: Evidence, row: float) -> None:
        config, cores = evidence.config, _cores()
        self._train = len(evidence.split.train)
        self._row, self._others = row, len(evidence.split.validation) + len(evidence.split.test)
        self.in_processes = (
            cores > 1
            and config.seeds > 1
            and (config.seeds * self._epoch(self._train) * ENOUGH_EPOCHS > 4 * START_OF_A_PROCESS)
        )
        self._rounds = math.ceil(config.seeds / cores) if self.in_processes else config.seeds
        self._start = START_OF_A_PROCESS if self.in_processes else 0.0
        self._share = ENSEMBLE_SHARE * config.budget - self._start

    def _epoch(self, rows: int) -> float:
        # Every example is predicted after each epoch, at about a third of what training on it takes.
        return self._row * (rows + (rows + self._others) / 3)

    def seconds(self, rows: int, epochs: int) -> float:
        """All seeds together."""
        return self._start + self._rounds * epochs * self._epoch(rows)

    def epochs_with(self, rows: int) -> int:
        """Epochs that the budget holds with so many rows."""
        return int(self._share / (self._rounds * self._epoch(rows)))

    def rows_for(self, epochs: int) -> int:
        """Rows that the budget holds with so many epochs, at most those that there are."""
        each = self._share / (self._rounds * epochs * self._row)
        return max(0, min(self._train, int((each - self._others / 3) * 3 / 4)))


def _cores() -> int:
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


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


def _seconds_a_row(evidence: Evidence, model: str) -> float:
    """Seconds that one row takes in one epoch of one seed: from two short tries."""
    from hardpan.training import fit_arrays

    x, labels = evidence.dataset.x, evidence.labels
    train = evidence.split.train

    def attempt(rows: int) -> None:
        chosen = np.resize(train, rows)
        fit_arrays(
            x[chosen], labels[chosen], x[chosen[:1]], n_classes=evidence.dataset.n_classes, model=model, seeds=1,
            epochs=1, device=evidence.config.device,
        )  # fmt: skip

    return _difference(attempt, 128, 640)


def _seconds_a_flow_row(evidence: Evidence) -> float:
    """Seconds that one row takes in one epoch of the flow: a try of three epochs less one of one."""
    from hardpan.flows import fit

    rows = min(192, len(evidence.split.train))
    small = reduced(evidence.dataset, evidence, rows, rows)
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
    return _slope(short, len(parts[0]), long, 3 * len(parts[0]))


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
    return _slope(short, few, long, many)


def _slope(short: float, few: int, long: float, many: int) -> float:
    """Seconds a row from two tries; where other work on the machine disturbed them, not absurdly few.

    Example:
        >>> _slope(1.0, 100, 3.0, 300), _slope(3.0, 100, 2.9, 300) > 0.001
        (0.01, True)
    """
    return max((long - short) / (many - few), LEAST_OF_A_TRY * long / many)


def _timed(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start
