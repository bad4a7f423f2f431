"""Files and folders that are written whole or not at all, their locks, and room for large arrays."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hardpan.errors import InputError, few


def write_text(path: Path, text: str) -> None:
    """Write a file in one step: a reader sees the old text or the new, never half of it."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, *parts: bytes, private: bool = False) -> None:
    """Write a file in one step, as :func:`write_text`; a ``private`` one can be read by its owner alone."""
    with replacing(path) as partial:
        # The system applies the umask; asking for it would change it for every other thread for a moment.
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600 if private else 0o666)
        with os.fdopen(handle, "wb") as stream:
            stream.writelines(parts)
            stream.flush()
            os.fsync(stream.fileno())


_BINARY = getattr(os, "O_BINARY", 0)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Where to write a new file, which takes the name ``path`` when the block ends without an error."""
    partial = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}.partial")
    try:
        yield partial
        os.replace(partial, path)
        sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):  # there may be nothing to remove
            partial.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Make new files and renames in a folder survive a power cut, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:  # some network file systems cannot
        pass
    finally:
        os.close(handle)


Content = str | Callable[[Path], object] | None
"""A file of a report: text, a function that writes it at a path, or None to remove an older one."""
_WAITING = ".writing."


def write_together(folder: Path, contents: Mapping[str, Content]) -> None:
    """Write files that belong together into a folder: first all of them aside, then each into place in one step.

    The last one named shows that the others are complete: an older one of its name goes before the first file is
    put in place, the new one comes last. Whoever sees it sees files that were written together, even after a kill.
    A failure leaves none of these files.

    Args:
        folder: where to; created where it is missing.
        contents: by name, in at most one subfolder: text; a function that writes the file at the path that it is
            given; or None to remove a file of that name.
    """
    created = missing_parents(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(f"{_WAITING}*"):  # what a writing that was killed left aside
            shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=_WAITING) as waiting:
            for name, content in contents.items():
                path = Path(waiting) / name
                path.parent.mkdir(exist_ok=True)
                if isinstance(content, str):
                    path.write_text(content, encoding="utf-8", newline="\n")
                elif content is not None:
                    content(path)
                if content is not None:
                    with path.open("rb+") as stream:
                        os.fsync(stream.fileno())
                    path.chmod(0o644)
            *others, last = contents
            if others:
                (folder / last).unlink(missing_ok=True)
            for name in contents:
                if contents[name] is None:
                    (folder / name).unlink(missing_ok=True)
                else:
                    (folder / name).parent.mkdir(exist_ok=True)
                    os.replace(Path(waiting) / name, folder / name)
    except BaseException as error:
        remove_if_empty(created)
        if isinstance(error, OSError):
            raise InputError(f"{folder}: cannot be written ({error.strerror}); give another folder") from error
        raise


def refuse_foreign_files(folder: Path, names: Iterable[str]) -> None:
    """Refuse to replace files that hardpan did not write.

    Its pages and records say so in their first lines; its other files stand beside one of them.
    """
    there = [name for name in names if os.path.lexists(folder / name)]
    own = [name for name in MARKED if (folder / name).is_file() and _is_own_file(folder / name)]
    foreign = [name for name in there if name not in own and (name in MARKED or not own)]
    if foreign and not any(folder.glob(f"{_WAITING}*")):  # what a killed writing left is completed
        raise InputError(f"{folder}: has {few(foreign)}, which hardpan did not write; give another folder")


MARKED = ("index.html", "report.json", "config.json")


def _is_own_file(path: Path) -> bool:
    with path.open("rb") as stream:
        start = stream.read(4096)
    return b'"hardpan":' in start or b'content="hardpan ' in start


def missing_parents(folder: Path) -> list[Path]:
    """The folders that have to be created for this one, itself included, deepest first."""
    return [path for path in (folder, *folder.parents) if not os.path.lexists(path)]


def remove_if_empty(folders: list[Path]) -> None:
    """Remove these folders, deepest first, as far as nothing is in them."""
    for folder in folders:
        with contextlib.suppress(OSError):  # never created, or no longer empty
            folder.rmdir()


def scratch_array(shape: tuple[int, ...], dtype: DTypeLike, what: str, remedy: str) -> NDArray[Any]:
    """An array in an anonymous temporary file, for what is too large for memory; the file goes with the array.

    Args:
        shape: of the array.
        dtype: of its numbers; they are zeros.
        what: will be in it, for messages.
        remedy: besides setting TMPDIR, if the disk has no room.

    Example:
        >>> scratch_array((2, 3), np.uint8, "pixels", "use fewer").tolist()
        [[0, 0, 0], [0, 0, 0]]
    """
    size = max(1, math.prod(shape) * np.dtype(dtype).itemsize)
    with tempfile.TemporaryFile(prefix="hardpan-") as file:
        try:
            # Reserved at once: a mapped file that meets a full disk later ends the whole process.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:  # macOS has no such call
                os.ftruncate(file.fileno(), size)
        except OSError as error:
            raise InputError(
                f"{tempfile.gettempdir()}: no room for {size:,} bytes of {what} ({error.strerror}); {remedy}, "
                "or set TMPDIR"
            ) from error
        return np.memmap(file, dtype=dtype, mode="r+", shape=shape)


@contextlib.contextmanager
def locked(path: Path, *, create: bool = True) -> Iterator[None]:
    """Let one thread or process in at a time; on systems without locks, commands on one folder must not overlap."""
    handle = lock(path, create=create)
    try:
        yield
    finally:
        unlock(handle)


def lock(path: Path, *, create: bool = True, shared: bool = False, wait: bool = True) -> int | None:
    """Lock a file, or a folder; the lock of a killed process is free.

    Args:
        path: what to lock.
        create: an empty file to lock; otherwise a file or folder that exists is locked.
        shared: others may have a shared lock at the same time.
        wait: until the lock is free; otherwise BlockingIOError is raised if it is not.

    Returns:
        What :func:`unlock` takes; None on systems without such locks (Windows).
    """
    try:
        import fcntl
    except ImportError:
        return None
    handle = os.open(path, os.O_CREAT | os.O_RDWR if create else os.O_RDONLY, 0o600)
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        os.close(handle)
        raise
    return handle


def unlock(handle: int | None) -> None:
    """Free what :func:`lock` locked."""
    if handle is not None:
        os.close(handle)
