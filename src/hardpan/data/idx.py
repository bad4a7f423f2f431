"""Datasets in IDX files, plain or gzipped, as LeCun, Cortes and Burges (1998) laid out MNIST; and EMNIST's archive.

A file is two zero bytes, a type code, the number of axes, the length of each axis (32 bits, big-endian) and the
numbers. Its name says the same: ``train-images-idx3-ubyte`` has three axes of unsigned bytes, and a header that
disagrees with the name is refused. A folder has ``train-`` and ``t10k-``, each with ``images`` and ``labels``; one
images file is read alone, with the labels beside it if there are any.
"""

from __future__ import annotations

import gzip
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from hardpan import arguments
from hardpan.data.arrays import from_arrays
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.safe_files import GZIP_GROWTH, check_memory, fill, folder_entries, is_gzip, open_zip, reading

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
class _File:
    """What the name of a file says about it."""

    path: Path
    split: str
    what: str
    axes: int
    type: str


def is_idx(path: Path) -> bool:
    """An IDX name such as train-images-idx3-ubyte.gz, or a folder with one in it."""
    return bool(_by_content(folder_entries(path))) if path.is_dir() else _NAME.fullmatch(path.name) is not None


def read_idx(path: Path, *, class_names: Sequence[str] | None = None) -> Dataset:
    """Read a folder of four IDX files, or one file of images.

    Every header is compared with the file's name, the bytes that are there and the memory that is free, before
    any of it is loaded. The rows are those of train, then those of t10k, which is the official test set.
    """
    if path.is_dir():
        return _read_four(path, _by_content(folder_entries(path)), class_names)
    files = _by_content([path])
    images = next((file for file in files.values() if file.what == "images"), None)
    if images is None:
        raise InputError(f"{path}: has labels without images; give the images file or the folder of both")
    labels = _by_content(folder_entries(path.parent)).get((images.split, "labels"))
    check_memory(path, sum(_claimed_bytes(file) for file in (images, labels) if file))
    return from_arrays(
        _read_file(images),
        None if labels is None else _read_file(labels),
        class_names=class_names,
        name=images.split,
        where=f"{path}: ",
        source=path.name,
    )


def read_idx_files(folder: Path, names: Sequence[str], class_names: Sequence[str] | None = None) -> Dataset:
    """Read four files of a folder by their names, whatever else is there."""
    return _read_four(folder, _by_content([folder / name for name in names]), class_names)


def _read_four(path: Path, files: dict[tuple[str, str], _File], class_names: Sequence[str] | None) -> Dataset:
    listed = []
    for split in ("train", "t10k"):
        for what, axes in (("images", 3), ("labels", 1)):
            if (split, what) not in files:
                raise InputError(
                    f"{path}: {split}-{what}-idx{axes}-ubyte is missing; the folder needs images and labels of "
                    "train and of t10k, plain or with .gz"
                )
            listed.append(files[split, what])
    check_memory(path, sum(map(_claimed_bytes, listed)))
    x, y, x_test, y_test = map(_read_file, listed)
    name = path.resolve().name
    return from_arrays(
        x, y, x_test=x_test, y_test=y_test, class_names=class_names, name=name, where=f"{path}: ", source=name
    )


def _by_content(paths: Sequence[Path]) -> dict[tuple[str, str], _File]:
    """IDX files by split and content; in reverse order of names a plain file replaces the same one gzipped."""
    matched = [(path, _NAME.fullmatch(path.name)) for path in reversed(paths)]
    files = [_File(path, m["part"], m["what"], int(m["axes"]), m["type"]) for path, m in matched if m]
    return {(file.split, file.what): file for file in files}


def _claimed_bytes(file: _File) -> int:
    """Bytes of the array, from the header alone; refuses a header that cannot be true."""
    path = file.path
    with reading(path, remedy="fetch the file again"):
        with _open_idx(path) as stream:
            shape, claimed = _idx_header(path, stream, file.axes, file.type)
        size, gzipped = path.stat().st_size, is_gzip(path)
    header = 4 + 4 * file.axes
    if (claimed > GZIP_GROWTH * size) if gzipped else (claimed != size - header):
        room = f"can have {GZIP_GROWTH * size:,} at most" if gzipped else f"has {size - header:,}"
        raise InputError(
            f"{path}: claims shape {shape} of {file.type}, {claimed:,} bytes, but {room}; "
            "the file is damaged: fetch it again"
        )
    return claimed


