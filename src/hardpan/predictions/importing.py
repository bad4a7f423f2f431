"""Files into a store, and single columns (labels, ids, split, class names) from files of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.files import as_path
from hardpan.predictions.arrays import COLUMNS, ArrayPredictions
from hardpan.predictions.opening import ARRAYS, open_any
from hardpan.predictions.results import ImportSummary
from hardpan.predictions.storage import Storage
from hardpan.predictions.store import Store, begin
from hardpan.safe_files import few, npz_header, read_npy, read_npz, read_text
from hardpan.tables import csv_rows, is_table_file

PathLike = str | os.PathLike[str]
_KEYS = {
    "labels": COLUMNS["labels"],
    "ids": (*COLUMNS["ids"], "example", "filename"),
    "split": COLUMNS["split"],
    "class_names": (*COLUMNS["class_names"], "name", "class"),
}


def import_file(
    path: PathLike,
    out: PathLike,
    *,
    ids: ArrayLike | PathLike | None = None,
    labels: ArrayLike | PathLike | None = None,
    class_names: Sequence[str] | str | None = None,
    split: ArrayLike | PathLike | None = None,
    outputs: str = "auto",
    normalize: bool = False,
    model: str = "",
    held_out: bool = False,
    seeds: Sequence[int] | None = None,
    epochs: Sequence[int] | None = None,
    dtype: str = "float16",
    block: int | None = None,
    progress: Progress | None = None,
) -> ImportSummary:
    """Import predictions of a file (npy, npz, Parquet, CSV) into a new store, or one for the same examples.

    An interrupted import resumes when it is run again.

    Args:
        path: the file; see :meth:`hardpan.Predictions.open`.
        out: the store.
        ids: ids of the examples, if not in the file: an npy, npz, CSV or text file; in Python also an array.
        labels: labels of the examples, if not in the file: class numbers or names, as for ids.
        class_names: class names in the order of the columns, separated by commas, or a file.
        split: split of the examples (train, validation or test), if not in the file, as for ids.
        outputs: what the file contains: "probabilities", "logits", "labels", or "auto" (by its values).
        normalize: divide rows by their sums (rounded rows, percentages).
        model: name of the model; it gets the next free seed of the store.
        held_out: state that the models were not trained or tuned on any of these examples (for a new store).
        seeds: numbers of the seeds, in the order of the file, such as 0,1,2; default: as in the file.
        epochs: numbers of the epochs, in the order of the file, such as 1,5,10; default: as in the file.
        dtype: "float16" or "float32", for a new store.
        block: examples per shard, for a new store; default: 4 to 16 MiB.
        progress: called with a step and the fraction done.
    """
    file = as_path("path", path)
    as_path("out", out)
    if file.suffix.lower() not in ARRAYS and not is_table_file(file):
        raise InputError(f"{file}: unsupported format; supported: .npy, .npz, .csv, .tsv, .json, .jsonl, .parquet")
    columns_or_files = {"ids": ids, "labels": labels, "split": split}
    settings = {
        name: read_column(Path(value), name) if isinstance(value, (str, os.PathLike)) else value
        for name, value in columns_or_files.items()
    }
    names = read_class_names(class_names) if isinstance(class_names, str) else tuple(class_names or ())
    settings["class_names"] = names or None
    settings |= {"seeds": seeds, "epochs": epochs, "models": (model,) if model else None}
    columns = {name: value for name, value in settings.items() if value is not None}
    source = open_any(str(file), outputs, normalize, columns)
    assert isinstance(source, ArrayPredictions)
    for seed in source.seeds:  # everything is checked before a store is created
        for epoch in source.epochs_of(seed):
            for start, stop in source.blocks():
                source.read(seed, epoch, start, stop)
    target = begin(
        Storage(out),
        ids=source.ids,
        n_classes=source.n_classes,
        labels=source.labels,
        class_names=source.class_names,
        split=source.split,
        config={"imported": file.name} | ({"held_out": True} if held_out else {}),
        dtype=dtype,
        block=block,
    )
    numbers = _numbers(source, target, seeds)
    _copy(source, target, numbers, progress)
    return ImportSummary(
        source=(str(file),),
        target=target.where,
        examples=len(target),
        classes=target.n_classes,
        seeds=tuple(sorted(numbers.values())),
        epochs=source.epochs,
        outputs="probabilities" if source.outputs == "unnormalized" else source.outputs,
        detected=outputs == "auto" and source.outputs != "unnormalized",
        models=source.models if source.named else (),
    )


def _numbers(source: ArrayPredictions, target: Store, seeds: Sequence[int] | None) -> dict[int, int]:
    """The seed in the store of each seed of the file: named models keep theirs, or get the next free ones."""
    if not source.named or seeds is not None:
        numbers = {seed: seed for seed in source.seeds}
    else:
        there = dict(zip(target.models, target.seeds, strict=True))
        free = max([-1, *target.seeds, *(seed for seed, _ in target.partial())]) + 1
        numbers = {}
        for seed, name in zip(source.seeds, source.models, strict=True):
            numbers[seed] = there.get(name, free)
            free += name not in there
    if source.named:
        for seed, name in zip(source.seeds, source.models, strict=True):
            target.name_model(numbers[seed], name)
    return numbers


def _copy(source: ArrayPredictions, target: Store, numbers: dict[int, int], progress: Progress | None) -> None:
    """Copy all seeds and epochs, block by block; committed blocks are compared, not written."""
    pairs = [(seed, epoch) for seed in source.seeds for epoch in source.epochs_of(seed)]
    steps = [(seed, epoch, start, stop) for seed, epoch in pairs for start, stop in target.blocks()]
    for done, (seed, epoch, start, stop) in enumerate(steps):
        if progress is not None:
            progress(f"writing seed {numbers[seed]} epoch {epoch}", done / len(steps))
        target.write(numbers[seed], epoch, source.read(seed, epoch, start, stop), start)


def read_column(path: Path, what: str) -> NDArray[Any]:
    """Read one column: an array, an array of an npz file, a column of a CSV file, or one value per line.

    Args:
        path: .npy, .npz, .csv, or any other text file.
        what: "labels", "ids", "split" or "class_names": its name in a file with several.
    """
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return read_npy(path)
    if suffix == ".npz":
        key = _key(path, what, list(npz_header(path)))
        return read_npz(path, [key])[key]
    values = _text(path, what, suffix == ".csv")
    if what == "labels" and all(value.strip().lstrip("-").isdecimal() for value in values):
        return np.array([int(value) for value in values], dtype=np.int64)
    return np.array(values, dtype=np.str_)


def read_class_names(text: str) -> tuple[str, ...]:
    """Class names: a file of them, or names with commas.

    Example:
        >>> read_class_names("cat, dog")
        ('cat', 'dog')
    """
    if Path(text).is_file():
        return tuple(read_column(Path(text), "class_names").tolist())
    names = tuple(name.strip() for name in text.split(","))
    if len(names) < 2 or not all(names):
        raise InputError(f"must be names with commas, or an existing file; got {text!r}", argument="class_names")
    return names


def _key(path: Path, what: str, names: list[str]) -> str:
    key = next((name for name in _KEYS[what] if name in names), None)
    if key is None and len(names) == 1:
        return names[0]
    if key is None:
        raise InputError(f"{path}: has no {what}; expected one of {few(_KEYS[what])}; it has {few(names)}")
    return key


def _text(path: Path, what: str, table: bool) -> list[str]:
    if not table:
        return [line.rstrip("\r\n") for line in read_text(path).split("\n") if line.strip()]
    rows, _ = csv_rows(path)
    header = [name.strip().lower() for name in rows[0]]
    if len(header) == 1 and header[0] not in _KEYS[what]:
        return [row[0] for row in rows]
    column = header.index(_key(path, what, header))
    if any(len(row) != len(header) for row in rows):
        raise InputError(f"{path}: rows must have {len(header)} cells, as the first has")
    return [row[column] for row in rows[1:]]
