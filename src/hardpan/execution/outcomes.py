"""What became of a piece: its value, or the exception that ended it, in a form that crosses machines."""

from __future__ import annotations

import importlib
import pickle
import reprlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from hardpan.errors import HardpanError, MissingExtra

ATTEMPTS = 4  # how often a piece is started before the worker's death is taken to be the piece's doing


class PieceLost(HardpanError):
    """Every worker that was given a piece died under it; the message names the piece."""


class ClusterLost(HardpanError):
    """The cluster went away while pieces were under way; the message says which one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The value of piece ``index``, or why there is none."""

    index: int
    value: Any = None
    error: Exception | None = None


Outcomes = Generator[Outcome, None, None]
Ready = Callable[[], object]


def run_piece(function: Callable[[Any], Any], index: int, piece: Any) -> Outcome:
    """Run one piece; an exception is part of the outcome, so that every back end treats it alike."""
    try:
        return Outcome(index, function(piece))
    except Exception as error:
        error.add_note(f"in piece {index}: {reprlib.repr(piece)}")
        return Outcome(index, error=_portable(error))


def _portable(error: Exception) -> Exception:
    """The error itself where it survives a journey between processes, else its text."""
    try:
        # Bytes made on this very line and read back at once, never those of a file or a stranger: whether an error
        # arrives whole is known only by the trip that the back ends will take with it.
        pickle.loads(pickle.dumps(error))
    except Exception:
        stand_in = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            stand_in.add_note(note)
        return stand_in
    return error


def lost(index: int, why: str) -> PieceLost:
    """The error for a piece whose workers died again and again."""
    return PieceLost(
        f"piece {index}: the worker died {ATTEMPTS} times ({why}); most often its memory was too small: "
        "use fewer workers, or smaller pieces"
    )


def optional(module: str, package: str, extra: str) -> ModuleType | Any:
    """Import a module of an optional dependency, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(package, extra) from error
