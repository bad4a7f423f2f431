"""How much memory there is, asked before a reader takes any."""

from __future__ import annotations

import os
from pathlib import Path

from hardpan.errors import InputError


def check_memory(path: Path, needed: int) -> None:
    """Refuse a dataset of ``needed`` bytes that would not fit into free memory.

    Example:
        >>> check_memory(Path("small.npz"), 1000)
        >>> check_memory(Path("huge.npz"), 10**18)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: huge.npz: needs about 2,000,000,000.0 GB of memory and ... GB are free; ...
    """
    free = free_memory()
    # Checks, ids and the joined train and test rows hold the data about twice.
    if free is not None and 2 * needed > free:
        raise InputError(
            f"{path}: needs about {2 * needed / 1e9:,.1f} GB of memory and {free / 1e9:,.1f} GB are free; "
            "give fewer examples or a smaller dtype"
        )


def free_memory() -> int | None:
    """Bytes of memory that can be had now, or None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None
