"""Settings of a training run in one place, saved with every result, and defaults that suit an architecture."""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from hardpan.arguments import one_of, real_number, whole_number
from hardpan.errors import InputError
from hardpan.files import record

AUGMENTATIONS = ("auto", "none", "crop", "crop-flip")
OBJECTIVES = ("erm", "groupdro", "reweight", "upsample", "subsample")

# What decides where a run computes and what is kept of it, but not its numbers.
_NOT_THE_NUMBERS = {
    "model",
    "seeds",
    "record_every",
    "device",
    "threads",
    "patience",
    "evaluation_batch",
    "capture",
}


@record
class TrainConfig:
    """Settings of ``hardpan train``.

    Attributes:
        model: architecture, or several separated by commas: a name such as ``resnet18``, or ``module:factory``.
        seeds: number of runs per architecture, with seeds 0, 1, ...
        epochs: number of epochs.
        batch: examples per step, over all processes.
        optimizer: ``sgd`` (Nesterov momentum), ``adamw`` or ``adam``; default: ``sgd``.
        rate: peak learning rate; default: by architecture and optimizer.
        momentum: momentum of ``sgd``.
        weight_decay: weight decay, not of biases and normalisation layers; default: by optimizer.
        schedule: ``cosine``, ``step`` (a tenth after 50 % and after 75 % of the run) or ``constant``.
        warmup: fraction of the run in which the learning rate rises.
        clip: largest norm of the gradient; 0: no limit.
        smoothing: label smoothing, from 0 to 1.
        ema: decay of an exponential moving average of the weights, which then predicts; 0: none.
        augment: ``auto`` (crops and flips of colour images, crops of grey ones, none for vectors), ``none``,
            ``crop`` or ``crop-flip``.
        objective: ``erm``, or with groups ``groupdro``, ``reweight``, ``upsample`` or ``subsample``.
        objective_options: a setting of the objective.
        model_options: a setting of the architecture, such as width=64.
        record_every: number of epochs between recorded predictions; the last epoch is always recorded.
        patience: stop after this many epochs without a lower validation loss; 0: never.
        precision: ``float32``, ``tf32``, ``bf16``, or ``auto`` (bf16 on a GPU, float32 on a CPU).
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        threads: CPU threads per run; the same number gives the same bits.
        evaluation_batch: examples per batch when predicting; 0: by device.
        capture: on a GPU, capture the training step as a CUDA graph; not for models that read values back.
        compile: compile the model with ``torch.compile`` (needs a C++ compiler).

    Example:
        >>> TrainConfig(model="mlp", epochs=0)
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: epochs must be a whole number of at least 1; got 0
    """

    model: str = "resnet18"
    seeds: int = 3
    epochs: int = 20
    batch: int = 128
    optimizer: str = ""
    rate: float | None = None
    momentum: float = 0.9
    weight_decay: float | None = None
    schedule: str = "cosine"
    warmup: float = 0.2
    clip: float | None = None
    smoothing: float = 0.0
    ema: float = 0.0
    augment: str = "auto"
    objective: str = "erm"
    objective_options: Mapping[str, Any] = field(default_factory=dict)
    model_options: Mapping[str, Any] = field(default_factory=dict)
    record_every: int = 1
    patience: int = 0
    precision: str = "auto"
    device: str = "auto"
    threads: int = 1
    evaluation_batch: int = 0
    capture: bool = True
    compile: bool = False

    def __post_init__(self) -> None:
        for name, least in _WHOLE_NUMBERS.items():
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least))
        for name, interval in _INTERVALS.items():
            if getattr(self, name) is not None or name not in _BY_ARCHITECTURE:
                object.__setattr__(self, name, real_number(name, getattr(self, name), interval))
        for name, allowed in _CHOICES.items():
            one_of(name, getattr(self, name), allowed)
        if not isinstance(self.model, str) or not self.models:
            raise InputError(
                f"must name an architecture, such as resnet18, or several with commas; got {self.model!r}",
                argument="model",
            )
        if len(set(self.models)) < len(self.models):
            raise InputError(
                f"must name each architecture once; got {self.model!r}: raise seeds for more runs", argument="model"
            )
        for name in ("objective_options", "model_options"):
            if not isinstance(getattr(self, name), Mapping):
                raise InputError(
                    f"must map names to values, such as {{}}; got {getattr(self, name)!r}", argument=name
                )

    @property
    def models(self) -> tuple[str, ...]:
        """The architectures, one by one, under the names that are recorded.

        Example:
            >>> TrainConfig(model="mlp, ResNet18").models
            ('mlp', 'resnet18')
        """
        return tuple(self.canonical_model(name) for name in self.model.split(",") if name.strip())

    @staticmethod
    def canonical_model(name: str) -> str:
        """The name under which an architecture is known and recorded; a ``module:factory`` stays as it is.

        Example:
            >>> [TrainConfig.canonical_model(name) for name in ("ResNet18", "wide resnet", "my_nets:small")]
            ['resnet18', 'wide-resnet-28-10', 'my_nets:small']
        """
        name = name.strip()
        if ":" in name:
            return name
        plain = re.sub(r"[\s_]+", "-", name.lower())
        return "wide-resnet-28-10" if plain == "wide-resnet" else plain

    def recorded_epochs(self) -> tuple[int, ...]:
        """The epochs whose predictions are kept; epoch 1 is the state after one pass.

        Example:
            >>> TrainConfig(epochs=7, record_every=3).recorded_epochs()
            (3, 6, 7)
        """
        epochs = set(range(self.record_every, self.epochs + 1, self.record_every))
        return tuple(sorted(epochs | {self.epochs}))

    def deciding(self) -> dict[str, Any]:
        """The settings that decide the numbers of a run; a run resumes only with the same ones."""
        plain = dataclasses.asdict(self)
        return {name: value for name, value in plain.items() if name not in _NOT_THE_NUMBERS}


