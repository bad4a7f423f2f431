"""The objects of a store, in a folder or at an fsspec address: header, columns, shards."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import zarr
from numcodecs.blosc import SHUFFLE, Blosc  # type: ignore[import-untyped]
from numpy.typing import NDArray
from zarr.abc.codec import BytesBytesCodec
from zarr.abc.store import ByteRequest, Store, SuffixByteRequest
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import LocalStore, MemoryStore, WrapperStore

from hardpan.arguments import as_path
from hardpan.errors import FULL_DISK, InputError, MissingExtra, reason
from hardpan.files import locked, sync_folder, write_bytes
from hardpan.predictions import layout
from hardpan.predictions.layout import Header

PathLike = str | os.PathLike[str]
_COLUMN_ROWS = 65536
_BLOSC = Blosc(cname="lz4", clevel=1, shuffle=SHUFFLE)
# A chunk of nothing but the fill value would not be written, and its marker would have nothing to commit.
WRITE_ALL: Any = {"write_empty_chunks": True}
# Packages under fsspec whose errors for an unreachable or refusing server are not OSErrors.
_REMOTE = ("aiobotocore", "aiohttp", "azure", "botocore", "gcsfs", "google")


class DurableStore(WrapperStore[Store]):
    """A Zarr store that writes into folders durably."""

    async def set(self, key: str, value: Buffer) -> None:
        """Write one object: in a folder completely or not at all, also after a power failure."""
        if isinstance(self._store, LocalStore):
            await asyncio.to_thread(_write_durably, self._store.root / key, value.to_bytes())
        else:
            await self._store.set(key, value)


class Storage:
    """The objects of one store, by key: read, written, listed, removed."""

    def __init__(self, path: PathLike | Store) -> None:
        if not isinstance(path, Store):
            as_path("path", path)
        self.where = str(path)
        inner = path if isinstance(path, Store) else _zarr_store(os.fspath(path))
        self.store = DurableStore(inner)
        self._root = inner.root if isinstance(inner, LocalStore) else None

    @property
    def is_folder(self) -> bool:
        """Whether the objects are files in a folder."""
        return self._root is not None

    @property
    def address(self) -> str:
        """The path from the root of the file system, or the address as it was given."""
        return self.where if self._root is None else str(self._root.absolute())

    def get(self, key: str) -> bytes | None:
        """The bytes under a key, or None."""
        if self._root is not None and not self._root.is_dir():
            return None  # Zarr creates a folder when it looks into a missing one
        with self.errors_named(f"{key} was read"):
            if self._root is not None:
                try:
                    return (self._root / key).read_bytes()
                except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                    return None
            buffer = sync(self.store.get(key, default_buffer_prototype()))
        return None if buffer is None else buffer.to_bytes()

    def put(self, key: str, *parts: bytes) -> None:
        """Write bytes, concatenated, under a key, completely or not at all."""
        with self.errors_named(f"{key} was written"):
            if self._root is not None:
                _write_durably(self._root / key, *parts)
            else:
                sync(self.store.set(key, default_buffer_prototype().buffer.from_bytes(b"".join(parts))))

    @contextmanager
    def exclusive(self, key: str) -> Iterator[None]:
        """Hold the folder of a key against other writers, in this process and others; in a folder only."""
        if self._root is None:
            yield
            return
        folder = (self._root / key).parent
        with self.errors_named(f"{key} was written"):
            folder.mkdir(parents=True, exist_ok=True)
        with locked(folder, create=False):
            yield

    def create(self, key: str, *parts: bytes) -> None:
        """Write bytes under a key that must not exist; a store without conditional writes overwrites.

        In a folder the caller holds the lock of :meth:`exclusive`.
        """
        if self._root is not None:
            self.put(key, *parts)
            return
        with self.errors_named(f"{key} was written"):
            sync(_create_remote(self.store, key, b"".join(parts)))

    def create_json(self, key: str, content: Any) -> None:
        """Write a small JSON object that must not exist."""
        self.create(key, _json_bytes(content))

    def tails(self, keys: Sequence[str], length: int) -> list[bytes | None]:
        """The last bytes of objects, None where one is missing; elsewhere than in a folder, all at once."""
        if self._root is not None:
            return [_tail(self._root / key, length) for key in keys]
        return self._get_all(keys, SuffixByteRequest(length))

    def get_jsons(self, keys: Sequence[str]) -> list[Any]:
        """JSON objects, None where one is missing or damaged; elsewhere than in a folder, all at once."""
        if self._root is not None:
            return [self.get_json(key) for key in keys]
        return [_parsed(data) for data in self._get_all(keys)]

    def _get_all(self, keys: Sequence[str], byte_range: ByteRequest | None = None) -> list[bytes | None]:
        async def get_all() -> list[Buffer | None]:
            buffer = default_buffer_prototype()
            return list(await asyncio.gather(*(self.store.get(key, buffer, byte_range) for key in keys)))

        with self.errors_named(f"{keys[0]} was read"):
            return [None if item is None else item.to_bytes() for item in sync(get_all())]

    def put_json(self, key: str, content: Any) -> None:
        """Write a small JSON object under a key."""
        self.put(key, _json_bytes(content))

    def get_json(self, key: str) -> Any:
        """A JSON object; None if it is missing or damaged."""
        return _parsed(self.get(key))

    def keys(self, prefix: str, without: str = "") -> list[str]:
        """All keys in a folder, in order; folders named ``without`` are skipped."""
        with self.errors_named("it was listed"):
            if self._root is not None:
                return sorted(name for name, _ in _walk(self._root, prefix, without))
            passed = f"/{without}/" if without else "//"
            return sorted(key for key in sync(self._listed(prefix)) if passed not in key)

    def top_names(self) -> list[str]:
        """Names of the files and folders at the root, in order."""
        with self.errors_named("it was listed"):
            if self._root is not None:
                return sorted(os.listdir(self._root))
            return sorted(name.strip("/") for name in sync(self._top()))

    async def _top(self) -> list[str]:
        return [name async for name in self.store.list_dir("")]

    async def _listed(self, prefix: str) -> list[str]:
        return [key async for key in self.store.list_prefix(prefix)]

    def remove(self, key: str) -> None:
        """Remove one object; it need not be there."""
        with self.errors_named(f"{key} was removed"):
            sync(self.store.delete(key))

    @contextmanager
    def errors_named(self, doing: str) -> Iterator[None]:
        """Make one sentence of a full disk, a missing right or a server that does not answer."""
        try:
            yield
        except OSError as error:
            if error.errno in FULL_DISK:
                raise InputError(
                    f"{self.where}: the disk is full ({error.strerror}) while {doing}; what was committed before "
                    "is safe: free some space and run the same again"
                ) from error
            reason = error.strerror or str(error)
            raise InputError(f"{self.where}: failed while {doing} ({reason}); check path and rights") from error
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in _REMOTE:
                raise
            reason = " ".join(str(error).split())
            raise InputError(f"{self.where}: failed while {doing} ({reason}); check address and rights") from error


def _parsed(data: bytes | None) -> Any:
    try:
        return None if data is None else json.loads(data)
    except (ValueError, RecursionError):
        return None


def _tail(path: Path, length: int) -> bytes | None:
    try:
        with open(path, "rb") as stream:
            stream.seek(-length, os.SEEK_END)
            return stream.read()
    except OSError:
        return None


def _walk(root: Path, prefix: str, without: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Files in a folder of a local store, with their keys: several times as fast as Zarr's own listing."""
    folder = prefix.rstrip("/")
    try:
        entries = list(os.scandir(root / folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=True):
            if entry.name != without:
                yield from _walk(root, f"{folder}/{entry.name}", without)
        else:
            yield f"{folder}/{entry.name}", entry


def _json_bytes(content: Any) -> bytes:
    return (json.dumps(content, ensure_ascii=False) + "\n").encode("utf-8")


async def _create_remote(store: Any, key: str, data: bytes) -> None:
    """Write an object only if it does not exist, where the file system can; FileExistsError otherwise."""
    inner = getattr(store, "_store", store)
    system, root = getattr(inner, "fs", None), str(getattr(inner, "path", ""))
    if system is not None:
        try:
            await system._pipe_file(f"{root}/{key}" if root else key, data, mode="create")
        except (TypeError, NotImplementedError):  # this file system has no conditional write
            pass
        else:
            return
    await store.set(key, default_buffer_prototype().buffer.from_bytes(data))


def _write_durably(path: Path, *parts: bytes) -> None:
    new = list(takewhile(lambda folder: not folder.exists(), path.parents))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, *parts)
    for folder in new:  # the entries of folders that this call created are made durable, too
        sync_folder(folder.parent)


