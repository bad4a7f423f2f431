"""The registry of records: which dataclass a ``kind`` in a JSON file stands for."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from pathlib import Path
from typing import Any, TypeVar, cast

import hardpan

KINDS: dict[str, type[Any]] = {}
R = TypeVar("R")


def record(cls: type[R]) -> type[R]:
    """Register a frozen dataclass so that it can be written as JSON and read back by its name."""
    taken = {"kind", "schema", "hardpan"} & {f.name for f in dataclasses.fields(cast(Any, cls))}
    if taken:
        raise TypeError(
            f"{cls.__name__}.{taken.pop()}: this name belongs to the JSON header; call the field otherwise"
        )
    before = KINDS.get(cls.__name__)
    # A module may be read twice (a notebook, a test runner); two modules may not share a kind.
    if before is not None and before.__module__ != cls.__module__:
        raise TypeError(
            f"{cls.__name__} of {cls.__module__} is a record of {before.__module__} already; call it otherwise"
        )
    KINDS[cls.__name__] = cls
    return cls


def known(kind: str) -> bool:
    """Whether a kind is registered; parts that were not imported yet are asked, then the module that has its class.

    Example:
        >>> known("Estimate"), known("Nonsense"), known("../../etc")
        (True, False, False)
    """
    for part in ("records", *hardpan.__all__):
        with contextlib.suppress(ImportError):  # not a part, or one whose extra is not installed
            importlib.import_module(f"hardpan.{part}")
        if kind in KINDS:
            return True
    home = _home_of(kind) if kind.isidentifier() else ""
    if home:
        with contextlib.suppress(ImportError):
            importlib.import_module(home)
    return kind in KINDS


def _home_of(kind: str) -> str:
    """The module of this package that defines a record, found by its text: rooms import some of theirs late."""
    root = Path(__file__).parent.parent
    for path in sorted(root.rglob("*.py")):
        if f"\nclass {kind}:\n" in path.read_text(encoding="utf-8"):
            return ".".join(("hardpan", *path.relative_to(root).with_suffix("").parts))
    return ""
