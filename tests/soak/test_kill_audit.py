"""kill -9 of an audit: what lies in its folder is whole, old or new, and running it again works."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.soak

FILES = ("index.html", "config.json", "report.json")
KILLS = 20
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

# Ends the process, as kill -9 does, in front of the n-th file that is put into its place or removed.
KILLED_AT_REPLACE = """
import os, signal, sys
left = int(sys.argv.pop(1))
def or_die(action):
    def act(*arguments, **options):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return action(*arguments, **options)
    return act
os.replace, os.unlink = or_die(os.replace), or_die(os.unlink)
from hardpan.cli import main
main(sys.argv[1:])
"""


def arguments(folder: Path, data: str = "digits", seed: int = 0) -> list[str]:
    """No network is trained: that a killed training resumes is tested with the trainings."""
    return ["audit", data, "--out", str(folder), "--ensemble", "none", "--flow", "none", "--budget", "2s",
            "--seed", str(seed)]  # fmt: skip


def audit(folder: Path, data: str = "digits", seed: int = 0) -> float:
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "hardpan", *arguments(folder, data, seed)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return time.monotonic() - start


def visible(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")} if folder.exists() else set()


def check_whole(folder: Path) -> None:
    """Every file that is there can be read to its end; where report.json is, all are there and of its state."""
    names = visible(folder)
    for name in names & {"config.json", "report.json"}:
        json.loads((folder / name).read_text(encoding="utf-8"))
    if "index.html" in names:
        assert (folder / "index.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
    if "report.json" in names:
        assert set(FILES) <= names
        report, config = (json.loads((folder / name).read_text()) for name in ("report.json", "config.json"))
        assert report["config"] == config
        page = (folder / "index.html").read_text(encoding="utf-8")
        assert f"<dt>Seed</dt><dd>{config['seed']}</dd>" in page
        if report["pending"]:  # a version that was saved while the audit ran
            assert "not finished" in page
            assert not (folder / "examples.parquet").exists()
        else:
            table = pq.read_table(folder / "examples.parquet")
            assert table["split"].to_pylist().count("test") == report["size"]["test"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, float]:
    """An audit that ran through, and how long it took."""
    folder = tmp_path_factory.mktemp("finished") / "digits"
    return folder, audit(folder)


@pytest.mark.parametrize("over", ["nothing", "an older result"])
def test_killed_at_a_random_moment(tmp_path, finished, over):
    _, whole_time = finished
    folder = tmp_path / "digits"
    rng = np.random.default_rng(0 if over == "nothing" else 1)
    if over != "nothing":
        audit(folder, seed=1)
    killed = 0
    for _ in range(KILLS // 2):
        # Files are written at the end, so moments near it are the ones to look at.
        wait = whole_time * float(rng.choice([rng.uniform(0, 1), rng.uniform(0.8, 1.05)]))
        process = subprocess.Popen(
            [sys.executable, "-m", "hardpan", *arguments(folder)],
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        check_whole(folder)
    assert killed > 0
    audit(folder)
    assert set(FILES) <= visible(folder)
    check_whole(folder)


@pytest.mark.parametrize("over", ["nothing", "an older result"])
def test_killed_in_front_of_each_file(tmp_path, over):
    folder = tmp_path / "small"
    data = str(tmp_path / "small.npz")
    y = np.arange(90) % 3
    np.savez(data, x=np.random.default_rng(0).normal(size=(90, 2)) + 2.0 * np.eye(3, 2)[y], y=y)
    if over != "nothing":
        audit(tmp_path / "old", data, seed=1)
    for number in range(60):
        if over != "nothing":
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(tmp_path / "old", folder)
        done = subprocess.run(
            [sys.executable, "-c", KILLED_AT_REPLACE, str(number), *arguments(folder, data)],
            env=ENVIRONMENT,
            capture_output=True,
        )
        check_whole(folder)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
    else:
        pytest.fail("the audit puts more than 60 files into place")
    assert number > 0
    assert set(FILES) <= visible(folder)


def test_the_same_seed_gives_the_same_report(tmp_path, finished):
    folder, _ = finished
    audit(tmp_path / "again")
    first, second = (json.loads((path / "report.json").read_text()) for path in (folder, tmp_path / "again"))
    for name in ("dataset", "config", "problems", "floor", "measures", "size"):
        assert first[name] == second[name], name
