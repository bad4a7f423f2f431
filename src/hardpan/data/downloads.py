"""Published datasets that are fetched by name, checked by their sums and kept.

| name | published by | at |
|---|---|---|
| mnist | LeCun, Cortes and Burges (1998) | http://yann.lecun.com/exdb/mnist/ |
| fashion-mnist | Xiao, Rasul and Vollgraf (2017) | https://github.com/zalandoresearch/fashion-mnist |
| cifar10, cifar100 (binary version) | Krizhevsky (2009) | https://www.cs.toronto.edu/~kriz/cifar.html |
| kmnist | Clanuwat et al. (2018) | http://codh.rois.ac.jp/kmnist/ |
| emnist-* | Cohen et al. (2017) | https://www.nist.gov/itl/products-and-services/emnist-dataset |
| svhn (cropped digits, train and test) | Netzer et al. (2011) | http://ufldl.stanford.edu/housenumbers/ |

Which sums are compared, and where they are stated: :mod:`hardpan.data.sources`.

Settings: ``HARDPAN_MIRROR`` replaces the publishers' addresses (``MIRROR/NAME/FILE``), ``HARDPAN_CACHE`` the folder
where files are kept (``CACHE/NAME/FILE``; NAME is ``emnist`` for all sets of EMNIST, which share one archive).
Files put there by hand are used without any network.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import string
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from hardpan import arguments
from hardpan.data import cifar, idx
from hardpan.data.arrays import from_arrays
from hardpan.data.dataset import Dataset
from hardpan.data.sources import SOURCES, File, Source
from hardpan.errors import InputError
from hardpan.safe_files import check_memory, reason

MIRROR_VARIABLE = "HARDPAN_MIRROR"
CACHE_VARIABLE = "HARDPAN_CACHE"
_BLOCK = 1 << 20


def read(name: str, mirror: str | None = None, cache: str | os.PathLike[str] | None = None) -> Dataset:
    """Give a published dataset, fetching what is not in the cache.

    Args:
        name: one of ``SOURCES``.
        mirror: an http(s) address with ``NAME/FILE`` under it; else ``HARDPAN_MIRROR``, else the publisher's.
        cache: the folder that keeps ``NAME/FILE``; else ``HARDPAN_CACHE``, else the user's cache folder.
    """
    source = SOURCES[name]
    folder = cache_folder(cache) / (source.folder or name)
    address = _address(name, mirror)
    absent = [file for file in source.files if not _kept(folder / file.name, file)]
    for file in absent:
        _fetch(name, f"{address}/{file.name}", folder, file)
    return replace(_read_kept(folder, source), name=name, source=source.citation)


def _read_kept(folder: Path, source: Source) -> Dataset:
    """Read the files whose sums were compared, and no others beside them."""
    names = [file.name for file in source.files]
    if source.layout == "cifar":
        return cifar.read(folder / names[0])
    if source.layout == "emnist":
        return idx.read_emnist(folder / names[0], source.member, source.class_names)
    if source.layout == "svhn":
        return read_svhn(folder / names[0], folder / names[1])
    return idx.read_files(folder, names, source.class_names or None)


def cache_folder(cache: str | os.PathLike[str] | None = None) -> Path:
    """Where downloads are kept: the argument, else ``HARDPAN_CACHE``, else the user's cache folder."""
    folder = os.fspath(cache) if cache is not None else os.environ.get(CACHE_VARIABLE, "")
    if folder:
        return Path(folder).expanduser()
    import pooch  # here, because only downloads need it

    return Path(pooch.os_cache("hardpan"))


def _address(name: str, mirror: str | None) -> str:
    address = mirror if mirror is not None else os.environ.get(MIRROR_VARIABLE, "")
    if not address:
        return SOURCES[name].address
    folder = SOURCES[name].folder or name
    if urlsplit(address).scheme not in ("http", "https"):
        raise InputError(
            f"must be an http or https address with {folder}/ under it; got {address!r}", argument="mirror"
        )
    return f"{address.rstrip('/')}/{folder}"


def _kept(path: Path, file: File) -> bool:
    """Whether the cache has the file; a file with another content is refused rather than replaced."""
    try:
        if not path.exists():
            return False
        wrong = _difference(path, file)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check the cache folder") from error
    if wrong:
        raise InputError(f"{path}: {wrong}; remove it to fetch it again")
    return True


def _difference(path: Path, file: File) -> str:
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


