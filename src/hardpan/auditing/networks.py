"""Small networks that an audit trains: a convolutional one for images, a perceptron for tables.

Training is limited by wall-clock time: the learning rate follows the fraction of the time (or of the epochs,
whichever is further), so that under load fewer steps are taken and the rate still ends near zero. With a fixed
number of epochs and no time limit the result depends on the seed alone.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardpan.bayes.floors.classifiers import machine_is_busy
from hardpan.bayes.floors.inputs import Labels
from hardpan.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor, nn

BATCH = 128
RATE = 4e-3
MOST_EPOCHS = 40
PATIENCE = 5  # epochs without a lower validation loss, after half of the schedule
VALIDATED = 4000  # validation rows that decide when to stop
FLIP_QUERIES, FLIP_REFERENCES = 300, 3000
FLIP_LOSS = 0.1  # accuracy that 1-NN may lose on mirrored images before mirroring counts as changing the class
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


def available() -> bool:
    """Whether torch is installed."""
    import importlib.util

    return importlib.util.find_spec("torch") is not None


def start_up() -> None:
    """Import torch and build an optimiser, which imports more: seconds in which nothing is trained."""
    import torch

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
    import torch
    from torch.nn import functional

    where = _device(device)
    torch.manual_seed(seed)
    x, network = _Examples(data, where), _network(data).to(where)
    labels = torch.from_numpy(data.labels).to(where)
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=1e-2)
    start = time.monotonic()
    rng = np.random.default_rng([seed, 41])
    most = epochs or MOST_EPOCHS
    steps = max(1, math.ceil(len(train) / BATCH))
    probs: list[NDArray[np.float32]] = []
    step, best, since, best_state, done = 0, math.inf, 0, None, False
    begin, predicting = time.monotonic(), 0.0  # seconds that predicting the rows will take
    with threads_for_load(fixed=bool(epochs)):
        while not done:
            order = rng.permutation(train)
            network.train()
            for number in range(steps):
                left = 0.0 if epochs else max(seconds - predicting, seconds / 2)
                fraction = _fraction(step, steps * most, start, left)
                if fraction >= 1:
                    done = True
                    break
                for group in optimiser.param_groups:
                    group["lr"] = RATE * _schedule(fraction)
                batch = order[number * BATCH : (number + 1) * BATCH]
                if len(batch) < 2:
                    continue
                inputs = _augmented(x[batch], data, rng)
                loss = functional.cross_entropy(network(inputs), labels[torch.from_numpy(batch).to(where)])
                optimiser.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                step += 1
                due = min(moments - 1, int(fraction * moments))
                if not probs:
                    predicting = FORWARD * (time.monotonic() - begin) / step * len(rows) / BATCH
                if len(probs) < due and (epochs or moments * predicting <= MOMENT_SHARE * seconds):
                    now = time.monotonic()
                    probs += [_predicted(network, x, rows, data.n_classes)] * (due - len(probs))
                    predicting = time.monotonic() - now
                    network.train()
            fraction = _fraction(step, steps * most, start, 0.0 if epochs else seconds)
            if len(validation) and fraction > 0.5:
                value = _loss(network, x, labels, validation[:VALIDATED])
                if value < best:
                    best, since = value, 0
                    best_state = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
                else:
                    since += 1
                done = done or (since >= PATIENCE and not epochs)
            done = done or fraction >= 1
        if best_state is not None:
            network.load_state_dict(best_state)
        final = _predicted(network, x, rows, data.n_classes)
    probs = [*probs, *([final] * (moments - len(probs)))]
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    return TrainedNetwork(np.stack(probs), step / steps, state)


def predict(data: NetworkData, state: dict[str, Any], x: NDArray[Any]) -> NDArray[np.float32]:
    """Probabilities (m, K) of new examples by a trained network; ``data`` gives the scaling."""
    import torch

    network = _network(data)
    network.load_state_dict(state)
    new = _Examples(replace(data, x=x, ahead=None), torch.device("cpu"))
    return _predicted(network, new, np.arange(len(x)), data.n_classes)


def save_state(network: TrainedNetwork, path: Path) -> None:
    """Write a network's tensors and predictions: PATH.safetensors, then PATH.npz, which marks it complete."""
    from safetensors.torch import save_file

    save_file(network.state, f"{path}.safetensors")
    partial = path.with_name(f"{path.name}.part.npz")
    np.savez(partial, probs=network.probs, epochs=np.array(network.epochs))
    os.replace(partial, f"{path}.npz")


