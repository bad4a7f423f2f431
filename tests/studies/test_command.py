"""The commands: JSON alone on stdout, pages in a folder, one sentence for bad input, nothing lost when killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hardpan import files
from hardpan.cli import main


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["experiments", *arguments])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


QUICK = ("digits", "--model", "linear", "--epochs", "2", "--device", "cpu")


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (("crossval", *QUICK, "--folds", "2"), "CrossvalStudy"),
        (("partial", *QUICK, "--splits", "1", "--no-control"), "PartialStudy"),
        (
            ("retune", *QUICK, "--grid", "rate=0.02,0.05", "--start", "rate=0.02", "--extensions", "0"),
            "RetuneStudy",
        ),
    ],
)
def test_json_alone_on_stdout_and_a_page_in_the_folder(command, kind, capsys, tmp_path):
    code, out, _ = run(capsys, *command, "--json", "--out", str(tmp_path / "o"))
    assert code == 0
    said = json.loads(out)
    assert said["kind"] == kind
    assert said == json.loads((tmp_path / "o" / "report.json").read_text(encoding="utf-8"))
    assert files.load(tmp_path / "o" / "config.json").train.epochs == 2
    assert "<html" in (tmp_path / "o" / "index.html").read_text(encoding="utf-8")
    code, shown, _ = run(capsys, *command, "--out", str(tmp_path / "o"))
    assert code == 0
    assert "Page: " in shown


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("crossval", "no-such-data"), "no-such-data"),
        (("crossval", *QUICK, "--new", "no-such-data"), "no-such-data"),
        (("retune", *QUICK, "--grid", "rate"), "--grid"),
        (("retune", *QUICK, "--grid", "rate=a,b"), "--grid"),
        (("retune", *QUICK, "--grid", "height=1,2"), "height"),
        (("retune", *QUICK, "--choose", "worst"), "--choose"),
        (("partial", *QUICK, "--set", "backend=cloud"), "backend"),
        (("crossval", "digits", "--model", "resnet19", "--epochs", "1"), "resnet19"),
        (("crossval", *QUICK, "--confidence", "1.5"), "--confidence"),
    ],
)
def test_bad_input_ends_with_one_sentence_and_code_2(arguments, named, capsys):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    last = err.strip().splitlines()[-1]
    assert last.startswith("hardpan: ")
    assert named in last
    assert "Traceback" not in err


@pytest.mark.soak
def test_a_study_that_is_killed_goes_on_where_it_was(tmp_path):
    line = [sys.executable, "-m", "hardpan", "experiments", "retune", "digits", "--model", "mlp", "--epochs", "12"]
    line += ["--grid", "rate=0.01,0.02,0.04", "--grid", "weight_decay=1e-4,1e-3,1e-2", "--extensions", "0"]
    line += ["--device", "cpu", "--json"]
    quiet = {**os.environ, "OMP_NUM_THREADS": "1"}
    whole = subprocess.run(line, capture_output=True, check=True, env=quiet).stdout
    runs = tmp_path / "o" / "runs"
    deaths = 0
    for wanted in (2, 4, 6):
        process = subprocess.Popen(
            [*line, "--out", str(tmp_path / "o")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=quiet
        )
        while process.poll() is None and _count(runs) < wanted:
            time.sleep(0.01)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            deaths += 1
        process.wait()
    assert deaths >= 2
    done = subprocess.run([*line, "--out", str(tmp_path / "o")], capture_output=True, check=True, env=quiet)
    assert json.loads(done.stdout) == json.loads(whole)
    assert _count(runs) == 9


def _count(folder: Path) -> int:
    return len(list(folder.glob("*.json"))) if folder.exists() else 0
