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
from collections.abc import Callable
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
from hardpan.auditing.evidence import AuditNote, Evidence
from hardpan.bayes.floors.error_estimates import Labels
from hardpan.bayes.floors.inputs import standardised, unit_vectors
from hardpan.bayes.floors.model_predictions import model_of
from hardpan.bayes.floors.neighbours import nearest_rows
from hardpan.data.dataset import Split
from hardpan.engine.devices import torch_threads_for_load
from hardpan.predictions import Predictions

ALL_ROWS = 20_000  # up to this many examples the ensemble predicts all of them, beyond only validation and test
MOMENTS = 6  # at which an ensemble's predictions are recorded
FLIP_QUERIES, FLIP_REFERENCES = 300, 3000
FLIP_LOSS = 0.1  # accuracy that 1-NN may lose on mirrored images before mirroring counts as changing the class
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
    """What networks are trained on; made by :meth:`of_features` or :meth:`of_images`.

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

    @classmethod
    def of_features(cls, x: NDArray[Any], labels: Labels, n_classes: int) -> NetworkData:
        """Standardised features (N, d)."""
        ahead = np.asarray(x, dtype=np.float32)
        return cls(ahead, labels, n_classes, ahead=ahead)

    @classmethod
    def of_images(
        cls, x: NDArray[Any], labels: Labels, n_classes: int, train: Labels, *, flip: bool = False
    ) -> NetworkData:
        """Images (N, H, W[, C]), scaled by the pixels of up to 5,000 training images."""
        sample = x[train[:5000]].astype(np.float64)
        data = cls(x, labels, n_classes, flip, float(sample.mean()), float(sample.std()) or 1.0)
        if x.size > SCALED_AHEAD:
            return data
        ahead = np.empty((len(x), *data.scaled(x[:1]).shape[1:]), dtype=np.float32)
        for start in range(0, len(x), SCALED_AT_ONCE):
            ahead[start : start + SCALED_AT_ONCE] = data.scaled(x[start : start + SCALED_AT_ONCE])
        return replace(data, ahead=ahead)

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

    def save(self, path: Path) -> None:
        """Write its tensors and predictions: PATH.safetensors, then PATH.npz, which marks it complete."""
        save_file(self.state, f"{path}.safetensors")
        partial = path.with_name(f"{path.name}.part.npz")
        np.savez(partial, probs=self.probs, epochs=np.array(self.epochs))
        os.replace(partial, f"{path}.npz")

    @classmethod
    def load(cls, path: str | Path) -> TrainedNetwork | None:
        """Read what :meth:`save` wrote; None where it is not complete."""
        try:
            with np.load(f"{path}.npz", allow_pickle=False) as arrays:
                probs, epochs = arrays["probs"], float(arrays["epochs"])
            return cls(probs, epochs, load_file(f"{path}.safetensors"))
        except (OSError, ValueError, KeyError):
            return None


def network_data(evidence: Evidence) -> NetworkData:
    """Images, or standardised features, scaled once; mirrored images only where that keeps the class."""
    if evidence.network_data is None:
        x, labels, k, inputs = evidence.dataset.x, evidence.labels, evidence.dataset.n_classes, evidence.inputs
        assert inputs is not None
        if evidence.on_pixels:
            train, flip = inputs.split.train, keeps_class_when_mirrored(x, labels, inputs.split)
            evidence.network_data = NetworkData.of_images(x, labels, k, train, flip=flip)
        else:
            evidence.network_data = NetworkData.of_features(inputs.table.scaled, labels, k)
    return evidence.network_data


def keeps_class_when_mirrored(x: NDArray[Any], labels: Labels, split: Split) -> bool:
    """Whether mirrored images are still nearest to images of their class: then training may mirror them.

    Compares 1-NN accuracy on 300 validation images as they are and mirrored, against 3,000 training images.
    """
    references, queries = split.train[:FLIP_REFERENCES], split.validation[:FLIP_QUERIES]
    if len(queries) < 20:
        return False
    flat = x[references].reshape(len(references), -1).astype(np.float32)
    accuracy = []
    for images in (x[queries], x[queries][:, :, ::-1]):
        nearest = nearest_rows(flat, images.reshape(len(queries), -1).astype(np.float32), 1)[0][:, 0]
        accuracy.append(float((labels[references][nearest] == labels[queries]).mean()))
    return accuracy[1] >= accuracy[0] - FLIP_LOSS


def train_networks(evidence: Evidence, seconds: float, work: Path) -> None:
    """Networks of several seeds, each with an equal part of the time that is left; finished ones are read back."""
    config, split = evidence.config, evidence.modelled
    rows = np.sort(np.concatenate([split.validation, split.test]))
    if len(evidence.dataset) <= ALL_ROWS:
        rows = np.arange(len(evidence.dataset))
    # Seconds in which nothing is trained: examples are scaled, and building an optimiser imports more of torch.
    network_data(evidence)
    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])
    end = time.monotonic() + seconds
    trained: list[TrainedNetwork] = []
    for number in range(config.seeds):
        path = work / f"network-{number}"
        if trained and time.monotonic() > end and not config.ensemble_epochs:
            evidence.notes.append(AuditNote("fewer-networks", {"trained": len(trained), "planned": config.seeds}))
            break
        one = TrainedNetwork.load(path)
        if one is None or one.probs.shape[1] != len(rows):
            left = max(1.0, (end - time.monotonic()) / (config.seeds - number))
            seed = config.seed + 1000 * number
            one = train_network(evidence, split.train, split.validation, rows, left, moments=MOMENTS, seed=seed)
            one.save(path)
        trained.append(one)
    kind = "convolutional networks" if evidence.on_pixels else "perceptrons"
    name = f"ensemble of {len(trained)} {kind}" if len(trained) > 1 else kind[:-1]
    model = model_of(
        name,
        Predictions.from_arrays(np.stack([one.probs for one in trained]), name=name, held_out=False),
        rows,
        len(evidence.dataset),
        evidence.dataset.n_classes,
        evidence.labels,
        trained_here=True,
        held_out=True,
        weights=tuple(str(work / f"network-{number}") for number in range(len(trained))),
    )
    evidence.models = (*evidence.models, model)
    epochs = [one.epochs for one in trained]
    if not config.ensemble_epochs and max(epochs) < MOST_EPOCHS - 1:
        evidence.notes.append(AuditNote("epochs", {"low": min(epochs), "high": max(epochs)}))


def train_network(
    evidence: Evidence,
    train: Labels,
    validation: Labels,
    rows: Labels,
    seconds: float,
    *,
    moments: int = 1,
    seed: int = 0,
) -> TrainedNetwork:
    """Train one network within about ``seconds``, or for ``ensemble_epochs``, and predict ``rows``.

    Args:
        evidence: examples, labels and settings.
        train: rows to train on.
        validation: rows that decide when to stop; may be empty.
        rows: rows to predict.
        seconds: wall-clock limit, from the first step on.
        moments: how many times the rows are predicted, at equal fractions of the schedule.
        seed: of weights, order and augmentation.
    """
    epochs, device = evidence.config.ensemble_epochs, evidence.config.device
    data = network_data(evidence)
    with torch_threads_for_load(fixed=bool(epochs)):
        task = NetworkTask(data, train, validation, rows, 0.0 if epochs else seconds, epochs, moments, seed, device)
        # The budget ends the run: a last batch of one example is left out, so a run may need more passes.
        most = 2 * (epochs or MOST_EPOCHS)
        history = engine.run_epochs(task, most, monitor="validation_loss", patience=0 if epochs else PATIENCE)
        if history.best_weights:
            task.network.load_state_dict(history.best_weights)
        probs = [*task.probs, *([task.predicted()] * (moments - len(task.probs)))]
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in task.network.state_dict().items()}
    return TrainedNetwork(np.stack(probs), task.budget.step / task.steps, state)


class NetworkTask(engine.Task):
    """Trains one network; the arguments are those of :func:`train_network`, with 0 seconds or 0 epochs.

    Attributes:
        network: in training.
        probs: predictions of the rows at the moments that have passed.
    """

    budget: engine.LoopBudget

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
        self.budget = engine.LoopBudget(self.steps * (epochs or MOST_EPOCHS), seconds)
        self.probs: list[NDArray[np.float32]] = []
        self._begin = time.monotonic()

    def begin_epoch(self, epoch: int) -> None:
        """Draw the order of the rows."""
        self._order = self._rng.permutation(self._train)
        self.network.train()

    def step(self, index: int) -> None:
        """One step of AdamW; predictions of the rows when a moment has come."""
        fraction = self.budget.fraction
        # A short linear rise, then a cosine to nearly 0.
        relative = 0.5 * (1 + math.cos(math.pi * (fraction - 0.1) / 0.9)) + 1e-3
        for group in self._optimiser.param_groups:
            group["lr"] = RATE * (0.1 + 9 * fraction if fraction < 0.1 else relative)
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


def network_predictor(evidence: Evidence, number: int) -> Callable[[NDArray[Any]], NDArray[np.float32]]:
    """A function from new examples to probabilities, by network ``number`` of the trained ensemble."""
    model = next(item for item in evidence.models if item.weights)
    one = TrainedNetwork.load(model.weights[number])
    assert one is not None
    data, train, own = network_data(evidence), evidence.modelled.train, evidence.dataset.inputs
    network = _network(data)
    network.load_state_dict(one.state)

    def predict(x: NDArray[Any]) -> NDArray[np.float32]:
        if own.ndim == 2:  # features of new examples are standardised with the old ones
            whole = np.concatenate([own, x])
            encoded = evidence.dataset.vectors is not None
            x = unit_vectors(whole, train) * np.sqrt(x.shape[1]) if encoded else standardised(whole, train)
            x = x[len(own) :]
        new = _Examples(replace(data, x=x, ahead=None), torch.device("cpu"))
        return _predicted(network, new, np.arange(len(x)), data.n_classes)

    return predict


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
