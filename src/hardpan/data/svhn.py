"""SVHN's cropped digits: two MATLAB files, read only after their sums were compared.

Source: Netzer, Wang, Coates, Bissacco, Wu and Ng, "Reading digits in natural images with unsupervised feature
learning" (2011). A file has ``X`` (32, 32, 3, N) of bytes and ``y`` (N, 1), where 10 stands for the digit 0. The
further images of ``extra`` are not read. There is no reader of MATLAB files by path: scipy's was not made for files
that nobody vouches for.
"""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.arrays import checked_labels, checked_x
from hardpan.data.dataset import Dataset, content_ids
from hardpan.data.memory import check_memory
from hardpan.errors import InputError

SIDE, COLOURS, CLASSES = 32, 3, 10


def read_pair(train: Path, test: Path) -> Dataset:
    """Read both files into images (N, 32, 32, 3) of uint8 and digits 0 to 9, or refuse them in one sentence.

    Shapes and types are read first, and compared with what SVHN has and with the memory that is free.
    """
    check_memory(train, sum(map(_claimed, (train, test))))
    parts = [_read(path) for path in (train, test)]
    x = np.concatenate([images for images, _ in parts])
    labels = np.concatenate([digits for _, digits in parts])
    split = np.repeat(np.array(["train", "test"]), [len(digits) for _, digits in parts])
    return Dataset("svhn", x, content_ids(x), labels, tuple(string.digits), split, source=train.parent.name)


def _claimed(path: Path) -> int:
    """Bytes of the images that a file claims to hold; refuse one that does not look like SVHN's."""
    from scipy import io

    try:
        listed = {name: (shape, kind) for name, shape, kind in io.whosmat(path)}
    except Exception as error:  # scipy raises many kinds for a damaged file
        raise _damaged(path, error) from error
    (x_shape, x_kind), (y_shape, _) = listed.get("X", ((), "")), listed.get("y", ((), ""))
    if len(x_shape) != 4 or tuple(x_shape[:3]) != (SIDE, SIDE, COLOURS) or x_kind != "uint8":
        raise InputError(
            f"{path}: X must be uint8 of shape ({SIDE}, {SIDE}, {COLOURS}, N); got {x_kind or 'nothing'} of shape "
            f"{tuple(x_shape)}: fetch it again"
        )
    n = int(x_shape[3])
    if tuple(y_shape) != (n, 1):
        raise InputError(
            f"{path}: y must have shape ({n}, 1), a label an image; got {tuple(y_shape)}: fetch it again"
        )
    return SIDE * SIDE * COLOURS * n


def _read(path: Path) -> tuple[NDArray[Any], NDArray[np.int64]]:
    from scipy import io

    try:
        content = io.loadmat(path, variable_names=["X", "y"], verify_compressed_data_integrity=True)
        images, given = np.asarray(content["X"]), np.asarray(content["y"])
    except Exception as error:  # scipy raises many kinds for a damaged file
        raise _damaged(path, error) from error
    if images.dtype != np.uint8 or images.shape[:3] != (SIDE, SIDE, COLOURS):
        raise InputError(f"{path}: X claims to be bytes of colour images and is not; fetch it again")
    x = checked_x(f"{path}: X", np.ascontiguousarray(images.transpose(3, 0, 1, 2)))
    labels = checked_labels(f"{path}: y", given.reshape(-1), len(x))
    if int(labels.min()) < 1 or int(labels.max()) > CLASSES:
        raise InputError(
            f"{path}: y must be 1..{CLASSES}, with {CLASSES} for the digit 0; got {int(labels.min())} to "
            f"{int(labels.max())}: fetch it again"
        )
    return x, labels % CLASSES


def _damaged(path: Path, error: Exception) -> InputError:
    reason = (str(error).splitlines() or [type(error).__name__])[0][:160]
    return InputError(f"{path}: is no readable MATLAB file ({reason}); fetch it again")