def _zarr_store(path: str) -> Store:
    if path.startswith("file://"):
        path = path.removeprefix("file://")
    if "://" not in path:
        return LocalStore(Path(path))
    from zarr.storage import FsspecStore

    try:
        return _remembering_no_listing(FsspecStore.from_url(path))
    except ImportError as error:
        package = getattr(error, "name", None) or str(error)
        raise MissingExtra(f"the fsspec package for {path.partition(':')[0]}:// ({package})", "remote") from error
    except ValueError as error:
        raise InputError(f"{path}: {error}; give a folder or an address that fsspec knows") from error


def _remembering_no_listing(store: Any) -> Store:
    """Switch off fsspec's memory of listings.

    File systems such as s3fs look an object up in its folder as they listed it once, while the process lives. An
    object that another process wrote since then seems to be missing.
    """
    pending: list[Any] = [store.fs]
    while pending:
        system = pending.pop()
        listings: Any = getattr(system, "dircache", None)
        if hasattr(listings, "use_listings_cache"):
            listings.use_listings_cache = False
            listings.clear()
        # Wrappers hold the file system that they wrap under one of these names.
        pending += [inner for name in ("sync_fs", "fs") if (inner := vars(system).get(name)) is not None]
    result: Store = store
    return result


def write_header(storage: Storage, header: Header) -> None:
    """Write the root of the store, last: with it the store exists."""
    document = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    storage.put_json(f"{layout.ROOT}/zarr.json", document)
    storage.put_json("zarr.json", document | {"attributes": header.attributes()})


