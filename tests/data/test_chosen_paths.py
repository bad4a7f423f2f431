"""DATA@MANIFEST.json where paths hold the mark themselves."""

import pytest

from hardpan.data.opening import parse_source


@pytest.mark.parametrize("data", ["digits", "me@home/data", "a @ b #", "s3://key@bucket/x"])
@pytest.mark.parametrize("name", ["hard.json", "h @ #.json", "a@b@c.json"])
def test_the_manifest_is_what_is_a_file(tmp_path, monkeypatch, data, name):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "x @ y"
    folder.mkdir()
    for place in (name, f"x @ y/{name}", str(folder / name)):
        (tmp_path / place).write_text("{}")
        assert parse_source(f"{data}@{place}") == (data, place)


def test_a_manifest_that_is_not_there_stands_behind_the_last_mark(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse_source("me@home/digits@gone.json") == ("me@home/digits", "gone.json")
    assert parse_source("@gone.json") == ("@gone.json", "")
    assert parse_source("me@home") == ("me@home", "")
