"""Small networks that an audit trains: a convolutional one for images, a perceptron for tables (needs torch).

Training is limited by wall-clock time: the learning rate follows the fraction of the time (or of the epochs,
whichever is further), so that under load fewer steps are taken and the rate still ends near zero. With a fixed
number of epochs and no time limit the result depends on the seed alone.
"""

from __future__ import annotations

import math
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from hardpan import engine
from hardpan.bayes.floors.error_estimates import Labels

BATCH = 128
RATE = 4e-3
MOST_EPOCHS = 40
PATIENCE = 5  # epochs without a lower validation loss, after half of the schedule
VALIDATED = 4000  # validation rows that decide when to stop
EVALUATED_AT_ONCE = 512
SCALED_AT_ONCE = 4096
CHANNELS = (16, 48, 96)  # of the convolutions; the last number of all further ones
LARGEST_SIDE = 11  # of the images before the hidden layer
HIDDEN = 128
SCALED_AHEAD = 2**26  # numbers up to which all examples are scaled before training (256 MB)
FORWARD = 1 / 3  # of the time of a training step that predicting as many examples takes
MOMENT_SHARE = 0.5  # of the time that predictions at several moments may take; else only the last one is kept


@dataclass(frozen=True, slots=True, eq=False)
class NetworkData:
    """What networks are trained on; made by :func:`of_features` or :func:`of_images`.

    Attributes:
        x: (N, H, W[, C]) images, or (N, d) standardised features.
        labels: (N,) class numbers.
        n_classes: K.
        flip: whether mirrored images keep their class.
        mean: of the pixels of training images, and ``scale``, their deviation.
        ahead: all examples scaled, images as (N, H, W, C); None where they are scaled when they are needed:
            they may be in a file, and no copy of them all is made.
    """

    x: NDArray[Any]
    labels: Labels
    n_classes: int
    flip: bool = False
    mean: float = 0.0
    scale: float = 1.0
    ahead: NDArray[np.float32] | None = None

    @property
    def is_images(self) -> bool:
        """Whether the examples are images."""
        return self.x.ndim > 2

    def scaled(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """Examples with mean 0 and deviation 1 on train."""
        if not self.is_images:
            return np.asarray(x, dtype=np.float32)
        images = x[..., None] if x.ndim == 3 else x
        return np.asarray((images.astype(np.float64) - self.mean) / self.scale, dtype=np.float32)


def of_features(x: NDArray[Any], labels: Labels, n_classes: int) -> NetworkData:
    """Standardised features (N, d)."""
    ahead = np.asarray(x, dtype=np.float32)
    return NetworkData(ahead, labels, n_classes, ahead=ahead)


def of_images(x: NDArray[Any], labels: Labels, n_classes: int, train: Labels, *, flip: bool = False) -> NetworkData:
    """Images (N, H, W[, C]), scaled by the pixels of up to 5,000 training images."""
    sample = x[train[:5000]].astype(np.float64)
    data = NetworkData(x, labels, n_classes, flip, float(sample.mean()), float(sample.std()) or 1.0)
    if x.size > SCALED_AHEAD:
        return data
    ahead = np.empty((len(x), *data.scaled(x[:1]).shape[1:]), dtype=np.float32)
    for start in range(0, len(x), SCALED_AT_ONCE):
        ahead[start : start + SCALED_AT_ONCE] = data.scaled(x[start : start + SCALED_AT_ONCE])
    return replace(data, ahead=ahead)


@dataclass(frozen=True, slots=True, eq=False)
class TrainedNetwork:
    """One trained network.

    Attributes:
        probs: (T, m, K) probabilities of the requested rows at T moments of the training, the last one final.
        epochs: passes over the training rows.
        state: tensors by name.
    """

    probs: NDArray[np.float32]
    epochs: float
    state: dict[str, Any]


def start_up() -> None:
    """Build an optimiser, which imports more of torch: seconds in which nothing is trained."""
    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])


def train_network(
    data: NetworkData,
    train: Labels,
    validation: Labels,
    rows: Labels,
    *,
    seconds: float,
    epochs: int = 0,
    moments: int = 1,
    seed: int = 0,
    device: str = "auto",
) -> TrainedNetwork:
    """Train one network within about ``seconds`` and predict ``rows``.

    Args:
        data: examples and labels.
        train: rows to train on.
        validation: rows that decide when to stop; may be empty.
        rows: rows to predict.
        seconds: wall-clock limit, from the first step on.
        epochs: exactly so many, without a time limit; 0: at most 40 within the time.
        moments: how many times the rows are predicted, at equal fractions of the schedule.
        seed: of weights, order and augmentation.
        device: "auto", "cpu", "cuda" or "cuda:N".
    """
    task = NetworkTask(data, train, validation, rows, 0.0 if epochs else seconds, epochs, moments, seed, device)
    # The budget ends the run: a last batch of one example is left out, so a run may need more passes.
    most = 2 * (epochs or MOST_EPOCHS)
    loop = engine.LoopConfig(most, monitor="validation_loss", patience=0 if epochs else PATIENCE)
    history = engine.run_epochs(task, loop)
    if history.best_weights:
        task.network.load_state_dict(history.best_weights)
    probs = [*task.probs, *([task.predicted()] * (moments - len(task.probs)))]
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in task.network.state_dict().items()}
    return TrainedNetwork(np.stack(probs), task.budget.step / task.steps, state)


