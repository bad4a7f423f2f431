"""``hardpan testbed``: many models on two test sets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from hardpan import leaderboard, testbed
from hardpan.cli.common import Seed
from hardpan.cli.decorators import reporting
from hardpan.cli.options import Flags
from hardpan.errors import InputError
from hardpan.report import Report
from hardpan.testbed.sets import TwoSets, open_outcomes

app = typer.Typer(
    help="Will the score hold? Many models on two test sets.", no_args_is_help=True, rich_markup_mode="rich"
)

SOURCES = (
    "One file with both test sets, or two: the original, then the new. Counts, accuracies, scores, predictions or "
    "logs; FILE@hard.json for a subset."
)
Reading = Annotated[
    dict[str, Any],
    Flags(
        of=testbed.two_sets,
        only=("original_set", "new_set", "metric"),
        without=("new",),
        names={"original_set": "--original", "new_set": "--new"},
    ),
]


@app.command()
@reporting
def compare(
    scores: Annotated[list[Path], typer.Argument(metavar="SCORES", help=SOURCES)],
    config: Annotated[
        testbed.CompareConfig,
        Flags(only=("scale", "exclude", "pairs", "sigma", "bootstrap", "seed"), without=("metric",)),
    ],
    reading: Reading,
) -> Report:
    """Accuracies, gaps and ranks of every model, the line from the original to the new set, and pairs of models.

    Example: [bold]hardpan testbed compare counts.csv --exclude 'fv_*' --out compared[/bold]
    """
    return testbed.compare(_testbed_sets(scores, reading), config=replace(config, metric=reading["metric"]))


@app.command()
@reporting
def explain(
    config: Annotated[testbed.ExplainConfig, Flags(only=("only", "by"))],
    reading: Reading,
    scores: Annotated[list[Path] | None, typer.Argument(metavar="SCORES", help=SOURCES)] = None,
    examples: Annotated[
        Path | None,
        typer.Option("--examples", metavar="TABLE", help="Columns duplicate, label and others; a row per example."),
    ] = None,
    responses: Annotated[
        list[Path] | None,
        typer.Option(
            "--people",
            metavar="TABLE",
            help="Answers of people: participant, set, and response and label, or correct; can be repeated.",
        ),
    ] = None,
) -> Report:
    """What could explain the drop: chance, near-duplicates, classes, people, hard examples.

    Example: [bold]hardpan testbed explain original.npz new.npz --examples examples.csv --by frequency[/bold]
    """
    return testbed.explain(
        _testbed_sets(scores, reading) if scores else None,
        examples=examples,
        responses=responses or None,
        config=config,
    )


@app.command("items")
@reporting
def items_in_testbed(
    scores: Annotated[
        Path,
        typer.Argument(
            metavar="SCORES", help="Scores of models by example, predictions or logs; FILE@hard.json for a subset."
        ),
    ],
    model: Annotated[str, typer.Option("--irt", help="Item response model: rasch, 2pl or 3pl.")] = "2pl",
    test_set: Annotated[
        str | None, typer.Option("--test-set", help="Name of the test set, if the file has several.")
    ] = None,
    seed: Seed = 0,
) -> Report:
    """Item analysis as by leaderboard items, of one test set of a file with several, or of a subset.

    Example: [bold]hardpan testbed items matrix.parquet --irt 2pl --out items[/bold]
    """
    return leaderboard.items(open_outcomes(scores, test_set), model, seed=seed)


def _testbed_sets(scores: list[Path], reading: dict[str, Any]) -> TwoSets:
    if len(scores) > 2:
        raise InputError(
            f"must be one file with both test sets, or two files; got {len(scores)}", argument="SCORES"
        )
    return testbed.two_sets(*scores, **reading)
