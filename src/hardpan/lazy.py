"""Names of a package that are imported at first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from hardpan.errors import MissingExtra

TORCH = ("torch", "safetensors")


def exports(package: str, homes: Mapping[str, str], names: list[str]) -> tuple[Callable[[str], Any], Any]:
    """``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: its name.
        homes: the module of each name that is imported at first use; a leading dot means a module of the package. A
            name whose home is "." is a module of the package itself.
        names: every public name, for ``dir()``.

    Example:
        >>> get, names = exports("hardpan.stats", {"holm": ".agreement"}, ["holm"])
        >>> get("holm").__module__, names()
        ('hardpan.stats.agreement', ['holm'])
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        try:
            if home == ".":
                return importlib.import_module(f"{package}.{name}")
            return getattr(importlib.import_module(home, package), name)
        except ModuleNotFoundError as error:
            if error.name in TORCH:
                raise MissingExtra(error.name or "torch", "torch") from error
            raise

    return find, lambda: sorted(names)
