"""Verify that every committed shard is the one that was committed; describe what a store contains."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from hardpan.arguments import are_probabilities
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.predictions import layout
from hardpan.predictions.opening import open_any
from hardpan.predictions.results import Problem, StoreInfo, Verification
from hardpan.predictions.store import Store, open_store

_WORKERS = 4
_AT_ONCE = 64
_NO_PART = "does not belong to a store"
_KNOWN = ("zarr.json", f"{layout.ROOT}/zarr.json")


def verify(path: str | os.PathLike[str], *, drop: bool = False, progress: Progress | None = None) -> Verification:
    """Read every committed shard of a store and compare it with its marker.

    A shard is refused when it is missing, shorter than it was (truncated), has other bits (altered), or is a whole
    shard but not the one that was committed here (foreign); files that do not belong into a store are foreign, too.

    Args:
        path: the store.
        drop: remove damaged shards, so that the same training or import records them again.
        progress: called with a step and the fraction done.
    """
    store = open_store(path)
    keys = store.storage.keys(layout.ROOT + "/")
    problems, leftovers = _columns(store), list[str]()
    markers = [result for key in keys if (result := layout.parse_marker(key))]
    for leftover, strange in (_other_files(store, keys, set(markers)), _beside(store)):
        leftovers += leftover
        problems += strange
    read = 0
    with ThreadPoolExecutor(_WORKERS) as workers:
        for start in range(0, len(markers), _AT_ONCE):
            if progress is not None:
                progress(f"verifying shard {start + 1} of {len(markers)}", start / len(markers))
            for problem, size in workers.map(lambda at: _check(store, *at), markers[start : start + _AT_ONCE]):
                read += size
                problems += [problem] if problem is not None else []
    if drop:
        _drop(store, problems)
    return Verification(store.where, not problems, len(markers), read, tuple(problems), tuple(leftovers), drop)


def _drop(store: Store, problems: list[Problem]) -> None:
    for problem in problems:
        if problem.seed is not None and problem.epoch is not None and problem.block is not None:
            store.uncommit(problem.seed, problem.epoch, problem.block)
            if problem.file == layout.array_path(problem.seed, problem.epoch):
                store.storage.remove(f"{problem.file}/zarr.json")  # the next writer describes the array again


def describe(path: str | os.PathLike[str]) -> StoreInfo:
    """What a store or file of predictions contains, without reading a store's predictions."""
    predictions = open_any(path, name="path")
    seeds, epochs = predictions.seeds, predictions.epochs
    differing = {str(seed): predictions.epochs_of(seed) for seed in seeds if predictions.epochs_of(seed) != epochs}
    partial: tuple[str, ...] = ()
    size = None
    if isinstance(predictions, Store):
        blocks = predictions.header.blocks
        partial = tuple(
            f"seed {s} epoch {e}: {n} of {blocks} shards" for (s, e), n in predictions.partial().items()
        )
        size = predictions.stored_bytes()
    names, counts = np.unique([] if predictions.split is None else predictions.split, return_counts=True)
    rows = sum(len(predictions.epochs_of(seed)) for seed in seeds) * len(predictions)
    return StoreInfo(
        store=predictions.where,
        examples=len(predictions),
        classes=predictions.n_classes,
        seeds=seeds,
        epochs=epochs,
        epochs_of=differing,
        partial=partial,
        dtype=str(predictions.dtype),
        block=predictions.block,
        labelled=predictions.labels is not None,
        split=dict(zip(names.tolist(), counts.tolist(), strict=True)),
        class_names=predictions.class_names,
        config=predictions.config,
        versions=predictions.versions,
        bytes_stored=size,
        bytes_of_numbers=rows * predictions.n_classes * predictions.dtype.itemsize,
        models=predictions.models if predictions.named else (),
        held_out=predictions.held_out,
    )


def _columns(store: Store) -> list[Problem]:
    problems = []
    for name in layout.COLUMNS:
        try:
            getattr(store, name)
        except InputError as error:
            problems.append(Problem("altered", name, str(error)))
    return problems


def _other_files(
    store: Store, keys: list[str], markers: set[tuple[int, int, int]]
) -> tuple[list[str], list[Problem]]:
    """Files that are neither markers nor committed shards: what killed writers left, and what does not belong."""
    leftovers, problems = [], []
    for key in keys:
        shard = layout.parse_shard(key)
        if shard is not None:
            if shard not in markers and shard[2] < store.header.blocks:
                leftovers.append(key)
            elif shard not in markers:
                problems.append(Problem("foreign", key, f"there are only {store.header.blocks} blocks"))
        elif layout.parse_marker(key) is None and key not in _KNOWN:
            if key.endswith(".partial"):
                leftovers.append(key)
            elif not layout.is_metadata(key):
                problems.append(Problem("foreign", key, _NO_PART))
    return leftovers, problems


def _beside(store: Store) -> tuple[list[str], list[Problem]]:
    """The same for files beside the predictions, and in the columns; a strange folder counts as one."""
    leftovers, problems = [], []
    names = store.storage.top_names()
    results = [name for name in names if name not in (*_KNOWN, layout.ROOT, *layout.COLUMNS)]
    for name in layout.COLUMNS:
        if name in names:
            results += store.storage.keys(f"{name}/")
    for key in results:
        column = layout.column_of(key)
        if key.endswith(".partial") or (column is not None and column not in store.header.hashes):
            leftovers.append(key)  # of a store of other columns, whose making was stopped before its header
        elif column is None:
            problems.append(Problem("foreign", key, _NO_PART))
    return leftovers, problems


def _check(store: Store, seed: int, epoch: int, block: int) -> tuple[Problem | None, int]:
    key = layout.shard_key(seed, epoch, block)

    def problem(what: str, message: str, file: str = key) -> tuple[Problem, int]:
        return Problem(what, file, message, seed, epoch, block), 0

    where = layout.marker_key(seed, epoch, block)
    marker = store.storage.get_json(where)
    expected = {"store": store.header.identity, "seed": seed, "epoch": epoch, "block": block}
    if not isinstance(marker, dict) or not {"bytes", "sha256", "rows"} <= set(marker):
        return problem("altered", "the marker is damaged", where)
    if any(marker.get(name) != value for name, value in expected.items()):
        return problem("foreign", "the marker belongs to another store, seed, epoch or block", where)
    try:
        data = store.storage.get(key)
    except InputError as error:
        return problem("unreadable", str(error))
    if data is None:
        return problem("missing", "it was committed and is missing")
    if len(data) < marker["bytes"]:
        return problem("truncated", f"{len(data):,} of {marker['bytes']:,} bytes exist")
    whole = _decodes(store, seed, epoch, block)
    if hashlib.sha256(data).hexdigest() != marker["sha256"]:
        if whole:
            return problem("foreign", "it is a whole shard, but not the one that was committed")
        return problem("altered", "its content is not what was committed")
    if not whole:
        return problem("unreadable", "the description of its array is damaged", layout.array_path(seed, epoch))
    return None, len(data)


def _decodes(store: Store, seed: int, epoch: int, block: int) -> bool:
    """Whether the bytes are those of a shard: they carry their own checksum."""
    start = block * store.block
    try:
        rows = store.read_block(seed, epoch, start, min(start + store.block, len(store)))
    except InputError:
        return False
    return (
        rows.shape[1:] == (store.n_classes,) and rows.dtype == store.dtype and bool(are_probabilities(rows).all())
    )
