"""EMNIST: six sets of handwritten characters in one zip archive of gzipped IDX files.

Source: Cohen, Afshar, Tapson and van Schaik, "EMNIST: an extension of MNIST to handwritten letters" (2017). Images
lie there transposed, and the labels of ``letters`` count from 1; both are set right in reading. Members are read
where they lie; nothing is unpacked to disk.
"""

from __future__ import annotations

import gzip
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data import idx
from hardpan.data.arrays import checked_labels, checked_x
from hardpan.data.dataset import Dataset, content_ids
from hardpan.data.memory import check_memory
from hardpan.errors import InputError

COUNTED_FROM_ONE = ("letters",)
MOST_MEMBERS = 1000
_PARTS = ("train", "test")


def read_part(path: Path, part: str, class_names: tuple[str, ...]) -> Dataset:
    """Read one of the sets of the archive into images (N, 28, 28), upright, or refuse it in one sentence.

    Args:
        path: the archive, gzip.zip as it was published.
        part: "balanced", "byclass", "bymerge", "digits", "letters" or "mnist".
        class_names: (C,) names of its classes; labels above them are refused.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {
                (rows, what): _array(path, archive, f"emnist-{part}-{rows}-{what}-idx{axes}-ubyte.gz", axes)
                for rows in _PARTS
                for what, axes in (("images", 3), ("labels", 1))
            }
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error, NotImplementedError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(f"{path}: is no readable zip archive ({reason}); fetch it again") from error
    images = [checked_x(f"{path}: {rows} images", arrays[rows, "images"].transpose(0, 2, 1)) for rows in _PARTS]
    if images[0].shape[1:] != images[1].shape[1:]:
        raise InputError(
            f"{path}: train images are {images[0].shape[1:]} and test images {images[1].shape[1:]}; fetch it again"
        )
    labels = [
        _labels(f"{path}: {rows} labels", arrays[rows, "labels"], len(x), part, len(class_names))
        for rows, x in zip(_PARTS, images, strict=True)
    ]
    # A concatenation keeps the order in memory of its parts, which is the transposed one.
    x, split = (
        np.ascontiguousarray(np.concatenate(images)),
        np.repeat(np.array(_PARTS), [len(item) for item in images]),
    )
    return Dataset(
        f"emnist-{part}", x, content_ids(x), np.concatenate(labels), class_names, split, source=path.name
    )


def _labels(what: str, given: NDArray[Any], n: int, part: str, classes: int) -> NDArray[np.int64]:
    first = 1 if part in COUNTED_FROM_ONE else 0
    labels = checked_labels(what, given, n) - first
    if int(labels.min()) < 0 or int(labels.max()) >= classes:
        raise InputError(
            f"{what} must be {first}..{classes - 1 + first}; got {int(labels.min()) + first} to "
            f"{int(labels.max()) + first}: fetch the archive again"
        )
    return labels


def _array(path: Path, archive: zipfile.ZipFile, name: str, axes: int) -> NDArray[Any]:
    """Read one gzipped IDX member; what its header claims is compared with what it can hold and with memory."""
    listed = archive.infolist()
    if len(listed) > MOST_MEMBERS:
        raise InputError(f"{path}: holds more than {MOST_MEMBERS} members; give the archive as it was published")
    found = [member for member in listed if PurePosixPath(member.filename).name == name]
    if len(found) != 1:
        raise InputError(f"{path}: must hold {name} once; got {len(found)}: give the archive as it was published")
    member = found[0]

    def check(claimed: int) -> None:
        most = idx.GROWTH_OF_GZIP * min(member.file_size, path.stat().st_size)
        if claimed > most:
            raise InputError(
                f"{path}: {name} claims {claimed:,} bytes, but can hold {most:,} at most; fetch it again"
            )
        check_memory(path, claimed)

    with archive.open(member) as packed, gzip.GzipFile(fileobj=packed) as stream:
        return idx.read_stream(path / name, stream, axes, "ubyte", check)
