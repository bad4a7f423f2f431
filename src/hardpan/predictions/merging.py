"""Several stores into one: of other seeds and epochs, of other examples, or of both."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.opening import parse_source
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.predictions.assembly import Assembler, assembling
from hardpan.predictions.checks import common_epochs
from hardpan.predictions.layout import text_hash
from hardpan.predictions.predictions import Predictions
from hardpan.predictions.results import ImportSummary
from hardpan.predictions.storage import Place
from hardpan.predictions.store import begin

Pair = tuple[int, int]


@dataclass(slots=True)
class _Part:
    """Sources for the same examples, and where each seed and epoch of the merged store comes from."""

    ids: NDArray[np.str_]
    start: int = 0
    sources: list[Predictions] = field(default_factory=list)
    pairs: dict[Pair, tuple[Predictions, Pair]] = field(default_factory=dict)


def merge(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    renumber: bool = False,
    common: bool = False,
    dtype: str | None = None,
    block: int | None = None,
    progress: Progress | None = None,
) -> ImportSummary:
    """Merge stores (or npz, npy files): over seeds and epochs where examples are the same, else over examples.

    Each example must appear once for each seed and epoch. A merge that was stopped goes on where it was.

    Args:
        paths: what to merge.
        out: the store to make, or the one that an earlier merge of the same began.
        renumber: give the seeds of later stores new numbers where an earlier one has them already.
        common: leave out the seeds and epochs that not all examples have; else they are refused.
        dtype: "float16" or "float32"; without it the wider of the sources'.
        block: rows in a shard.
        progress: called with a step and the fraction done.
    """
    if len(paths) < 2:
        raise InputError(f"merge needs at least two sources; got {len(paths)}")
    if _same_place(out) in {_same_place(path) for path in paths}:
        raise InputError(f"{out}: is one of the sources; give a new place")
    sources = [Predictions.open(path) for path in paths]
    _check_alike(sources)
    parts = _parts(sources, renumber)
    pairs, notes = _pairs(parts, common)
    wide = any(source.dtype.itemsize > 2 for source in sources)
    target = begin(
        Place(out),
        ids=np.concatenate([part.ids for part in parts]),
        n_classes=sources[0].n_classes,
        labels=_joined("labels", parts, notes),
        class_names=next((source.class_names for source in sources if source.class_names), ()),
        split=_joined("split", parts, notes),
        config={"merged": [dict(source.config) for source in sources]},
        dtype=dtype or ("float32" if wide else "float16"),
        block=block,
    )
    with assembling(target) as assembler:
        for done, (seed, epoch) in enumerate(pairs):
            if progress is not None:
                progress(f"writing seed {seed} epoch {epoch}", done / len(pairs))
            if not target.committed(seed, epoch):
                for part in parts:
                    _bring(part, seed, epoch, assembler, target.dtype)
    return ImportSummary(
        source=tuple(source.where for source in sources),
        target=target.where,
        examples=len(target),
        classes=target.n_classes,
        seeds=tuple(sorted({seed for seed, _ in pairs})),
        epochs=common_epochs(pairs),
        notes=tuple(notes),
    )


def _same_place(path: str | os.PathLike[str]) -> str:
    """A path in one spelling: "./run", "run/" and a link to it are the same place."""
    text = os.fspath(parse_source(os.fspath(path))[0]).removeprefix("file://")
    return text.rstrip("/") if "://" in text else os.path.realpath(text)


def _check_alike(sources: Sequence[Predictions]) -> None:
    first = sources[0]
    for other in sources[1:]:
        if other.n_classes != first.n_classes:
            raise InputError(
                f"{other.where} has {other.n_classes} classes and {first.where} {first.n_classes}; "
                "merge what is alike"
            )
        if other.class_names and first.class_names and other.class_names != first.class_names:
            raise InputError(f"{other.where} and {first.where} have other class names; merge what is alike")
    for source in sources:
        if not source.seeds:
            raise InputError(f"{source.where}: holds no whole epoch; leave it out")


def _parts(sources: Sequence[Predictions], renumber: bool) -> list[_Part]:
    """Sources of the same examples together; two of these may have no example in common."""
    parts: dict[str, _Part] = {}
    start = 0
    for source in sources:
        name = text_hash(np.sort(source.ids))
        if name not in parts:
            parts[name] = _Part(source.ids, start)
            start += len(source)
        _take(parts[name], source, renumber)
    found = list(parts.values())
    everything = np.concatenate([part.ids for part in found])
    unique, counts = np.unique(everything, return_counts=True)
    if (counts > 1).any():
        twice = unique[counts > 1]
        holders = [part.sources[0].where for part in found if twice[0] in part.ids]
        raise InputError(
            f"{len(twice):,} ids appear twice, first {str(twice[0])!r} in {' and in '.join(holders)}; each id must "
            "appear once: stores hold the same examples or none in common"
        )
    return found


def _take(part: _Part, source: Predictions, renumber: bool) -> None:
    taken = {seed for seed, _ in part.pairs}
    numbers: dict[int, int] = {}
    for seed in source.seeds:
        clash = [epoch for epoch in source.epochs_of(seed) if (seed, epoch) in part.pairs]
        if not clash:
            numbers[seed] = seed
        elif renumber:
            numbers[seed] = max([*taken, *source.seeds, *numbers.values()]) + 1
        else:
            other = part.pairs[seed, clash[0]][0].where
            raise InputError(
                f"seed {seed} epoch {clash[0]} of the same examples is in {other} and in {source.where}; each id "
                "must appear once: leave one out, or let --renumber give its seeds new numbers"
            )
        taken.add(numbers[seed])
    for seed in source.seeds:
        for epoch in source.epochs_of(seed):
            part.pairs[numbers[seed], epoch] = (source, (seed, epoch))
    part.sources.append(source)


def _pairs(parts: Sequence[_Part], common: bool) -> tuple[list[Pair], list[str]]:
    """The seeds and epochs that every part has."""
    every = set.union(*(set(part.pairs) for part in parts))
    shared = set.intersection(*(set(part.pairs) for part in parts))
    notes = []
    if every != shared:
        seed, epoch = min(every - shared)
        lacking = next(part for part in parts if (seed, epoch) not in part.pairs)
        sentence = (
            f"seed {seed} epoch {epoch} is not there for the {len(lacking.ids):,} examples of "
            f"{lacking.sources[0].where} ({len(every - shared)} such seeds and epochs)"
        )
        if not common:
            raise InputError(f"{sentence}; record it, or let --common leave such epochs out")
        notes.append(f"left out: {sentence}")
    if not shared:
        raise InputError("the sources have no seed and epoch in common for all examples; there is nothing to merge")
    return sorted(shared), notes


def _joined(what: str, parts: Sequence[_Part], notes: list[str]) -> NDArray[Any] | None:
    """Labels or split of all examples; None, with a note, where some part does not know them."""
    columns: list[NDArray[Any] | None] = []
    for part in parts:
        known: NDArray[Any] | None = None
        for source in part.sources:
            values = getattr(source, what)
            if values is None:
                continue
            values = values[_order(source, part)]
            if known is not None and (known != values).any():
                name = str(part.ids[np.argmax(known != values)])
                raise InputError(
                    f"{source.where}: {what} of {name} is not that of {part.sources[0].where}; mend one"
                )
            known = values
        columns.append(known)
    held = [column for column in columns if column is not None]
    if 0 < len(held) < len(columns):
        lacking = next(part for part, column in zip(parts, columns, strict=True) if column is None)
        notes.append(f"{what} left out: {lacking.sources[0].where} has none")
        return None
    return np.concatenate(held) if held else None


def _order(source: Predictions, part: _Part) -> NDArray[np.int64]:
    """Row of the source for each example of the part."""
    ids = source.ids
    if np.array_equal(ids, part.ids):
        return np.arange(len(ids))
    by_id = np.argsort(ids)
    return np.asarray(by_id[np.searchsorted(ids[by_id], part.ids)])


def _bring(part: _Part, seed: int, epoch: int, assembler: Assembler, dtype: np.dtype[Any]) -> None:
    source, (its_seed, its_epoch) = part.pairs[seed, epoch]
    place = np.empty(len(part.ids), dtype=np.int64)
    place[_order(source, part)] = part.start + np.arange(len(part.ids))
    for start, stop in source.blocks():
        rows = source.read(its_seed, its_epoch, start, stop)
        assembler.add(seed, epoch, rows.astype(dtype, copy=False), place[start:stop])
