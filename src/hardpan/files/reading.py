"""Checked readers of files from untrusted sources: text, JSON, npy, npz, tar and zip.

What a header claims is compared with the size of the file and with free memory before anything is allocated.
Nothing is unpickled, nothing is unpacked to disk, links inside archives are not followed. Whatever is wrong with a
file becomes one :class:`~hardpan.errors.InputError` that names the file and says what to do.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import sys
import tarfile
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hardpan.arguments import as_path
from hardpan.errors import InputError, few, reason

# What NumPy, zipfile, tarfile, zlib and json raise, between them, for files that were cut or altered.
DAMAGED = (
    *(OSError, EOFError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, MemoryError),
    *(RuntimeError, SyntaxError, tokenize.TokenError, zipfile.BadZipFile, tarfile.TarError, zlib.error),
    lzma.LZMAError,
)
# No deflate stream grows by more; a header that claims more is false whatever the stream has.
GZIP_GROWTH = 1032
# Prompts that repeat ten times per line grow by 90; what grows by more than this is no text of any use.
TEXT_GROWTH, SMALL_TEXT = 300, 8 << 20
MOST_MEMBERS = 10_000
LARGEST_JSON = 1 << 30  # of a member of an archive
LONGEST_LINE = 64 << 20
_CONTROLS = [bytes([code]) for code in range(32) if code not in b"\t\n\r\x0b\x0c\x1b"]  # never in text
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_MOST_TAR_MEMBERS = 1000
_BLOCK = 1 << 20
# tarfile reads a member's own header in one piece, and trusts the length that it claims.
_LARGEST_READ = 1 << 24
_LARGEST_TAIL = 1 << 24
_JSON_GROWTH = 8  # Python objects of a JSON file take several times its bytes


@contextmanager
def refusing_damaged(path: Any, problem: str = "cannot be read", remedy: str = "write it again") -> Iterator[None]:
    """Make one sentence of whatever is raised for a damaged file."""
    try:
        yield
    except InputError:
        raise
    except DAMAGED as error:
        raise InputError(f"{path}: {problem} ({reason(error)}); {remedy}") from error


def existing_file(path: Any, what: str = "path") -> Path:
    """The path of a regular file that exists.

    Example:
        >>> existing_file("no/such.npz")
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: no/such.npz: no such file
    """
    checked = as_path(what, path)
    text = str(checked) if len(str(checked)) <= 300 else str(checked)[:297] + "..."
    try:
        if checked.is_file():
            return checked
        there = checked.exists()
    except (OSError, ValueError) as error:  # a name that is too long for the file system
        raise InputError(f"{text}: cannot be read ({reason(error)})") from error
    if checked.is_dir():
        raise InputError(f"{text}: cannot be read: is a folder; give a file")
    raise InputError(f"{text}: is a pipe or a device; give a file" if there else f"{text}: no such file")


def folder_entries(folder: Path) -> list[Path]:
    """What is in a folder, in the order of the names."""
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({reason(error)}); give a readable folder") from error


def available_memory() -> int | None:
    """Bytes of memory that this process can still take, or None where the system does not say.

    The least of what is free in the system, in its control groups (containers, jobs of a cluster), and under
    ``ulimit -v`` and ``ulimit -d``.
    """
    free: list[int] = []
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
        used = [int(pages) * os.sysconf("SC_PAGE_SIZE") for pages in Path("/proc/self/statm").read_text().split()]
        free += [
            max(0, most - used[at]) for at, most in ((0, memory_limit("AS")), (5, memory_limit("DATA"))) if most
        ]
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            free += _free_in_control_group(*line.split(":", 2)[1:])
    except (OSError, ValueError, LookupError):  # another system than Linux
        free += [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")] if hasattr(os, "sysconf") else []
    return min(free, default=None)


def memory_limit(name: str) -> int | None:
    """The limit "AS" (``ulimit -v``) or "DATA" (``ulimit -d``) of this process in bytes; None where it has none."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0]
    return None if most == resource.RLIM_INFINITY else most


