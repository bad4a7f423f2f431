"""Writing a report: all of its files, or none."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hardpan.errors import InputError


def check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be written, before any work is done for it; creates nothing."""
    place = folder.absolute()
    while not os.path.lexists(place):
        place = place.parent
    if not place.is_dir():
        raise InputError(f"--out {folder}: {place} is not a folder; give another one")
    if not os.access(place, os.W_OK | os.X_OK):
        raise InputError(f"--out {folder}: {place} may not be written; give another one")


def write_together(folder: Path, files: Mapping[str, str]) -> None:
    """Write text files into a folder: first all of them beside their places, then each into place in one step.

    The last one named is put in place last; whoever sees it sees the others. A failure leaves no file of ours.
    """
    made = _missing_parents(folder)
    waiting: dict[str, str] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
            waiting[temporary] = name
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temporary, 0o644)
        for temporary, name in list(waiting.items()):
            os.replace(temporary, folder / name)
            del waiting[temporary]
    except BaseException as error:
        for temporary in waiting:
            Path(temporary).unlink(missing_ok=True)
        for path in made:
            _remove_if_empty(path)
        if isinstance(error, OSError):
            raise InputError(f"{folder}: cannot be written ({error.strerror}); give another folder") from error
        raise


def _missing_parents(folder: Path) -> list[Path]:
    """The folders that have to be made, deepest first."""
    return [path for path in (folder, *folder.parents) if not os.path.lexists(path)]


def _remove_if_empty(path: Path) -> None:
    with contextlib.suppress(OSError):  # never made, or no longer empty
        path.rmdir()
