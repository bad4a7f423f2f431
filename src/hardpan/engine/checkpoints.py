"""Files of a run: its checkpoints, and the lock that keeps other processes out of its folder.

A checkpoint is tensors as safetensors and the rest as JSON, which has the hash of the tensors and is written last.
A folder keeps two generations: files that a killed run left half written are named by no JSON and ignored; a file
that was damaged later is detected by its hash, and the generation before it is used. Nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor

from hardpan.engine.distributed import is_main_process
from hardpan.errors import InputError
from hardpan.files import lock, unlock, write_bytes, write_text

LATEST, BEFORE = "checkpoint.json", "checkpoint-before.json"


def join_state_tensors(groups: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Tensors of several owners in one mapping, each name behind the prefix of its owner.

    Example:
        >>> list(join_state_tensors({"model/": {"w": Tensor([1.0])}, "schedule/": {"step": Tensor([0.0])}}))
        ['model/w', 'schedule/step']
    """
    return {prefix + name: item for prefix, items in groups.items() for name, item in items.items()}


def tensors_with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of one owner, as they were before :func:`join_state_tensors`."""
    return {name.removeprefix(prefix): item for name, item in tensors.items() if name.startswith(prefix)}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a run needs to resume: named tensors on the CPU, and a state of plain JSON values."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]


def save_checkpoint(
    folder: str | os.PathLike[str], *, tensors: Mapping[str, Tensor], state: Mapping[str, Any]
) -> None:
    """Write a checkpoint; the one before it stays until the next.

    Args:
        folder: created if missing; belongs to one run.
        tensors: names and tensors of any device.
        state: plain JSON values (numbers may be NaN: they come back as NaN).

    Example:
        >>> import tempfile, torch
        >>> with tempfile.TemporaryDirectory() as place:
        ...     save_checkpoint(place, tensors={"w": torch.ones(2)}, state={"epoch": 3})
        ...     load_checkpoint(place)
        Checkpoint(tensors={'w': tensor([1., 1.])}, state={'epoch': 3})
    """
    folder = Path(folder)
    # Copies: safetensors refuses tensors that share memory, and tied weights do.
    whole = {name: value.detach().to("cpu", copy=True).contiguous() for name, value in tensors.items()}
    content = tensors_to_bytes(whole)
    digest = hashlib.sha256(content).hexdigest()
    body = json.dumps(dict(state))
    marker = {
        "kind": "checkpoint",
        "schema": 1,
        "tensors": f"{digest[:32]}.safetensors",
        "sha256": digest,
        "state_sha256": hashlib.sha256(body.encode()).hexdigest(),
        "state": json.loads(body),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(folder / f"{digest[:32]}.safetensors", content)
        latest = folder / LATEST
        named = _read_checkpoint_marker(latest).get("tensors", "")
        if named and (folder / named).is_file():  # it can be kept as the generation before
            write_bytes(folder / BEFORE, latest.read_bytes())
        write_text(latest, json.dumps(marker, indent=1) + "\n")
        _remove_unnamed_tensors(folder)
    except OSError as error:
        before = any(_read_checkpoint(folder / name) is not None for name in (LATEST, BEFORE))
        raise InputError(
            f"{folder}: checkpoint cannot be written ({error.strerror or error}); "
            f"{'the one before it is complete' if before else 'there is none before it'}: "
            "free some space or choose another folder, and run the same command again"
        ) from error


def load_checkpoint(folder: str | os.PathLike[str]) -> Checkpoint | None:
    """Read the newest whole checkpoint of a folder, or None where there is none yet.

    Raises:
        InputError: there are checkpoints, and none of them is whole.
    """
    folder = Path(folder)
    markers = [path for path in (folder / LATEST, folder / BEFORE) if path.exists()]
    for path in markers:
        result = _read_checkpoint(path)
        if result is not None:
            return result
    if markers:
        raise InputError(f"{folder}: its checkpoints are damaged; remove the folder to start again")
    return None


def _read_checkpoint_marker(path: Path) -> dict[str, Any]:
    """A marker with the name of its tensors; nothing where it is missing or is not what was written."""
    try:
        marker = json.loads(path.read_text(encoding="utf-8"))
        return marker if Path(marker["tensors"]).name == marker["tensors"] else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _read_checkpoint(path: Path) -> Checkpoint | None:
    """Read what a marker names, or None where marker or tensors are not what was written."""
    marker = _read_checkpoint_marker(path)
    try:
        body = json.dumps(marker["state"])
        content = (path.parent / marker["tensors"]).read_bytes()
        hashes = {"state_sha256": body.encode(), "sha256": content}
        if any(hashlib.sha256(data).hexdigest() != marker[name] for name, data in hashes.items()):
            return None
        return Checkpoint(dict(tensors_from_bytes(content)), marker["state"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError):
        return None


def _remove_unnamed_tensors(folder: Path) -> None:
    """Remove tensors that no marker names, and what killed writers left."""
    named = {_read_checkpoint_marker(folder / name).get("tensors") for name in (LATEST, BEFORE)}
    for path in folder.iterdir():
        left_behind = path.name.startswith(".") and (".safetensors." in path.name or ".json." in path.name)
        if (path.suffix == ".safetensors" and path.name not in named) or left_behind:
            path.unlink(missing_ok=True)


CLAIM = ".in-use"


@contextlib.contextmanager
def locked_run_folder(folder: str | os.PathLike[str] | None) -> Iterator[None]:
    """Lock a folder for this run; a second run in it would remove the checkpoints of the first.

    The claim is the system's lock of a file, so that one of a killed process is gone with it. Where a folder cannot
    be written, or the system has no locks, nothing is claimed: who writes next says what is wrong.

    Args:
        folder: created if missing; None claims nothing.

    Raises:
        InputError: another process, or another run of this one, has the folder.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as place, locked_run_folder(place):
        ...     with locked_run_folder(place):
        ...         pass
        Traceback (most recent call last):
        ...
        hardpan.errors.InputError: ...: another process is running this; wait until it ends, ...
    """
    if folder is None or not is_main_process():
        yield
        return
    path = Path(folder)
    created = not path.exists()
    handle = _lock_run_folder(path)
    try:
        yield
    finally:
        if handle is not None:
            (path / CLAIM).unlink(missing_ok=True)
            unlock(handle)
            if created:  # a run that was refused leaves no empty folder
                with contextlib.suppress(OSError):
                    path.rmdir()


def _lock_run_folder(path: Path) -> int | None:
    """The open file that holds the claim, or None where there can be none."""
    while True:
        try:
            path.mkdir(parents=True, exist_ok=True)
            handle = lock(path / CLAIM, wait=False)
        except BlockingIOError as error:
            raise InputError(
                f"{path}: another process is running this; wait until it ends, or choose another folder"
            ) from error
        except OSError:
            return None
        # The one before may have removed its file between our opening and our locking it.
        with contextlib.suppress(FileNotFoundError):
            if handle is None or (path / CLAIM).stat().st_ino == os.fstat(handle).st_ino:
                return handle
        unlock(handle)
