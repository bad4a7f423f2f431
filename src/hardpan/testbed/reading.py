"""Whatever people have, as a table: one place that says what a file is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hardpan.errors import InputError
from hardpan.testbed.chosen import place_and_manifest, refuse_counts, take_chosen
from hardpan.testbed.columns import TABLE_SUFFIXES, Columns, columns_of, read_columns, read_json
from hardpan.testbed.predictions import choose_sets, outcomes
from hardpan.testbed.read_counts import counts_from_columns, counts_from_pair, is_counts, is_results
from hardpan.testbed.read_predictions import Sets, is_nested, read_sets, sets_from_columns
from hardpan.testbed.tables import Counts, Outcomes

PathLike = str | os.PathLike[str]


def read(
    *paths: PathLike,
    metric: str = "top1",
    original: str | None = None,
    new: str | None = None,
    original_total: int | None = None,
    new_total: int | None = None,
    check_classes: bool = True,
    n_classes: int | None = None,
) -> Counts | Outcomes:
    """Read a testbed from one file that holds both test sets, or from two: the original, then the new.

    What is understood: a counts table (CSV, JSON, Parquet); two tables of accuracies by model (``model, top1,
    top5`` as timm writes them) with the totals given; predictions with labels (npz, CSV, JSON, Parquet, or a
    folder with one file a model).

    Args:
        paths: one or two files or folders; ``FILE@hard.json`` takes only the examples that a subset's manifest
            names, from predictions with ids. Behind one file with both sets it has to name some of each.
        metric: for predictions, "top1", "top5", ...; counts keep all their metrics.
        original: the name of the original set, where a file holds several.
        new: the name of the new set, likewise.
        original_total: size of the original set, where the tables hold accuracies.
        new_total: size of the new set, likewise.
        check_classes: refuse predictions whose class map looks wrong.
        n_classes: how many classes there are, if the labels do not show them all.
    """
    if len(paths) not in (1, 2):
        raise InputError(f"give one file with both test sets, or two: the original, then the new; got {len(paths)}")
    asked = [place_and_manifest(path) for path in paths]
    places, manifests = [place for place, _ in asked], [manifest for _, manifest in asked]
    for place in places:
        if not place.exists():
            raise InputError(f"{place}: no such file or folder")
    tables = [_columns(place) for place in places]
    if len(places) == 1 and tables[0] is not None:
        if is_counts(tables[0]):
            refuse_counts(places, manifests)
            return counts_from_columns(tables[0], str(places[0]), original_total, new_total)
        if is_results(tables[0]):
            raise InputError(f"{places[0]}: holds the accuracies of one set; give the table of the other set, too")
    first, second = tables[0], tables[-1]
    if len(places) == 2 and first is not None and second is not None and is_results(first) and is_results(second):
        refuse_counts(places, manifests)
        where = (str(places[0]), str(places[1]))
        return counts_from_pair(first, second, where, original_total, new_total)
    sets = [_sets(place, table) for place, table in zip(places, tables, strict=True)]
    chosen = _pair(sets, places, original, new)
    found = outcomes(*chosen, metric=metric, check_classes=check_classes, n_classes=n_classes)
    held = [list(part.values()) for part in sets]
    both = (held * 2, places * 2, manifests * 2) if len(places) == 1 else (held, places, manifests)
    return take_chosen(found, chosen, *both)


def as_table(table: Any) -> Counts | Outcomes:
    """A table as it is, or read from a path, from two paths, or from rows or columns of counts."""
    if isinstance(table, (Counts, Outcomes)):
        return table
    if isinstance(table, (str, os.PathLike)):
        return read(table)
    if (
        isinstance(table, Sequence)
        and len(table) == 2
        and all(isinstance(item, (str, os.PathLike)) for item in table)
    ):
        return read(*table)
    return counts_from_columns(columns_of(table), "table")


def _columns(place: Path) -> Columns | None:
    if place.is_dir() or place.suffix.lower() not in TABLE_SUFFIXES:
        return None
    if place.suffix.lower() == ".json" and is_nested(read_json(place)):
        return None
    return read_columns(place)


def _sets(place: Path, table: Columns | None) -> Sets:
    return read_sets(place) if table is None else sets_from_columns(table, str(place), place.stem)


def _pair(sets: list[Sets], places: list[Path], original: str | None, new: str | None) -> Any:
    if len(sets) == 1:
        if len(sets[0]) == 1:
            raise InputError(f"{places[0]}: holds one test set; give the file of the other set, too")
        return choose_sets(sets[0], original, new, str(places[0]))
    chosen = []
    for side, wanted, part, place in zip(("original", "new"), (original, new), sets, places, strict=True):
        name = wanted or (next(iter(part)) if len(part) == 1 else side)
        if name not in part:
            raise InputError(f"{place}: say which of the sets {', '.join(sorted(part))} is the {side} one")
        chosen.append(part[name])
    return tuple(chosen)
