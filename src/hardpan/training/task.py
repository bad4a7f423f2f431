"""One classifier in training, as the engine's loop wants it: a captured step, its sums, and its tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from hardpan import engine
from hardpan.errors import InputError
from hardpan.training.augmentation import choose_augmentation, draws, gather
from hardpan.training.config import TrainConfig
from hardpan.training.examples import Examples
from hardpan.training.goals import Goal

EndOfEpoch = Callable[[int], dict[str, float]]


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """What is trained on.

    Attributes:
        examples: raw examples on the device.
        rows: (n,) the rows of them that are trained on, on the device.
        targets: for all rows of the examples, class numbers (N,) or probabilities (N, C), on the device.
        n_classes: how many classes there are.
        groups: (N,) group numbers where the objective needs them, on the device; those of ``rows`` count.
    """

    examples: Examples
    rows: Tensor
    targets: Tensor
    n_classes: int
    groups: Tensor | None = None


class ClassifierTask:
    """Trains one model on one training set; :func:`hardpan.engine.run_epochs` runs it."""

    def __init__(
        self,
        model: nn.Module,
        given: TrainingSet,
        config: TrainConfig,
        *,
        seed: int,
        precision: str,
        at_end_of_epoch: EndOfEpoch | None = None,
    ) -> None:
        self.model, self._given, self._config, self._seed = model, given, config, seed
        self._device, self._precision = given.examples.raw.device, precision
        self._augmentation = choose_augmentation(config.augment, given.examples.input_shape)
        self._at_end_of_epoch = at_end_of_epoch
        self._goal = Goal(config, given.groups, given.rows, seed)
        self.steps, self.examples_per_step = _cut_into_batches(config.batch, self._goal.length)
        table = engine.rate_table(
            config.schedule,
            rate=config.rate,
            steps=config.epochs * self.steps,
            warmup=round(config.warmup * config.epochs * self.steps),
        )
        self._schedule = engine.RateSchedule(table, self._device)
        self._optimizer = engine.build_optimizer(
            config.optimizer,
            model.parameters(),
            rate=self._schedule.rate,
            weight_decay=config.weight_decay,
            momentum=config.momentum,
        )
        self._trained = [item for item in model.parameters() if item.requires_grad]
        engine.allocate_gradients(self._trained)
        self.average = engine.WeightAverage(model, config.average) if config.average else None
        self._sums = torch.zeros(2, device=self._device)
        self._done = 0
        self._captured = engine.CapturedStep(self._step, self._device, enabled=config.capture)

    def begin_epoch(self, epoch: int) -> None:
        """Draw order, crops and flips; seed the noise inside the model."""
        order = self._goal.order(epoch)[: self.steps * self.examples_per_step]
        drawn = draws(self._augmentation, len(order), self._seed, epoch)
        # Each process takes its share of every batch: together they see what one process would see.
        share = slice(engine.rank(), None, engine.world_size())
        self._order = order.reshape(self.steps, -1)[:, share].to(self._device)
        self._drawn = drawn.reshape(self.steps, -1, 3)[:, share].to(self._device)
        torch.manual_seed(engine.derived_seed(self._seed, "noise", epoch, engine.rank()))
        self._sums.zero_()
        self._done = 0
        self.model.train()

    def step(self, index: int) -> None:
        """Start one step."""
        self._captured(self._order[index], self._drawn[index])
        self._done += 1

    def _step(self, rows: Tensor, drawn: Tensor) -> None:
        given = self._given
        self._schedule.advance()
        self._optimizer.zero_grad(set_to_none=False)
        raw = given.examples.raw
        taken = gather(raw, rows, drawn) if self._augmentation.active else raw.index_select(0, rows)
        with engine.autocast(self._precision, self._device):
            logits = self.model(given.examples.normalize(taken))
        targets = given.targets.index_select(0, rows)
        smoothing = self._config.smoothing
        losses = cross_entropy(logits.float(), targets, reduction="none", label_smoothing=smoothing)
        loss = self._goal.loss(losses, rows)
        loss.backward()  # type: ignore[no-untyped-call]
        engine.average_gradients(self._trained)
        if self._config.clip:
            nn.utils.clip_grad_norm_(self._trained, self._config.clip)
        self._optimizer.step()
        if self.average is not None:
            self.average.update()
        with torch.no_grad():
            wanted = targets.argmax(dim=1) if targets.ndim == 2 else targets
            right = (logits.argmax(dim=1) == wanted).float().mean()
            self._sums += torch.stack([losses.detach().mean(), right])

    def means(self) -> dict[str, float]:
        """Give mean loss and accuracy of this epoch's steps so far, augmented and in training mode."""
        loss, right = (self._sums / max(self._done, 1)).tolist()
        return {"loss": loss, "accuracy": right}

    @contextmanager
    def predicting(self) -> Iterator[None]:
        """Hold the weights that predict in the model, for as long as the block lasts."""
        engine.average_buffers(self.model)
        with nullcontext() if self.average is None else self.average.applied():
            yield

    def end_epoch(self, epoch: int) -> dict[str, float]:
        """Evaluate with the weights that predict."""
        with self.predicting():
            return {} if self._at_end_of_epoch is None else self._at_end_of_epoch(epoch)

    def tensors(self) -> dict[str, Tensor]:
        """Give everything that an exact resume needs."""
        parts: dict[str, Mapping[str, Tensor]] = {
            "model": self.model.state_dict(),
            "optimizer": engine.optimizer_tensors(self._optimizer),
            "schedule": self._schedule.tensors(),
            "goal": self._goal.tensors(),
            "average": self.average.tensors() if self.average is not None else {},
        }
        return {f"{part}/{name}": item for part, items in parts.items() for name, item in items.items()}

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Go on where :meth:`tensors` was taken."""

        def part(name: str) -> dict[str, Tensor]:
            return {
                key.removeprefix(f"{name}/"): item for key, item in tensors.items() if key.startswith(f"{name}/")
            }

        self.model.load_state_dict(part("model"))
        engine.load_optimizer(self._optimizer, part("optimizer"))
        self._schedule.load_tensors(part("schedule"))
        self._goal.load_tensors(part("goal"))
        if self.average is not None:
            self.average.load_tensors(part("average"))

    def weights(self) -> dict[str, Tensor]:
        """Give the weights that predict: the model's, or their running mean."""
        if self.average is None:
            return dict(self.model.state_dict())
        return dict(self.average.values)


def _cut_into_batches(batch: int, n: int) -> tuple[int, int]:
    """Give steps an epoch and examples a step: equal batches, a remainder waits for another epoch's order."""
    world = engine.world_size()
    size = min(batch, n) // world * world
    if size == 0:
        raise InputError(f"a batch of {min(batch, n)} examples cannot be shared by {world} processes; use fewer")
    return n // size, size
