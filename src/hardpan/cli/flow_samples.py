"""``hardpan flow samples``: what a flow draws as its temperature is turned, with exact Bayes errors."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table as RichTable

from hardpan import records
from hardpan.cli.common import JsonFlag, Seed, emit, floats, progress_on_stderr
from hardpan.cli.flow_benchmark import FlowPath
from hardpan.confusion.galleries import COLUMNS, sheet, thumbnails
from hardpan.errors import HardpanError, InputError
from hardpan.records import Chart, Provenance, Section
from hardpan.report import numbers
from hardpan.report.dial import dial

CURVE = tuple(float(f"{t:.4g}") for t in np.geomspace(0.2, 4, 25))


def register(app: typer.Typer) -> None:
    """Add the command to the group ``flow``."""
    app.command("samples")(samples)


def samples(
    flow: FlowPath,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for index.html and report.json.")],
    temperature: Annotated[str, typer.Option(help="Temperatures, with commas between them.")] = "0.2,0.5,1,1.4,3",
    n: Annotated[int, typer.Option("-n", min=1, max=400, help="Samples at each temperature.")] = 48,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Draw grids of samples at several temperatures, each with its exact Bayes error, on a page with a slider.

    Example: [bold]hardpan flow samples fashion-mnist --temperature 0.2,1,1.4,3 --out samples[/bold]
    """
    from hardpan import flows
    from hardpan.report import page
    from hardpan.report.files import check_writable, write_together

    check_writable(out)
    asked = floats("--temperature", temperature)
    fitted = flows.load(flow)
    if fitted.grey_levels is None:
        raise InputError(
            f"flow {flow!r} draws feature vectors, of which there are no pictures; give a flow of images"
        )
    drawn = []
    with progress_on_stderr() as progress:
        for number, t in enumerate(asked):
            progress(f"temperature {t:g}", number / len(asked))
            try:
                images, classes = fitted.sample(n, temperature=t, seed=seed)
            except HardpanError as refused:
                raise InputError(f"--temperature {t:g}: {refused}") from None
            drawn.append((t, fitted.bayes_error(t, seed=seed), images, classes))
        progress("the dial", 0.95)
        curve = fitted.bayes_curve(CURVE, rtol=1e-2, seed=seed)
    top = float(max(1, fitted.grey_levels - 1))
    pictures = thumbnails(np.clip(np.concatenate([item[2] for item in drawn]), 0, top), np.array([0.0, top]))
    tiles, place = [], 0
    for t, error, images, classes in drawn:
        group = f"Temperature {t:g}: Bayes error {numbers.percent(error.value, error.value / 50)}"
        for row in range(len(images)):
            told = {"class": fitted.class_names[classes[row]], "temperature": f"{t:g}"}
            tiles.append({"group": group, "place": place, "score": None, "shown": "", **told})
            place += 1
    options = {
        "sprite": sheet(pictures),
        "columns": COLUMNS,
        "count": len(tiles),
        "aspect": pictures.shape[1] / pictures.shape[2],
        "pick": "Turn the dial",
        "start": min(range(len(asked)), key=lambda number: abs(asked[number] - 1)),
    }
    ends = [
        f"{numbers.percent(e.value, e.value / 50)} at temperature {t:g}" for t, e, _, _ in (drawn[0], drawn[-1])
    ]
    said = f"One flow, any difficulty: Bayes errors from {ends[0]} to {ends[1]}."
    gallery = Chart(
        "gallery",
        "Samples as the dial is turned",
        tuple(tiles),
        f"A grid of {n} samples for each temperature.",
        options,
    )
    shown = Section(
        "What the flow draws",
        (
            f"Each grid holds {n} samples of {fitted.n_classes} classes. The Bayes error of each temperature is "
            "exact: no classifier can err less on examples drawn there.",
        ),
        {f"Temperature {t:g}": error for t, error, _, _ in drawn},
        (
            dial(
                curve.temperatures, curve.estimates, "The dial: Bayes error against temperature", at_one="as fitted"
            ),
            gallery,
        ),
    )
    command = shlex.join(["hardpan", "flow", "samples", flow, "--temperature", temperature, "--seed", str(seed)])
    made = Provenance(command=command, seed=seed, hashes={"Flow, sha256": flows.weights_hash(flow)})
    text = page([shown], title=f"Samples of {flow}", headline=said, provenance=made)
    write_together(out, {"index.html": text, "report.json": records.dumps(records.to_json(shown)) + "\n"})
    table = RichTable(title=f"Samples of {flow}", title_justify="left", title_style="bold", box=None)
    table.add_column("temperature")
    table.add_column("Bayes error")
    for t, error, _, _ in drawn:
        table.add_row(f"{t:g}", numbers.estimate(error))
    table.add_row("Page", str(out / "index.html"))
    emit(shown, json, table)
