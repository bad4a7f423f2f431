"""What a store contains, and whether every committed shard is the one that was committed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from hardpan.errors import InputError, counted
from hardpan.execution import Progress
from hardpan.execution.mapping import no_progress
from hardpan.files import record
from hardpan.predictions import layout
from hardpan.predictions.checks import are_probabilities
from hardpan.predictions.opening import open_any
from hardpan.predictions.store import Store
from hardpan.report import Report

_WORKERS = 4
_AT_ONCE = 64
_NO_PART = "does not belong to a store"
_KNOWN = ("zarr.json", f"{layout.ROOT}/zarr.json")


@record(kind="Problem")
class DamagedFile:
    """Something in a store that is not as it was committed.

    Attributes:
        what: "missing", "truncated", "altered", "foreign" or "unreadable".
        file: its name within the store.
        message: what is wrong with it.
        seed: the seed it belongs to, if it is a shard.
        epoch: the epoch, likewise.
        block: the block, likewise.
    """

    what: str
    file: str
    message: str
    seed: int | None = None
    epoch: int | None = None
    block: int | None = None


@record(kind="Verification", dropped=("block", "versions", "bytes_of_numbers"))
class StoreCheck(Report):
    """What predictions contain, and whether every shard of a store is the one that was committed.

    Attributes:
        store: path or name.
        ok: nothing is wrong.
        shards: number of committed shards.
        bytes: their size on disk.
        problems: what is wrong.
        leftovers: files of interrupted writers; they are harmless.
        dropped: whether the damaged shards were uncommitted: the same training or import records them again.
        examples: number of examples.
        classes: number of classes.
        seeds: those with at least one complete epoch.
        epochs: those that every seed has.
        epochs_of: epochs of each seed, where they differ (seed as text).
        partial: seeds and epochs of which only some blocks are committed.
        dtype: type of the numbers.
        labelled: whether labels are known.
        split: number of examples by split, if known.
        class_names: the names; empty if unknown.
        made_with: the configuration that made the predictions.
        models: a name for each seed, if they are different models.
        held_out: whether it was stated that the models have not seen these examples.
    """

    HEADLINE: ClassVar[str] = "{store}: {verdict}, {examples:counted example} × {classes} classes"

    store: str
    ok: bool
    shards: int
    bytes: int
    problems: tuple[DamagedFile, ...] = ()
    leftovers: tuple[str, ...] = ()
    dropped: bool = False
    examples: int = 0
    classes: int = 0
    seeds: tuple[int, ...] = ()
    epochs: tuple[int, ...] = ()
    epochs_of: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    partial: tuple[str, ...] = ()
    dtype: str = ""
    labelled: bool = False
    split: Mapping[str, int] = field(default_factory=dict)
    class_names: tuple[str, ...] = ()
    made_with: Mapping[str, Any] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    held_out: bool = False

    @property
    def verdict(self) -> str:
        """Whether the shards were verified."""
        if not self.ok:
            return f"NOT verified ({counted(len(self.problems), 'problem')})"
        return f"verified ({counted(self.shards, 'shard')})" if self.shards else "opened"


def check(path: str | os.PathLike[str], *, drop: bool = False, progress: Progress | None = None) -> StoreCheck:
    """What predictions contain; of a store, every committed shard is read and compared with its marker.

    A shard is refused when it is missing, shorter than it was (truncated), has other bits (altered), or is a whole
    shard but not the one that was committed here (foreign); files that do not belong into a store are foreign, too.

    Args:
        path: a store, or a file of predictions, of which only the contents are listed.
        drop: remove damaged shards, so that the same training or import records them again.
        progress: called with a step and the fraction done.
    """
    # A column that was changed is a problem to report, and not one of opening: it is read last.
    predictions = open_any(path, name="path")
    store = predictions.reader if predictions.whole and isinstance(predictions.reader, Store) else None
    problems, leftovers, sizes = ([], [], []) if store is None else _verified(store, progress or no_progress)
    for problem in problems if drop else ():
        if store and problem.seed is not None and problem.epoch is not None and problem.block is not None:
            store.uncommit(problem.seed, problem.epoch, problem.block)
            if problem.file == layout.array_path(problem.seed, problem.epoch):
                store.storage.remove(f"{problem.file}/zarr.json")  # the next writer describes the array again
    damaged = {problem.file for problem in problems}
    split = None if "split" in damaged else predictions.split
    seeds, epochs = predictions.seeds, predictions.epochs
    names, counts = np.unique([] if split is None else split, return_counts=True)
    partial = {} if store is None else store.partial()
    return StoreCheck(
        store=predictions.where,
        ok=not problems,
        shards=len(sizes),
        bytes=sum(sizes),
        problems=tuple(problems),
        leftovers=tuple(leftovers),
        dropped=drop,
        examples=len(predictions),
        classes=predictions.n_classes,
        seeds=seeds,
        epochs=epochs,
        epochs_of={str(seed): own for seed in seeds if (own := predictions.epochs_of(seed)) != epochs},
        partial=tuple(f"seed {seed} epoch {epoch}: {n} shards" for (seed, epoch), n in partial.items()),
        dtype=str(predictions.dtype),
        labelled="labels" not in damaged and predictions.labels is not None,
        split=dict(zip(names.tolist(), counts.tolist(), strict=True)),
        class_names=predictions.class_names,
        made_with=predictions.config,
        models=predictions.models if predictions.named else (),
        held_out=predictions.held_out,
    )


def _verified(store: Store, progress: Progress) -> tuple[list[DamagedFile], list[str], list[int]]:
    """What is wrong with a store, files of interrupted writers, and the sizes of its committed shards."""
    keys = store.storage.keys(layout.ROOT + "/")
    markers = [block for key in keys if (block := layout.parse_block_key("marker", key))]
    problems, sizes = [], []
    for name in layout.COLUMNS:
        try:
            store.column(name)
        except InputError as error:
            problems.append(DamagedFile("altered", name, str(error)))
    leftovers, foreign = _other_files(store, keys, set(markers))
    problems += foreign
    with ThreadPoolExecutor(_WORKERS) as workers:
        for start in range(0, len(markers), _AT_ONCE):
            progress(f"verifying shard {start + 1} of {len(markers)}", start / len(markers))
            for problem, size in workers.map(
                lambda at: _checked_shard(store, *at), markers[start : start + _AT_ONCE]
            ):
                sizes.append(size)
                problems += [problem] if problem is not None else []
    return problems, leftovers, sizes


def _other_files(
    store: Store, keys: list[str], markers: set[tuple[int, int, int]]
) -> tuple[list[str], list[DamagedFile]]:
    """Files that are neither markers nor committed shards: what killed writers left, and what does not belong.

    A strange folder beside the predictions counts as one file.
    """
    leftovers, foreign = [], {}
    for key in keys:
        shard = layout.parse_block_key("shard", key)
        if key.endswith(".partial") or (shard and shard not in markers and shard[2] < store.header.blocks):
            leftovers.append(key)
        elif shard and shard not in markers:
            foreign[key] = f"there are only {store.header.blocks} blocks"
        elif not (shard or layout.parse_block_key("marker", key) or key in _KNOWN or layout.is_metadata(key)):
            foreign[key] = _NO_PART
    names = store.storage.top_names()
    beside = [name for name in names if name not in (*_KNOWN, layout.ROOT, *layout.COLUMNS)]
    for name in layout.COLUMNS:
        beside += store.storage.keys(f"{name}/") if name in names else []
    for key in beside:
        column = layout.column_of(key)
        if key.endswith(".partial") or (column is not None and column not in store.header.hashes):
            leftovers.append(key)  # of a store of other columns, whose making was stopped before its header
        elif column is None:
            foreign[key] = _NO_PART
    return leftovers, [DamagedFile("foreign", key, message) for key, message in foreign.items()]


def _checked_shard(store: Store, seed: int, epoch: int, block: int) -> tuple[DamagedFile | None, int]:
    key = layout.block_key("shard", seed, epoch, block)

    def problem(what: str, message: str, file: str = key) -> tuple[DamagedFile, int]:
        return DamagedFile(what, file, message, seed, epoch, block), 0

    where = layout.block_key("marker", seed, epoch, block)
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
    start = block * store.block
    try:  # whether the bytes are those of a shard: they carry their own checksum
        rows = store.read_block(seed, epoch, start, min(start + store.block, len(store)))
        whole = rows.shape[1:] == (store.n_classes,) and rows.dtype == store.dtype
        whole = whole and bool(are_probabilities(rows).all())
    except InputError:
        whole = False
    if hashlib.sha256(data).hexdigest() != marker["sha256"]:
        if whole:
            return problem("foreign", "it is a whole shard, but not the one that was committed")
        return problem("altered", "its content is not what was committed")
    if not whole:
        return problem("unreadable", "the description of its array is damaged", layout.array_path(seed, epoch))
    return None, len(data)