class NetworkTask(engine.Task):
    """Trains one network; the arguments are those of :func:`train_network`, 0 seconds without a limit.

    Attributes:
        network: in training.
        probs: predictions of the rows at the moments that have passed.
    """

    budget: engine.TimeBudget

    def __init__(
        self,
        data: NetworkData,
        train: Labels,
        validation: Labels,
        rows: Labels,
        seconds: float,
        epochs: int,
        moments: int,
        seed: int,
        device: str,
    ) -> None:
        where = engine.pick_device(device)
        torch.manual_seed(seed)
        self._data, self._train, self._validation, self._rows = data, train, validation[:VALIDATED], rows
        self._x, self.network = _Examples(data, where), _network(data).to(where)
        self._labels = torch.from_numpy(data.labels).to(where)
        self._optimiser = torch.optim.AdamW(self.network.parameters(), lr=RATE, weight_decay=1e-2)
        self._rng = np.random.default_rng([seed, 41])
        self._seconds, self._moments = seconds, moments
        self.steps, self.examples_per_step = max(1, math.ceil(len(train) / BATCH)), BATCH
        self.budget = engine.TimeBudget(self.steps * (epochs or MOST_EPOCHS), seconds)
        self.probs: list[NDArray[np.float32]] = []
        self._begin = time.monotonic()

    def begin_epoch(self, epoch: int) -> None:
        """Draw the order of the rows."""
        self._order = self._rng.permutation(self._train)
        self.network.train()

    def step(self, index: int) -> None:
        """One step of AdamW; predictions of the rows when a moment has come."""
        fraction = self.budget.fraction
        for group in self._optimiser.param_groups:
            group["lr"] = RATE * _schedule(fraction)
        batch = self._order[index * BATCH : (index + 1) * BATCH]
        if len(batch) < 2:
            return
        inputs = _augmented(self._x[batch], self._data, self._rng)
        truth = self._labels[torch.from_numpy(batch).to(self._labels.device)]
        loss = functional.cross_entropy(self.network(inputs), truth)
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        self.budget.step += 1
        self._predict_moments(min(self._moments - 1, int(fraction * self._moments)))

    def _predict_moments(self, due: int) -> None:
        """Predict the rows where a moment has come, and keep time for predicting them at the end."""
        if not self.probs:
            per_step = (time.monotonic() - self._begin) / self.budget.step
            self.budget.reserved = FORWARD * per_step * len(self._rows) / BATCH
        affordable = self._moments * self.budget.reserved <= MOMENT_SHARE * self._seconds
        if len(self.probs) < due and (affordable or not self._seconds):
            now = time.monotonic()
            self.probs += [self.predicted()] * (due - len(self.probs))
            self.budget.reserved = time.monotonic() - now
            self.network.train()

    def predicted(self) -> NDArray[np.float32]:
        """Probabilities of the rows."""
        return _predicted(self.network, self._x, self._rows, self._data.n_classes)

    def end_epoch(self, epoch: int) -> dict[str, float]:
        """The loss of validation rows, in the second half of the schedule."""
        if not len(self._validation) or self.budget.fraction <= 0.5:
            return {}
        loss = _loss(self.network, self._x, self._labels, self._validation)
        return {"validation_loss": loss if math.isfinite(loss) else sys.float_info.max}

    def weights(self) -> dict[str, Tensor]:
        """All tensors of the network."""
        return dict(self.network.state_dict())


def predict(data: NetworkData, state: dict[str, Any], x: NDArray[Any]) -> NDArray[np.float32]:
    """Probabilities (m, K) of new examples by a trained network; ``data`` gives the scaling."""
    network = _network(data)
    network.load_state_dict(state)
    new = _Examples(replace(data, x=x, ahead=None), torch.device("cpu"))
    return _predicted(network, new, np.arange(len(x)), data.n_classes)


def save_state(network: TrainedNetwork, path: Path) -> None:
    """Write a network's tensors and predictions: PATH.safetensors, then PATH.npz, which marks it complete."""
    save_file(network.state, f"{path}.safetensors")
    partial = path.with_name(f"{path.name}.part.npz")
    np.savez(partial, probs=network.probs, epochs=np.array(network.epochs))
    os.replace(partial, f"{path}.npz")


