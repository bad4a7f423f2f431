import os

import pytest

from hardpan.errors import InputError
from hardpan.report import files


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
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "x").write_text("old")
    for folder in (tmp_path / "new" / "deep", tmp_path / "old"):
        calls.clear()
        with pytest.raises(InputError, match=r"cannot be written \(No space left on device\)"):
            files.write_together(folder, {"x": "1", "y": "2"})
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert [path.read_text() for path in (tmp_path / "old").iterdir()] == ["old"]


def test_a_path_through_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "inside"):
        with pytest.raises(InputError, match="is not a folder"):
            files.check_writable(path)
        with pytest.raises(InputError, match="cannot be written"):
            files.write_together(path, {"x": "1"})


def test_a_folder_without_permission_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match="may not be written"):
        files.check_writable(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
