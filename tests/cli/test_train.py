"""``hardpan train`` from the command line: real processes, exit codes, JSON alone, resume."""

import json
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from hardpan import confusion
from hardpan.cli.train import app
from hardpan.data.dataset import Dataset
from hardpan.predictions import Predictions

SMALL = ["--model", "linear", "--seeds", "1", "--epochs", "2", "--device", "cpu"]


def invoke(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_a_run_is_shown_with_intervals_and_what_to_do_next(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = invoke("digits", *SMALL, "--out", "runs/digits")
    assert done.exit_code == 0, done.output
    assert "linear" in done.stdout
    assert re.search(r" \d+(\.\d)? % \(\d+(\.\d)?–\d+(\.\d)? %\)", done.stdout)
    assert "hardpan confusion score runs/digits" in done.stdout
    assert "runs/digits-models/linear" in done.stdout
    assert Predictions.open("runs/digits").epochs == (1, 2)


def test_json_alone_on_stdout_and_the_second_time_nothing_is_run(tmp_path):
    command = [
        "digits",
        *SMALL,
        "--out",
        str(tmp_path / "run"),
        "--json",
        "--set",
        "record_every=2",
        "--set",
        "model_options=x=1",
    ]
    with pytest.raises(Exception, match=r"linear.*'x'"):
        CliRunner().invoke(app, command, catch_exceptions=False)
    command = command[:-2]
    first = json.loads(invoke(*command).stdout)
    second = json.loads(invoke(*command).stdout)
    assert first["kind"] == "Trained"
    assert (first["runs"][0]["resumed_at"], second["runs"][0]["resumed_at"]) == (0, 2)
    assert first["runs"][0]["accuracy"] == second["runs"][0]["accuracy"]
    assert first["config"]["record_every"] == 2
    assert Predictions.open(tmp_path / "run").epochs == (2,)


def test_options_reach_model_and_objective(tmp_path):
    ids = Dataset.open("digits").ids
    confusion.subset_of_ids(ids[::2], examples=len(ids)).save(tmp_path / "some.json")
    done = invoke(
        *[
            "digits",
            "--model",
            "mlp",
            "--set",
            "model_options=width=7",
            "--epochs",
            "1",
            "--seeds",
            "1",
            "--device",
            "cpu",
        ],
        *[
            "--objective",
            "groupdro",
            "--set",
            "objective_options=step=0.5",
            "--group",
            str(tmp_path / "some.json"),
        ],
        *["--out", str(tmp_path / "run"), "--json"],
    )
    told = json.loads(done.stdout)
    config = told["config"]
    assert config["model_options"] == {"width": 7}
    assert config["objective_options"] == {"step": 0.5}
    assert sorted(told["runs"][0]["group_accuracy"]) == ["0", "1"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--model", "resnet7"], "resnet7"),
        (["--objective", "groupdro"], r"\bgroup\b"),
        (["--set", "model_options=width"], "model_options"),
        (["--epochs", "0"], "epochs"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(tmp_path, arguments, named):
    command = [
        sys.executable,
        "-m",
        "hardpan",
        "train",
        "digits",
        "--out",
        str(tmp_path / "run"),
        *SMALL,
        *arguments,
    ]
    if "--set" in arguments or "--epochs" in arguments:  # those that fail before torch is loaded are quick
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 2
        assert named in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stderr.strip().count("\n") == 0
    else:
        with pytest.raises(Exception, match=named):
            CliRunner().invoke(app, command[4:], catch_exceptions=False)
    assert not (tmp_path / "run").exists()


def test_help_has_an_example_and_does_not_load_torch():
    program = "import sys; from hardpan.cli.train import app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
    assert "hardpan train digits" in invoke("--help").stdout
