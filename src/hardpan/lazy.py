"""What is imported by name or at first use: public names of packages, ``module:function``, optional packages."""

from __future__ import annotations

import ast
import importlib
import operator
import os
import re
import sys
from typing import Any

from hardpan.errors import InputError, MissingExtra

TORCH = ("torch", "safetensors")
_CODE = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")


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


def is_import_name(text: str) -> bool:
    """Whether a text is ``module:function``; only such texts are ever imported.

    People name code on the command line or in Python. Where a text comes from a file, ask this first and refuse it.

    Example:
        >>> is_import_name("my_nets:small"), is_import_name("resnet18"), is_import_name("localhost:8786")
        (True, False, False)
    """
    return bool(_CODE.fullmatch(text))


def imported(name: str, text: str) -> Any:
    """What ``module:function`` names, from the import path or the working folder.

    Example:
        >>> imported("model", "math:sqrt")(4.0)
        2.0
    """
    if not is_import_name(text):
        raise InputError(f"must be module:function; got {text!r}", argument=name)
    module, _, attributes = text.partition(":")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())  # where a user keeps the module; an installed command does not look there
    try:
        return operator.attrgetter(attributes)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"{text!r} cannot be imported ({error}); its folder must be this one or on PYTHONPATH", argument=name
        ) from error


def import_first_installed(extra: str, *names: str) -> Any:
    """Import the first of these modules that is installed, or say how to install them."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise MissingExtra(extra, extra)
