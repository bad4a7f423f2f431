"""What ``hardpan train`` gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.training.config import TrainConfig


@record
@dataclass(frozen=True, slots=True)
class TrainedRun:
    """One architecture and seed.

    Attributes:
        model: the architecture.
        seed: of the run.
        store: where its predictions are.
        weights: the folder of its weights, for ``training.predict``.
        epochs: how many were run in all.
        resumed_at: how many of them were there before.
        accuracy: of the last epoch (with ``patience``, of the best), by part (validation, test).
        values: everything that this epoch said (loss, accuracy, ...).
        seconds: how long it took here.
        group_accuracy: with an objective over groups, the accuracy of each by its number, of the same epoch and the
            test part (validation where that epoch has no test predictions).
    """

    model: str
    seed: int
    store: str
    weights: str
    epochs: int
    resumed_at: int
    accuracy: Mapping[str, Estimate] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    group_accuracy: Mapping[str, Estimate] = field(default_factory=dict)


@record
@dataclass(frozen=True, slots=True)
class Trained:
    """What ``hardpan train`` made: its runs, and the stores of their predictions, one an architecture.

    Attributes:
        runs: one an architecture and seed.
        stores: of predictions; with ``scalars_only``, of scores alone.
        config: the settings.
        scalars_only: whether scores are all that was kept.
    """

    runs: tuple[TrainedRun, ...]
    stores: tuple[str, ...]
    config: TrainConfig
    scalars_only: bool = False

    def __repr__(self) -> str:
        return f"Trained({len(self.runs)} runs, stores {', '.join(self.stores)})"