def _fetch(name: str, url: str, folder: Path, file: File) -> None:
    """Download one file with pooch, which keeps it only if our downloader found the right sum."""
    import pooch
    import requests

    def downloader(url: str, output: str, _: Any) -> None:
        pooch.HTTPDownloader(progressbar=_Progress(file), timeout=30)(url, output, None)
        wrong = _difference(Path(output), file)
        if wrong:
            raise InputError(f"{url}: {wrong}; try another mirror")

    try:
        with _quiet(pooch.get_logger()):
            pooch.retrieve(url, known_hash=None, fname=file.name, path=folder, downloader=downloader)
    except (requests.exceptions.RequestException, OSError) as error:
        files = ", ".join(item.name for item in SOURCES[name].files)
        raise InputError(
            f"{name}: {url} cannot be fetched ({_network_reason(error)}); put {files} into {folder}, or set "
            f"{MIRROR_VARIABLE} to an address that has {folder.name}/{file.name}"
        ) from error


def _network_reason(error: Exception) -> str:
    """A few words of an error that may have a whole chain of causes."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP status {response.status_code}"
    if isinstance(error, OSError) and error.strerror:
        return str(error.strerror)
    return {"ConnectionError": "no connection", "ConnectTimeout": "no answer", "ReadTimeout": "no answer"}.get(
        type(error).__name__, type(error).__name__
    )


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Keep pooch from advising to note a sum that we have already compared."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


class _Progress:
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


# SVHN: two MATLAB files with X (32, 32, 3, N) and y (N, 1), where 10 is the digit 0. They are read only after their
# sums were compared: scipy's reader was not made for files of unknown origin.
SIDE, COLOURS, CLASSES = 32, 3, 10


def read_svhn(train: Path, test: Path) -> Dataset:
    """Read both files into images (N, 32, 32, 3) of uint8 and digits 0 to 9.

    Shapes and types are read first, and compared with what SVHN has and with the memory that is free.
    """
    check_memory(train, sum(map(_claimed, (train, test))))
    (x, y), (x_test, y_test) = _read_mat(train), _read_mat(test)
    return from_arrays(x, y, x_test=x_test, y_test=y_test, class_names=tuple(string.digits), name="svhn")


def _claimed(path: Path) -> int:
    """Bytes of the images that a file claims to have; refuses one that does not look like SVHN's."""
    from scipy import io

    try:
        listed = {name: (shape, kind) for name, shape, kind in io.whosmat(path)}
    except Exception as error:  # scipy raises many kinds for a damaged file
        raise _damaged(path, error) from error
    (x_shape, x_kind), (y_shape, _) = listed.get("X", ((), "")), listed.get("y", ((), ""))
    if len(x_shape) != 4 or tuple(x_shape[:3]) != (SIDE, SIDE, COLOURS) or x_kind != "uint8":
        raise InputError(
            f"{path}: X must be uint8 of shape ({SIDE}, {SIDE}, {COLOURS}, N); got {x_kind or 'nothing'} of shape "
            f"{tuple(x_shape)}: fetch it again"
        )
    n = int(x_shape[3])
    if tuple(y_shape) != (n, 1):
        raise InputError(
            f"{path}: y must have shape ({n}, 1), one label for each image; got {tuple(y_shape)}: fetch it again"
        )
    return SIDE * SIDE * COLOURS * n


def _read_mat(path: Path) -> tuple[NDArray[Any], NDArray[np.int64]]:
    from scipy import io

    try:
        content = io.loadmat(path, variable_names=["X", "y"], verify_compressed_data_integrity=True)
        images, digits = np.asarray(content["X"]), np.asarray(content["y"])
    except Exception as error:  # scipy raises many kinds for a damaged file
        raise _damaged(path, error) from error
    if images.dtype != np.uint8 or images.shape[:3] != (SIDE, SIDE, COLOURS):
        raise InputError(f"{path}: X claims to be bytes of colour images and is not; fetch it again")
    x = np.ascontiguousarray(images.transpose(3, 0, 1, 2))
    labels = arguments.labels(f"{path}: y", digits.reshape(-1), len(x))
    if int(labels.min()) < 1 or int(labels.max()) > CLASSES:
        raise InputError(
            f"{path}: y must be 1..{CLASSES}, with {CLASSES} for the digit 0; got {int(labels.min())} to "
            f"{int(labels.max())}: fetch it again"
        )
    return x, labels % CLASSES


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(f"{path}: is not a readable MATLAB file ({reason(error)}); fetch it again")
