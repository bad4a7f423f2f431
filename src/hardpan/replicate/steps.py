"""The log of steps: what each read (by hash), its settings and seed, what came out (by hash), chained by hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hardpan
from hardpan import files
from hardpan.errors import InputError
from hardpan.replicate.folder import ProjectFolder


@files.record
class Step:
    """One step of a project.

    Attributes:
        number: 1, 2, ...
        name: the command's name.
        at: when it ended, in UTC.
        inputs: what was read, and its sha256.
        parameters: settings of the step.
        seed: of its draws.
        outputs: what came out, and its sha256 or count.
        version: of hardpan.
        previous: sha256 of the step before it, "" for the first.
    """

    number: int
    name: str
    at: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    outputs: Mapping[str, Any] = field(default_factory=dict)
    version: str = hardpan.__version__
    previous: str = ""


def read_steps(project: ProjectFolder) -> list[Step]:
    """Every step of a project, first to last; refuses a log with gaps, changed files or a broken chain."""
    results = []
    previous = ""
    for number, path in enumerate(_files(project.root), start=1):
        step = files.load(path)
        if not isinstance(step, Step) or step.number != number or step.previous != previous:
            raise InputError(f"{path}: the log of steps was changed or lacks a step before this one")
        previous = files.file_hash(path)
        results.append(step)
    return results


def record_step(
    project: ProjectFolder,
    name: str,
    *,
    inputs: Mapping[str, str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
    outputs: Mapping[str, Any] | None = None,
) -> Step:
    """Append a step to the log; where the last step of this name says the same, nothing is written."""
    folder = project.root / "steps"
    folder.mkdir(exist_ok=True)
    with files.locked(folder / ".lock"):  # two steps of one number would break the chain
        earlier = read_steps(project)
        paths = _files(project.root)
        step = Step(
            len(earlier) + 1,
            name,
            datetime.fromtimestamp(project.clock(), UTC).isoformat(timespec="seconds"),
            dict(inputs or {}),
            json.loads(json.dumps(dict(parameters or {}))),
            seed,
            dict(outputs or {}),
            previous=files.file_hash(paths[-1]) if paths else "",
        )
        last = next((item for item in reversed(earlier) if item.name == name), None)
        if last is not None and _content(last) == _content(step):
            return last
        files.save(step, folder / f"{step.number:04d}-{name}.json")
        return step


def hash_rows(rows: Iterable[Any]) -> str:
    """Sha256 over rows of plain values, in their order, written one way on every machine.

    Example:
        >>> hash_rows([("a", 1)]) == hash_rows([["a", 1]])
        True
    """
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, ensure_ascii=True, separators=(",", ":")).encode() + b"\n")
    return digest.hexdigest()


def hash_originals(pixels: NDArray[np.uint8], labels: list[int], ids: list[str], split: list[str]) -> str:
    """Sha256 over the original data; ``split`` counts where an example has one."""
    return hash_rows([files.array_hash(pixels), labels, ids, split if any(split) else []])


def _files(root: Path) -> list[Path]:
    return sorted((root / "steps").glob("[0-9][0-9][0-9][0-9]-*.json"))


def _content(step: Step) -> Any:
    item = files.to_json(step)
    return [item[key] for key in ("name", "inputs", "parameters", "seed", "outputs", "version")]
