"""kill -9 at random moments of training: every committed epoch is there and equal, and the run goes on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def run(folder, kills, *kind):
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.kill_job", str(folder), str(kills), *kind],
        cwd=ROOT,
        env=dict(os.environ, OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore"),
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["killed"] == kills
    assert told["counts"][-1] == told["whole"]
    return told


@pytest.mark.soak
def test_many_kills(tmp_path):
    told = run(tmp_path, int(os.environ.get("HARDPAN_KILLS", "22")))
    assert any(0 < count < told["whole"] for count in told["counts"])  # some died in the middle
