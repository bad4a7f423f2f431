"""What the commands share: options, the JSON switch, and progress on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from hardpan import records
from hardpan.errors import InputError

QUIET_SECONDS = 2.0

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON alone on stdout.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything random: same seed, same result.")]
OutFolder = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Folder for index.html, report.json and config.json."),
]


class ProgressCallback(Protocol):
    """What a long function calls: the step it is at, and the fraction of the whole that is done."""

    def __call__(self, step: str, fraction: float) -> None:
        """Say that ``step`` begins with ``fraction`` (0..1) of the work done."""


def floats(option: str, text: str) -> tuple[float, ...]:
    """Read a comma-separated list of numbers, such as ``0.2,1,3``.

    Example:
        >>> floats("--temperature", "0.2, 1,3")
        (0.2, 1.0, 3.0)
    """
    try:
        return tuple(float(piece) for piece in text.split(","))
    except ValueError:
        raise InputError(
            f"{option} must be numbers with commas between them, such as 0.2,1,3; got {text!r}"
        ) from None


def emit(record: Any, as_json: bool, shown: RenderableType | None = None) -> None:
    """Print a result on stdout: its JSON alone, or what a person reads (without it, the record's repr)."""
    if as_json:
        print(records.dumps(records.to_json(record)))
    else:
        Console(highlight=False).print(repr(record) if shown is None else shown)


@contextmanager
def progress_on_stderr() -> Iterator[ProgressCallback]:
    """Show progress on stderr: a bar on a terminal, a line a step elsewhere; nothing in the first two seconds."""
    started = time.monotonic()
    if not sys.stderr.isatty():

        def line(step: str, fraction: float) -> None:
            if time.monotonic() - started > QUIET_SECONDS:
                print(f"hardpan: {100 * fraction:3.0f} % {step}", file=sys.stderr, flush=True)

        yield line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=1.0)

    def show(step: str, fraction: float) -> None:
        bar.update(task, description=step, completed=fraction)

    with bar:
        yield show
