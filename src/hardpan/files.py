"""Files that are written whole or not at all, and results as JSON.

A result is a frozen dataclass created by :func:`record`. Its JSON has ``kind`` (mostly the class name), ``schema``
and the hardpan version; NaN and infinities become null; arrays of more than 1,000 numbers go into an npz file
beside the JSON, named by the sha256 of their content (:func:`save`, :func:`load`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import importlib.metadata
import io
import json
import lzma
import math
import os
import platform
import re
import secrets
import shutil
import tarfile
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast, dataclass_transform, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

import hardpan
from hardpan.errors import InputError


def as_path(name: str, value: object) -> Path:
    """A path from a string or path object; anything else is refused by the name of the argument.

    Example:
        >>> as_path("out", None)
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: out must be a path, as text or a path object; got None
    """
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else ""
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputError(f"must be a path, as text or a path object; got {value!r:.100}", argument=name)
    return Path(text)


def write_text(path: Path, text: str) -> None:
    """Write a file in one step: a reader sees the old text or the new, never half of it."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, *parts: bytes, private: bool = False) -> None:
    """Write a file in one step, as :func:`write_text`; a ``private`` one can be read by its owner alone."""
    with replacing(path) as partial:
        # The system applies the umask; asking for it would change it for every other thread for a moment.
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600 if private else 0o666)
        with os.fdopen(handle, "wb") as stream:
            stream.writelines(parts)
            stream.flush()
            os.fsync(stream.fileno())


_BINARY = getattr(os, "O_BINARY", 0)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Where to write a new file, which takes the name ``path`` when the block ends without an error."""
    partial = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}.partial")
    try:
        yield partial
        os.replace(partial, path)
        sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):  # there may be nothing to remove
            partial.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Make new files and renames in a folder survive a power cut, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:  # some network file systems cannot
        pass
    finally:
        os.close(handle)


Content = str | Callable[[Path], object] | None
"""A file of a report: text, a function that writes it at a path, or None to remove an older one."""
_WAITING = ".writing."


def check_local(path: Path, what: str) -> None:
    """Refuse an address such as s3://bucket/page, of which a path would make local folders named "s3:" and so on.

    Example:
        >>> check_local(Path("s3://bucket/page"), "--out")
        Traceback (most recent call last):
        ...
        hardpan.errors.InputError: --out s3://bucket/page: must be a path on this machine; copy it there afterwards
    """
    scheme, colon, rest = str(path).partition(":")
    if colon and rest.startswith("/") and len(scheme) > 1 and "/" not in scheme and not path.exists():
        raise InputError(f"{what} {scheme}:/{rest}: must be a path on this machine; copy it there afterwards")


def check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be written, before any work is done for it; creates nothing."""
    check_local(folder, "--out")
    parent = as_path("out", folder).absolute()
    while not os.path.lexists(parent):
        parent = parent.parent
    if not parent.is_dir():
        raise InputError(f"--out {folder}: {parent} is not a folder; give another one")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"--out {folder}: {parent} may not be written; give another one")


def write_together(folder: Path, contents: Mapping[str, Content]) -> None:
    """Write files that belong together into a folder: first all of them aside, then each into place in one step.

    The last one named vouches for the others: an older one of its name goes before the first file is put in place,
    the new one comes last. Whoever sees it sees files that were written together, even after a kill. A failure
    leaves no file of ours.

    Args:
        folder: where to; created where it is missing.
        contents: by name, in at most one subfolder: text; a function that writes the file at the path that it is
            given; or None to remove a file of that name.
    """
    created = missing_parents(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder)
        with tempfile.TemporaryDirectory(dir=folder, prefix=_WAITING) as waiting:
            for name, content in contents.items():
                _write_content(Path(waiting) / name, content)
            *others, last = contents
            if others:
                (folder / last).unlink(missing_ok=True)
            for name in contents:
                if contents[name] is None:
                    (folder / name).unlink(missing_ok=True)
                else:
                    (folder / name).parent.mkdir(exist_ok=True)
                    os.replace(Path(waiting) / name, folder / name)
    except BaseException as error:
        remove_if_empty(created)
        if isinstance(error, OSError):
            raise InputError(f"{folder}: cannot be written ({error.strerror}); give another folder") from error
        raise


