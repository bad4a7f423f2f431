"""Datasets by name, from files and folders, and from objects in memory.

To add a file format, write a module with ``matches(path) -> bool`` (cheap: a name, a few bytes) and
``read(path) -> Dataset``, and add its line to ``FORMATS`` (the first that matches reads) and a sample to
tests/data/samples.py. To add a published dataset, add its files with their sums to ``downloads.SOURCES``.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import files
from hardpan.data.arrays import SPLIT_KEYS, channels_last, column_warnings, from_arrays, number_labels
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError

BUNDLED = ("digits",)
FORMATS = {
    "npz": "hardpan.data.npz",
    "idx": "hardpan.data.idx",
    "cifar": "hardpan.data.cifar",
    "parquet": "hardpan.data.parquet",
    "image folder": "hardpan.data.folder",
}
SEPARATOR = "@"


def names() -> tuple[str, ...]:
    """Datasets that :meth:`Dataset.open` knows by name: bundled, then downloaded."""
    from hardpan.data.sources import SOURCES

    return (*BUNDLED, *SOURCES)


def formats() -> tuple[str, ...]:
    """File formats that :meth:`Dataset.open` reads."""
    return tuple(FORMATS)


def as_dataset(source: Any, **options: Any) -> Dataset:
    """A dataset of whatever a user passes for one; see :meth:`Dataset.open`.

    Example:
        >>> as_dataset("digits").n_classes
        10
    """
    return Dataset.open(source, **options)


def open_dataset(
    source: Any,
    *,
    class_names: Sequence[str] | str | os.PathLike[str] | None = None,
    name: str | None = None,
    mirror: str | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> Dataset:
    """See :meth:`Dataset.open`."""
    listed = _class_names(class_names)
    if isinstance(source, Dataset):
        dataset = source
    elif isinstance(source, (str, os.PathLike)):
        dataset = _open_path(os.fspath(source), mirror, cache)
    else:
        return _open_object(source, listed, name)
    if listed is not None:
        dataset = _renamed_classes(dataset, listed)
    return dataset if name is None else dataclasses.replace(dataset, name=name)


def _open_path(source: Any, mirror: str | None, cache: str | os.PathLike[str] | None) -> Dataset:
    if isinstance(source, bytes):
        raise InputError("dataset must be a name or a path as text; got bytes")
    data, manifest = parse_source(source)
    if manifest and not _exists(Path(source)):
        whole = _open_path(data, mirror, cache)
        part = whole.select(subset_rows(manifest, whole.ids))
        return dataclasses.replace(part, name=f"{whole.name}{SEPARATOR}{Path(manifest).stem}")
    if source in BUNDLED:
        return _digits()
    if source in names():
        from hardpan.data import downloads

        return _completed(downloads.read(source, mirror, cache))
    path = Path(source)
    if not source or not _exists(path):
        shown = source if len(source) <= 200 else source[:197] + "..."
        raise InputError(
            f"dataset {shown!r} is neither a name ({', '.join(names())}) nor an existing file or folder "
            f"({', '.join(FORMATS)})"
        )
    if not (path.is_dir() or path.is_file()):
        raise InputError(f"{path}: is neither a file nor a folder, but a pipe or a device; give a file or folder")
    for module in map(importlib.import_module, FORMATS.values()):
        if module.matches(path):
            return _completed(module.read(path))
    raise InputError(f"{path}: unsupported format; supported: {', '.join(FORMATS)}")


def _open_object(source: Any, class_names: Sequence[str] | None, name: str | None) -> Dataset:
    label = name or "arrays"
    if isinstance(source, Mapping):
        if "data" in source and "target" in source:
            return _from_bunch(source, class_names, name)
        known = {str(key): value for key, value in source.items()}
        if "x" in known and not set(SPLIT_KEYS) & set(known):
            return from_arrays(
                known["x"], known.get("y"), ids=known.get("ids"), class_names=class_names, name=label
            )
        missing = [key for key in SPLIT_KEYS if key not in known]
        if missing:
            raise InputError(
                f"dataset: key {missing[0]} is missing (the mapping has {_listed(known)}); give "
                f"{', '.join(SPLIT_KEYS)}, or x and y"
            )
        arrays = [known[key] for key in SPLIT_KEYS]
    elif isinstance(source, tuple) and len(source) in (2, 4):
        arrays = list(source)
    elif isinstance(source, np.ndarray) and source.ndim >= 2:
        arrays = [source, None]
    else:
        raise InputError(
            "dataset must be a name, a path, a Dataset, (x, y) or (x_train, y_train, x_test, y_test); got "
            f"{type(source).__name__}"
        )
    x, y, x_test, y_test = [*arrays, None, None][:4]
    return from_arrays(x, y, x_test=x_test, y_test=y_test, class_names=class_names, name=label)


def _from_bunch(bunch: Mapping[str, Any], class_names: Sequence[str] | None, name: str | None) -> Dataset:
    """A scikit-learn Bunch; its images where it has them."""
    x = bunch["images"] if "images" in bunch else bunch["data"]
    target_names = bunch.get("target_names")
    if class_names is None and target_names is not None:
        listed = np.asarray(target_names).astype(np.str_)
        class_names = listed.tolist() if listed.ndim == 1 and len(listed) > 1 else None
    columns = bunch.get("feature_names")
    named = columns is not None and np.ndim(x) == 2 and len(columns) == np.shape(x)[1]
    return from_arrays(
        x,
        bunch["target"],
        class_names=class_names,
        feature_names=columns if named else None,
        name=name or "bunch",
        source="scikit-learn",
    )


def _digits() -> Dataset:
    """scikit-learn's handwritten digits (Alpaydin and Kaynak 1998): 1,797 images of 8 × 8 grey levels 0..16."""
    from sklearn.datasets import load_digits  # here, because scikit-learn takes a second to import

    bunch = load_digits()
    return from_arrays(
        bunch.images.astype(np.uint8),
        bunch.target,
        name="digits",
        source="scikit-learn load_digits: the test part of UCI's Optical Recognition of Handwritten Digits",
    )


