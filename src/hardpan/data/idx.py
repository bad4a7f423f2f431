"""Datasets in IDX files, plain or gzipped, as LeCun, Cortes and Burges (1998) laid out MNIST.

A file is two zero bytes, a type code, the number of axes, the length of each axis (32 bits, big-endian) and the
numbers. Its name says the same: ``train-images-idx3-ubyte`` has three axes of unsigned bytes, and a header that
disagrees with the name is refused. A folder holds ``train-`` and ``t10k-``, each with ``images`` and ``labels``;
one images file is read alone, with its labels where they lie beside it.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.arrays import checked_labels, checked_x, number_labels
from hardpan.data.dataset import Dataset, content_ids
from hardpan.data.memory import check_memory
from hardpan.errors import InputError

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
_Stream = gzip.GzipFile | io.BufferedReader
_GZIP = b"\x1f\x8b"
# No deflate stream grows by more; a header that claims more is false whatever the stream holds.
GROWTH_OF_GZIP = 1032


@dataclass(frozen=True, slots=True)
class _File:
    """What the name of a file says of it."""

    path: Path
    part: str
    what: str
    axes: int
    type: str


def matches(path: Path) -> bool:
    """Say whether this is ours: an IDX name such as train-images-idx3-ubyte.gz, or a folder with one in it."""
    return _named(path) is not None if not path.is_dir() else bool(_found(path))


def read(path: Path) -> Dataset:
    """Read a folder of four IDX files, or one file of images, or refuse it in one sentence.

    Every header is compared with the file's name, the bytes that are there and the memory that is free, before
    any of it is loaded. The rows are those of train, then those of t10k, which is the official test set.
    """
    return _joined(path, _found(path)) if path.is_dir() else _one(path)


def read_files(folder: Path, names: Collection[str]) -> Dataset:
    """Read four files of a folder by their names, whatever else lies there."""
    return _joined(folder, _by_content([folder / name for name in names]))


def _joined(path: Path, found: dict[tuple[str, str], _File]) -> Dataset:
    parts = {part: _pair(path, found, part) for part in ("train", "t10k")}
    check_memory(path, sum(_claimed(file)[1] for pair in parts.values() for file in pair))
    images = {part: checked_x(str(pair[0].path), _array(pair[0])) for part, pair in parts.items()}
    labels = [checked_labels(str(pair[1].path), _array(pair[1]), len(images[part])) for part, pair in parts.items()]
    train, test = images["train"], images["t10k"]
    if train.shape[1:] != test.shape[1:] or train.dtype != test.dtype:
        raise InputError(
            f"{path}: the train images hold {train.dtype} of shape {train.shape[1:]} and the t10k images "
            f"{test.dtype} of shape {test.shape[1:]}; both must be alike"
        )
    x, joined = np.concatenate([train, test]), np.concatenate(labels)
    split = np.repeat(np.array(["train", "test"]), [len(train), len(test)])
    numbers, names, noticed = number_labels(f"{path}: labels", joined)
    return Dataset(path.name, x, content_ids(x), numbers, names, split, source=path.name, warnings=noticed)


def _one(path: Path) -> Dataset:
    images = _named(path)
    if images is None or images.what == "labels":
        raise InputError(f"{path}: holds labels without images; give the images file or the folder of both")
    beside = _found(path.parent).get((images.part, "labels"))
    check_memory(path, sum(_claimed(file)[1] for file in (images, beside) if file))
    x = checked_x(str(path), _array(images))
    labels = checked_labels(str(beside.path), _array(beside), len(x)) if beside else None
    numbers, names, noticed = number_labels(f"{path}: labels", labels)
    return Dataset(images.part, x, content_ids(x), numbers, names, source=path.name, warnings=noticed)


def _named(path: Path) -> _File | None:
    match = _NAME.fullmatch(path.name)
    return _File(path, match["part"], match["what"], int(match["axes"]), match["type"]) if match else None


def _found(folder: Path) -> dict[tuple[str, str], _File]:
    """The IDX files of a folder by part and content; a plain file wins over the same one gzipped."""
    try:
        listed = sorted(folder.iterdir(), reverse=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror}); give a readable folder") from error
    return _by_content(listed)


def _by_content(paths: list[Path]) -> dict[tuple[str, str], _File]:
    files = [file for file in map(_named, paths) if file]
    return {(file.part, file.what): file for file in files}


def _pair(folder: Path, found: dict[tuple[str, str], _File], part: str) -> tuple[_File, _File]:
    for what, axes in (("images", 3), ("labels", 1)):
        if (part, what) not in found:
            raise InputError(
                f"{folder}: {part}-{what}-idx{axes}-ubyte is missing; the folder needs images and labels of train "
                "and of t10k, plain or with .gz"
            )
    return found[part, "images"], found[part, "labels"]


def _claimed(file: _File) -> tuple[tuple[int, ...], int]:
    """Give shape and bytes from the header alone; refuse a header that cannot be true."""
    path = file.path
    try:
        with _opened(path) as stream:
            shape, claimed = _header(path, stream, file.axes, file.type)
        held = path.stat().st_size
        gzipped = _is_gzip(path)
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(path, error) from error
    header = 4 + 4 * file.axes
    if (claimed > GROWTH_OF_GZIP * held) if gzipped else (claimed != held - header):
        room = f"can hold {GROWTH_OF_GZIP * held:,} at most" if gzipped else f"holds {held - header:,}"
        raise InputError(
            f"{path}: claims shape {shape} of {file.type}, {claimed:,} bytes, but {room}; "
            "the file is damaged: fetch it again"
        )
    return shape, claimed


def _header(path: Path, stream: _Stream, axes: int, kind: str) -> tuple[tuple[int, ...], int]:
    """Read shape and bytes from a stream's header; refuse one that is not of the kind that is meant."""
    code, dtype = TYPES[kind]
    head, lengths = stream.read(4), stream.read(4 * axes)
    if head != bytes([0, 0, code, axes]) or len(lengths) < 4 * axes:
        raise InputError(
            f"{path}: the name says idx{axes}-{kind}, a header that starts {_hex(bytes([0, 0, code]))} "
            f"{axes:02x}; got {_hex(head) or 'nothing'}: the file is damaged or misnamed"
        )
    shape = tuple(int(side) for side in np.frombuffer(lengths, dtype=">u4"))
    claimed = np.dtype(dtype).itemsize
    for side in shape:  # Python integers: a product that overflows 64 bits is exactly what has to be caught
        claimed *= side
    return shape, claimed


