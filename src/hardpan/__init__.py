"""hardpan audits classification benchmarks.

Three questions, each answered with a number, its uncertainty and a picture:

- how low can the error go? (:mod:`hardpan.bayes`, :mod:`hardpan.flows`)
- which examples are hard, which labels are wrong? (:mod:`hardpan.confusion`, :mod:`hardpan.training`)
- will the score hold? (:mod:`hardpan.leaderboard`, :mod:`hardpan.testbed`, :mod:`hardpan.replicate`)

:func:`hardpan.audit` answers them for one dataset. Submodules are imported on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpan.auditing import audit
    from hardpan.data.dataset import Dataset
    from hardpan.execution import parallel
    from hardpan.outcomes import Outcomes
    from hardpan.predictions.predictions import Predictions
    from hardpan.predictions.recorder import Recorder

__version__ = "0.1.0"

_SUBMODULES = (
    "bayes",
    "confusion",
    "data",
    "errors",
    "estimates",
    "flows",
    "leaderboard",
    "ledger",
    "predictions",
    "replicate",
    "report",
    "stats",
    "studies",
    "testbed",
    "training",
)
# What people write in their own code, by the module that defines it.
_NAMES = {
    "Dataset": "hardpan.data.dataset",
    "Outcomes": "hardpan.outcomes",
    "Predictions": "hardpan.predictions.predictions",
    "Recorder": "hardpan.predictions.recorder",
    "audit": "hardpan.auditing",
    "parallel": "hardpan.execution",
}

__all__ = [
    "Dataset",
    "Outcomes",
    "Predictions",
    "Recorder",
    "__version__",
    "audit",
    "bayes",
    "confusion",
    "data",
    "errors",
    "estimates",
    "flows",
    "leaderboard",
    "ledger",
    "parallel",
    "predictions",
    "replicate",
    "report",
    "stats",
    "studies",
    "testbed",
    "training",
]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    if name in _SUBMODULES:
        return importlib.import_module(f"hardpan.{name}")
    raise AttributeError(f"module 'hardpan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
