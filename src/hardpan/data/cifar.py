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
from hardpan.files import TAR_ENDINGS, check_reading_memory, folder_entries, read_tar, refusing_damaged

PIXELS = 3 * 32 * 32


@dataclass(frozen=True, slots=True)
class CifarVersion:
    """The files of CIFAR-10 or CIFAR-100: those of train, the test set, and the names of classes.

    ``labels`` are the ranges of the label bytes that a record starts with, the last of which is the class.
    """

    name: str
    train: tuple[str, ...]
    test: str
    labels: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The files of records, train first."""
        return (*self.train, self.test)

    @property
    def record(self) -> int:
        """Bytes of one record."""
        return len(self.labels) + PIXELS


VERSIONS = (
    CifarVersion(
        "cifar-10",
        tuple(f"data_batch_{batch}.bin" for batch in range(1, 6)),
        "test_batch.bin",
        (10,),
        ("batches.meta.txt",),
    ),
    CifarVersion(
        "cifar-100", ("train.bin",), "test.bin", (20, 100), ("coarse_label_names.txt", "fine_label_names.txt")
    ),
)
TEST_SETS = 5  # how many times the test set the training files have together; those of a cut file have not
# Files of CIFAR-10's Python version; "train", "test" and "meta" alone could be anyone's.
_PICKLED = ("data_batch_1", "batches.meta")
_FOLDERS = ("cifar-10-batches-bin", "cifar-100-binary", "cifar-10-batches-py", "cifar-100-python")


def is_cifar(path: Path) -> bool:
    """An archive, a folder with CIFAR's file names, or one of the files."""
    if not path.is_dir():
        known = {name for version in VERSIONS for name in version.files}
        return path.name.lower().endswith(TAR_ENDINGS) or path.name in known or path.name in _PICKLED
    folder = _cifar_folder(path)
    names = {item.name for item in folder_entries(folder)}
    return any(set(version.files) & names for version in VERSIONS) or bool(_pickled_cifar(folder.name, names))


def read_cifar(path: Path) -> Dataset:
    """Read CIFAR-10 or CIFAR-100 into images (N, 32, 32, 3) of uint8, or refuse it in one sentence.

    CIFAR-100's labels are the 100 fine classes; the 20 coarse ones are the metadata column ``coarse``. Sizes are
    compared with what records allow and with the memory that is free, before anything is loaded.
    """
    if path.is_dir():
        folder = _cifar_folder(path)
        version = _cifar_version(path, folder.name, {item.name for item in folder_entries(folder)})
        with refusing_damaged(folder, remedy="fetch it again"):
            files = [folder / name for name in (*version.files, *version.names) if (folder / name).exists()]
            sizes = {file.name: file.stat().st_size for file in files}
            _check_cifar_sizes(folder, version, sizes)
            check_reading_memory(folder, sum(sizes.values()))
            content = {file.name: np.fromfile(file, dtype=np.uint8) for file in files}
    elif path.name.lower().endswith(TAR_ENDINGS):
        members = read_tar(path, {name for version in VERSIONS for name in (*version.files, *version.names)})
        version = _cifar_version(path, next(iter(members.folders), ""), set(members.names))
        content = members.content
        _check_cifar_sizes(path, version, {name: len(data) for name, data in content.items()})
    else:
        if path.name in _PICKLED:
            _cifar_version(path, "", {path.name})
        raise InputError(f"{path}: is one file of several; give its folder, {path.parent}")
    return _cifar_dataset(path, version, content)


def _cifar_folder(path: Path) -> Path:
    """The folder itself, or the one that the archive makes inside it."""
    with contextlib.suppress(OSError):
        return next((path / name for name in _FOLDERS if (path / name).is_dir()), path)
    return path


def _pickled_cifar(folder: str, listed: set[str]) -> str:
    """Name the set whose Python version this is, if it is one."""
    if folder == "cifar-100-python" or listed >= {"train", "test", "meta", "file.txt~"}:
        return "cifar-100"
    return "cifar-10" if listed & set(_PICKLED) else ""


def _cifar_version(path: Path, folder: str, listed: set[str]) -> CifarVersion:
    if family := _pickled_cifar(folder, listed):
        raise InputError(
            f"{path}: has the Python version of {family.upper()}, which is pickled and never loaded; "
            f"give the binary version, {family}-binary.tar.gz"
        )
    version = max(VERSIONS, key=lambda version: len(set(version.files) & listed))
    missing = [name for name in version.files if name not in listed]
    if len(missing) == len(version.files):
        archives = " or ".join(f"{version.name}-binary.tar.gz" for version in VERSIONS)
        raise InputError(f"{path}: has no file of CIFAR's binary version; give {archives}")
    if missing:
        raise InputError(f"{path}: {missing[0]} is missing; {version.name} needs {', '.join(version.files)}")
    return version


def _check_cifar_sizes(path: Path, version: CifarVersion, sizes: dict[str, int]) -> None:
    for name in version.files:
        if sizes[name] == 0 or sizes[name] % version.record:
            raise InputError(
                f"{path}: {name} must be whole records of {version.record:,} bytes; got {sizes[name]:,} bytes: "
                "the file is damaged, fetch it again"
            )
    each = TEST_SETS // len(version.train)
    for name in version.train:
        if sizes[name] != sizes[version.test] * each:
            raise InputError(
                f"{path}: {name} has {sizes[name] // version.record:,} records and {version.test} "
                f"{sizes[version.test] // version.record:,}, but {version.name} has {each} to 1: a file is cut: "
                "fetch it again"
            )


def _cifar_dataset(path: Path, version: CifarVersion, content: dict[str, NDArray[np.uint8]]) -> Dataset:
    rows = [content.pop(name).reshape(-1, version.record) for name in version.files]
    counts = [sum(map(len, rows[:-1])), len(rows[-1])]
    columns = [np.concatenate([batch[:, byte] for batch in rows]) for byte in range(len(version.labels))]
    for byte, (column, classes) in enumerate(zip(columns, version.labels, strict=True)):
        if column.max() >= classes:
            row = int(np.argmax(column >= classes))
            raise InputError(
                f"{path}: byte {byte} of a record of {version.name} must be a label 0..{classes - 1}; row {row} "
                f"has {int(column[row])}: the file is damaged or is another dataset"
            )
    x = np.empty((sum(counts), 32, 32, 3), dtype=np.uint8)
    start = 0
    while rows:  # free each file once its pixels are copied
        batch = rows.pop(0)
        pixels = batch[:, len(version.labels) :].reshape(-1, 3, 32, 32)
        x[start : start + len(batch)] = pixels.transpose(0, 2, 3, 1)
        start += len(batch)
    words = [
        _cifar_class_names(path, name, content.get(name), classes)
        for name, classes in zip(version.names, version.labels, strict=True)
    ]
    return Dataset(
        version.name.replace("-", ""),
        x,
        content_ids(x),
        columns[-1].astype(np.int64),
        words[-1],
        np.repeat(np.array(["train", "test"]), counts),
        metadata={"coarse": np.array(words[0])[columns[0]]} if len(columns) > 1 else {},
        source=f"{path.name}, Krizhevsky 2009",
    )


def _cifar_class_names(path: Path, name: str, content: NDArray[np.uint8] | None, classes: int) -> tuple[str, ...]:
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