def _idx_header(path: Path, stream: IO[bytes], axes: int, kind: str) -> tuple[tuple[int, ...], int]:
    """Shape and bytes from a stream's header; refuses one of another type than the name says."""
    code, dtype = TYPES[kind]
    head, lengths = stream.read(4), stream.read(4 * axes)
    expected = bytes([0, 0, code, axes])
    if head != expected or len(lengths) < 4 * axes:
        raise InputError(
            f"{path}: the name says idx{axes}-{kind}, a header that starts {expected.hex(' ')}; got "
            f"{head.hex(' ') or 'nothing'}: the file is damaged or misnamed"
        )
    shape = tuple(int(side) for side in np.frombuffer(lengths, dtype=">u4"))
    claimed = np.dtype(dtype).itemsize
    for side in shape:  # Python integers: a product that overflows 64 bits is exactly what has to be caught
        claimed *= side
    return shape, claimed


def _read_file(file: _File) -> NDArray[Any]:
    with reading(file.path, remedy="fetch the file again"), _open_idx(file.path) as stream:
        return _read_stream(file.path, stream, file.axes, file.type)


def _read_stream(path: Path, stream: IO[bytes], axes: int, kind: str, most: int | None = None) -> NDArray[Any]:
    shape, claimed = _idx_header(path, stream, axes, kind)
    if most is not None and claimed > most:
        raise InputError(f"{path}: claims {claimed:,} bytes, but can have {most:,} at most; fetch it again")
    check_memory(path, claimed)
    content = np.empty(claimed, dtype=np.uint8)
    got = fill(stream, content)
    more = stream.read(1)  # reading to the end also compares gzip's checksum
    if got < claimed or more:
        has = f"only {got:,}" if got < claimed else "more"
        raise InputError(
            f"{path}: claims {claimed:,} bytes of {kind}, but has {has}; the file is damaged: fetch it again"
        )
    return content.view(TYPES[kind][1]).reshape(shape)


def _open_idx(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.GzipFile(path)) if is_gzip(path) else path.open("rb")


def read_emnist(path: Path, member: str, class_names: tuple[str, ...]) -> Dataset:
    """Read one of the six sets of EMNIST's zip archive of gzipped IDX files into images (N, 28, 28), upright.

    Source: Cohen, Afshar, Tapson and van Schaik, "EMNIST: an extension of MNIST to handwritten letters" (2017).
    Images are transposed there, and the labels of ``letters`` count from 1; both are corrected.

    Args:
        path: the archive, gzip.zip as it was published.
        member: "balanced", "byclass", "bymerge", "digits", "letters" or "mnist".
        class_names: (C,) names of its classes; labels above them are refused.
    """
    arrays: dict[str, NDArray[Any]] = {}
    with open_zip(path) as (_, archive):
        for rows in ("train", "test"):
            images = _emnist_array(path, archive, f"emnist-{member}-{rows}-images-idx3-ubyte.gz", 3)
            labels = _emnist_array(path, archive, f"emnist-{member}-{rows}-labels-idx1-ubyte.gz", 1)
            arrays[f"x_{rows}"] = np.ascontiguousarray(images.transpose(0, 2, 1))
            arrays[f"y_{rows}"] = arguments.labels(f"{path}: {rows} labels", labels, len(images)) - (
                member == "letters"
            )
    lowest, highest = (int(pick([pick(arrays[key]) for key in ("y_train", "y_test")])) for pick in (np.min, np.max))
    if lowest < 0 or highest >= len(class_names):
        raise InputError(f"{path}: labels must be of {len(class_names)} classes; fetch the archive again")
    return from_arrays(
        arrays["x_train"],
        arrays["y_train"],
        x_test=arrays["x_test"],
        y_test=arrays["y_test"],
        class_names=class_names,
        name=f"emnist-{member}",
        where=f"{path}: ",
        source=path.name,
    )


def _emnist_array(path: Path, archive: zipfile.ZipFile, name: str, axes: int) -> NDArray[Any]:
    members = [member for member in archive.infolist() if PurePosixPath(member.filename).name == name]
    if len(members) != 1:
        raise InputError(f"{path}: must have {name} once; got {len(members)}: give the archive as it was published")
    most = GZIP_GROWTH * min(members[0].file_size, path.stat().st_size)
    with archive.open(members[0]) as packed, gzip.GzipFile(fileobj=packed) as stream:
        return _read_stream(path / name, cast(IO[bytes], stream), axes, "ubyte", most)
