"""The floor of real data: a bracket from evidence, and estimates under assumptions beside it.

:func:`floor` computes everything at once. Alone: :func:`neighbour_bounds`, :func:`plug_in`,
:func:`vote_floor`, :func:`repeat_floor`.
"""

from hardpan.bayes.floors.dataset_floor import FloorConfig, floor
from hardpan.bayes.floors.error_estimates import held_out_error
from hardpan.bayes.floors.neighbours import neighbour_bounds
from hardpan.bayes.floors.plugin import plug_in
from hardpan.bayes.floors.repeats import equal_inputs, repeat_floor
from hardpan.bayes.floors.votes import vote_floor
from hardpan.lazy import exports

exports(__name__)
