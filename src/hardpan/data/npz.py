"""Datasets in NumPy's npz files, read without unpickling anything.

Keys: ``x_train, y_train, x_test, y_test`` (an official split), or ``x`` with an optional ``y``. Optional:
``class_names`` (C,) and ``ids`` (N,), for train rows first and then test rows. Labels are class numbers, or text:
classes are then in the order of ``class_names``, or of the alphabet.
"""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.arrays import SPLIT_KEYS, from_arrays
from hardpan.data.dataset import Dataset
from hardpan.data.memory import check_memory
from hardpan.errors import InputError

PLAIN_KEYS = ("x", "y")
OPTIONAL_KEYS = ("class_names", "ids")


def matches(path: Path) -> bool:
    """Say whether this is ours to read: a file whose name ends in .npz."""
    return path.suffix.lower() == ".npz"


def read(path: Path) -> Dataset:
    """Read one npz file into a dataset, or refuse it in one sentence.

    Every array's header is compared with the bytes that are there, and with the memory that is free, before any
    of it is loaded.
    """
    arrays = _arrays(path)
    common: dict[str, Any] = {
        "ids": arrays.get("ids"),
        "class_names": arrays.get("class_names"),
        "name": path.stem,
        "where": f"{path}: ",
        "source": path.name,
    }
    if "x" in arrays and not set(SPLIT_KEYS) & set(arrays):
        return from_arrays(arrays["x"], arrays.get("y"), **common)
    missing = [key for key in SPLIT_KEYS if key not in arrays]
    if missing:
        present = ", ".join(sorted(arrays)) or "none of the keys that are read"
        raise InputError(
            f"{path}: key {missing[0]} is missing (the file has {present}); "
            f"give {', '.join(SPLIT_KEYS)}, or x with an optional y"
        )
    x, y, x_test, y_test = (arrays[key] for key in SPLIT_KEYS)
    return from_arrays(x, y, x_test=x_test, y_test=y_test, **common)


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Load the arrays whose names we know, after their headers have been checked."""
    try:
        with zipfile.ZipFile(path) as archive:
            known = {*SPLIT_KEYS, *PLAIN_KEYS, *OPTIONAL_KEYS}
            members = {item.filename.removesuffix(".npy"): item for item in archive.infolist()}
            wanted = {key: item for key, item in members.items() if key in known}
            check_memory(path, sum(_claimed_bytes(path, archive, item) for item in wanted.values()))
            return {key: _load(path, archive, item) for key, item in wanted.items()}
    except zipfile.BadZipFile as error:
        raise InputError(f"{path}: is not an npz file ({_brief(error)}); write it with numpy.savez") from error
    except (zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError) as error:
        reason = _brief(error)
        raise InputError(f"{path}: is damaged or encrypted ({reason}); write it again with numpy.savez") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); give a readable npz file") from error


def _load(path: Path, archive: zipfile.ZipFile, item: zipfile.ZipInfo) -> NDArray[Any]:
    try:
        with archive.open(item) as stream:
            loaded: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    except ValueError as error:
        raise InputError(
            f"{path}: {item.filename} is damaged ({_brief(error)}); write it again with numpy.savez"
        ) from error
    return loaded


def _brief(error: Exception) -> str:
    """Give the first line of a message, and not too much of it: some repeat the file's own bytes."""
    line = str(error).partition("\n")[0]
    return line if len(line) <= 160 else line[:157] + "..."


def _claimed_bytes(path: Path, archive: zipfile.ZipFile, item: zipfile.ZipInfo) -> int:
    """Give the memory that an array will take, from its header alone; refuse a header that cannot be true."""
    name = item.filename
    with archive.open(item) as stream:
        try:
            version = np.lib.format.read_magic(stream)
            reader = {(1, 0): np.lib.format.read_array_header_1_0}.get(version, np.lib.format.read_array_header_2_0)
            shape, _, dtype = reader(stream)
            header = stream.tell()
        except (ValueError, SyntaxError, tokenize.TokenError) as error:
            reason = _brief(error)
            raise InputError(f"{path}: {name} is no NumPy array ({reason}); write it with numpy.savez") from error
    if dtype.hasobject:
        raise InputError(f"{path}: {name} holds Python objects, which are never unpickled; save numbers or text")
    claimed = dtype.itemsize
    for side in shape:  # Python integers: a product that overflows 64 bits is exactly what has to be caught
        if side < 0:
            raise InputError(f"{path}: {name} claims shape {shape}, which no array has; write it again")
        claimed *= side
    held = item.file_size - header
    if claimed > held:
        raise InputError(
            f"{path}: {name} claims shape {shape} of {dtype}, {claimed:,} bytes, but holds {held:,}; "
            "the file is damaged: write it again with numpy.savez"
        )
    return int(claimed)
