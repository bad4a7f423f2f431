"""Files of synthetic examples: npz (float32 or 8 bits), IDX, folders of PNG images; and what 8 bits cost."""

from __future__ import annotations

import hashlib
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
from hardpan.files import file_hash, replacing
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

    Returns:
        The excess, with its standard error over the N examples.
    """
    levels = flow.grey_levels or 1
    rounded = to_levels(x, levels).astype(np.float32)
    scale = 256 if levels == 1 else 1
    joint = np.full((len(x), flow.n_classes), -np.inf)
    for number in range(DRAWS):
        noise = np.random.default_rng([seed, number]).random(x.shape, dtype=np.float32)
        result = flow.log_joint(((rounded + noise) / scale).astype(np.float32), temperature=temperature)
        joint = np.logaddexp(joint, result)
    excess = posterior.max(axis=1) - posterior[np.arange(len(x)), joint.argmax(axis=1)]
    return stats.mean(
        excess,
        least=0.0,
        method=f"excess error of the flow's classifier on rounded images, {DRAWS} points per cell",
        seed=seed,
        notes=("an upper bound: another classifier of the rounded images may do better",),
    )


Blocks = Callable[[], Iterator[NDArray[Any]]]


def check(format: str, levels: int | None) -> None:
    """Refuse 8-bit files for what is no image."""
    if format != "npz" and levels is None:
        raise InputError(f"format {format} is for images, and this flow draws feature vectors; use format npz")


def write(
    format: str,
    folder: Path,
    blocks: Blocks,
    labels: NDArray[np.int64],
    split: NDArray[np.str_],
    class_names: tuple[str, ...],
    levels: int | None,
) -> tuple[str, dict[str, str], NDArray[np.str_]]:
    """Write examples, train rows first, without holding all of them.

    Returns:
        What to load (relative to the folder), sha256 by file, and the ids of the examples as they are read.
    """
    stored = blocks if format == "npz" else lambda: (to_levels(block, levels or 256) for block in blocks())
    if format in ("npz", "npz8"):
        name, hashes = "data.npz", _write_npz(folder / "data.npz", stored, labels, split, class_names)
    elif format == "idx":
        name, hashes = "idx", _write_idx(folder / "idx", stored, labels, split)
    else:
        folders = _class_folders(class_names)
        paths = [f"{split[row]}/{folders[label]}/s{row:08d}.png" for row, label in enumerate(labels.tolist())]
        name, hashes = "images", _write_png(folder / "images", stored, paths, folders)
    read = Dataset.open(folder / name)
    if format == "png":
        # A folder is read class by class; these ids are in the order of the draw.
        row_of = {str(path): row for row, path in enumerate(read.metadata["path"])}
        return name, hashes, read.ids[[row_of[path] for path in paths]]
    return name, hashes, read.ids


def _of_split(blocks: Blocks, split: NDArray[np.str_], name: str) -> Iterator[NDArray[Any]]:
    """The rows of one split, a block at a time."""
    start = 0
    for block in blocks():
        rows = split[start : start + len(block)] == name
        start += len(block)
        if rows.any():
            yield block[rows]


def _write_npz(
    path: Path, blocks: Blocks, labels: NDArray[np.int64], split: NDArray[np.str_], class_names: tuple[str, ...]
) -> dict[str, str]:
    with replacing(path) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name in ("train", "test"):
            first = next(_of_split(blocks, split, name))
            shape = (int((split == name).sum()), *first.shape[1:])
            with _member(archive, f"x_{name}") as stream:
                header = {"descr": first.dtype.str, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_2_0(stream, header)
                for block in _of_split(blocks, split, name):
                    stream.write(np.ascontiguousarray(block).tobytes())
            _write_array(archive, f"y_{name}", labels[split == name])
        _write_array(archive, "class_names", np.array(class_names))
        _write_array(archive, "ids", np.array([f"s{row:08d}" for row in range(len(labels))]))
    return {path.name: file_hash(path)}


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    # A fixed date: the same draw gives the same bytes.
    return archive.open(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), "w", force_zip64=True)


def _write_array(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    with _member(archive, name) as stream:
        np.lib.format.write_array(stream, array, allow_pickle=False)


def _write_idx(folder: Path, blocks: Blocks, labels: NDArray[np.int64], split: NDArray[np.str_]) -> dict[str, str]:
    if labels.max() > 255:
        raise InputError("format idx has at most 256 classes; use format npz8")
    folder.mkdir(parents=True, exist_ok=True)
    hashes: dict[str, str] = {}
    for name, prefix in (("train", "train"), ("test", "t10k")):
        first = next(_of_split(blocks, split, name))
        shape = (int((split == name).sum()), *first.shape[1:])
        images = folder / f"{prefix}-images-idx{len(shape)}-ubyte"
        with images.open("wb") as stream:
            stream.write(struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape))
            for block in _of_split(blocks, split, name):
                stream.write(np.ascontiguousarray(block).tobytes())
        numbers = folder / f"{prefix}-labels-idx1-ubyte"
        content = labels[split == name].astype(np.uint8).tobytes()
        numbers.write_bytes(struct.pack(">HBBI", 0, 8, 1, shape[0]) + content)
        hashes |= {f"{folder.name}/{path.name}": file_hash(path) for path in (images, numbers)}
    return hashes


def _write_png(folder: Path, blocks: Blocks, paths: list[str], classes: list[str]) -> dict[str, str]:
    for name in ("train", "test"):
        for class_folder in classes:
            (folder / name / class_folder).mkdir(parents=True, exist_ok=True)
    listed = hashlib.sha256()
    images = (image for block in blocks() for image in block)
    for name, image in zip(paths, images, strict=True):
        path = folder / name
        Image.fromarray(image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image).save(path)
        listed.update(f"{name} {file_hash(path)}\n".encode())
    return {"images (list of files and hashes)": listed.hexdigest()}


def _class_folders(class_names: tuple[str, ...]) -> list[str]:
    """A folder's name for each class; numbered, so that folders in order of name are classes in order."""
    width = len(str(len(class_names) - 1))
    return [
        f"{number:0{width}d}-{re.sub(r'[^A-Za-z0-9]+', '-', name).strip('-') or 'class'}"
        for number, name in enumerate(class_names)
    ]
