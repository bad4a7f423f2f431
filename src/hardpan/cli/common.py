"""What the commands share: options, the JSON switch, and progress on stderr."""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import progress
from rich.console import Console
from rich.text import Text

from hardpan import files
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.report import Report

QUIET_SECONDS = 2.0
SPACING_SECONDS = 0.5

JsonFlag = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout, and nothing else.")]
Seed = Annotated[
    int,
    typer.Option(
        "--seed", min=0, help="Random seed: the same seed gives the same result, unless time ends a step."
    ),
]


def check_local(path: Path, what: str) -> None:
    """Refuse an address such as s3://bucket/page, of which a path would make local folders named "s3:" and so on.

    Example:
        >>> check_local(Path("s3://bucket/page"), "--out")
        Traceback (most recent call last):
        ...
        hardpan.errors.InputError: --out s3://bucket/page: must be a path on this machine; copy it there afterwards
    """
    scheme, colon, rest = str(path).partition(":")
    if colon and rest.startswith("/") and len(scheme) > 1 and "/" not in scheme and not path.exists():
        raise InputError(f"{what} {scheme}:/{rest}: must be a path on this machine; copy it there afterwards")


def check_out(out: Path | None) -> None:
    """Refuse a folder that cannot be written, before any work is done for it; creates nothing."""
    if out is None:
        return
    check_local(out, "--out")
    parent = out.absolute()
    while not os.path.lexists(parent):
        parent = parent.parent
    if not parent.is_dir():
        raise InputError(f"--out {out}: {parent} is not a folder; give another one")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"--out {out}: {parent} may not be written; give another one")
    files.refuse_foreign_files(out, files.MARKED)


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
        if options is not None and getattr(report, "config", None) is None:
            used = {name: value for name, value in options.items() if name not in ("out", "json")}
            extra = {
                "config.json": files.json_text(CommandOptions(command, used)) + "\n",
                **(extra or {}),
            }
        written = report.save(out, command=command, extra=extra)
    if json:
        print(report.to_json())
        return
    from hardpan.pages import terminal  # a command that only prints JSON needs no page

    console = Console(highlight=False)
    console.print(terminal.render(report.view()))
    if written is not None:
        kind = "Page" if written.suffix == ".html" else "Written"
        console.print(Text(f"{kind}: {written}"), soft_wrap=True)


class _ProgressLines(threading.Thread):
    """Progress where there is no terminal: from the third second on, the newest step at most twice per second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.line, self.closed = "hardpan:   0 % starting", threading.Event()

    def run(self) -> None:
        printed, seconds = "", QUIET_SECONDS
        while not self.closed.wait(seconds):
            line, seconds = self.line, SPACING_SECONDS
            if line != printed:
                print(line, file=sys.stderr, flush=True)
                printed = line


@contextmanager
def progress_on_stderr() -> Iterator[Progress]:
    """Show progress on stderr: a bar on a terminal; elsewhere lines, from the third second on."""
    if not sys.stderr.isatty():
        lines = _ProgressLines()
        lines.start()
        try:
            yield lambda step, fraction: setattr(lines, "line", f"hardpan: {100 * fraction:3.0f} % {step}")
        finally:
            lines.closed.set()
            lines.join()
        return
    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.TimeElapsedColumn())
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda step, fraction: bar.update(task, description=step, completed=fraction)
