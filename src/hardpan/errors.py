"""The exceptions that hardpan raises on purpose.

::

    HardpanError
    ├── InputError (also ValueError)      bad input                              exit code 2
    └── MissingExtra (also ImportError)   a missing optional dependency          exit code 2

Any other exception is a bug (exit code 70). A failed gate exits with 1, Ctrl-C with 130.
"""

from __future__ import annotations

import errno
import operator
from typing import Any

__all__ = ["HardpanError", "InputError", "MissingExtra", "whole_number"]

FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class HardpanError(Exception):
    """Base of every exception that hardpan raises on purpose."""


class InputError(HardpanError, ValueError):
    """Bad input; the message names the argument, the value and the remedy."""


class MissingExtra(HardpanError, ImportError):
    """An optional dependency is not installed; the message is the command that installs it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; run: pip install 'hardpan[{extra}]'")
        self._given = (package, extra)

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        # Workers send exceptions pickled; without this it would be made again from its message alone.
        return type(self), self._given


def whole_number(name: str, value: Any, least: int = 0) -> int:
    """An argument that must be a whole number of at least ``least``; NumPy's integers are, True and 2.0 are not.

    Example:
        >>> whole_number("folds", 5, 2)
        5
        >>> whole_number("folds", 1, 2)
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: folds must be a whole number of at least 2; got 1
    """
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise InputError(f"{name} must be a whole number of at least {least}; got {value!r}")
    return number


def __dir__() -> list[str]:
    return __all__
