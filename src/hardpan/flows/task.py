"""One training run of a flow, as the engine's loop wants it: its step, its evaluation, its tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardpan import bayes, engine
from hardpan.engine import distributed, optimization, randomness
from hardpan.errors import HardpanError
from hardpan.flows.base import Latents
from hardpan.flows.config import FlowConfig
from hardpan.flows.fast import Dropout, PlainOps, fast_runner
from hardpan.flows.glow import Glow
from hardpan.flows.network import FlowNetwork
from hardpan.flows.scaling import ImageScaling, Scaling, VectorScaling
from hardpan.flows.steps import Runner, run_plain

EVALUATED = 2048  # validation rows looked at after every epoch; the last evaluation takes all of them
ROWS = 512  # rows evaluated at once
FLOOR_RTOL = 0.01
BETAS = (0.9, 0.999)


class Rows:
    """Examples on the device, in the shape that the network sees: integers stay bytes until a batch is taken."""

    def __init__(self, network: FlowNetwork, x: NDArray[Any], y: NDArray[np.int64], device: torch.device) -> None:
        self.scaling: Scaling = network.scaling
        self.n_classes = network.base.n_classes
        self.integers = not np.issubdtype(x.dtype, np.floating)
        if self.integers and isinstance(self.scaling, ImageScaling):
            ready = self.scaling.padded(x)
            kept = ready.astype(np.uint8) if ready.max(initial=0) < 256 else ready.astype(np.float32)
        elif self.integers and isinstance(self.scaling, VectorScaling):
            kept = self.scaling.chosen(x).astype(np.float32)
        else:
            kept = self.scaling.continuous(x, np.random.default_rng(0))
        self.x = torch.from_numpy(np.ascontiguousarray(kept)).to(device)
        self.y = torch.from_numpy(np.ascontiguousarray(y, dtype=np.int64)).to(device)
        self.one_hot = torch.eye(self.n_classes, device=device)

    def __len__(self) -> int:
        return len(self.y)

    def batch(self, rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Float32 examples, dequantised with fresh noise, and one-hot labels."""
        x = self.x.index_select(0, rows).float()
        if self.integers:
            x = x + torch.rand(x.shape, generator=generator, device=x.device)
        return x, self.one_hot.index_select(0, self.y.index_select(0, rows))


