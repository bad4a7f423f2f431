"""kill -9 and many writers: a record on disk is the old one or the new one, whole, at every moment."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from hardpan import files
from hardpan.data.dataset import Dataset

pytestmark = pytest.mark.soak

# Each version is recognised by its name, and every number in it equals the version: a mixture would show.
WRITER = """
import sys
import numpy as np
from hardpan import files
from hardpan.data.dataset import Dataset

path, first = sys.argv[1], int(sys.argv[2])
print("ready", flush=True)
for version in range(first, first + 1_000_000):
    x = np.full((500, 8), float(version))
    ids = np.array([f"{version}-{row}" for row in range(500)])
    files.save(Dataset(str(version), x, ids), path)
"""


def start_writer(path, first):
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(first)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def end(process):
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


def version_on_disk(path):
    """Read the record and check that all of it is of one version."""
    data = files.load(path)
    assert (data.x == float(data.name)).all()
    assert data.ids[0] == f"{data.name}-0"
    assert data.ids[-1] == f"{data.name}-499"
    return int(data.name)


def test_a_killed_writer_leaves_a_whole_record(tmp_path):
    path = tmp_path / "data.json"
    files.save(Dataset("0", np.zeros((500, 8)), np.array([f"0-{row}" for row in range(500)])), path)
    rng = np.random.default_rng(0)
    for number in range(30):
        process = start_writer(path, 1 + 1_000_000 * number)
        time.sleep(float(rng.uniform(0, 0.25)))
        end(process)
        version_on_disk(path)
    files.save(Dataset("7", np.full((500, 8), 7.0), np.array([f"7-{row}" for row in range(500)])), path)
    assert version_on_disk(path) == 7


def test_many_writers_never_mix(tmp_path):
    path = tmp_path / "data.json"
    writers = [start_writer(path, 1 + 1_000_000 * number) for number in range(6)]
    rng = np.random.default_rng(1)
    seen, reads = set(), 0
    try:
        while not path.exists():
            assert all(writer.poll() is None for writer in writers)
            time.sleep(0.01)
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            seen.add(version_on_disk(path) // 1_000_000)
            reads += 1
            if rng.random() < 0.05:
                # One of them dies in the middle of whatever it does, and another takes its place.
                which = int(rng.integers(len(writers)))
                end(writers[which])
                writers[which] = start_writer(path, 1 + 1_000_000 * (10 + reads))
    finally:
        for writer in writers:
            end(writer)
    assert reads > 20
    assert len(seen) > 3
    version_on_disk(path)


def test_what_is_not_whole_has_another_name(tmp_path):
    """Leftovers of killed writers are hidden files that no reader takes for a record."""
    path = tmp_path / "data.json"
    for number in range(10):
        process = start_writer(path, 1 + 1_000_000 * number)
        time.sleep(0.02 * number)
        end(process)
    for name in os.listdir(tmp_path):
        assert name == "data.json" or name.startswith(".") or (name.endswith(".npz") and len(name) == 68), name
