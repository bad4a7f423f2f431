"""What every training run shares: the loop, exact resume, checkpoints, captured steps, several processes.

A run is a :class:`Task` (its steps, its tensors) that :func:`run_epochs` trains. The modules ``devices``,
``seeds``, ``optimization`` and ``distributed`` have what tasks are made of.
"""

from hardpan.errors import MissingExtra
from hardpan.lazy import exports

try:
    import safetensors
    import torch
except ImportError as error:
    raise MissingExtra(error.name or "torch", "torch") from error

from hardpan.engine.capture import CapturedStep
from hardpan.engine.checkpoints import load_checkpoint, locked_run_folder, save_checkpoint
from hardpan.engine.devices import pick_device
from hardpan.engine.loop import Diverged, History, LoopBudget, Task, run_epochs

exports(__name__)
