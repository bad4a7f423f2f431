"""The public names of a package, read off the imports in its ``__init__.py``: one list per package."""

from __future__ import annotations

import ast
import importlib
import sys
from typing import Any

from hardpan.errors import MissingExtra

TORCH = ("torch", "safetensors")


def exports(package: str) -> None:
    """Set ``__all__``, ``__dir__`` and ``__getattr__`` of a package, in the last line of its ``__init__.py``.

    Its public names are those that its ``__init__.py`` imports from its own modules, and everything that it imports
    under ``if TYPE_CHECKING:``; the latter is imported at first use. ``__version__`` stays public where it is set.

    Example:
        >>> from hardpan import stats
        >>> "bootstrap" in stats.__all__, dir(stats) == stats.__all__
        (True, True)
    """
    module = sys.modules[package]
    with open(str(module.__file__), encoding="utf-8") as file:
        homes = imported_names(file.read(), package)

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            if homes[name] == package:
                return importlib.import_module(f"{package}.{name}")
            return getattr(importlib.import_module(homes[name]), name)
        except ModuleNotFoundError as error:
            if error.name in TORCH:
                raise MissingExtra(error.name or "torch", "torch") from error
            raise

    public = sorted([*homes, *({"__version__"} & set(vars(module)))])
    vars(module).update(__all__=public, __dir__=lambda: public, __getattr__=find)


def imported_names(source: str, package: str) -> dict[str, str]:
    """The module of each public name of a package, from the source of its ``__init__.py``.

    Example:
        >>> imported_names("from hardpan.data.dataset import Dataset, Split", "hardpan.data")
        {'Dataset': 'hardpan.data.dataset', 'Split': 'hardpan.data.dataset'}
    """
    homes: dict[str, str] = {}
    for node in ast.parse(source).body:
        for statement in node.body if isinstance(node, ast.If) else [node]:
            if isinstance(statement, ast.ImportFrom) and statement.module not in ("typing", __name__):
                module = statement.module or ""
                if isinstance(node, ast.If) or module == package or module.startswith(f"{package}."):
                    homes.update({alias.name: module for alias in statement.names})
    return homes
