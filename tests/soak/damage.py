"""Ways to damage a file, all decided by one generator, so that a failure names its seed."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Damage bytes without knowing what they mean: flips, cuts, runs of noise, moved and repeated blocks."""
    kind = rng.integers(6)
    block = bytearray(content)
    if kind == 0:
        for place in rng.integers(len(block), size=rng.integers(1, 9)):
            block[place] ^= 1 << int(rng.integers(8))
        return bytes(block)
    start, stop = sorted(int(place) for place in rng.integers(len(block) + 1, size=2))
    if kind == 1:
        return content[:start]
    if kind == 2:
        stop = min(stop, start + 64)
        block[start:stop] = rng.bytes(stop - start)
        return bytes(block)
    if kind == 3:
        return content[:start] + content[stop:]
    if kind == 4:
        return content[:stop] + content[start:]
    return content[:start] + b"\0" * (stop - start) + content[stop:]


def with_damaged_member(content: bytes, rng: np.random.Generator) -> bytes:
    """Damage one array inside an npz and write the archive anew: checksums hold, the reader has to notice."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = str(rng.choice(list(members)))
    if rng.random() < 0.5:
        # The header is where a lie costs most: shape, dtype and order are all in its first 128 bytes.
        head, rest = members[name][:128], members[name][128:]
        members[name] = damaged(head, rng) + rest
    else:
        members[name] = damaged(members[name], rng)
    if rng.random() < 0.1:
        members[str(rng.choice(["x", "y", "x_test", "ids", "class_names", "other.npy"]))] = members[name]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return buffer.getvalue()


def with_damaged_node(text: str, rng: np.random.Generator) -> str:
    """Replace, remove or rename one node of a JSON text; what comes out is JSON still."""
    data = json.loads(text)
    places = list(_places(data))
    for _ in range(int(rng.integers(1, 4))):
        holder, key = places[rng.integers(len(places))]
        value = _VALUES[rng.integers(len(_VALUES))]
        action = rng.integers(4)
        if action == 0 and isinstance(holder, dict):
            holder.pop(key, None)
        elif action == 1 and isinstance(holder, dict) and key in holder:
            holder[str(rng.choice(["kind", "schema", "sha256", "data", "shape", "dtype", "nothing"]))] = holder[key]
        elif isinstance(holder, dict) or key < len(holder):
            holder[key] = value
    return json.dumps(data)


_VALUES: list[Any] = [
    None,
    True,
    -1,
    10**30,
    1e308,
    "",
    "text",
    "array",
    "Estimate",
    "Dataset",
    "0" * 64,
    "../../../etc/passwd",
    "<f8",
    "O",
    "V8",
    [],
    [[]],
    [1, "a", None],
    [-1],
    {},
    {"kind": "array"},
    {"kind": "array", "dtype": "<f8", "shape": [3], "data": [1, 2]},
    {"kind": "array", "dtype": "|O", "shape": [1], "data": [{}]},
    {"kind": ["unhashable"], "schema": 1},
    {"kind": "Interval", "schema": 1},
    {"kind": "Interval", "schema": 1, "low": 0.0, "high": 1.0},
]


def _places(node: Any) -> Any:
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        yield node, key
        if isinstance(value, (dict, list)):
            yield from _places(value)
