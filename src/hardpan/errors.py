"""The exceptions that hardpan raises on purpose, and the words of their messages.

::

    HardpanError
    ├── InputError (also ValueError)      bad input                              exit code 2
    └── MissingExtra (also ImportError)   a missing optional dependency          exit code 2

Any other exception is a bug (exit code 70). A failed gate exits with 1 (3 if it cannot tell), Ctrl-C with 130.
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Collection, Mapping
from typing import Any

__all__ = ["HardpanError", "InputError", "MissingExtra", "counted"]

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
        return functools.partial(type(self), argument=self.argument), (self.message,), self.__dict__

    def renamed(self, names: Mapping[str, str]) -> InputError:
        """The same error about other names, such as the options of a command."""
        argument = self.argument
        if isinstance(argument, str):
            return type(self)(self.message, argument=names.get(argument, argument))
        return type(self)(self.message, argument=tuple(names.get(name, name) for name in argument))


class MissingExtra(HardpanError, ImportError):
    """An optional dependency is not installed; the message is the command that installs it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; run: pip install 'hardpan[{extra}]'")
        self._arguments = (package, extra)

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        # Workers send exceptions pickled; without this it would be made again from its message alone.
        return type(self), self._arguments


def counted(count: int, noun: str, plural: str = "") -> str:
    """Write a count with its noun; the plural adds an s where none is given.

    Example:
        >>> counted(1, "test example"), counted(1200, "test example"), counted(0, "copy", "copies")
        ('1 test example', '1,200 test examples', '0 copies')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


LONGEST_REASON = 160  # letters


def reason(error: BaseException) -> str:
    """The first line of what an exception says, shortened: some repeat the file's own bytes."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    line = "".join(letter if letter.isprintable() else "?" for letter in str(text).partition("\n")[0])
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 3] + "..."


def few(names: Collection[Any], most: int = 10) -> str:
    """The first names, then how many more there are.

    Example:
        >>> few(["a", "b", "c"], most=2)
        'a, b and 1 more'
    """
    listed = [str(name) if len(str(name)) <= 60 else str(name)[:57] + "..." for name in list(names)[:most]]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(listed) + more) if listed else "nothing"
