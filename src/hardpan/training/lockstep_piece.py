"""All seeds of one architecture with their scores alone: the piece of ``hardpan train --scalars-only``."""

from __future__ import annotations

import io
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import engine
from hardpan.records import Dataset, Split, write_bytes
from hardpan.training.examples import normalization, on_device, shaped
from hardpan.training.fitting import memory_explained, prepared
from hardpan.training.lockstep_task import LockstepTask, WatchedTogether
from hardpan.training.piece import (
    CHECKPOINT,
    Ended,
    Piece,
    describe_run,
    load_split,
    main_recorder,
    open_recorder,
    progress_file,
    run_settings,
    tidy,
    training_set,
)
from hardpan.training.recorder import Recorder
from hardpan.training.saved import describe_model, save_model

CORRECT = "correct.npz"


@dataclass(frozen=True, slots=True, eq=False)
class LockstepPiece:
    """The seeds of one architecture, which advance together."""

    pieces: tuple[Piece, ...]

    @property
    def folder(self) -> str:
        """Where the folders of the seeds are, and meanwhile the checkpoint of all."""
        return str(Path(self.pieces[0].folder).parent)

    @property
    def config(self) -> Any:
        """The settings that all seeds share."""
        return self.pieces[0].config

    def settings(self, dataset: Dataset) -> dict[str, Any]:
        """Give everything that decides the scores: also which epochs are in them."""
        first = self.pieces[0]
        decided = run_settings(dataset, first.config, first.groups)
        return decided | {"record_every": first.config.record_every}

    def recorder(self, dataset: Dataset, parts: Split) -> Recorder:
        """Open the store of the scores, or make it."""
        return open_recorder(
            self.pieces[0].store, dataset, parts, self.settings(dataset), lockstep=len(self.pieces)
        )


def train_lockstep(piece: LockstepPiece, progress: engine.Progress | None = None) -> tuple[Ended, ...]:
    """Train all seeds to their end, from wherever they stand; keep their weights, the scores, and who is right.

    After an epoch its entropies are added to the scores and committed, then the checkpoint of all seeds is written.
    Killed between the two, the epoch is trained again, to the same numbers, and is not added again.
    """
    started = time.monotonic()
    with engine.claimed(piece.folder):
        dataset, parts = load_split(piece.pieces[0].data)
        settings, store = piece.settings(dataset), piece.pieces[0].store
        with main_recorder(store, dataset, parts, settings, len(piece.pieces)) as recorder:
            return _train_lockstep(piece, dataset, parts, settings, recorder, progress, started)


def _train_lockstep(
    piece: LockstepPiece,
    dataset: Dataset,
    parts: Split,
    settings: dict[str, Any],
    recorder: Recorder | None,
    progress: engine.Progress | None,
    started: float,
) -> tuple[Ended, ...]:
    folder = Path(piece.folder)
    histories = _finished(piece, settings, recorder)
    resumed = len(histories[0]) if histories else 0
    if not histories:
        if engine.is_main():
            kept = engine.load_checkpoint(folder / CHECKPOINT)
            if kept is not None and not _recorded(piece, recorder, len(kept.state["history"])):
                shutil.rmtree(folder / CHECKPOINT)  # scores that nobody has cannot be accumulated from it
        engine.barrier()
        histories, resumed = _fit(piece, dataset, parts, settings, recorder, progress or progress_file(folder))
    if engine.is_main():
        tidy(folder)
    seconds = time.monotonic() - started
    return tuple(Ended(tuple(history), resumed, seconds) for history in histories)


def _fit(
    piece: LockstepPiece,
    dataset: Dataset,
    parts: Split,
    settings: dict[str, Any],
    recorder: Recorder | None,
    progress: engine.Progress,
) -> tuple[list[list[dict[str, float]]], int]:
    assert dataset.labels is not None
    config, folder = piece.config, Path(piece.folder)
    x = shaped(dataset.x)
    statistics = normalization(x, parts.train)

    def record(epoch: int, probs: NDArray[np.float32], rows: NDArray[np.int64]) -> None:
        if recorder is not None:
            recorder.record(probs, rows, epoch=epoch)

    with prepared(config) as (device, precision), memory_explained(config, device):
        given = training_set(piece.pieces[0], dataset, parts, on_device(x, statistics, device))
        watched = WatchedTogether(
            given.examples, record, {"validation": parts.validation, "test": parts.test}, dataset.labels
        )
        seeds = [one.seed for one in piece.pieces]
        task = LockstepTask(config, given, watched, seeds=seeds, precision=precision)
        found = engine.run_epochs(
            task,
            engine.LoopConfig(config.epochs),
            folder=folder / CHECKPOINT,
            settings=settings | {"lockstep_seeds": len(seeds)},
            progress=progress,
            label=f"{config.model} {len(seeds)} seeds, ",
        )
        if engine.is_main():
            _save_correct(folder, dataset, task.right)
            for one, own, history in zip(piece.pieces, task.tasks, task.histories, strict=True):
                own.model.load_state_dict(own.weights())
                deciding = settings | {"seed": one.seed}
                described = describe_run(one, dataset, given, deciding, history, precision)
                save_model(one.folder, own.model.eval(), statistics, described)
    return task.histories, found.resumed_at


def _save_correct(folder: Path, dataset: Dataset, right: NDArray[np.bool_]) -> None:
    """Keep which examples were right at the end: with the scores, that is what error by band needs."""
    content = io.BytesIO()
    np.savez_compressed(content, ids=dataset.ids.astype(np.str_), seeds=right[:-1], ensemble=right[-1])
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / CORRECT, content.getvalue())


def _finished(
    piece: LockstepPiece, settings: dict[str, Any], recorder: Recorder | None
) -> list[list[dict[str, float]]]:
    """Give the histories of seeds that are there whole, scores and weights; else nothing."""
    histories = []
    for one in piece.pieces:
        found = describe_model(one.folder) or {}
        histories.append(
            list(found.get("history", ())) if found.get("settings") == settings | {"seed": one.seed} else []
        )
    whole = all(histories) and (Path(piece.folder) / CORRECT).is_file()
    whole = whole and _recorded(piece, recorder, piece.config.epochs)
    return histories if engine.from_main(float(whole)) else []


def _recorded(piece: LockstepPiece, recorder: Recorder | None, epochs: int) -> bool:
    """Whether the scores have every epoch that runs of so many epochs add to them."""
    if recorder is None:
        return True
    return all(recorder.done(epoch=epoch) for epoch in piece.config.recorded_epochs() if epoch <= epochs)
