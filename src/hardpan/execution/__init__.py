"""Run many independent tasks in threads or processes of this machine, on a Dask cluster or on a Ray cluster.

A task is a pure function of its argument; one that needs randomness uses ``default_rng([seed, i])``. So a task can
run anywhere, in any order, and again when its worker is lost, and the result is the same. :func:`parallel` sets
where tasks run; every function of hardpan that has many independent tasks uses that setting.
"""

from hardpan.execution.mapping import (
    BACKENDS,
    ClusterLost,
    Parallel,
    Progress,
    TaskLost,
    current,
    map_tasks,
    parallel,
)
from hardpan.lazy import exports

exports(__name__)
