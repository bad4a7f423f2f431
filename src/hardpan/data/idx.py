"""Datasets in IDX files, plain or gzipped, as LeCun, Cortes and Burges (1998) laid out MNIST.

A file is two zero bytes, a type code, the number of axes, the length of each axis (32 bits, big-endian) and the
numbers. Its name says the same: ``train-images-idx3-ubyte`` has three axes of unsigned bytes, and a header that
disagrees with the name is refused. A folder has ``train-`` and ``t10k-``, each with ``images`` and ``labels``; one
images file is read alone, with the labels beside it if there are any.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from hardpan.data.arrays import from_arrays
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.files import GZIP_GROWTH, check_reading_memory, fill, folder_entries, is_gzip, refusing_damaged

# The word in a file's name, and the code in its header.
TYPES = {
    "ubyte": (0x08, ">u1"),
    "byte": (0x09, ">i1"),
    "short": (0x0B, ">i2"),
    "int": (0x0C, ">i4"),
    "float": (0x0D, ">f4"),
    "double": (0x0E, ">f8"),
}
_NAME = re.compile(
    rf"(?P<part>.+)-(?P<what>images|labels)[-.]idx(?P<axes>[1-4])-(?P<type>{'|'.join(TYPES)})(?:\.gz)?"
)


@dataclass(frozen=True, slots=True)
class _IdxFile:
    """What the name of a file says about it."""

    path: Path
    split: str
    what: str
    axes: int
    type: str


def is_idx(path: Path) -> bool:
    """An IDX name such as train-images-idx3-ubyte.gz, or a folder with one in it."""
    return bool(_idx_files(folder_entries(path))) if path.is_dir() else _NAME.fullmatch(path.name) is not None


def read_idx(path: Path, *, class_names: Sequence[str] | None = None) -> Dataset:
    """Read a folder of four IDX files, or one file of images.

    Every header is compared with the file's name, the bytes that are there and the memory that is free, before
    any of it is loaded. The rows are those of train, then those of t10k, which is the official test set.
    """
    if path.is_dir():
        return read_idx_files(path, folder_entries(path), class_names)
    files = _idx_files([path])
    images = next((file for file in files.values() if file.what == "images"), None)
    if images is None:
        raise InputError(f"{path}: has labels without images; give the images file or the folder of both")
    labels = _idx_files(folder_entries(path.parent)).get((images.split, "labels"))
    check_reading_memory(path, sum(_claimed_idx_bytes(file) for file in (images, labels) if file))
    return from_arrays(
        _idx_array(images),
        None if labels is None else _idx_array(labels),
        class_names=class_names,
        name=images.split,
        where=f"{path}: ",
        source=path.name,
    )


def read_idx_files(folder: Path, paths: Sequence[Path], class_names: Sequence[str] | None = None) -> Dataset:
    """Read four files of a folder, whatever else is there."""
    files, listed = _idx_files(paths), []
    for split in ("train", "t10k"):
        for what, axes in (("images", 3), ("labels", 1)):
            if (split, what) not in files:
                raise InputError(
                    f"{folder}: {split}-{what}-idx{axes}-ubyte is missing; the folder needs images and labels of "
                    "train and of t10k, plain or with .gz"
                )
            listed.append(files[split, what])
    check_reading_memory(folder, sum(map(_claimed_idx_bytes, listed)))
    x, y, x_test, y_test = map(_idx_array, listed)
    name = folder.resolve().name
    return from_arrays(
        x, y, x_test=x_test, y_test=y_test, class_names=class_names, name=name, where=f"{folder}: ", source=name
    )


def _idx_files(paths: Sequence[Path]) -> dict[tuple[str, str], _IdxFile]:
    """IDX files by split and content; in reverse order of names a plain file replaces the same one gzipped."""
    matched = [(path, _NAME.fullmatch(path.name)) for path in reversed(paths)]
    files = [_IdxFile(path, m["part"], m["what"], int(m["axes"]), m["type"]) for path, m in matched if m]
    return {(file.split, file.what): file for file in files}


def _claimed_idx_bytes(file: _IdxFile) -> int:
    """Bytes of the array, from the header alone; refuses a header that cannot be true."""
    path = file.path
    with refusing_damaged(path, remedy="fetch the file again"):
        with _open_idx(path) as stream:
            shape, claimed = _idx_header(stream, file)
        size, gzipped = path.stat().st_size, is_gzip(path)
    header = 4 + 4 * file.axes
    if (claimed > GZIP_GROWTH * size) if gzipped else (claimed != size - header):
        room = f"can have {GZIP_GROWTH * size:,} at most" if gzipped else f"has {size - header:,}"
        raise InputError(
            f"{path}: claims shape {shape} of {file.type}, {claimed:,} bytes, but {room}; "
            "the file is damaged: fetch it again"
        )
    return claimed


def _idx_header(stream: IO[bytes], file: _IdxFile) -> tuple[tuple[int, ...], int]:
    """Shape and bytes from a stream's header; refuses one of another type than the name says."""
    code, dtype = TYPES[file.type]
    head, lengths = stream.read(4), stream.read(4 * file.axes)
    expected = bytes([0, 0, code, file.axes])
    if head != expected or len(lengths) < 4 * file.axes:
        raise InputError(
            f"{file.path}: the name says idx{file.axes}-{file.type}, a header that starts {expected.hex(' ')}; got "
            f"{head.hex(' ') or 'nothing'}: the file is damaged or misnamed"
        )
    shape = tuple(int(side) for side in np.frombuffer(lengths, dtype=">u4"))
    claimed = np.dtype(dtype).itemsize
    for side in shape:  # Python integers: a product that overflows 64 bits is exactly what has to be caught
        claimed *= side
    return shape, claimed


def _idx_array(file: _IdxFile) -> NDArray[Any]:
    with refusing_damaged(file.path, remedy="fetch the file again"), _open_idx(file.path) as stream:
        shape, claimed = _idx_header(stream, file)
        content = np.empty(claimed, dtype=np.uint8)
        got = fill(stream, content)
        more = stream.read(1)  # reading to the end also compares gzip's checksum
    if got < claimed or more:
        has = f"only {got:,}" if got < claimed else "more"
        raise InputError(
            f"{file.path}: claims {claimed:,} bytes of {file.type}, but has {has}; the file is damaged: fetch it "
            "again"
        )
    return content.view(TYPES[file.type][1]).reshape(shape)


def _open_idx(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.GzipFile(path)) if is_gzip(path) else path.open("rb")
