"""Stores that ``train`` makes: one that stays empty is removed, and none under the hands of another run."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from hardpan.predictions.recorder import Recorder

try:
    import fcntl
except ImportError:  # Windows: empty stores stay there
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def in_use(store: str, open_store: Callable[[], Recorder]) -> Iterator[Recorder]:
    """Open a store, and keep others from removing it as an empty one meanwhile.

    Any number of runs may use a store at once. The folder itself is locked: a killed process leaves nothing.
    """
    while True:
        recorder = open_store()
        handle = _locked(store, to_remove=False)
        if _is_there(store, handle):
            break
        # It was removed between its opening and its lock: it is made again.
        if handle is not None:
            os.close(handle)
        recorder.close()
    try:
        with recorder:
            yield recorder
    finally:
        if handle is not None:
            os.close(handle)


class NewStores:
    """Remembers the stores that were made here, and removes those that nothing was recorded into.

    Only folders are removed: at an address nobody can tell whether another process is about to write.
    """

    def __init__(self) -> None:
        self._made: dict[str, tuple[frozenset[str], list[Path]]] = {}

    def make(self, store: str, open_store: Callable[[], Recorder]) -> None:
        """Make a store that is not there."""
        missing = [parent for parent in Path(store).parents if not parent.exists()]
        open_store().close()
        if "://" not in store:
            self._made[store] = _files(store), missing

    def remove_empty(self) -> None:
        """Remove the stores that are as they were made, and that no run has in use."""
        for store, (files, parents) in self._made.items():
            handle = _locked(store, to_remove=True)
            if handle is None:
                continue
            try:
                if _is_there(store, handle) and _files(store) == files:
                    _remove(store, parents)
            finally:
                os.close(handle)


def _remove(store: str, parents: list[Path]) -> None:
    aside = f"{store.rstrip('/')}.{uuid.uuid4().hex}.empty"
    with contextlib.suppress(OSError):  # what cannot be removed stays, whole; the reason for it all is told
        os.rename(store, aside)  # at once, so that nobody finds half a store
        shutil.rmtree(aside)
        for parent in parents:
            parent.rmdir()


def _locked(store: str, *, to_remove: bool) -> int | None:
    """Give the open folder that holds the lock; None where there can be none, or, to remove it, others have it."""
    if fcntl is None or "://" in store:
        return None
    try:
        handle = os.open(store, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB if to_remove else fcntl.LOCK_SH)
    except OSError:
        os.close(handle)
        return None
    return handle


def _is_there(store: str, handle: int | None) -> bool:
    if handle is None:
        return "://" in store or os.path.isdir(store)
    try:
        return os.path.samestat(os.stat(store), os.fstat(handle))
    except FileNotFoundError:
        return False


def _files(store: str) -> frozenset[str]:
    return frozenset(os.path.join(folder, name) for folder, _, names in os.walk(store) for name in names)
