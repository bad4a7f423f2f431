"""Settings that suit an architecture, where the configuration leaves them open."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from hardpan.training.config import TrainConfig

_BATCH = 128  # the batch that rates of SGD are told for
_LARGE_BATCH = 512  # up to here rates grow in proportion, beyond it with the root
_DENSE = ("linear", "mlp")
_RATES = {"alexnet": 0.02, "random-features": 0.01, "vgg": 0.05}
_USUAL_RATE = 0.1


def filled(config: TrainConfig, model: str, input_shape: Sequence[int]) -> TrainConfig:
    """Fill in optimiser, rate, weight decay and clipping for one architecture and form of examples.

    Residual nets get the recipe that is usual on CIFAR: SGD with Nesterov momentum 0.9, decay 5e-4 of all but
    biases and normalisations, highest rate 0.1 at batch 128 and 0.4 at batch 512 (He et al., 2016; Goyal et al.,
    2017). VGG, whose dropout makes gradients noisier, gets half of that rate; transformers get AdamW (rate 1e-3,
    decay 0.05, gradients clipped at 1). Without normalisation the largest stable rate falls with the number of
    inputs: min(0.1, 10/d) for dense nets of d inputs.

    Example:
        >>> filled(TrainConfig(batch=256), "resnet18", (3, 32, 32)).rate, filled(TrainConfig(), "mlp", (200,)).rate
        (0.2, 0.05)
        >>> filled(TrainConfig(), "vit-small", (3, 32, 32)).optimizer
        'adamw'
    """
    transformer = model.startswith("vit")
    optimizer = config.optimizer or ("adamw" if transformer else "sgd")
    if optimizer == "sgd":
        suitable, decay = _rate(model, math.prod(input_shape)) * _growth(config.batch), 5e-4
    else:
        suitable, decay = 1e-3, 0.05 if optimizer == "adamw" else 0.0
    return dataclasses.replace(
        config,
        model=model,
        optimizer=optimizer,
        rate=config.rate or suitable,
        weight_decay=decay if config.weight_decay < 0 else config.weight_decay,
        clip=(1.0 if transformer else 0.0) if config.clip < 0 else config.clip,
    )


def _rate(model: str, inputs: int) -> float:
    """The highest rate of SGD at a batch of 128."""
    if model in _DENSE:
        return min(_USUAL_RATE, 10 / inputs)
    return next((rate for name, rate in _RATES.items() if model.startswith(name)), _USUAL_RATE)


def _growth(batch: int) -> float:
    """How the rate of SGD grows with the batch.

    Example:
        >>> [_growth(batch) for batch in (64, 128, 512, 2048)]
        [0.5, 1.0, 4.0, 8.0]
    """
    return min(batch, _LARGE_BATCH) / _BATCH * math.sqrt(max(batch / _LARGE_BATCH, 1.0))
