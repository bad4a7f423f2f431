"""What every training run shares: the loop, exact resume, checkpoints, captured steps, several processes.

A run is a :class:`Task` (its steps, its tensors) that :func:`run_epochs` trains. The modules ``devices``,
``optimization``, ``distributed`` and ``randomness`` have what tasks are made of.
"""

from hardpan.errors import MissingExtra

try:
    import safetensors  # noqa: F401 - imported here, so that one message says what is missing
    import torch  # noqa: F401
except ImportError as error:
    raise MissingExtra(error.name or "torch", "torch") from error

from hardpan.engine.capture import CapturedStep
from hardpan.engine.checkpoints import claimed, load_checkpoint, save_checkpoint
from hardpan.engine.devices import pick_device
from hardpan.engine.loop import Diverged, History, LoopConfig, run_epochs

__all__ = [
    "CapturedStep",
    "Diverged",
    "History",
    "LoopConfig",
    "claimed",
    "load_checkpoint",
    "pick_device",
    "run_epochs",
    "save_checkpoint",
]


def __dir__() -> list[str]:
    return sorted(__all__)
