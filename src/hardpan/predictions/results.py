"""What the commands on predictions say on the way and when they are done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hardpan.files import record


@record
@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a store that is not as it was committed.

    Attributes:
        what: "missing", "truncated", "altered", "foreign" or "unreadable".
        file: its name within the store.
        message: what is wrong with it, in words.
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
@dataclass(frozen=True, slots=True)
class Verification:
    """Whether every committed shard is the one that was committed.

    Attributes:
        store: where it lies.
        ok: nothing is wrong.
        shards: how many committed shards were read.
        bytes: their size on disk.
        problems: what is wrong.
        leftovers: files of writers that were stopped; they do no harm.
    """

    store: str
    ok: bool
    shards: int
    bytes: int
    problems: tuple[Problem, ...] = ()
    leftovers: tuple[str, ...] = ()


@record
@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What a set of predictions holds.

    Attributes:
        store: where it lies.
        examples: how many there are.
        classes: how many there are.
        seeds: those with at least one whole epoch.
        epochs: those that every seed has whole.
        epochs_of: epochs of each seed, where they differ (seed as text).
        partial: seeds and epochs of which only some blocks are committed.
        dtype: type of the numbers.
        block: rows that lie together.
        labelled: whether labels are there.
        split: how many examples each part has, where the split is known.
        class_names: the names, or nothing.
        config: what made the predictions.
        versions: of what wrote them.
        bytes_stored: size on disk (None: not a store).
        bytes_of_numbers: what the numbers would take without compression.
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


@record
@dataclass(frozen=True, slots=True)
class ImportSummary:
    """What an import, a merge or an export has brought, and where to.

    Attributes:
        source: what was read.
        target: what was written.
        examples: how many there are.
        classes: how many there are.
        seeds: numbers of the seeds in the target.
        epochs: numbers of the epochs that each seed there has.
        outputs: "probabilities" or "logits": what the source held.
        detected: whether that was seen rather than said.
        notes: what a person has to know.
        left_out: epochs that only some of the seeds have: an export, which needs them of all, is without them.
    """

    source: tuple[str, ...]
    target: str
    examples: int
    classes: int
    seeds: tuple[int, ...]
    epochs: tuple[int, ...]
    outputs: str = "probabilities"
    detected: bool = False
    notes: tuple[str, ...] = field(default=())
    left_out: tuple[int, ...] = field(default=())
