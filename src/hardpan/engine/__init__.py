"""What every training run shares: devices, precision, schedules, checkpoints, exact resume, capture, torchrun.

A run is a :class:`Task` (its steps, its tensors) given to :func:`run_epochs`.
"""

from hardpan.errors import MissingExtra

try:
    import safetensors  # noqa: F401 - asked for here, so that one sentence says what is missing
    import torch  # noqa: F401
except ImportError as error:
    raise MissingExtra(error.name or "torch", "torch") from error

from hardpan.engine.averaging import WeightAverage
from hardpan.engine.capture import CapturedStep
from hardpan.engine.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from hardpan.engine.claims import claimed
from hardpan.engine.devices import describe_device, pick_device, synchronize
from hardpan.engine.distributed import (
    all_reduce_mean,
    all_reduce_sum,
    average_buffers,
    average_gradients,
    barrier,
    broadcast,
    from_main,
    is_main,
    launched,
    launched_as_main,
    process_group,
    rank,
    world_size,
)
from hardpan.engine.loop import Diverged, History, LoopConfig, Task, run_epochs
from hardpan.engine.optimizers import (
    OPTIMIZERS,
    allocate_gradients,
    build_optimizer,
    load_optimizer,
    optimizer_tensors,
)
from hardpan.engine.precision import PRECISIONS, autocast, choose_precision, matrix_precision
from hardpan.engine.randomness import derived_seed, permutation, rng_state, set_rng_state
from hardpan.engine.schedules import SCHEDULES, RateSchedule, rate_table

__all__ = [
    "OPTIMIZERS",
    "PRECISIONS",
    "SCHEDULES",
    "CapturedStep",
    "Checkpoint",
    "Diverged",
    "History",
    "LoopConfig",
    "RateSchedule",
    "Task",
    "WeightAverage",
    "all_reduce_mean",
    "all_reduce_sum",
    "allocate_gradients",
    "autocast",
    "average_buffers",
    "average_gradients",
    "barrier",
    "broadcast",
    "build_optimizer",
    "choose_precision",
    "claimed",
    "derived_seed",
    "describe_device",
    "from_main",
    "is_main",
    "launched",
    "launched_as_main",
    "load_checkpoint",
    "load_optimizer",
    "matrix_precision",
    "optimizer_tensors",
    "permutation",
    "pick_device",
    "process_group",
    "rank",
    "rate_table",
    "rng_state",
    "run_epochs",
    "save_checkpoint",
    "set_rng_state",
    "synchronize",
    "world_size",
]
