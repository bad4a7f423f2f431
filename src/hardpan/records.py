"""The small frozen records that every part of hardpan returns, and their JSON form.

A record is a frozen dataclass registered with :func:`record`. Its JSON carries ``kind`` (the class name),
``schema`` and the hardpan version; NaN and infinities become null; arrays of more than 1,000 numbers go into an
npz file beside the JSON, named by the sha256 of their content (:func:`save`, :func:`load`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import io
import json
import math
import os
import re
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

import hardpan
from hardpan.errors import InputError

SCHEMA = 1
INLINE_NUMBERS = 1000
# What NumPy and zipfile raise, between them, for an npz file that was cut or altered.
_DAMAGED = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    SyntaxError,
    OverflowError,
    MemoryError,
    RuntimeError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)

_KINDS: dict[str, type[Any]] = {}
R = TypeVar("R")


def record(cls: type[R]) -> type[R]:
    """Register a frozen dataclass so that it can be written as JSON and read back by its name."""
    taken = {"kind", "schema", "hardpan"} & {f.name for f in dataclasses.fields(cast(Any, cls))}
    if taken:
        raise TypeError(
            f"{cls.__name__}.{taken.pop()}: this name belongs to the JSON header; call the field otherwise"
        )
    _KINDS[cls.__name__] = cls
    return cls


@record
@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval: bounds, level, and how it was made."""

    low: float
    high: float
    confidence: float = 0.95
    method: str = ""


@record
@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its uncertainty, method and sample count.

    Attributes:
        value: the estimate, a fraction in 0..1 where it is an error.
        stderr: its standard error (0 for closed forms).
        low: lower end of the interval at level ``confidence``.
        high: upper end of it.
        confidence: the level of the interval.
        method: how the number was made, in words.
        n: how many draws or examples it rests on (0 for closed forms).
        seed: the seed of the draws, if there were any.
        notes: what a reader has to know before using the number.
        log10: log10 of the value, right also where ``value`` underflows to 0; None where it makes no sense.

    Example:
        >>> Estimate(0.25, 0.01, 0.23, 0.27, method="example", n=100)
        Estimate(0.25 ± 0.01, 95 % [0.23, 0.27], example, n=100)
    """

    value: float
    stderr: float
    low: float
    high: float
    confidence: float = 0.95
    method: str = ""
    n: int = 0
    seed: int | None = None
    notes: tuple[str, ...] = ()
    log10: float | None = None

    def __repr__(self) -> str:
        text = f"Estimate({self.value:.6g} ± {self.stderr:.2g}, "
        text += f"{100 * self.confidence:g} % [{self.low:.6g}, {self.high:.6g}], {self.method}"
        text += f", n={self.n}" if self.n else ""
        if self.value == 0.0 and self.log10 is not None and math.isfinite(self.log10):
            text += f", log10={self.log10:.8g}"
        return text + ")"


@record
@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Examples with ids, and what is known of them.

    Attributes:
        name: what to call the set.
        x: images (N, H, W) or (N, H, W, C), or feature vectors (N, d).
        ids: (N,) strings, each once.
        labels: (N,) class numbers in 0..C-1, or None.
        class_names: the C names.
        split: (N,) "train" or "test" where the set has an official split, else None.
        metadata: further columns of length N (sub-class, source, votes, ...).
        source: where it came from.
    """

    name: str
    x: NDArray[Any]
    ids: NDArray[np.str_]
    labels: NDArray[np.int64] | None = None
    class_names: tuple[str, ...] = ()
    split: NDArray[np.str_] | None = None
    metadata: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    source: str = ""

    def __len__(self) -> int:
        return len(self.x)

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(self.class_names)

    def features(self) -> NDArray[np.float64]:
        """Every example as a flat vector of float64, shape (N, d)."""
        return self.x.reshape(len(self.x), -1).astype(np.float64)


@record
@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Row numbers of the three disjoint parts of a dataset, and how they were chosen."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]
    method: str
    seed: int


@record
@dataclass(frozen=True, slots=True)
class Chart:
    """What a chart shows, apart from how it is drawn (``hardpan.report.charts`` draws it).

    Attributes:
        drawing: how it is drawn: a name in ``hardpan.report.charts.KINDS``.
        title: one line that says what is to be seen.
        rows: the data, one mapping a mark.
        description: the text alternative, for people who cannot see it.
        options: what this kind of drawing lets one choose (axis titles, log scale, ...).
    """

    drawing: str
    title: str
    rows: tuple[Mapping[str, Any], ...]
    description: str
    options: Mapping[str, Any] = field(default_factory=dict)


@record
@dataclass(frozen=True, slots=True)
class Table:
    """A table for a person: column names and rows of numbers and text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@record
@dataclass(frozen=True, slots=True)
class Section:
    """One part of a report: what it says, the numbers behind it, and its pictures."""

    title: str
    sentences: tuple[str, ...] = ()
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    warnings: tuple[str, ...] = ()


@record
@dataclass(frozen=True, slots=True)
class Tile:
    """One number at the top of a report, or, where there is no evidence yet, what would give it.

    Attributes:
        title: what the number is.
        value: the number as a person reads it, empty where there is none.
        detail: one line under it: what it means, or what would fill the tile.
        command: the command that would fill it, empty where there is none.
    """

    title: str
    value: str = ""
    detail: str = ""
    command: str = ""


@record
@dataclass(frozen=True, slots=True)
class Provenance:
    """How a report was made: enough for a stranger to make it again.

    Attributes:
        method: paragraphs of plain words and formulas.
        citations: the papers it rests on.
        command: the command that makes the report again.
        seed: the seed of everything random in it.
        versions: name and version of what computed it.
        hashes: what was read, and its sha256.
        warnings: what limits the claims of the whole report.
    """

    method: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()
    command: str = ""
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def to_json(item: Any) -> dict[str, Any]:
    """Give a record as plain JSON values, arrays inline.

    Example:
        >>> to_json(Interval(0.1, float("inf")))["high"] is None
        True
    """
    return cast(dict[str, Any], _plain(item, None))


def from_json(data: Mapping[str, Any], folder: Path | None = None) -> Any:
    """Read back what :func:`to_json` or :func:`save` wrote; ``folder`` is where the arrays lie."""
    _check_header(data)
    return _build(data, folder)


def save(item: Any, path: str | os.PathLike[str]) -> Path:
    """Write a record as JSON, large arrays beside it; the JSON comes last and in one step."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, dumps(_plain(item, path.parent)) + "\n")
    return path