def changed_train_config(config: TrainConfig | None, changes: Mapping[str, Any]) -> TrainConfig:
    """Settings (default ones if None) with some of them changed.

    Example:
        >>> changed_train_config(None, {"epoch": 3})
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: epoch is not a setting of TrainConfig; did you mean epochs?
    """
    if config is not None and not isinstance(config, TrainConfig):
        raise InputError(
            f"must be a TrainConfig, such as TrainConfig(model='mlp', epochs=3); got {config!r}: settings "
            "can also be passed by name, train(..., epochs=3)",
            argument="config",
        )
    known = [item.name for item in dataclasses.fields(TrainConfig)]
    for name in changes:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1)
            meant = f"did you mean {nearest[0]}?" if nearest else f"it has {', '.join(known)}"
            raise InputError(f"{name} is not a setting of TrainConfig; {meant}")
    return dataclasses.replace(config or TrainConfig(), **changes)


_WHOLE_NUMBERS = {
    **dict.fromkeys(("seeds", "epochs", "batch", "record_every", "threads"), 1),
    **dict.fromkeys(("patience", "evaluation_batch"), 0),
}
_INTERVALS = {
    "rate": "(0, inf)",
    **dict.fromkeys(("weight_decay", "clip"), "[0, inf)"),
    **dict.fromkeys(("momentum", "warmup", "smoothing"), "[0, 1]"),
    "ema": "[0, 0.999999]",
}
_BY_ARCHITECTURE = ("rate", "weight_decay", "clip")  # None until :func:`with_defaults` fills them in
_CHOICES = {
    "optimizer": ("", "sgd", "adamw", "adam"),
    "schedule": ("cosine", "step", "constant"),
    "augment": AUGMENTATIONS,
    "objective": OBJECTIVES,
    "precision": ("auto", "float32", "tf32", "bf16"),
}


_BATCH = 128  # the batch size for which the rates of SGD are stated
_LARGE_BATCH = 512  # up to here rates grow in proportion, beyond it with the root
_RATES = {"alexnet": 0.02, "vgg": 0.05}
_USUAL_RATE = 0.1


def with_defaults(config: TrainConfig, model: str, input_shape: Sequence[int]) -> TrainConfig:
    """Fill in optimiser, rate, weight decay and clipping for one architecture and form of examples.

    Residual nets get the recipe that is usual on CIFAR: SGD with Nesterov momentum 0.9, decay 5e-4 of all but
    biases and normalisations, highest rate 0.1 at batch 128 and 0.4 at batch 512 (He et al., 2016; Goyal et al.,
    2017). VGG, whose dropout makes gradients noisier, gets half of that rate. Without normalisation the largest
    stable rate falls with the number of inputs: min(0.1, 10/d) for dense nets of d inputs. AlexNet gets 0.02 at
    every batch size: with 0.08 at batch 512, one of three runs on CIFAR-10 diverged. Adam and AdamW get 1e-3.

    Example:
        >>> with_defaults(TrainConfig(batch=256), "resnet18", (3, 32, 32)).rate
        0.2
    """
    optimizer = config.optimizer or "sgd"
    if optimizer == "sgd":
        suitable, decay = next((rate for name, rate in _RATES.items() if model.startswith(name)), _USUAL_RATE), 5e-4
        if model in ("linear", "mlp"):
            suitable = min(_USUAL_RATE, 10 / math.prod(input_shape))
        if model != "alexnet":
            suitable *= min(config.batch, _LARGE_BATCH) / _BATCH * math.sqrt(max(config.batch / _LARGE_BATCH, 1.0))
    else:
        suitable, decay = 1e-3, 0.05 if optimizer == "adamw" else 0.0
    return dataclasses.replace(
        config,
        model=model,
        optimizer=optimizer,
        rate=suitable if config.rate is None else config.rate,
        weight_decay=decay if config.weight_decay is None else config.weight_decay,
        clip=config.clip or 0.0,
    )
