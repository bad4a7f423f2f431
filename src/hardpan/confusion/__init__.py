"""Which examples are hard? Confusion scores of ensembles, error by band, hard subsets, transfer, ablation.

>>> import numpy as np
>>> from hardpan import confusion
>>> probs = np.random.default_rng(0).dirichlet(np.ones(4), size=(3, 5, 200))  # seeds, epochs, examples, classes
>>> s = confusion.scores(probs, base=2)
>>> np.asarray(s).shape, bool(s.values.max() <= 2)
((200,), True)
>>> hard = confusion.subset(s, quantile=0.9)
>>> len(hard)
20
"""

from hardpan.confusion.ablation import Ablation, Variant, ablate, compare_variants
from hardpan.confusion.answers import Signals, signals
from hardpan.confusion.banding import Band, Bands, bands
from hardpan.confusion.foretelling import Predictor, Predictors, predictors
from hardpan.confusion.galleries import gallery, groups_by_class
from hardpan.confusion.mislabelled import Suspect, suspects
from hardpan.confusion.models import ConfusedModel, ConfusedModels, confused_models
from hardpan.confusion.orders import below_diagonal, kendall, pearson
from hardpan.confusion.saved import load_scores, save_scores
from hardpan.confusion.scoring import Scores, scores
from hardpan.confusion.shown import provenance, section
from hardpan.confusion.shown_models import ablation_section, predictor_section, transfer_section
from hardpan.confusion.sources import choose_epochs, evenly_spaced
from hardpan.confusion.subsets import Subset, chosen_by_hand, load_subset, subset
from hardpan.confusion.transfers import TargetErrors, Transfer, target_errors, transfer
from hardpan.confusion.uncertainty import Stability, stability

__all__ = [
    "Ablation",
    "Band",
    "Bands",
    "ConfusedModel",
    "ConfusedModels",
    "Predictor",
    "Predictors",
    "Scores",
    "Signals",
    "Stability",
    "Subset",
    "Suspect",
    "TargetErrors",
    "Transfer",
    "Variant",
    "ablate",
    "ablation_section",
    "bands",
    "below_diagonal",
    "choose_epochs",
    "chosen_by_hand",
    "compare_variants",
    "confused_models",
    "evenly_spaced",
    "gallery",
    "groups_by_class",
    "kendall",
    "load_scores",
    "load_subset",
    "pearson",
    "predictor_section",
    "predictors",
    "provenance",
    "save_scores",
    "scores",
    "section",
    "signals",
    "stability",
    "subset",
    "suspects",
    "target_errors",
    "transfer",
    "transfer_section",
]
