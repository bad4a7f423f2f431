"""Published datasets that are fetched by name, checked by their sums and kept.

| name | published by | at | sums are |
|---|---|---|---|
| mnist | LeCun, Cortes and Burges (1998) | http://yann.lecun.com/exdb/mnist/ | of the unpacked content |
| fashion-mnist | Xiao, Rasul and Vollgraf (2017) | https://github.com/zalandoresearch/fashion-mnist | the same |
| cifar10, cifar100 | Krizhevsky (2009) | https://www.cs.toronto.edu/~kriz/cifar.html | with the md5 of that page |

CIFAR is read in its binary version. Sums of unpacked content also fit a copy that someone else gzipped. To add a
dataset, add its entry to ``SOURCES`` with a sum that can be cited, and say where it is stated.

Settings: ``HARDPAN_MIRROR`` replaces the publishers' addresses (``MIRROR/NAME/FILE``), ``HARDPAN_CACHE`` the folder
where files are kept (``CACHE/NAME/FILE``). Files put there by hand are used without any network.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from hardpan.data import cifar, idx
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError

MIRROR_VARIABLE = "HARDPAN_MIRROR"
CACHE_VARIABLE = "HARDPAN_CACHE"
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class File:
    """One published file: its name, the sums of its content, and how long that is.

    ``md5`` is compared too if it is known; ``unpacked`` says that the sums are over what gzip unpacks to;
    ``size`` is the length of what is summed.
    """

    name: str
    sha256: str
    size: int
    unpacked: bool = False
    md5: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """A published dataset: the address of its files, the files, what its classes are called, and its format."""

    address: str
    files: tuple[File, ...]
    citation: str
    class_names: tuple[str, ...] = ()
    layout: Literal["idx", "cifar"] = "idx"


def _mnist_files(train_images: str, train_labels: str, test_images: str, test_labels: str) -> tuple[File, ...]:
    """The four files of MNIST and of what was made in its image: 60,000 and 10,000 of 28 × 28."""
    return (
        File("train-images-idx3-ubyte.gz", train_images, 16 + 60_000 * 784, unpacked=True),
        File("train-labels-idx1-ubyte.gz", train_labels, 8 + 60_000, unpacked=True),
        File("t10k-images-idx3-ubyte.gz", test_images, 16 + 10_000 * 784, unpacked=True),
        File("t10k-labels-idx1-ubyte.gz", test_labels, 8 + 10_000, unpacked=True),
    )


SOURCES: Mapping[str, Source] = {
    "mnist": Source(
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        _mnist_files(
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        "MNIST: LeCun, Cortes and Burges 1998",
    ),
    "fashion-mnist": Source(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        _mnist_files(
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        "Fashion-MNIST: Xiao, Rasul and Vollgraf 2017",
        ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
    "cifar10": Source(
        "https://www.cs.toronto.edu/~kriz",
        (
            File(
                "cifar-10-binary.tar.gz",
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                170_052_171,
                md5="c32a1d4ab5d03f1284b67883e8d87530",
            ),
        ),
        "CIFAR-10: Krizhevsky 2009",
        layout="cifar",
    ),
    "cifar100": Source(
        "https://www.cs.toronto.edu/~kriz",
        (
            File(
                "cifar-100-binary.tar.gz",
                "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
                168_513_733,
                md5="03b5dce01913d631647c71ecec9e9cb8",
            ),
        ),
        "CIFAR-100: Krizhevsky 2009",
        layout="cifar",
    ),
}


def read_published(name: str, mirror: str | None = None, cache: str | os.PathLike[str] | None = None) -> Dataset:
    """Give a published dataset, fetching what is not in the cache.

    Args:
        name: one of ``SOURCES``.
        mirror: an http(s) address with ``NAME/FILE`` under it; else ``HARDPAN_MIRROR``, else the publisher's.
        cache: the folder that keeps ``NAME/FILE``; else ``HARDPAN_CACHE``, else the user's cache folder.
    """
    source = SOURCES[name]
    folder = cache_folder(cache) / name
    address = source.address
    if mirror := os.environ.get(MIRROR_VARIABLE, "") if mirror is None else mirror:
        if urlsplit(mirror).scheme not in ("http", "https"):
            raise InputError(
                f"must be an http or https address with {name}/ under it; got {mirror!r}", argument="mirror"
            )
        address = f"{mirror.rstrip('/')}/{name}"
    for file in [file for file in source.files if not _is_downloaded(folder / file.name, file)]:
        _download(name, f"{address}/{file.name}", folder, file)
    paths = [folder / file.name for file in source.files]  # whose sums were compared, and no others beside them
    if source.layout == "cifar":
        dataset = cifar.read_cifar(paths[0])
    else:
        dataset = idx.read_idx_files(folder, paths, source.class_names or None)
    return replace(dataset, name=name, source=source.citation)


def cache_folder(cache: str | os.PathLike[str] | None = None) -> Path:
    """Where downloads are kept: the argument, else ``HARDPAN_CACHE``, else the user's cache folder."""
    folder = os.fspath(cache) if cache is not None else os.environ.get(CACHE_VARIABLE, "")
    if folder:
        return Path(folder).expanduser()
    import pooch  # here, because only downloads need it

    return Path(pooch.os_cache("hardpan"))


