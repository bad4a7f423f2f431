"""Fit a flow to a dataset, with the training loop that all runs share."""

from __future__ import annotations

import dataclasses
import math
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import hardpan
from hardpan import bayes, engine
from hardpan.data.dataset import Dataset, Split
from hardpan.engine import devices, distributed, optimization
from hardpan.engine.checkpoints import join_state_tensors, tensors_with_prefix
from hardpan.engine.seeds import derived_seed, seeded_permutation
from hardpan.errors import HardpanError, InputError
from hardpan.execution import Progress
from hardpan.files import array_hash
from hardpan.flows.base import Latents
from hardpan.flows.config import FlowConfig
from hardpan.flows.flow import Flow, FlowRecord
from hardpan.flows.glow import Glow, Runner, run_glow_plain
from hardpan.flows.gpu_steps import PlainStepOps, StepDropout, fast_runner
from hardpan.flows.network import FlowNetwork, build
from hardpan.flows.scaling import ImageScaling, Scaling, VectorScaling, describe_scaling, scaling_for

EVALUATED = 2048  # validation rows looked at after every epoch; the last evaluation takes all of them
ROWS = 512  # rows evaluated at once
FLOOR_RTOL = 0.01
JITTER = 0.01  # standard deviation of noise added to standardised vectors in training
PRECISIONS = {"float32": torch.float32, "bf16": torch.bfloat16}  # of coupling networks in training


