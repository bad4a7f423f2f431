"""The recorder in other training loops: callbacks for Lightning and for the Hugging Face Trainer.

Both packages are imported only when their callback is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hardpan.errors import InputError
from hardpan.lazy import import_first_installed
from hardpan.predictions.recorder import Recorder
from hardpan.predictions.tensors import is_tensor

Forward = Callable[[Any, Any], Any]


def lightning_callback(recorder: Recorder, loaders: Any, *, seed: int = 0, forward: Forward | None = None) -> Any:
    """A Lightning callback that predicts every example after each training epoch, and records it.

    Args:
        recorder: where to.
        loaders: one DataLoader or several, which together give the examples of the recorder in the order of its
            ids: not shuffled, not augmented.
        seed: number of this training run.
        forward: from (module, batch) to logits or probabilities; without it, ``module(batch[0])``.

    Epochs are counted as Lightning counts them, from 0. In training on several processes the first one predicts.
    """
    lightning = import_first_installed("lightning", "lightning.pytorch", "pytorch_lightning")
    predict = forward or _lightning_forward
    listed = loaders if isinstance(loaders, (tuple, list)) else [loaders]

    class RecordPredictions(lightning.Callback):  # type: ignore[name-defined, misc]
        """Records predictions when a training epoch ends."""

        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
            """Predict in evaluation mode, record, and go back to training mode."""
            epoch = trainer.current_epoch
            if trainer.is_global_zero and not trainer.sanity_checking:
                _record_epoch(recorder, module, listed, predict, module.device, seed, epoch)

    return RecordPredictions()


def trainer_callback(
    recorder: Recorder,
    datasets: Any,
    *,
    seed: int = 0,
    collator: Any = None,
    batch_size: int = 64,
    forward: Forward | None = None,
) -> Any:
    """A callback for the Hugging Face Trainer that predicts every example after each epoch, and records it.

    Args:
        recorder: where to.
        datasets: one dataset, or a tuple of several, which together are the examples of the recorder in the order
            of its ids.
        seed: number of this training run.
        collator: what makes a batch of examples; without it, that of the Trainer's package.
        batch_size: examples in a batch.
        forward: from (model, batch) to logits; without it, ``model(**batch).logits``, the labels left out.

    Epochs are counted from 0. In training on several processes the first one predicts.
    """
    transformers = import_first_installed("transformers", "transformers")
    predict = forward or _trainer_forward
    collate = collator or transformers.default_data_collator

    class RecordPredictions(transformers.TrainerCallback):  # type: ignore[name-defined, misc]
        """Records predictions when an epoch ends."""

        def on_epoch_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            """Predict in evaluation mode, record, and go back to training mode."""
            from torch.utils.data import DataLoader

            epoch = max(round(state.epoch) - 1, 0)
            if not state.is_world_process_zero:
                return
            model = others["model"]
            listed = datasets if isinstance(datasets, tuple) else (datasets,)
            loaders = [DataLoader(dataset, batch_size=batch_size, collate_fn=collate) for dataset in listed]
            _record_epoch(recorder, model, loaders, predict, next(model.parameters()).device, seed, epoch)

    return RecordPredictions()


def _record_epoch(
    recorder: Recorder, model: Any, loaders: Sequence[Any], predict: Forward, device: Any, seed: int, epoch: int
) -> None:
    import torch

    if recorder.done(seed, epoch=epoch):
        return
    was_training = model.training
    model.eval()
    start = 0
    try:
        with torch.no_grad():
            for loader in loaders:
                for batch in loader:
                    outputs = predict(model, _callback_batch_on_device(batch, device))
                    index = np.arange(start, start + len(outputs))
                    recorder.record(outputs, index, seed=seed, epoch=epoch)
                    start += len(outputs)
    finally:
        model.train(was_training)
    recorder.check_whole(seed)


def _callback_batch_on_device(batch: Any, device: Any) -> Any:
    """A batch on a device: tensors in tuples, lists and mappings are moved, the rest stays."""
    if is_tensor(batch):
        return batch.to(device, non_blocking=True)
    if hasattr(batch, "items"):
        return {name: _callback_batch_on_device(value, device) for name, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        return [_callback_batch_on_device(value, device) for value in batch]
    return batch


def _lightning_forward(module: Any, batch: Any) -> Any:
    return module(batch[0] if isinstance(batch, (tuple, list)) else batch)


def _trainer_forward(model: Any, batch: Any) -> Any:
    if not isinstance(batch, dict):
        raise InputError("must be mappings of tensors; give forward= for another form", argument="batches")
    inputs = {name: value for name, value in batch.items() if name not in ("labels", "label", "label_ids")}
    return model(**inputs).logits
