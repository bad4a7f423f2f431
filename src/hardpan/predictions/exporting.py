"""Predictions out of a store: npy, npz, Parquet or CSV, written in pieces, there whole or not at all."""

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
from hardpan.predictions.predictions import Predictions
from hardpan.predictions.results import ImportSummary


def export(
    predictions: Predictions,
    path: str | os.PathLike[str],
    *,
    seeds: Sequence[int] | None = None,
    epochs: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> ImportSummary:
    """Write predictions to a new file; its ending says the form.

    npz and npy hold one array (seeds, epochs, examples, classes), npz also ids, labels, split, class_names, seeds
    and epochs. Parquet and CSV hold a row for each seed, epoch and example. ``hardpan.predictions.open`` reads npz
    and npy, ``hardpan predictions import`` all of them.

    Args:
        predictions: what to write.
        path: the new file.
        seeds: which; else all.
        epochs: which; else those that every seed has, and the record that is given back names the others.
        progress: called with a step and the fraction done.
    """
    file = Path(path)
    writers = {".npy": _npy, ".npz": _npz, ".parquet": _parquet, ".pq": _parquet, ".csv": _csv}
    writer = writers.get(file.suffix.lower())
    if writer is None:
        raise InputError(f"{file}: must end in one of {', '.join(writers)}; give another name")
    if file.exists():
        raise InputError(f"{file}: exists already; give a new name")
    runs, common = _chosen(predictions, seeds, epochs)
    with _whole_or_not(file) as partial:
        writer(partial, _Wanted(predictions, runs, common, progress))
    held = {epoch for seed in runs for epoch in predictions.epochs_of(seed)} if epochs is None else set(common)
    return ImportSummary(
        source=(predictions.where,),
        target=str(file),
        examples=len(predictions),
        classes=predictions.n_classes,
        seeds=runs,
        epochs=common,
        left_out=tuple(sorted(held - set(common))),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Wanted:
    """What is written: some seeds and epochs of predictions."""

    predictions: Predictions
    seeds: tuple[int, ...]
    epochs: tuple[int, ...]
    progress: Progress | None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self.seeds), len(self.epochs), len(self.predictions), self.predictions.n_classes

    def pieces(self) -> Iterator[tuple[int, int, int, NDArray[Any]]]:
        """Seed, epoch, first row and rows of one block after another, in the order of the axes."""
        pairs = [(seed, epoch) for seed in self.seeds for epoch in self.epochs]
        for done, (seed, epoch) in enumerate(pairs):
            if self.progress is not None:
                self.progress(f"writing seed {seed} epoch {epoch}", done / len(pairs))
            for start, stop in self.predictions.blocks():
                yield seed, epoch, start, self.predictions.read(seed, epoch, start, stop)


def _chosen(
    predictions: Predictions, seeds: Sequence[int] | None, epochs: Sequence[int] | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    runs = predictions.seeds if seeds is None else tuple(seeds)
    strange = [seed for seed in runs if seed not in predictions.seeds]
    if strange:
        held = ", ".join(map(str, predictions.seeds)) or "none"
        raise InputError(f"{predictions.where}: seed {strange[0]} is not there; its seeds are {held}")
    common = predictions.epochs if epochs is None else tuple(epochs)
    if seeds is not None and epochs is None and runs:
        common = tuple(sorted(set.intersection(*(set(predictions.epochs_of(seed)) for seed in runs))))
    if not runs or not common:
        raise InputError(f"{predictions.where}: holds no epoch that is there for all seeds; record one first")
    for what, numbers in (("seeds", runs), ("epochs", common)):
        if len(set(numbers)) != len(numbers):
            raise InputError(f"{what} must name each number once; got {', '.join(map(str, numbers))}")
    for seed in runs:
        for epoch in common:
            if not predictions.committed(seed, epoch):
                raise InputError(f"{predictions.where}: seed {seed} epoch {epoch} is not there; choose others")
    return runs, common


@contextmanager
def _whole_or_not(file: Path) -> Iterator[Path]:
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
        raise InputError(f"{file}: cannot be written ({error.strerror or error}); give another place") from error
    finally:
        with suppress(OSError):  # where nothing could be written, nothing is to be removed
            partial.unlink(missing_ok=True)


def _stream(stream: IO[bytes], wanted: _Wanted) -> None:
    """Header and rows of an array, one piece after another: C order is the order of the pieces."""
    dtype = wanted.predictions.dtype.newbyteorder("<")
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": wanted.shape}
    np.lib.format.write_array_header_2_0(stream, header)
    for _, _, _, rows in wanted.pieces():
        stream.write(np.ascontiguousarray(rows, dtype=dtype).tobytes())


def _npy(path: Path, wanted: _Wanted) -> None:
    with path.open("wb") as stream:
        _stream(stream, wanted)


def _npz(path: Path, wanted: _Wanted) -> None:
    predictions = wanted.predictions
    columns: dict[str, Any] = {"ids": predictions.ids, "labels": predictions.labels, "split": predictions.split}
    columns |= {"seeds": np.array(wanted.seeds), "epochs": np.array(wanted.epochs)}
    columns["class_names"] = np.array(predictions.class_names) if predictions.class_names else None
    # Not compressed, so that whoever opens the file can map it.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        with archive.open("probabilities.npy", "w", force_zip64=True) as stream:
            _stream(stream, wanted)
        for name, values in columns.items():
            if values is not None:
                with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                    np.lib.format.write_array(stream, values, allow_pickle=False)


def _parquet(path: Path, wanted: _Wanted) -> None:
    import pyarrow
    import pyarrow.parquet

    predictions = wanted.predictions
    kinds: list[tuple[str, Any]] = [("seed", pyarrow.int32()), ("epoch", pyarrow.int32()), ("id", pyarrow.string())]
    if predictions.labels is not None:
        kinds.append(("label", pyarrow.int64()))
    if predictions.split is not None:
        kinds.append(("split", pyarrow.string()))
    kinds.append(("probabilities", pyarrow.list_(pyarrow.float32(), predictions.n_classes)))
    schema = pyarrow.schema(kinds)
    with pyarrow.parquet.ParquetWriter(path, schema, write_page_checksum=True, compression="zstd") as writer:
        for seed, epoch, start, rows in wanted.pieces():
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


def _csv(path: Path, wanted: _Wanted) -> None:
    predictions = wanted.predictions
    ids, labels, split = predictions.ids.tolist(), predictions.labels, predictions.split
    known = [name for name, values in (("label", labels), ("split", split)) if values is not None]
    with path.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["seed", "epoch", "id", *known, *(f"p{c}" for c in range(predictions.n_classes))])
        for seed, epoch, start, rows in wanted.pieces():
            # The shortest text of a float16 or float32 that is read back as the same number.
            for row, numbers in enumerate(rows.astype(np.str_).tolist(), start):
                beside = [str(values[row]) for values in (labels, split) if values is not None]
                writer.writerow([seed, epoch, ids[row], *beside, *numbers])
