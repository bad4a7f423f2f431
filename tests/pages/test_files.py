import json
import os
import subprocess
import sys

import pytest
from tests.pages.records import check_saved

from hardpan import bayes, files
from hardpan.cli.common import check_out
from hardpan.errors import InputError


def test_all_files_arrive_and_replace_old_ones(tmp_path):
    folder = tmp_path / "a" / "b"
    files.write_together(folder, {"x": "1", "y": "ü"})
    files.write_together(folder, {"x": "2"})
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == {"x": "2", "y": "ü"}


@pytest.mark.parametrize("fails_at", [0, 1])
def test_a_full_disk_leaves_nothing_of_ours(tmp_path, monkeypatch, fails_at):
    calls = []

    def fsync(handle):
        calls.append(handle)
        if len(calls) > fails_at:
            raise OSError(28, "ENOSPC")

    monkeypatch.setattr(os, "fsync", fsync)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "x").write_text("old")
    for folder in (tmp_path / "new" / "deep", tmp_path / "old"):
        calls.clear()
        with pytest.raises(InputError, match="ENOSPC"):
            files.write_together(folder, {"x": "1", "y": "2"})
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert [path.read_text() for path in (tmp_path / "old").iterdir()] == ["old"]


def test_a_path_through_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "inside"):
        with pytest.raises(InputError, match="folder"):
            check_out(path)
        with pytest.raises(InputError, match=path.name):
            files.write_together(path, {"x": "1"})


def test_a_folder_without_permission_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match="--out"):
        check_out(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["index.html", "report.json", "config.json"])
def test_files_that_hardpan_did_not_write_are_kept(tmp_path, name):
    result = bayes.floor(votes=[[2, 1], [1, 2], [3, 0]])
    (tmp_path / name).write_text("{}")
    with pytest.raises(InputError, match=name):
        check_out(tmp_path)
    with pytest.raises(InputError, match=name):
        result.save(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "{}"}


def test_other_files_of_a_report_are_replaced_only_beside_its_page(tmp_path):
    result = bayes.floor(votes=[[2, 1], [1, 2], [3, 0]])
    (tmp_path / "notes.csv").write_text("mine")
    with pytest.raises(InputError, match="notes"):
        result.save(tmp_path, extra={"notes.csv": "new"})
    (tmp_path / "notes.csv").unlink()
    for text in ("first", "second"):
        result.save(tmp_path, extra={"notes.csv": text})
        check_out(tmp_path)
    assert (tmp_path / "notes.csv").read_text() == "second"


# Writes over an older result once for each step of the writing, killed in front of that step as kill -9 does it,
# and says what lies in the folder then.
KILLED = """
import json, os, signal, sys
from pathlib import Path
from hardpan.files import write_together

def files(state):
    return {"page": state, "table": lambda path: path.write_text(state), "gone": None, "report": state}

def dying(action, left):
    def act(*arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return action(*arguments, **options)
    return act

folder = Path(sys.argv[1])
for number in range(50):
    write_together(folder, files("old") | {"gone": "old"} if sys.argv[2] == "over" else {"kept": "old"})
    if not os.fork():
        left = [number]
        for name in ("replace", "unlink", "fsync"):
            setattr(os, name, dying(getattr(os, name), left))
        write_together(folder, files("new"))
        os._exit(0)
    _, status = os.wait()
    found = {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}
    print(json.dumps([status, found]), flush=True)
    if status == 0:
        break
"""


@pytest.mark.parametrize("over", ["over", "nothing"])
def test_a_kill_between_the_files_leaves_no_report_of_another_state(tmp_path, over):
    folder = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), over], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    states = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(states) > 6
    for _, found in states:
        if "report" in found:
            whole = {"page", "table", "report"} | ({"gone"} if found["report"] == "old" else set())
            assert {found[name] for name in whole} == {found["report"]}
            assert ("gone" in found) == (found["report"] == "old")
    assert states[-1][0] == 0
    assert states[-1][1]["report"] == "new"
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_what_a_kill_left_aside_is_swept(tmp_path):
    (tmp_path / ".writing.abc").mkdir()
    (tmp_path / ".writing.abc" / "x").write_text("half")
    files.write_together(tmp_path, {"x": "1"})
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_page_with_another_number_than_its_record_is_found(tmp_path):
    page = bayes.gaussian_curve([[0.0], [2.0]], temperatures=[0.5, 1.0]).save(tmp_path)
    check_saved(tmp_path)
    page.write_text(page.read_text(encoding="utf-8").replace("15.9", "15.8"), encoding="utf-8")
    with pytest.raises(AssertionError, match=r"15\.9"):
        check_saved(tmp_path)
