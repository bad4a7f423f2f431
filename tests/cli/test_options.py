"""Options from Config dataclasses: names, types, defaults and help are those of the fields."""

import dataclasses
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from hardpan.auditing import AuditConfig
from hardpan.bayes import FloorConfig
from hardpan.cli.options import Flags, attribute_help, spread
from hardpan.errors import InputError
from hardpan.flows.config import FlowConfig
from hardpan.studies.crossval import CrossvalConfig
from hardpan.studies.floor_bench import FloorBenchConfig
from hardpan.studies.learning_curve import CurveConfig
from hardpan.studies.partial import PartialConfig
from hardpan.testbed import CompareConfig
from hardpan.training import TrainConfig


@dataclass(frozen=True, slots=True)
class Every:
    """One field of each type.

    Attributes:
        number: a number of
            two lines.
        text: ``plain`` or "other" (:func:`hardpan.audit`).
        perhaps: may be missing.
        on: starts as True.
        names: several texts.
        paths: several texts that may hold commas.
        sizes: several whole numbers.
        rates: several numbers.
        more: names and values.
        choice: one of two.
        inner: not an option.
    """

    number: int = 3
    text: str = "plain"
    perhaps: float | None = None
    on: bool = True
    names: tuple[str, ...] = ("a", "b")
    paths: tuple[str, ...] = ()
    sizes: tuple[int, ...] = (5, 6)
    rates: tuple[float, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    choice: Literal["x", "y"] = "x"
    inner: Any = None


def command(*words: str, flags: Flags) -> Every:
    app, values = typer.Typer(), []

    @app.command()
    @spread
    def run(config: Annotated[Every, flags]) -> None:
        values.append(config)

    ended = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return values[0]


FLAGS = Flags(without=("inner",), names={"number": "--count"}, defaults={"text": "mine"}, repeated=("paths",))


def test_defaults_are_those_of_the_fields():
    assert command(flags=FLAGS) == Every(text="mine")


def test_every_type_is_read():
    texts = ["--count", "4", "--text", "t", "--perhaps", "0.5", "--no-on", "--names", "c, d", "--names", "e"]
    texts += [
        "--paths",
        "a,b",
        "--paths",
        "c",
        "--sizes",
        "1,2",
        "--rates",
        "0.5,1",
        "--more",
        "w=7",
        "--choice",
        "y",
    ]
    expected = Every(4, "t", 0.5, False, ("c", "d", "e"), ("a,b", "c"), (1, 2), (0.5, 1.0), {"w": 7}, "y")
    assert command(*texts, flags=FLAGS) == expected
    assert command("--names", "none", flags=FLAGS).names == ()


def test_bad_texts_name_the_option():
    with pytest.raises(InputError, match="--sizes"):
        command("--sizes", "1,x", flags=FLAGS)
    with pytest.raises(InputError, match="--more"):
        command("--more", "w", flags=FLAGS)


def test_help_is_the_docstring_without_markup():
    texts = attribute_help(Every)
    assert texts["number"] == "A number of two lines."
    assert texts["text"] == "plain or other (hardpan.audit)."
    assert list(texts) == [item.name for item in dataclasses.fields(Every)]


@pytest.mark.parametrize(
    ("module", "name", "config", "missing"),
    [
        ("train", "train", TrainConfig, set()),
        ("audit", "audit", AuditConfig, {"temperatures"}),
        ("floor", "estimate", FloorConfig, set()),
        ("floor", "bench", FloorBenchConfig, set()),
        ("flow", "fit", FlowConfig, set()),
        ("flow", "curve", CurveConfig, set()),
        ("experiments", "partial", PartialConfig, {"train"}),
        ("experiments", "crossval", CrossvalConfig, {"train"}),
        ("testbed", "compare", CompareConfig, set()),
    ],
)
def test_every_setting_is_an_option_with_help(module, name, config, missing):
    loaded = typer.main.get_command(importlib.import_module(f"hardpan.cli.{module}").app)
    options = {item.name: item for item in getattr(loaded, "commands", {name: loaded})[name].params}
    for item in dataclasses.fields(config):
        if item.name not in missing:
            assert options[item.name].help, item.name