def _is_downloaded(path: Path, file: File) -> bool:
    """Whether the cache has the file; a file with another content is refused rather than replaced."""
    try:
        if not path.exists():
            return False
        wrong = _download_difference(path, file)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check the cache folder") from error
    if wrong:
        raise InputError(f"{path}: {wrong}; remove it to fetch it again")
    return True


def _download_difference(path: Path, file: File) -> str:
    """What is wrong with a file, or with what it unpacks to; no more than its known length is unpacked."""
    known = {"sha256": file.sha256} | ({"md5": file.md5} if file.md5 else {})
    digests = {kind: hashlib.new(kind, usedforsecurity=kind == "sha256") for kind in known}
    with path.open("rb") as raw:
        packed = file.unpacked and raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream: Any = gzip.GzipFile(fileobj=raw) if packed else raw
        left = file.size
        try:
            while left > 0 and (block := stream.read(min(_BLOCK, left))):
                for digest in digests.values():
                    digest.update(block)
                left -= len(block)
            if stream.read(1):
                return f"has sha256 of a longer file instead of {file.sha256}"
        except (OSError, EOFError, zlib.error):
            return f"has sha256 of a damaged file instead of {file.sha256}"
    got = {kind: digest.hexdigest() for kind, digest in digests.items()}
    return next(
        (f"has {kind} {got[kind]} instead of {known[kind]}" for kind in known if got[kind] != known[kind]), ""
    )


def _download(name: str, url: str, folder: Path, file: File) -> None:
    """Download one file with pooch, which keeps it only if our downloader found the right sum."""
    import pooch
    import requests

    def downloader(url: str, output: str, _: Any) -> None:
        pooch.HTTPDownloader(progressbar=_DownloadProgress(file), timeout=30)(url, output, None)
        wrong = _download_difference(Path(output), file)
        if wrong:
            raise InputError(f"{url}: {wrong}; try another mirror")

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")  # else it advises to note a sum that we have already compared
    try:
        pooch.retrieve(url, known_hash=None, fname=file.name, path=folder, downloader=downloader)
    except (requests.exceptions.RequestException, OSError) as error:
        response, kind = getattr(error, "response", None), type(error).__name__
        few = {"ConnectionError": "no connection", "ConnectTimeout": "no answer", "ReadTimeout": "no answer"}
        why = error.strerror or few.get(kind, kind) if response is None else f"HTTP status {response.status_code}"
        files = ", ".join(item.name for item in SOURCES[name].files)
        raise InputError(
            f"{name}: {url} cannot be fetched ({why}); put {files} into {folder}, or set "
            f"{MIRROR_VARIABLE} to an address that has {folder.name}/{file.name}"
        ) from error
    finally:
        logger.setLevel(level)


class _DownloadProgress:
    """Progress of a download: a line on stderr for a person, and an end to an answer that does not end."""

    def __init__(self, file: File) -> None:
        self.total = 0
        self._file, self._got, self._shown = file, 0, -1
        # gzip makes nothing that matters longer; a tenth more is room for any way of packing.
        self._most = int(1.1 * file.size) + (1 << 16)

    def update(self, count: int) -> None:
        """Count received bytes, and show each percent once."""
        self._got += count
        if self._got > self._most:
            raise InputError(
                f"{self._file.name}: the server sends more than {self._most:,} bytes; try another mirror"
            )
        percent = min(100, 100 * self._got // self.total) if self.total else 0
        if percent > self._shown and sys.stderr.isatty():
            self._shown = percent
            print(f"\r{self._file.name} {percent:3d} %", end="", file=sys.stderr, flush=True)

    def reset(self) -> None:
        """Begin to count again: pooch counts whole blocks, and corrects the sum at the end."""
        self._got = 0

    def close(self) -> None:
        """End the line."""
        if sys.stderr.isatty():
            print(file=sys.stderr)
        else:
            print(f"fetched {self._file.name}, {self._got:,} bytes", file=sys.stderr)
