"""``hardpan audit``: one dataset in, one page out."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from hardpan.cli.common import JsonFlag, OutFolder, Seed, emit, progress_on_stderr

if TYPE_CHECKING:
    from hardpan.audit import Audit

app = typer.Typer(rich_markup_mode="rich")


@app.command()
def audit(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A dataset by name (digits, mnist, ...), file or folder.")
    ],
    testbed: Annotated[
        list[str] | None,
        typer.Option(
            "--testbed",
            help="Models on this test set and on a fresh one (hardpan testbed compare); repeat it for two.",
        ),
    ] = None,
    testbed_new: Annotated[
        str, typer.Option("--testbed-new", help="Name of the fresh set in that file, where it holds several.")
    ] = "",
    out: OutFolder = None,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Audit a dataset: print a summary, and write a page that says how low its error can go.

    The page goes to --out, or to audits/NAME. An npz file has the keys x_train, y_train, x_test, y_test; or x, y.

    Example: [bold]hardpan audit digits --out audits/digits[/bold]
    """
    from hardpan import audit as audits
    from hardpan.report.files import check_writable

    folder = out or Path("audits") / (Path(data).stem or "data")
    check_writable(folder)
    with progress_on_stderr() as progress:
        config = audits.AuditConfig(seed=seed, testbed=tuple(testbed or ()), testbed_new=testbed_new)
        found = audits.run(data, config, progress)
        path = found.save(folder)
    emit(found, json, summary(found, path))


def summary(found: Audit, path: Path) -> Table:
    """The report in about ten lines: the numbers of the page, and where the page is."""
    from hardpan.report import numbers

    table = Table(
        title=textwrap.fill(numbers.unbroken(found.headline), min(100, Console().width)),
        title_justify="left",
        title_style="bold",
        show_header=False,
        box=None,
    )
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for section in found.sections:
        for name, item in section.estimates.items():
            table.add_row(name, numbers.unbroken(numbers.estimate(item)))
    for tile in found.tiles:
        if tile.value:
            table.add_row(tile.title, numbers.unbroken(tile.value))
    for sentence in found.lede:
        table.add_row("Verdict", sentence)
    table.add_row("Page", str(path))
    return table
