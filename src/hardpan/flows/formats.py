"""Files of synthetic examples: npz (float32 or 8 bits), IDX, folders of PNG images; and what 8 bits cost."""

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

from hardpan import stats
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.flows.flow import Flow

DRAWS = 4


def to_levels(x: NDArray[np.floating], levels: int) -> NDArray[np.uint8]:
    """Images in level units as bytes: level k stands for [k, k + 1); images of one level (0..1) get 256.

    Example:
        >>> to_levels(np.array([-0.2, 0.0, 3.999, 300.0]), 256).tolist(), to_levels(np.array([0.5]), 1).tolist()
        ([0, 0, 3, 255], [128])
    """
    scale, top = (256, 255) if levels == 1 else (1, levels - 1)
    if levels > 256:
        raise InputError(f"images of {levels} levels do not fit into 8 bits; use format npz")
    return np.asarray(np.clip(np.floor(x * scale), 0, top), dtype=np.uint8)


def rounding_cost(
    flow: Flow,
    x: NDArray[np.float32],
    posterior: NDArray[np.float64],
    *,
    temperature: float,
    seed: int = 0,
    draws: int = DRAWS,
) -> Estimate:
    """How much higher the floor of the rounded files is, at most.

    A classifier of the rounded image x₈ averages the joint density over the cell that was rounded away:
    d(x₈) = argmax_y mean_u π_y p_y(x₈ + u), u uniform. Its error exceeds the exact one by
    mean(max_y p(y | x) − p(d(x₈) | x)) over draws of x. No classifier of x₈ can be better than the best, so the
    floor of the files lies between the exact Bayes error and it plus this number.

    Args:
        flow: where the examples came from.
        x: (N, ...) examples in level units, not rounded.
        posterior: (N, K) their true posteriors.
        temperature: what they were drawn at.
        seed: of the noise.
        draws: points in each cell.

    Returns:
        The excess, with its standard error over the N examples.
    """
    levels = flow.grey_levels or 1
    rounded = to_levels(x, levels).astype(np.float32)
    scale = 256 if levels == 1 else 1
    joint = np.full((len(x), flow.n_classes), -np.inf)
    for number in range(draws):
        noise = np.random.default_rng([seed, number]).random(x.shape, dtype=np.float32)
        result = flow.log_joint(((rounded + noise) / scale).astype(np.float32), temperature=temperature)
        joint = np.logaddexp(joint, result)
    chosen = joint.argmax(axis=1)
    excess = posterior.max(axis=1) - posterior[np.arange(len(x)), chosen]
    return stats.mean(
        excess,
        least=0.0,
        method=f"excess error of the flow's classifier on rounded images, {draws} points per cell",
        seed=seed,
        notes=("an upper bound: another classifier of the rounded images may do better",),
    )


Pieces = Callable[[], Iterator[NDArray[np.float32]]]


def check(format: str, levels: int | None) -> None:
    """Refuse 8-bit files for what is no image."""
    if format != "npz" and levels is None:
        raise InputError(f"format {format} is for images, and this flow draws feature vectors; use format npz")


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
    folder: Path, pieces: Callable[[], Iterator[NDArray[Any]]], labels: NDArray[np.int64], split: NDArray[np.str_]
) -> dict[str, str]:
    if labels.max() > 255:
        raise InputError("format idx has at most 256 classes; use format npz8")
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, str] = {}
    for part, name in (("train", "train"), ("test", "t10k")):
        first = next(_parts(pieces, split, part))
        if first.ndim not in (3, 4):
            raise InputError("format idx is for images; use format npz")
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
