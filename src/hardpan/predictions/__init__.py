"""Predictions on disk: probabilities of seeds × epochs × examples × classes, recorded once, scored forever.

A store is a Zarr v3 group. Each shard holds the rows of one block of examples for one seed and epoch, and is
committed by a small marker with its hash, written last: what has no marker does not exist. So a killed run loses
nothing that was committed, many processes record different seeds at once, and a store can grow later.

:func:`create` and :func:`open` give :class:`Predictions`; :func:`in_memory` gives an array the same form.
"""

from typing import TYPE_CHECKING, Any

from hardpan.predictions.making import create, open
from hardpan.predictions.memory import in_memory
from hardpan.predictions.predictions import Predictions
from hardpan.predictions.reports import Brought, Problem, StoreInfo, Verification

if TYPE_CHECKING:
    from hardpan.predictions.copying import import_file
    from hardpan.predictions.exporting import export
    from hardpan.predictions.merging import merge
    from hardpan.predictions.scores import Accumulated, open_scores
    from hardpan.predictions.verification import check_store, summary

# What needs Zarr is imported when it is first used.
_LATER = {
    "Accumulated": "scores",
    "check_store": "verification",
    "export": "exporting",
    "import_file": "copying",
    "merge": "merging",
    "open_scores": "scores",
    "summary": "verification",
}

__all__ = [
    "Accumulated",
    "Brought",
    "Predictions",
    "Problem",
    "StoreInfo",
    "Verification",
    "check_store",
    "create",
    "export",
    "import_file",
    "in_memory",
    "merge",
    "open",
    "open_scores",
    "summary",
]


def __getattr__(name: str) -> Any:
    """Import a part at its first use."""
    if name in _LATER:
        import importlib

        return getattr(importlib.import_module(f"hardpan.predictions.{_LATER[name]}"), name)
    raise AttributeError(f"module 'hardpan.predictions' has no attribute {name!r}")
