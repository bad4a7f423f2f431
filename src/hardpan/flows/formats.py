"""Examples in ordinary files: npz (float32 or 8 bits), IDX, and folders of PNG images."""

from __future__ import annotations

import hashlib
import os
import re
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.flows.rounding import to_levels

FORMATS = ("npz", "npz8", "idx", "png")
Pieces = Callable[[], Iterator[NDArray[np.float32]]]


def check(format: str, levels: int | None) -> None:
    """Refuse 8-bit files for what is no image."""
    if format != "npz" and levels is None:
        raise InputError(f"format {format} is for images, and this flow draws feature vectors; give format npz")


def write(
    format: str,
    folder: Path,
    pieces: Pieces,
    labels: NDArray[np.int64],
    split: NDArray[np.str_],
    class_names: tuple[str, ...],
    levels: int | None,
) -> tuple[str, dict[str, str], NDArray[np.str_]]:
    """Write examples, train rows first, without holding all of them.

    Returns:
        What to load (relative to the folder), sha256 by file, and the ids of the examples as they are read.
    """
    if format == "npz":
        name, files = "data.npz", _write_npz(folder / "data.npz", pieces, labels, split, class_names)
    elif format == "npz8":
        name, files = (
            "data.npz",
            _write_npz(folder / "data.npz", _bytes(pieces, levels), labels, split, class_names),
        )
    elif format == "idx":
        name, files = "idx", _write_idx(folder / "idx", _bytes(pieces, levels), labels, split)
    else:
        name, files = "images", _write_png(folder / "images", _bytes(pieces, levels), labels, split, class_names)
    read = Dataset.open(folder / name)
    if format == "png":
        # A folder is read class by class; these ids are in the order of the draw.
        places = {str(file): row for row, file in enumerate(read.metadata["path"])}
        folders = _class_folders(class_names)
        order = [places[_png_name(row, split, labels, folders)] for row in range(len(labels))]
        return name, files, read.ids[order]
    return name, files, read.ids


def _bytes(pieces: Pieces, levels: int | None) -> Callable[[], Iterator[NDArray[Any]]]:
    return lambda: (to_levels(piece, levels or 256) for piece in pieces())


def _parts(
    pieces: Callable[[], Iterator[NDArray[Any]]], split: NDArray[np.str_], part: str
) -> Iterator[NDArray[Any]]:
    """The rows of one part, a piece at a time."""
    start = 0
    for piece in pieces():
        rows = split[start : start + len(piece)] == part
        start += len(piece)
        if rows.any():
            yield piece[rows]


def _write_npz(
    path: Path,
    pieces: Callable[[], Iterator[NDArray[Any]]],
    labels: NDArray[np.int64],
    split: NDArray[np.str_],
    class_names: tuple[str, ...],
) -> dict[str, str]:
    waiting = path.with_suffix(".writing")
    with zipfile.ZipFile(waiting, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for part in ("train", "test"):
            count = int((split == part).sum())
            first = next(_parts(pieces, split, part))
            header = {"descr": first.dtype.str, "fortran_order": False, "shape": (count, *first.shape[1:])}
            with _member(archive, f"x_{part}") as stream:
                np.lib.format.write_array_header_2_0(stream, header)
                for piece in _parts(pieces, split, part):
                    stream.write(np.ascontiguousarray(piece).tobytes())
            _write_array(archive, f"y_{part}", labels[split == part])
        _write_array(archive, "class_names", np.array(class_names))
        _write_array(archive, "ids", np.array([f"s{row:08d}" for row in range(len(labels))]))
    os.replace(waiting, path)
    return {path.name: file_hash(path)}


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    # A fixed date: the same draw gives the same bytes.
    return archive.open(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), "w", force_zip64=True)


def _write_array(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    with _member(archive, name) as stream:
        np.lib.format.write_array(stream, array, allow_pickle=False)


def _write_idx(
    folder: Path,
    pieces: Callable[[], Iterator[NDArray[Any]]],
    labels: NDArray[np.int64],
    split: NDArray[np.str_],
) -> dict[str, str]:
    if labels.max() > 255:
        raise InputError("format idx holds at most 256 classes; give format npz8")
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, str] = {}
    for part, name in (("train", "train"), ("test", "t10k")):
        first = next(_parts(pieces, split, part))
        if first.ndim not in (3, 4):
            raise InputError("format idx is for images; give format npz")
        shape = (int((split == part).sum()), *first.shape[1:])
        images = folder / f"{name}-images-idx{len(shape)}-ubyte"
        with images.open("wb") as stream:
            stream.write(struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape))
            for piece in _parts(pieces, split, part):
                stream.write(np.ascontiguousarray(piece).tobytes())
        numbers = folder / f"{name}-labels-idx1-ubyte"
        content = labels[split == part].astype(np.uint8).tobytes()
        numbers.write_bytes(struct.pack(">HBBI", 0, 8, 1, shape[0]) + content)
        files |= {f"{folder.name}/{path.name}": file_hash(path) for path in (images, numbers)}
    return files


def _write_png(
    folder: Path,
    pieces: Callable[[], Iterator[NDArray[Any]]],
    labels: NDArray[np.int64],
    split: NDArray[np.str_],
    class_names: tuple[str, ...],
) -> dict[str, str]:
    folders = _class_folders(class_names)
    for part in ("train", "test"):
        for name in folders:
            (folder / part / name).mkdir(parents=True, exist_ok=True)
    listed = hashlib.sha256()
    row = 0
    for piece in pieces():
        for image in piece:
            path = folder / _png_name(row, split, labels, folders)
            squeezed = image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image
            Image.fromarray(squeezed).save(path)
            listed.update(f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
            row += 1
    return {"images (list of files and hashes)": listed.hexdigest()}


def _png_name(row: int, split: NDArray[np.str_], labels: NDArray[np.int64], folders: list[str]) -> str:
    return f"{split[row]}/{folders[labels[row]]}/s{row:08d}.png"


def _class_folders(class_names: tuple[str, ...]) -> list[str]:
    """A folder's name for each class; numbered, so that folders in order of name are classes in order."""
    width = len(str(len(class_names) - 1))
    return [
        f"{number:0{width}d}-{re.sub(r'[^A-Za-z0-9]+', '-', name).strip('-') or 'class'}"
        for number, name in enumerate(class_names)
    ]


def file_hash(path: Path) -> str:
    """Sha256 of a file, a piece at a time."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()
