"""One seed of one architecture of ``hardpan train``: its predictions into the store, its weights beside it."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from hardpan import engine
from hardpan.execution import Progress
from hardpan.training.fitting import Watched, fit_model, prepared
from hardpan.training.pieces import Ended, Piece
from hardpan.training.work import Work, at_work, progress_file


def train_piece(piece: Piece, progress: Progress | None = None) -> Ended:
    """Train one model to its end, from wherever it stands, and keep its weights.

    A run that is there whole is given back as it is. After an epoch its predictions are committed, then the
    checkpoint is written: killed between the two, the epoch is trained again, to the same numbers.
    """
    started = time.monotonic()
    with at_work(piece) as work:
        history = _finished(piece, work)
        resumed_at = len(history)
        if not history:
            work.forget_what_is_not_recorded()
            fitted = _fit(piece, work, progress or progress_file(piece.folder))
            history, resumed_at = tuple(fitted.epochs), fitted.resumed_at
        work.tidy()
    return Ended(history, resumed_at, time.monotonic() - started)


def _finished(piece: Piece, work: Work) -> tuple[dict[str, float], ...]:
    """Give the history of a run that is there whole, weights and predictions; else nothing."""
    history = work.history_of(piece)
    # The main process alone has the store, so it decides.
    whole = engine.from_main(float(bool(history) and work.recorded(len(history))))
    return history if whole else ()


def _fit(piece: Piece, work: Work, progress: Progress) -> engine.History:
    def record(epoch: int, probs: NDArray[np.float32]) -> None:
        if work.recorder is not None:
            work.recorder.record(probs, seed=piece.seed, epoch=epoch)
            work.recorder.flush()

    with prepared(piece.config) as (device, precision):
        given = work.training_set(device)
        fitted = fit_model(
            piece.config,
            given,
            Watched(given.examples, record, work.watched_parts, work.labels, piece.groups),
            seed=piece.seed,
            precision=precision,
            folder=work.checkpoint,
            settings=work.settings_of(piece),
            progress=progress,
            label=piece.label,
        )
        history = fitted.history
        if engine.is_main():
            work.keep_model(piece, fitted.model, given, precision, history.epochs, history.best_epoch + 1)
    return history
