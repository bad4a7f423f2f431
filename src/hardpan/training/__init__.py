"""Classifiers trained on the shared engine, and the recorder of their predictions.

What computes is imported at first use: settings, results and :class:`Recorder` do not need torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from hardpan.training.config import TrainConfig

if TYPE_CHECKING:
    from hardpan.predictions.recorder import Recorder
    from hardpan.training.arrays import ArrayFit, fit_arrays
    from hardpan.training.running import Trained, TrainedRun, train
    from hardpan.training.saved import SavedModel, load_model, predict

_HOME = {
    "ArrayFit": "arrays",
    "Recorder": "recorder",
    "SavedModel": "saved",
    "Trained": "running",
    "TrainedRun": "running",
    "fit_arrays": "arrays",
    "load_model": "saved",
    "predict": "saved",
    "train": "running",
}

__all__ = [
    "ArrayFit",
    "Recorder",
    "SavedModel",
    "TrainConfig",
    "Trained",
    "TrainedRun",
    "fit_arrays",
    "load_model",
    "predict",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import a name from its module at first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'hardpan.training' has no attribute {name!r}")
    return getattr(importlib.import_module(f"hardpan.training.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
