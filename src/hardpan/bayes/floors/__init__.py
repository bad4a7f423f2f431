"""The floor of real data: how low can the error go, by every estimator at once, and which of them survive.

``floor`` joins them. Alone: ``neighbours.bracket``, ``tree.henze_penrose``, ``overlap.bhattacharyya``,
``plugin.plug_in`` and ``plugin.calibrated_plug_in``, ``votes.vote_floor``, ``gap.told_apart``; ``weighing.weigh``
is the verdict. Arrays and estimates in, records out; no flow, no file, no torch.
"""

from hardpan.bayes.floors.candidates import Candidate, Check, Crossing, Entry, Floor
from hardpan.bayes.floors.from_features import FROM_FEATURES, Examples
from hardpan.bayes.floors.gap import Difference, told_apart
from hardpan.bayes.floors.joining import floor
from hardpan.bayes.floors.means import held_out_error
from hardpan.bayes.floors.neighbours import NeighbourBracket
from hardpan.bayes.floors.overlap import BhattacharyyaBounds, bhattacharyya
from hardpan.bayes.floors.plugin import calibrated_plug_in, plug_in
from hardpan.bayes.floors.tree import TreeBounds, henze_penrose
from hardpan.bayes.floors.votes import VoteFloor, vote_floor
from hardpan.bayes.floors.weighing import weigh

__all__ = [
    "FROM_FEATURES",
    "BhattacharyyaBounds",
    "Candidate",
    "Check",
    "Crossing",
    "Difference",
    "Entry",
    "Examples",
    "Floor",
    "NeighbourBracket",
    "TreeBounds",
    "VoteFloor",
    "bhattacharyya",
    "calibrated_plug_in",
    "floor",
    "held_out_error",
    "henze_penrose",
    "plug_in",
    "told_apart",
    "vote_floor",
    "weigh",
]
