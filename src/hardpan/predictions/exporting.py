"""Export of predictions to npz, Parquet or CSV, written block by block, completely or not at all."""

from __future__ import annotations

import csv
import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.arguments import as_path
from hardpan.errors import FULL_DISK, InputError
from hardpan.execution import Progress
from hardpan.execution.mapping import no_progress
from hardpan.files import replacing
from hardpan.predictions.importing import ImportSummary
from hardpan.predictions.opening import open_any
from hardpan.predictions.predictions import Predictions
from hardpan.tables import safe_table_cell


def export(
    predictions: Any,
    path: str | os.PathLike[str],
    *,
    seeds: Sequence[int] | None = None,
    epochs: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> ImportSummary:
    """Write predictions to a new file, in the format of its suffix.

    npz contains one array (seeds, epochs, examples, classes), ids, labels, split, class_names, seeds and epochs.
    Parquet and CSV have one row per seed, epoch and example. :meth:`hardpan.Predictions.open` reads all of them.

    Args:
        predictions: what to write: :class:`hardpan.Predictions`, or whatever its ``open`` opens.
        path: the new file.
        seeds: seeds to export, such as 0,1,2; default: all.
        epochs: epochs to export, such as 0,5,10; default: those that every seed has (the others are listed).
        progress: called with a step and the fraction done.
    """
    file, opened = as_path("path", path), open_any(predictions, name="predictions")
    writers = {".npz": _write_npz, ".parquet": _write_parquet, ".csv": _write_csv}
    writer = writers.get(file.suffix.lower())
    if writer is None:
        raise InputError(f"{file}: unsupported format; supported: {', '.join(writers)}")
    if file.exists():
        raise InputError(f"{file}: exists; give a new name")
    selected = opened.select(seeds=seeds, epochs=epochs)
    if not selected.seeds or not selected.epochs:
        raise InputError(f"{opened.where}: no epoch is complete for all seeds; record one first")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as partial:
            writer(partial, selected, progress or no_progress)
    except OSError as error:
        if error.errno in FULL_DISK:
            raise InputError(
                f"{file}: the disk is full ({error.strerror}); free some space and run again"
            ) from error
        raise InputError(f"{file}: cannot be written ({error.strerror or error}); give another path") from error
    known = {epoch for seed in selected.seeds for epoch in selected.epochs_of(seed)}
    return ImportSummary(
        source=(opened.where,),
        target=str(file),
        examples=len(opened),
        classes=opened.n_classes,
        seeds=selected.seeds,
        epochs=selected.epochs,
        left_out=tuple(sorted(known - set(selected.epochs))),
    )


def _recorded_blocks(predictions: Predictions, progress: Progress) -> Iterator[tuple[int, int, int, NDArray[Any]]]:
    """Seed, epoch, first row and rows of one block after another, in the order of the axes."""
    pairs = [(seed, epoch) for seed in predictions.seeds for epoch in predictions.epochs]
    for done, (seed, epoch) in enumerate(pairs):
        progress(f"writing seed {seed} epoch {epoch}", done / len(pairs))
        for start, stop in predictions.blocks():
            yield seed, epoch, start, predictions.read(seed, epoch, start, stop)


def _known_columns(predictions: Predictions) -> dict[str, NDArray[Any]]:
    """Labels and split, where they are known."""
    columns = {"label": predictions.labels, "split": predictions.split}
    return {name: values for name, values in columns.items() if values is not None}


def _write_npz(path: Path, predictions: Predictions, progress: Progress) -> None:
    columns: dict[str, Any] = {name: getattr(predictions, name) for name in ("ids", "labels", "split")}
    columns |= {"seeds": predictions.seeds, "epochs": predictions.epochs}
    columns["class_names"] = predictions.class_names or None
    # Not compressed, so that the file can be mapped.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        with archive.open("probabilities.npy", "w", force_zip64=True) as stream:
            dtype = predictions.dtype.newbyteorder("<")
            shape = (len(predictions.seeds), len(predictions.epochs), len(predictions), predictions.n_classes)
            header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_2_0(stream, header)
            for _, _, _, rows in _recorded_blocks(predictions, progress):
                stream.write(np.ascontiguousarray(rows, dtype=dtype).tobytes())
        for name, values in columns.items():
            if values is not None:
                with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                    np.lib.format.write_array(stream, np.asarray(values), allow_pickle=False)


def _write_parquet(path: Path, predictions: Predictions, progress: Progress) -> None:
    import pyarrow
    import pyarrow.parquet

    known = _known_columns(predictions)
    kinds = {"seed": pyarrow.int32(), "epoch": pyarrow.int32(), "id": pyarrow.string()}
    kinds |= {name: pyarrow.int64() if name == "label" else pyarrow.string() for name in known}
    kinds["probabilities"] = pyarrow.list_(pyarrow.float32(), predictions.n_classes)
    schema = pyarrow.schema(kinds)
    with pyarrow.parquet.ParquetWriter(path, schema, write_page_checksum=True, compression="zstd") as writer:
        for seed, epoch, start, rows in _recorded_blocks(predictions, progress):
            span = slice(start, start + len(rows))
            columns: dict[str, Any] = {
                "seed": np.full(len(rows), seed, dtype=np.int32),
                "epoch": np.full(len(rows), epoch, dtype=np.int32),
                "id": predictions.ids[span].tolist(),
                **{name: values[span].tolist() for name, values in known.items()},
            }
            flat = pyarrow.array(rows.astype(np.float32).reshape(-1))
            columns["probabilities"] = pyarrow.FixedSizeListArray.from_arrays(flat, predictions.n_classes)
            writer.write_table(pyarrow.table(columns, schema=schema))


def _write_csv(path: Path, predictions: Predictions, progress: Progress) -> None:
    ids, known = [safe_table_cell(name) for name in predictions.ids.tolist()], _known_columns(predictions)
    with path.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["seed", "epoch", "id", *known, *(f"p{c}" for c in range(predictions.n_classes))])
        for seed, epoch, start, rows in _recorded_blocks(predictions, progress):
            # The shortest text of a float16 or float32 that is read back as the same number.
            for row, numbers in enumerate(rows.astype(np.str_).tolist(), start):
                beside = [str(values[row]) for values in known.values()]
                writer.writerow([seed, epoch, ids[row], *beside, *numbers])
