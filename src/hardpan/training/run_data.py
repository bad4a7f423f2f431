"""What a run is trained on, and everything that decides its numbers."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.dataset import Dataset, Split
from hardpan.data.opening import parse_source
from hardpan.files import array_hash
from hardpan.training.config import TrainConfig

_HASHED_BYTES = 2**30  # examples of more than this are named by a sample of their rows


def load_split(data: str | Dataset) -> tuple[Dataset, Split]:
    """Give a dataset and its one split; a worker that runs several pieces loads the data once."""
    return _loaded(data, _stamps(data)) if isinstance(data, str) else (data, data.splits())


@functools.lru_cache(maxsize=1)
def _loaded(name: str, stamps: tuple[int, ...]) -> tuple[Dataset, Split]:
    dataset = Dataset.open(name)
    return dataset, dataset.splits()


def _stamps(name: str) -> tuple[int, ...]:
    """Times and sizes of the files that a dataset is read from, so that one written anew is read anew."""
    places = [Path(text) for text in (name, *parse_source(name)) if text]
    found = [place.stat() for place in places if place.exists()]
    return tuple(number for item in found for number in (item.st_mtime_ns, item.st_size))


def run_settings(dataset: Dataset, config: TrainConfig, groups: NDArray[np.int64] | None) -> dict[str, Any]:
    """Give everything that decides the predictions of a run, its seed apart."""
    labels = np.zeros(0, dtype=np.int64) if dataset.labels is None else dataset.labels
    return {
        "architecture": config.model,
        "data": dataset.name,
        "data_sha256": array_hash(dataset.ids)[:32] + array_hash(labels)[:32],
        "examples_sha256": examples_hash(dataset.x),
        "groups_sha256": "" if groups is None else array_hash(groups),
        **json.loads(json.dumps(config.deciding())),
    }


def examples_hash(x: NDArray[Any], limit: int = _HASHED_BYTES) -> str:
    """Name examples by their content, so that a run does not go on with changed ones under the same ids.

    Up to ``limit`` bytes every value counts; of more, evenly spaced rows of that size together, and the shape.

    Example:
        >>> x = np.arange(12.0).reshape(6, 2)
        >>> examples_hash(x) == array_hash(x), examples_hash(x, limit=48) == examples_hash(x)
        (True, False)
    """
    if x.nbytes <= limit:
        return array_hash(x)
    sampled = array_hash(x[:: -(-x.nbytes // limit)])
    return array_hash(np.array([sampled, str(x.shape)]))


def split_names(dataset: Dataset, parts: Split) -> NDArray[np.str_]:
    """Give the part that each example belongs to."""
    names = np.full(len(dataset), "validation")
    names[parts.train], names[parts.test] = "train", "test"
    return names
