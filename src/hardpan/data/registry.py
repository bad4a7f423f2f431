"""Which datasets there are by name, and which files can be read.

To add a bundled dataset, write a module with ``read() -> Dataset`` and add its line to ``NAMED``. To add a file
format, write a module with ``matches(path) -> bool`` (cheap: a name, a few bytes) and ``read(path) -> Dataset``,
and add its line to ``FORMATS`` (the first that matches reads) and to the list in tests/data/test_contract.py.
To add a published dataset, add its files with their sums to ``sources.SOURCES``.
A module is imported only when its dataset is asked for.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from hardpan.data.chosen import asked_for, choose
from hardpan.data.dataset import Dataset
from hardpan.data.sources import SOURCES
from hardpan.errors import InputError

NAMED = {
    "digits": "hardpan.data.digits",
}

DOWNLOADED = tuple(SOURCES)

FORMATS = {
    "npz": "hardpan.data.npz",
    "idx": "hardpan.data.idx",
    "cifar": "hardpan.data.cifar",
    "parquet": "hardpan.data.parquet",
    "image folder": "hardpan.data.folder",
}


def names() -> tuple[str, ...]:
    """Datasets that :func:`load` knows by name: those that come along, and those it downloads."""
    return (*NAMED, *DOWNLOADED)


def formats() -> tuple[str, ...]:
    """File formats that :func:`load` reads."""
    return tuple(FORMATS)


def load(
    name_or_path: str | os.PathLike[str],
    *,
    mirror: str | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Load a dataset by name, or from a file or folder.

    A name wins over a file of the same name in the working folder; write ``./digits`` for the file. After either,
    ``@hard.json`` takes only the examples that a subset's manifest names.

    Args:
        name_or_path: one of :func:`names`, or the path of a file or folder in one of :func:`formats`.
        mirror: for names that download, an address with ``NAME/FILE`` under it; else ``HARDPAN_MIRROR``, else the
            publisher's address.
        cache: for names that download, the folder that keeps ``NAME/FILE``; else ``HARDPAN_CACHE``, else the
            user's cache folder.

    Returns:
        The dataset, with an id for every example.

    Example:
        >>> load("digits").class_names
        ('0', '1', '2', '3', '4', '5', '6', '7', '8', '9')
        >>> load("digit")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: dataset 'digit' is neither a name (digits, ...) nor a file that exists (npz, ...)
    """
    given = os.fspath(name_or_path)
    data, manifest = asked_for(given)
    if manifest and not _exists(Path(given)):
        return choose(load(data, mirror=mirror, cache=cache), manifest)
    if given in NAMED:
        dataset: Dataset = _module(NAMED[given]).read()
        return dataset
    if given in DOWNLOADED:
        fetched: Dataset = _module("hardpan.data.downloads").read(given, mirror, cache)
        return fetched
    path = Path(given)
    if not given or not _exists(path):
        known, readable = ", ".join(names()), ", ".join(FORMATS)
        raise InputError(f"dataset {given!r} is neither a name ({known}) nor a file that exists ({readable})")
    if not (path.is_dir() or path.is_file()):
        raise InputError(f"{path}: is neither a file nor a folder, but a pipe or a device; give a file or folder")
    for module in map(_module, FORMATS.values()):
        if module.matches(path):
            read: Dataset = module.read(path)
            return read
    raise InputError(f"{path}: no reader knows this file or folder; formats: {', '.join(FORMATS)}")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long for the file system, or with a null character in it
        return False


def _module(name: str) -> Any:
    return importlib.import_module(name)
