"""``hardpan audit``: one dataset in, one page out."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.text import Text

from hardpan.cli.common import Confidence, JsonFlag, OutFolder, Seed, emit, progress_on_stderr
from hardpan.errors import InputError

if TYPE_CHECKING:
    from hardpan.auditing import Audit
    from hardpan.auditing.planning import AuditPlan

app = typer.Typer(rich_markup_mode="rich")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@app.command()
def audit(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A dataset by name (digits, mnist, ...), file or folder.")
    ],
    predictions: Annotated[
        list[str] | None,
        typer.Option(
            "--predictions",
            help="Predictions of your models: a store, npz or npy; repeat it. The first is scored for confusion.",
        ),
    ] = None,
    by_order: Annotated[
        bool, typer.Option("--by-order", help="Predictions without ids are in the order of the data.")
    ] = False,
    flow: Annotated[str, typer.Option(help="A fitted flow; auto fits a small one, none goes without.")] = "auto",
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
    new_test: Annotated[
        str, typer.Option("--new-test", metavar="DATA2", help="A fresh dataset: the ensemble is tried on it, too.")
    ] = "",
    votes: Annotated[str, typer.Option(help="An npz with annotators' votes (n, K), and ids.")] = "",
    budget: Annotated[str, typer.Option(help="Time that training may take, such as 90s, 3m or 1h.")] = "3m",
    ensemble: Annotated[
        str, typer.Option(help="Architecture of the small ensemble; auto chooses, none trains none.")
    ] = "auto",
    ensemble_epochs: Annotated[int, typer.Option(help="Its epochs; 0: as many as the budget holds.")] = 0,
    ensemble_rows: Annotated[int, typer.Option(help="Its training rows; 0: as many as the budget holds.")] = 0,
    seeds: Annotated[int, typer.Option(help="Its seeds.")] = 3,
    flow_epochs: Annotated[int, typer.Option(help="Epochs of the flow; 0: as many as the budget holds.")] = 0,
    flow_rows: Annotated[int, typer.Option(help="Training rows of the flow; 0: as many as the budget holds.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    confidence: Confidence = 0.95,
    out: OutFolder = None,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Audit a dataset: how low can the error go, which examples are hard, will the score hold?

    Prints a plan, then findings, and writes a page to --out, or to audits/NAME. With your own predictions it trains
    nothing it need not. Stopped, it goes on where it was when it is started again.

    Example: [bold]hardpan audit digits --out audits/digits[/bold]
    """
    from hardpan import auditing as audits
    from hardpan.report.files import check_writable

    folder = out or Path("audits") / (Path(data).stem or "data")
    check_writable(folder)
    config = audits.AuditConfig(
        seed=seed,
        confidence=confidence,
        testbed=tuple(testbed or ()),
        testbed_new=testbed_new,
        predictions=tuple(predictions or ()),
        by_order=by_order,
        flow=flow,
        new_test=new_test,
        votes=votes,
        ensemble=ensemble,
        ensemble_epochs=ensemble_epochs,
        ensemble_rows=ensemble_rows,
        flow_epochs=flow_epochs,
        flow_rows=flow_rows,
        seeds=seeds,
        budget=seconds(budget),
        device=device,
    )
    with progress_on_stderr() as progress:
        found = audits.audit(data, config, out=folder, progress=progress, on_plan=show_plan)
    emit(found, json, summary(found, folder / "index.html"))


def seconds(text: str) -> float:
    """Read a length of time.

    Example:
        >>> seconds("90s"), seconds("3m"), seconds("0.5h"), seconds("45")
        (90.0, 180.0, 1800.0, 45.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if not found or float(found[1]) == 0:
        raise InputError(f"--budget must be a time such as 90s, 3m or 1h; got {text!r}")
    return float(found[1]) * _UNITS[found[2]]


def show_plan(plan: AuditPlan) -> None:
    """Say on stderr what will run, and about how long."""
    console = Console(stderr=True, highlight=False)
    console.print(f"Plan, about {_duration(plan.seconds)}:")
    for step in plan.steps:
        told = step.why if step.why and not step.seconds else f"about {_duration(step.seconds)}"
        console.print(f"  {step.name} ({told})")


def _duration(length: float) -> str:
    return f"{length / 60:.1f} minutes" if length >= 90 else f"{max(1, round(length))} s"


def summary(found: Audit, path: Path) -> Group:
    """The report in about ten lines: the numbers of the page, and where the page is."""
    from hardpan import numbers

    # Rich would break a line between a number and its unit.
    width = min(100, Console().width)
    told = [*found.findings, *(f"Next: {step}" for step in found.next_steps[:1])]
    lines = [Text(textwrap.fill(numbers.unbroken(found.headline), width), style="bold")]
    lines += [Text(textwrap.fill(numbers.unbroken(line), width, subsequent_indent="  ")) for line in told]
    lines += [Text(f"Page: {path}"), Text(f"Every example: hardpan browse {path.parent}")]
    return Group(*lines)
