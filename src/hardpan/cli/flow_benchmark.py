"""Further commands of ``hardpan flow``: synthetic benchmarks of any difficulty, and classifiers judged on them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from hardpan import files, numbers
from hardpan.cli.common import JsonFlag, OutFolder, Seed, emit, progress_on_stderr, whole_numbers
from hardpan.errors import InputError
from hardpan.predictions import Predictions
from hardpan.report.sections import Provenance

FlowPath = Annotated[
    str, typer.Argument(metavar="FLOW", help="A folder of hardpan flow fit, or a flow that comes along by name.")
]
BayesError = Annotated[
    float | None, typer.Option("--bayes-error", help="The Bayes error to draw at, 0..1; sets the temperature.")
]
Temperature = Annotated[
    float | None, typer.Option("--temperature", help="The temperature, in the place of an error (default 1).")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to the group ``flow``."""
    app.command("synthesize")(synthesize)
    app.command("judge")(judge)
    app.command("curve")(curve)


def synthesize(
    flow: FlowPath,
    bayes_error: BayesError = None,
    temperature: Temperature = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Folder for the examples and manifest.json; default synthetic-FLOW."
        ),
    ] = None,
    n: Annotated[int, typer.Option("-n", help="How many examples, train and test together.")] = 70_000,
    test_share: Annotated[float, typer.Option(help="Share of them that is the test set.")] = 1 / 7,
    format: Annotated[
        str, typer.Option(help="npz (float32: posteriors are exact), npz8, idx or png (8 bits).")
    ] = "npz",
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Write a synthetic benchmark of a wanted difficulty, with the true posterior of every example.

    Killed, it goes on where it was when it is started again.

    Example: [bold]hardpan flow synthesize fashion-mnist --bayes-error 0.10 -n 70000 --out synthetic[/bold]
    """
    from hardpan import flows
    from hardpan.data.opening import short_name
    from hardpan.report.files import check_writable

    out = out or Path(f"synthetic-{short_name(flow)}")
    check_writable(out)
    config = flows.SynthesizeConfig(bayes_error, _one_way(bayes_error, temperature), n, test_share, seed, format)
    with progress_on_stderr() as progress:
        made = flows.synthesize(flows.load(flow), out, config, source=flow, progress=progress)
    table = Table(title=f"Synthetic benchmark in {out}", title_justify="left", title_style="bold", box=None)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    table.show_header = False
    table.add_row("Bayes error", f"{numbers.estimate(made.bayes_error)}, known from the flow")
    checked = f"{numbers.estimate(made.observed)} by the best classifier on these examples: agrees"
    table.add_row("Checked", checked)
    table.add_row("Temperature", f"{made.temperature:.4g}")
    if made.other_temperatures:
        others = ", ".join(f"{t:.4g}" for t in made.other_temperatures)
        table.add_row("The same error at", f"{others} (give one by --temperature)")
    table.add_row("Examples", f"{len(made.labels) - len(made.test):,} to train, {len(made.test):,} to test")
    if made.rounding is not None:
        table.add_row("8 bits cost", f"at most {numbers.plain(made.rounding, scale=100, unit='points')}")
    table.add_row("Data", str(out / made.data))
    table.add_row("Truth", str(out / "manifest.json"))
    emit(_brief(made), json, table)


def judge(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A benchmark of hardpan flow synthesize.")],
    predictions: Annotated[
        Path,
        typer.Argument(
            metavar="PREDICTIONS",
            help="Probabilities of the test examples: a store, npz (keys probs and ids), or npy with --by-order.",
        ),
    ],
    by_order: Annotated[
        bool, typer.Option("--by-order", help="Predictions without ids are in the order of the benchmark.")
    ] = False,
    name: Annotated[str, typer.Option(help="What to call the classifier.")] = "",
    out: OutFolder = None,
    json: JsonFlag = False,
) -> None:
    """Hold a classifier against the truth: exact excess risk, exact calibration error, difficulty of every example.

    Example: [bold]hardpan flow judge synthetic predictions.npz --out judged[/bold]
    """
    from hardpan import flows
    from hardpan.flows import judging
    from hardpan.report import page
    from hardpan.report.files import check_writable, write_together

    if out is not None:
        check_writable(out)
    made = flows.read_benchmark(folder)
    found = flows.judge(made, _test_probabilities(predictions, made, by_order))
    shown = judging.section(found, name or predictions.stem)
    if out is not None:
        words = ["hardpan", "flow", "judge", str(folder), str(predictions), *(["--by-order"] if by_order else [])]
        command = shlex.join([*words, *(["--name", name] if name else []), "--out", str(out)])
        text = page(
            [shown],
            title=f"{name or predictions.stem} against the truth",
            headline=shown.sentences[0],
            provenance=Provenance(
                command=command,
                versions=files.versions_of("numpy"),
                hashes={"Flow, sha256": made.flow_sha256, **made.files},
            ),
        )
        write_together(out, {"index.html": text, "report.json": files.dumps(files.to_json(found)) + "\n"})
    table = Table(title=shown.sentences[0], title_justify="left", title_style="bold", box=None, show_header=False)
    table.add_column(style="dim")
    table.add_column()
    for label, item in shown.estimates.items():
        table.add_row(label, numbers.estimate(item))
    table.add_row("Log loss above the lowest", numbers.plain(found.divergence, unit="nats"))
    for warning in shown.warnings:
        table.add_row("Note", warning)
    if out is not None:
        table.add_row("Page", str(out / "index.html"))
    emit(found, json, table)


def curve(
    flow: FlowPath,
    models: Annotated[str, typer.Option(help="Architectures, with commas between them.")] = "linear,mlp,convnet",
    sizes: Annotated[str, typer.Option(help="Training-set sizes, with commas.")] = "500,2000,8000,32000",
    bayes_error: BayesError = None,
    temperature: Temperature = None,
    test: Annotated[int, typer.Option(help="How many test examples.")] = 10_000,
    seeds: Annotated[int, typer.Option(help="Runs of each architecture at each size.")] = 1,
    epochs: Annotated[int, typer.Option(help="Passes over the training set, at least.")] = 15,
    steps: Annotated[int, typer.Option(help="Steps of training, at least.")] = 1000,
    soft: Annotated[bool, typer.Option("--soft", help="Train on the exact posteriors as soft labels.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    out: OutFolder = None,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Learning curves against the known floor: how the error above it falls as training data grow.

    With --out, finished trainings are kept, and a run that was stopped goes on.

    Example: [bold]hardpan flow curve fashion-mnist --models linear,mlp --sizes 500,2000,8000 --out curve[/bold]
    """
    from hardpan import flows
    from hardpan.report import page
    from hardpan.report.files import check_writable, write_together
    from hardpan.studies import learning_curve

    if out is not None:
        check_writable(out)
    config = learning_curve.CurveConfig(
        bayes_error,
        _one_way(bayes_error, temperature),
        tuple(item.strip() for item in models.split(",") if item.strip()),
        whole_numbers("--sizes", sizes),
        test,
        seeds,
        epochs,
        steps,
        soft,
        seed,
        device,
    )
    with progress_on_stderr() as progress:
        found = learning_curve.grow(flows.load(flow), config, name=flow, out=out, progress=progress)
    shown = learning_curve.section(found)
    if out is not None:
        made = Provenance(
            command=f"{_curve_command(flow, config)} --out {shlex.quote(str(out))}",
            seed=seed,
            versions=files.versions_of("numpy", "torch"),
            hashes={"Flow, sha256": flows.weights_hash(flow)},
        )
        text = page([shown], title=f"Learning curves on {flow}", headline=shown.sentences[0], provenance=made)
        contents = {"index.html": text, "config.json": files.dumps(files.to_json(config)) + "\n"}
        write_together(out, contents | {"report.json": files.dumps(files.to_json(found)) + "\n"})
    table = Table(title=shown.sentences[0], title_justify="left", title_style="bold", box=None)
    for column in ("architecture", "examples", "error", "above the floor"):
        table.add_column(column)
    for point in found.points:
        above = numbers.plain(point.excess, scale=100, unit="points")
        table.add_row(point.model, f"{point.n:,}", numbers.estimate(point.error), above)
    for law in found.laws:
        table.add_row(law.model, "power law", "", f"falls as n⁻ᵃ, a = {numbers.plain(law.exponent)}")
    if out is not None:
        table.add_row("Page", "", "", str(out / "index.html"))
    emit(found, json, table)


