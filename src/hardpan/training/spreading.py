"""Pieces over processes, machines or none: one after another here, or many at once, with their progress told."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from hardpan import engine, execution
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.training.fitting import part_of
from hardpan.training.pieces import LockstepPiece, Piece
from hardpan.training.saved import DESCRIPTION
from hardpan.training.work import PROGRESS

_Unit = TypeVar("_Unit", Piece, LockstepPiece)
_Result = TypeVar("_Result")


def run_pieces(
    function: Callable[..., _Result],
    pieces: Sequence[_Unit],
    *,
    on_gpu: bool,
    ready: Callable[[], None],
    progress: Progress | None,
) -> list[_Result]:
    """Run a function on every piece, and give what it gives, in order.

    Args:
        function: takes a piece and, where it is given one, a callback for progress.
        pieces: what is run.
        on_gpu: whether they compute on a GPU, which runs at once would have to share.
        ready: called once, in this process, when the pieces can begin.
        progress: called with a line and the fraction done of all.
    """
    spread = execution.current()
    if engine.world_size() > 1 and spread.backend:
        raise InputError(f"backend {spread.backend!r} cannot be joined with torchrun; leave one of them out")
    alone = len(pieces) == 1 or spread.workers == 1 or available_cores() == 1
    here = engine.world_size() > 1 or alone or on_gpu
    backend = spread.backend or ("threads" if here and spread.workers in (None, 1) else "processes")
    if backend == "threads" and not spread.address:
        ready()
        return [function(piece, part_of(progress, index, len(pieces))) for index, piece in enumerate(pieces)]
    with (
        _watching(pieces, progress),
        execution.parallel(backend, workers=spread.workers, address=spread.address),
    ):
        return execution.map_tasks(function, pieces, ready=ready)


def available_cores() -> int:
    """Give how many cores this process may use: fewer than the machine has where it is bound to some.

    Example:
        >>> 1 <= available_cores() <= (os.cpu_count() or 1)
        True
    """
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _watching(pieces: Sequence[Piece | LockstepPiece], progress: Progress | None) -> Iterator[None]:
    """Tell from time to time how far runs in other processes are, by the files that they leave."""
    if progress is None:
        yield
        return
    over = threading.Event()

    def look() -> None:
        while not over.wait(1.0):
            seen = [_progress_of(piece) for piece in pieces]
            lines = [line for line, _ in seen if line]
            if lines:
                more = f"; {len(lines) - 2} more" if len(lines) > 2 else ""
                progress("; ".join(lines[:2]) + more, sum(done for _, done in seen) / len(pieces))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _progress_of(piece: Piece | LockstepPiece) -> tuple[str, float]:
    """The line that a piece at work has left, and the fraction done; without a line where it is not at work."""
    try:
        line, done = json.loads((Path(piece.folder) / PROGRESS).read_text(encoding="utf-8"))
        return str(line), float(done)
    except (OSError, ValueError, TypeError):
        # The last model is written last: by then the progress file is gone.
        return "", float((Path(piece.last_folder) / DESCRIPTION).exists())
