"""Small datasets written in every format that is read, each with the truth it was written from."""

import gzip
import io
import struct
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
from PIL import Image

IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


@dataclass(frozen=True)
class Truth:
    """What has to be read: rows of train first, then those of test."""

    x: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]
    class_names: tuple[str, ...]
    n_train: int | None
    texts: np.ndarray[Any, Any] | None = None

    @property
    def split(self) -> list[str] | None:
        n = self.n_train
        return None if n is None else ["train"] * n + ["test"] * (len(self.x) - n)


@dataclass(frozen=True)
class Sample:
    """How a format is written, and what damage it can see.

    ``header`` is how many first bytes of a file say how to read the rest; a flipped bit there is refused or changes
    nothing. ``sees_cuts`` says that every cut is refused, not only those that would change what is read.
    """

    name: str
    write: Callable[[Path], tuple[Path, Truth]]
    header: int
    sees_cuts: bool = True


def grey_truth() -> Truth:
    x = np.random.default_rng(1).integers(0, 256, (14, 5, 4), dtype=np.uint8)
    return Truth(x, np.arange(14) % 3, ("0", "1", "2"), 9)


def idx_bytes(array: np.ndarray[Any, Any], code: int = 8) -> bytes:
    return bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def idx_files(truth: Truth) -> dict[str, bytes]:
    n, labels = truth.n_train, truth.labels.astype(np.uint8)
    return dict(zip(IDX_FILES, map(idx_bytes, (truth.x[:n], labels[:n], truth.x[n:], labels[n:])), strict=True))


def write_idx(folder: Path) -> tuple[Path, Truth]:
    truth = grey_truth()
    for name, content in idx_files(truth).items():
        (folder / name).write_bytes(content)
    return folder, truth


def write_idx_gzip(folder: Path) -> tuple[Path, Truth]:
    truth = grey_truth()
    for name, content in idx_files(truth).items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
    return folder, truth


