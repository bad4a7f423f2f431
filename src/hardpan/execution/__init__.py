"""Where many independent pieces run: threads or processes of this machine, a Dask cluster, or a Ray cluster.

A piece is a pure function of what it is given; one that needs randomness takes ``default_rng([seed, i])``. So a
piece can run anywhere, in any order, and again when the machine under it is lost, and the result is the same.
"""

from hardpan.execution.outcomes import ClusterLost, PieceLost
from hardpan.execution.pieces import BACKENDS, Progress, map_pieces

__all__ = ["BACKENDS", "ClusterLost", "PieceLost", "Progress", "map_pieces"]
