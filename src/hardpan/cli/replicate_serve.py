"""``hardpan replicate serve``: the annotation site of a project, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hardpan import files
from hardpan.cli.replicate_shared import plainly
from hardpan.errors import InputError, MissingExtra

ProjectFolder = Annotated[Path, typer.Argument(metavar="PROJECT", help="Folder of the project (replicate init).")]


def serve(
    folder: ProjectFolder,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to answer; 0 takes any free port.")] = 8000,
    host: Annotated[str, typer.Option(help="Address to answer on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    database_url: Annotated[
        str, typer.Option(help="Another database than the project's own, such as postgresql://user@host/name.")
    ] = "",
    workers_expected: Annotated[
        int, typer.Option(min=1, help="How many annotators the printed invitation lets in.")
    ] = 100,
    address: Annotated[
        str,
        typer.Option(help="What people type, where a proxy stands before this server: https://label.example.org."),
    ] = "",
    new_owner_link: Annotated[
        bool, typer.Option("--new-owner-link", help="Make and print a new owner's link; the old one ends.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print address and links as JSON, alone on stdout, at the start.")
    ] = False,
) -> None:
    """Serve the annotation, review and dashboard pages of a project until Ctrl-C.

    The owner's link is printed once, at the first start. Annotators come by the invitation link; more links, for
    selectors, reviewers and participants too, are made on the owner's page.

    Example: [bold]hardpan replicate serve PROJECT --port 8000[/bold]
    """
    try:
        from hardpan import replicate
        from hardpan.web import serving
        from hardpan.web.annotation import create_app, links
    except ModuleNotFoundError as error:
        raise MissingExtra(str(error.name), "web") from None
    if address and not address.startswith(("http://", "https://")):
        raise InputError(f"--address must begin with https:// or http://; got {address!r}")
    project = replicate.open_project(folder, database_url=database_url)
    with serving.bind(host, port) as listener:
        base = address.rstrip("/") or serving.address(listener, host)
        application = create_app(project)
        with plainly(folder):
            opened = links.doors(project, base, people=workers_expected, new_owner=new_owner_link)
        # Written through at once: whoever started the server waits for its links.
        typer.echo(files.dumps(files.to_json(opened)) if as_json else "\n".join(links.told(opened)))
        try:
            serving.run(application, listener)
        finally:
            project.close()
    typer.echo("stopped; every confirmed answer is kept", err=as_json)


def register(app: typer.Typer) -> None:
    """Add the command to the group ``replicate``."""
    app.command()(serve)
