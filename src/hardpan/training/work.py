"""A piece at work: its folder claimed, its data loaded, its store open; the same for one seed and for lockstep."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hardpan import engine
from hardpan.data.dataset import Dataset, Split
from hardpan.execution import Progress
from hardpan.predictions.recorder import Recorder
from hardpan.training.examples import normalization, on_device, shaped
from hardpan.training.new_stores import in_use
from hardpan.training.pieces import LockstepPiece, Piece
from hardpan.training.run_data import load_split, split_names
from hardpan.training.saved import describe_model, save_model
from hardpan.training.task import TrainingSet

PROGRESS = "progress.json"


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What a piece has in hand while it is trained.

    Attributes:
        piece: what is trained.
        dataset: what it is trained on, with labels.
        parts: the one split of the dataset.
        settings: everything that decides the numbers, the seed apart.
        recorder: of the open store, in the main process; None in the others.
    """

    piece: Piece | LockstepPiece
    dataset: Dataset
    parts: Split
    settings: dict[str, Any]
    recorder: Recorder | None

    @property
    def labels(self) -> NDArray[np.int64]:
        """Class numbers, shape (N,)."""
        assert self.dataset.labels is not None  # ``train`` refuses data without
        return self.dataset.labels

    @property
    def watched_parts(self) -> dict[str, NDArray[np.int64]]:
        """The rows that are judged after an epoch, by part."""
        return {"validation": self.parts.validation, "test": self.parts.test}

    @property
    def checkpoint(self) -> Path:
        """The folder of the checkpoint of an unfinished run."""
        return Path(self.piece.folder) / "checkpoint"

    def settings_of(self, one: Piece) -> dict[str, Any]:
        """Give everything that decides the numbers of one seed."""
        return self.settings | {"seed": one.seed}

    def history_of(self, one: Piece) -> tuple[dict[str, float], ...]:
        """Give the epochs of a seed whose model is there whole, made with these settings; else nothing."""
        found = describe_model(one.folder) or {}
        return tuple(found.get("history", ())) if found.get("settings") == self.settings_of(one) else ()

    def recorded(self, epochs: int) -> bool:
        """Whether the store has every epoch that a run of so many epochs records; the main process knows."""
        if self.recorder is None:
            return True
        seed = self.piece.seed if isinstance(self.piece, Piece) else None
        wanted = [epoch for epoch in self.piece.config.recorded_epochs() if epoch <= epochs]
        return all(self.recorder.done(seed, epoch=epoch) for epoch in wanted)

    def forget_what_is_not_recorded(self) -> None:
        """Remove a checkpoint that is ahead of the store, which someone removed: what nobody has is made again."""
        if engine.is_main():
            kept = engine.load_checkpoint(self.checkpoint)
            if kept is not None and not self.recorded(len(kept.state["history"])):
                shutil.rmtree(self.checkpoint)
        engine.barrier()

    def training_set(self, device: torch.device) -> TrainingSet:
        """Put what is trained on onto a device, with the statistics of the training rows."""
        x = shaped(self.dataset.x)
        groups = self.piece.groups
        return TrainingSet(
            on_device(x, normalization(x, self.parts.train), device),
            torch.from_numpy(self.parts.train).to(device),
            torch.from_numpy(self.labels).to(device),
            self.dataset.n_classes,
            None if groups is None else torch.from_numpy(groups).to(device),
        )

    def keep_model(
        self,
        one: Piece,
        model: nn.Module,
        given: TrainingSet,
        precision: str,
        history: Sequence[Mapping[str, float]],
        best_epoch: int = 0,
    ) -> None:
        """Write the trained model of one seed, with everything that is known of it."""
        description = {
            "model": one.config.model,
            "model_options": dict(one.config.model_options),
            "input_shape": list(given.examples.input_shape),
            "n_classes": self.dataset.n_classes,
            "class_names": list(self.dataset.class_names),
            "seed": one.seed,
            "settings": self.settings_of(one),
            "precision": precision,
            "device": engine.describe_device(given.examples.raw.device),
            "best_epoch": best_epoch,
            "history": list(history),
        }
        save_model(one.folder, model, given.examples.normalization, description)

    def tidy(self) -> None:
        """Remove what only an unfinished run needs."""
        if engine.is_main():
            shutil.rmtree(self.checkpoint, ignore_errors=True)
            for left in Path(self.piece.folder).glob(
                f"*{PROGRESS}*"
            ):  # also what a killed run had not yet in place
                left.unlink(missing_ok=True)


@contextlib.contextmanager
def at_work(piece: Piece | LockstepPiece) -> Iterator[Work]:
    """Keep the folder and the store of a piece for it, as long as the block lasts."""
    with engine.claimed(piece.folder), contextlib.ExitStack() as held:
        dataset, parts = load_split(piece.data)
        settings = piece.settings(dataset)
        recorder = None
        if engine.is_main():
            opened = functools.partial(open_recorder, piece, dataset, parts, settings)
            recorder = held.enter_context(in_use(piece.store, opened))
        yield Work(piece, dataset, parts, settings, recorder)


def open_recorder(
    piece: Piece | LockstepPiece, dataset: Dataset, parts: Split, settings: dict[str, Any]
) -> Recorder:
    """Open the store of a piece, or make it: of predictions, or of the scores alone of seeds in lockstep."""
    together = len(piece.pieces) if isinstance(piece, LockstepPiece) else None
    return Recorder(
        piece.store,
        ids=dataset.ids,
        n_classes=dataset.n_classes,
        labels=dataset.labels,
        class_names=dataset.class_names,
        split=split_names(dataset, parts),
        config=settings,
        outputs="probabilities",
        scalars_only=together is not None,
        seeds=together,
    )


def progress_file(folder: str) -> Progress:
    """Give a progress callback that leaves a small file, for whoever waits for the piece elsewhere."""
    place = Path(folder)

    def tell(text: str, fraction: float) -> None:
        waiting = place / f".{PROGRESS}.{os.getpid()}"
        with contextlib.suppress(OSError):  # a full disk ends a run where something is lost by it, not here
            place.mkdir(parents=True, exist_ok=True)
            waiting.write_text(json.dumps([text, fraction]), encoding="utf-8")
            waiting.replace(place / PROGRESS)

    return tell
