"""``hardpan browse``: look through every example of an audit in a browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from hardpan.errors import MissingExtra

app = typer.Typer(rich_markup_mode="rich")


@app.command()
def browse(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of an audit (hardpan audit --out DIR).")
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to answer; 0 takes any free port.")] = 8001,
    host: Annotated[
        str, typer.Option(help="Address to answer on; by default this machine alone can reach it.")
    ] = "127.0.0.1",
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
) -> None:
    """Serve an explorer over every example of an audit: filter, sort, select, look, and export a subset.

    It reads the folder and writes nothing. End it with Ctrl-C.

    Example: [bold]hardpan browse audits/digits[/bold]
    """
    from hardpan.auditing import examples

    table = examples.read(folder)
    try:
        from hardpan.web import serving
        from hardpan.web.explorer import create_app
    except ModuleNotFoundError as error:
        raise MissingExtra(str(error.name), "web") from None
    with serving.bind(host, port) as listener:
        address = serving.address(listener, host)
        title = f"Examples of {folder.resolve().name}"
        application = create_app(table, title=title, hosts=(host, address.split("/")[2].rsplit(":", 1)[0]))
        typer.echo(f"{len(table):,} examples at {address} (Ctrl-C ends it)")
        if show:
            webbrowser.open(address)
        serving.run(application, listener)
