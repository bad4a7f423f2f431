"""The bytes of a shard, as Zarr writes them for the arrays of a store."""

from __future__ import annotations

from typing import Any

import google_crc32c
import numpy as np
from numcodecs.blosc import SHUFFLE, Blosc  # type: ignore[import-untyped]
from numpy.typing import NDArray
from zarr.abc.codec import BytesBytesCodec
from zarr.codecs import BloscCodec, Crc32cCodec

_BLOSC = Blosc(cname="lz4", clevel=1, shuffle=SHUFFLE)


def compressors() -> list[BytesBytesCodec]:
    """What :func:`encoded` does, in Zarr's words: by these its readers know how."""
    return [BloscCodec(cname="lz4", clevel=1, shuffle="shuffle"), Crc32cCodec()]


def encoded(rows: NDArray[Any], block: int) -> tuple[bytes, bytes]:
    """Compress the rows (n, C) of a block, and give the bytes and their checksum, which lies behind them.

    Zarr would give the same bytes. It adds checksums in one thread for the whole process, with a copy of every
    shard, so that shards which are written at the same time would wait for one another.

    Args:
        rows: the rows; the last block of an epoch may have fewer than ``block``.
        block: rows in a shard; where there are fewer, zeros follow.
    """
    whole = np.ascontiguousarray(rows)
    if len(rows) < block:
        whole = np.zeros((block, rows.shape[1]), dtype=rows.dtype)
        whole[: len(rows)] = rows
    packed = bytes(_BLOSC.encode(whole))
    return packed, google_crc32c.value(packed).to_bytes(4, "little")
