"""Results as JSON.

A result is a frozen dataclass created by :func:`record`. Its JSON has ``kind`` (mostly the class name), ``schema``
and the hardpan version; NaN and infinities become null; arrays are lists, those of more than 1,000 numbers go into
an npz file beside the JSON, named by the sha256 of their content (:func:`save`, :func:`load`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import io
import itertools
import json
import math
import os
import re
import sys
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast, dataclass_transform

import numpy as np
from numpy.typing import NDArray

import hardpan
from hardpan.arguments import as_path
from hardpan.errors import InputError
from hardpan.files.reading import read_json, read_npz
from hardpan.files.writing import write_bytes, write_text

INLINE_NUMBERS = 1000
LONG_TEXT = 1 << 24  # letters of JSON from which no line breaks are put between numbers

KINDS: dict[str, type[Any]] = {}
_KIND_OF: dict[type[Any], str] = {}
_DROPPED: dict[type[Any], frozenset[str]] = {}
TRANSIENT: Mapping[str, bool] = {"transient": True}
"""Metadata of a dataclass field that is not written to JSON (arrays and images that are saved elsewhere)."""
R = TypeVar("R")
SCHEMA = 1
HEADER = ("kind", "schema", "hardpan", "headline")  # keys that are no fields; the headline is for readers


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
    if kind not in KINDS and kind in kinds():
        with contextlib.suppress(ImportError):
            importlib.import_module(kinds()[kind])
    return KINDS.get(kind)


@functools.cache
def kinds() -> dict[str, str]:
    """The module of every kind of record."""
    return cast(
        dict[str, str],
        json.loads((Path(hardpan.__file__).parent / "record_kinds.json").read_text(encoding="utf-8")),
    )


def is_record(cls: type[Any]) -> bool:
    """Whether a class was made by :func:`record`."""
    return cls in _KIND_OF


def kind_of(cls: type[Any]) -> str:
    """The kind of a record in JSON; the name of any other class."""
    return _KIND_OF.get(cls, cls.__name__)


def to_json(item: Any, folder: Path | None = None) -> dict[str, Any]:
    """A record as plain JSON values, arrays inline; large ones beside it where there is a folder.

    Example:
        >>> from hardpan.estimates import Interval
        >>> to_json(Interval(0.1, float("inf")))["high"] is None
        True
    """
    return cast(dict[str, Any], _json_value(item, folder))


def from_json(data: Mapping[str, Any], folder: Path | None = None) -> Any:
    """Read back what :func:`to_json` or :func:`save` wrote; ``folder`` is where the arrays lie."""
    _check_record_header(data)
    return _from_json_value(data, folder)


def save(item: Any, path: str | os.PathLike[str]) -> Path:
    """Write a record as JSON, large arrays beside it; the JSON comes last and in one step."""
    path = as_path("path", path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json_text(to_json(item, path.parent)) + "\n")
    return path


def load(path: str | os.PathLike[str]) -> Any:
    """Read a record that :func:`save` wrote, and check its arrays against their hashes."""
    path = as_path("path", path)
    data = read_json(path)
    if not isinstance(data, dict):
        raise InputError(f"{path}: is not a record; expected a JSON object with 'kind' and 'schema'")
    return from_json(data, path.parent)


def json_text(item: Any) -> str:
    """JSON text of a record or of plain values, with stable layout; refuses NaN, which is not JSON."""
    data = to_json(item) if dataclasses.is_dataclass(item) else item
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    if len(text) < LONG_TEXT:
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
        return header | {f.name: _field_value(item, f.name, folder) for f in fields}
    if isinstance(item, np.ndarray):
        if folder is not None and item.size > INLINE_NUMBERS:
            return _array_beside(item, folder)
        return {
            "kind": "array",
            "dtype": item.dtype.str,
            "shape": list(item.shape),
            "data": _numbers(item.ravel()),
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


def _field_value(item: Any, name: str, folder: Path | None) -> Any:
    """The JSON of a field; an array is a list where the type of the field gives the array back."""
    value = getattr(item, name)
    if not isinstance(value, np.ndarray) or (folder is not None and value.size > INLINE_NUMBERS):
        return _json_value(value, folder)
    cls: Any = type(item)
    dtype = _array_type(field_types(cls)[name])
    same = dtype is not None and (value.dtype == dtype or value.dtype.kind == dtype.kind == "U")
    listed = same and bool(value.size or value.ndim == 1)
    return _numbers(value) if listed else _json_value(value, folder)


def _numbers(item: NDArray[Any]) -> Any:
    """An array as lists, without a look at each number where all can be written."""
    plain = item.dtype.kind in "biuU" or (item.dtype.kind == "f" and bool(np.isfinite(item).all()))
    return item.tolist() if plain else _json_value(item.tolist(), None)


@functools.cache
def _array_type(kind: Any) -> np.dtype[Any] | None:
    """The type of the numbers of a field that is an array, None of another field or of an array of anything."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return next(filter(None, map(_array_type, typing.get_args(kind))), None)
    inner = typing.get_args(kind)
    scalar = typing.get_args(inner[1]) if typing.get_origin(kind) is np.ndarray and len(inner) == 2 else ()
    return np.dtype(scalar[0]) if scalar and isinstance(scalar[0], type) else None


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
        raise InputError(f"must be one of {', '.join(kinds())}; got {kind!r}", argument="kind")
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


