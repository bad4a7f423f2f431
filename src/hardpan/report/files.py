"""Writing a report: all of its files, or none."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hardpan.errors import InputError
from hardpan.report.sections import Content

_WAITING = ".writing."


def check_local(path: Path, what: str) -> None:
    """Refuse an address such as s3://bucket/page, of which a path would make local folders named "s3:" and so on.

    Example:
        >>> check_local(Path("s3://bucket/page"), "--out")
        Traceback (most recent call last):
        ...
        hardpan.errors.InputError: --out s3://bucket/page: must be a path on this machine; copy it there afterwards
    """
    scheme, colon, rest = str(path).partition(":")
    if colon and rest.startswith("/") and len(scheme) > 1 and "/" not in scheme and not path.exists():
        raise InputError(f"{what} {scheme}:/{rest}: must be a path on this machine; copy it there afterwards")


def check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be written, before any work is done for it; creates nothing."""
    check_local(folder, "--out")
    parent = folder.absolute()
    while not os.path.lexists(parent):
        parent = parent.parent
    if not parent.is_dir():
        raise InputError(f"--out {folder}: {parent} is not a folder; give another one")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"--out {folder}: {parent} may not be written; give another one")


def write_together(folder: Path, files: Mapping[str, Content]) -> None:
    """Write files that belong together into a folder: first all of them aside, then each into place in one step.

    The last one named vouches for the others: an older one of its name goes before the first file is put in place,
    the new one comes last. Whoever sees it sees files that were made together, whenever the writing was killed. A
    failure leaves no file of ours.

    Args:
        folder: where to; made where it is missing.
        files: by name, in at most one subfolder: text; a function that writes the file at the path that it is
            given; or None to remove a file of that name.
    """
    made = missing_parents(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        with tempfile.TemporaryDirectory(dir=folder, prefix=_WAITING) as waiting:
            for name, content in files.items():
                _write(Path(waiting) / name, content)
            *others, last = files
            if others:
                (folder / last).unlink(missing_ok=True)
            for name in files:
                if files[name] is None:
                    (folder / name).unlink(missing_ok=True)
                else:
                    (folder / name).parent.mkdir(exist_ok=True)
                    os.replace(Path(waiting) / name, folder / name)
    except BaseException as error:
        remove_if_empty(made)
        if isinstance(error, OSError):
            raise InputError(f"{folder}: cannot be written ({error.strerror}); give another folder") from error
        raise


def missing_parents(folder: Path) -> list[Path]:
    """The folders that have to be made for this one, itself included, deepest first."""
    return [path for path in (folder, *folder.parents) if not os.path.lexists(path)]


def remove_if_empty(folders: list[Path]) -> None:
    """Remove these folders, deepest first, as far as nothing is in them."""
    for folder in folders:
        with contextlib.suppress(OSError):  # never made, or no longer empty
            folder.rmdir()


def _write(path: Path, content: Content) -> None:
    if content is None:
        return
    path.parent.mkdir(exist_ok=True)
    if callable(content):
        content(path)
    else:
        path.write_text(content, encoding="utf-8", newline="\n")
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())
    path.chmod(0o644)


def _sweep(folder: Path) -> None:
    """Remove what a writing that was killed left aside."""
    for path in folder.glob(f"{_WAITING}*"):
        shutil.rmtree(path, ignore_errors=True)
