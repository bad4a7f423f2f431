"""JSON Schemas of records, from the types of their fields: what :func:`hardpan.files.to_json` writes."""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hardpan.errors import InputError
from hardpan.files import records

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: Mapping[Any, dict[str, Any]] = {
    float: {"type": ["number", "null"]},  # NaN and infinities are null
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    str: {"type": "string"},
    Path: {"type": "string"},
    type(None): {"type": "null"},
    np.ndarray: {"type": ["array", "object"]},  # lists, or an object of kind "array"
}


def json_schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of a kind of record, with those that its fields hold under ``$defs``.

    Args:
        kind: as in the JSON, such as "Audit".

    Example:
        >>> schema = json_schema("Interval")
        >>> schema["$defs"]["Interval"]["properties"]["low"]
        {'type': ['number', 'null']}
    """
    known = records.record_class(kind)
    if known is None:
        close = difflib.get_close_matches(kind, records.kinds(), 3, 0.4) or sorted(records.kinds())[:10]
        raise InputError(f"must be the kind of a report, such as {', '.join(close)}; got {kind!r}", argument="kind")
    definitions: dict[str, Any] = {}
    reference = _schema_of_type(known, definitions)
    return {"$schema": DRAFT, "title": kind, **reference, "$defs": definitions}


def all_schemas() -> dict[str, Any]:
    """One JSON Schema with every kind of record under ``$defs``; kinds whose extra is not installed are missing."""
    definitions: dict[str, Any] = {}
    for kind in records.kinds():
        if (known := records.record_class(kind)) is not None:
            _schema_of_type(known, definitions)
    return {"$schema": DRAFT, "title": "Records of hardpan", "$defs": dict(sorted(definitions.items()))}


def _schema_of_type(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; of one that JSON does not know, anything."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema_of_type(item, definitions) for item in inner]}
    if origin is typing.Literal:
        return {"enum": list(inner)}
    if origin is np.ndarray or hint in _PLAIN:
        return dict(_PLAIN[origin or hint])
    if origin is tuple and inner[1:] != (...,):
        items = [_schema_of_type(item, definitions) for item in inner]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema_of_type(inner[1], definitions)}
    if origin is not None and isinstance(origin, type) and inner and origin is not type:
        return {"type": "array", "items": _schema_of_type(inner[0], definitions)}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        name = records.kind_of(hint)
        if name not in definitions:
            definitions[name] = {}  # a record may hold others of its kind
            definitions[name] = _schema_of_fields(hint, definitions)
        return {"$ref": f"#/$defs/{name}"}
    return {}


def _schema_of_fields(cls: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The object of a dataclass: its header, where it is a record, and the fields that are written."""
    hints = records.field_types(cls)
    fields = {item.name: hints[item.name] for item in dataclasses.fields(cls) if not item.metadata.get("transient")}
    header: dict[str, Any] = {}
    if records.is_record(cls):
        header = {"kind": {"const": records.kind_of(cls)}, "schema": {"const": records.SCHEMA}}
        header |= {"hardpan": {"type": "string"}}
    properties = header | {name: _schema_of_type(hint, definitions) for name, hint in fields.items()}
    described = (cls.__doc__ or "").strip().partition("\n")[0]
    return {
        "description": described,
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