def _free_in_control_group(controllers: str, path: str, root: str = "/sys/fs/cgroup") -> list[int]:
    """Bytes that are left of the limits of a control group and those above it: of version 2, or "memory" of 1."""
    if controllers not in ("", "memory"):
        return []
    base = Path(root) / controllers
    names = (
        ("memory.max", "memory.current") if not controllers else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    )
    free = []
    # In a container the path is that of the host, and the group itself is mounted at the root.
    for group in {base, *(base / Path(*parts) for n in range(10) if (parts := Path(path).parts[1 : n + 1]))}:
        try:
            most, used = ((group / name).read_text(encoding="ascii").strip() for name in names)
            stat = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
        except OSError:
            continue
        if most != "max":  # pages of files that were read are given back when memory is needed
            free.append(max(0, int(most) - int(used) + int(stat.get("inactive_file", 0))))
    return free


def check_memory(what: str, needed: float, remedy: str) -> None:
    """Refuse work that needs more bytes of memory than this process can take.

    Example:
        >>> check_memory("a table", 1000, "give fewer rows")
        >>> check_memory("a table", 1e18, "give fewer rows")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: a table: needs about 1,000,000,000.0 GB of memory; ...; give fewer rows
    """
    free = available_memory()
    if free is not None and needed > free:
        raise InputError(
            f"{what}: needs about {needed / 1e9:,.1f} GB of memory; {free / 1e9:,.1f} GB are available; {remedy}"
        )


def check_reading_memory(path: Any, needed: int) -> None:
    """Refuse content of ``needed`` bytes that would not fit into free memory.

    Example:
        >>> check_reading_memory("small.npz", 1000)
        >>> check_reading_memory("huge.npz", 10**18)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: huge.npz: needs about 2,000,000,000.0 GB of memory; ... GB are available; ...
    """
    # Checks, ids and the joined train and test rows need the data about twice.
    check_memory(str(path), 2 * needed, "give fewer examples or a smaller dtype")


def is_gzip(path: Path) -> bool:
    """Whether a file begins as gzip does; servers that unpack on the way leave .gz on a plain file."""
    with path.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


def check_growth(path: Path, unpacked: int) -> None:
    """Refuse gzipped text that unpacks to far more than any text does, as soon as that many bytes have come."""
    if unpacked > SMALL_TEXT and unpacked > TEXT_GROWTH * path.stat().st_size:
        raise InputError(
            f"{path}: unpacks to more than {TEXT_GROWTH} times its size, as no text does; give the file unpacked"
        )


def read_bytes(path: Any) -> bytes:
    """The content of a file, unpacked if it is gzip, with its memory checked first."""
    file = existing_file(path)
    with refusing_damaged(file):
        if not is_gzip(file):
            check_reading_memory(file, file.stat().st_size)
            return file.read_bytes()
        blocks, size = [], 0
        with gzip.open(file) as stream:
            while block := stream.read(_BLOCK):
                size += len(block)
                check_growth(file, size)
                check_reading_memory(file, size)
                blocks.append(block)
        return b"".join(blocks)


