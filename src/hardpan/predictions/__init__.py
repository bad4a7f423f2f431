"""Predictions: probabilities of seeds × epochs × examples × classes, recorded once.

A store is a Zarr v3 group. Each shard contains the rows of one block of examples for one seed and epoch, and is
committed by a small marker with its hash, written last: a shard without a marker does not exist. So a killed run
loses nothing that was committed, many processes record different seeds at once, and a store can grow later.

:class:`Predictions` opens stores, files, arrays and data frames; :class:`Recorder` records in a training loop.
"""

from typing import TYPE_CHECKING

from hardpan.lazy import exports
from hardpan.predictions.predictions import Predictions

if TYPE_CHECKING:
    from hardpan.predictions.exporting import export
    from hardpan.predictions.importing import import_file, merge
    from hardpan.predictions.recorder import Recorder
    from hardpan.predictions.verification import check

exports(__name__)