def load_state(path: Path) -> TrainedNetwork | None:
    """Read what :func:`save_state` wrote; None where it is not complete."""
    if not Path(f"{path}.npz").is_file():
        return None
    try:
        with np.load(f"{path}.npz", allow_pickle=False) as arrays:
            probs, epochs = arrays["probs"], float(arrays["epochs"])
        return TrainedNetwork(probs, epochs, load_file(f"{path}.safetensors"))
    except (OSError, ValueError, KeyError):
        return None


def _schedule(fraction: float) -> float:
    """Learning rate relative to its height: a short linear rise, then a cosine to nearly 0."""
    if fraction < 0.1:
        return 0.1 + 9 * fraction
    return 0.5 * (1 + math.cos(math.pi * (fraction - 0.1) / 0.9)) + 1e-3


class _Examples:
    """Scaled examples by rows, as tensors on a device; images with channels first, in memory last."""

    def __init__(self, data: NetworkData, device: Any) -> None:
        self._data, self._device = data, device
        ahead = data.ahead
        if ahead is None and device.type != "cpu":
            ahead = data.scaled(data.x)
        self._ahead = None if ahead is None else torch.from_numpy(ahead).to(device)

    def __getitem__(self, rows: Labels) -> Tensor:
        if self._ahead is not None:
            block = self._ahead[torch.from_numpy(rows).to(self._device)]
        else:
            block = torch.from_numpy(self._data.scaled(self._data.x[rows]))
        return block.permute(0, 3, 1, 2) if self._data.is_images else block


def _network(data: NetworkData) -> nn.Module:
    """Two hidden layers for features; for images 3 × 3 convolutions down to about 8 × 8, then one hidden layer."""
    layers: list[nn.Module] = []
    if not data.is_images:
        width = data.x.shape[1]
        for hidden in (256, 128):
            layers += [nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(0.1)]
            width = hidden
        return nn.Sequential(*layers, nn.Linear(width, data.n_classes))
    channels = 1 if data.x.ndim == 3 else data.x.shape[3]
    height, width = data.x.shape[1:3]
    depth = 0
    while depth < 2 or min(height, width) > LARGEST_SIDE:
        wider = CHANNELS[min(depth, len(CHANNELS) - 1)]
        layers.append(nn.Conv2d(channels, wider, 3, padding=1, bias=False))
        if min(height, width) > LARGEST_SIDE:
            layers.append(nn.MaxPool2d(2))
            height, width = height // 2, width // 2
        layers += [nn.BatchNorm2d(wider), nn.ReLU()]
        channels, depth = wider, depth + 1
    height, width = min(height, LARGEST_SIDE), min(width, LARGEST_SIDE)
    layers += [nn.AdaptiveAvgPool2d((height, width)), nn.Flatten(), nn.Dropout(0.2)]
    layers += [nn.Linear(channels * height * width, HIDDEN, bias=False), nn.BatchNorm1d(HIDDEN), nn.ReLU()]
    network = nn.Sequential(*layers, nn.Dropout(0.2), nn.Linear(HIDDEN, data.n_classes))
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def _augmented(batch: Tensor, data: NetworkData, rng: np.random.Generator) -> Tensor:
    """Images shifted a little (one shift per batch), half of them mirrored where that keeps the class."""
    if not data.is_images:
        return batch
    height, width = batch.shape[2:]
    reach = max(1, min(height, width) // 14)
    padded = functional.pad(batch, (reach,) * 4, mode="replicate")
    top, left = (int(i) for i in rng.integers(0, 2 * reach + 1, 2))
    moved = padded[:, :, top : top + height, left : left + width]
    if data.flip:
        mirrored = torch.from_numpy(rng.random(len(batch)) < 0.5).to(batch.device)
        moved = torch.where(mirrored[:, None, None, None], moved.flip(3), moved)
    return moved.contiguous(memory_format=torch.channels_last)


def _predicted(network: nn.Module, x: _Examples, rows: Labels, n_classes: int) -> NDArray[np.float32]:
    network.eval()
    probs = np.empty((len(rows), n_classes), dtype=np.float32)
    with torch.no_grad():
        for start in range(0, len(rows), EVALUATED_AT_ONCE):
            which = rows[start : start + EVALUATED_AT_ONCE]
            probs[start : start + len(which)] = torch.softmax(network(x[which]), dim=1).cpu().numpy()
    return probs


def _loss(network: nn.Module, x: _Examples, labels: Tensor, rows: Labels) -> float:
    network.eval()
    total = 0.0
    with torch.no_grad():
        for start in range(0, len(rows), EVALUATED_AT_ONCE):
            which = rows[start : start + EVALUATED_AT_ONCE]
            truth = labels[torch.from_numpy(which).to(labels.device)]
            total += float(functional.cross_entropy(network(x[which]), truth, reduction="sum"))
    return total / len(rows)
