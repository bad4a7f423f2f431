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
from hardpan.training.config import TrainConfig, changed, with_defaults
from hardpan.training.examples import check_size, checked_targets, examples_on, normalization, shaped
from hardpan.training.fitting import Evaluation, Evaluator, TrainingSet, fit_model, progress_of, run_state


@dataclass(frozen=True, slots=True, eq=False)
class ArrayFit:
    """Probabilities of classifiers that were trained on arrays.

    Attributes:
        probs: (seeds, recorded epochs, examples, classes) float32. Where ``patience`` ended a run early, the epochs
            that it did not reach hold what its best weights say.
        epochs: the recorded epochs; 1 is the state after one pass.
        history: for each seed, the values of every epoch (loss, accuracy, validation_accuracy, ...).
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
    validation: tuple[ArrayLike, ArrayLike] | None = None,
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
        config: settings; one architecture.
        n_classes: how many classes there are, where class numbers may miss the last.
        validation: examples and class numbers that the history (and ``patience``) looks at.
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
    config = changed(config, changes)
    if len(config.models) != 1:
        raise InputError(f"must be one architecture here; got {config.model!r}", argument="model")
    train, predicted = shaped(np.asarray(x)), shaped(np.asarray(evaluate))
    check_size(train)
    check_size(predicted, "evaluate")
    config = with_defaults(config, config.models[0], train.shape[1:])
    values, classes = checked_targets(targets, len(train), n_classes)
    seen, parts, labels = _with_validation(predicted, validation, classes)
    if train.shape[1:] != seen.shape[1:]:
        raise InputError(
            f"must hold examples like x, of shape {train.shape[1:]}; got {seen.shape[1:]}", argument="evaluate"
        )
    if config.patience and not parts:
        raise InputError(f"patience {config.patience} needs validation examples; give validation=(x, labels)")
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
        examples = examples_on(seen, statistics, device)
        for index in range(config.seeds):

            def record(epoch: int, probs: NDArray[np.float32], rows: Any, index: int = index) -> None:
                result[index, index_of[epoch]] = probs[: len(predicted)]

            model, history = fit_model(
                config,
                training_set,
                Evaluation(examples, record, parts, labels),
                seed=first_seed + index,
                precision=precision,
                progress=progress_of(progress, index, config.seeds),
                label=f"{config.model} seed {first_seed + index}, ",
            )
            histories.append(tuple(history.epochs))
            unseen = [at for epoch, at in index_of.items() if epoch > len(histories[-1])]
            if unseen:  # the run ended early; what it would have said is what the weights it kept say
                evaluator = Evaluator(model, examples, n_classes=classes, precision=precision)
                result[index, unseen] = evaluator()[: len(predicted)]
    return ArrayFit(result, config.recorded_epochs(), tuple(histories), config)


def _with_validation(
    predicted: NDArray[Any], validation: tuple[ArrayLike, ArrayLike] | None, classes: int
) -> tuple[NDArray[Any], dict[str, NDArray[np.int64]], NDArray[np.int64] | None]:
    """Join the examples to predict and the validation examples: one pass evaluates both."""
    if validation is None:
        return predicted, {}, None
    x = shaped(np.asarray(validation[0]))
    check_size(x, "validation examples")
    validation_labels, _ = checked_targets(validation[1], len(x), classes)
    if validation_labels.ndim != 1:
        raise InputError("validation labels must be class numbers of shape (N,)")
    if x.shape[1:] != predicted.shape[1:] or x.dtype != predicted.dtype:
        raise InputError("validation examples must have the shape and type of those to be predicted")
    labels = np.concatenate([np.zeros(len(predicted), dtype=np.int64), validation_labels])
    rows = np.arange(len(predicted), len(predicted) + len(x))
    return np.concatenate([predicted, x]), {"validation": rows}, labels
