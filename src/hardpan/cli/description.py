"""``hardpan --help --json`` and ``hardpan --version --json``: the same for programs, from the parser itself."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import platform
import re
from collections.abc import Iterator, Sequence
from typing import Any

import typer

import hardpan


def describe_commands(names: Sequence[str], words: Sequence[str] = ()) -> dict[str, Any]:
    """Every command with its arguments, options, defaults and settings; only those that begin with ``words``.

    Args:
        names: of the modules of commands and groups.
        words: of a command or group.
    """
    listed = [item for name in names for item in _commands_of(name)]
    listed = [item for item in listed if item["command"].split()[1 : len(words) + 1] == list(words)]
    return {"hardpan": hardpan.__version__, "commands": listed}


def _commands_of(module: str) -> Iterator[dict[str, Any]]:
    command: Any = typer.main.get_command(importlib.import_module(f"hardpan.cli.{module}").app)
    for name, item in getattr(command, "commands", {"": command}).items():
        words = "PATH" if module == "look" else " ".join(filter(None, (module, name)))
        settings = getattr(item.callback, "settings", None)
        yield {
            "command": f"hardpan {words}",
            "help": re.sub(r"\[/?bold\]", "", " ".join((item.help or "").split())),
            "parameters": [_described(one) for one in item.params if not one.name.endswith("_completion")],
            "settings": [
                {"name": one.name, "default": one.default, "help": one.help}
                for one in (settings.by_name.values() if settings else ())
                if not one.is_option
            ],
        }


def _described(item: Any) -> dict[str, Any]:
    return {
        "names": [*item.opts, *item.secondary_opts]
        if item.opts[0].startswith("-")
        else [item.metavar or item.name],
        "type": "switch" if getattr(item, "is_flag", False) else item.metavar or "TEXT",
        "required": item.required,
        "repeated": item.nargs == -1 or bool(getattr(item, "multiple", False)),
        "default": item.default,
        "help": getattr(item, "help", None) or "",
    }


def describe_versions() -> dict[str, Any]:
    """What runs here: versions of hardpan, Python and what hardpan can use, and the machine."""
    packages = {}
    for requirement in importlib.metadata.requires("hardpan") or ():
        name = re.split(r"[^\w.-]", requirement)[0]
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            packages[name] = importlib.metadata.version(name)
    own = {"hardpan": hardpan.__version__, "python": platform.python_version(), "system": platform.platform()}
    return own | {"cores": os.cpu_count(), "packages": dict(sorted(packages.items()))}
