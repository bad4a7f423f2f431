"""A folder belongs to one run at a time; a killed process leaves no claim behind."""

import os
import signal
import subprocess
import sys

import pytest

from hardpan import engine
from hardpan.errors import InputError

HOLD = """
import sys, time
from hardpan import engine
with engine.locked_run_folder(sys.argv[1]):
    print("claimed", flush=True)
    time.sleep(600)
"""


def test_a_second_process_is_refused_until_the_first_is_gone_even_by_kill(tmp_path):
    place = tmp_path / "run"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(place)], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout.readline() == "claimed\n"
        with (
            pytest.raises(InputError, match="run"),
            engine.locked_run_folder(place),
        ):
            pass
        os.kill(first.pid, signal.SIGKILL)
    with engine.locked_run_folder(place):
        assert [path.name for path in place.iterdir()] == [".in-use"]
    assert list(place.iterdir()) == []


def test_a_refused_run_leaves_no_folder_and_a_folder_with_files_stays(tmp_path):
    with pytest.raises(RuntimeError), engine.locked_run_folder(tmp_path / "new"):
        raise RuntimeError
    assert not (tmp_path / "new").exists()
    with engine.locked_run_folder(tmp_path / "kept"):
        (tmp_path / "kept" / "file").write_text("something")
    assert (tmp_path / "kept" / "file").exists()


def test_what_is_no_folder_is_left_as_it_is(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with (
        engine.locked_run_folder(tmp_path / "file"),
        engine.locked_run_folder(tmp_path / "file" / "below"),
        engine.locked_run_folder(None),
    ):
        assert (tmp_path / "file").read_text() == "in the way"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
