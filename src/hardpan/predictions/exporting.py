"""Export of predictions to npy, npz, Parquet or CSV, written block by block, completely or not at all."""

from __future__ import annotations

import csv
import os
import uuid
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import FULL_DISK, InputError
from hardpan.execution import Progress
from hardpan.files import as_path
from hardpan.predictions.opening import open_any
from hardpan.predictions.predictions import Predictions
from hardpan.predictions.results import ImportSummary
from hardpan.tables import safe_cell


def export(
    predictions: Any,
    path: str | os.PathLike[str],
    *,
    seeds: Sequence[int] | None = None,
    epochs: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> ImportSummary:
    """Write predictions to a new file, in the format of its suffix.

    npz and npy contain one array (seeds, epochs, examples, classes), npz also ids, labels, split, class_names,
    seeds and epochs. Parquet and CSV have one row per seed, epoch and example. :meth:`hardpan.Predictions.open`
    reads all of them.

    Args:
        predictions: what to write: :class:`hardpan.Predictions`, or whatever its ``open`` opens.
        path: the new file.
        seeds: numbers of the seeds, such as 0,1,2; by default all.
        epochs: numbers of the epochs; by default those that every seed has (the result lists the others).
        progress: called with a step and the fraction done.
    """
    file, predictions = as_path("path", path), open_any(predictions, name="predictions")
    writers = {".npy": _npy, ".npz": _npz, ".parquet": _parquet, ".pq": _parquet, ".csv": _csv}
    writer = writers.get(file.suffix.lower())
    if writer is None:
        raise InputError(f"{file}: unsupported format; supported: {', '.join(writers)}")
    if file.exists():
        raise InputError(f"{file}: exists; give a new name")
    runs, common = _selected(predictions, seeds, epochs)
    with _atomically(file) as partial:
        writer(partial, _Selection(predictions, runs, common, progress))
    known = {epoch for seed in runs for epoch in predictions.epochs_of(seed)} if epochs is None else set(common)
    return ImportSummary(
        source=(predictions.where,),
        target=str(file),
        examples=len(predictions),
        classes=predictions.n_classes,
        seeds=runs,
        epochs=common,
        left_out=tuple(sorted(known - set(common))),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Selection:
    """The seeds and epochs to write."""

    predictions: Predictions
    seeds: tuple[int, ...]
    epochs: tuple[int, ...]
    progress: Progress | None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self.seeds), len(self.epochs), len(self.predictions), self.predictions.n_classes

    def blocks(self) -> Iterator[tuple[int, int, int, NDArray[Any]]]:
        """Seed, epoch, first row and rows of one block after another, in the order of the axes."""
        pairs = [(seed, epoch) for seed in self.seeds for epoch in self.epochs]
        for done, (seed, epoch) in enumerate(pairs):
            if self.progress is not None:
                self.progress(f"writing seed {seed} epoch {epoch}", done / len(pairs))
            for start, stop in self.predictions.blocks():
                yield seed, epoch, start, self.predictions.read(seed, epoch, start, stop)


def _selected(
    predictions: Predictions, seeds: Sequence[int] | None, epochs: Sequence[int] | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    runs = predictions.seeds if seeds is None else tuple(seeds)
    unknown = [seed for seed in runs if seed not in predictions.seeds]
    if unknown:
        known = ", ".join(map(str, predictions.seeds)) or "none"
        raise InputError(f"seeds: {predictions.where} has no seed {unknown[0]}; its seeds are {known}")
    common = predictions.epochs if epochs is None else tuple(epochs)
    if seeds is not None and epochs is None and runs:
        common = tuple(sorted(set.intersection(*(set(predictions.epochs_of(seed)) for seed in runs))))
    if not runs or not common:
        raise InputError(f"{predictions.where}: no epoch is complete for all seeds; record one first")
    for what, numbers in (("seeds", runs), ("epochs", common)):
        if len(set(numbers)) != len(numbers):
            raise InputError(f"{what} must name each number once; got {', '.join(map(str, numbers))}")
    for seed in runs:
        for epoch in common:
            if not predictions.committed(seed, epoch):
                raise InputError(f"{predictions.where}: seed {seed} epoch {epoch} is missing; give other epochs")
    return runs, common


@contextmanager
def _atomically(file: Path) -> Iterator[Path]:
    partial = file.with_name(f".{file.name}.{uuid.uuid4().hex}.partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        partial.replace(file)
    except OSError as error:
        if error.errno in FULL_DISK:
            raise InputError(
                f"{file}: the disk is full ({error.strerror}); free some space and run again"
            ) from error
        raise InputError(f"{file}: cannot be written ({error.strerror or error}); give another path") from error
    finally:
        with suppress(OSError):  # there may be nothing to remove
            partial.unlink(missing_ok=True)


def _stream(stream: IO[bytes], selection: _Selection) -> None:
    """Header and rows of an array, block by block, in C order."""
    dtype = selection.predictions.dtype.newbyteorder("<")
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": selection.shape}
    np.lib.format.write_array_header_2_0(stream, header)
    for _, _, _, rows in selection.blocks():
        stream.write(np.ascontiguousarray(rows, dtype=dtype).tobytes())


def _npy(path: Path, selection: _Selection) -> None:
    with path.open("wb") as stream:
        _stream(stream, selection)


def _npz(path: Path, selection: _Selection) -> None:
    predictions = selection.predictions
    columns: dict[str, Any] = {"ids": predictions.ids, "labels": predictions.labels, "split": predictions.split}
    columns |= {"seeds": np.array(selection.seeds), "epochs": np.array(selection.epochs)}
    columns["class_names"] = np.array(predictions.class_names) if predictions.class_names else None
    # Not compressed, so that the file can be mapped.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        with archive.open("probabilities.npy", "w", force_zip64=True) as stream:
            _stream(stream, selection)
        for name, values in columns.items():
            if values is not None:
                with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                    np.lib.format.write_array(stream, values, allow_pickle=False)


def _parquet(path: Path, selection: _Selection) -> None:
    import pyarrow
    import pyarrow.parquet

    predictions = selection.predictions
    kinds: list[tuple[str, Any]] = [("seed", pyarrow.int32()), ("epoch", pyarrow.int32()), ("id", pyarrow.string())]
    if predictions.labels is not None:
        kinds.append(("label", pyarrow.int64()))
    if predictions.split is not None:
        kinds.append(("split", pyarrow.string()))
    kinds.append(("probabilities", pyarrow.list_(pyarrow.float32(), predictions.n_classes)))
    schema = pyarrow.schema(kinds)
    with pyarrow.parquet.ParquetWriter(path, schema, write_page_checksum=True, compression="zstd") as writer:
        for seed, epoch, start, rows in selection.blocks():
            span = slice(start, start + len(rows))
            columns: dict[str, Any] = {
                "seed": np.full(len(rows), seed, dtype=np.int32),
                "epoch": np.full(len(rows), epoch, dtype=np.int32),
                "id": predictions.ids[span].tolist(),
            }
            if predictions.labels is not None:
                columns["label"] = predictions.labels[span]
            if predictions.split is not None:
                columns["split"] = predictions.split[span].tolist()
            flat = pyarrow.array(rows.astype(np.float32).reshape(-1))
            columns["probabilities"] = pyarrow.FixedSizeListArray.from_arrays(flat, predictions.n_classes)
            writer.write_table(pyarrow.table(columns, schema=schema))


def _csv(path: Path, selection: _Selection) -> None:
    predictions = selection.predictions
    ids, labels, split = (
        [safe_cell(name) for name in predictions.ids.tolist()],
        predictions.labels,
        predictions.split,
    )
    known = [name for name, values in (("label", labels), ("split", split)) if values is not None]
    with path.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["seed", "epoch", "id", *known, *(f"p{c}" for c in range(predictions.n_classes))])
        for seed, epoch, start, rows in selection.blocks():
            # The shortest text of a float16 or float32 that is read back as the same number.
            for row, numbers in enumerate(rows.astype(np.str_).tolist(), start):
                beside = [str(values[row]) for values in (labels, split) if values is not None]
                writer.writerow([seed, epoch, ids[row], *beside, *numbers])
