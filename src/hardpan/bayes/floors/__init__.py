"""The floor of real data: a bracket from evidence, and estimates under assumptions beside it.

:func:`floor` computes everything at once. Alone: :func:`neighbours.bracket`, :func:`henze_penrose`,
:func:`bhattacharyya`, :func:`plug_in`, :func:`calibrated_plug_in`, :func:`vote_floor`, :func:`isotonic_floor`,
:func:`repeat_floor`, :func:`two_sample_test`; :func:`weigh` is the verdict.
"""

from hardpan.bayes.floors.bracketing import FloorConfig, floor
from hardpan.bayes.floors.error_estimates import held_out_error
from hardpan.bayes.floors.flow import two_sample_test
from hardpan.bayes.floors.overlap import bhattacharyya
from hardpan.bayes.floors.plugin import calibrated_plug_in, plug_in
from hardpan.bayes.floors.repeats import equal_inputs, repeat_floor
from hardpan.bayes.floors.spanning_tree import henze_penrose
from hardpan.bayes.floors.votes import isotonic_floor, vote_floor
from hardpan.lazy import exports

exports(__name__)
