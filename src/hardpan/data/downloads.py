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
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hardpan.data import cifar, emnist, idx, svhn
from hardpan.data.dataset import Dataset
from hardpan.data.sources import SOURCES, File, Source
from hardpan.errors import InputError

MIRROR_VARIABLE = "HARDPAN_MIRROR"
CACHE_VARIABLE = "HARDPAN_CACHE"
_PIECE = 1 << 20


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
    dataset = _read_kept(folder, source)
    class_names = source.class_names or dataset.class_names
    return replace(dataset, name=name, class_names=class_names, source=source.citation)


def _read_kept(folder: Path, source: Source) -> Dataset:
    """Read the files whose sums were compared, and no others that may lie beside them."""
    names = [file.name for file in source.files]
    if source.layout == "cifar":
        return cifar.read(folder / names[0])
    if source.layout == "emnist":
        return emnist.read_part(folder / names[0], source.part, source.class_names)
    if source.layout == "svhn":
        return svhn.read_pair(folder / names[0], folder / names[1])
    return idx.read_files(folder, names)


def cache_folder(cache: str | os.PathLike[str] | None = None) -> Path:
    """Where downloads are kept: the argument, else ``HARDPAN_CACHE``, else the user's cache folder."""
    given = os.fspath(cache) if cache is not None else os.environ.get(CACHE_VARIABLE, "")
    if given:
        return Path(given).expanduser()
    import pooch  # here, because only downloads need it

    return Path(pooch.os_cache("hardpan"))


def _address(name: str, mirror: str | None) -> str:
    given = mirror if mirror is not None else os.environ.get(MIRROR_VARIABLE, "")
    if not given:
        return SOURCES[name].address
    folder = SOURCES[name].folder or name
    if urlsplit(given).scheme not in ("http", "https"):
        raise InputError(f"mirror must be an http or https address with {folder}/ under it; got {given!r}")
    return f"{given.rstrip('/')}/{folder}"


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
            while left > 0 and (piece := stream.read(min(_PIECE, left))):
                for digest in digests.values():
                    digest.update(piece)
                left -= len(piece)
            if stream.read(1):
                return f"has sha256 of a longer file instead of {file.sha256}"
        except (OSError, EOFError, zlib.error):
            return f"has sha256 of a damaged file instead of {file.sha256}"
    got = {kind: digest.hexdigest() for kind, digest in digests.items()}
    return next(
        (f"has {kind} {got[kind]} instead of {known[kind]}" for kind in known if got[kind] != known[kind]), ""
    )


def _fetch(name: str, url: str, folder: Path, file: File) -> None:
    """Download one file by pooch, which keeps it only if our downloader, and so the sum, was content."""
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
        reason = _reason(error)
        files = ", ".join(item.name for item in SOURCES[name].files)
        raise InputError(
            f"{name}: {url} cannot be fetched ({reason}); put {files} into {folder}, or set {MIRROR_VARIABLE} to "
            f"an address that has {folder.name}/{file.name}"
        ) from error


def _reason(error: Exception) -> str:
    """A few words of an error that may hold a whole chain of others."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP status {response.status_code}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
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
    """What pooch tells of a download: a line on stderr for a person, and an end to an answer that does not end."""

    def __init__(self, file: File) -> None:
        self.total = 0
        self._file, self._got, self._shown = file, 0, -1
        # gzip makes nothing that matters longer; a tenth more is room for any way of packing.
        self._most = int(1.1 * file.size) + (1 << 16)

    def update(self, count: int) -> None:
        """Count bytes that came, and show each per cent once."""
        self._got += count
        if self._got > self._most:
            raise InputError(
                f"{self._file.name}: the server sends more than {self._most:,} bytes; try another mirror"
            )
        share = min(100, 100 * self._got // self.total) if self.total else 0
        if share > self._shown and sys.stderr.isatty():
            self._shown = share
            print(f"\r{self._file.name} {share:3d} %", end="", file=sys.stderr, flush=True)

    def reset(self) -> None:
        """Begin to count again: pooch counts whole pieces, and sets the sum right at the end."""
        self._got = 0

    def close(self) -> None:
        """End the line."""
        if sys.stderr.isatty():
            print(file=sys.stderr)
        else:
            print(f"fetched {self._file.name}, {self._got:,} bytes", file=sys.stderr)
