"""The options that the confusion commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Predictions = Annotated[
    str,
    typer.Argument(
        metavar="PREDICTIONS", help="A store, an npz or npy file (seeds × epochs × examples × classes)."
    ),
]
Many = Annotated[
    list[str], typer.Argument(metavar="PREDICTIONS", help="Predictions of a model each, as for score.")
]
Data = Annotated[
    str | None, typer.Option("--data", metavar="DATA", help="Dataset that they are of: labels, thumbnails.")
]
ByOrder = Annotated[
    bool, typer.Option("--by-order", help="Row i of the predictions is example i of DATA, whatever the ids.")
]
Epochs = Annotated[str, typer.Option("--epochs", help="all, a number k for every k-th, or a list such as 0,5,10.")]
Seeds = Annotated[str | None, typer.Option("--seeds", help="Seeds to use, such as 0,1,2 (default: all).")]
Base = Annotated[float, typer.Option("--base", help="Base of the logarithm; 2 gives bits.")]
Part = Annotated[
    str, typer.Option("--part", help="Part of the split that errors are of: all, train, validation, test.")
]
Of = Annotated[str, typer.Option("--of", help="Whose errors at the last epoch: seeds (their mean) or ensemble.")]
Correct = Annotated[
    Path | None,
    typer.Option(
        "--correct", metavar="FILE", help="Who is right, for scores alone: npz of hardpan train --scalars-only."
    ),
]
Manifest = Annotated[
    Path | None,
    typer.Option("--subset", metavar="FILE", help="Only the examples of a manifest (confusion subset)."),
]
Names = Annotated[
    str | None, typer.Option("--names", help="Names of the models, with commas (default: from the paths).")
]
