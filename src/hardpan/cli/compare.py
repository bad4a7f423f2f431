"""``hardpan compare``: audits side by side."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from hardpan.cli.common import JsonFlag, OutFolder, emit

app = typer.Typer(rich_markup_mode="rich")


@app.command()
def compare(
    folders: Annotated[
        list[str],
        typer.Argument(metavar="A B ...", help="Folders of audits (hardpan audit --out DIR), two or more."),
    ],
    most_bits: Annotated[
        float | None,
        typer.Option(help="Leave datasets out of the rankings whose flow needs more bits per dimension than this."),
    ] = None,
    out: OutFolder = None,
    json: JsonFlag = False,
) -> None:
    """Compare audits: two datasets, one dataset before and after cleaning, or many ranked by hardness.

    Example: [bold]hardpan compare audits/mnist audits/fashion-mnist --out audits/compared[/bold]
    """
    from hardpan import auditing, files
    from hardpan.auditing import compared
    from hardpan.auditing.measures import in_sentence
    from hardpan.report.files import check_writable, write_together

    if out is not None:
        check_writable(out)
    audits = [auditing.read_audit(folder) for folder in folders]
    found = auditing.compare(audits, most_bits=most_bits)
    if out is not None:
        words = ["hardpan", "compare", *folders]
        words += [] if most_bits is None else ["--most-bits", str(most_bits)]
        contents = {"index.html": compared.to_html(found, audits, shlex.join(words))}
        write_together(out, contents | {"report.json": files.dumps(files.to_json(found)) + "\n"})
    table = Table(title=compared.headline(found), title_justify="left", title_style="bold", box=None)
    measures = compared.section(found)[0].tables[0]
    for number, name in enumerate(measures.columns):
        table.add_column(name, style="dim" if number == 0 else None, overflow="fold")
    for row in measures.rows:
        table.add_row(*("–" if cell is None else str(cell) for cell in row))
    orders = [
        f"From hard to easy by the {in_sentence(ranking.measure)}: {' > '.join(ranking.names)}"
        for ranking in found.rankings
        if len(ranking.names) > 2
    ]
    told = [*orders, *(f"Left out: {name}, {why}" for name, why in found.left_out.items())]
    told += [] if out is None else [f"Page: {Path(out) / 'index.html'}"]
    emit(found, json, Group(table, *map(Text, told)))
