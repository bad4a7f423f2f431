"""The pieces of ``hardpan train``: what each needs to know, wherever it runs, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.dataset import Dataset
from hardpan.training.config import TrainConfig
from hardpan.training.run_data import run_settings


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One seed of one architecture; small where the data has a name.

    Attributes:
        data: name or path that every worker can load, or the dataset itself.
        config: settings, filled for one architecture.
        seed: of the run.
        store: where predictions go.
        folder: where the weights and, meanwhile, the checkpoints go.
        groups: (N,) group numbers, or None.
    """

    data: str | Dataset
    config: TrainConfig
    seed: int
    store: str
    folder: str
    groups: NDArray[np.int64] | None = None

    @property
    def label(self) -> str:
        """What a line of progress begins with."""
        return f"{self.config.model} seed {self.seed}, "

    @property
    def last_folder(self) -> str:
        """The folder whose model is written last."""
        return self.folder

    def settings(self, dataset: Dataset) -> dict[str, Any]:
        """Give everything that decides the predictions, the seed apart."""
        return run_settings(dataset, self.config, self.groups)


@dataclass(frozen=True, slots=True, eq=False)
class LockstepPiece:
    """All seeds of one architecture, which advance together and keep their scores alone."""

    pieces: tuple[Piece, ...]

    @property
    def data(self) -> str | Dataset:
        """What all seeds are trained on."""
        return self.pieces[0].data

    @property
    def config(self) -> TrainConfig:
        """The settings that all seeds share."""
        return self.pieces[0].config

    @property
    def store(self) -> str:
        """Where the scores go."""
        return self.pieces[0].store

    @property
    def groups(self) -> NDArray[np.int64] | None:
        """Group numbers, shape (N,), or None."""
        return self.pieces[0].groups

    @property
    def folder(self) -> str:
        """Where the folders of the seeds are, and meanwhile the checkpoint of all."""
        return str(Path(self.pieces[0].folder).parent)

    @property
    def label(self) -> str:
        """What a line of progress begins with."""
        return f"{self.config.model} {len(self.pieces)} seeds, "

    @property
    def last_folder(self) -> str:
        """The folder whose model is written last."""
        return self.pieces[-1].folder

    def settings(self, dataset: Dataset) -> dict[str, Any]:
        """Give everything that decides the scores: also which epochs are in them."""
        return self.pieces[0].settings(dataset) | {"record_every": self.config.record_every}


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a seed: the values of its epochs, where it went on, and how long it took here."""

    history: tuple[dict[str, float], ...]
    resumed_at: int
    seconds: float