def missing_parents(folder: Path) -> list[Path]:
    """The folders that have to be created for this one, itself included, deepest first."""
    return [path for path in (folder, *folder.parents) if not os.path.lexists(path)]


def remove_if_empty(folders: list[Path]) -> None:
    """Remove these folders, deepest first, as far as nothing is in them."""
    for folder in folders:
        with contextlib.suppress(OSError):  # never created, or no longer empty
            folder.rmdir()


def _write_content(path: Path, content: Content) -> None:
    if content is None:
        return
    path.parent.mkdir(exist_ok=True)
    if callable(content):
        content(path)
    else:
        path.write_text(content, encoding="utf-8", newline="\n")
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())
    path.chmod(0o644)


def _remove_leftovers(folder: Path) -> None:
    """Remove what a writing that was killed left aside."""
    for path in folder.glob(f"{_WAITING}*"):
        shutil.rmtree(path, ignore_errors=True)


def scratch_array(shape: tuple[int, ...], dtype: DTypeLike, what: str, remedy: str) -> NDArray[Any]:
    """An array in an anonymous temporary file, for what is too large for memory; the file goes with the array.

    Args:
        shape: of the array.
        dtype: of its numbers; they are zeros.
        what: will be in it, for messages.
        remedy: besides setting TMPDIR, if the disk has no room.

    Example:
        >>> scratch_array((2, 3), np.uint8, "pixels", "use fewer").tolist()
        [[0, 0, 0], [0, 0, 0]]
    """
    size = max(1, math.prod(shape) * np.dtype(dtype).itemsize)
    with tempfile.TemporaryFile(prefix="hardpan-") as file:
        try:
            # Reserved at once: a mapped file that meets a full disk later ends the whole process.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:  # macOS has no such call
                os.ftruncate(file.fileno(), size)
        except OSError as error:
            raise InputError(
                f"{tempfile.gettempdir()}: no room for {size:,} bytes of {what} ({error.strerror}); {remedy}, "
                "or set TMPDIR"
            ) from error
        return np.memmap(file, dtype=dtype, mode="r+", shape=shape)


@contextlib.contextmanager
def locked(path: Path, *, create: bool = True) -> Iterator[None]:
    """Let one thread or process in at a time; on systems without locks, commands on one folder must not overlap."""
    handle = lock(path, create=create)
    try:
        yield
    finally:
        unlock(handle)


def lock(path: Path, *, create: bool = True, shared: bool = False, wait: bool = True) -> int | None:
    """Lock a file, or a folder; the lock of a killed process is free.

    Args:
        path: what to lock.
        create: an empty file to lock; otherwise a file or folder that exists is locked.
        shared: others may have a shared lock at the same time.
        wait: until the lock is free; otherwise BlockingIOError is raised if it is not.

    Returns:
        What :func:`unlock` takes; None on systems without such locks (Windows).
    """
    try:
        import fcntl
    except ImportError:
        return None
    handle = os.open(path, os.O_CREAT | os.O_RDWR if create else os.O_RDONLY, 0o600)
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        os.close(handle)
        raise
    return handle


def unlock(handle: int | None) -> None:
    """Free what :func:`lock` locked."""
    if handle is not None:
        os.close(handle)


# Control characters (C0, C1), the two non-characters and lone surrogates: they end drawing libraries, break pages
# and tables, act on terminals, or cannot be encoded.
_UNSAFE = dict.fromkeys([*range(32), *range(127, 160), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000)], "\ufffd")
_LINES = _UNSAFE | {letter: chr(letter) for letter in map(ord, "\t\n\r")}
_UNSAFE |= dict.fromkeys(map(ord, "\t\n\r"), " ")
UNSAFE_CELL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x{9f}\x{fffe}\x{ffff}]"  # the same of cells, for Arrow
_UNSAFE_LETTER = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")


def clean_text(text: str, *, lines: bool = False) -> str:
    """Text without characters that no chart, page or table can have; done once, by the reader of a text.

    White space among them becomes a space, or stays where ``lines`` are allowed.

    Example:
        >>> clean_text("cat" + chr(7)) == "cat" + chr(0xFFFD), clean_text("two" + chr(10) + "lines")
        (True, 'two lines')
    """
    return text.translate(_LINES if lines else _UNSAFE) if _UNSAFE_LETTER.search(text) else text


