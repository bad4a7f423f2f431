"""What one example of a project is, a picture or a text: how it is read, named, stored, sent and compared by class.

``ProjectFolder.kind`` is one of the two; the rest of the package does not ask which.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardpan import files
from hardpan.arguments import clean_text
from hardpan.data.images import decoded_image, looks_like_image, resized_picture
from hardpan.errors import InputError

Example = NDArray[np.uint8] | str
SMALL, LARGEST = 96, 640  # pixels; up to SMALL an image is sent without compression
PADDING = 16 * 1024
WORD_BUCKETS = 2**14  # of hashed words, whose means are compared between classes


@dataclass(frozen=True)
class Pictures:
    """Images (H, W) or (H, W, 3) of bytes; annotators and the set get them in the shape of the originals."""

    shape: tuple[int, ...]
    noun: ClassVar = "image"
    ending: ClassVar = "png"
    originals: ClassVar = "x.npy"

    def decoded(self, data: bytes | Path, name: str) -> Example:
        """The example in a file or its bytes."""
        return decoded_image(str(data) if isinstance(data, Path) else data, name, colour=len(self.shape) == 3)

    def digest(self, example: Any) -> str:
        """Sha256 of the content; its first 16 digits are the id of a candidate."""
        return files.array_hash(np.ascontiguousarray(example))

    def write(self, path: Path, example: Any) -> None:
        """Write a candidate."""
        from PIL import Image

        Image.fromarray(example).save(path, format="PNG")

    def read(self, path: Path) -> Example:
        """Read a candidate."""
        from PIL import Image

        with Image.open(path, formats=("PNG",)) as image:
            return np.asarray(image)

    def write_originals(self, path: Path, examples: NDArray[Any]) -> None:
        """Write all originals."""
        np.save(path, examples)

    def read_originals(self, path: Path) -> NDArray[Any]:
        """All originals, mapped from disk."""
        originals: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        return originals

    def stacked(self, examples: Iterable[Any]) -> NDArray[Any]:
        """Examples as they are in the set, in one array."""
        return np.stack([resized_picture(example, self.shape) for example in examples])

    def sent(self, example: Any, *, blinded: bool) -> bytes:
        """What a browser gets: PNG without metadata, large images as WebP of at most ``LARGEST`` pixels.

        A ``blinded`` image has the originals' shape; as PNG it is not compressed, so that its length depends on the
        size alone, and as WebP it is padded to a multiple of 16 KiB.
        """
        from PIL import Image

        image = Image.fromarray(resized_picture(example, self.shape) if blinded else example)
        stream = io.BytesIO()
        if max(image.size) <= (SMALL if blinded else 160):
            image.save(stream, format="PNG", compress_level=0 if blinded else 1)
            return stream.getvalue()
        image = image.convert("RGB")
        image.thumbnail((LARGEST, LARGEST), Image.Resampling.LANCZOS)
        image.save(stream, "WEBP", quality=88, method=2)
        content = stream.getvalue()
        return content + bytes(-len(content) % (PADDING if blinded else 1))  # readers of WebP stop at its length

    def is_sent(self, content: bytes) -> bool:
        """Whether a file holds what is sent, and not what a stopped machine left."""
        return looks_like_image(content)

    def vectors(self, examples: NDArray[Any]) -> Any:
        """(N, d) numbers whose means are compared between classes: pixels."""
        return examples.reshape(len(examples), -1)


@dataclass(frozen=True)
class Texts:
    """Texts without control characters, and without white space around them."""

    noun: ClassVar = "text"
    ending: ClassVar = "txt"
    originals: ClassVar = "x.json"

    def decoded(self, data: bytes | Path, name: str) -> Example:
        """The example in a file or its bytes, in UTF-8."""
        content = data.read_bytes() if isinstance(data, Path) else data
        try:
            text = clean_text(content.decode("utf-8-sig"), lines=True).strip()
        except UnicodeDecodeError as error:
            raise InputError(f"{name}: is not UTF-8; save it as UTF-8") from error
        if not text:
            raise InputError(f"{name}: is empty")
        return text

    def digest(self, example: Any) -> str:
        """Sha256 of the content; its first 16 digits are the id of a candidate."""
        return hashlib.sha256(example.encode()).hexdigest()

    def write(self, path: Path, example: Any) -> None:
        """Write a candidate."""
        path.write_bytes(example.encode())

    def read(self, path: Path) -> Example:
        """Read a candidate."""
        return path.read_bytes().decode()

    def write_originals(self, path: Path, examples: NDArray[Any]) -> None:
        """Write all originals."""
        files.write_text(path, json.dumps(examples.tolist(), ensure_ascii=False))

    def read_originals(self, path: Path) -> NDArray[Any]:
        """All originals."""
        return self.stacked(json.loads(path.read_text(encoding="utf-8")))

    def stacked(self, examples: Iterable[Any]) -> NDArray[Any]:
        """Examples as they are in the set, in one array."""
        return np.array(list(examples), dtype=object)

    def sent(self, example: Any, *, blinded: bool) -> bytes:
        """What a browser gets, in UTF-8."""
        content: bytes = example.encode()
        return content

    def is_sent(self, content: bytes) -> bool:
        """Whether a file holds what is sent, and not what a stopped machine left."""
        return bool(content) and b"\0" not in content

    def vectors(self, examples: NDArray[Any]) -> Any:
        """(N, d) numbers whose means are compared between classes: hashed words, of length 1."""
        from scipy.sparse import csr_array
        from sklearn.feature_extraction.text import HashingVectorizer

        from hardpan.neighbors.text_copies import WORD

        hashed = HashingVectorizer(n_features=WORD_BUCKETS, alternate_sign=False, token_pattern=WORD)
        return csr_array(hashed.transform(examples.tolist()))
