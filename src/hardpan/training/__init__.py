"""Classifiers trained on the shared engine.

What computes is imported at first use: settings and results do not need torch.
"""

from typing import TYPE_CHECKING

from hardpan.lazy import exports
from hardpan.training.config import TrainConfig

if TYPE_CHECKING:
    from hardpan.training.fitting import fit_arrays
    from hardpan.training.runs import train
    from hardpan.training.saved import SavedModel, load_model, predict

exports(__name__)
