"""All seeds of one architecture with their scores alone: the piece of ``hardpan train --scalars-only``."""

from __future__ import annotations

import io
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardpan import engine
from hardpan.execution import Progress
from hardpan.files import write_bytes
from hardpan.training.fitting import memory_explained, prepared
from hardpan.training.lockstep_task import LockstepTask, WatchedTogether
from hardpan.training.pieces import Ended, LockstepPiece
from hardpan.training.work import Work, at_work, progress_file

CORRECT = "correct.npz"


def train_lockstep(piece: LockstepPiece, progress: Progress | None = None) -> tuple[Ended, ...]:
    """Train all seeds to their end, from wherever they stand; keep their weights, the scores, and who is right.

    After an epoch its entropies are added to the scores and committed, then the checkpoint of all seeds is written.
    Killed between the two, the epoch is trained again, to the same numbers, and is not added again.
    """
    started = time.monotonic()
    with at_work(piece) as work:
        histories = _finished(piece, work)
        resumed_at = len(histories[0]) if histories else 0
        if not histories:
            work.forget_what_is_not_recorded()
            histories, resumed_at = _fit(piece, work, progress or progress_file(piece.folder))
        work.tidy()
    seconds = time.monotonic() - started
    return tuple(Ended(history, resumed_at, seconds) for history in histories)


def _finished(piece: LockstepPiece, work: Work) -> list[tuple[dict[str, float], ...]]:
    """Give the histories of seeds that are there whole, scores and weights; else nothing."""
    histories = [work.history_of(one) for one in piece.pieces]
    whole = all(histories) and (Path(piece.folder) / CORRECT).is_file() and work.recorded(piece.config.epochs)
    # The main process alone has the store, so it decides.
    return histories if engine.from_main(float(whole)) else []


def _fit(piece: LockstepPiece, work: Work, progress: Progress) -> tuple[list[tuple[dict[str, float], ...]], int]:
    """Give the histories of all seeds, and the epoch at which they went on."""

    def record(epoch: int, probs: NDArray[np.float32], rows: NDArray[np.int64]) -> None:
        if work.recorder is not None:
            work.recorder.record(probs, rows, epoch=epoch)

    seeds = [one.seed for one in piece.pieces]
    with prepared(piece.config) as (device, precision), memory_explained(piece.config, device):
        given = work.training_set(device)
        watched = WatchedTogether(given.examples, record, work.watched_parts, work.labels, piece.groups)
        task = LockstepTask(piece.config, given, watched, seeds=seeds, precision=precision)
        found = engine.run_epochs(
            task,
            engine.LoopConfig(piece.config.epochs),
            folder=work.checkpoint,
            settings=work.settings | {"lockstep_seeds": len(seeds)},
            progress=progress,
            label=piece.label,
        )
        if engine.is_main():
            _save_correct(Path(piece.folder), work.dataset.ids, task.right)
            for one, own, history in zip(piece.pieces, task.tasks, task.histories, strict=True):
                own.model.load_state_dict(own.weights())
                work.keep_model(one, own.model.eval(), given, precision, history)
    return [tuple(history) for history in task.histories], found.resumed_at


def _save_correct(folder: Path, ids: NDArray[np.str_], right: NDArray[np.bool_]) -> None:
    """Keep which examples were right at the end: with the scores, that is what error by band needs."""
    content = io.BytesIO()
    np.savez_compressed(content, ids=ids.astype(np.str_), seeds=right[:-1], ensemble=right[-1])
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / CORRECT, content.getvalue())
