"""Options from Config dataclasses: names, types, defaults and help are those of the fields."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from hardpan import cli, files
from hardpan.auditing.evidence import AuditConfig
from hardpan.cli.common import CommandOptions
from hardpan.cli.decorators import spread
from hardpan.cli.options import Flags, option_help, parse_option
from hardpan.errors import InputError
from hardpan.training.config import TrainConfig


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

    def __post_init__(self) -> None:
        if self.number < 0:
            raise InputError(f"must be at least 0; got {self.number}", argument="number")


def command(*words: str, flags: Flags) -> Every:
    app, values = typer.Typer(), []

    @app.command()
    @spread
    def run(config: Annotated[Every, flags]) -> None:
        values.append(config)

    ended = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return values[0]


FLAGS = Flags(without=("inner",), names={"number": "--count"}, repeated=("paths",))


def test_defaults_are_those_of_the_fields():
    assert command(flags=FLAGS) == Every()


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


@pytest.mark.parametrize("text", ["", "1,,2", "a", "1;2"])
def test_lists_of_numbers_are_refused_by_name(text):
    with pytest.raises(InputError) as caught:
        parse_option("--rates", tuple[float, ...], [text])
    assert caught.value.argument == "--rates"


def test_bad_texts_name_the_option():
    with pytest.raises(InputError, match="--sizes"):
        command("--sizes", "1,x", flags=FLAGS)
    with pytest.raises(InputError, match="--more"):
        command("--more", "w", flags=FLAGS)


def test_an_error_of_a_config_names_the_option():
    with pytest.raises(InputError) as caught:
        command("--count", "-1", flags=FLAGS)
    assert caught.value.argument == "--count"


FEW = Flags(only=("number", "names"), names={"number": "--count"}, repeated=("paths",))


def test_set_reaches_every_field():
    texts = ["text=t", "perhaps=0.5", "on=false", "names=c, d", "paths=a,b", "paths=c", "sizes=1,2"]
    texts += ["rates=0.5,1", "more=w=7", "more=v=x", "choice=y", "inner=[1]"]
    words = [word for text in texts for word in ("--set", text)]
    expected = Every(3, "t", 0.5, False, ("c", "d"), ("a,b", "c"), (1, 2), (0.5, 1.0), {"w": 7, "v": "x"}, "y", [1])
    assert command(*words, flags=FEW) == expected
    assert command("--set", "number=4", "--set", "perhaps=none", flags=FEW) == Every(number=4)


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        (["--set", "rate=0.5"], "--set"),
        (["--set", "rates"], "--set"),
        (["--set", "on=yes"], "--set on"),
        (["--set", "choice=z"], "--set choice"),
        (["--set", "perhaps=x"], "--set perhaps"),
        (["--set", "text=a", "--set", "text=b"], "--set text"),
        (["--count", "4", "--set", "number=4"], ("--count", "--set number")),
        (["--set", "number=-1"], "--count"),
        (["--config", "absent.json"], "--config"),
    ],
)
def test_a_bad_setting_is_refused_by_its_name(words, argument):
    with pytest.raises(InputError) as caught:
        command(*words, flags=FEW)
    assert caught.value.argument == argument


def test_an_unknown_setting_is_answered_with_those_that_are_near():
    with pytest.raises(InputError, match="rates"):
        command("--set", "rate=0.5", flags=FEW)


def test_a_saved_config_gives_way_to_options_and_set(tmp_path):
    record = CommandOptions("hardpan run", {"number": 7, "text": "saved", "sizes": (8, 9), "out": "x"})
    path = files.save(record, tmp_path / "config.json")
    assert command("--config", str(path), flags=FEW) == Every(7, "saved", sizes=(8, 9))
    words = ["--config", str(path), "--count", "2", "--set", "sizes=4"]
    assert command(*words, flags=FEW) == Every(2, "saved", sizes=(4,))
    other = files.save(CommandOptions("hardpan run", {"colour": 1}), tmp_path / "other.json")
    with pytest.raises(InputError) as caught:
        command("--config", str(other), flags=FEW)
    assert caught.value.argument == "--config"


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["audit", "digits", "--seed", "-1"], "--seed"),
        (["audit", "digits", "--set", "seeds=0"], "--set seeds"),
        (["predictions", "import", "p.npz", "--out", "x", "--set", "block=0"], "--set block"),
    ],
)
def test_commands_name_the_option_that_was_typed(words, option, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("p.npz", probs=np.full((1, 2, 6, 2), 0.5), labels=np.arange(6) % 2)
    with pytest.raises(SystemExit) as stopped:
        cli.main(words)
    assert stopped.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"hardpan: {option} ")


def test_arguments_of_a_function_are_options():
    def work(
        folder: str,
        kind: str = "plain",
        *,
        sizes: Sequence[int] | None = None,
        path: str | os.PathLike[str] | None = None,
        names_: tuple[str, ...] = ("a",),
        needed: float,
        progress: Any = None,
    ) -> None:
        """Work.

        Args:
            folder: no option.
            kind: what kind.
            needed: a number of
                two lines.
        """

    app, values = typer.Typer(), []

    @app.command()
    @spread
    def run(options: Annotated[dict[str, Any], Flags(of=work, names={"path": "--file"})]) -> None:
        values.append(options)

    words = ["--needed", "0.5", "--sizes", "3,4", "--file", "f.npy", "--names", "b,c"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert CliRunner().invoke(app, ["--needed", "1"]).exit_code == 0
    assert CliRunner().invoke(app, []).exit_code == 2
    assert values == [
        {"kind": "plain", "sizes": (3, 4), "path": Path("f.npy"), "names_": ("b", "c"), "needed": 0.5},
        {"kind": "plain", "sizes": None, "path": None, "names_": ("a",), "needed": 1.0},
    ]
    helps = option_help(work)
    assert helps == {"folder": "No option.", "kind": "What kind.", "needed": "A number of two lines."}


def test_help_is_the_docstring_without_markup():
    texts = option_help(Every)
    assert texts["number"] == "A number of two lines."
    assert texts["text"] == "plain or other (hardpan.audit)."
    assert list(texts) == [item.name for item in dataclasses.fields(Every)]


def test_what_a_saved_config_names_is_never_imported(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "planted.py").write_text("open('ran', 'w').close()\ncode = print\n")
    for config, words in (
        (TrainConfig(model="linear, planted:code"), ["train", "digits", "--out", "run"]),
        (AuditConfig(predictions=("planted:code",)), ["audit", "digits"]),
        (AuditConfig(predictions=("fine.npz", "planted:code")), ["audit", "digits", "--seed", "1"]),
        (CommandOptions("hardpan floor", {"predictions": ("planted:code",)}), ["floor", "digits"]),
    ):
        files.save(config, tmp_path / "config.json")
        with pytest.raises(SystemExit) as ended:
            cli.main([*words, "--config", "config.json"])
        assert ended.value.code == 2, words
        assert "planted:code" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()


def test_code_that_a_saved_config_names_is_used_where_the_command_line_names_it_too(tmp_path):
    path = files.save(CommandOptions("hardpan every", {"text": "planted:code"}), tmp_path / "config.json")
    assert command("--config", str(path), "--set", "text=planted:code", flags=FEW).text == "planted:code"
    with pytest.raises(InputError) as caught:
        command("--config", str(path), flags=FEW)
    assert caught.value.argument == "--config"
