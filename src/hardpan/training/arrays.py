"""Training on arrays in memory, with probabilities in memory: no store, no files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from hardpan import arguments
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.training.config import TrainConfig, changed_train_config, with_defaults
from hardpan.training.examples import (
    as_example_array,
    check_single_precision,
    checked_targets,
    examples_on,
    normalization,
)
from hardpan.training.fitting import Evaluation, TrainingSet, fit_model, progress_of_run, run_state


@dataclass(frozen=True, slots=True, eq=False)
class ArrayFit:
    """Probabilities of classifiers that were trained on arrays.

    Attributes:
        probs: (seeds, recorded epochs, examples, classes) float32.
        epochs: the recorded epochs; 1 is the state after one pass.
        history: for each seed, the loss and accuracy of every epoch.
        config: the settings, with what was left open filled in.
    """

    probs: NDArray[np.float32]
    epochs: tuple[int, ...]
    history: tuple[tuple[dict[str, float], ...], ...]
    config: TrainConfig


def fit_arrays(
    x: ArrayLike,
    targets: ArrayLike,
    evaluate: ArrayLike,
    config: TrainConfig | None = None,
    *,
    n_classes: int | None = None,
    group: ArrayLike | None = None,
    first_seed: int = 0,
    progress: Progress | None = None,
    **changes: Any,
) -> ArrayFit:
    """Train one architecture on arrays, once per seed, and return the probabilities of other examples.

    Args:
        x: training examples: vectors (N, d) or images (N, H, W) or (N, H, W, C).
        targets: class numbers (N,), or probabilities (N, C) as soft labels.
        evaluate: the examples to be predicted, of the same form.
        config: settings; one architecture, and no ``patience``.
        n_classes: how many classes there are, where class numbers may miss the last.
        group: (N,) group numbers for objectives over groups.
        first_seed: the seeds are first_seed, first_seed + 1, ...
        progress: called with a line and the fraction done.
        changes: settings to be changed in ``config``.

    Example:
        >>> from hardpan import Dataset
        >>> digits = Dataset.open("digits")
        >>> fit = fit_arrays(digits.x[:1000], digits.labels[:1000], digits.x[1000:], model="linear", seeds=2,
        ...                  epochs=8, record_every=8, device="cpu")
        >>> fit.probs.shape
        (2, 1, 797, 10)
        >>> bool((fit.probs.mean(axis=0)[0].argmax(axis=1) == digits.labels[1000:]).mean() > 0.85)
        True
    """
    config = changed_train_config(config, changes)
    if len(config.models) != 1:
        raise InputError(f"must be one architecture here; got {config.model!r}", argument="model")
    train, predicted = as_example_array(np.asarray(x)), as_example_array(np.asarray(evaluate))
    check_single_precision(train)
    check_single_precision(predicted, "evaluate")
    config = with_defaults(config, config.models[0], train.shape[1:])
    values, classes = checked_targets(targets, len(train), n_classes)
    if train.shape[1:] != predicted.shape[1:]:
        raise InputError(
            f"must hold examples like x, of shape {train.shape[1:]}; got {predicted.shape[1:]}", argument="evaluate"
        )
    if config.patience:
        raise InputError(
            "must be 0 here: there are no validation examples; use training.train", argument="patience"
        )
    groups = None if group is None else arguments.whole_numbers("group", group, len(train))
    statistics = normalization(train)
    result = np.zeros((config.seeds, len(config.recorded_epochs()), len(predicted), classes), dtype=np.float32)
    index_of = {epoch: index for index, epoch in enumerate(config.recorded_epochs())}
    histories = []
    with run_state(config) as (device, precision):
        training_set = TrainingSet(
            examples_on(train, statistics, device),
            torch.arange(len(train), device=device),
            torch.from_numpy(values).to(device),
            classes,
            None if groups is None else torch.from_numpy(groups).to(device),
        )
        examples = examples_on(predicted, statistics, device)
        for index in range(config.seeds):

            def record(epoch: int, probs: NDArray[np.float32], index: int = index) -> None:
                result[index, index_of[epoch]] = probs

            _, history = fit_model(
                config,
                training_set,
                Evaluation(examples, record),
                seed=first_seed + index,
                precision=precision,
                progress=progress_of_run(progress, index, config.seeds),
                label=f"{config.model} seed {first_seed + index}, ",
            )
            histories.append(tuple(history.epochs))
    return ArrayFit(result, config.recorded_epochs(), tuple(histories), config)
