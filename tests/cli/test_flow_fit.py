"""``hardpan flow fit`` from the outside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hardpan import flows
from hardpan.cli import main

QUICK = ["--preset", "tiny", "--epochs", "2", "--set", "steps=1", "--set", "levels=1", "--set", "width=8"]
QUICK += ["--set", "batch_size=256"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["flow", "fit", *arguments])
    told = capsys.readouterr()
    return int(ended.value.code or 0), told.out, told.err


def test_a_fit_prints_json_alone_and_writes_a_flow(tmp_path, capsys):
    code, out, _ = run(capsys, "digits", *QUICK, "--out", str(tmp_path / "flow"), "--json")
    assert code == 0
    record = json.loads(out)
    assert record["kind"] == "FlowRecord"
    assert record["fitted"]["epochs"] == 2
    assert len(record["floors"]) == 2
    assert flows.load(tmp_path / "flow").record.fitted["test_nll"] == record["fitted"]["test_nll"]
    again, shown, _ = run(capsys, "digits", *QUICK, "--out", str(tmp_path / "flow"))
    assert again == 0
    assert "Bayes error" in shown
    assert "nats" in shown


def test_vectors(tmp_path, capsys):
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 2
    np.savez(tmp_path / "v.npz", x=rng.normal(size=(80, 3)) + 3 * labels[:, None], y=labels)
    code, out, _ = run(
        capsys, str(tmp_path / "v.npz"), "--preset", "tiny", "--epochs", "1",
        "--out", str(tmp_path / "flow"), "--json",
    )  # fmt: skip
    assert code == 0
    assert json.loads(out)["scaling"]["data"] == "vector"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digits", "--preset", "huge"], "preset must"),
        (["nothing.npz"], "nothing.npz"),
        (["digits", "--device", "cdua"], "device must"),
        (["digits", "--set", "learning_rate=0"], "--set learning_rate must"),
    ],
)
def test_bad_input_ends_with_code_2_and_one_sentence(arguments, message, tmp_path, capsys):
    code, out, err = run(capsys, *arguments, "--out", str(tmp_path / "flow"))
    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "flow").exists()


def test_other_settings_do_not_go_on_in_the_same_folder(tmp_path, capsys):
    assert run(capsys, "digits", *QUICK, "--out", str(tmp_path / "flow"))[0] == 0
    code, _, err = run(capsys, "digits", *QUICK, "--seed", "1", "--out", str(tmp_path / "flow"))
    assert code == 2
    assert "seed" in err


def test_help_has_an_example(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "hardpan flow fit digits --preset tiny" in " ".join(out.split())


@pytest.mark.soak
def test_a_killed_fit_goes_on_to_the_same_numbers(tmp_path):
    def command(place: Path) -> list[str]:
        longer = ["--preset", "tiny", "--epochs", "12", "--set", "width=16", "--out", str(place), "--json"]
        return [sys.executable, "-m", "hardpan", "flow", "fit", "digits", *longer]

    whole = json.loads(subprocess.run(command(tmp_path / "whole"), capture_output=True, check=True).stdout)
    process = subprocess.Popen(
        command(tmp_path / "cut"), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "epoch 5/12" in line:
            process.kill()
            break
    process.wait()
    process.stderr.close()
    cut = json.loads(subprocess.run(command(tmp_path / "cut"), capture_output=True, check=True).stdout)
    assert cut["floors"] == whole["floors"]
    assert cut["fitted"]["test_nll"] == whole["fitted"]["test_nll"]


@pytest.mark.soak
def test_two_processes_fit_one_flow(tmp_path):
    """Two processes by torchrun on the CPU: they agree with each other, and nearly with one process."""
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "hardpan",
    ]
    options = ["flow", "fit", "digits", *QUICK, "--device", "cpu", "--out"]
    subprocess.run([*launcher, *options, str(tmp_path / "two")], capture_output=True, check=True, timeout=80)
    subprocess.run(
        [sys.executable, "-m", "hardpan", *options, str(tmp_path / "one")], capture_output=True, check=True
    )
    two, one = (flows.load(tmp_path / name).record.fitted["validation_nll"] for name in ("two", "one"))
    assert two == pytest.approx(one, rel=0.02)
