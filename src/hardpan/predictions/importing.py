"""Files and other stores into a store; single columns (labels, ids, split, class names) from files of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.arguments import as_path
from hardpan.data.opening import parse_source
from hardpan.errors import InputError, few
from hardpan.execution import Progress
from hardpan.execution.mapping import no_progress
from hardpan.files import npz_header, read_npy, read_npz, read_text, record
from hardpan.predictions.arrays import COLUMNS
from hardpan.predictions.assembly import assembling
from hardpan.predictions.checks import common_epochs
from hardpan.predictions.layout import text_hash
from hardpan.predictions.opening import ARRAYS, open_any
from hardpan.predictions.predictions import Predictions
from hardpan.predictions.storage import Storage
from hardpan.predictions.store import Store, begin
from hardpan.report import Report
from hardpan.tables import csv_rows, is_table_file

PathLike = str | os.PathLike[str]
Pair = tuple[int, int]
_KEYS = {
    "labels": COLUMNS["labels"],
    "ids": (*COLUMNS["ids"], "example", "filename"),
    "split": COLUMNS["split"],
    "class_names": (*COLUMNS["class_names"], "name", "class"),
}


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

    HEADLINE: ClassVar[str] = (
        "{target}: {examples:counted example} × {classes} classes, seeds {seeds}, epochs {epochs}"
    )

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


def import_file(
    path: PathLike,
    out: PathLike,
    *,
    ids: ArrayLike | PathLike | None = None,
    labels: ArrayLike | PathLike | None = None,
    class_names: Sequence[str] | str | None = None,
    split: ArrayLike | PathLike | None = None,
    outputs: str = "auto",
    normalize: bool = False,
    model: str = "",
    held_out: bool = False,
    seeds: Sequence[int] | None = None,
    epochs: Sequence[int] | None = None,
    dtype: str = "float16",
    block: int | None = None,
    progress: Progress | None = None,
) -> ImportSummary:
    """Import predictions of a file (npy, npz, Parquet, CSV) into a new store, or one for the same examples.

    An interrupted import resumes when it is run again.

    Args:
        path: the file; see :meth:`hardpan.Predictions.open`.
        out: the store.
        ids: ids of the examples, if not in the file: an npy, npz, CSV or text file; in Python also an array.
        labels: labels of the examples, if not in the file: class numbers or names, as for ids.
        class_names: class names in the order of the columns, separated by commas, or a file.
        split: split of the examples (train, validation or test), if not in the file, as for ids.
        outputs: what the file contains: "probabilities", "logits", "labels", or "auto" (by its values).
        normalize: divide rows by their sums (rounded rows, percentages).
        model: name of the model; it gets the next free seed of the store.
        held_out: state that the models were not trained or tuned on any of these examples (for a new store).
        seeds: numbers of the seeds, in the order of the file, such as 0,1,2; default: as in the file.
        epochs: numbers of the epochs, in the order of the file, such as 1,5,10; default: as in the file.
        dtype: "float16" or "float32", for a new store.
        block: examples per shard, for a new store; default: 4 to 16 MiB.
        progress: called with a step and the fraction done.
    """
    file = as_path("path", path)
    as_path("out", out)
    if file.suffix.lower() not in ARRAYS and not is_table_file(file):
        raise InputError(f"{file}: unsupported format; supported: .npy, .npz, .csv, .tsv, .json, .jsonl, .parquet")
    columns_or_files = {"ids": ids, "labels": labels, "split": split}
    settings = {
        name: read_column(Path(value), name) if isinstance(value, (str, os.PathLike)) else value
        for name, value in columns_or_files.items()
    }
    names = read_class_names(class_names) if isinstance(class_names, str) else tuple(class_names or ())
    settings["class_names"] = names or None
    settings |= {"seeds": seeds, "epochs": epochs, "models": (model,) if model else None}
    columns = {name: value for name, value in settings.items() if value is not None}
    source = open_any(str(file), outputs, normalize, columns)
    for seed in source.seeds:  # everything is checked before a store is created
        for epoch in source.epochs_of(seed):
            for start, stop in source.blocks():
                source.read(seed, epoch, start, stop)
    store = begin(
        Storage(out),
        ids=source.ids,
        n_classes=source.n_classes,
        labels=source.labels,
        class_names=source.class_names,
        split=source.split,
        config={"imported": file.name} | ({"held_out": True} if held_out else {}),
        dtype=dtype,
        block=block,
    )
    target = Predictions(store)
    numbers = _seed_numbers(source, store, seeds)
    pairs = [(seed, epoch) for seed in source.seeds for epoch in source.epochs_of(seed)]
    for done, (seed, epoch) in enumerate(pairs):
        (progress or no_progress)(f"writing seed {numbers[seed]} epoch {epoch}", done / len(pairs))
        for start, stop in target.blocks():  # committed blocks are compared, not written
            target.write(numbers[seed], epoch, source.read(seed, epoch, start, stop), start)
    return ImportSummary(
        source=(str(file),),
        target=target.where,
        examples=len(target),
        classes=target.n_classes,
        seeds=tuple(sorted(numbers.values())),
        epochs=source.epochs,
        outputs="probabilities" if source.outputs == "unnormalized" else source.outputs,
        detected=outputs == "auto" and source.outputs != "unnormalized",
        models=source.models if source.named else (),
    )


def _seed_numbers(source: Predictions, target: Store, seeds: Sequence[int] | None) -> dict[int, int]:
    """The seed in the store of each seed of the file: named models keep theirs, or get the next free ones."""
    if not source.named or seeds is not None:
        numbers = {seed: seed for seed in source.seeds}
    else:
        there = dict(zip(Predictions(target).models, target.seeds, strict=True))
        free = max([-1, *target.seeds, *(seed for seed, _ in target.partial())]) + 1
        numbers = {}
        for seed, name in zip(source.seeds, source.models, strict=True):
            numbers[seed] = there.get(name, free)
            free += name not in there
    if source.named:
        for seed, name in zip(source.seeds, source.models, strict=True):
            target.name_model(numbers[seed], name)
    return numbers


@dataclass(slots=True)
class _SourceGroup:
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
    if _canonical_path(out) in {_canonical_path(path) for path in paths}:
        raise InputError(f": {out} is one of the sources; give a new path", argument="out")
    sources = [Predictions.open(path) for path in paths]
    _check_alike(sources)
    groups = _source_groups(sources, renumber)
    pairs, missing = _merged_pairs(groups, common)
    labels, split = (_merged_column(what, groups) for what in ("labels", "split"))
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
            (progress or no_progress)(f"writing seed {seed} epoch {epoch}", done / len(pairs))
            for group in () if target.committed(seed, epoch) else groups:
                source, (its_seed, its_epoch) = group.pairs[seed, epoch]
                row_of = np.empty(len(group.ids), dtype=np.int64)
                row_of[_source_rows(source, group)] = group.start + np.arange(len(group.ids))
                for start, stop in source.blocks():
                    rows = source.read(its_seed, its_epoch, start, stop).astype(target.dtype, copy=False)
                    assembler.add(seed, epoch, rows, row_of[start:stop])
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


def _canonical_path(path: str | os.PathLike[str]) -> str:
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


def _source_groups(sources: Sequence[Predictions], renumber: bool) -> list[_SourceGroup]:
    """Sources grouped by their examples; two groups may have no example in common."""
    groups: dict[str, _SourceGroup] = {}
    start = 0
    for source in sources:
        name = text_hash(np.sort(source.ids))
        if name not in groups:
            groups[name] = _SourceGroup(source.ids, start)
            start += len(source)
        _add_source(groups[name], source, renumber)
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


def _add_source(group: _SourceGroup, source: Predictions, renumber: bool) -> None:
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


def _merged_pairs(groups: Sequence[_SourceGroup], common: bool) -> tuple[list[Pair], MissingEpochs | None]:
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


class _MergedColumn(NamedTuple):
    """Values of all examples; None if they are unknown for some, with a source that lacks them."""

    values: NDArray[Any] | None
    lacking: str = ""


def _merged_column(what: str, groups: Sequence[_SourceGroup]) -> _MergedColumn:
    """Labels or split of all examples."""
    columns: list[NDArray[Any] | None] = []
    for group in groups:
        known: NDArray[Any] | None = None
        for source in group.sources:
            values = getattr(source, what)
            if values is None:
                continue
            values = values[_source_rows(source, group)]
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
        return _MergedColumn(None, lacking.sources[0].where)
    return _MergedColumn(np.concatenate(known_columns) if known_columns else None)


def _source_rows(source: Predictions, group: _SourceGroup) -> NDArray[np.int64]:
    """Row of the source for each example of the group."""
    ids = source.ids
    if np.array_equal(ids, group.ids):
        return np.arange(len(ids))
    by_id = np.argsort(ids)
    return np.asarray(by_id[np.searchsorted(ids[by_id], group.ids)])


def read_column(path: Path, what: str) -> NDArray[Any]:
    """Read one column: an array, an array of an npz file, a column of a CSV file, or one value per line.

    Args:
        path: .npy, .npz, .csv, or any other text file.
        what: "labels", "ids", "split" or "class_names": its name in a file with several.
    """
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return read_npy(path)
    if suffix == ".npz":
        key = _column_key(path, what, list(npz_header(path)))
        return read_npz(path, [key])[key]
    values = _column_text(path, what, suffix == ".csv")
    if what == "labels" and all(value.strip().lstrip("-").isdecimal() for value in values):
        return np.array([int(value) for value in values], dtype=np.int64)
    return np.array(values, dtype=np.str_)


def read_class_names(text: str) -> tuple[str, ...]:
    """Class names: a file of them, or names with commas.

    Example:
        >>> read_class_names("cat, dog")
        ('cat', 'dog')
    """
    if Path(text).is_file():
        return tuple(read_column(Path(text), "class_names").tolist())
    names = tuple(name.strip() for name in text.split(","))
    if len(names) < 2 or not all(names):
        raise InputError(f"must be names with commas, or an existing file; got {text!r}", argument="class_names")
    return names


def _column_key(path: Path, what: str, names: list[str]) -> str:
    key = next((name for name in _KEYS[what] if name in names), None)
    if key is None and len(names) == 1:
        return names[0]
    if key is None:
        raise InputError(f"{path}: has no {what}; expected one of {few(_KEYS[what])}; it has {few(names)}")
    return key


def _column_text(path: Path, what: str, table: bool) -> list[str]:
    if not table:
        return [line.rstrip("\r\n") for line in read_text(path).split("\n") if line.strip()]
    rows, _ = csv_rows(path)
    header = [name.strip().lower() for name in rows[0]]
    if len(header) == 1 and header[0] not in _KEYS[what]:
        return [row[0] for row in rows]
    column = header.index(_column_key(path, what, header))
    if any(len(row) != len(header) for row in rows):
        raise InputError(f"{path}: rows must have {len(header)} cells, as the first has")
    return [row[column] for row in rows[1:]]
