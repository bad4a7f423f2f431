"""What the jobs share: the device, the record of a job, and the size of a compact flow."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from hardpan import engine
from hardpan.engine import devices

COMPACT = {"steps": 12, "width": 96}  # about 1.6 MB in float16


def device() -> torch.device:
    return engine.pick_device("auto")


def note(folder: Path, name: str, content: dict[str, Any]) -> None:
    """Write FOLDER/NAME.json: what was found, with the command, the device and the version of torch."""
    made = {
        "command": " ".join(sys.argv[1:]),
        "device": devices.describe_device(device()),
        "torch": torch.__version__,
    }
    (folder / f"{name}.json").write_text(json.dumps(made | content, indent=1) + "\n")


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    """How far ``a`` is from ``b``, in norms of ``b``."""
    return float((a.double() - b.double()).norm() / b.double().norm().clamp(min=1e-12))
