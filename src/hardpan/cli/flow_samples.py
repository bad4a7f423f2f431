"""``hardpan flow samples``: what a flow draws as its temperature is turned, with exact Bayes errors."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table as RichTable

from hardpan import files, numbers
from hardpan.cli.common import JsonFlag, Seed, emit, floats, progress_on_stderr
from hardpan.cli.flow_benchmark import FlowPath
from hardpan.errors import HardpanError, InputError
from hardpan.report.sections import Provenance

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
    from hardpan.studies.flow_page import Drawn, samples_section

    check_writable(out)
    asked = floats("--temperature", temperature)
    if len(set(asked)) < len(asked):
        raise InputError(f"--temperature must be different numbers; got {temperature!r}")
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
            told = {"class": [fitted.class_names[number] for number in classes]}
            drawn.append(Drawn(t, fitted.bayes_error(t, seed=seed), images, told))
        progress("the dial", 0.95)
        curve = fitted.bayes_curve(CURVE, rtol=1e-2, seed=seed)
    top = float(max(1, fitted.grey_levels - 1))
    floors = fitted.record.floors
    shown = samples_section(drawn, curve, high=top, n_classes=fitted.n_classes, floors=floors)
    options = ["--temperature", temperature, "-n", str(n), "--seed", str(seed)]
    made = Provenance(
        command=shlex.join(["hardpan", "flow", "samples", flow, *options, "--out", str(out)]),
        seed=seed,
        versions=files.versions_of("numpy", "torch"),
        hashes={"Flow, sha256": flows.weights_hash(flow)},
    )
    below = dataclasses.replace(shown, sentences=shown.sentences[1:])
    text = page([below], title=f"Samples of {flow}", headline=shown.sentences[0], provenance=made)
    write_together(out, {"index.html": text, "report.json": files.dumps(files.to_json(shown)) + "\n"})
    table = RichTable(title=f"Samples of {flow}", title_justify="left", title_style="bold", box=None)
    table.add_column("temperature")
    table.add_column("Bayes error")
    for item in drawn:
        table.add_row(f"{item.temperature:g}", numbers.estimate(item.error))
    table.add_row("Page", str(out / "index.html"))
    emit(shown, json, table)
