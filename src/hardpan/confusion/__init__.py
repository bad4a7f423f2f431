"""Which examples are hard, and which labels do models contradict? Confusion scores, error by band, hard subsets.

>>> import numpy as np
>>> from hardpan import confusion
>>> probs = np.random.default_rng(0).dirichlet(np.ones(4), size=(3, 5, 200))  # seeds, epochs, examples, classes
>>> s = confusion.scores(probs, base=2)
>>> np.asarray(s).shape, bool(s.values.max() <= 2)
((200,), True)
>>> hard = confusion.subset(s, fraction=0.1)
>>> len(hard)
20
"""

from hardpan.confusion.ablation import ablate
from hardpan.confusion.banding import Bands, bands
from hardpan.confusion.difficulty_signals import signals
from hardpan.confusion.label_noise import label_issues
from hardpan.confusion.reports import (
    ConfusionConfig,
    compare_scores,
    score_report,
    subset_report,
    summarize,
    transfer_report,
)
from hardpan.confusion.scoring import Scores, load_scores, measure, scores, stability
from hardpan.confusion.subsets import Subset, load_subset, subset, subset_of_ids
from hardpan.confusion.transfers import transfer
from hardpan.lazy import exports

exports(__name__)
