"""CIFAR-10 and CIFAR-100 in their binary version, as a folder or as the published archive.

Source: Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009),
https://www.cs.toronto.edu/~kriz/cifar.html. A record is one label byte (CIFAR-100: coarse, then fine) and
3 × 32 × 32 bytes, colour planes one after another. The Python version of the sets is pickled, and nothing here
unpickles a file. Nothing is unpacked to disk.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardpan.data.dataset import Dataset, content_ids
from hardpan.errors import InputError
from hardpan.files import TAR_ENDINGS, check_memory, folder_entries, read_tar, refusing_damaged

PIXELS = 3 * 32 * 32


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one version, and what a record in them starts with.

    ``labels`` are the ranges of the label bytes, the last of which is the class; ``test_sets`` is how many times
    the test set the training files have together, which distinguishes a cut file from a whole one.
    """

    name: str
    train: tuple[str, ...]
    test: str
    labels: tuple[int, ...]
    names: tuple[str, ...]
    test_sets: int
    archive: str

    @property
    def files(self) -> tuple[str, ...]:
        """The files of records, train first."""
        return (*self.train, self.test)

    @property
    def record(self) -> int:
        """Bytes of one record."""
        return len(self.labels) + PIXELS


LAYOUTS = (
    Layout(
        name="cifar10",
        train=tuple(f"data_batch_{batch}.bin" for batch in range(1, 6)),
        test="test_batch.bin",
        labels=(10,),
        names=("batches.meta.txt",),
        test_sets=5,
        archive="cifar-10-binary.tar.gz",
    ),
    Layout(
        name="cifar100",
        train=("train.bin",),
        test="test.bin",
        labels=(20, 100),
        names=("coarse_label_names.txt", "fine_label_names.txt"),
        test_sets=5,
        archive="cifar-100-binary.tar.gz",
    ),
)
# Files of the Python version, by the set they belong to; "train", "test" and "meta" alone could be anyone's.
_PICKLED = {"data_batch_1": "cifar-10", "batches.meta": "cifar-10"}
_FOLDERS = ("cifar-10-batches-bin", "cifar-100-binary", "cifar-10-batches-py", "cifar-100-python")


def is_cifar(path: Path) -> bool:
    """An archive, a folder with CIFAR's file names, or one of the files."""
    if not path.is_dir():
        known = {name for layout in LAYOUTS for name in layout.files}
        return path.name.lower().endswith(TAR_ENDINGS) or path.name in known or path.name in _PICKLED
    folder = _record_folder(path)
    names = {item.name for item in folder_entries(folder)}
    return any(set(layout.files) & names for layout in LAYOUTS) or _pickled(folder.name, names) is not None


def read_cifar(path: Path) -> Dataset:
    """Read CIFAR-10 or CIFAR-100 into images (N, 32, 32, 3) of uint8, or refuse it in one sentence.

    CIFAR-100's labels are the 100 fine classes; the 20 coarse ones are the metadata column ``coarse``. Sizes are
    compared with what records allow and with the memory that is free, before anything is loaded.
    """
    if path.is_dir():
        folder = _record_folder(path)
        layout = _layout(path, folder.name, {item.name for item in folder_entries(folder)})
        content = _folder_content(folder, layout)
    elif path.name.lower().endswith(TAR_ENDINGS):
        members = read_tar(path, {name for layout in LAYOUTS for name in (*layout.files, *layout.names)})
        layout = _layout(path, next(iter(members.folders), ""), set(members.names))
        content = members.content
    else:
        # One file alone is a fraction of a dataset, or a pickle.
        family = _pickled("", {path.name})
        raise (
            _is_pickled(path, family)
            if family
            else InputError(f"{path}: is one file of several; give its folder, {path.parent}")
        )
    return _dataset(path, layout, content)


def _record_folder(path: Path) -> Path:
    """The folder itself, or the one that the archive makes inside it."""
    with contextlib.suppress(OSError):
        return next((path / name for name in _FOLDERS if (path / name).is_dir()), path)
    return path


def _pickled(folder: str, listed: set[str]) -> str | None:
    """Name the set whose Python version this is, or None."""
    for name, family in _PICKLED.items():
        if name in listed:
            return family
    if folder == "cifar-100-python" or listed >= {"train", "test", "meta", "file.txt~"}:
        return "cifar-100"
    return None


def _is_pickled(path: Path, family: str) -> InputError:
    return InputError(
        f"{path}: has the Python version of {family.upper()}, which is pickled and never loaded; "
        f"give the binary version, {family}-binary.tar.gz"
    )