def read_text(path: Any, encodings: list[str] | None = None) -> str:
    """The text of a file in UTF-8, or in UTF-16 with its mark, as spreadsheets write it.

    Args:
        path: of the file.
        encodings: gets the name of the encoding where it is not UTF-8; then UTF-16 without a mark and Windows-1252
            (nearly Latin-1) are read, too. None refuses those.
    """
    content = read_bytes(path)
    marked = content[:2] in UTF16_MARKS
    if encodings is not None:
        # Every second byte of Latin letters in UTF-16 is 0; no text in another encoding has such bytes.
        zeros = [content[side:4096:2].count(0) for side in (0, 1)]
        wide = "" if max(zeros) * 4 < len(content[:4096]) else "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
        if marked or wide:
            encodings.append("UTF-16")
        if wide and not marked:
            with refusing_damaged(path, "is not text"):
                return content.decode(wide)
    try:
        return content.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError as error:
        if encodings is not None and not marked and not any(code in content for code in _CONTROLS):
            encodings.append("Windows-1252")
            return content.decode("cp1252", errors="replace")
        raise InputError(
            f"{path}: is not text in UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from error


def read_json(path: Any) -> Any:
    """The value in a JSON file."""
    text = read_text(path)
    check_reading_memory(path, _JSON_GROWTH * len(text))
    return parse_json(text, str(path))


def parse_json(text: bytes | str, where: str) -> Any:
    """The value of JSON text from an untrusted source; ``where`` names it in messages."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise InputError(f"{where}: is nested too deeply; give flat JSON") from error
    except ValueError as error:
        raise InputError(
            f"{where}: is not JSON ({reason(error)}); it may be cut or damaged: write it again"
        ) from error


def read_json_lines(path: Any, advance: Callable[[int], None] = lambda size: None) -> Iterator[Any]:
    """The values of a JSON Lines file, one at a time.

    Args:
        path: of the file; it may be gzipped, or UTF-16 with its mark.
        advance: called with the number of bytes of the file that were read for each line.
    """
    file = existing_file(path)
    with refusing_damaged(file), _open_lines(file) as stream:
        packed: Any = stream.fileobj if isinstance(stream, gzip.GzipFile) else None
        number = size = done = 0
        while line := stream.readline(LONGEST_LINE + 1):
            number += 1
            if packed is not None:
                size += len(line)
                check_growth(file, size)
            if len(line) > LONGEST_LINE:
                raise InputError(f"{file}: line {number} is longer than {LONGEST_LINE >> 20} MB; shorten it")
            if packed is None:
                advance(len(line))
            elif (position := packed.tell()) > done:
                advance(position - done)
                done = position
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if not line.isspace():
                yield parse_json(line, f"{file}: line {number}")


def _open_lines(file: Path) -> IO[bytes] | gzip.GzipFile:
    if is_gzip(file):
        return gzip.open(file)
    with file.open("rb") as stream:
        utf16 = stream.read(2) in UTF16_MARKS
    return io.BytesIO(read_text(file).encode()) if utf16 else file.open("rb", buffering=_BLOCK)


def read_npy(path: Any, *, mmap: bool = False) -> NDArray[Any]:
    """The array in an npy file; with ``mmap`` its numbers stay on disk until they are used."""
    file = existing_file(path)
    with refusing_damaged(file, "is not a readable npy file", "write it with numpy.save"):
        with file.open("rb") as stream:
            _, _, claimed = _array_header(f"{file}", stream, file.stat().st_size)
            if not mmap or claimed == 0:
                check_reading_memory(file, claimed)
                stream.seek(0)
                return _read_array(stream)
        loaded: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
        return loaded


def npz_header(path: Any) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Shape and dtype of every array of an npz file, from the headers alone."""
    with _open_npz(path) as (file, archive, members):
        return {key: _member_header(file, key, archive, item)[:2] for key, item in members.items()}


def read_npz(path: Any, keys: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file by key.

    Args:
        path: the file.
        keys: read only these, those of them that are there; None reads all.
    """
    with _open_npz(path) as (file, archive, members):
        selected = {key: item for key, item in members.items() if keys is None or key in keys}
        check_reading_memory(
            file, sum(_member_header(file, key, archive, item)[2] for key, item in selected.items())
        )
        arrays = {}
        for key, item in selected.items():
            with archive.open(item) as stream:
                arrays[key] = _read_array(stream)
                if stream.read(1):  # reading to the end also compares the checksum
                    raise InputError(f"{file}: {key} has bytes after the array; write it again with numpy.savez")
        return arrays


def read_arrays(path: Any, keys: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file by key, or the array of an npy file under the key ""; the content decides which."""
    file = existing_file(path)
    with file.open("rb") as stream:
        is_npy = stream.read(6) == b"\x93NUMPY"
    return {"": read_npy(file)} if is_npy else read_npz(file, keys)


def read_npz_array(name: str) -> NDArray[Any]:
    """The array of an npy file, or of an npz file by its name behind ``::``, as in ``said.npz::labels``."""
    file, _, array_name = name.partition("::")
    stored = read_arrays(file)
    array_name = array_name or (next(iter(stored)) if len(stored) == 1 else "")
    if array_name not in stored:
        known = few(list(stored))
        raise InputError(f"{file}: name one of its arrays, as in {file}::{next(iter(stored))}; it has {known}")
    return stored[array_name]


@contextmanager
def _open_npz(path: Any) -> Iterator[tuple[Path, zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    """A zip archive with its members by key: plain, stored or deflated, and no larger than they can be."""
    file = existing_file(path)
    remedy = "write it with numpy.savez"
    with refusing_damaged(file, "is not a readable npz file", remedy), zipfile.ZipFile(file) as archive:
        listed = archive.infolist()
        if len(listed) > MOST_MEMBERS:
            raise InputError(f"{file}: has more than {MOST_MEMBERS:,} members; {remedy}")
        size = file.stat().st_size
        members: dict[str, zipfile.ZipInfo] = {}
        for item in listed:
            key = item.filename.removesuffix(".npy")
            if key in members:
                raise InputError(f"{file}: has {key[:60]!r} twice; {remedy}")
            if item.flag_bits & 0x1:
                raise InputError(f"{file}: {key[:60]!r} is encrypted; {remedy}")
            if item.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise InputError(f"{file}: {key[:60]!r} has an unsupported compression; {remedy}")
            if item.compress_size > size or item.file_size > GZIP_GROWTH * (item.compress_size + 1):
                raise InputError(
                    f"{file}: {key[:60]!r} claims {item.file_size:,} bytes, more than it can have; {remedy}"
                )
            members[key] = item
        yield file, archive, members


_Header = tuple[tuple[int, ...], np.dtype[Any], int]


def _member_header(file: Path, key: str, archive: zipfile.ZipFile, item: zipfile.ZipInfo) -> _Header:
    with archive.open(item) as stream:
        return _array_header(f"{file}: {key}", stream, item.file_size)


def _array_header(what: str, stream: IO[bytes], size: int) -> _Header:
    """Shape, dtype and bytes that the header of an array claims; refuses more than a file of ``size`` can have."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(stream)
            first = {(1, 0): np.lib.format.read_array_header_1_0}
            shape, _, dtype = first.get(version, np.lib.format.read_array_header_2_0)(stream)
    except (ValueError, SyntaxError, TypeError, tokenize.TokenError, RecursionError, MemoryError) as error:
        raise InputError(
            f"{what} is not a NumPy array ({reason(error)}); write it with numpy.save or savez"
        ) from error
    if dtype.hasobject:
        raise InputError(f"{what} has Python objects, which are never unpickled; save numbers or text")
    claimed = int(dtype.itemsize)
    for side in shape:  # Python integers: a product that overflows 64 bits is exactly what has to be caught
        if side < 0:
            raise InputError(f"{what} claims shape {shape}, which no array has; write it again")
        claimed *= int(side)
    if claimed > (room := size - stream.tell()):
        raise InputError(
            f"{what} claims shape {str(shape)[:80]} of {dtype}, {claimed:,} bytes, but has {room:,}; the file is "
            "damaged: write it again"
        )
    return tuple(int(side) for side in shape), dtype, claimed


def _read_array(stream: IO[bytes]) -> NDArray[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
    if array.dtype.kind == "U" and array.nbytes:
        codes = np.frombuffer(array.tobytes(), np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if codes.max() > sys.maxunicode:
            raise ValueError("text with a character that does not exist")
    return array


TAR_ENDINGS = (".tar.gz", ".tgz", ".tar")


@dataclass(frozen=True, slots=True)
class Members:
    """The top folders and base names of the regular files in an archive, and the content of the selected ones."""

    folders: frozenset[str]
    names: frozenset[str]
    content: dict[str, NDArray[np.uint8]]


def read_tar(path: Any, selected: Collection[str]) -> Members:
    """The members of a tar archive, plain or gzipped, with the selected base names; each may be there once."""
    folders: set[str] = set()
    names: set[str] = set()
    content: dict[str, NDArray[np.uint8]] = {}
    file = existing_file(path)
    with _tar_for_reading(file) as archive:
        for member in _read_tar_members(file, archive):
            *above, name = PurePosixPath(member.name).parts
            folders.update(above[:1])
            names.add(name)
            if name not in selected:
                continue
            if name in content:
                raise InputError(f"{file}: has {name} twice; give an archive with one of each file")
            check_reading_memory(file, member.size + sum(map(len, content.values())))
            content[name] = _read_tar_member(file, archive, member)
    return Members(frozenset(folders), frozenset(names), content)


class _TarReading:
    """A stream that refuses to be read in absurdly large blocks, and remembers the last one."""

    def __init__(self, path: Path, stream: Any) -> None:
        self._path, self._stream, self.last = path, stream, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= _LARGEST_READ:
            raise InputError(f"{self._path}: a header in the archive claims {size:,} bytes; fetch it again")
        self.last = self._stream.read(size)
        return self.last


@contextmanager
def _tar_for_reading(path: Path) -> Iterator[tarfile.TarFile]:
    """Open an archive; on leaving, read to its end, so that gzip's checksum has been compared."""
    with refusing_damaged(path, "is not a readable tar archive", "fetch it again"), path.open("rb") as raw:
        stream: Any = gzip.GzipFile(fileobj=raw) if is_gzip(path) else raw
        measured: Any = _TarReading(path, stream)
        with tarfile.open(fileobj=measured, mode="r:") as archive:
            yield archive
        # tarfile takes a cut or a damaged header for the end; the true end is a block of zeros.
        if measured.last != bytes(tarfile.BLOCKSIZE):
            raise InputError(f"{path}: ends in the middle of the archive, or is damaged there; fetch it again")
        left = 0
        while block := stream.read(_BLOCK):
            left += len(block)
            if left > _LARGEST_TAIL:
                raise InputError(f"{path}: continues after the end of the archive; fetch it again")


def _read_tar_members(path: Path, archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    most = GZIP_GROWTH * path.stat().st_size
    for count, member in enumerate(archive):
        if count >= _MOST_TAR_MEMBERS:
            raise InputError(
                f"{path}: has more than {_MOST_TAR_MEMBERS:,} members; give the archive as it was published"
            )
        if member.size < 0 or member.size > most:
            raise InputError(
                f"{path}: {member.name[:60]!r} claims {member.size:,} bytes, but the archive can have {most:,} at "
                "most; fetch it again"
            )
        # A sparse member claims bytes that are not there; links and devices have none.
        if member.isreg() and not member.issparse() and PurePosixPath(member.name).name:
            yield member


def _read_tar_member(path: Path, archive: tarfile.TarFile, member: tarfile.TarInfo) -> NDArray[np.uint8]:
    stream = archive.extractfile(member)
    content = np.empty(member.size, dtype=np.uint8)
    got = fill(stream, content) if stream is not None else 0
    if got < member.size:
        raise InputError(f"{path}: {member.name!r} claims {member.size:,} bytes, but has {got:,}; fetch it again")
    return content


def fill(stream: Any, content: NDArray[np.uint8]) -> int:
    """Read a stream into an array of bytes; returns how many there were."""
    view, got = content.data, 0
    while got < len(view):
        block = stream.read(min(_BLOCK, len(view) - got))
        if not block:
            break
        view[got : got + len(block)] = block
        got += len(block)
    return got


def file_hash(path: Path) -> str:
    """Sha256 of what a file holds, in hexadecimal, read in pieces: a file may be larger than the memory.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / "a").write_text("a")
        ...     file_hash(Path(folder) / "a")[:8]
        'ca978112'
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def suffix_of(path: Path) -> str:
    """The ending that names the format, without ``.gz``.

    Example:
        >>> suffix_of(Path("a.CSV.gz")), suffix_of(Path("b.parquet"))
        ('.csv', '.parquet')
    """
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def stem_of(path: Path) -> str:
    """The name without the ending that names the format, and without ``.gz``.

    Example:
        >>> stem_of(Path("runs/a.b.jsonl.gz")), stem_of(Path("c.csv"))
        ('a.b', 'c')
    """
    name = path.name
    return Path(name[:-3] if name.lower().endswith(".gz") else name).stem
