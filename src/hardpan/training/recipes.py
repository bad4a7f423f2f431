"""Settings that suit an architecture, where the configuration leaves them open."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from hardpan.training.config import TrainConfig


def filled(config: TrainConfig, model: str, input_shape: Sequence[int]) -> TrainConfig:
    """Fill in optimiser, rate, weight decay and clipping for one architecture and form of examples.

    Networks with normalisation get the usual SGD recipe (rate 0.1 a batch of 128, decay 5e-4), transformers AdamW
    (rate 1e-3, decay 0.05, gradients clipped at 1). Without normalisation the largest stable rate falls with the
    number of inputs: min(0.1, 10/d) for dense nets of d inputs. Rates of SGD are in proportion to the batch.

    Example:
        >>> filled(TrainConfig(batch=256), "resnet18", (3, 32, 32)).rate, filled(TrainConfig(), "mlp", (200,)).rate
        (0.2, 0.05)
        >>> filled(TrainConfig(), "vit-small", (3, 32, 32)).optimizer
        'adamw'
    """
    transformer = model.startswith("vit")
    optimizer = config.optimizer or ("adamw" if transformer else "sgd")
    if optimizer == "sgd":
        suitable, decay = _suitable_rate(model, math.prod(input_shape)) * config.batch / 128, 5e-4
    else:
        suitable, decay = 1e-3, 0.05 if optimizer == "adamw" else 0.0
    return dataclasses.replace(
        config,
        model=model,
        optimizer=optimizer,
        rate=config.rate or suitable,
        weight_decay=decay if config.weight_decay < 0 else config.weight_decay,
        clip=config.clip or (1.0 if transformer else 0.0),
    )


def _suitable_rate(model: str, inputs: int) -> float:
    if model in ("linear", "mlp"):
        return min(0.1, 10 / inputs)
    return {"alexnet": 0.02, "random-features": 0.01}.get(model, 0.1)
