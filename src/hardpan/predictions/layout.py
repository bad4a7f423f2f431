"""The layout of a store: names of its objects, its header and its columns.

::

    STORE/zarr.json                                    header in its attributes; written last when a store is made
    STORE/ids  labels  split                           one value per example (labels and split only if known)
    STORE/probabilities/SEED/EPOCH/zarr.json           a Zarr v3 array (examples, classes)
    STORE/probabilities/SEED/EPOCH/c/BLOCK/0           a shard: the rows of one block
    STORE/probabilities/SEED/EPOCH/commit/BLOCK.json   its marker, written last: bytes and sha256

A shard without its marker does not exist. Other seeds, epochs and blocks are other files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError, reason

if TYPE_CHECKING:
    from hardpan.predictions.storage import Storage

KIND, SCHEMA = "predictions", 1
ROOT = "probabilities"
DTYPES = ("float16", "float32")
SHARD_BYTES = (4 * 2**20, 16 * 2**20)  # least (unless an epoch is smaller) and most
_SHARDS = 16
_COLUMN_ROWS = 65536
COLUMNS = ("ids", "labels", "split")
_COLUMN = re.compile(rf"({'|'.join(COLUMNS)})/(zarr\.json|c/\d+)")
_METADATA = re.compile(rf"{ROOT}/\d+/(\d+/)?zarr\.json")
_BLOCKS = {
    "marker": re.compile(rf"{ROOT}/(\d+)/(\d+)/commit/(\d+)\.json"),
    "shard": re.compile(rf"{ROOT}/(\d+)/(\d+)/c/(\d+)/0"),
}


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a store.

    Attributes:
        examples: number of examples.
        classes: number of classes.
        dtype: "float16" or "float32".
        block: rows per shard.
        hashes: sha256 of ids, labels and split, where known.
        class_names: the names; empty if unknown.
        config: what made the predictions.
        versions: of the software that created the store.
    """

    examples: int
    classes: int
    dtype: str
    block: int
    hashes: Mapping[str, str]
    class_names: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """Hash of examples, classes and layout: shards of stores with one identity are compatible."""
        parts = [KIND, self.examples, self.classes, self.dtype, self.block]
        text = json.dumps([*parts, sorted(self.hashes.items()), list(self.class_names)])
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def blocks(self) -> int:
        """Shards per seed and epoch."""
        return -(-self.examples // self.block)


def write_header(storage: Storage, header: Header) -> None:
    """Write the root of the store, last: with it the store exists."""
    document = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    storage.put_json(f"{ROOT}/zarr.json", document)
    attributes = {"hardpan": {"kind": KIND, "schema": SCHEMA, **dataclasses.asdict(header)}}
    storage.put_json("zarr.json", document | {"attributes": attributes})


def read_header(storage: Storage) -> Header | None:
    """The header of the store; None if there is no store."""
    data, where = storage.get("zarr.json"), storage.where
    if data is None:
        return None
    try:
        fields = json.loads(data)["attributes"].get("hardpan")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{where}: zarr.json is damaged; restore it") from error
    if isinstance(fields, Mapping) and fields.get("kind") == "scores":
        raise InputError(
            f"{where}: an earlier version recorded scores only here, no predictions (scalars_only); record again, "
            "fewer epochs where space is short"
        )
    if not isinstance(fields, Mapping) or fields.get("kind") != KIND:
        raise InputError(f"{where}: is a Zarr group, but not a store of predictions")
    if fields.get("schema") != SCHEMA:
        raise InputError(f"{where}: has schema {fields.get('schema')}; this version of hardpan reads {SCHEMA}")
    try:
        header = Header(
            int(fields["examples"]),
            int(fields["classes"]),
            str(fields["dtype"]),
            int(fields["block"]),
            {str(name): str(value) for name, value in fields["hashes"].items()},
            tuple(str(name) for name in fields["class_names"]),
            dict(fields["config"]),
            {str(name): str(value) for name, value in fields["versions"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{where}: the header is damaged ({error}); restore its zarr.json") from error
    if min(header.examples, header.classes, header.block) < 1 or header.dtype not in DTYPES:
        raise InputError(f"{where}: the header is damaged (impossible sizes or type); restore its zarr.json")
    return header


def plain_config(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """The configuration of a header after a round trip through JSON."""
    try:
        return dict(json.loads(json.dumps(dict(config or {}), allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise InputError(f"must consist of JSON values; {error}", argument="config") from error


def write_columns(storage: Storage, columns: Mapping[str, NDArray[Any] | None]) -> None:
    """Write ids, labels and split.

    Each is encoded in memory first and its objects are written one by one: processes that create the same store
    at the same time write the same bytes and never remove any.
    """
    import zarr

    for name, values in columns.items():
        if values is None:
            continue
        made: dict[str, Any] = {}
        chunks, kind = (min(len(values), _COLUMN_ROWS),), np.int64 if name == "labels" else str
        config: Any = {"write_empty_chunks": True}  # a chunk of nothing but the fill value is written, too
        memory = zarr.storage.MemoryStore(made)
        zarr.create_array(memory, shape=values.shape, chunks=chunks, dtype=kind, config=config)[:] = values
        for key in sorted(made):
            storage.put(f"{name}/{key}", made[key].to_bytes())


def stored_column(storage: Storage, header: Header, name: str) -> NDArray[Any] | None:
    """Ids, labels or split, checked against the hash in the header; None if the store has none."""
    import zarr

    expected = header.hashes.get(name)
    if expected is None:
        return None
    try:
        # Version 2 of the format has a codec that unpickles; no store of ours was ever written in it.
        array = zarr.open_array(storage.store, path=name, mode="r", zarr_format=3)
        values: NDArray[Any] = np.asarray(array[:])
        values = values.astype(np.int64) if name == "labels" else np.array(values.tolist(), dtype=np.str_)
    except Exception as error:  # Zarr raises anything on invalid metadata
        raise InputError(f"{storage.where}: {name} cannot be read ({reason(error)}); restore them") from error
    if len(values) != header.examples or column_hash(values) != expected:
        raise InputError(f"{storage.where}: {name} were changed since the store was created; restore them")
    return values


def default_block(examples: int, classes: int, itemsize: int) -> int:
    """Rows per shard: a sixteenth of an epoch, but within 4 to 16 MiB.

    A recorder waits for the last shards of an epoch, for all of them if rows are shuffled. Several small ones are
    ready sooner than one large one, since they are compressed, hashed and written in parallel; very many would
    burden the file system.

    Example:
        >>> [default_block(examples, 1000, 2) for examples in (1_281_167, 50_000, 1000)]
        [8388, 3125, 1000]
    """
    least, most = (size // (classes * itemsize) for size in SHARD_BYTES)
    return max(1, min(examples, most, max(least, -(-examples // _SHARDS))))


def column_hash(values: NDArray[Any]) -> str:
    """Hash of a column, independent of the width of its text and its byte order."""
    digest = hashlib.sha256()
    if values.dtype.kind == "U":
        for start in range(0, len(values), _COLUMN_ROWS):
            text = "\0".join(values[start : start + _COLUMN_ROWS].tolist())
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    else:
        digest.update(np.ascontiguousarray(values, dtype="<i8").tobytes())
    return digest.hexdigest()


def array_path(seed: int, epoch: int) -> str:
    """Key of the array of a seed and epoch."""
    return f"{ROOT}/{seed}/{epoch}"


def block_key(kind: str, seed: int, epoch: int, block: int) -> str:
    """Key of a "shard" or of its "marker".

    Example:
        >>> block_key("shard", 0, 12, 3), block_key("marker", 0, 12, 3)
        ('probabilities/0/12/c/3/0', 'probabilities/0/12/commit/3.json')
    """
    return array_path(seed, epoch) + (f"/c/{block}/0" if kind == "shard" else f"/commit/{block}.json")


def parse_block_key(kind: str, key: str) -> tuple[int, int, int] | None:
    """The seed, epoch and block of the key of a "shard" or of its "marker"; None for any other key."""
    match = _BLOCKS[kind].fullmatch(key)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def is_metadata(key: str) -> bool:
    """Whether this is the metadata of a seed, or of a seed and epoch."""
    return _METADATA.fullmatch(key) is not None


def column_of(key: str) -> str | None:
    """The column that a key belongs to; None for any other key.

    Example:
        >>> column_of("labels/c/0"), column_of("labels/notes.txt")
        ('labels', None)
    """
    result = _COLUMN.fullmatch(key)
    return result[1] if result else None
