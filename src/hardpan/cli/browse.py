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
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free port.")] = 8001,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 accepts other machines.")] = "127.0.0.1",
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    images: Annotated[
        Path | None, typer.Option(help="Folder of the image files, if the audit did not save thumbnails.")
    ] = None,
) -> None:
    """Look at every example of an audit in a browser: filter, sort, compare models, tag, relabel, export a subset.

    Tags and corrected labels are saved to DIR/corrections.csv; nothing else is written. Stop with Ctrl-C.

    Example: [bold]hardpan browse audits/digits[/bold]
    """
    from hardpan.auditing import examples

    table = examples.read_examples(folder)
    try:
        from hardpan.web import serving
        from hardpan.web.explorer import create_app
    except ModuleNotFoundError as error:
        raise MissingExtra(str(error.name), "web") from None
    with serving.bind(host, port) as listener:
        address = serving.address(listener, host)
        application = create_app(
            table,
            title=f"Examples of {folder.resolve().name}",
            hosts=(host, address.split("/")[2].rsplit(":", 1)[0]),
            folder=folder,
            images=images,
        )
        typer.echo(f"{len(table):,} examples at {address} (stop with Ctrl-C)")
        if show:
            webbrowser.open(address)
        serving.run(application, listener)
