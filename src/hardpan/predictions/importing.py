"""Files and other stores into a store; single columns (labels, ids, split, class names) from files of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.arguments import as_path
from hardpan.data.opening import parse_data_source
from hardpan.errors import InputError, few
from hardpan.execution import Progress
from hardpan.execution.mapping import no_progress
from hardpan.files import npz_header, read_npy, read_npz, read_text, record
from hardpan.predictions.arrays import COLUMNS
from hardpan.predictions.assembly import assembling
from hardpan.predictions.checks import common_epochs
from hardpan.predictions.layout import column_hash
from hardpan.predictions.opening import ARRAYS, open_any
from hardpan.predictions.predictions import Predictions
from hardpan.predictions.store import begin_store
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
    settings: dict[str, Any] = {"ids": ids, "labels": labels, "split": split, "class_names": class_names or None}
    settings |= {"seeds": seeds, "epochs": epochs, "models": (model,) if model else None}
    columns = {name: value for name, value in settings.items() if value is not None}
    for name in _KEYS:
        if isinstance(value := columns.get(name), (str, os.PathLike)):
            columns[name] = _read_imported_column(value, name)
    source = open_any(str(file), outputs, normalize, columns)
    for seed in source.seeds:  # everything is checked before a store is created
        for epoch in source.epochs_of(seed):
            for start, stop in source.blocks():
                source.read(seed, epoch, start, stop)
    store = begin_store(
        out,
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
    numbers = {seed: seed for seed in source.seeds}  # in the store, of each seed of the file
    if source.named and seeds is None:  # named models keep theirs, or get the next free ones
        there = dict(zip(target.models, store.seeds, strict=True))
        free = max([-1, *store.seeds, *(seed for seed, _ in store.partial())]) + 1
        for seed, name in zip(source.seeds, source.models, strict=True):
            numbers[seed] = there.get(name, free)
            free += name not in there
    for seed, name in zip(source.seeds, source.models, strict=True) if source.named else ():
        store.name_model(numbers[seed], name)
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


@dataclass(slots=True)
class _MergedSources:
    """Sources for the same examples, and where each seed and epoch of the merged store comes from."""

    ids: NDArray[np.str_]
    start: int = 0
    sources: list[Predictions] = field(default_factory=list)
    pairs: dict[Pair, tuple[Predictions, Pair]] = field(default_factory=dict)

    def add(self, source: Predictions, renumber: bool) -> None:
        """Take the seeds and epochs of one more source."""
        taken = {seed for seed, _ in self.pairs}
        numbers: dict[int, int] = {}
        for seed in source.seeds:
            clash = [epoch for epoch in source.epochs_of(seed) if (seed, epoch) in self.pairs]
            if clash and not renumber:
                other = self.pairs[seed, clash[0]][0].where
                raise InputError(
                    f"seed {seed} epoch {clash[0]} of the same examples is in {other} and in {source.where}; each "
                    "id must appear once: leave one out, or use --renumber"
                )
            numbers[seed] = max([*taken, *source.seeds, *numbers.values()]) + 1 if clash else seed
            taken.add(numbers[seed])
        for seed in source.seeds:
            for epoch in source.epochs_of(seed):
                self.pairs[numbers[seed], epoch] = (source, (seed, epoch))
        self.sources.append(source)

    def rows_in(self, source: Predictions) -> NDArray[np.int64]:
        """Row of a source for each of the examples."""
        ids = source.ids
        if np.array_equal(ids, self.ids):
            return np.arange(len(ids))
        by_id = np.argsort(ids)
        return np.asarray(by_id[np.searchsorted(ids[by_id], self.ids)])


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

    def canonical(path: PathLike) -> str:
        """A path in one spelling: "./run", "run/" and a link to it are the same."""
        text = parse_data_source(os.fspath(path))[0].removeprefix("file://")
        return text.rstrip("/") if "://" in text else os.path.realpath(text)

    if canonical(out) in {canonical(path) for path in paths}:
        raise InputError(f": {out} is one of the sources; give a new path", argument="out")
    sources = [Predictions.open(path) for path in paths]
    groups = _merged_sources(sources, renumber)
    pairs, missing = _merged_pairs(groups, common)
    labels, split = (_merged_column(what, groups) for what in ("labels", "split"))
    lacking = {"labels": labels[1], "split": split[1]}
    wide = any(source.dtype.itemsize > 2 for source in sources)
    target = begin_store(
        out,
        ids=np.concatenate([group.ids for group in groups]),
        n_classes=sources[0].n_classes,
        labels=labels[0],
        class_names=next((source.class_names for source in sources if source.class_names), ()),
        split=split[0],
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
                row_of[group.rows_in(source)] = group.start + np.arange(len(group.ids))
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
        unknown={what: where for what, where in lacking.items() if where},
    )


def _merged_sources(sources: Sequence[Predictions], renumber: bool) -> list[_MergedSources]:
    """Sources grouped by their examples; two groups may have no example in common."""
    first = sources[0]
    for other in sources:
        if other.n_classes != first.n_classes:
            raise InputError(
                f"{other.where} has {other.n_classes} classes and {first.where} {first.n_classes}; "
                "merge predictions of the same classes"
            )
        if other.class_names and first.class_names and other.class_names != first.class_names:
            raise InputError(
                f"{other.where} and {first.where} have different class names; merge predictions of the same classes"
            )
        if not other.seeds:
            raise InputError(f"{other.where}: has no complete epoch; leave it out")
    groups: dict[str, _MergedSources] = {}
    start = 0
    for source in sources:
        name = column_hash(np.sort(source.ids))
        if name not in groups:
            groups[name] = _MergedSources(source.ids, start)
            start += len(source)
        groups[name].add(source, renumber)
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


def _merged_pairs(groups: Sequence[_MergedSources], common: bool) -> tuple[list[Pair], MissingEpochs | None]:
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


def _merged_column(what: str, groups: Sequence[_MergedSources]) -> tuple[NDArray[Any] | None, str]:
    """Labels or split of all examples; None if they are unknown for some, with a source that lacks them."""
    columns: list[NDArray[Any] | None] = []
    for group in groups:
        known: NDArray[Any] | None = None
        for source in group.sources:
            values = getattr(source, what)
            if values is None:
                continue
            values = values[group.rows_in(source)]
            if known is not None and (known != values).any():
                name = str(group.ids[np.argmax(known != values)])
                raise InputError(
                    f"{source.where}: {what} of {name} is not that of {group.sources[0].where}; correct one of them"
                )
            known = values
        columns.append(known)
    known_columns = [column for column in columns if column is not None]
    if 0 < len(known_columns) < len(columns):
        return None, next(g.sources[0].where for g, column in zip(groups, columns, strict=True) if column is None)
    return (np.concatenate(known_columns) if known_columns else None), ""


def _read_imported_column(source: PathLike, what: str) -> Any:
    """One column of a file: an array, an array of an npz file, a column of a CSV file, or one value per line.

    ``what`` is "labels", "ids", "split" or "class_names": its name in a file with several. Class names that are no
    file are names with commas.
    """
    path = Path(source)
    if what == "class_names" and not path.is_file():
        names = tuple(name.strip() for name in str(source).split(","))
        if len(names) < 2 or not all(names):
            raise InputError(f"must be names with commas, or an existing file; got {source!r}", argument=what)
        return names

    def key_of(names: Sequence[str]) -> str:
        key = next((name for name in _KEYS[what] if name in names), names[0] if len(names) == 1 else None)
        if key is None:
            raise InputError(f"{path}: has no {what}; expected one of {few(_KEYS[what])}; it has {few(names)}")
        return key

    suffix = path.suffix.lower()
    if suffix == ".npy":
        values: Any = read_npy(path)
    elif suffix == ".npz":
        key = key_of(list(npz_header(path)))
        values = read_npz(path, [key])[key]
    elif suffix == ".csv":
        rows, _ = csv_rows(path)
        header = [name.strip().lower() for name in rows[0]]
        named = len(header) > 1 or header[0] in _KEYS[what]
        column = header.index(key_of(header))
        if any(len(row) != len(header) for row in rows):
            raise InputError(f"{path}: rows must have {len(header)} cells, as the first has")
        values = [row[column] for row in rows[named:]]
    else:
        values = [line.rstrip("\r\n") for line in read_text(path).split("\n") if line.strip()]
    if isinstance(values, list):
        whole = what == "labels" and all(value.strip().lstrip("-").isdecimal() for value in values)
        values = np.array([int(value) for value in values], dtype=np.int64) if whole else np.array(values, np.str_)
    return tuple(values.tolist()) if what == "class_names" else values
