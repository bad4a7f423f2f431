"""Predictions of a file into a store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from numpy.typing import ArrayLike

from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.predictions.arrays import open_file
from hardpan.predictions.making import begin
from hardpan.predictions.memory import ArrayPredictions
from hardpan.predictions.places import Place
from hardpan.predictions.recorded import RecordedPredictions
from hardpan.predictions.reports import Brought
from hardpan.predictions.table_files import TABLES
from hardpan.predictions.tables import import_table

ARRAYS = (".npy", ".npz")


def import_file(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    ids: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    class_names: Sequence[str] = (),
    split: ArrayLike | None = None,
    outputs: str = "auto",
    seeds: Sequence[int] | None = None,
    epochs: Sequence[int] | None = None,
    dtype: str = "float16",
    block: int | None = None,
    progress: Progress | None = None,
) -> Brought:
    """Put predictions of a file (npy, npz, Parquet, CSV) into a store, a new one or one for the same examples.

    Arrays have four axes (seeds, epochs, examples, classes), three (epochs, examples, classes) or two (examples,
    classes). Tables have a row for each seed, epoch and example. The file is read in pieces, and an import that was
    stopped goes on where it was.

    Args:
        path: the file.
        out: the store.
        ids: (N,) ids, in the place of those in the file; without any, "row-0000000", ....
        labels: (N,) class numbers, likewise.
        class_names: the C names, likewise.
        split: (N,) "train", "validation" or "test", likewise.
        outputs: "probabilities", "logits" or "auto".
        seeds: numbers of the seeds, in the order of the file.
        epochs: numbers of the epochs, likewise.
        dtype: "float16" or "float32", where the store is new.
        block: rows in a shard, where the store is new.
        progress: called with a step and the fraction done.
    """
    file = Path(path)
    given = {"ids": ids, "labels": labels, "split": split, "class_names": tuple(class_names) or None}
    given |= {"seeds": seeds, "epochs": epochs}
    known = {name: value for name, value in given.items() if value is not None}
    suffix = file.suffix.lower()
    if suffix not in (*ARRAYS, *TABLES):
        raise InputError(f"{file}: must be one of {', '.join((*ARRAYS, *TABLES))}; convert it, or give another")
    if not file.is_file():
        raise InputError(f"{file}: no such file")
    if suffix in TABLES:
        return import_table(file, Place(out), outputs=outputs, dtype=dtype, block=block, progress=progress, **known)
    source = open_file(file, outputs, **known)
    _check_all(source)
    target = begin(
        Place(out),
        ids=source.ids,
        n_classes=source.n_classes,
        labels=source.labels,
        class_names=source.class_names,
        split=source.split,
        config={"imported": file.name},
        dtype=dtype,
        block=block,
    )
    _copy(source, target, progress)
    return Brought(
        source=(str(file),),
        target=target.where,
        examples=len(target),
        classes=target.n_classes,
        seeds=source.seeds,
        epochs=source.epochs,
        outputs=source.outputs,
        detected=outputs == "auto",
    )


def _copy(source: ArrayPredictions, target: RecordedPredictions, progress: Progress | None) -> None:
    """Copy all seeds and epochs, block by block; blocks that are committed already are compared, not written."""
    pairs = [(seed, epoch) for seed in source.seeds for epoch in source.epochs_of(seed)]
    steps = [(seed, epoch, start, stop) for seed, epoch in pairs for start, stop in target.blocks()]
    for done, (seed, epoch, start, stop) in enumerate(steps):
        if progress is not None:
            progress(f"writing seed {seed} epoch {epoch}", done / len(steps))
        target.write(seed, epoch, source.read(seed, epoch, start, stop), start)


def _check_all(source: ArrayPredictions) -> None:
    """Read everything once before a store is made: rows that are refused leave nothing behind."""
    for seed in source.seeds:
        for epoch in source.epochs_of(seed):
            for start, stop in source.blocks():
                source.read(seed, epoch, start, stop)
