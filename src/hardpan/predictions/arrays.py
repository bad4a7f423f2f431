"""Predictions in npy and npz files: mapped where the file allows it, never unpickled."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError
from hardpan.predictions.memory import ArrayPredictions, in_memory
from hardpan.predictions.rows import one_line

PROBABILITIES = ("probabilities", "probs", "p")
LOGITS = ("logits",)
IN_MEMORY = 2**28  # bytes of a compressed array that are unpacked in memory; larger ones on the temporary disk
COLUMNS = {
    "ids": ("ids", "id"),
    "labels": ("labels", "label", "y", "targets"),
    "split": ("split",),
    "class_names": ("class_names", "classes"),
    "seeds": ("seeds",),
    "epochs": ("epochs",),
}


def open_file(path: Path, outputs: str = "auto", **given: Any) -> ArrayPredictions:
    """Open an npy or npz file read-only; ``given`` columns take the place of those in the file."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        if path.suffix.lower() == ".npy":
            array = np.lib.format.open_memmap(path, mode="r")
            return in_memory(array, outputs=outputs, where=str(path), **given)
        return _open_npz(path, outputs, given)
    except InputError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, KeyError) as error:
        raise InputError(f"{path}: cannot be read ({one_line(error)}); write it again with NumPy") from error


def _open_npz(path: Path, outputs: str, given: dict[str, Any]) -> ArrayPredictions:
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    key = array_key(path, names)
    with np.load(path, allow_pickle=False) as stored:
        columns = columns_of(stored, names) | given
        mapped = mapped_member(path, key)
        array = stored[key] if mapped is None else mapped
    if outputs == "auto" and key in LOGITS:
        outputs = "logits"
    return in_memory(array, outputs=outputs, where=str(path), **columns)


def array_key(path: Path, names: list[str]) -> str:
    """The name of the predictions among the arrays of a file."""
    for name in (*PROBABILITIES, *LOGITS):
        if name in names:
            return name
    columns = {name for known in COLUMNS.values() for name in known}
    others = [name for name in names if name not in columns]
    if len(others) == 1:
        return others[0]
    raise InputError(
        f"{path}: holds no array {PROBABILITIES[0]!r}, {PROBABILITIES[1]!r} or {LOGITS[0]!r}; "
        f"it holds {', '.join(names) or 'nothing'}"
    )


def columns_of(stored: Any, names: list[str]) -> dict[str, Any]:
    """The columns that stand beside the predictions."""
    found = {}
    for column, known in COLUMNS.items():
        key = next((name for name in known if name in names), None)
        if key is not None:
            values = stored[key]
            found[column] = tuple(values.tolist()) if column in ("class_names", "seeds", "epochs") else values
    return found


def mapped_member(path: Path, key: str) -> NDArray[Any] | None:
    """Map an array of an npz file; None where it is compressed and small enough for memory."""
    with zipfile.ZipFile(path) as archive:
        item = archive.getinfo(f"{key}.npy")
        if item.compress_type != zipfile.ZIP_STORED:
            return _unpacked(archive, item) if item.file_size > IN_MEMORY else None
        with archive.open(item) as stream:
            version = np.lib.format.read_magic(stream)
            reader = {(1, 0): np.lib.format.read_array_header_1_0}.get(version, np.lib.format.read_array_header_2_0)
            shape, fortran, dtype = reader(stream)
            header = stream.tell()
        with path.open("rb") as file:
            # The length of name and extra field in front of the data stands in the local header, bytes 26..30.
            file.seek(item.header_offset + 26)
            lengths = file.read(4)
        start = item.header_offset + 30 + int.from_bytes(lengths[:2], "little")
        start += int.from_bytes(lengths[2:], "little") + header
    if dtype.hasobject or item.file_size - header != int(np.prod(shape)) * dtype.itemsize:
        return None
    order: Any = "F" if fortran else "C"
    return np.memmap(path, dtype=dtype, mode="r", offset=start, shape=shape, order=order)


def _unpacked(archive: zipfile.ZipFile, item: zipfile.ZipInfo) -> NDArray[Any]:
    """Unpack an array to the temporary disk and map it; the file is gone when the array is."""
    with tempfile.NamedTemporaryFile(prefix="hardpan-", suffix=".npy") as file:
        with archive.open(item) as stream:
            shutil.copyfileobj(stream, file, 2**20)
        file.flush()
        return np.lib.format.open_memmap(file.name, mode="r")
