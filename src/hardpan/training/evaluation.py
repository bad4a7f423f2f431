"""Probabilities of examples in evaluation mode: whole, in large batches, captured on a GPU."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hardpan import engine
from hardpan.training.examples import Examples

_GPU_PIXELS = 4096 * 32 * 32  # pixels of a batch: activations of the usual networks fit into a few GB
_CPU_PIXELS = 256 * 32 * 32


class Evaluator:
    """Gives softmax probabilities of rows of some examples, as the model is now; ``batch`` of them at a time."""

    def __init__(
        self,
        model: nn.Module,
        examples: Examples,
        *,
        n_classes: int,
        precision: str = "float32",
        batch: int = 0,
        capture: bool = True,
    ) -> None:
        self._model, self._examples, self._precision = model, examples, precision
        self._n_classes = n_classes
        self._device = examples.raw.device
        self.batch = batch or _suitable_batch(examples, self._device)
        self._captured = engine.CapturedStep(self._probabilities, self._device, enabled=capture)

    def __call__(self, rows: Tensor | None = None) -> NDArray[np.float32]:
        """Give the probabilities of rows (all of them where None), shape (n, C) float32.

        Several processes share the work, and each gets the whole.
        """
        if rows is None:
            rows = torch.arange(len(self._examples), device=self._device)
        n, world = len(rows), engine.world_size()
        share = -(-n // world)
        start, stop = engine.rank() * share, min((engine.rank() + 1) * share, n)
        found = np.zeros((n, self._n_classes), dtype=np.float32)
        training = self._model.training
        self._model.eval()
        try:
            for first in range(start, stop, self.batch):
                last = min(first + self.batch, stop)
                found[first:last] = self._captured(rows[first:last]).cpu().numpy()
        finally:
            self._model.train(training)
        if world == 1:
            return found
        joined = torch.from_numpy(found).to(self._device)
        engine.all_reduce_sum(joined)
        return joined.cpu().numpy()

    @torch.no_grad()
    def _probabilities(self, rows: Tensor) -> Tensor:
        inputs = self._examples.normalize(self._examples.raw.index_select(0, rows))
        with engine.autocast(self._precision, self._device):
            logits: Tensor = self._model(inputs)
        return logits.float().softmax(dim=1)


def _suitable_batch(examples: Examples, device: torch.device) -> int:
    pixels = int(np.prod(examples.input_shape[-2:])) if examples.is_image else 256
    return max(1, min(8192, (_GPU_PIXELS if device.type == "cuda" else _CPU_PIXELS) // pixels))


def accuracy_of(probs: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Fraction of rows whose most probable class is the label.

    Example:
        >>> accuracy_of(np.array([[0.9, 0.1], [0.2, 0.8]], dtype=np.float32), np.array([0, 0]))
        0.5
    """
    return float((probs.argmax(axis=1) == labels).mean())


def loss_of(probs: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Mean negative log-probability of the labels, probabilities floored at 1e-12.

    Example:
        >>> round(loss_of(np.array([[0.5, 0.5]], dtype=np.float32), np.array([1])), 4)
        0.6931
    """
    return mean_loss(np.take_along_axis(probs, labels[:, None], axis=1))


def mean_loss(told: NDArray[np.float32]) -> float:
    """The same from the probabilities that were given to the labels."""
    return float(-np.log(np.maximum(told, 1e-12)).mean())
