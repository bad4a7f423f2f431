"""Predictions in a store on disk: owned shards, each committed by a marker that is written last."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import zarr
from numpy.typing import ArrayLike, NDArray
from zarr.errors import ContainsArrayError, ContainsGroupError

import hardpan
from hardpan.arguments import one_of, whole_number
from hardpan.errors import InputError, few, reason
from hardpan.predictions import layout
from hardpan.predictions.checks import LARGEST, check_rows, checked_columns
from hardpan.predictions.layout import Header
from hardpan.predictions.storage import WRITE_ALL, Storage, compressors, encoded

PathLike = str | os.PathLike[str]
_WRITERS = 4


class Store:
    """A store on disk or at an fsspec address, to read from and to write to.

    What is committed is listed on opening; :meth:`refresh` lists it again.
    """

    outputs = "probabilities"
    array = None  # everything has to be read

    def __init__(self, storage: Storage, header: Header) -> None:
        self.storage, self.header, self.where = storage, header, storage.where
        self.class_names, self.n_classes = header.class_names, header.classes
        self.dtype, self.block = np.dtype(header.dtype), header.block
        self.config, self.versions = header.config, header.versions
        self._columns: dict[str, Any] = {}
        self._names: dict[int, str] | None = None
        self._arrays: dict[tuple[int, int], Any] = {}
        self._lock = threading.Lock()
        self._markers: dict[tuple[int, int], set[int]] = {}
        self._checked_shards: set[tuple[int, int, int]] = set()
        self.refresh()

    @property
    def address(self) -> str:
        """Absolute path or address: valid in another process with another working folder."""
        return self.storage.address

    def column(self, name: str) -> Any:
        """Ids, labels or split, shape (N,), or None."""
        if name not in self._columns:
            self._columns[name] = layout.stored_column(self.storage, self.header, name)
        return self._columns[name]

    def __len__(self) -> int:
        return self.header.examples

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process a store is opened again."""
        return open_store, (self.address,)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds with at least one complete epoch, in order."""
        return tuple(sorted({seed for seed, epoch in self._markers if self.committed(seed, epoch)}))

    def epochs_of(self, seed: int) -> tuple[int, ...]:
        """The complete epochs of one seed, in order."""
        return tuple(sorted(epoch for its, epoch in self._markers if its == seed and self.committed(seed, epoch)))

    def committed(self, seed: int, epoch: int) -> bool:
        """Whether the predictions of this seed and epoch are complete."""
        return len(self._markers.get((seed, epoch), ())) == self.header.blocks

    def model_names(self) -> Mapping[int, str]:
        """Names of the seeds that are models with names of their own."""
        if self._names is None:
            self._names = {}
            for seed in self.seeds:
                group = self.storage.get_json(f"{layout.ROOT}/{seed}/zarr.json")
                name = group.get("attributes", {}).get("model") if isinstance(group, dict) else None
                if isinstance(name, str):
                    self._names[seed] = name
        return self._names

    def name_model(self, seed: int, name: str) -> None:
        """Say that a seed is a model with a name of its own."""
        document = {"zarr_format": 3, "node_type": "group", "attributes": {"model": name}}
        self.storage.put_json(f"{layout.ROOT}/{seed}/zarr.json", document)
        self._names = None

    def committed_blocks(self, seed: int, epoch: int) -> frozenset[int]:
        """The blocks of this seed and epoch that are committed."""
        return frozenset(self._markers.get((seed, epoch), ()))

    def partial(self) -> dict[tuple[int, int], int]:
        """Seeds and epochs of which some blocks are committed, but not all: how many are."""
        return {
            pair: len(blocks) for pair, blocks in sorted(self._markers.items()) if len(blocks) < self.header.blocks
        }

    def refresh(self) -> None:
        """List again what is committed: other processes may have written since."""
        markers: dict[tuple[int, int], set[int]] = {}
        for key in self.storage.keys(layout.ROOT + "/", without="c"):
            result = layout.parse_block_key("marker", key)
            if result is not None and result[2] < self.header.blocks:
                markers.setdefault(result[:2], set()).add(result[2])
        self._markers = markers

    def write(self, seed: int, epoch: int, probs: ArrayLike, start: int = 0) -> None:
        """Record rows start.. of one seed and epoch; see :meth:`hardpan.Predictions.write`."""
        whole_number("seed", seed, most=LARGEST)
        whole_number("epoch", epoch, most=LARGEST)
        rows = np.asarray(probs)
        if rows.ndim != 2 or rows.shape[1] != self.n_classes or rows.dtype.kind != "f":
            raise InputError(
                f"must be real numbers of shape (n, {self.n_classes}); got {rows.dtype} of shape {rows.shape}",
                argument="probs",
            )
        end = start + len(rows)
        if start % self.block or start < 0 or end > len(self) or (end % self.block and end != len(self)):
            raise InputError(
                f"rows {start}..{end} do not fill whole shards of {self.block} rows out of {len(self)}; "
                "give whole blocks, or use hardpan.Recorder, which takes rows in any order"
            )
        rows = rows.astype(self.dtype, copy=False)
        what = f"{self.where}: seed {seed} epoch {epoch}"
        remedy = "give probabilities: of logits their softmax"
        check_rows(what, rows, lambda row: str(self.column("ids")[start + row]), remedy=remedy)
        firsts = range(0, len(rows), self.block)

        def write(first: int) -> None:
            self.write_block(seed, epoch, (start + first) // self.block, rows[first : first + self.block])

        # A few at once: one is hashed while another waits for the disk.
        with ThreadPoolExecutor(_WRITERS) as writers:
            list(writers.map(write, firsts))

    def write_block(self, seed: int, epoch: int, block: int, rows: NDArray[Any]) -> None:
        """Write and commit the checked rows of one block, in the type of the store."""
        if block in self._markers.get((seed, epoch), ()):
            begin = block * self.block
            if not np.array_equal(self._array(seed, epoch)[begin : begin + len(rows)], rows):
                raise self._conflict_error(seed, epoch)
            return
        self.make_room(seed, epoch)
        packed, checksum = encoded(rows, self.block)
        digest = hashlib.sha256(packed)
        digest.update(checksum)
        marker = {"store": self.header.identity, "seed": seed, "epoch": epoch, "block": block, "rows": len(rows)}
        marker |= {"bytes": len(packed) + len(checksum), "sha256": digest.hexdigest(), "crc32c": checksum.hex()}
        shard, commit = (layout.block_key(kind, seed, epoch, block) for kind in ("shard", "marker"))
        with self.storage.exclusive(shard):
            there = self.storage.get_json(commit)  # another process may have committed this block since
            if there is None:
                replaced = self._put_shard(shard, packed, checksum)
                try:
                    self.storage.create_json(commit, marker)
                except InputError:  # a conditional write that came second
                    if self.storage.get_json(commit) is None:
                        raise
                there = self.storage.get_json(commit)
                if replaced is not None and isinstance(there, Mapping) and there.get("sha256") != marker["sha256"]:
                    if hashlib.sha256(replaced).hexdigest() == there.get("sha256"):
                        self.storage.put(shard, replaced)  # another writer committed what this one replaced
                    else:  # it committed between this one's look and write: what neither wrote whole is not there
                        self.uncommit(seed, epoch, block)
        if not isinstance(there, Mapping) or there.get("sha256") != marker["sha256"]:
            raise self._conflict_error(seed, epoch)
        with self._lock:
            self._markers.setdefault((seed, epoch), set()).add(block)

    def _put_shard(self, shard: str, packed: bytes, checksum: bytes) -> bytes | None:
        """Write a shard without a marker; gives what it replaced: of a killed process, or of another writer."""
        if self.storage.is_folder:  # nobody else writes here now
            self.storage.put(shard, packed, checksum)
            return None
        replaced = self.storage.get(shard)
        if replaced is None:
            try:
                self.storage.create(shard, packed, checksum)
                return None
            except InputError:  # a conditional write that came second
                replaced = self.storage.get(shard)
                if replaced is None:
                    raise
        if replaced != packed + checksum:
            self.storage.put(shard, packed, checksum)
        return replaced

    def _conflict_error(self, seed: int, epoch: int) -> InputError:
        return InputError(
            f"{self.where}: seed {seed} epoch {epoch} is already recorded with other numbers; record under another "
            "seed (--seeds), or into another store"
        )

    def make_room(self, seed: int, epoch: int) -> None:
        """Create the array of a seed and epoch, without rows, if it does not exist."""
        with self.storage.errors_named(f"{layout.array_path(seed, epoch)} was written"):
            self._array(seed, epoch, make=True)

    def uncommit(self, seed: int, epoch: int, block: int) -> None:
        """Remove the marker of one block: it counts as never written."""
        self.storage.remove(layout.block_key("marker", seed, epoch, block))
        with self._lock:
            self._markers.get((seed, epoch), set()).discard(block)
            self._checked_shards.discard((seed, epoch, block))

    def read_rows(self, seed: int, epoch: int, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop of a complete epoch; shards are checked against their markers."""
        rows = self.read_block(seed, epoch, start, stop)
        self._check_shards(seed, epoch, range(start // self.block, -(-stop // self.block) if start < stop else 0))
        return rows

    def read_block(self, seed: int, epoch: int, start: int, stop: int) -> NDArray[Any]:
        """Read rows whether or not the whole epoch is committed, and whether or not it is what was committed."""
        try:
            rows: NDArray[Any] = self._array(seed, epoch)[start:stop]
        except Exception as error:  # Zarr raises anything on invalid metadata
            raise self._damaged_error(seed, epoch, reason(error)) from error
        # Zarr reads zeros where a shard is missing, and no row of probabilities is all zeros.
        for first in range(start - start % self.block, stop, self.block):
            if len(rows) and not rows[max(first - start, 0)].any():
                raise self._damaged_error(seed, epoch, f"block {first // self.block} is missing")
        return rows

    def _check_shards(self, seed: int, epoch: int, blocks: Iterable[int]) -> None:
        """Refuse a whole shard that is not the one of its marker; Zarr checks only that it is whole."""
        blocks = [block for block in blocks if (seed, epoch, block) not in self._checked_shards]
        if not blocks:
            return
        markers = self.storage.get_jsons([layout.block_key("marker", seed, epoch, block) for block in blocks])
        shards = [layout.block_key("shard", seed, epoch, block) for block in blocks]
        for block, marker, shard, tail in zip(blocks, markers, shards, self.storage.tails(shards, 4), strict=True):
            if not isinstance(marker, Mapping) or tail is None:
                raise self._damaged_error(seed, epoch, f"the marker or the shard of block {block} cannot be read")
            if "crc32c" in marker:
                same = marker["crc32c"] == tail.hex()
            else:  # a store of an earlier version
                same = marker.get("sha256") == hashlib.sha256(self.storage.get(shard) or b"").hexdigest()
            if not same:
                raise self._damaged_error(seed, epoch, f"block {block} is not the shard that was committed")
            self._checked_shards.add((seed, epoch, block))

    def _damaged_error(self, seed: int, epoch: int, reason: str) -> InputError:
        return InputError(
            f"{self.where}: seed {seed} epoch {epoch} is damaged ({reason}); "
            f"run: hardpan predictions check {self.where}"
        )

    def _array(self, seed: int, epoch: int, make: bool = False) -> Any:
        with self._lock:
            if (seed, epoch) not in self._arrays:
                array = (self._make_array if make else self._open_array)(seed, epoch)
                if len(self._arrays) > 64:
                    self._arrays.clear()
                self._arrays[seed, epoch] = array
            return self._arrays[seed, epoch]

    def _open_array(self, seed: int, epoch: int) -> Any:
        path = layout.array_path(seed, epoch)
        return zarr.open_array(self.storage.store, path=path, mode="r+", zarr_format=3, config=WRITE_ALL)

    def _make_array(self, seed: int, epoch: int) -> Any:
        """The array of a seed and epoch, created if missing; every process creates the same bytes."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            return self._open_array(seed, epoch)
        with contextlib.suppress(ContainsGroupError):  # another process was faster
            zarr.open_group(self.storage.store, path=f"{layout.ROOT}/{seed}", mode="a", zarr_format=3)
        with contextlib.suppress(ContainsArrayError):  # another process was faster
            return zarr.create_array(
                self.storage.store,
                name=layout.array_path(seed, epoch),
                shape=(len(self), self.n_classes),
                chunks=(self.block, self.n_classes),
                dtype=self.dtype,
                compressors=compressors(),
                filters=[],
                fill_value=0,
                dimension_names=("example", "class"),
                attributes={"seed": seed, "epoch": epoch},
                config=WRITE_ALL,
                overwrite=False,
            )
        return self._open_array(seed, epoch)


def begin_store(
    path: PathLike,
    *,
    ids: ArrayLike,
    n_classes: int,
    labels: ArrayLike | None = None,
    class_names: Sequence[str] = (),
    split: ArrayLike | None = None,
    config: Mapping[str, Any] | None = None,
    dtype: str = "float16",
    block: int | None = None,
    resume: bool = True,
) -> Store:
    """Create a store, or, with ``resume``, continue an existing one for the same examples and classes."""
    storage = Storage(path)
    where = storage.where
    one_of("dtype", dtype, layout.DTYPES)
    whole_number("n_classes", n_classes, 2)
    id_array = np.asarray(ids)
    n = len(id_array) if id_array.ndim else 1
    if n == 0:
        raise InputError("must not be empty; give one for each example", argument="ids")
    known = checked_columns(where, n, n_classes, ids=id_array, labels=labels, class_names=class_names, split=split)
    rows = layout.default_block(n, n_classes, np.dtype(dtype).itemsize) if block is None else min(block, n)
    if rows < 1:
        raise InputError(f"must be at least 1; got {block}", argument="block")
    columns = {"ids": known.ids, "labels": known.labels, "split": known.split}
    hashes = {name: layout.column_hash(values) for name, values in columns.items() if values is not None}
    settings = layout.plain_config(config)
    versions = {name: importlib.metadata.version(name) for name in ("numpy", "zarr", "numcodecs")}
    versions = {"hardpan": hardpan.__version__} | versions
    header = layout.Header(n, n_classes, dtype, rows, hashes, known.class_names, settings, versions)
    there = layout.read_header(storage)
    if there is not None and not resume:
        raise InputError(f"{where}: a store exists here; give a new path, or open it with hardpan.Predictions.open")
    if there is None:
        layout.write_columns(storage, columns)
        layout.write_header(storage, header)
        there = layout.read_header(storage) or header  # another process may have created a store here meanwhile
    for name in ("examples", "classes", "dtype", "class_names", *(("block",) if block is not None else ())):
        existing, requested = getattr(there, name), getattr(header, name)
        if existing != requested:
            what = name.replace("_", " ")
            raise InputError(
                f"{where}: is a store with other {what} ({existing}, not {requested}); give a new path"
            )
    for name in layout.COLUMNS:
        if there.hashes.get(name) != hashes.get(name):
            raise InputError(f"{where}: is a store with other {name}; give a new path")
    return Store(storage, there)


def open_store(path: PathLike) -> Store:
    """Open a store of predictions for reading and writing."""
    storage = Storage(path)
    header = layout.read_header(storage)
    if header is None:
        where = storage.where
        folders = [entry.name for entry in os.scandir(where) if entry.is_dir()] if os.path.isdir(where) else []
        inner = [f"{where}/{name}" for name in sorted(folders) if is_store(os.path.join(where, name))]
        listed = f", but in {few(inner)}" if inner else ""
        raise InputError(
            f"{where}: no predictions here{listed}; give a store, or an npz, npy, CSV, JSONL or Parquet file"
        )
    return Store(storage, header)


def is_store(path: PathLike) -> bool:
    """Whether there is a store of predictions at a path."""
    return layout.read_header(Storage(path)) is not None
