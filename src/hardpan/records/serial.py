"""Records as JSON: ``kind``, ``schema`` and version first; NaN as null; large arrays in npz files beside it."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import os
import re
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

import hardpan
from hardpan.errors import InputError
from hardpan.records.files import write_bytes, write_text
from hardpan.records.registry import KINDS, known

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


def to_json(item: Any) -> dict[str, Any]:
    """Give a record as plain JSON values, arrays inline.

    Example:
        >>> from hardpan.records import Interval
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


def _plain(item: Any, folder: Path | None) -> Any:
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        kind = type(item).__name__
        if KINDS.get(kind) is not type(item):
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
    if not isinstance(kind, str) or not known(kind):
        raise InputError(f"kind must be one of {', '.join(sorted(KINDS))}; got {kind!r}")
    if schema != SCHEMA:
        raise InputError(f"schema must be {SCHEMA}; got {schema!r}: this file needs another version of hardpan")


def _build(value: Any, folder: Path | None) -> Any:
    if isinstance(value, Mapping) and value.get("kind") == "array":
        return _build_array(value, folder)
    if isinstance(value, Mapping) and "kind" in value and "schema" in value:
        _check_header(value)
        cls = KINDS[value["kind"]]
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