def _one_way(bayes_error: float | None, temperature: float | None) -> float:
    if bayes_error is not None and temperature is not None:
        raise InputError(
            f"--bayes-error {bayes_error:g} sets the temperature; got --temperature {temperature:g} too: give one"
        )
    return 1.0 if temperature is None else temperature


def _curve_command(flow: str, config: Any) -> str:
    """The command that gives these settings, those apart from the defaults."""
    import dataclasses

    default, words = type(config)(), ["hardpan", "flow", "curve", flow]
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if value != getattr(default, item.name):
            words.append(f"--{item.name.replace('_', '-')}")
            words += (
                [] if value is True else [",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
            )
    return shlex.join(words)


def _brief(made: Any) -> Any:
    """The manifest without its arrays, which are in the folder."""
    import dataclasses

    none = np.zeros(0)
    empty: dict[str, Any] = {"ids": none.astype(str), "labels": none.astype(np.int64), "split": none.astype(str)}
    return dataclasses.replace(made, **empty, posterior=np.zeros((0, len(made.class_names))))


def _test_probabilities(path: Path, made: Any, by_order: bool) -> NDArray[Any]:
    """Probabilities of the test examples in the order of the benchmark; the mean over seeds, last epoch."""
    held = Predictions.open(path)
    if by_order and len(held) == len(made.test):
        return held.align(made.ids[made.test], by_order=True).final_probs()
    found = held.align(made.ids, by_order=by_order)
    row_of = np.full(len(made.ids), -1, dtype=np.int64)
    row_of[found.rows] = np.arange(len(found))
    test = row_of[made.test]
    if (test < 0).any():
        missing = made.ids[made.test[test < 0]]
        raise InputError(
            f"{path}: has no prediction for {len(missing):,} test examples, such as {str(missing[0])!r}"
        )
    return found.final_probs()[test]
