"""``hardpan audit``: one dataset in, one page out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from hardpan.cli.common import Confidence, JsonFlag, OutFolder, Seed, check_out, progress_on_stderr
from hardpan.cli.data_options import GROUPED_DATA_FLAGS, GroupedDataFlags
from hardpan.cli.groups import spread
from hardpan.errors import InputError
from hardpan.safe_files import few

if TYPE_CHECKING:
    from hardpan.auditing.evidence import AuditStep

app = typer.Typer(rich_markup_mode="rich")


@dataclasses.dataclass(frozen=True, slots=True)
class AuditFlags:
    """Options of an audit, named as the fields of :class:`hardpan.auditing.AuditConfig`."""

    predictions: Annotated[
        list[str] | None,
        typer.Option(
            "--predictions",
            help="Predictions of your models: a store, npz, npy, table, or module:function; repeat it. The first "
            "is scored.",
        ),
    ] = None
    by_order: Annotated[
        bool, typer.Option("--by-order", help="Join predictions without ids by position in the data.")
    ] = False
    held_out: Annotated[
        bool,
        typer.Option(
            "--held-out", help="The models of --predictions were not trained or tuned on the test examples."
        ),
    ] = False
    folds: Annotated[
        int,
        typer.Option("--folds", help="Cross-validate estimators given as module:name in this many folds; 0: not."),
    ] = 0
    flow: Annotated[
        str,
        typer.Option(
            help="bundled (if one was fitted to this dataset), auto (fit a small one), none, or a folder."
        ),
    ] = "bundled"
    testbed: Annotated[
        list[str] | None,
        typer.Option(
            "--testbed",
            help="Models on this test set and a fresh one (hardpan testbed compare); repeat it for two.",
        ),
    ] = None
    testbed_new: Annotated[
        str, typer.Option("--testbed-new", help="Name of the fresh set in that file, if it has several.")
    ] = ""
    new_test: Annotated[
        str,
        typer.Option("--new-test", metavar="DATA2", help="A fresh dataset: the networks are evaluated on it, too."),
    ] = ""
    votes: Annotated[str, typer.Option(help="An npz with annotators' votes (n, K) or soft_labels, and ids.")] = ""
    label_noise: Annotated[
        float,
        typer.Option(
            "--label-noise", help="Rate of random label flips, if you know it: bounds the error from below."
        ),
    ] = 0.0
    ensemble: Annotated[str, typer.Option(help="auto: train classifiers; none: train nothing.")] = "auto"
    ensemble_epochs: Annotated[
        int, typer.Option(help="Epochs of the networks, without a time limit; 0: as many as the budget allows.")
    ] = 0
    seeds: Annotated[int, typer.Option(help="Networks in the ensemble.")] = 3
    flow_epochs: Annotated[int, typer.Option(help="Epochs of a flow that is fitted; 0: by the budget.")] = 0
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto"


@app.command()
@spread
def audit(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A dataset by name (digits, mnist, ...), file or folder.")
    ],
    flags: AuditFlags,
    budget: Annotated[str, typer.Option(help="Wall-clock time for training, such as 90s, 3m or 1h.")] = "3m",
    fail_on: Annotated[
        str,
        typer.Option(
            "--fail-on", metavar="KINDS", help="Exit with 1 if there is a problem of these kinds (commas), or any."
        ),
    ] = "",
    confidence: Confidence = 0.95,
    reading: GroupedDataFlags = GROUPED_DATA_FLAGS,
    out: OutFolder = None,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Audit a dataset: its problems first, then how low the error can go, which examples are hard.

    Prints a plan and the findings, and writes a page to --out, or to audits/NAME. If interrupted, run the same
    command again to resume.

    Example: [bold]hardpan audit digits --out audits/digits[/bold]
    """
    from hardpan import auditing
    from hardpan.auditing.running import seconds

    folder = out or Path("audits") / (Path(data).stem or "data")
    kinds = _kinds(fail_on)
    check_out(folder)
    fields = {item.name: getattr(flags, item.name) for item in dataclasses.fields(flags)}
    fields |= {name: tuple(fields[name] or ()) for name in ("predictions", "testbed")}
    config = auditing.AuditConfig(**fields, seed=seed, confidence=confidence, budget=seconds(budget))
    with progress_on_stderr() as progress:
        found = auditing.audit(reading.apply(data), config, out=folder, progress=progress, on_plan=show_plan)
    if json:
        print(found.to_json())
    else:
        console = Console(highlight=False)
        console.print(found)
        if found.features:
            console.print(Text(f"Features: {few(found.features)}"), soft_wrap=True)
        console.print(Text(f"Page: {folder / 'index.html'}"), soft_wrap=True)
        console.print(Text(f"Every example: hardpan browse {folder}"), soft_wrap=True)
    failing = found.failing(kinds)
    if failing:
        err = Console(stderr=True, highlight=False)
        err.print(Text(f"--fail-on: {len(failing)} problem(s): {', '.join(sorted({p.kind for p in failing}))}"))
        raise typer.Exit(1)


def _kinds(text: str) -> tuple[str, ...]:
    from hardpan.auditing.problems import KINDS

    kinds = tuple(word.strip() for word in text.split(",") if word.strip())
    for kind in kinds:
        if kind not in (*KINDS, "any"):
            raise InputError(f"--fail-on must be kinds among {', '.join(KINDS)}, or any; got {kind!r}")
    return kinds


def show_plan(steps: tuple[AuditStep, ...]) -> None:
    """Print on stderr what will be trained, and for how long at most."""
    console = Console(stderr=True, highlight=False)
    planned = [step for step in steps if not step.skipped]
    if planned:
        parts = ", ".join(f"{step.name} {step.planned:.0f} s" for step in planned)
        console.print(f"Training for at most {sum(step.planned for step in planned):.0f} s: {parts}")
    for why in sorted({step.skipped for step in steps if step.skipped}):
        names = ", ".join(step.name for step in steps if step.skipped == why)
        console.print(f"Skipped: {names} ({why})")
