"""``hardpan audit``: one dataset in, one page out."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from hardpan.auditing.evidence import OPTIONS, SKIPPED, AuditConfig, AuditStep
from hardpan.auditing.problems import KINDS
from hardpan.auditing.running import audit as run_audit
from hardpan.cli.common import JsonFlag, check_out, emit_report, progress_on_stderr
from hardpan.cli.decorators import DATA_FLAGS, DATA_HELP, Reading, spread
from hardpan.cli.options import Flags
from hardpan.errors import InputError, counted, few

app = typer.Typer(rich_markup_mode="rich")


@app.command()
@spread
def audit(
    data: Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP)],
    config: Annotated[AuditConfig, Flags(only=OPTIONS, repeated=("predictions", "testbed"))],
    fail_on: Annotated[
        str,
        typer.Option(
            "--fail-on",
            metavar="KINDS",
            help="Exit with code 1 if there is a problem of these kinds (separated by commas), or any.",
        ),
    ] = "",
    reading: Reading = DATA_FLAGS,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write index.html, report.json and config.json to this folder."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Audit a dataset: its problems, the lowest possible error, the hard examples.

    Prints the findings and writes a page to --out (default: audits/DATA). If interrupted, run the same command
    again to resume.

    Example: [bold]hardpan audit digits --out audits/digits[/bold]
    """
    folder = out or Path("audits") / (Path(data).stem or "data")
    kinds = tuple(word.strip() for word in fail_on.split(",") if word.strip())
    for kind in kinds:
        if kind not in (*KINDS, "any"):
            raise InputError(f"must be kinds among {', '.join(KINDS)}, or any; got {kind!r}", argument="fail_on")
    options = reading.options()
    with progress_on_stderr() as progress:
        check_out(folder)
        report = run_audit(
            data,
            config,
            out=folder,
            progress=progress,
            on_plan=functools.partial(show_audit_plan, folder),
            **options,
        )
    emit_report(report, json=json)
    if not json:
        console = Console(highlight=False)
        if report.features:
            console.print(Text(f"Features: {few(report.features)}"), soft_wrap=True)
        console.print(Text(f"Page: {folder / 'index.html'}"), soft_wrap=True)
        console.print(Text(f"Every example: hardpan browse {folder}"), soft_wrap=True)
    failing = report.failing(kinds)
    if failing:
        err = Console(stderr=True, highlight=False)
        count = counted(len(failing), "problem")
        err.print(Text(f"--fail-on: {count}: {', '.join(sorted({p.kind for p in failing}))}"))
        raise typer.Exit(1)


def show_audit_plan(folder: Path, steps: tuple[AuditStep, ...]) -> None:
    """Print on stderr where the first findings are, what will be trained, and for how long at most."""
    console = Console(stderr=True, highlight=False, markup=False)  # names of extras have brackets
    page = folder / "index.html"
    console.print(f"First findings, written again as results come in: {page}", soft_wrap=True)
    planned = [step for step in steps if not step.skipped]
    if planned:
        times = ", ".join(f"{step.name} {step.planned:.{int(step.planned < 10)}f} s" for step in planned)
        console.print(f"Training for about {sum(step.planned for step in planned):.0f} s: {times}")
    for why in sorted({step.skipped for step in steps if step.skipped}):
        names = ", ".join(step.name for step in steps if step.skipped == why)
        console.print(f"Skipped: {names} ({SKIPPED[why]})")
