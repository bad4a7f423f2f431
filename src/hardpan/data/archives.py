"""Members of tar archives, read where they lie: nothing is written to disk, so no member's path leads anywhere."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np
from numpy.typing import NDArray

from hardpan.data.idx import GROWTH_OF_GZIP
from hardpan.data.memory import check_memory
from hardpan.errors import InputError

ENDINGS = (".tar.gz", ".tgz", ".tar")
MOST_MEMBERS = 1000
_PIECE = 1 << 20
# tarfile reads a member's own header in one piece, and trusts the length that it claims.
_LARGEST_READ = 1 << 24
_LARGEST_TAIL = 1 << 24


def is_archive(path: Path) -> bool:
    """Say whether the name is that of a tar archive, plain or gzipped."""
    return path.name.lower().endswith(ENDINGS)


@dataclass(frozen=True, slots=True)
class Members:
    """The top folders and base names of the regular files in an archive, and the content of those asked for."""

    folders: frozenset[str]
    names: frozenset[str]
    content: dict[str, NDArray[np.uint8]]


def read_members(path: Path, wanted: Collection[str]) -> Members:
    """Read the members with the wanted base names, each there once; those that are not there are left out.

    What a header claims is compared with what the archive can hold and with free memory before it is taken.
    """
    folders: set[str] = set()
    names: set[str] = set()
    content: dict[str, NDArray[np.uint8]] = {}
    with _opened(path) as archive:
        for member in _members(path, archive):
            *above, name = PurePosixPath(member.name).parts
            folders.update(above[:1])
            names.add(name)
            if name not in wanted:
                continue
            if name in content:
                raise InputError(f"{path}: holds {name} twice; give an archive with one of each file")
            check_memory(path, member.size + sum(map(len, content.values())))
            content[name] = _member_content(path, archive, member)
    return Members(frozenset(folders), frozenset(names), content)


class _Measured(io.BufferedIOBase):
    """A stream that refuses to be read in absurdly large pieces, and remembers the last one."""

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        self._path, self._stream = path, stream
        self.last = b""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0 or size > _LARGEST_READ:
            raise InputError(f"{self._path}: a header in the archive claims {size:,} bytes; fetch it again")
        self.last = self._stream.read(size)
        return self.last

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    """Open an archive; on leaving, read to its end, so that gzip's checksum has been compared."""
    try:
        with path.open("rb") as raw:
            gzipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            stream: IO[bytes] = gzip.GzipFile(fileobj=raw) if gzipped else raw  # type: ignore[assignment]
            measured = _Measured(path, stream)
            with tarfile.open(fileobj=measured, mode="r:") as archive:
                yield archive
            # tarfile takes a cut or a damaged header for the end; the true end is a block of zeros.
            if measured.last != bytes(tarfile.BLOCKSIZE):
                raise InputError(f"{path}: ends in the middle of the archive, or is damaged there; fetch it again")
            _drain(path, stream)
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(f"{path}: is no readable tar archive ({reason}); fetch it again") from error


def _drain(path: Path, stream: IO[bytes]) -> None:
    left = 0
    while piece := stream.read(_PIECE):
        left += len(piece)
        if left > _LARGEST_TAIL:
            raise InputError(f"{path}: goes on after the end of the archive; fetch it again")


def _members(path: Path, archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    most = GROWTH_OF_GZIP * path.stat().st_size
    for count, member in enumerate(archive):
        if count >= MOST_MEMBERS:
            raise InputError(
                f"{path}: holds more than {MOST_MEMBERS} members; give the archive as it was published"
            )
        if member.size < 0 or member.size > most:
            raise InputError(
                f"{path}: {member.name!r} claims {member.size:,} bytes, but the archive can hold {most:,} at most; "
                "fetch it again"
            )
        # A sparse member claims bytes that are not there; links and devices hold none.
        if member.isreg() and not member.issparse() and PurePosixPath(member.name).name:
            yield member


def _member_content(path: Path, archive: tarfile.TarFile, member: tarfile.TarInfo) -> NDArray[np.uint8]:
    stream = archive.extractfile(member)
    content = np.empty(member.size, dtype=np.uint8)
    view, got = content.data, 0
    while stream is not None and got < len(view):
        piece = stream.read(min(_PIECE, len(view) - got))
        if not piece:
            break
        view[got : got + len(piece)] = piece
        got += len(piece)
    if got < member.size:
        raise InputError(f"{path}: {member.name!r} claims {member.size:,} bytes, but holds {got:,}; fetch it again")
    return content
