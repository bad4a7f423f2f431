"""``hardpan browse``: look through every example of an audit in a browser."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from hardpan.errors import InputError, MissingExtra

app = typer.Typer(rich_markup_mode="rich")


@app.command()
def browse(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of an audit (hardpan audit --out DIR).")
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free port.")] = 8001,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 accepts other machines.")] = "127.0.0.1",
    review: Annotated[
        int,
        typer.Option(min=0, help="Review N random labels, or resume DIR/review.csv: how many are wrong?"),
    ] = 0,
    images: Annotated[
        Path | None,
        typer.Option(help="The only folder whose image files are shown, where the audit saved no thumbnails."),
    ] = None,
) -> None:
    """Look at every example of an audit in a browser: filter, sort, compare models, tag, relabel, export a subset.

    Tags and corrected labels are saved to DIR/corrections.csv, the answers of a review to DIR/review.csv. In a
    terminal the page opens in a browser. Stop with Ctrl-C.

    Example: [bold]hardpan browse audits/digits[/bold]
    """
    from hardpan.auditing import example_table

    if images is not None and not images.is_dir():
        raise InputError(f"must be a folder; got {str(images)!r}", argument="images")
    table = example_table.read_example_table(folder)
    try:
        from hardpan.web import serving
        from hardpan.web.explorer import create_app
        from hardpan.web.explorer.review import ReviewSite
    except ModuleNotFoundError as error:
        raise MissingExtra(str(error.name), "web") from None
    site = ReviewSite(table, folder, review) if review else None
    with serving.bind(host, port) as listener:
        address = serving.address(listener, host)
        application = create_app(
            table,
            title=f"Examples of {folder.resolve().name}",
            hosts=(host, address.split("/")[2].rsplit(":", 1)[0]),
            folder=folder,
            images=images,
            review=site,
        )
        what = f"{len(table):,} examples"
        if site is not None:
            address, what = f"{address}/review", f"{len(site.review):,} labels to review"
            what += f", {site.review.judged:,} of them judged" if site.resumed else ""
        typer.echo(f"{what} at {address} (stop with Ctrl-C)")
        if table.thumbnails is None and images is None and "path" in table.table.column_names:
            typer.echo("no thumbnails are saved; to see the images, give their folder: --images DIR")
        if sys.stdout.isatty():
            webbrowser.open(address)
        serving.run(application, listener)
