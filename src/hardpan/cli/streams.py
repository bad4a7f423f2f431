"""Standard output and error where they cannot take everything: another encoding than UTF-8, a full disk."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys

from hardpan.errors import FULL_DISK

DISK_FAULTS = (*FULL_DISK, errno.EROFS)
ESCAPES = "hardpan-escapes"


def speak_any_encoding() -> None:
    """Let a stream write what its encoding lacks as JSON escapes, so that text is printed and JSON stays JSON."""
    codecs.register_error(ESCAPES, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.closed:
            stream.reconfigure(errors=ESCAPES)


def give_up_stdout() -> None:
    """Forget what could not be written, which Python would try again, and complain about, when it ends."""
    try:
        if sys.stdout is not None:
            sys.stdout.close()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """What JSON writes for characters that an encoding lacks.

    Example:
        >>> speak_any_encoding()
        >>> "τ😀".encode("ascii", ESCAPES), "a file \\udcff".encode("utf-8", ESCAPES)
        (b'\\\\u03c4\\\\ud83d\\\\ude00', b'a file \\\\udcff')
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    units = (lacking[place : place + 2].hex() for place in range(0, len(lacking), 2))
    return "".join(f"\\u{unit}" for unit in units), error.end