def clean_names(what: str, names: Sequence[Any]) -> tuple[Any, ...]:
    """Names cleaned by :func:`clean_text`; those that differ in nothing else are refused.

    Example:
        >>> clean_names("models", ["a" + chr(9) + "b", "c"])
        ('a b', 'c')
    """
    if not _UNSAFE_LETTER.search("".join(name for name in names if isinstance(name, str))):
        return tuple(names)
    cleaned = tuple(clean_text(name) if isinstance(name, str) else name for name in names)
    if len(set(cleaned)) < len(cleaned):
        raise InputError(f"must differ without control characters; got {list(names)!r:.200}", argument=what)
    return cleaned


def clean_column(values: NDArray[Any]) -> NDArray[Any]:
    """A column cleaned by :func:`clean_text`, with its lines; numbers as they are."""
    if values.dtype.kind != "U" or not _UNSAFE_LETTER.search("".join(values.tolist())):
        return values
    return np.array([clean_text(text, lines=True) for text in values.tolist()])


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


KINDS: dict[str, type[Any]] = {}
_KIND_OF: dict[type[Any], str] = {}
_DROPPED: dict[type[Any], frozenset[str]] = {}
TRANSIENT: Mapping[str, bool] = {"transient": True}
"""Metadata of a dataclass field that is not written to JSON (arrays and images that are saved elsewhere)."""
R = TypeVar("R")


SCHEMA = 1
HEADER = ("kind", "schema", "hardpan", "headline")  # keys that are no fields; the headline is for readers


