"""The part of a dataset that a manifest names, such as the hard subset that ``hardpan confusion subset`` writes."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import files
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError

MARK = "@"


def asked_for(given: str) -> tuple[str, str]:
    """Take ``DATA@MANIFEST.json`` apart; without a manifest the second part is empty.

    Example:
        >>> asked_for("digits@hard.json"), asked_for("me@home/data.npz"), asked_for("digits")
        (('digits', 'hard.json'), ('me@home/data.npz', ''), ('digits', ''))
    """
    places = [place for place in range(len(given) - 1, 0, -1) if given[place] == MARK]
    if not places or not given.endswith(".json"):
        return given, ""
    # A path may hold the mark itself: what stands behind the right one is a file.
    place = next((place for place in places if os.path.isfile(given[place + 1 :])), places[0])
    return given[:place], given[place + 1 :]


def short_name(given: str) -> str:
    """What to call a file, folder or address of predictions, with the subset where one was asked for.

    Example:
        >>> short_name("runs/resnet18/"), short_name("runs/resnet18@subsets/hard.json"), short_name("probs.npz")
        ('resnet18', 'resnet18@hard', 'probs')
    """
    data, manifest = asked_for(given)
    stem = Path(data.rstrip("/")).stem or given
    return f"{stem}{MARK}{Path(manifest).stem}" if manifest else stem


def chosen_rows(manifest: str, ids: ArrayLike) -> NDArray[np.int64]:
    """Row numbers, in rising order, of the examples that a manifest names; each must be among ``ids``."""
    found: Any = files.load(manifest)
    if type(found).__name__ != "Subset":
        raise InputError(
            f"{manifest}: is a {type(found).__name__}, not a Subset; give what `confusion subset` wrote"
        )
    found.check_whole(manifest)
    rows: NDArray[np.int64] = np.sort(found.rows(ids))
    return rows


def choose(dataset: Dataset, manifest: str) -> Dataset:
    """Only the examples that a manifest names, in the order of the dataset.

    Args:
        dataset: it must hold every id of the manifest.
        manifest: path of a subset that hardpan wrote.
    """
    rows = chosen_rows(manifest, dataset.ids)
    return dataclasses.replace(
        dataset,
        name=f"{dataset.name}{MARK}{Path(manifest).stem}",
        x=dataset.x[rows],
        ids=dataset.ids[rows],
        labels=None if dataset.labels is None else dataset.labels[rows],
        split=None if dataset.split is None else dataset.split[rows],
        metadata={name: column[rows] for name, column in dataset.metadata.items()},
    )
