"""The header and the columns of a store: written once when it is made, read whenever it is opened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.storage import MemoryStore

from hardpan.errors import InputError
from hardpan.predictions import layout
from hardpan.predictions.layout import Header
from hardpan.predictions.places import Place
from hardpan.predictions.rows import one_line

_COLUMN_ROWS = 65536

# A chunk of nothing but the fill value would not be written, and its marker would have nothing to commit.
WRITE_ALL: Any = {"write_empty_chunks": True}


def write_header(place: Place, header: Header) -> None:
    """Write the root of the store, last: with it the store begins to be."""
    document = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    place.put_json(f"{layout.ROOT}/zarr.json", document)
    place.put_json("zarr.json", document | {"attributes": header.attributes()})


def read_header(place: Place) -> Header | None:
    """The header of the store at a place; None where there is no store."""
    data = place.get("zarr.json")
    if data is None:
        return None
    try:
        content = json.loads(data)
    except ValueError:
        content = None
    if not isinstance(content, Mapping) or not isinstance(content.get("attributes"), Mapping):
        raise InputError(f"{place.where}: zarr.json is damaged; restore it")
    return layout.header_of(place.where, content["attributes"])


def write_columns(place: Place, columns: Mapping[str, NDArray[Any] | None]) -> None:
    """Write ids, labels and split.

    Each is made in memory first, and its objects are put one by one: processes that make the same store at the
    same time write the same bytes over one another's, and never take any away.
    """
    for name, values in columns.items():
        if values is None:
            continue
        made: dict[str, Any] = {}
        chunks, kind = (min(len(values), _COLUMN_ROWS),), np.int64 if name == "labels" else str
        memory = MemoryStore(made)
        array = zarr.create_array(memory, shape=values.shape, chunks=chunks, dtype=kind, config=WRITE_ALL)
        array[:] = values
        for key in sorted(made):
            place.put(f"{name}/{key}", made[key].to_bytes())


def stored_column(place: Place, header: Header, name: str) -> NDArray[Any] | None:
    """Ids, labels or split, checked against the hash in the header; None where the store was made without."""
    wanted = header.hashes.get(name)
    if wanted is None:
        return None
    try:
        values: NDArray[Any] = np.asarray(zarr.open_array(place.store, path=name, mode="r")[:])
        values = values.astype(np.int64) if name == "labels" else np.array(values.tolist(), dtype=np.str_)
    except Exception as error:  # Zarr raises whatever its parts raise on descriptions that make no sense
        raise InputError(f"{place.where}: {name} cannot be read ({one_line(error)}); restore them") from error
    if len(values) != header.examples or layout.text_hash(values) != wanted:
        raise InputError(f"{place.where}: {name} are not those that the store was made with; restore them")
    return values