def _array(file: _File) -> NDArray[Any]:
    _claimed(file)
    try:
        with _opened(file.path) as stream:
            return read_stream(file.path, stream, file.axes, file.type)
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(file.path, error) from error


def read_stream(
    path: Path, stream: _Stream, axes: int, kind: str, check: Callable[[int], None] | None = None
) -> NDArray[Any]:
    """Read one IDX array from a stream that begins with its header; ``path`` is what to call it.

    Args:
        axes: how many axes it has to have.
        kind: the type that it has to hold, one of ``TYPES``.
        check: called with the bytes that the header claims, to refuse them before memory is taken.
    """
    shape, claimed = _header(path, stream, axes, kind)
    if check is not None:
        check(claimed)
    content = np.empty(claimed, dtype=np.uint8)
    got = _fill(stream, content)
    more = stream.read(1)  # reading to the end also compares gzip's checksum
    if got < claimed or more:
        held = f"only {got:,}" if got < claimed else "more"
        raise InputError(
            f"{path}: claims {claimed:,} bytes of {kind}, but holds {held}; the file is damaged: fetch it again"
        )
    return content.view(TYPES[kind][1]).reshape(shape)


def _fill(stream: _Stream, content: NDArray[np.uint8]) -> int:
    view, got = content.data, 0
    while got < len(view):
        read = stream.readinto(view[got : got + (1 << 20)])
        if not read:
            break
        got += read
    return got


def _opened(path: Path) -> _Stream:
    # By the first bytes, not the name: servers that unpack on the way leave .gz on a plain file.
    return gzip.open(path) if _is_gzip(path) else path.open("rb")


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(2) == _GZIP


def _damaged(path: Path, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(f"{path}: cannot be read ({reason}); fetch the file again")


def _hex(content: bytes) -> str:
    return content.hex(" ")