@overload
def record(cls: type[R], /) -> type[R]: ...
@overload
def record(
    *, kind: str = "", dropped: tuple[str, ...] = (), eq: bool = True, repr: bool = True, kw_only: bool = False
) -> Callable[[type[R]], type[R]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(
    cls: type[Any] | None = None, /, *, kind: str = "", dropped: tuple[str, ...] = (), **options: bool
) -> Any:
    """Make a class a frozen, slotted dataclass that can be written as JSON and read back by its kind.

    ``record_kinds.json`` names the module of every kind (``make format`` writes it).

    Args:
        cls: the class; the decorator is written with or without options.
        kind: in JSON; the name of the class unless the class was renamed after files were written.
        dropped: fields that the class once had: an older file may have them, and they are not read.
        **options: of :func:`dataclasses.dataclass`.

    Example:
        >>> @record(kind="Dot", dropped=("colour",))
        ... class Point:
        ...     x: float
        >>> to_json(Point(x=1.5))["kind"]
        'Dot'
        >>> from_json({"kind": "Dot", "schema": 1, "x": 1.5, "colour": "red"})
        Point(x=1.5)
    """
    if cls is None:
        return functools.partial(record, kind=kind, dropped=dropped, **options)
    plain_bases = [base for base in cls.__mro__[:-1] if not dataclasses.is_dataclass(base)]
    options.setdefault("repr", not any("__repr__" in vars(base) for base in plain_bases))  # keeps that of a Report
    cls = dataclasses.dataclass(frozen=True, slots=True, **options)(cls)
    kind = kind or cls.__name__
    reserved = set(HEADER) & {f.name for f in dataclasses.fields(cls)}
    if reserved:
        raise TypeError(f"{cls.__name__}.{reserved.pop()}: this name belongs to the JSON header; rename the field")
    before = KINDS.get(kind)
    # A module may be read twice (a notebook, a test runner); two modules may not share a kind.
    if before is not None and before.__module__ != cls.__module__:
        raise TypeError(
            f"{before.__module__} has a record of kind {kind!r} already; rename that of {cls.__module__}"
        )
    KINDS[kind] = cls
    _KIND_OF[cls], _DROPPED[cls] = kind, frozenset(dropped)
    return cls


def record_class(kind: str) -> type[Any] | None:
    """The class of a kind, imported if need be; None if there is none, or its extra is not installed.

    Example:
        >>> record_class("Estimate"), record_class("Nonsense")
        (<class 'hardpan.estimates.Estimate'>, None)
    """
    if kind not in KINDS and kind in _modules_of_kinds():
        with contextlib.suppress(ImportError):
            importlib.import_module(_modules_of_kinds()[kind])
    return KINDS.get(kind)


@functools.cache
def _modules_of_kinds() -> dict[str, str]:
    return cast(
        dict[str, str], json.loads((Path(__file__).parent / "record_kinds.json").read_text(encoding="utf-8"))
    )


INLINE_NUMBERS = 1000
# What NumPy, zipfile, tarfile, zlib and json raise, between them, for files that were cut or altered.
DAMAGED = (
    *(OSError, EOFError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, MemoryError),
    *(RuntimeError, SyntaxError, tokenize.TokenError, zipfile.BadZipFile, tarfile.TarError, zlib.error),
    lzma.LZMAError,
)


def to_json(item: Any) -> dict[str, Any]:
    """A record as plain JSON values, arrays inline.

    Example:
        >>> from hardpan.estimates import Interval
        >>> to_json(Interval(0.1, float("inf")))["high"] is None
        True
    """
    return cast(dict[str, Any], _json_value(item, None))


def from_json(data: Mapping[str, Any], folder: Path | None = None) -> Any:
    """Read back what :func:`to_json` or :func:`save` wrote; ``folder`` is where the arrays lie."""
    _check_record_header(data)
    return _from_json_value(data, folder)


def save(item: Any, path: str | os.PathLike[str]) -> Path:
    """Write a record as JSON, large arrays beside it; the JSON comes last and in one step."""
    path = as_path("path", path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, dumps(_json_value(item, path.parent)) + "\n")
    return path


def load(path: str | os.PathLike[str]) -> Any:
    """Read a record that :func:`save` wrote, and check its arrays against their hashes."""
    path = as_path("path", path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give a file that hardpan wrote") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not JSON ({error}); give a file that hardpan wrote") from error
    if not isinstance(data, dict):
        raise InputError(f"{path}: is not a record; expected a JSON object with 'kind' and 'schema'")
    return from_json(data, path.parent)


def dumps(data: Any) -> str:
    """JSON text with stable layout; refuses NaN, which is not JSON."""
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
    if re.search("[\ud800-\udfff]", text):  # half of a character, which UTF-8 cannot write
        text = json.dumps(data, indent=1, allow_nan=False)
    return text


def _json_value(item: Any, folder: Path | None) -> Any:
    if dataclasses.is_dataclass(item) and not isinstance(item, (type, Mapping)):
        kind = _KIND_OF.get(type(item))
        if kind is None:
            raise TypeError(f"{type(item).__name__} is not a registered record; decorate it with @record")
        header = {"kind": kind, "schema": SCHEMA, "hardpan": hardpan.__version__}
        fields = [f for f in dataclasses.fields(item) if not f.metadata.get("transient")]
        return header | {f.name: _json_value(getattr(item, f.name), folder) for f in fields}
    if isinstance(item, np.ndarray):
        if folder is not None and item.size > INLINE_NUMBERS:
            return _array_beside(item, folder)
        return {
            "kind": "array",
            "dtype": item.dtype.str,
            "shape": list(item.shape),
            "data": _json_value(item.ravel().tolist(), None),
        }
    if isinstance(item, Mapping):
        if "kind" in item and ("schema" in item or item["kind"] == "array"):
            raise TypeError("a mapping with 'kind' and 'schema' would be read back as a record; rename the keys")
        return {str(key): _json_value(value, folder) for key, value in item.items()}
    if isinstance(item, (list, tuple)):
        return [_json_value(value, folder) for value in item]
    if isinstance(item, np.generic):
        return _json_value(item.item(), folder)
    if isinstance(item, float):
        return item if math.isfinite(item) else None
    if item is None or isinstance(item, (bool, int, str)):
        return item
    if isinstance(item, Path):
        return item.as_posix()
    raise TypeError(f"a record cannot hold {type(item).__name__}")


def _array_beside(item: NDArray[Any], folder: Path) -> dict[str, Any]:
    digest = array_hash(item)
    path = folder / f"{digest}.npz"
    if not path.exists():
        buffer = io.BytesIO()
        np.savez_compressed(buffer, data=item)
        write_bytes(path, buffer.getvalue())
    return {"kind": "array", "sha256": digest}


def array_hash(item: NDArray[Any]) -> str:
    """Sha256 over dtype, shape and bytes, in hexadecimal."""
    digest = hashlib.sha256(f"{item.dtype.str}{item.shape}".encode())
    digest.update(np.ascontiguousarray(item).view(np.uint8).data if item.size else b"")
    return digest.hexdigest()


def _check_record_header(data: Mapping[str, Any]) -> None:
    kind, schema = data.get("kind"), data.get("schema")
    if not isinstance(kind, str) or record_class(kind) is None:
        raise InputError(f"must be one of {', '.join(_modules_of_kinds())}; got {kind!r}", argument="kind")
    if schema != SCHEMA:
        raise InputError(
            f"must be {SCHEMA}; got {schema!r}: this file needs another version of hardpan", argument="schema"
        )


def _from_json_value(value: Any, folder: Path | None) -> Any:
    if isinstance(value, Mapping) and value.get("kind") == "array":
        return _build_array(value, folder)
    if isinstance(value, Mapping) and "kind" in value and "schema" in value:
        _check_record_header(value)
        cls = KINDS[value["kind"]]
        names = {f.name for f in dataclasses.fields(cls)}
        unknown = set(value) - names - set(HEADER) - _DROPPED[cls]
        if unknown:
            raise InputError(
                f"{cls.__name__} has no field {sorted(unknown)[0]!r}; this file needs another version of hardpan"
            )
        fields = {name: _from_json_value(value[name], folder) for name in names if name in value}
        return _build_record(cls, fields)
    if isinstance(value, Mapping):
        return {key: _from_json_value(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_from_json_value(item, folder) for item in value)
    return value


def _build_record(cls: Callable[..., Any], fields: dict[str, Any]) -> Any:
    # JSON has no NaN: a null in a required float field was a number that could not be written.
    for f in dataclasses.fields(cast(Any, cls)):
        if f.type in ("float", float) and f.name in fields and fields[f.name] is None:
            fields[f.name] = math.nan
    try:
        return cls(**fields)
    except InputError:
        raise
    except (TypeError, ValueError, AttributeError, LookupError) as error:  # checks met a damaged field
        raise InputError(f"record is incomplete or damaged: {error}") from error


def _build_array(value: Mapping[str, Any], folder: Path | None) -> NDArray[Any]:
    if "sha256" not in value:
        return _build_inline_array(value)
    if not re.fullmatch(r"[0-9a-f]{64}", str(value["sha256"])):
        raise InputError(f"array name must be a sha256 in hexadecimal; got {value['sha256']!r}")
    if folder is None:
        raise InputError(f"array {value['sha256'][:16]} is in a file beside the JSON; use hardpan.files.load")
    path = folder / f"{value['sha256']}.npz"
    try:
        # NumPy leaves a file open that it opened and could not read; this one is ours to close.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            item = cast(NDArray[Any], stored["data"])
    except DAMAGED as error:
        raise InputError(f"{path}: array cannot be read ({error}); copy it along with the JSON") from error
    if array_hash(item) != value["sha256"]:
        raise InputError(f"{path}: content does not match its name; the file was changed")
    return item


def _build_inline_array(value: Mapping[str, Any]) -> NDArray[Any]:
    try:
        dtype = np.dtype(value["dtype"])
        if dtype.hasobject:
            raise TypeError("it claims to hold Python objects")
        data = [math.nan if item is None else item for item in value["data"]]
        return np.array(data, dtype=dtype).reshape(value["shape"])
    except (KeyError, TypeError, ValueError, OverflowError, SyntaxError, MemoryError) as error:
        raise InputError(f"an array in the record is damaged ({error}); give a file that hardpan wrote") from error


def versions_of(*packages: str) -> dict[str, str]:
    """Versions of hardpan, Python and the packages that computed something, for :class:`Provenance`.

    Example:
        >>> list(versions_of("numpy"))
        ['hardpan', 'Python', 'numpy']
    """
    own = {"hardpan": hardpan.__version__, "Python": platform.python_version()}
    return own | {name: importlib.metadata.version(name) for name in packages}
