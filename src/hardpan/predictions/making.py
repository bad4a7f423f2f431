"""Making a store, opening one, and opening what else holds predictions."""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

import hardpan
from hardpan.data.opening import parse_source
from hardpan.errors import InputError
from hardpan.predictions import columns, layout
from hardpan.predictions.predictions import Predictions

if TYPE_CHECKING:
    from hardpan.predictions.places import Place
    from hardpan.predictions.recorded import RecordedPredictions

PathLike = str | os.PathLike[str]


def create(
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
) -> RecordedPredictions:
    """Make an empty store; a store that is there already is refused.

    Args:
        path: a new folder, or an fsspec address such as ``s3://bucket/run``.
        ids: (N,) ids of the examples, each once.
        n_classes: how many classes there are.
        labels: (N,) class numbers 0..C-1, if known.
        class_names: the C names, if known.
        split: (N,) "train", "validation" or "test", if known.
        config: JSON values that say what will make the predictions.
        dtype: "float16" or "float32".
        block: rows in a shard; without it as many as fill 4 to 16 MiB.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     p = create(folder + "/run", ids=["a", "b"], n_classes=2)
        ...     p.write(0, 1, np.array([[0.25, 0.75], [1.0, 0.0]]))
        ...     open(folder + "/run").read(seed=0, epoch=1).tolist()
        [[0.25, 0.75], [1.0, 0.0]]
    """
    from hardpan.predictions.places import Place

    return begin(
        Place(path),
        ids=ids,
        n_classes=n_classes,
        labels=labels,
        class_names=class_names,
        split=split,
        config=config,
        dtype=dtype,
        block=block,
        resume=False,
    )


def begin(
    place: Place,
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
    kind: str = "predictions",
) -> RecordedPredictions:
    """Make a store at a place, or, with ``resume``, go on with the one there if it is for the same examples."""
    from hardpan.predictions.headers import read_header, write_columns, write_header
    from hardpan.predictions.recorded import RecordedPredictions

    where = place.where
    if dtype not in layout.DTYPES:
        raise InputError(f"dtype must be one of {', '.join(layout.DTYPES)}; got {dtype!r}")
    if n_classes < 2:
        raise InputError(f"n_classes must be at least 2; got {n_classes}")
    given = np.asarray(ids)
    n = len(given) if given.ndim else 1
    if n == 0:
        raise InputError("ids must not be empty; give one for each example")
    known = columns.described(where, n, n_classes, ids=given, labels=labels, class_names=class_names, split=split)
    rows = layout.default_block(n, n_classes, np.dtype(dtype).itemsize) if block is None else min(block, n)
    if rows < 1:
        raise InputError(f"block must be at least 1; got {block}")
    held = {"ids": known.ids, "labels": known.labels, "split": known.split}
    hashes = {name: layout.text_hash(values) for name, values in held.items() if values is not None}
    settings = plain_config(config)
    header = layout.Header(n, n_classes, dtype, rows, hashes, known.class_names, settings, _versions(), kind)
    there = read_header(place)
    if there is not None and not resume:
        raise InputError(f"{where}: already holds a store; give a new path or use hardpan.predictions.open")
    if there is None:
        write_columns(place, held)
        write_header(place, header)
        there = read_header(place) or header  # another process may have made a store here in the same moment
    return RecordedPredictions(place, same_store(where, there, header, given_block=block is not None))


def same_store(where: str, there: layout.Header, wanted: layout.Header, given_block: bool) -> layout.Header:
    """The header of the store that is there, if it is for the examples, classes and type that are wanted."""
    pairs = [
        ("kind", there.kind, wanted.kind),
        ("examples", there.examples, wanted.examples),
        ("classes", there.classes, wanted.classes),
        ("dtype", there.dtype, wanted.dtype),
        ("class names", there.class_names, wanted.class_names),
    ]
    if given_block:
        pairs.append(("block", there.block, wanted.block))
    for what, held, asked in pairs:
        if held != asked:
            raise InputError(f"{where}: holds a store with other {what} ({held}, not {asked}); give a new place")
    for name in layout.COLUMNS:
        if there.hashes.get(name) != wanted.hashes.get(name):
            raise InputError(f"{where}: holds a store with other {name}; give a new place")
    return there


def open(path: PathLike) -> Predictions:
    """Open predictions: a store (folder or fsspec address), or an npz or npy file, which can only be read.

    An npz file holds ``probabilities`` (or ``probs``, ``logits``) with four, three or two axes as in
    :func:`in_memory`, and may hold ``ids``, ``labels``, ``split``, ``class_names``, ``seeds`` and ``epochs``.
    ``@hard.json`` behind any of them takes only the examples that a subset's manifest names, to be read only.
    """
    text = os.fspath(path)
    data, manifest = parse_source(text)
    if manifest and ("://" in text or not os.path.exists(text)):
        from hardpan.predictions.selected import select

        return select(open(data), manifest)
    if text.lower().endswith((".npz", ".npy")) and "://" not in text and not os.path.isdir(text):
        from hardpan.predictions.arrays import open_file

        return open_file(Path(text))
    return open_store(text)


def open_store(path: PathLike) -> RecordedPredictions:
    """Open a store of predictions to read from it and to write to it."""
    from hardpan.predictions.headers import read_header
    from hardpan.predictions.places import Place
    from hardpan.predictions.recorded import RecordedPredictions

    place = Place(path)
    header = read_header(place)
    if header is None:
        remedy = "give a store, an npz or an npy file"
        if place.where.lower().endswith((".csv", ".parquet")):
            remedy = f"put the table into a store: hardpan predictions import {place.where} --out STORE"
        raise InputError(f"{place.where}: holds no predictions; {remedy}")
    if header.kind != "predictions":
        raise InputError(
            f"{place.where}: holds scores only, no predictions; use hardpan confusion score, or store.open_scores"
        )
    return RecordedPredictions(place, header)


def is_store(path: PathLike) -> bool:
    """Whether a store of predictions or of scores lies at a place."""
    from hardpan.predictions.headers import read_header
    from hardpan.predictions.places import Place

    return read_header(Place(path)) is not None


def plain_config(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """The configuration as JSON keeps it."""
    try:
        plain = json.loads(json.dumps(dict(config or {}), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(f"config must hold JSON values; {error}") from error
    return dict(plain)


def _versions() -> dict[str, str]:
    return {"hardpan": hardpan.__version__} | {
        name: importlib.metadata.version(name) for name in ("numpy", "zarr", "numcodecs")
    }