def load(path: str | os.PathLike[str]) -> Any:
    """Read a record that :func:`save` wrote, and check its arrays against their hashes."""
    path = Path(path)
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
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)


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


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _plain(item: Any, folder: Path | None) -> Any:
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        kind = type(item).__name__
        if _KINDS.get(kind) is not type(item):
            raise TypeError(f"{kind} is not a registered record; decorate it with @record")
        header = {"kind": kind, "schema": SCHEMA, "hardpan": hardpan.__version__}
        return header | {f.name: _plain(getattr(item, f.name), folder) for f in dataclasses.fields(item)}
    if isinstance(item, np.ndarray):
        if folder is not None and item.size > INLINE_NUMBERS:
            return _array_beside(item, folder)
        return {
            "kind": "array",
            "dtype": item.dtype.str,
            "shape": list(item.shape),
            "data": _plain(item.ravel().tolist(), None),
        }
    if isinstance(item, Mapping):
        if "kind" in item and ("schema" in item or item["kind"] == "array"):
            raise TypeError(
                "a mapping with 'kind' and 'schema' would be read back as a record; name the keys otherwise"
            )
        return {str(key): _plain(value, folder) for key, value in item.items()}
    if isinstance(item, (list, tuple)):
        return [_plain(value, folder) for value in item]
    if isinstance(item, np.generic):
        return _plain(item.item(), folder)
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


def _check_header(data: Mapping[str, Any]) -> None:
    kind, schema = data.get("kind"), data.get("schema")
    if not isinstance(kind, str) or not _known(kind):
        raise InputError(f"kind must be one of {', '.join(sorted(_KINDS))}; got {kind!r}")
    if schema != SCHEMA:
        raise InputError(f"schema must be {SCHEMA}; got {schema!r}: this file needs another version of hardpan")


def _known(kind: str) -> bool:
    """Whether a kind is registered; parts that were not imported yet are asked, one after another."""
    for part in ("records", *hardpan.__all__):
        with contextlib.suppress(ImportError):  # not a part, or one whose extra is not installed
            importlib.import_module(f"hardpan.{part}")
        if kind in _KINDS:
            return True
    return False


def _build(value: Any, folder: Path | None) -> Any:
    if isinstance(value, Mapping) and value.get("kind") == "array":
        return _build_array(value, folder)
    if isinstance(value, Mapping) and "kind" in value and "schema" in value:
        _check_header(value)
        cls = _KINDS[value["kind"]]
        names = {f.name for f in dataclasses.fields(cls)}
        unknown = set(value) - names - {"kind", "schema", "hardpan"}
        if unknown:
            raise InputError(
                f"{cls.__name__} has no field {sorted(unknown)[0]!r}; this file needs another version of hardpan"
            )
        given = {name: _build(value[name], folder) for name in names if name in value}
        return _construct(cls, given)
    if isinstance(value, Mapping):
        return {key: _build(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_build(item, folder) for item in value)
    return value


def _construct(cls: Callable[..., Any], given: dict[str, Any]) -> Any:
    # JSON has no NaN: a null in a required float field was a number that could not be written.
    for f in dataclasses.fields(cast(Any, cls)):
        if f.type in ("float", float) and f.name in given and given[f.name] is None:
            given[f.name] = math.nan
    try:
        return cls(**given)
    except TypeError as error:
        raise InputError(f"record is incomplete: {error}") from error


def _build_array(value: Mapping[str, Any], folder: Path | None) -> NDArray[Any]:
    if "sha256" not in value:
        return _build_inline(value)
    if not re.fullmatch(r"[0-9a-f]{64}", str(value["sha256"])):
        raise InputError(f"array name must be a sha256 in hexadecimal; got {value['sha256']!r}")
    if folder is None:
        raise InputError(f"array {value['sha256'][:16]} lies in a file beside the JSON; read it with records.load")
    path = folder / f"{value['sha256']}.npz"
    try:
        # NumPy leaves a file open that it opened and could not read; this one is ours to close.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            item = cast(NDArray[Any], stored["data"])
    except _DAMAGED as error:
        raise InputError(f"{path}: array cannot be read ({error}); copy it along with the JSON") from error
    if array_hash(item) != value["sha256"]:
        raise InputError(f"{path}: content does not match its name; the file was changed")
    return item


def _build_inline(value: Mapping[str, Any]) -> NDArray[Any]:
    try:
        dtype = np.dtype(value["dtype"])
        if dtype.hasobject:
            raise TypeError("it claims to hold Python objects")
        data = [math.nan if item is None else item for item in value["data"]]
        return np.array(data, dtype=dtype).reshape(value["shape"])
    except (KeyError, TypeError, ValueError, OverflowError, SyntaxError, MemoryError) as error:
        raise InputError(f"an array in the record is damaged ({error}); give a file that hardpan wrote") from error
