"""A testbed on the examples that a subset's manifest names: of the original set, of the new one, or of both."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardpan.data.opening import parse_source, subset_rows
from hardpan.errors import InputError
from hardpan.testbed.predictions import SetPredictions
from hardpan.testbed.tables import Outcomes

SIDES = ("original", "new")


def place_and_manifest(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """Take ``TABLE@hard.json`` apart; a file whose name looks like that is taken as it is.

    Example:
        >>> place_and_manifest("both.npz@hard.json")[1], place_and_manifest("both.npz")[1]
        ('hard.json', '')
    """
    data, manifest = parse_source(os.fspath(path))
    return (Path(path), "") if not manifest or Path(path).exists() else (Path(data), manifest)


def refuse_counts(places: Sequence[Path], manifests: Sequence[str]) -> None:
    """Refuse a manifest behind a table that does not say which examples were right."""
    for place, manifest in zip(places, manifests, strict=True):
        if manifest:
            raise InputError(
                f"{place}: counts answers and does not say on which examples, so {manifest} cannot choose among "
                "them; give predictions with ids"
            )


def take_chosen(
    outcomes: Outcomes,
    chosen: Sequence[SetPredictions],
    held: Sequence[Sequence[SetPredictions]],
    places: Sequence[Path],
    manifests: Sequence[str],
) -> Outcomes:
    """Keep the examples that the manifests name.

    Classes are checked before, on the whole sets: on its hardest examples any model looks as if it meant others.

    Args:
        outcomes: of the whole sets.
        chosen: the original and the new set.
        held: for each side, all sets of the file it came from; every id of the manifest must be in one of them.
        places: of the two sides.
        manifests: of the two sides; "" keeps the whole set.
    """
    for side, part, sets, place, manifest in zip(SIDES, chosen, held, places, manifests, strict=True):
        if not manifest:
            continue
        rows = _rows(part, sets, str(place), manifest, side)
        right = getattr(outcomes, side)
        note = f"Only the {len(rows):,} of {right.shape[1]:,} examples of the {side} set that {manifest} names."
        taken = {side: right[:, rows], f"{side}_rows": tuple(rows.tolist()), "notes": (*outcomes.notes, note)}
        outcomes = replace(outcomes, **taken)
    return outcomes


def _rows(
    part: SetPredictions, sets: Sequence[SetPredictions], place: str, manifest: str, side: str
) -> NDArray[np.int64]:
    names = [_ids(item, place, len(sets)) for item in sets]
    pool = np.concatenate(names)
    if len(np.unique(pool)) < len(pool):
        raise InputError(f"{place}: an id names two examples, so {manifest} could mean either; give each its own")
    wanted = pool[subset_rows(manifest, pool)]
    rows = np.flatnonzero(np.isin(_ids(part, place, len(sets)), wanted)).astype(np.int64)
    if not len(rows):
        raise InputError(
            f"{manifest}: names no example of the {side} set in {place}; give two files, with a manifest behind "
            "the one that it is of"
        )
    return rows


def _ids(part: SetPredictions, place: str, sets: int) -> NDArray[np.str_]:
    if part.ids is not None:
        return part.ids
    if sets > 1:
        raise InputError(
            f"{place}: its sets come without ids, so a manifest cannot tell their examples apart; add ids "
            "(ids_SET in npz, a column id in tables)"
        )
    return np.array([f"row-{row:07d}" for row in range(len(part.labels))])
