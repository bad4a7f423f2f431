"""What a training result says: a table of runs, of groups if there are any, and the next command."""

from __future__ import annotations

from pathlib import Path

from hardpan.formatting import counted
from hardpan.report.base import View
from hardpan.report.sections import Section, Table
from hardpan.training.running import Trained


def view(result: Trained) -> View:
    """What a training result says and shows."""
    models = {run.store: _short(str(Path(run.weights).parent)) for run in result.runs}
    recorded = "Scores" if result.scalars_only else "Predictions"
    where = [f"{recorded}: {_short(store)}   models: {models[store]}" for store in result.stores]
    first = _short(result.stores[0])
    if result.scalars_only:
        following = [
            f"Next: hardpan confusion subset {first} --quantile 0.9 --out hard.json",
            f"  or: hardpan confusion score {first} --set correct={models[result.stores[0]]}/correct.npz",
        ]
    else:
        following = [f"Next: hardpan confusion score {first}"]
    tables = [_runs(result)]
    if any(run.group_accuracy for run in result.runs):
        tables.append(_groups(result))
    runs = Section("Runs", tables=tuple(tables), key="runs")
    files = Section("Files", (*where, *following), key="files")
    columns = {
        "model": [run.model for run in result.runs],
        "seed": [run.seed for run in result.runs],
        "epochs": [run.epochs for run in result.runs],
        "loss": [run.values.get("loss") for run in result.runs],
        **{
            f"{split}_accuracy": [
                run.accuracy[split].value if split in run.accuracy else None for run in result.runs
            ]
            for split in ("validation", "test")
        },
        "weights": [run.weights for run in result.runs],
        "store": [run.store for run in result.runs],
    }
    names = ", ".join(dict.fromkeys(run.model for run in result.runs))
    headline = f"Trained {counted(len(result.runs), 'model')}: {names}."
    return View("Training", headline, (runs, files), columns=columns)


def _runs(result: Trained) -> Table:
    rows = [
        (run.model, run.seed, run.epochs, run.values.get("loss"), *map(run.accuracy.get, ("validation", "test")))
        for run in result.runs
    ]
    return Table("", ("model", "seed", "epochs", "loss", "validation accuracy", "test accuracy"), tuple(rows))


def _groups(result: Trained) -> Table:
    split = "test" if any("test" in run.accuracy for run in result.runs) else "validation"
    rows = [
        (run.model, run.seed, group, accuracy.n, accuracy)
        for run in result.runs
        for group, accuracy in run.group_accuracy.items()
    ]
    return Table("", ("model", "seed", "group", f"{split} examples", f"{split} accuracy"), tuple(rows))


def _short(path: str) -> str:
    """A path as it would be typed here."""
    absolute = Path(path)
    if "://" in path or not absolute.is_relative_to(Path.cwd()):
        return path
    return str(absolute.relative_to(Path.cwd()))
