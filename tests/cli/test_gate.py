"""hardpan gate on the command line: exit codes, files, the action and the GitLab job, and what it imports."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from hardpan import cli, tables

ROOT = Path(__file__).parents[2]


def write_run(path, right, model="m", tasks=2):
    n = len(right) // tasks
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {"task": [f"t{k // n}" for k in range(len(right))], "item": [k % n for k in range(len(right))]}
    tables.write_table(path, {"model": [model] * len(right), **rows, "correct": [int(cell) for cell in right]})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("runs")
    for number in range(4):
        write_run(folder / "nightly" / f"run-{number}" / "scores.csv", rng.random(600) < 0.8)
    write_run(folder / "main.csv", rng.random(600) < 0.8)
    write_run(folder / "worse.csv", rng.random(600) < 0.6)
    write_run(folder / "other-task.csv", np.ones(300), tasks=1)
    tables.write_table(
        folder / "both.csv",
        {"model": ["old"] * 300 + ["new"] * 300, "item": [*range(300)] * 2, "correct": [1] * 300 + [0] * 300},
    )
    return folder


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as done:
        cli.main(["gate", *map(str, arguments)])
    shown = capsys.readouterr()
    return done.value.code or 0, shown.out, shown.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("main.csv", "main.csv", "--margin", "2"), 0),
        (("main.csv", "worse.csv"), 1),
        (("main.csv", "worse.csv", "--history", "nightly"), 1),
        (("main.csv", "main.csv", "--margin", "0"), 3),
        (("main.csv", "main.csv", "--margin", "0", "--cannot-tell", "fail"), 1),
        (("main.csv", "main.csv", "--margin", "0", "--cannot-tell", "pass"), 0),
        (("main.csv", "other-task.csv", "--margin", "50"), 3),
        (("both.csv::old", "both.csv::new"), 1),
        (("nightly/run-0", "nightly/run-1", "nightly/run-2", "--margin", "30"), 0),
    ],
)
def test_exit_codes(runs, monkeypatch, capsys, arguments, code):
    monkeypatch.chdir(runs)
    assert run(capsys, *arguments)[0] == code


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("both.csv", "main.csv"), "BASELINE"),
        (("both.csv::nobody", "main.csv"), "nobody"),
        (("main.csv", "both.csv::old"), "CANDIDATE"),
        (("main.csv", "worse.csv", "--margin", "100"), "--margin"),
        (("main.csv", "worse.csv", "--cannot-tell", "skip"), "--cannot-tell"),
        (("main.csv", "worse.csv", "--history", "both.csv::old"), "both.csv::old"),
        (("main.csv", "worse.csv", "--group", "passage"), "passage"),
    ],
)
def test_bad_input_is_one_sentence(runs, monkeypatch, capsys, arguments, name):
    monkeypatch.chdir(runs)
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert name in err


def test_the_baseline_and_the_candidate_in_the_history_are_not_past_runs(runs, monkeypatch, capsys):
    monkeypatch.chdir(runs)
    arguments = ("nightly/run-0", "nightly/run-1", "--history", "nightly", "--margin", "30", "--json")
    assert json.loads(run(capsys, *arguments)[1])["runs"] == 3


def test_out_writes_the_card(runs, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(runs)
    assert run(capsys, "main.csv", "worse.csv", "--out", tmp_path / "gate")[0] == 1
    assert {path.name for path in (tmp_path / "gate").iterdir()} == {
        *("card.md", "junit.xml", "report.json", "config.json")
    }


def test_nulls_do_not_pass(tmp_path, capsys):
    rows = [{"model": "m", "item": f"q{k}", "correct": 1} for k in range(300)]
    (tmp_path / "old.json").write_text(json.dumps(rows))
    (tmp_path / "new.json").write_text(
        json.dumps([row | {"correct": row["correct"] if k < 12 else None} for k, row in enumerate(rows)])
    )
    assert run(capsys, tmp_path / "old.json", tmp_path / "new.json", "--margin", "50")[0] in (1, 3)


def test_it_imports_nothing_heavy(runs):
    program = (
        "import sys; from hardpan import cli\n"
        "try: cli.main(['gate', 'main.csv', 'main.csv', '--margin', '2', '--out', 'light'])\n"
        "except SystemExit as end: assert end.code in (0, None), end.code\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=runs, capture_output=True, text=True, check=True)
    heavy = {"torch", "numba", "zarr", "altair", "vl_convert", "sklearn", "jinja2", "pandas"}
    assert not heavy & {*done.stdout.splitlines()[-1].split()}


def shell_steps(lines, folder, environment):
    """Run lines as a CI runner does, with `hardpan` of this source tree."""
    tool = folder / "bin" / "hardpan"
    tool.parent.mkdir(exist_ok=True)
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hardpan "$@"\n')
    tool.chmod(0o755)
    path = f"{tool.parent}:{os.environ['PATH']}"
    source = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", lines]
    environment = {**os.environ, **environment, "PATH": path, "PYTHONPATH": source}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("candidate", "inputs", "code", "verdict"),
    [
        ("main.csv", {"margin": "2"}, 0, "pass"),
        ("worse.csv", {"history": "nightly"}, 1, "fail"),
        ("main.csv", {"margin": "0"}, 3, "cannot tell"),
        ("main.csv", {"margin": "0", "cannot-tell": "pass"}, 0, "cannot tell"),
        ("main.csv", {"options": "--group task --set unparsed=missing", "margin": "2"}, 2, ""),
    ],
)
def test_the_steps_of_the_action(runs, tmp_path, candidate, inputs, code, verdict):
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    values = {name: str(item.get("default", "")) for name, item in action["inputs"].items()}
    values |= {"baseline": str(runs / "main.csv"), "candidate": str(runs / candidate), **inputs}
    if inputs.get("history"):
        values["history"] = str(runs / "nightly")
    step = action["runs"]["steps"][-1]
    environment = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: values[match[1]], text)
        for name, text in step["env"].items()
    }
    files = {"GITHUB_STEP_SUMMARY": tmp_path / "summary.md", "GITHUB_OUTPUT": tmp_path / "output"}
    done = shell_steps(step["run"], tmp_path, environment | {name: str(path) for name, path in files.items()})
    assert done.returncode == code, done.stderr
    if verdict:
        assert files["GITHUB_STEP_SUMMARY"].read_text().startswith("## ")
        assert f"verdict={verdict}\n" in files["GITHUB_OUTPUT"].read_text()
        assert (tmp_path / values["out"] / "junit.xml").exists()


def test_the_action_installs_this_repository():
    install = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"][0]
    assert install["run"] == 'python -m pip install "$GITHUB_ACTION_PATH"'
    assert (ROOT / "pyproject.toml").exists()


@pytest.mark.parametrize(("candidate", "code"), [("main.csv", 0), ("worse.csv", 1)])
def test_the_gitlab_job_of_the_documentation(runs, tmp_path, candidate, code):
    page = (ROOT / "docs/commands/gate.md").read_text()
    job = yaml.safe_load(re.search(r"```yaml\n# \.gitlab-ci\.yml\n(.*?)```", page, re.DOTALL)[1])["gate"]
    lines = [line for line in job["script"] if not line.startswith("pip ")]
    (tmp_path / "logs").mkdir()
    for name, source in (("main/run.csv", "main.csv"), ("candidate/run.csv", candidate), ("nightly", "nightly")):
        (tmp_path / "logs" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "logs" / name).symlink_to(runs / source)
    done = shell_steps("\n".join(lines), tmp_path, {})
    assert done.returncode == code, done.stderr
    assert (tmp_path / job["artifacts"]["reports"]["junit"]).exists()
