"""The objects of a store by their keys, in a folder or at an fsspec address, and the bytes of a shard."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
from numcodecs.blosc import SHUFFLE, Blosc  # type: ignore[import-untyped]
from numpy.typing import NDArray
from zarr.abc.codec import BytesBytesCodec
from zarr.abc.store import ByteRequest, Store, SuffixByteRequest
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import LocalStore, WrapperStore

from hardpan.arguments import as_path
from hardpan.errors import FULL_DISK, InputError, MissingExtra
from hardpan.files import lock, locked, sync_folder, unlock, write_bytes

PathLike = str | os.PathLike[str]
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

    def __init__(self, path: PathLike) -> None:
        as_path("path", path)
        self.where = str(path)
        inner = _zarr_store(os.fspath(path))
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
            sync(self._create_remote(key, b"".join(parts)))

    async def _create_remote(self, key: str, data: bytes) -> None:
        """Write an object only if it does not exist, where the file system can; FileExistsError otherwise."""
        system, root = getattr(self.store._store, "fs", None), str(getattr(self.store._store, "path", ""))
        if system is not None:
            try:
                await system._pipe_file(f"{root}/{key}" if root else key, data, mode="create")
                return
            except (TypeError, NotImplementedError):  # this file system has no conditional write
                pass
        await self.store.set(key, default_buffer_prototype().buffer.from_bytes(data))

    def create_json(self, key: str, content: Any) -> None:
        """Write a small JSON object that must not exist."""
        self.create(key, _json_bytes(content))

    def tails(self, keys: Sequence[str], length: int) -> list[bytes | None]:
        """The last bytes of objects, None where one is missing; elsewhere than in a folder, all at once."""
        if self._root is None:
            return self._get_all(keys, SuffixByteRequest(length))
        result: list[bytes | None] = []
        for key in keys:
            try:
                with open(self._root / key, "rb") as stream:
                    stream.seek(-length, os.SEEK_END)
                    result.append(stream.read())
            except OSError:
                result.append(None)
        return result

    def get_jsons(self, keys: Sequence[str]) -> list[Any]:
        """JSON objects, None where one is missing or damaged; elsewhere than in a folder, all at once."""
        return [_parsed(data) for data in (self._get_all(keys) if self._root is None else map(self.get, keys))]

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
                return sorted(_walk(self._root, prefix.rstrip("/"), without))
            passed = f"/{without}/" if without else "//"
            return sorted(key for key in sync(_listed(self.store.list_prefix(prefix))) if passed not in key)

    def top_names(self) -> list[str]:
        """Names of the files and folders at the root, in order."""
        with self.errors_named("it was listed"):
            if self._root is not None:
                return sorted(os.listdir(self._root))
            return sorted(name.strip("/") for name in sync(_listed(self.store.list_dir(""))))

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


async def _listed(names: AsyncIterator[str]) -> list[str]:
    return [name async for name in names]


def _walk(root: Path, folder: str, without: str) -> Iterator[str]:
    """Keys in a folder of a local store: several times as fast as Zarr's own listing."""
    try:
        entries = list(os.scandir(root / folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if not entry.is_dir(follow_symlinks=True):
            yield f"{folder}/{entry.name}"
        elif entry.name != without:
            yield from _walk(root, f"{folder}/{entry.name}", without)


def _json_bytes(content: Any) -> bytes:
    return (json.dumps(content, ensure_ascii=False) + "\n").encode("utf-8")


def _write_durably(path: Path, *parts: bytes) -> None:
    new = list(takewhile(lambda folder: not folder.exists(), path.parents))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, *parts)
    for folder in new:  # the entries of folders that this call created are made durable, too
        sync_folder(folder.parent)


def _zarr_store(path: str) -> Store:
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


@contextmanager
def locked_storage(path: str, *, shared: bool) -> Iterator[bool]:
    """Lock the folder of a store: shared by the runs that use it, alone to remove it.

    Yields whether it is locked: not an address, nor alone what others use. A killed process leaves no lock.
    """
    handle = None
    with suppress(OSError):
        handle = lock(Path(path), create=False, shared=shared, wait=shared)
    try:
        yield handle is not None
    finally:
        unlock(handle)


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
