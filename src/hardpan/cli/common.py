"""What the commands share: options, the JSON switch, and progress on stderr."""

from __future__ import annotations

import shlex
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from hardpan import execution, files
from hardpan.report.base import Report

QUIET_SECONDS = 2.0
SPACING_SECONDS = 0.5

JsonFlag = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout, and nothing else.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Random seed: the same seed gives the same result.")]
ByOrder = Annotated[bool, typer.Option("--by-order", help="Join predictions by position if they have no ids.")]
OutFolder = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Write index.html, report.json and config.json to this folder."),
]


def check_out(out: Path | None) -> None:
    """Refuse a folder that cannot be written before any work is done."""
    if out is not None:
        from hardpan.files import check_writable

        check_writable(out)


@files.record
class CommandOptions:
    """The options of a command whose result has no settings of its own: its config.json."""

    command: str
    options: Mapping[str, Any]


def emit_report(
    report: Report,
    *,
    json: bool,
    out: Path | None = None,
    extra: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Save a report to ``out``, then print its JSON alone, or what a person reads and where the page is.

    Args:
        report: the result.
        json: print JSON alone.
        out: folder to save to.
        extra: further files by name.
        options: of the command; they are its config.json, unless the report has settings of its own.
    """
    written = None
    if out is not None:
        command = shlex.join(["hardpan", *sys.argv[1:]])
        if options is not None:
            used = {name: value for name, value in options.items() if name not in ("out", "json")}
            extra = {
                "config.json": files.dumps(files.to_json(CommandOptions(command, used))) + "\n",
                **(extra or {}),
            }
        written = report.save(out, command=command, extra=extra)
    if json:
        print(report.to_json())
        return
    console = Console(highlight=False)
    console.print(report)
    if written is not None:
        kind = "Page" if written.suffix == ".html" else "Written"
        console.print(Text(f"{kind}: {written}"), soft_wrap=True)


class _Lines:
    """Progress where there is no terminal: the step that is under way, in lines that do not come in a flood.

    The first comes after the quiet seconds, so that work which ends before says nothing; others no closer than the
    spacing. Of steps that are shorter the last is named, by a timer: it may be a long one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = ""
        self._timer: threading.Timer | None = None
        self._earliest = time.monotonic() + QUIET_SECONDS

    def __call__(self, step: str, fraction: float) -> None:
        with self._lock:
            self._waiting = f"hardpan: {100 * fraction:3.0f} % {step}"
            left = self._earliest - time.monotonic()
            if left <= 0:
                self._speak()
            elif self._timer is None:
                self._timer = threading.Timer(left, self._on_time)
                self._timer.daemon = True
                self._timer.start()

    def _on_time(self) -> None:
        with self._lock:
            self._timer = None
            self._speak()

    def _speak(self) -> None:
        if self._waiting:
            print(self._waiting, file=sys.stderr, flush=True)
            self._waiting, self._earliest = "", time.monotonic() + SPACING_SECONDS

    def close(self) -> None:
        with self._lock:
            self._waiting = ""
            if self._timer is not None:
                self._timer.cancel()


@contextmanager
def progress_on_stderr() -> Iterator[execution.Progress]:
    """Show progress on stderr: a bar on a terminal; elsewhere lines, from the third second on."""
    if not sys.stderr.isatty():
        lines = _Lines()
        try:
            yield lines
        finally:
            lines.close()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=1.0)

    def show(step: str, fraction: float) -> None:
        bar.update(task, description=step, completed=fraction)

    with bar:
        yield show