class FlowTask:
    """Fits a network to rows: Adam on bits per dimension + λ · classification loss, with averaged weights."""

    def __init__(
        self, network: FlowNetwork, config: FlowConfig, train: Rows, validation: Rows, device: torch.device
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
        self.schedule = optimization.RateSchedule(table, device)
        self.parameters = list(network.parameters())
        self.optimizer = optimization.build_optimizer("adam", self.parameters, rate=self.schedule.rate, betas=BETAS)
        self.average = optimization.WeightAverage(network, config.ema) if config.ema else None
        self.noise = torch.Generator(device)
        self.sums = torch.zeros(4, dtype=torch.float64, device=device)
        optimization.allocate_gradients(self.parameters)
        dropout = Dropout(config.dropout, self.noise) if config.dropout else None
        self.runner = training_runner(config, device, dropout)
        self.one_step = engine.CapturedStep(
            self._one_step, device, generators=[self.noise], enabled=isinstance(network.transform, Glow)
        )
        self.order = torch.zeros(0, dtype=torch.int64)

    def start(self) -> None:
        """Set what depends on the first batch (actnorm), the same in every process."""
        self.noise.manual_seed(randomness.derived_seed(self.config.seed, "start"))
        # Many rows on a GPU: a place that is dark in nearly all images has its true spread only among many.
        least = 2048 if self.device.type == "cuda" else 256
        rows = randomness.permutation(len(self.train), self.config.seed, "start")[: max(least, self.batch)]
        x, _ = self.train.batch(rows.to(self.device), self.noise)
        self.network.transform.start(self.network.scaling.to_net(x))
        distributed.broadcast(self.network.state_dict().values())
        if self.average is not None:
            self.average = optimization.WeightAverage(self.network, self.config.ema)

    def begin_epoch(self, epoch: int) -> None:
        """Shuffle; a last batch that is not full begins again at the front."""
        if isinstance(self.network.transform, Glow):
            self.network.transform.runner = self.runner
        self.noise.manual_seed(randomness.derived_seed(self.config.seed, "noise", epoch, distributed.rank()))
        order = randomness.permutation(len(self.train), self.config.seed, "order", epoch)
        wanted = self.steps * self.examples_per_step
        repeats = math.ceil(wanted / len(order))
        self.order = order.repeat(repeats)[:wanted].reshape(self.steps, distributed.world_size(), self.batch)
        self.order = self.order[:, distributed.rank()].contiguous().to(self.device)
        self.sums.zero_()

    def step(self, index: int) -> None:
        """One optimiser step."""
        self.one_step(self.order[index])

    def _one_step(self, rows: Tensor) -> None:
        x, chosen = self.train.batch(rows, self.noise)
        x = self._jittered(x)
        torch._foreach_zero_([item.grad for item in self.parameters if item.grad is not None])
        log_joint, log_class = self.network(x, chosen)
        nll = -log_joint.mean()
        bits = nll / (math.log(2) * self.network.scaling.dimension)
        loss = bits - self.config.class_weight * log_class.mean()
        loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
        distributed.average_gradients(self.parameters)
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.config.clip, foreach=True)
        self.schedule.advance()
        self.optimizer.step()
        if self.average is not None:
            self.average.update()
        self.sums.add_(torch.stack([loss.detach(), nll.detach(), norm, torch.ones_like(norm)]).double())

    def _jittered(self, x: Tensor) -> Tensor:
        scaling = self.network.scaling
        if isinstance(scaling, ImageScaling) or not self.config.jitter:
            return x
        spread = scaling.spread.index_select(0, scaling.used)
        return x + self.config.jitter * spread * torch.randn(x.shape, generator=self.noise, device=x.device)

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

    def averaged(self) -> Any:
        """The context in which the network has its averaged weights and computes plainly, in float32."""
        return _Averaged(self)

    @torch.no_grad()
    def evaluate(self, rows: Rows, at_most: int | None = None) -> tuple[float, float]:
        """Mean NLL in nats, and the error of the posterior's first choice, over (the first) rows."""
        generator = torch.Generator(self.device).manual_seed(randomness.derived_seed(self.config.seed, "evaluate"))
        total, wrong, count = 0.0, 0, min(len(rows), at_most or len(rows))
        for start in range(0, count, ROWS):
            chosen_rows = torch.arange(start, min(start + ROWS, count), device=self.device)
            x, _ = rows.batch(chosen_rows, generator)
            latents: Latents = self.network.latents(x)
            joint = self.network.base.log_joint(latents)
            labels = rows.y[chosen_rows]
            total -= float(joint.gather(1, labels[:, None]).sum())
            wrong += int((joint.argmax(1) != labels).sum())
        return total / max(count, 1), wrong / max(count, 1)

    def floor(self) -> dict[str, float]:
        """The Bayes error at temperature 1 of the classes as they are now."""
        base = self.network.base
        means, log_scales = (item.detach().double().cpu().numpy() for item in (base.means, base.log_scales))
        variances, priors = np.exp(2 * log_scales), torch.exp(base.log_priors.double()).cpu().numpy()
        given = {"covs": variances} if len(variances) > 1 else {"cov": variances[0]}
        try:
            found = bayes.gaussian(means, priors=priors / priors.sum(), rtol=FLOOR_RTOL, max_draws=2**14, **given)
        except HardpanError:  # classes that have run away from each other beyond what floats hold
            return {"bayes_error": 0.0, "bayes_error_stderr": 0.0}
        return {"bayes_error": found.value, "bayes_error_stderr": found.stderr}

    def tensors(self) -> dict[str, Tensor]:
        """Everything that an exact resume needs."""
        found = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        found |= {
            f"optimizer.{name}": value for name, value in optimization.optimizer_tensors(self.optimizer).items()
        }
        found |= {f"schedule.{name}": value for name, value in self.schedule.tensors().items()}
        if self.average is not None:
            found |= {f"average.{name}": value for name, value in self.average.tensors().items()}
        return found

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Go on where :meth:`tensors` was taken."""

        def part(prefix: str) -> dict[str, Tensor]:
            start = prefix + "."
            return {name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)}

        self.network.load_state_dict(part("network"))
        optimization.load_optimizer(self.optimizer, part("optimizer"))
        self.schedule.load_tensors(part("schedule"))
        if self.average is not None:
            self.average.load_tensors(part("average"))

    def weights(self) -> dict[str, Tensor]:
        """The averaged weights, which are what is kept."""
        live = self.network.state_dict() if self.average is None else self.average.values
        return {name: value.detach().clone() for name, value in live.items()}

    def _bits(self, nll: float) -> float:
        return nll / (math.log(2) * self.network.scaling.dimension)


class _Averaged:
    def __init__(self, task: FlowTask) -> None:
        self.task = task
        self.inner = None if task.average is None else task.average.applied()

    def __enter__(self) -> None:
        if isinstance(self.task.network.transform, Glow):
            self.task.network.transform.runner = run_plain
        if self.inner is not None:
            self.inner.__enter__()

    def __exit__(self, *problem: Any) -> None:
        if self.inner is not None:
            self.inner.__exit__(*problem)


def training_runner(config: FlowConfig, device: torch.device, dropout: Dropout | None = None) -> Runner:
    """How the steps of a Glow are computed in training: by Triton kernels on a GPU, in plain torch elsewhere."""
    dtype = torch.bfloat16 if config.precision == "bf16" else torch.float32
    return fast_runner(dtype, None if device.type == "cuda" else PlainOps, dropout)
