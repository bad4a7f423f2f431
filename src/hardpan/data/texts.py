"""Texts: read from folders with a file each, and described by a few numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.dataset import Dataset, DataWarning, content_ids
from hardpan.data.images import class_folder_files
from hardpan.errors import InputError, few
from hardpan.files import check_reading_memory, existing_file

ENDING = ".txt"
MOST_BYTES = 10_000_000  # of a file


def is_text_folder(path: Path) -> bool:
    """Whether a folder has class folders of .txt files, or such folders by split."""
    if not path.is_dir():
        return False
    for root, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        listed = [name for name in files if not name.startswith(".")]
        if Path(root) != path and listed:
            return any(name.lower().endswith(ENDING) for name in listed)
    return False


def read_text_folder(path: Path) -> Dataset:
    """Read ``CLASS/name.txt``, or ``train/CLASS/...`` beside ``test/CLASS/...``; the class is the folder's name.

    Files are UTF-8; bytes that are not become U+FFFD, and a warning counts the files.
    """
    ignored: list[str] = []
    files, official = class_folder_files(path, ignored, "texts", "CLASS/name.txt", (ENDING,))
    names, splits, classes = zip(*files, strict=True)
    texts = np.empty(len(names), dtype=object)
    check_reading_memory(str(path), 4 * sum(existing_file(name).stat().st_size for name in names))
    damaged = []
    for row, name in enumerate(names):
        file = existing_file(name)
        if file.stat().st_size > MOST_BYTES:
            raise InputError(f"{name}: has more than {MOST_BYTES:,} bytes; cut it into texts")
        content = file.read_bytes().removeprefix(b"\xef\xbb\xbf")
        texts[row] = content.decode("utf-8", "replace").strip()
        if "\ufffd" in texts[row]:
            damaged.append(file.name)
    notes: tuple[DataWarning, ...] = ()
    if ignored:
        notes += (DataWarning(f"files beside the class folders were ignored: {few(ignored)}", "ignored_files"),)
    if damaged:
        message = (
            f"{len(damaged):,} of {len(names):,} files are not UTF-8, such as {damaged[0]}; save them as UTF-8"
        )
        notes += (DataWarning(message, "undecoded_text"),)
    class_names, labels = np.unique(classes, return_inverse=True)
    relative = [os.path.relpath(name, path).replace(os.sep, "/") for name in names]
    x = np.zeros((len(names), 0))
    return Dataset(
        path.resolve().name,
        x,
        content_ids(x, texts),
        labels.astype(np.int64),
        tuple(class_names.tolist()),
        np.array(splits) if official else None,
        metadata={"path": np.array(relative)},
        source=path.resolve().name,
        warnings=notes,
        texts=texts,
    )


SCRIPTS = {  # code points of letters; those before U+0250 are Latin
    "Greek": (0x370, 0x400),
    "Cyrillic": (0x400, 0x530),
    "Hebrew": (0x590, 0x600),
    "Arabic": (0x600, 0x780),
    "Devanagari": (0x900, 0x980),
    "Thai": (0xE00, 0xE80),
    "Japanese": (0x3040, 0x3100),
    "Korean": (0xAC00, 0xD7B0),
    "Chinese": (0x4E00, 0xA000),
}
FREQUENT_WORDS = 50


def text_properties(texts: NDArray[Any]) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Numbers that describe each text, and their names: length, words, and what its letters and marks are.

    Args:
        texts: (n,) strings.

    Returns:
        (n, p) numbers and p names; scripts that no text has are left out.

    Example:
        >>> values, names = text_properties(np.array(["Hello, you!", ""], dtype=object))
        >>> dict(zip(names, values[0].round(2).tolist(), strict=True))["the number of characters"]
        11.0
    """
    joined = "\n".join([*texts.tolist(), ""])
    letters = np.frombuffer(joined.encode("utf-32-le", "replace"), dtype="<u4")
    length = np.array([len(text) for text in texts], dtype=np.int64)
    text_of = np.repeat(np.arange(len(texts)), length + 1)

    def count(which: NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.bincount(text_of[which], minlength=len(texts)).astype(np.float64)

    lower = np.frombuffer(joined.lower().encode("utf-32-le", "replace"), dtype="<u4")
    upper = letters != lower if len(lower) == len(letters) else (letters >= 65) & (letters <= 90)
    ascii_mark = (
        (letters > 32) & (letters < 127) & ~np.isin(letters, [*range(48, 58), *range(65, 91), *range(97, 123)])
    )
    own = np.maximum(length, 1)
    columns = {
        "the number of characters": length.astype(np.float64),
        "the number of words": np.array([len(text.split()) for text in texts], dtype=np.float64),
        "the proportion of capital letters": count(upper) / own,
        "the proportion of digits": count((letters >= 48) & (letters < 58)) / own,
        "the proportion of punctuation": count(ascii_mark) / own,
        "the number of exclamation marks": count(letters == ord("!")),
        "the number of question marks": count(letters == ord("?")),
        "the number of line breaks": count(letters == 10) - 1,  # one ends each text here
        "the proportion of accented letters": count((letters >= 0xC0) & (letters < 0x250)) / own,
    }
    for name, (first, last) in SCRIPTS.items():
        which = (letters >= first) & (letters < last)
        if which.any():
            columns[f"the proportion of {name} letters"] = count(which) / own
    return np.column_stack(list(columns.values())), tuple(columns)


def word_columns(texts: NDArray[Any], most: int = FREQUENT_WORDS) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Whether each text has each of the words that most texts have: (n, k) numbers 0 and 1, and k names.

    Example:
        >>> values, names = word_columns(np.array(["red car", "a car", "bus"], dtype=object), 1)
        >>> values.ravel().tolist(), names
        ([1.0, 1.0, 0.0], ('the word “car”',))
    """
    from sklearn.feature_extraction.text import CountVectorizer

    from hardpan.neighbors.text_copies import WORD

    try:
        counter = CountVectorizer(binary=True, token_pattern=WORD, max_features=most)
        values = counter.fit_transform(texts)
    except ValueError:  # no text has a word
        return np.zeros((len(texts), 0)), ()
    names = tuple(f"the word “{word}”" for word in counter.get_feature_names_out())
    return values.toarray().astype(np.float64), names