def _completed(dataset: Dataset) -> Dataset:
    """Row numbers where the reader gave none, and warnings."""
    x, turned = channels_last("x", dataset.x)
    rows = np.arange(len(dataset))
    if dataset.split is not None:
        for part in np.unique(dataset.split):
            rows[dataset.split == part] = np.arange(int((dataset.split == part).sum()))
    return dataclasses.replace(
        dataset,
        x=x,
        metadata={"row": rows, **dataset.metadata},
        warnings=dataset.warnings or (*turned, *column_warnings(x, dataset.feature_names)),
    )


def _class_names(names: Any) -> list[str] | None:
    """Class names from a sequence, or from a text file with one per line."""
    if names is None:
        return None
    if not isinstance(names, (str, os.PathLike)):
        try:
            return [str(name) for name in names]
        except TypeError as error:
            raise InputError(f"class_names must be a sequence of text, or a file; got {names!r}") from error
    path = Path(os.fspath(names))
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"class_names {str(path)!r} cannot be read ({reason}); give the names, or a file with one per line"
        ) from error
    return [line.strip() for line in lines if line.strip()]


def _renamed_classes(dataset: Dataset, class_names: Sequence[str]) -> Dataset:
    """The dataset with its classes named and numbered as listed."""
    if dataset.labels is None:
        return dataclasses.replace(dataset, class_names=tuple(class_names))
    plain = all(name.lstrip("-").isdigit() for name in dataset.class_names)
    old: NDArray[Any] = np.array([int(name) for name in dataset.class_names] if plain else dataset.class_names)
    labels, listed, noticed = number_labels("labels", old[dataset.labels], class_names)
    return dataclasses.replace(dataset, labels=labels, class_names=listed, warnings=(*dataset.warnings, *noticed))


def parse_source(text: str) -> tuple[str, str]:
    """Divide ``DATA@MANIFEST.json`` into both; without a manifest the second is empty.

    Example:
        >>> parse_source("digits@hard.json"), parse_source("me@home/data.npz"), parse_source("digits")
        (('digits', 'hard.json'), ('me@home/data.npz', ''), ('digits', ''))
    """
    at = [index for index in range(len(text) - 1, 0, -1) if text[index] == SEPARATOR]
    if not at or not text.endswith(".json"):
        return text, ""
    # A path may contain the separator itself: after the right one comes a file.
    index = next((index for index in at if os.path.isfile(text[index + 1 :])), at[0])
    return text[:index], text[index + 1 :]


def short_name(text: str) -> str:
    """What to call a file, folder or address, with the subset if there is one.

    Example:
        >>> short_name("runs/resnet18/"), short_name("runs/resnet18@subsets/hard.json"), short_name("probs.npz")
        ('resnet18', 'resnet18@hard', 'probs')
    """
    data, manifest = parse_source(text)
    stem = Path(data.rstrip("/")).stem or text
    return f"{stem}{SEPARATOR}{Path(manifest).stem}" if manifest else stem


def subset_rows(manifest: str, ids: ArrayLike) -> NDArray[np.int64]:
    """Row numbers, in rising order, of the examples of a subset; each must be among ``ids``."""
    subset: Any = files.load(manifest)
    if type(subset).__name__ != "Subset":
        raise InputError(
            f"{manifest}: is a {type(subset).__name__}, not a Subset; give what `hardpan confusion subset` wrote"
        )
    subset.check_whole(manifest)
    rows: NDArray[np.int64] = np.sort(subset.rows(ids))
    return rows


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long for the file system, or with a null character in it
        return False


def _listed(keys: Mapping[str, Any], most: int = 10) -> str:
    shown = ", ".join(sorted(keys)[:most]) or "nothing"
    return shown + (f" and {len(keys) - most} more" if len(keys) > most else "")