def read_header(storage: Storage) -> Header | None:
    """The header of the store; None if there is no store."""
    data = storage.get("zarr.json")
    if data is None:
        return None
    try:
        content = json.loads(data)
    except ValueError:
        content = None
    if not isinstance(content, Mapping) or not isinstance(content.get("attributes"), Mapping):
        raise InputError(f"{storage.where}: zarr.json is damaged; restore it")
    return layout.header_of(storage.where, content["attributes"])


def write_columns(storage: Storage, columns: Mapping[str, NDArray[Any] | None]) -> None:
    """Write ids, labels and split.

    Each is encoded in memory first and its objects are written one by one: processes that create the same store
    at the same time write the same bytes and never remove any.
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
            storage.put(f"{name}/{key}", made[key].to_bytes())


def stored_column(storage: Storage, header: Header, name: str) -> NDArray[Any] | None:
    """Ids, labels or split, checked against the hash in the header; None if the store has none."""
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
    if len(values) != header.examples or layout.text_hash(values) != expected:
        raise InputError(f"{storage.where}: {name} were changed since the store was created; restore them")
    return values


def compressors() -> list[BytesBytesCodec]:
    """The codecs of :func:`encoded`, for Zarr's metadata."""
    return [BloscCodec(cname="lz4", clevel=1, shuffle="shuffle"), Crc32cCodec()]


def encoded(rows: NDArray[Any], block: int) -> tuple[bytes, bytes]:
    """Compress the rows (n, C) of a block; returns the bytes and their checksum, which follows them.

    Zarr would give the same bytes. It adds checksums in one thread for the whole process, with a copy of every
    shard, so that shards which are written at the same time would wait for one another.

    Args:
        rows: the rows; the last block of an epoch may have fewer than ``block``.
        block: rows per shard; missing rows are filled with zeros.
    """
    whole = np.ascontiguousarray(rows)
    if len(rows) < block:
        whole = np.zeros((block, rows.shape[1]), dtype=rows.dtype)
        whole[: len(rows)] = rows
    packed = bytes(_BLOSC.encode(whole))
    return packed, google_crc32c.value(packed).to_bytes(4, "little")
