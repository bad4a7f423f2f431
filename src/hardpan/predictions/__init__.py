"""Predictions: probabilities of seeds × epochs × examples × classes, recorded once.

A store is a Zarr v3 group. Each shard contains the rows of one block of examples for one seed and epoch, and is
committed by a small marker with its hash, written last: a shard without a marker does not exist. So a killed run
loses nothing that was committed, many processes record different seeds at once, and a store can grow later.

:class:`Predictions` opens stores, files, arrays and data frames; :class:`Recorder` records in a training loop.
"""

import importlib
from typing import TYPE_CHECKING, Any

from hardpan.predictions.predictions import Predictions

if TYPE_CHECKING:
    from hardpan.predictions.exporting import export
    from hardpan.predictions.importing import import_file
    from hardpan.predictions.merging import merge
    from hardpan.predictions.recorder import Recorder
    from hardpan.predictions.scores import open_scores
    from hardpan.predictions.verification import describe, verify

# What needs Zarr is imported when it is first used.
_LATER = {
    "Recorder": "recorder",
    "describe": "verification",
    "export": "exporting",
    "import_file": "importing",
    "merge": "merging",
    "open_scores": "scores",
    "verify": "verification",
}

__all__ = ["Predictions", "Recorder", "describe", "export", "import_file", "merge", "open_scores", "verify"]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(f"hardpan.predictions.{_LATER[name]}"), name)
    raise AttributeError(f"module 'hardpan.predictions' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
