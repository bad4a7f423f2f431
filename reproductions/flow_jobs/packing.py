"""A dataset as a small lossless file, for a slow line: ``pack`` and its inverse.

One line of JSON, then bzip2 of the differences to the left and upper neighbours, colour minus green, planes apart;
the labels follow.
"""

from __future__ import annotations

import argparse
import bz2
import hashlib
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardpan.data.dataset import Dataset, content_ids


def read(source: str) -> Dataset:
    """A packed file, or anything for Dataset.open."""
    return unpack(Path(source)) if source.endswith(".pack") else Dataset.open(source)


def pack(given: argparse.Namespace) -> None:
    """Write the first rows of a dataset, train and test, and read them back to be sure."""
    dataset = Dataset.open(given.data)
    assert dataset.split is not None
    assert dataset.labels is not None
    train_rows = np.flatnonzero(dataset.split != "test")[: given.rows or None]
    test_rows = np.flatnonzero(dataset.split == "test")[: given.test_rows or None]
    rows = np.concatenate([train_rows, test_rows])
    x = dataset.x[rows]
    header = {"shape": x.shape, "train": len(train_rows), "names": dataset.class_names, "name": dataset.name,
              "sha256": hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()}  # fmt: skip
    body = np.moveaxis(differences(x), -1, 0).tobytes() + dataset.labels[rows].astype(np.uint8).tobytes()
    given.file.write_bytes(json.dumps(header).encode() + b"\n" + bz2.compress(body))
    assert np.array_equal(unpack(given.file).x, x)
    print(f"{given.file}: {given.file.stat().st_size / 2**20:.1f} MiB, {len(train_rows)} + {len(test_rows)} rows")


def unpack(path: Path) -> Dataset:
    """The dataset that ``pack`` wrote; a damaged file ends the program."""
    header, _, body = path.read_bytes().partition(b"\n")
    told = json.loads(header)
    raw = bz2.decompress(body)
    shape = told["shape"] if len(told["shape"]) == 4 else [*told["shape"], 1]
    count = int(np.prod(shape))
    planes = np.frombuffer(raw[:count], np.uint8).reshape(shape[3], *shape[:3])
    x = np.moveaxis(planes, 0, -1)
    x = np.cumsum(np.cumsum(x, 1, dtype=np.uint8), 2, dtype=np.uint8)
    if shape[3] == 3:
        x = np.stack([x[..., 1] + x[..., 0], x[..., 0], x[..., 2] + x[..., 0]], -1)
    x = np.ascontiguousarray(x.reshape(told["shape"]))
    if hashlib.sha256(x.tobytes()).hexdigest() != told["sha256"]:
        raise SystemExit(f"{path}: is damaged")
    labels = np.frombuffer(raw[count:], np.uint8).astype(np.int64)
    split = np.repeat(np.array(["train", "test"]), [told["train"], len(x) - told["train"]])
    return Dataset(told["name"], x, content_ids(x), labels, tuple(told["names"]), split)


def differences(x: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(N, H, W, C) differences, modulo 256, of images (N, H, W) or (N, H, W, C)."""
    x = x if x.ndim == 4 else x[..., None]
    if x.shape[3] == 3:
        green = x[..., 1]
        x = np.stack([green, x[..., 0] - green, x[..., 2] - green], -1)
    down = x.copy()
    down[:, 1:] -= x[:, :-1]
    both = down.copy()
    both[:, :, 1:] -= down[:, :, :-1]
    return both
