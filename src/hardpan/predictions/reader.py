"""Where predictions are read from: a store on disk or an array; :class:`hardpan.Predictions` selects from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class PredictionReader(ABC):
    """Probabilities of seeds and epochs, and the columns of their examples; attributes as of ``Predictions``."""

    where: str
    class_names: tuple[str, ...]
    n_classes: int
    dtype: np.dtype[Any]
    block: int
    config: Mapping[str, Any]
    versions: Mapping[str, str]
    outputs: str = "probabilities"

    @abstractmethod
    def __len__(self) -> int:
        """Number of examples."""

    @property
    @abstractmethod
    def seeds(self) -> tuple[int, ...]:
        """The seeds with at least one complete epoch, in order."""

    @abstractmethod
    def epochs_of(self, seed: int) -> tuple[int, ...]:
        """The complete epochs of one seed, in order."""

    def committed(self, seed: int, epoch: int) -> bool:
        """Whether the predictions of this seed and epoch are complete."""
        return epoch in self.epochs_of(seed)

    @abstractmethod
    def column(self, name: str) -> Any:
        """Ids, labels or split, shape (N,), or None."""

    @abstractmethod
    def read_rows(self, seed: int, epoch: int, start: int, stop: int) -> NDArray[Any]:
        """Probabilities (stop − start, C) of rows start..stop of a complete epoch."""

    @abstractmethod
    def model_names(self) -> Mapping[int, str]:
        """Names of the seeds that are models with names of their own."""

    @property
    def address(self) -> str:
        """Where another process can open the same predictions; "" if it cannot."""
        return ""

    @property
    def array(self) -> NDArray[Any] | None:
        """The probabilities (seeds, epochs, examples, classes), where nothing has to be read or converted."""
        return None
