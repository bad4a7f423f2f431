"""How DATA is read: the same options in every command that takes a dataset."""

import importlib

import pytest
import typer.main

from hardpan.cli.data_options import DataFlags, GroupedDataFlags
from hardpan.tables import write_table

OPTIONS = {
    *(
        "--label",
        "--features",
        "--drop",
        "--id",
        "--split-column",
        "--group",
        "--class-names",
        "--resize",
        "--name",
    )
}
COMMANDS = {
    "audit": None,
    "floor": None,
    "train": None,
    "flow": {"fit"},
    "confusion": {"score", "bands", "subset", "issues"},
    "experiments": {"retune", "partial", "crossval"},
}


def options_of(module, names):
    command = typer.main.get_command(importlib.import_module(f"hardpan.cli.{module}").app)
    commands = getattr(command, "commands", {module: command})
    wanted = names or {name for name in commands if name in (module, "estimate")} or set(commands)
    return {name: {text for item in commands[name].params for text in item.opts} for name in wanted}


@pytest.mark.parametrize("module", COMMANDS)
def test_every_command_that_takes_a_dataset_has_them(module):
    for name, options in options_of(module, COMMANDS[module]).items():
        wanted = OPTIONS - {"--group"} if module == "train" else OPTIONS  # train has --groups, also of a file
        assert options >= wanted, (name, wanted - options)


def test_options_are_arguments_of_open(tmp_path):
    columns = {"key": ["01", "02", "03", "04"], "a": [1.5, 2.5, 3.5, 5.0], "b": [1, 1, 2, 2], "c": list("xyxy")}
    path = str(write_table(tmp_path / "t.csv", columns | {"z": [0.5] * 4}))
    flags = GroupedDataFlags(label="c", id="key", drop=["z, b"], class_names="y,x", name="mine")
    assert flags.options() == {"label": "c", "id": "key", "drop": ("z", "b"), "class_names": "y,x", "name": "mine"}
    dataset = flags.open(path)
    assert dataset.feature_names == ("a",)
    assert dataset.ids.tolist() == columns["key"]
    assert dataset.labels.tolist() == [1, 0, 1, 0]
    assert flags.other(path).name == "t"
    assert GroupedDataFlags(label="c", group="b").open(path).metadata["group"].tolist() == ["1", "1", "2", "2"]


def test_without_options_workers_read_the_data_by_its_name():
    assert DataFlags().apply("digits") == "digits"
    assert DataFlags().other(None) is None
