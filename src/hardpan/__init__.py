"""hardpan audits classification benchmarks.

Three questions, each answered with a number, its uncertainty and a picture:

- how low can the error go? (:mod:`hardpan.bayes`, :mod:`hardpan.flows`)
- which examples are hard? (:mod:`hardpan.confusion`, :mod:`hardpan.training`)
- will the score hold on fresh data? (:mod:`hardpan.replicate`, :mod:`hardpan.testbed`)

Submodules load when they are first used, so ``import hardpan`` stays quick.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_SUBMODULES = (
    "audit",
    "bayes",
    "confusion",
    "datasets",
    "engine",
    "errors",
    "experiments",
    "flows",
    "ledger",
    "parallel",
    "records",
    "replicate",
    "report",
    "stats",
    "store",
    "testbed",
    "training",
)
# A class that people write into their own training loops, where the module's name would only be in the way.
_SHORTCUTS = {"Recorder": "hardpan.training.recorder"}

__all__ = ["__version__", *_SHORTCUTS, *_SUBMODULES]


def __getattr__(name: str) -> Any:
    """Import a submodule at first use."""
    if name in _SUBMODULES:
        return importlib.import_module(f"hardpan.{name}")
    if name in _SHORTCUTS:
        return getattr(importlib.import_module(_SHORTCUTS[name]), name)
    raise AttributeError(f"module 'hardpan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
