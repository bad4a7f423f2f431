"""One run, one process: a folder that a run writes into is claimed, and let go when the process ends, however."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from hardpan.engine.distributed import is_main
from hardpan.errors import InputError

try:
    import fcntl
except ImportError:  # Windows: a second process is not noticed there
    fcntl = None  # type: ignore[assignment]

CLAIM = ".in-use"


@contextlib.contextmanager
def claimed(folder: str | os.PathLike[str] | None) -> Iterator[None]:
    """Keep a folder for this run; a second run in it would remove the checkpoints of the first.

    The claim is the system's lock of a file, so that one of a killed process is gone with it. Where a folder cannot
    be written, or its file system knows no locks, nothing is claimed: who writes next says what is wrong.

    Args:
        folder: made where it is missing; None claims nothing.

    Raises:
        InputError: another process, or another run of this one, has the folder.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as place, claimed(place):
        ...     with claimed(place):
        ...         pass
        Traceback (most recent call last):
        ...
        hardpan.errors.InputError: ...: another process is at work on this run; wait until it ends, ...
    """
    if folder is None or fcntl is None or not is_main():
        yield
        return
    place = Path(folder)
    made = not place.exists()
    handle = _lock(place)
    try:
        yield
    finally:
        if handle is not None:
            (place / CLAIM).unlink(missing_ok=True)
            os.close(handle)
            if made:  # a run that was refused leaves no empty folder
                with contextlib.suppress(OSError):
                    place.rmdir()


def _lock(place: Path) -> int | None:
    """Give the open file that holds the claim, or None where there can be none."""
    while True:
        try:
            place.mkdir(parents=True, exist_ok=True)
            handle = os.open(place / CLAIM, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The one before may have removed its file between our opening and our locking it.
            if (place / CLAIM).stat().st_ino == os.fstat(handle).st_ino:
                return handle
        except BlockingIOError as error:
            os.close(handle)
            raise InputError(
                f"{place}: another process is at work on this run; wait until it ends, or give another folder"
            ) from error
        except FileNotFoundError:
            pass
        except OSError:
            os.close(handle)
            return None
        os.close(handle)
