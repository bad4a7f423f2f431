"""DATA@MANIFEST.json where paths hold the mark themselves."""

import pytest

from hardpan.data.chosen import asked_for


@pytest.mark.parametrize("data", ["digits", "me@home/data", "a @ b #", "s3://key@bucket/x"])
@pytest.mark.parametrize("name", ["hard.json", "h @ #.json", "a@b@c.json"])
def test_the_manifest_is_what_is_a_file(tmp_path, monkeypatch, data, name):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "x @ y"
    folder.mkdir()
    for place in (name, f"x @ y/{name}", str(folder / name)):
        (tmp_path / place).write_text("{}")
        assert asked_for(f"{data}@{place}") == (data, place)


def test_a_manifest_that_is_not_there_stands_behind_the_last_mark(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert asked_for("me@home/digits@gone.json") == ("me@home/digits", "gone.json")
    assert asked_for("@gone.json") == ("@gone.json", "")
    assert asked_for("me@home") == ("me@home", "")
