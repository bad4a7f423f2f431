"""Merging stores of different seeds and epochs, of different examples, or both."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardpan.data.opening import parse_source
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.files import as_path
from hardpan.predictions.assembly import Assembler, assembling
from hardpan.predictions.checks import common_epochs
from hardpan.predictions.layout import text_hash
from hardpan.predictions.predictions import Predictions
from hardpan.predictions.results import ImportSummary, MissingEpochs
from hardpan.predictions.storage import Storage
from hardpan.predictions.store import begin

Pair = tuple[int, int]


@dataclass(slots=True)
class _Group:
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
    """Merge stores or files: over seeds and epochs for the same examples, otherwise over examples.

    Each example must appear once for each seed and epoch. If interrupted, run it again to resume.

    Args:
        paths: what to merge.
        out: the store to create, or the incomplete one of an interrupted merge.
        renumber: renumber seeds that an earlier source has already.
        common: leave out seeds and epochs that not all examples have; otherwise they are refused.
        dtype: "float16" or "float32"; default: the wider of the sources.
        block: examples per shard; default: 4 to 16 MiB.
        progress: called with a step and the fraction done.
    """
    if isinstance(paths, (str, bytes)) or not isinstance(paths, Sequence) or len(paths) < 2:
        raise InputError(f"must be two or more stores or files; got {paths!r}", argument="paths")
    for path in (*paths, out):
        as_path("out" if path is out else "paths", path)
    if _canonical(out) in {_canonical(path) for path in paths}:
        raise InputError(f": {out} is one of the sources; give a new path", argument="out")
    sources = [Predictions.open(path) for path in paths]
    _check_alike(sources)
    groups = _groups(sources, renumber)
    pairs, missing = _pairs(groups, common)
    labels, split = (_joined(what, groups) for what in ("labels", "split"))
    wide = any(source.dtype.itemsize > 2 for source in sources)
    target = begin(
        Storage(out),
        ids=np.concatenate([group.ids for group in groups]),
        n_classes=sources[0].n_classes,
        labels=labels.values,
        class_names=next((source.class_names for source in sources if source.class_names), ()),
        split=split.values,
        config={"merged": [dict(source.config) for source in sources]},
        dtype=dtype or ("float32" if wide else "float16"),
        block=block,
    )
    epochs_of: dict[int, list[int]] = {}
    with assembling(target) as assembler:
        for done, (seed, epoch) in enumerate(pairs):
            epochs_of.setdefault(seed, []).append(epoch)
            if progress is not None:
                progress(f"writing seed {seed} epoch {epoch}", done / len(pairs))
            if not target.committed(seed, epoch):
                for group in groups:
                    _copy(group, seed, epoch, assembler, target.dtype)
    return ImportSummary(
        source=tuple(source.where for source in sources),
        target=target.where,
        examples=len(target),
        classes=target.n_classes,
        seeds=tuple(epochs_of),
        epochs=common_epochs(epochs_of),
        missing=missing,
        unknown={what: column.lacking for what, column in (("labels", labels), ("split", split)) if column.lacking},
    )


def _canonical(path: str | os.PathLike[str]) -> str:
    """A path in one spelling: "./run", "run/" and a link to it are the same."""
    text = os.fspath(parse_source(os.fspath(path))[0]).removeprefix("file://")
    return text.rstrip("/") if "://" in text else os.path.realpath(text)


def _check_alike(sources: Sequence[Predictions]) -> None:
    first = sources[0]
    for other in sources[1:]:
        if other.n_classes != first.n_classes:
            raise InputError(
                f"{other.where} has {other.n_classes} classes and {first.where} {first.n_classes}; "
                "merge predictions of the same classes"
            )
        if other.class_names and first.class_names and other.class_names != first.class_names:
            raise InputError(
                f"{other.where} and {first.where} have different class names; merge predictions of the same classes"
            )
    for source in sources:
        if not source.seeds:
            raise InputError(f"{source.where}: has no complete epoch; leave it out")


def _groups(sources: Sequence[Predictions], renumber: bool) -> list[_Group]:
    """Sources grouped by their examples; two groups may have no example in common."""
    groups: dict[str, _Group] = {}
    start = 0
    for source in sources:
        name = text_hash(np.sort(source.ids))
        if name not in groups:
            groups[name] = _Group(source.ids, start)
            start += len(source)
        _take(groups[name], source, renumber)
    result = list(groups.values())
    everything = np.concatenate([group.ids for group in result])
    unique, counts = np.unique(everything, return_counts=True)
    if (counts > 1).any():
        twice = unique[counts > 1]
        holders = [group.sources[0].where for group in result if twice[0] in group.ids]
        raise InputError(
            f"{len(twice):,} ids appear twice, first {str(twice[0])!r} in {' and in '.join(holders)}; each id must "
            "appear once: stores have the same examples, or none in common"
        )
    return result


def _take(group: _Group, source: Predictions, renumber: bool) -> None:
    taken = {seed for seed, _ in group.pairs}
    numbers: dict[int, int] = {}
    for seed in source.seeds:
        clash = [epoch for epoch in source.epochs_of(seed) if (seed, epoch) in group.pairs]
        if not clash:
            numbers[seed] = seed
        elif renumber:
            numbers[seed] = max([*taken, *source.seeds, *numbers.values()]) + 1
        else:
            other = group.pairs[seed, clash[0]][0].where
            raise InputError(
                f"seed {seed} epoch {clash[0]} of the same examples is in {other} and in {source.where}; each id "
                "must appear once: leave one out, or use --renumber"
            )
        taken.add(numbers[seed])
    for seed in source.seeds:
        for epoch in source.epochs_of(seed):
            group.pairs[numbers[seed], epoch] = (source, (seed, epoch))
    group.sources.append(source)


def _pairs(groups: Sequence[_Group], common: bool) -> tuple[list[Pair], MissingEpochs | None]:
    """The seeds and epochs that all examples have, and what is left out."""
    every = set.union(*(set(group.pairs) for group in groups))
    shared = set.intersection(*(set(group.pairs) for group in groups))
    missing = None
    if every != shared:
        seed, epoch = min(every - shared)
        lacking = next(group for group in groups if (seed, epoch) not in group.pairs)
        where = lacking.sources[0].where
        missing = MissingEpochs(seed, epoch, where, len(lacking.ids), len(every - shared))
        if not common:
            raise InputError(
                f"{where}: has no seed {seed} epoch {epoch} ({missing.count} such pairs); record it, or use "
                "--common to leave such epochs out"
            )
    if not shared:
        raise InputError("the sources have no seed and epoch in common for all examples; nothing to merge")
    return sorted(shared), missing


class _Column(NamedTuple):
    """Values of all examples; None if they are unknown for some, with a source that lacks them."""

    values: NDArray[Any] | None
    lacking: str = ""


def _joined(what: str, groups: Sequence[_Group]) -> _Column:
    """Labels or split of all examples."""
    columns: list[NDArray[Any] | None] = []
    for group in groups:
        known: NDArray[Any] | None = None
        for source in group.sources:
            values = getattr(source, what)
            if values is None:
                continue
            values = values[_order(source, group)]
            if known is not None and (known != values).any():
                name = str(group.ids[np.argmax(known != values)])
                raise InputError(
                    f"{source.where}: {what} of {name} is not that of {group.sources[0].where}; correct one of them"
                )
            known = values
        columns.append(known)
    known_columns = [column for column in columns if column is not None]
    if 0 < len(known_columns) < len(columns):
        lacking = next(group for group, column in zip(groups, columns, strict=True) if column is None)
        return _Column(None, lacking.sources[0].where)
    return _Column(np.concatenate(known_columns) if known_columns else None)


def _order(source: Predictions, group: _Group) -> NDArray[np.int64]:
    """Row of the source for each example of the group."""
    ids = source.ids
    if np.array_equal(ids, group.ids):
        return np.arange(len(ids))
    by_id = np.argsort(ids)
    return np.asarray(by_id[np.searchsorted(ids[by_id], group.ids)])


def _copy(group: _Group, seed: int, epoch: int, assembler: Assembler, dtype: np.dtype[Any]) -> None:
    source, (its_seed, its_epoch) = group.pairs[seed, epoch]
    rows_of = np.empty(len(group.ids), dtype=np.int64)
    rows_of[_order(source, group)] = group.start + np.arange(len(group.ids))
    for start, stop in source.blocks():
        rows = source.read(its_seed, its_epoch, start, stop)
        assembler.add(seed, epoch, rows.astype(dtype, copy=False), rows_of[start:stop])
