"""Ids of examples: the same content has the same id on every machine and in every order."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.files import array_hash

_REPEAT = re.compile(r"([0-9a-f]{16})-[1-9][0-9]*")


def content_ids(x: NDArray[Any]) -> NDArray[np.str_]:
    """Name every example by its content.

    The id is the first 16 hexadecimal digits of sha256 over dtype, shape and bytes of ``x[i]``; the second example
    with the same content gets "-2", the third "-3".

    Args:
        x: examples along the first axis, shape (N, ...).

    Returns:
        (N,) strings, each once.

    Example:
        >>> content_ids(np.array([[1.0], [2.0], [1.0]])).tolist()
        ['f12f1de45222225a', '377e1c566a8c4e6b', 'f12f1de45222225a-2']
    """
    seen: Counter[str] = Counter()
    ids = []
    for example in x.astype(x.dtype.newbyteorder("<"), copy=False):
        name = array_hash(np.asarray(example))[:16]
        seen[name] += 1
        ids.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return np.array(ids, dtype=np.str_)


def row_ids(n: int) -> NDArray[np.str_]:
    """Names for rows whose content is not at hand; they join other data only when told to.

    Example:
        >>> row_ids(2).tolist()
        ['row-0000000', 'row-0000001']
    """
    return np.array([f"row-{row:07d}" for row in range(n)], dtype=np.str_)


def content_of(name: str) -> str:
    """Give the id of the first example with the same content: "-2", "-3" are cut off content ids, nothing else.

    Example:
        >>> content_of("00112233aabbccdd-3"), content_of("photo-3")
        ('00112233aabbccdd', 'photo-3')
    """
    repeat = _REPEAT.fullmatch(name)
    return repeat[1] if repeat else name
