"""The exceptions that hardpan raises on purpose.

::

    HardpanError
    ├── InputError (also ValueError)      bad input                              exit code 2
    └── MissingExtra (also ImportError)   a missing optional dependency          exit code 2

Any other exception is a bug (exit code 70). A failed gate exits with 1, Ctrl-C with 130.
"""

from __future__ import annotations

import errno
import functools
import math
import numbers
import operator
from collections.abc import Collection, Mapping
from typing import Any

__all__ = ["HardpanError", "InputError", "MissingExtra", "one_of", "real_number", "seconds", "whole_number"]

FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class HardpanError(Exception):
    """Base of every exception that hardpan raises on purpose."""


class InputError(HardpanError, ValueError):
    """Bad input; the message names the argument, the value and the remedy.

    Args:
        message: what is wrong, what is expected and what to do; it follows the name of the argument.
        argument: the name of the argument, or several names, where the message is about arguments.

    Example:
        >>> error = InputError("must sum to 1; got 0.93", argument="priors")
        >>> str(error), error.argument
        ('priors must sum to 1; got 0.93', 'priors')
        >>> str(error.renamed({"priors": "--priors"}))
        '--priors must sum to 1; got 0.93'
    """

    def __init__(self, message: str, *, argument: str | tuple[str, ...] = "") -> None:
        self.message, self.argument = message, argument
        names = argument if isinstance(argument, str) else " and ".join(argument)
        super().__init__(names + ("" if not names or message.startswith(":") else " ") + message)

    def __reduce__(self) -> Any:
        # Workers send exceptions pickled; without this it would be made again from its message alone.
        return functools.partial(type(self), argument=self.argument), (self.message,)

    def renamed(self, names: Mapping[str, str]) -> InputError:
        """The same error about other names, such as the options of a command."""
        given = (self.argument,) if isinstance(self.argument, str) else self.argument
        return type(self)(self.message, argument=tuple(names.get(name, name) for name in given))


class MissingExtra(HardpanError, ImportError):
    """An optional dependency is not installed; the message is the command that installs it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; run: pip install 'hardpan[{extra}]'")
        self._arguments = (package, extra)

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        # Workers send exceptions pickled; without this it would be made again from its message alone.
        return type(self), self._arguments


def whole_number(name: str, value: Any, least: int = 0, most: int | None = None) -> int:
    """An argument that must be a whole number, ``least`` to ``most``; NumPy's integers are, True and 2.0 are not.

    Example:
        >>> whole_number("folds", 5, 2)
        5
        >>> whole_number("folds", 1, 2)
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: folds must be a whole number of at least 2; got 1
    """
    try:
        whole = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        whole = least - 1
    if whole < least or (most is not None and whole > most):
        limit = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise InputError(f"must be a whole number {limit}; got {value!r}", argument=name)
    return whole


def real_number(name: str, value: Any, interval: str) -> float:
    """An argument that must be a number in an interval, such as "[0, 1)" or "(0, inf)"; True is not a number.

    Example:
        >>> real_number("warmup", 0.2, "[0, 1)")
        0.2
        >>> real_number("warmup", 1.0, "[0, 1)")
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: warmup must be a number of at least 0 and below 1; got 1.0
    """
    low, high = (float(end) for end in interval[1:-1].split(","))
    above, below = interval[0] == "(", interval[-1] == ")"
    real = not isinstance(value, bool) and isinstance(value, numbers.Real) and math.isfinite(value)
    if not real or not low <= value <= high or (above and value == low) or (below and value == high):
        limits = f"above {low:g}" if above else f"of at least {low:g}"
        limits += "" if math.isinf(high) else f" and below {high:g}" if below else f" and at most {high:g}"
        raise InputError(f"must be a number {limits}; got {value!r}", argument=name)
    return float(value)


def seconds(name: str, text: str) -> float:
    """A length of time such as 90s, 3m or 1h in seconds; a number alone is seconds.

    Example:
        >>> seconds("budget", "90s"), seconds("budget", "3m"), seconds("budget", "0.5h"), seconds("budget", "45")
        (90.0, 180.0, 1800.0, 45.0)
    """
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number = text.strip()
    unit = units.get(number[-1:], 0.0)
    try:
        value = float(number[:-1] if unit else number) * (unit or 1.0)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise InputError(f"must be a time such as 90s, 3m or 1h; got {text!r}", argument=name)
    return value


def one_of(name: str, value: Any, allowed: Collection[Any]) -> None:
    """Refuse an argument that is none of a few values.

    Example:
        >>> one_of("split", "tset", ("train", "test"))
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: split must be one of train, test; got 'tset'
    """
    if value not in allowed:
        raise InputError(
            f"must be one of {', '.join(str(item) for item in allowed if item)}; got {value!r}", argument=name
        )


def __dir__() -> list[str]:
    return __all__
