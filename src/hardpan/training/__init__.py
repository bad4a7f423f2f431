"""Classifiers trained on the shared engine.

What computes is imported at first use: settings and results do not need torch.
"""

from typing import TYPE_CHECKING

from hardpan.lazy import exports
from hardpan.training.config import TrainConfig

if TYPE_CHECKING:
    from hardpan.training.arrays import fit_arrays
    from hardpan.training.running import train
    from hardpan.training.saved import SavedModel, load_model, predict

_HOME = {
    "SavedModel": ".saved",
    "fit_arrays": ".arrays",
    "load_model": ".saved",
    "predict": ".saved",
    "train": ".running",
}

__all__ = ["SavedModel", "TrainConfig", "fit_arrays", "load_model", "predict", "train"]

__getattr__, __dir__ = exports(__name__, _HOME, __all__)