def _build_record(cls: Any, fields: dict[str, Any]) -> Any:
    for name, value in fields.items():
        kind = field_types(cls)[name]
        if isinstance(value, tuple) and (dtype := _array_type(kind)) is not None:
            fields[name] = value = _array_of_lists(value, dtype)
        # JSON has no NaN: a null in a required float field was a number that could not be written.
        if kind is float and value is None:
            fields[name] = math.nan
        elif not _fits_record(value, kind):
            got = repr(value) if isinstance(value, (str, int, float, bool)) else type(value).__name__
            raise InputError(
                f"record is damaged: {cls.__name__} has {got[:60]} as {name}; give it as hardpan wrote it"
            )
    try:
        return cls(**fields)
    except InputError:
        raise
    except (TypeError, ValueError, AttributeError, LookupError) as error:  # checks met a damaged field
        raise InputError(f"record is incomplete or damaged: {error}") from error


@functools.cache
def field_types(cls: Any) -> dict[str, Any]:
    """The types of a record's fields; Any for those whose names only type checkers import."""
    field_types = dict.fromkeys((f.name for f in dataclasses.fields(cls)), cast(Any, Any))
    for base in reversed(cls.__mro__):
        for name in field_types.keys() & vars(base).get("__annotations__", {}).keys():
            field = types.SimpleNamespace(__annotations__={name: vars(base)["__annotations__"][name]})
            with contextlib.suppress(NameError):
                field_types |= typing.get_type_hints(field, vars(sys.modules[base.__module__]))
    return field_types


def _fits_record(value: Any, kind: Any) -> bool:
    """Whether a value read from JSON can be of an annotated type; what is not known to JSON may be anything.

    Example:
        >>> _fits_record((1, 2.5, None), tuple[float, ...]), _fits_record("a", float), _fits_record(True, int)
        (True, False, False)
    """
    inner, origin = typing.get_args(kind), typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_fits_record(value, item) for item in inner)
    if origin is tuple and isinstance(value, tuple):
        items = itertools.repeat(inner[0]) if inner[1:] == (...,) else inner
        return (inner[1:] == (...,) or len(inner) == len(value)) and all(map(_fits_record, value, items))
    if origin in (Mapping, dict) and isinstance(value, Mapping) and not dataclasses.is_dataclass(value):
        return all(_fits_record(item, inner[1]) for item in value.values())
    if origin in (tuple, Mapping, dict, np.ndarray):
        return origin is np.ndarray and isinstance(value, np.ndarray)
    if kind is float:
        return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind in (str, bool):
        return isinstance(value, kind)
    return isinstance(value, kind) if kind is type(None) or kind in _KIND_OF else True


def _build_array(value: Mapping[str, Any], folder: Path | None) -> NDArray[Any]:
    if "sha256" not in value:
        return _build_inline_array(value)
    if not re.fullmatch(r"[0-9a-f]{64}", str(value["sha256"])):
        raise InputError(f"array name must be a sha256 in hexadecimal; got {value['sha256']!r}")
    if folder is None:
        raise InputError(f"array {value['sha256'][:16]} is in a file beside the JSON; use hardpan.files.load")
    path = folder / f"{value['sha256']}.npz"
    item = read_npz(path).get("data")
    if item is None or array_hash(item) != value["sha256"]:
        raise InputError(f"{path}: content does not match its name; the file was changed")
    return item


def _array_of_lists(value: tuple[Any, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    def numbers(item: Any) -> Any:
        if isinstance(item, tuple):
            return [numbers(inner) for inner in item]
        return math.nan if item is None else item

    try:
        return np.array(numbers(value), dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"an array in the record is damaged ({error}); give a file that hardpan wrote") from error


def _build_inline_array(value: Mapping[str, Any]) -> NDArray[Any]:
    try:
        dtype = np.dtype(value["dtype"])
        if dtype.hasobject:
            raise TypeError("it claims to hold Python objects")
        data = [math.nan if item is None else item for item in value["data"]]
        return np.array(data, dtype=dtype).reshape(value["shape"])
    except (KeyError, TypeError, ValueError, OverflowError, SyntaxError, MemoryError) as error:
        raise InputError(f"an array in the record is damaged ({error}); give a file that hardpan wrote") from error
