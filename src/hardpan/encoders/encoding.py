"""An encoder from its name, the vectors of examples, and their cache.

An encoder is a function from a batch of images (n, H, W[, C]) or texts to vectors (n, d). It is named on the
command line or in Python, never by a file: naming it runs its code. In the cache each encoder has a folder of its
own; each file in it holds digests of examples and vectors, is written in one step and never changed. Several
processes may write at once, and what was written before an interruption is there afterwards.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.arguments import whole_number
from hardpan.encoders import DESCRIPTORS
from hardpan.errors import InputError, reason
from hardpan.execution import Progress
from hardpan.execution.mapping import no_progress
from hardpan.files import file_hash, replacing
from hardpan.lazy import imported, is_import_name

BATCH = 64
SAVED_EVERY = 15.0  # seconds of encoding that an interruption loses at most, and the batch that runs
DIGEST = 16  # bytes of sha256 that name an example
SIDE, CELLS, ANGLES = 64, 8, 9
LARGEST, FLAT = 0.25, 0.05  # of a normalised block: values are cut; blocks that are shorter stay near 0
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")

Examples = NDArray[Any] | Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class Encoder:
    """A function from a batch of examples to vectors.

    Attributes:
        name: as people name it.
        function: from images (n, H, W[, C]) or a list of n texts to an array (n, d).
        identity: a text that changes whenever the vectors may; vectors are only kept for later where it is known.
        batch: examples at a time.
        options: what opens it again, by the names of the options of a command.
    """

    name: str
    function: Callable[[Any], Any]
    identity: str = ""
    batch: int = BATCH
    options: Mapping[str, Any] = field(default_factory=dict)


def open_encoder(
    encoder: str | os.PathLike[str] | Callable[[Any], Any] | Encoder,
    *,
    download: bool = False,
    device: str = "auto",
    half: bool = False,
    batch: int = BATCH,
) -> Encoder:
    """An encoder by its name; its weights are read when the first example is encoded.

    Args:
        encoder: ``module:function``; "descriptors" (:func:`describe_images`); the folder of
            a model of transformers or sentence-transformers, or its name on huggingface.co; an ONNX file; or a
            function. A function's vectors are kept for later if it is named as ``module:function`` (known by the
            source of its module) or has an attribute ``identity`` (a text that you change whenever its weights do).
        download: fetch a model that is not on this machine.
        device: "auto", "cpu", "cuda" or "cuda:N", for models of transformers and sentence-transformers.
        half: compute in half precision (float16), for the same models.
        batch: examples at a time.

    Example:
        >>> encoder = open_encoder(lambda images: images.reshape(len(images), -1).mean(axis=1, keepdims=True))
        >>> encode(np.arange(8.0).reshape(2, 2, 2), encoder).tolist()
        [[1.5], [5.5]]
    """
    batch = whole_number("encoder_batch", batch, 1)
    if isinstance(encoder, Encoder):
        return encoder
    if callable(encoder):
        name = str(getattr(encoder, "__qualname__", type(encoder).__name__))
        return Encoder(name, encoder, str(getattr(encoder, "identity", "")), batch)
    if not isinstance(encoder, (str, os.PathLike)) or not os.fspath(encoder):
        raise InputError(f"must be a name, a path or a function; got {encoder!r}", argument="encoder")
    name = os.fspath(encoder)
    given = {"download": download, "encoder_device": device, "encoder_half": half, "encoder_batch": batch}
    usual = {"download": False, "encoder_device": "auto", "encoder_half": False, "encoder_batch": BATCH}
    options = {"encoder": name} | {key: value for key, value in given.items() if value != usual[key]}
    return replace(_named_encoder(name, download, device, half, batch), options=options)


def _named_encoder(name: str, download: bool, device: str, half: bool, batch: int) -> Encoder:
    if name == DESCRIPTORS:
        return Encoder(name, describe_images, "descriptors 1", batch)
    if is_import_name(name):
        return _imported_encoder(name, batch)
    path = Path(name).expanduser()
    if path.suffix.lower() == ".onnx" and path.is_file():
        from hardpan.encoders import pretrained

        return Encoder(path.name, pretrained.OnnxModel(path), f"onnx {file_hash(path)}", batch)
    if path.is_dir() or (not path.exists() and _HUB_NAME.fullmatch(name)):
        from hardpan.encoders import pretrained

        folder = path if path.is_dir() else pretrained.model_folder(name, download)
        model = pretrained.PretrainedModel(folder, device, half)
        return Encoder(path.name if path.is_dir() else name, model, model.identity, batch)
    raise InputError(
        f"{name!r} is neither module:function, a folder with a model, a name on huggingface.co, nor an ONNX file",
        argument="encoder",
    )


def _imported_encoder(name: str, batch: int) -> Encoder:
    """What ``module:function`` names; known by the source of the module and by ``function.identity``."""
    import sys

    function = imported("encoder", name)
    if not callable(function):
        raise InputError(
            f"{name} must be a function of a batch; it is a {type(function).__name__}", argument="encoder"
        )
    source = getattr(sys.modules[name.partition(":")[0]], "__file__", None)
    known = file_hash(Path(source)) if source else ""
    return Encoder(name, function, f"{name} {known} {getattr(function, 'identity', '')}", batch)


def encode(
    examples: Examples,
    encoder: str | os.PathLike[str] | Callable[[Any], Any] | Encoder,
    *,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """The vectors (N, d) of images or texts; equal examples are encoded once.

    Args:
        examples: images (N, H, W) or (N, H, W, C), or N texts.
        encoder: what :func:`open_encoder` takes.
        cache: a folder that keeps vectors by the content of the example and the identity of the encoder: what it
            has is not encoded again, and an interrupted run resumes. None keeps nothing.
        progress: called with the current step and the fraction of the work that is done.

    Example:
        >>> encode(["to", "be", "to"], lambda texts: [[len(text), text.count("e")] for text in texts]).tolist()
        [[2.0, 0.0], [2.0, 1.0], [2.0, 0.0]]
    """
    encoder, tell = open_encoder(encoder), progress or no_progress
    digests = example_digests(examples)
    if not digests:
        raise InputError("must not be empty", argument="examples")
    folder = vectors_folder(cache, encoder.identity) if cache is not None and encoder.identity else None
    vectors = {} if folder is None else read_vectors(folder, digests)
    rows = {name: row for row, name in reversed(list(enumerate(digests))) if name not in vectors}
    missing = sorted(rows.items(), key=lambda item: item[1])
    if not isinstance(examples, np.ndarray) or examples.ndim == 1:  # texts of one length waste no padding
        missing.sort(key=lambda item: -len(examples[item[1]]))
    waiting: list[bytes] = []
    saved = time.monotonic()
    try:
        for start in range(0, len(missing), encoder.batch):
            tell(f"encoding with {encoder.name}: {start:,} of {len(missing):,}", start / len(missing))
            names, at = map(list, zip(*missing[start : start + encoder.batch], strict=True))
            batch = (
                examples[at]
                if isinstance(examples, np.ndarray) and examples.ndim > 1
                else [str(examples[i]) for i in at]
            )
            vectors.update(zip(names, _checked_vectors(encoder, batch, vectors), strict=True))
            waiting += names
            if folder is not None and time.monotonic() > saved + SAVED_EVERY:
                write_vectors(folder, waiting, np.stack([vectors[name] for name in waiting]))
                waiting, saved = [], time.monotonic()
    finally:
        if folder is not None and waiting:
            write_vectors(folder, waiting, np.stack([vectors[name] for name in waiting]))
    return np.stack([vectors[name] for name in digests])


def _checked_vectors(encoder: Encoder, batch: Any, found: dict[bytes, NDArray[np.float32]]) -> NDArray[np.float32]:
    """The vectors of a batch; anything but one vector of finite numbers per example is refused."""
    what = f"{encoder.name}: {len(batch)} {'texts' if isinstance(batch, list) else f'images of {batch.shape[1:]}'}"
    try:
        vectors: Any = encoder.function(batch)
        if hasattr(vectors, "detach"):
            vectors = vectors.detach().cpu().float().numpy()
        vectors = np.asarray(vectors, dtype=np.float32)  # text and ragged lists cannot become numbers
    except InputError:
        raise
    except Exception as error:  # whatever a user's function raises
        raise InputError(
            f": {what} cannot be encoded ({type(error).__name__}: {reason(error)})", argument="encoder"
        ) from error
    width = len(next(iter(found.values()))) if found else vectors.shape[-1:]
    if vectors.ndim != 2 or len(vectors) != len(batch) or not vectors.size or (found and vectors.shape[1] != width):
        expected = f"({len(batch)}, {width})" if found else f"({len(batch)}, d)"
        raise InputError(f": {what} must give vectors of shape {expected}; got {vectors.shape}", argument="encoder")
    if not np.isfinite(vectors).all():
        raise InputError(f": {what} gave vectors with NaN or infinite numbers", argument="encoder")
    return np.asarray(vectors, dtype=np.float32)


def example_digests(examples: NDArray[Any] | Sequence[str]) -> list[bytes]:
    """What names the content of each image (its type, shape and pixels) or text.

    Example:
        >>> first, second, third = example_digests(["a", "b", "a"])
        >>> first == third, first == second
        (True, False)
    """
    contents: Iterable[bytes]
    if isinstance(examples, np.ndarray) and examples.ndim > 1:
        start = hashlib.sha256(f"{examples.dtype.str}{examples.shape[1:]}".encode())
        contents = (np.ascontiguousarray(image).tobytes() for image in examples)
    else:
        start, contents = hashlib.sha256(b"text"), (str(text).encode("utf-8", "surrogatepass") for text in examples)
    digests = []
    for content in contents:
        digest = start.copy()
        digest.update(content)
        digests.append(digest.digest()[:DIGEST])
    return digests


def read_vectors(folder: Path, digests: Iterable[bytes]) -> dict[bytes, NDArray[np.float32]]:
    """The vectors that a folder has, by digest; a damaged file counts as missing."""
    names_to_find, by_digest = set(digests), dict[bytes, NDArray[np.float32]]()
    for path in sorted(folder.glob("*.npz")):
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
                names = [row.tobytes() for row in arrays["digests"]]
                at = [row for row, name in enumerate(names) if name in names_to_find]
                if at:
                    vectors = arrays["vectors"]
                    by_digest.update((names[row], vectors[row]) for row in at)
        except (OSError, ValueError, KeyError, IndexError, EOFError, zipfile.BadZipFile):
            continue
    return by_digest


def write_vectors(folder: Path, digests: Sequence[bytes], vectors: NDArray[np.float32]) -> None:
    """Add vectors to a folder, in a new file."""
    names = np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, DIGEST)
    with replacing(folder / f"{secrets.token_hex(8)}.npz") as partial, partial.open("xb") as stream:
        np.savez(stream, digests=names, vectors=vectors)


def vectors_folder(cache: Path, identity: str) -> Path:
    """The folder of an encoder, created where it is missing."""
    folder = cache / "vectors" / hashlib.sha256(identity.encode()).hexdigest()[:32]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written ({error.strerror}); set HARDPAN_CACHE to a folder for vectors"
        ) from error
    return folder


def describe_images(images: NDArray[Any]) -> NDArray[np.float32]:
    """Descriptors (n, 2148) of images (n, H, W) or (n, H, W, C) without training: gradients and colours of blocks.

    Cells of 8 × 8 pixels of an image of 64 × 64, blocks of 2 × 2 cells, with the mean and deviation of each colour
    in each cell beside them.

    Source: Dalal and Triggs, "Histograms of oriented gradients for human detection" (2005).

    Example:
        >>> bars = np.zeros((2, 80, 80), np.uint8)
        >>> bars[0, :, 40:], bars[1, 40:] = 255, 255
        >>> described = describe_images(bars)
        >>> described.shape, bool(np.abs(described[0] - described[1]).max() > 0.2)
        ((2, 2148), True)
    """
    from PIL import Image

    from hardpan.encoders.pretrained import colour_images

    resized = [
        np.asarray(Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.BOX))
        for image in colour_images(images)
    ]
    pixels = np.stack(resized).astype(np.float32) / 255
    down, along = np.gradient(pixels.mean(axis=3), axis=(1, 2))
    strength, angle = np.hypot(down, along), np.arctan2(down, along) % np.pi / np.pi * ANGLES
    each = SIDE // CELLS

    def by_cell(values: NDArray[Any]) -> NDArray[Any]:
        return values.reshape(len(values), CELLS, each, CELLS, each, *values.shape[3:])

    # Each pixel counts for the two angles beside its own, in proportion to how near they are.
    away = np.abs(angle[..., None] - np.arange(ANGLES, dtype=np.float32))
    near = np.maximum(0, 1 - np.minimum(away, ANGLES - away))
    cells = by_cell(strength[..., None] * near).sum(axis=(2, 4))
    blocks = np.concatenate([cells[:, a : a + 7, b : b + 7] for a in (0, 1) for b in (0, 1)], axis=3)
    blocks = np.minimum(blocks / (np.linalg.norm(blocks, axis=3, keepdims=True) + FLAT), LARGEST)
    colours = by_cell(pixels)
    parts = (blocks, colours.mean(axis=(2, 4)), colours.std(axis=(2, 4)))
    return np.concatenate([block.reshape(len(images), -1) for block in parts], axis=1).astype(np.float32)
