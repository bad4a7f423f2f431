"""An encoder from its name, and the vectors of examples.

An encoder is a function from a batch of images (n, H, W[, C]) or texts to vectors (n, d). It is named on the
command line or in Python, never by a file: naming it runs its code.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.arguments import whole_number
from hardpan.encoders.vectors import example_digests, read_vectors, vectors_folder, write_vectors
from hardpan.errors import InputError, reason
from hardpan.execution import Progress
from hardpan.execution.mapping import no_progress
from hardpan.files import file_hash
from hardpan.lazy import imported, is_import_name

BATCH = 64
DESCRIPTORS = "descriptors"  # the name of what hardpan.encoders.descriptors gives
SAVED_EVERY = 15.0  # seconds of encoding that an interruption loses at most, and the batch that runs
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
    """

    name: str
    function: Callable[[Any], Any]
    identity: str = ""
    batch: int = BATCH


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
        encoder: ``module:function``; "descriptors" (:mod:`hardpan.encoders.descriptors`, of images); the folder of
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
    if name == DESCRIPTORS:
        from hardpan.encoders.descriptors import describe_images

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
    found = {} if folder is None else read_vectors(folder, digests)
    rows = {name: row for row, name in reversed(list(enumerate(digests))) if name not in found}
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
            found.update(zip(names, _checked_vectors(encoder, batch, found), strict=True))
            waiting += names
            if folder is not None and time.monotonic() > saved + SAVED_EVERY:
                write_vectors(folder, waiting, np.stack([found[name] for name in waiting]))
                waiting, saved = [], time.monotonic()
    finally:
        if folder is not None and waiting:
            write_vectors(folder, waiting, np.stack([found[name] for name in waiting]))
    return np.stack([found[name] for name in digests])


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
