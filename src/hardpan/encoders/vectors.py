"""Vectors of examples that an encoder has seen before, by the content of the example.

Each encoder has a folder of its own; each file in it holds digests and vectors, is written in one step and never
changed. Several processes may write at once, and what was written before an interruption is there afterwards.
"""

from __future__ import annotations

import hashlib
import secrets
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError
from hardpan.files import replacing

DIGEST = 16  # bytes of sha256 that name an example


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
    wanted, found = set(digests), dict[bytes, NDArray[np.float32]]()
    for path in sorted(folder.glob("*.npz")):
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
                names = [row.tobytes() for row in arrays["digests"]]
                at = [row for row, name in enumerate(names) if name in wanted]
                if at:
                    vectors = arrays["vectors"]
                    found.update((names[row], vectors[row]) for row in at)
        except (OSError, ValueError, KeyError, IndexError, EOFError, zipfile.BadZipFile):
            continue
    return found


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