CIFAR10_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def cifar_truth(classes: int) -> Truth:
    x = np.random.default_rng(2).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    names = CIFAR10_NAMES if classes == 10 else tuple(f"fine_{label}" for label in range(100))
    return Truth(x, np.array([3, 9, 0, 5, 5, 1]) * classes // 10, names, 5)


def cifar_files(classes: int) -> dict[str, bytes]:
    truth = cifar_truth(classes)
    planes = truth.x.transpose(0, 3, 1, 2)
    first = [bytes([label]) if classes == 10 else bytes([label % 20, label]) for label in truth.labels.tolist()]
    rows = [label + plane.tobytes() for label, plane in zip(first, planes, strict=True)]
    if classes == 10:
        files = {f"data_batch_{batch}.bin": rows[batch - 1] for batch in range(1, 6)}
        files |= {"test_batch.bin": rows[5], "batches.meta.txt": "\n".join(CIFAR10_NAMES).encode()}
    else:
        files = {"train.bin": b"".join(rows[:5]), "test.bin": rows[5]}
        files["fine_label_names.txt"] = "\n".join(truth.class_names).encode()
        files["coarse_label_names.txt"] = "\n".join(f"coarse_{label}" for label in range(20)).encode()
    return files


def tar_bytes(files: dict[str, bytes], folder: str = "cifar-10-batches-bin") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def write_cifar10(folder: Path) -> tuple[Path, Truth]:
    for name, content in cifar_files(10).items():
        (folder / name).write_bytes(content)
    return folder, cifar_truth(10)


def write_cifar100(folder: Path) -> tuple[Path, Truth]:
    inside = folder / "cifar-100-binary"
    inside.mkdir()
    for name, content in cifar_files(100).items():
        (inside / name).write_bytes(content)
    return folder, cifar_truth(100)


def write_cifar_archive(folder: Path) -> tuple[Path, Truth]:
    path = folder / "cifar-10-binary.tar.gz"
    path.write_bytes(gzip.compress(tar_bytes(cifar_files(10)), compresslevel=1, mtime=0))
    return path, cifar_truth(10)


def write_cifar_tar(folder: Path) -> tuple[Path, Truth]:
    path = folder / "cifar-100-binary.tar"
    path.write_bytes(tar_bytes(cifar_files(100), "cifar-100-binary"))
    return path, cifar_truth(100)


def write_folder(folder: Path) -> tuple[Path, Truth]:
    names = ("cat", "dog")
    x = np.random.default_rng(3).integers(0, 256, (7, 6, 5, 3), dtype=np.uint8)
    labels = np.array([0, 0, 1, 1, 0, 1, 1])
    for row, (image, label) in enumerate(zip(x, labels.tolist(), strict=True)):
        place = folder / ("train" if row < 4 else "test") / names[label]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{row}.png")
    return folder, Truth(x, labels, names, 4)


def write_flat_folder(folder: Path) -> tuple[Path, Truth]:
    x = np.random.default_rng(4).integers(0, 256, (5, 3, 4), dtype=np.uint8)
    for row, image in enumerate(x):
        place = folder / ("left" if row < 2 else "right")
        place.mkdir(exist_ok=True)
        Image.fromarray(image).save(place / f"{row}.png")
    return folder, Truth(x, np.array([0, 0, 1, 1, 1]), ("left", "right"), None)


def vector_truth() -> Truth:
    x = np.random.default_rng(5).normal(size=(11, 3)).astype(np.float32)
    return Truth(x, np.arange(11) % 2, ("no", "yes"), 8)


def write_parquet(folder: Path) -> tuple[Path, Truth]:
    truth = vector_truth()
    columns = {
        "features": list(truth.x),
        "label": [truth.class_names[label] for label in truth.labels.tolist()],
        "split": truth.split,
    }
    path = folder / "vectors.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=4, write_page_checksum=True)
    return path, truth


def write_parquet_columns(folder: Path) -> tuple[Path, Truth]:
    truth = vector_truth()
    columns = {f"feature {place}": truth.x[:, place] for place in range(3)} | {"label": truth.labels}
    path = folder / "table.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path, write_page_checksum=True)
    return path, Truth(truth.x, truth.labels, ("0", "1"), None)


def write_npz(folder: Path) -> tuple[Path, Truth]:
    truth = grey_truth()
    n = truth.n_train
    path = folder / "set.npz"
    np.savez(path, x_train=truth.x[:n], y_train=truth.labels[:n], x_test=truth.x[n:], y_test=truth.labels[n:])
    return path, truth


# A new reader whose format can show damage joins here, and gets every check of test_contract.py; all readers join
# tests/soak/readers.py. Text formats have no checksum: a cut CSV file is a shorter one.
def write_text_folder(folder: Path) -> tuple[Path, Truth]:
    texts = np.array([f"sentence {n} of é" for n in range(14)], dtype=object)
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 1, 1, 2, 2])
    for n, text in enumerate(texts):
        place = folder / "texts" / ("train" if n < 9 else "test") / "abc"[labels[n]]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{n:02}.txt").write_text(text, encoding="utf-8")
    return folder / "texts", Truth(np.zeros((14, 0)), labels, ("a", "b", "c"), 9, texts)


SAMPLES = [
    Sample("npz", write_npz, header=128),
    Sample("idx", write_idx, header=8),  # the labels' header; that of the images goes on for eight bytes of shape
    Sample("idx gzip", write_idx_gzip, header=24),
    Sample("cifar10", write_cifar10, header=0),
    Sample("cifar100", write_cifar100, header=0),
    Sample("cifar10 archive", write_cifar_archive, header=512),
    # What a tar has after its first block of zeros says nothing.
    Sample("cifar100 tar", write_cifar_tar, header=512, sees_cuts=False),
    # Pillow does not miss the last four bytes of a PNG, the checksum of its empty last chunk.
    Sample("text folder", write_text_folder, header=0, sees_cuts=False),
    Sample("image folder", write_folder, header=33, sees_cuts=False),
    Sample("flat image folder", write_flat_folder, header=33, sees_cuts=False),
    Sample("parquet", write_parquet, header=4),
    Sample("parquet columns", write_parquet_columns, header=4),
]
