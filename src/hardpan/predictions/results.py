"""Results of the operations on stores: import, merge, export, description, verification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from hardpan.files import record
from hardpan.report.base import Report


@record
class Problem:
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


@record
class Verification(Report):
    """Whether every committed shard is the one that was committed.

    Attributes:
        store: path or address.
        ok: nothing is wrong.
        shards: number of committed shards.
        bytes: their size on disk.
        problems: what is wrong.
        leftovers: files of interrupted writers; they are harmless.
        dropped: whether the damaged shards were uncommitted.
    """

    store: str
    ok: bool
    shards: int
    bytes: int
    problems: tuple[Problem, ...] = ()
    leftovers: tuple[str, ...] = ()
    dropped: bool = False


@record
class StoreInfo(Report):
    """What a set of predictions contains.

    Attributes:
        store: path or name.
        examples: number of examples.
        classes: number of classes.
        seeds: those with at least one complete epoch.
        epochs: those that every seed has.
        epochs_of: epochs of each seed, where they differ (seed as text).
        partial: seeds and epochs of which only some blocks are committed.
        dtype: type of the numbers.
        block: rows per shard.
        labelled: whether labels are known.
        split: number of examples by split, if known.
        class_names: the names; empty if unknown.
        config: what made the predictions.
        versions: of the software that wrote them.
        bytes_stored: size on disk (None: not a store).
        bytes_of_numbers: size of the numbers without compression.
        models: a name for each seed, if they are different models.
        held_out: whether it was stated that the models have not seen these examples.
    """

    store: str
    examples: int
    classes: int
    seeds: tuple[int, ...]
    epochs: tuple[int, ...]
    epochs_of: Mapping[str, tuple[int, ...]]
    partial: tuple[str, ...]
    dtype: str
    block: int
    labelled: bool
    split: Mapping[str, int]
    class_names: tuple[str, ...]
    config: Mapping[str, Any]
    versions: Mapping[str, str]
    bytes_stored: int | None
    bytes_of_numbers: int
    models: tuple[str, ...] = ()
    held_out: bool = False


@record
class MissingEpochs:
    """Seeds and epochs that not all examples have, so that a merge is without them.

    Attributes:
        seed: of the first one.
        epoch: of the first one.
        source: where it is missing.
        examples: number of examples there.
        count: how many pairs of seed and epoch are left out.
    """

    seed: int
    epoch: int
    source: str
    examples: int
    count: int


@record
class ImportSummary(Report):
    """What an import, a merge or an export has written.

    Attributes:
        source: what was read.
        target: what was written.
        examples: number of examples.
        classes: number of classes.
        seeds: numbers of the seeds in the target.
        epochs: numbers of the epochs that each of these seeds has.
        outputs: "probabilities", "logits" or "labels": what the source contained.
        detected: whether that was detected rather than stated.
        missing: seeds and epochs that a merge left out.
        unknown: columns ("labels", "split") that a merge left out, and a source that has none.
        left_out: epochs that not all seeds have; an export is without them.
        models: a name for each seed, if they are different models.
    """

    source: tuple[str, ...]
    target: str
    examples: int
    classes: int
    seeds: tuple[int, ...]
    epochs: tuple[int, ...]
    outputs: str = "probabilities"
    detected: bool = False
    missing: MissingEpochs | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[int, ...] = ()
    models: tuple[str, ...] = ()