def load_state(path: Path) -> TrainedNetwork | None:
    """Read what :func:`save_state` wrote; None where it is not complete."""
    from safetensors.torch import load_file

    if not Path(f"{path}.npz").is_file():
        return None
    try:
        with np.load(f"{path}.npz", allow_pickle=False) as arrays:
            probs, epochs = arrays["probs"], float(arrays["epochs"])
        return TrainedNetwork(probs, epochs, load_file(f"{path}.safetensors"))
    except (OSError, ValueError, KeyError):
        return None


def keeps_class_when_mirrored(x: NDArray[Any], labels: Labels, train: Labels, validation: Labels) -> bool:
    """Whether mirrored images are still nearest to images of their class: then training may mirror them.

    Compares 1-NN accuracy on 300 validation images as they are and mirrored, against 3,000 training images.
    """
    from hardpan.bayes.floors.search import k_nearest

    if x.ndim < 3 or len(validation) < 20:
        return False
    references, queries = train[:FLIP_REFERENCES], validation[:FLIP_QUERIES]
    flat = x[references].reshape(len(references), -1).astype(np.float32)
    accuracy = []
    for images in (x[queries], x[queries][:, :, ::-1]):
        nearest = k_nearest(flat, images.reshape(len(queries), -1).astype(np.float32), 1)[0][:, 0]
        accuracy.append(float((labels[references][nearest] == labels[queries]).mean()))
    return accuracy[1] >= accuracy[0] - FLIP_LOSS


def _device(name: str) -> Any:
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise InputError(f"must be auto, cpu, cuda or cuda:N; got {name!r}", argument="device") from error


@contextmanager
def threads_for_load(*, fixed: bool = False) -> Iterator[None]:
    """One thread on a busy machine, where threads of a step would wait for one another; else as many as before."""
    if fixed or not machine_is_busy():
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _fraction(step: int, steps: int, start: float, seconds: float) -> float:
    """How far the schedule is: by time or by steps, whichever is further."""
    by_time = (time.monotonic() - start) / seconds if seconds else 0.0
    return max(by_time, step / steps)


def _schedule(fraction: float) -> float:
    """Learning rate relative to its height: a short linear rise, then a cosine to nearly 0."""
    if fraction < 0.1:
        return 0.1 + 9 * fraction
    return 0.5 * (1 + math.cos(math.pi * (fraction - 0.1) / 0.9)) + 1e-3


class _Examples:
    """Scaled examples by rows, as tensors on a device; images with channels first, in memory last."""

    def __init__(self, data: NetworkData, device: Any) -> None:
        import torch

        self._data, self._device = data, device
        ahead = data.ahead
        if ahead is None and device.type != "cpu":
            ahead = data.scaled(data.x)
        self._ahead = None if ahead is None else torch.from_numpy(ahead).to(device)

    def __getitem__(self, rows: Labels) -> Tensor:
        import torch

        if self._ahead is not None:
            block = self._ahead[torch.from_numpy(rows).to(self._device)]
        else:
            block = torch.from_numpy(self._data.scaled(self._data.x[rows]))
        return block.permute(0, 3, 1, 2) if self._data.is_images else block


def _network(data: NetworkData) -> nn.Module:
    """Two hidden layers for features; for images 3 × 3 convolutions down to about 8 × 8, then one hidden layer."""
    import torch
    from torch import nn

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
    import torch
    from torch.nn import functional

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
    import torch

    network.eval()
    probs = np.empty((len(rows), n_classes), dtype=np.float32)
    with torch.no_grad():
        for start in range(0, len(rows), EVALUATED_AT_ONCE):
            which = rows[start : start + EVALUATED_AT_ONCE]
            probs[start : start + len(which)] = torch.softmax(network(x[which]), dim=1).cpu().numpy()
    return probs


def _loss(network: nn.Module, x: _Examples, labels: Tensor, rows: Labels) -> float:
    import torch

    network.eval()
    total = 0.0
    with torch.no_grad():
        for start in range(0, len(rows), EVALUATED_AT_ONCE):
            which = rows[start : start + EVALUATED_AT_ONCE]
            truth = labels[torch.from_numpy(which).to(labels.device)]
            total += float(torch.nn.functional.cross_entropy(network(x[which]), truth, reduction="sum"))
    return total / len(rows)
