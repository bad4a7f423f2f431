"""What holds for every command of the command line."""

import contextlib
import dataclasses
import io
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from tests.record_kinds import SCHEMA
from tests.soak.invocations import NEVER, VALID, commands, fixtures

from hardpan import cli, files
from hardpan.files.schemas import all_schemas, json_schema

COMMANDS = {" ".join(filter(None, key)): item for key, item in commands().items()}
SETTINGS = {words: item.callback.settings for words, item in COMMANDS.items() if hasattr(item.callback, "settings")}
GUIDE = Path(__file__).parents[2] / "docs/guide.md"
SET = [words for words, item in COMMANDS.items() if any("--set" in option.opts for option in item.params)]


def run(*words):
    """Exit code, stdout and stderr of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as stopped:
        cli.main(list(words))
    return stopped.value.code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("words", COMMANDS)
def test_help_has_an_example_and_says_what_every_option_is(words):
    command = COMMANDS[words]
    assert f"hardpan {words} " in " ".join(command.help.split())
    for option in command.params:
        assert getattr(option, "help", "") or option.name == "help", option.opts


@pytest.mark.parametrize("words", SETTINGS)
def test_every_field_of_a_config_can_be_set_and_has_help(words):
    table = SETTINGS[words]
    own = {item.name for item in table.own}
    for make, settings in table.groups.values():
        names = {item.name for item in settings}
        if dataclasses.is_dataclass(make):
            assert {item.name for item in dataclasses.fields(make)} - names <= own | table.fixed
        assert all(item.help for item in settings), settings


@pytest.mark.parametrize("words", SETTINGS)
def test_a_saved_config_sets_every_field(words, tmp_path):
    for make, settings in SETTINGS[words].groups.values():
        if files.KINDS.get(make.__name__) is make:
            config = make(**{item.name: item.default for item in settings})
            files.save(config, tmp_path / "config.json")
            needed = {item.name: "1" for item in SETTINGS[words].own}
            values = SETTINGS[words].arguments(needed | {"config_": tmp_path / "config.json"})
            assert config in [value for value in values.values() if type(value) is make]


@pytest.mark.parametrize("words", SET)
def test_an_unknown_setting_is_one_sentence_and_exit_2(words):
    needed = [item for item in COMMANDS[words].params if item.required]
    options = [word for item in needed if item.opts[0][0] == "-" for word in (item.opts[-1], "1")]
    arguments = ["1" for item in needed if item.opts[0][0] != "-"]
    code, out, err = run(*words.split(), *arguments, *options, "--set", "colour=red")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("hardpan: --set ")


@pytest.mark.parametrize("words", cli.REMOVED)
def test_a_removed_command_says_what_replaces_it_and_the_guide_does_too(words):
    code, out, err = run(*words.split(), "--help")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"hardpan {words} was removed; use ")
    assert f"| `{words}` |" in GUIDE.read_text(encoding="utf-8")


def test_invocations_are_of_commands_that_exist():
    assert set(VALID) | NEVER <= set(commands())


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with small inputs of every kind."""
    folder = tmp_path_factory.mktemp("inputs")
    fixtures(folder)
    return folder


@pytest.mark.parametrize("key", VALID, ids=" ".join)
def test_json_is_all_that_is_printed(key, inputs):
    words = [
        f"new-{'-'.join(key)}-{at}{word[3:]}" if word.startswith("NEW") else word
        for at, word in enumerate(VALID[key])
    ]
    with contextlib.chdir(inputs):
        code, out, err = run(*filter(None, key), *words, "--json")
    assert code == 0, err
    report = json.loads(out)
    jsonschema.validate(report, json_schema(report["kind"]))


def test_help_lists_every_command_option_and_default_as_json():
    code, out, _ = run("--help", "--json")
    listed = {item["command"].removeprefix("hardpan "): item for item in json.loads(out)["commands"]}
    assert code == 0
    assert set(listed) == {*COMMANDS, "PATH"}
    for words, item in COMMANDS.items():
        names = {name for one in listed[words]["parameters"] for name in one["names"] if name.startswith("-")}
        assert {name for option in item.params for name in option.opts if name.startswith("-")} - {"--help"} <= (
            names | {"--install-completion", "--show-completion"}
        )
    budget = next(one for one in listed["audit"]["parameters"] if "--budget" in one["names"])
    assert budget["default"] == "3m"
    assert {"confidence", "seeds"} <= {one["name"] for one in listed["audit"]["settings"]}
    one = json.loads(run("gate", "--help", "--json")[1])["commands"]
    assert [item["command"] for item in one] == ["hardpan gate"]


def test_versions_as_json_name_what_is_installed():
    found = json.loads(run("--version", "--json")[1])
    assert found["packages"]["numpy"] == np.__version__


def test_the_schema_of_every_kind_is_published_and_valid():
    published = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(published)
    assert published == json.loads(json.dumps(all_schemas())), "run: make format"
    assert json.loads(run("--schema", "Gate")[1])["$defs"]["Gate"] == published["$defs"]["Gate"]
    code, out, err = run("--schema", "Nothing")
    assert (code, out, err.count("\n")) == (2, "", 1)