class FitRows:
    """Examples on the device, in the shape that the network sees: integers stay bytes until a batch is taken."""

    def __init__(self, network: FlowNetwork, x: NDArray[Any], y: NDArray[np.int64], device: torch.device) -> None:
        self.network = network
        self.scaling: Scaling = network.scaling
        self.n_classes = network.base.n_classes
        self.integers = not np.issubdtype(x.dtype, np.floating)
        if self.integers and isinstance(self.scaling, ImageScaling):
            ready = self.scaling.padded(x)
            stored = ready.astype(np.uint8) if ready.max(initial=0) < 256 else ready.astype(np.float32)
        elif self.integers and isinstance(self.scaling, VectorScaling):
            stored = self.scaling.used_columns(x).astype(np.float32)
        else:
            stored = self.scaling.continuous(x, np.random.default_rng(0))
        self.x = torch.from_numpy(np.ascontiguousarray(stored)).to(device)
        self.y = torch.from_numpy(np.ascontiguousarray(y, dtype=np.int64)).to(device)
        self.one_hot = torch.eye(self.n_classes, device=device)

    def __len__(self) -> int:
        return len(self.y)

    def batch(self, rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Float32 examples x + u, dequantised with fresh noise, log q(u | x), and one-hot labels."""
        x = self.x.index_select(0, rows).float()
        log_q = x.new_zeros(len(x))
        if self.integers:
            x, log_q = self.network.dequantized(x, torch.rand(x.shape, generator=generator, device=x.device))
        return x, log_q, self.one_hot.index_select(0, self.y.index_select(0, rows))


class FlowTask(engine.Task):
    """Fits a network to rows: Adam on bits per dimension + λ · classification loss, with averaged weights."""

    def __init__(
        self, network: FlowNetwork, config: FlowConfig, train: FitRows, validation: FitRows, device: torch.device
    ) -> None:
        self.network, self.config, self.device = network, config, device
        self.train, self.validation = train, validation
        processes = distributed.world_size()
        self.batch = max(1, min(config.batch_size or 1, len(train)) // processes)
        self.examples_per_step = self.batch * processes
        self.steps = max(1, math.ceil(len(train) / self.examples_per_step))
        total = self.steps * (config.epochs or 1)
        rate = config.learning_rate or 1e-3
        table = optimization.rate_table(
            "cosine", rate=rate, steps=total, warmup=round(config.warmup * total), final=rate / 100
        )
        self.optimizer = optimization.ScheduledOptimizer(network, "adam", table, ema=config.ema)
        self.noise = torch.Generator(device)
        self.sums = torch.zeros(4, dtype=torch.float64, device=device)
        dropout = StepDropout(config.dropout, self.noise) if config.dropout else None
        # Triton kernels on a GPU, plain torch elsewhere.
        ops = None if device.type == "cuda" else PlainStepOps
        self.runner = fast_runner(PRECISIONS[config.precision], ops, dropout)
        self.one_step = engine.CapturedStep(
            self._one_step, device, generators=[self.noise], enabled=isinstance(network.transform, Glow)
        )
        self.order = torch.zeros(0, dtype=torch.int64)

    def start(self) -> None:
        """Set what depends on the first batch (actnorm), the same in every process."""
        self.noise.manual_seed(derived_seed(self.config.seed, "start"))
        # Many rows on a GPU: a place that is dark in nearly all images has its true spread only among many.
        least = 2048 if self.device.type == "cuda" else 256
        rows = seeded_permutation(len(self.train), self.config.seed, "start")[: max(least, self.batch)]
        x, _, _ = self.train.batch(rows.to(self.device), self.noise)
        self.network.transform.start(self.network.scaling.to_net(x))
        distributed.broadcast(self.network.state_dict().values())
        if self.optimizer.average is not None:
            self.optimizer.average = optimization.WeightAverage(self.network, self.config.ema)

    def begin_epoch(self, epoch: int) -> None:
        """Shuffle; a last batch that is not full begins again at the front."""
        self._compute_in(self.runner, self.config.precision)
        self.noise.manual_seed(derived_seed(self.config.seed, "noise", epoch, distributed.rank()))
        order = seeded_permutation(len(self.train), self.config.seed, "order", epoch)
        total = self.steps * self.examples_per_step
        repeats = math.ceil(total / len(order))
        self.order = order.repeat(repeats)[:total].reshape(self.steps, distributed.world_size(), self.batch)
        self.order = self.order[:, distributed.rank()].contiguous().to(self.device)
        self.sums.zero_()

    def _compute_in(self, runner: Runner, precision: str) -> None:
        if isinstance(self.network.transform, Glow):
            self.network.transform.runner = runner
        if self.network.dequantizer is not None:
            self.network.dequantizer.precision = PRECISIONS[precision]

    def step(self, index: int) -> None:
        """One optimiser step."""
        self.one_step(self.order[index])

    def _one_step(self, rows: Tensor) -> None:
        self.optimizer.zero_gradients()
        x, log_q, one_hot = self.train.batch(rows, self.noise)
        log_joint, log_class = self.network(self._jittered(x), one_hot)
        nll = (log_q - log_joint).mean()
        bits = nll / (math.log(2) * self.network.scaling.dimension)
        loss = bits - self.config.class_weight * log_class.mean()
        loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
        distributed.average_gradients(self.optimizer.parameters)
        norm = torch.nn.utils.clip_grad_norm_(self.optimizer.parameters, self.config.clip, foreach=True)
        self.optimizer.step()
        self.sums.add_(torch.stack([loss.detach(), nll.detach(), norm, torch.ones_like(norm)]).double())

    def _jittered(self, x: Tensor) -> Tensor:
        scaling = self.network.scaling
        if isinstance(scaling, ImageScaling):
            return x
        spread = scaling.spread.index_select(0, scaling.used)
        return x + JITTER * spread * torch.randn(x.shape, generator=self.noise, device=x.device)

    def means(self) -> dict[str, float]:
        """Loss, NLL, bits per dimension and gradient norm before clipping, over this epoch's batches."""
        *sums, count = self.sums.tolist()
        loss, nll, norm = (value / max(count, 1.0) for value in sums)
        return {"loss": loss, "nll": nll, "bits_per_dim": self._bits(nll), "gradient_norm": norm}

    def end_epoch(self, epoch: int) -> dict[str, float]:
        """NLL and error on validation rows with the averaged weights in float32, and the floor they stand for."""
        with self.averaged():
            nll, error = self.evaluate(self.validation, EVALUATED)
            floor = self.floor()
        return {
            "validation_nll": nll, "validation_bits_per_dim": self._bits(nll), "validation_error": error,
        } | floor  # fmt: skip

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Let the network have its averaged weights for the block, and compute plainly, in float32, from now on."""
        self._compute_in(run_glow_plain, "float32")
        with self.optimizer.averaged():
            yield

    @torch.no_grad()
    def evaluate(self, rows: FitRows, at_most: int | None = None) -> tuple[float, float]:
        """Mean NLL in nats, and the error of the posterior's first choice, over (the first) rows."""
        generator = torch.Generator(self.device).manual_seed(derived_seed(self.config.seed, "evaluate"))
        total, wrong, count = 0.0, 0, min(len(rows), at_most or len(rows))
        for start in range(0, count, ROWS):
            indices = torch.arange(start, min(start + ROWS, count), device=self.device)
            x, log_q, _ = rows.batch(indices, generator)
            latents: Latents = self.network.latents(x)
            joint = self.network.base.log_joint(latents)
            labels = rows.y[indices]
            total -= float(joint.gather(1, labels[:, None]).sum() - log_q.double().sum())
            wrong += int((joint.argmax(1) != labels).sum())
        return total / max(count, 1), wrong / max(count, 1)

    def floor(self) -> dict[str, float]:
        """The Bayes error at temperature 1 of the classes as they are now."""
        base = self.network.base
        means, log_scales = (item.detach().double().cpu().numpy() for item in (base.means, base.log_scales))
        variances, priors = np.exp(2 * log_scales), torch.exp(base.log_priors.double()).cpu().numpy()
        covariance = {"covs": variances} if len(variances) > 1 else {"cov": variances[0]}
        try:
            result = bayes.gaussian(
                means, priors=priors / priors.sum(), rtol=FLOOR_RTOL, max_draws=2**14, **covariance
            )
        except HardpanError:  # classes that have run away from each other beyond what floats hold
            return {"bayes_error": 0.0, "bayes_error_stderr": 0.0}
        return {"bayes_error": result.value, "bayes_error_stderr": result.stderr}

    def tensors(self) -> dict[str, Tensor]:
        """Everything that an exact resume needs."""
        return join_state_tensors({"network.": self.network.state_dict()}) | self.optimizer.tensors(".")

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Resume from the state that :meth:`tensors` returned."""
        self.network.load_state_dict(tensors_with_prefix("network.", tensors))
        self.optimizer.load_tensors(tensors, ".")

    def weights(self) -> dict[str, Tensor]:
        """The averaged weights, which are what is kept."""
        return self.optimizer.weights()

    def _bits(self, nll: float) -> float:
        return nll / (math.log(2) * self.network.scaling.dimension)


CHECKPOINTS = "checkpoints"


def fit(
    dataset: Any,
    config: FlowConfig | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Flow:
    """Fit a class-conditional flow to the training rows of a dataset.

    Minimises (−log π_y p_y(x)) in bits per dimension plus λ times a classification loss (Theisen et al. 2021,
    section 4.1) by Adam; the averaged weights of the epoch with the best validation NLL are kept. The test rows are
    used once, at the end, and not for any choice.

    Args:
        dataset: labelled images (Glow) or feature vectors (splines), or anything that opens as one; split
            by :meth:`hardpan.Dataset.splits`.
        config: settings; default ``FlowConfig()``.
        out: folder for the flow and, while it is fitted, its checkpoints: the same call resumes an interrupted fit.
        progress: called with a line and the fraction done.

    Example:
        >>> from hardpan import Dataset, flows
        >>> flow = flows.fit(Dataset.open("digits"), flows.FlowConfig(preset="tiny", epochs=2))
        >>> flow.record.fitted["epochs"], flow.bayes_error().method
        (2, 'importance')
    """
    if config is not None and not isinstance(config, FlowConfig):
        raise InputError(
            f"must be a FlowConfig, such as FlowConfig(preset='tiny'); got {config!r}", argument="config"
        )
    settings = (config or FlowConfig()).filled()
    dataset = Dataset.open(dataset)
    dataset.require_labels()
    if dataset.n_classes < 2:
        raise InputError(f"dataset {dataset.name!r} has {dataset.n_classes} class; a flow needs at least 2")
    split = dataset.splits(seed=settings.seed)
    device = engine.pick_device(settings.device)
    with (
        distributed.process_group(device),
        engine.locked_run_folder(out),
        devices.matrix_precision("float32", device),
    ):
        task = prepare_fit(dataset, split, settings, device)
        identity = dataclasses.asdict(settings) | {"dataset": dataset.name, "rows": len(dataset)}
        # A file of the same name and length may hold other examples by now.
        identity["data_sha256"] = (
            array_hash(dataset.require_vectors("a flow"))[:32] + array_hash(dataset.require_labels())[:32]
        )
        del identity["device"]
        begun = time.monotonic()
        history = engine.run_epochs(
            task,
            settings.epochs or 1,
            monitor="validation_nll",
            patience=settings.patience,
            folder=None if out is None else Path(out) / CHECKPOINTS,
            settings=identity,
            progress=progress,
        )
        flow = fitted_flow(dataset, split, task, history, time.monotonic() - begun)
        if out is not None and distributed.is_main_process():
            flow.save(out)
    return flow


def prepare_fit(dataset: Dataset, split: Split, config: FlowConfig, device: torch.device) -> FlowTask:
    """Make the run that :func:`fit` trains: an untrained network, its rows on the device, its optimiser."""
    labels = dataset.require_labels()
    counts = np.bincount(labels[split.train], minlength=dataset.n_classes)
    if counts.min() == 0:
        missing = dataset.class_names[int(counts.argmin())]
        raise InputError(f"class {missing!r} has no training row; remove the class or add rows")
    x = dataset.require_vectors("a flow")[split.train]
    network = build(config, scaling_for(x, config), torch.from_numpy(counts / counts.sum())).to(device)
    train = FitRows(network, x, labels[split.train], device)
    held_out = split.validation if len(split.validation) else split.train
    task = FlowTask(
        network, config, train, FitRows(network, dataset.inputs[held_out], labels[held_out], device), device
    )
    task.start()
    return task


def fitted_flow(dataset: Dataset, split: Split, task: FlowTask, history: engine.History, seconds: float) -> Flow:
    """Make a flow of a run's best weights, and say how the run went; here the test rows are looked at."""
    config, labels = task.config, dataset.require_labels()
    network = task.network
    task._compute_in(run_glow_plain, "float32")
    network.load_state_dict({name: value.to(task.device) for name, value in history.best_weights.items()})
    validation_nll, validation_error = task.evaluate(task.validation)
    fitted: dict[str, Any] = {
        "dataset": dataset.name,
        "split": split.method,
        "train_rows": len(split.train),
        "epochs": len(history.epochs),
        "best_epoch": history.best_epoch + 1,
        "stopped": history.stopped,
        "train_nll": history.epochs[history.best_epoch]["nll"],
        "validation_nll": validation_nll,
        "validation_bits_per_dim": task._bits(validation_nll),
        "validation_error": validation_error,
        "validation_rows": len(task.validation),
    }
    if len(split.test):
        test = FitRows(network, dataset.inputs[split.test], labels[split.test], task.device)
        fitted["test_nll"], fitted["test_error"] = task.evaluate(test)
        fitted["test_bits_per_dim"] = task._bits(fitted["test_nll"])
        fitted["test_rows"] = len(test)
    fitted |= {
        "seconds": round(seconds, 3),
        "device": devices.describe_device(task.device),
        "versions": {
            "hardpan": hardpan.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }
    floors = tuple(
        {name: values[name] for name in ("validation_nll", "validation_error", "bayes_error", "bayes_error_stderr")}
        | {"epoch": number}
        for number, values in enumerate(history.epochs, 1)
    )
    record = FlowRecord(config, dataset.class_names, describe_scaling(network.scaling), fitted, floors)
    return Flow(network, record)