def _layout(path: Path, folder: str, listed: set[str]) -> Layout:
    family = _pickled(folder, listed)
    if family:
        raise _is_pickled(path, family)
    layout = max(LAYOUTS, key=lambda layout: len(set(layout.files) & listed))
    missing = [name for name in layout.files if name not in listed]
    if len(missing) == len(layout.files):
        raise InputError(
            f"{path}: has no file of CIFAR's binary version; give "
            + " or ".join(layout.archive for layout in LAYOUTS)
        )
    if missing:
        raise InputError(f"{path}: {missing[0]} is missing; {layout.name} needs {', '.join(layout.files)}")
    return layout


def _folder_content(folder: Path, layout: Layout) -> dict[str, NDArray[np.uint8]]:
    present = [name for name in (*layout.files, *layout.names) if (folder / name).exists()]
    with refusing_damaged(folder, remedy="fetch it again"):
        sizes = {name: (folder / name).stat().st_size for name in present}
        _check_sizes(folder, layout, sizes)
        check_memory(folder, sum(sizes.values()))
        return {name: np.fromfile(folder / name, dtype=np.uint8) for name in present}


def _check_sizes(path: Path, layout: Layout, sizes: dict[str, int]) -> None:
    for name in layout.files:
        if sizes[name] == 0 or sizes[name] % layout.record:
            raise InputError(
                f"{path}: {name} must be whole records of {layout.record:,} bytes; got {sizes[name]:,} bytes: "
                "the file is damaged, fetch it again"
            )
    expected = sizes[layout.test] * layout.test_sets // len(layout.train)
    for name in layout.train:
        if sizes[name] != expected:
            raise InputError(
                f"{path}: {name} has {sizes[name] // layout.record:,} records and {layout.test} "
                f"{sizes[layout.test] // layout.record:,}, but {layout.name} has "
                f"{layout.test_sets // len(layout.train)} to 1: a file is cut: fetch it again"
            )


def _dataset(path: Path, layout: Layout, content: dict[str, NDArray[np.uint8]]) -> Dataset:
    sizes = {name: len(data) for name, data in content.items()}
    _check_sizes(path, layout, sizes)
    rows = [content.pop(name).reshape(-1, layout.record) for name in layout.files]
    counts = [sum(map(len, rows[:-1])), len(rows[-1])]
    columns = [np.concatenate([batch[:, byte] for batch in rows]) for byte in range(len(layout.labels))]
    for byte, (column, classes) in enumerate(zip(columns, layout.labels, strict=True)):
        if column.max() >= classes:
            row = int(np.argmax(column >= classes))
            raise InputError(
                f"{path}: byte {byte} of a record of {layout.name} must be a label 0..{classes - 1}; row {row} "
                f"has {int(column[row])}: the file is damaged or is another dataset"
            )
    x = np.empty((sum(counts), 32, 32, 3), dtype=np.uint8)
    start = 0
    while rows:  # free each file once its pixels are copied
        batch = rows.pop(0)
        pixels = batch[:, len(layout.labels) :].reshape(-1, 3, 32, 32)
        x[start : start + len(batch)] = pixels.transpose(0, 2, 3, 1)
        start += len(batch)
    words = [
        _class_names(path, name, content.get(name), classes)
        for name, classes in zip(layout.names, layout.labels, strict=True)
    ]
    coarse = {"coarse": np.array(words[0])[columns[0]]} if len(columns) > 1 else {}
    split = np.repeat(np.array(["train", "test"]), counts)
    labels = columns[-1].astype(np.int64)
    return Dataset(
        layout.name,
        x,
        content_ids(x),
        labels,
        words[-1],
        split,
        metadata=coarse,
        source=f"{path.name}, Krizhevsky 2009",
    )


def _class_names(path: Path, name: str, content: NDArray[np.uint8] | None, classes: int) -> tuple[str, ...]:
    """The words of a names file, one per line; the class numbers where there is no such file."""
    if content is None:
        return tuple(str(label) for label in range(classes))
    try:
        words = tuple(content.tobytes().decode("utf-8").split())
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {name} is not text ({error.reason}); fetch it again") from error
    if len(words) != classes or len(set(words)) != classes or not all(map(str.isprintable, words)):
        raise InputError(
            f"{path}: {name} must be {classes} different names, one per line; got {len(set(words))}: fetch it again"
        )
    return words
