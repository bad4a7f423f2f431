"""Files that are there whole or not at all."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write a file in one step: a reader sees the old text or the new, never half of it."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file in one step, as :func:`write_text`."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def file_hash(path: Path) -> str:
    """Sha256 of what a file holds, in hexadecimal, read in pieces: a file may be larger than the memory.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_text(Path(folder) / "a", "a")
        ...     file_hash(Path(folder) / "a")[:8]
        'ca978112'
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
