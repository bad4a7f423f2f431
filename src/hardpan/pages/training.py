"""What a training result says: a table of runs, of groups if there are any, and the next command."""

from __future__ import annotations

from pathlib import Path

from hardpan.errors import counted
from hardpan.pages.sections import Section, Table, View
from hardpan.tables import columns_of
from hardpan.training.runs import Trained


def view(result: Trained) -> View:
    """What a training result says and shows."""
    models = {run.store: _path_in_command(str(Path(run.weights).parent)) for run in result.runs}
    where = [f"Predictions: {_path_in_command(store)}   models: {models[store]}" for store in result.stores]
    names = ("model", "seed", "epochs", "loss", "validation accuracy", "test accuracy")
    rows = [
        (run.model, run.seed, run.epochs, run.values.get("loss"), *map(run.accuracy.get, ("validation", "test")))
        for run in result.runs
    ]
    tables = [Table("", names, tuple(rows))]
    if any(run.group_accuracy for run in result.runs):
        tables.append(_training_groups_table(result))
    runs = Section("Runs", tables=tuple(tables), key="runs")
    files = Section(
        "Files", (*where, f"Next: hardpan confusion score {_path_in_command(result.stores[0])}"), key="files"
    )
    accuracies = {
        f"{split}_accuracy": [run.accuracy[split].value if split in run.accuracy else None for run in result.runs]
        for split in ("validation", "test")
    }
    columns = {
        **columns_of(result.runs, "model", "seed", "epochs"),
        "loss": [run.values.get("loss") for run in result.runs],
        **accuracies,
        **columns_of(result.runs, "weights", "store"),
    }
    models_trained = ", ".join(dict.fromkeys(run.model for run in result.runs))
    headline = f"Trained {counted(len(result.runs), 'model')}: {models_trained}."
    return View("Training", headline, (runs, files), columns=columns)


def _training_groups_table(result: Trained) -> Table:
    split = "test" if any("test" in run.accuracy for run in result.runs) else "validation"
    rows = [
        (run.model, run.seed, group, accuracy.n, accuracy)
        for run in result.runs
        for group, accuracy in run.group_accuracy.items()
    ]
    return Table("", ("model", "seed", "group", f"{split} examples", f"{split} accuracy"), tuple(rows))


def _path_in_command(path: str) -> str:
    """A path as it would be typed here."""
    absolute = Path(path)
    if "://" in path or not absolute.is_relative_to(Path.cwd()):
        return path
    return str(absolute.relative_to(Path.cwd()))
