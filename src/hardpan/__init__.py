"""hardpan audits classification benchmarks.

Three questions, each answered with a number, its uncertainty and a picture:

- how low can the error go? (:mod:`hardpan.bayes`)
- which examples are hard?
- will the score hold on fresh data?

Submodules load when they are first used, so ``import hardpan`` stays quick.
"""

import importlib
from types import ModuleType

__version__ = "0.1.0"

_SUBMODULES = ("audit", "bayes", "datasets", "errors", "ledger", "records", "report", "stats", "testbed")

__all__ = ["__version__", *_SUBMODULES]


def __getattr__(name: str) -> ModuleType:
    """Import a submodule at first use."""
    if name in _SUBMODULES:
        return importlib.import_module(f"hardpan.{name}")
    raise AttributeError(f"module 'hardpan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
