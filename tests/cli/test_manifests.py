"""A subset's manifest: the commands that the page names take one, and give its numbers."""

import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
import typer

from hardpan import cli, confusion
from hardpan.data.dataset import Dataset
from hardpan.predictions import Predictions, export

PAGE = Path(__file__).parents[2] / "docs/commands/confusion.md"


def commands() -> set[str]:
    found = set()
    for name in cli.COMMANDS:
        command = typer.main.get_command(importlib.import_module(f"hardpan.cli.{name}").app)
        inner = getattr(command, "commands", {}).items()
        found |= {name, *(f"{name} {title}" for title, item in inner if not item.hidden)}
    return found


def test_the_page_names_commands_that_exist():
    section = PAGE.read_text().partition("### Where a subset can be used")[2].partition("\n## ")[0]
    told = set()
    for group, names in re.findall(r"`([a-z]+)(?: ([a-z|-]+))?`", section):
        told |= {f"{group} {name}" for name in names.split("|")} if names else {group}
    assert len(told) > 10
    assert told - {"confusion"} <= commands()


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Predictions for all digits, and a manifest of 300 of them."""
    monkeypatch.chdir(tmp_path)
    digits = Dataset.open("digits")
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(10, 0.2), size=(2, len(digits)))
    probs[:, np.arange(len(digits)), digits.labels] += 1
    held = Predictions.create("run", ids=digits.ids, n_classes=10, labels=digits.labels)
    for seed in range(2):
        held.write(seed, 0, probs[seed] / probs[seed].sum(axis=1, keepdims=True))
    confusion.subset(confusion.scores("run"), count=300).save("hard.json")
    export(Predictions.open("run@hard.json"), "cut.npz")
    return tmp_path


@pytest.mark.parametrize(
    ("behind", "cut"),
    [
        (["confusion", "score", "run@hard.json"], ["confusion", "score", "cut.npz"]),
        (["confusion", "score", "run", "--subset", "hard.json"], ["confusion", "score", "cut.npz"]),
        (["predictions", "check", "run@hard.json"], ["predictions", "check", "cut.npz"]),
        (
            ["floor", "digits@hard.json", "--predictions", "run@hard.json", "--set", "neighbours=false"],
            ["floor", "digits@hard.json", "--predictions", "cut.npz", "--set", "neighbours=false"],
        ),
    ],
)
def test_a_manifest_behind_predictions_gives_the_numbers_of_the_part(made, capsys, behind, cut):
    found = []
    for words in (behind, cut):
        with pytest.raises(SystemExit) as ended:
            cli.main([*words, "--json"])
        said = capsys.readouterr()
        assert ended.value.code in (0, None), said.err
        found.append(_numbers(json.loads(said.out)))
    assert found[0] == found[1]
    assert len(found[0]) > 3


def _numbers(item):
    """All numbers of a record but those of its sizes on disk, in order."""
    if isinstance(item, dict):
        return [x for name, part in item.items() if not name.startswith(("bytes", "block")) for x in _numbers(part)]
    if isinstance(item, list):
        return [x for part in item for x in _numbers(part)]
    return [item] if isinstance(item, (int, float)) else []
