import json
import math
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hardpan import Outcomes, files, leaderboard
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate, Interval
from hardpan.pages.sections import Chart, Section, Table

numbers = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(max_size=20)
cells = st.one_of(st.none(), st.booleans(), st.integers(-(2**60), 2**60), numbers, words)
estimates = st.builds(
    Estimate,
    value=numbers,
    stderr=numbers,
    low=numbers,
    high=numbers,
    confidence=st.floats(0.5, 0.999),
    method=words,
    n=st.integers(0, 2**40),
    seed=st.none() | st.integers(0, 2**63),
    notes=st.lists(words, max_size=3).map(tuple),
    log10=st.none() | numbers,
)
charts = st.builds(
    Chart,
    drawing=words,
    title=words,
    rows=st.lists(st.dictionaries(st.sampled_from(["x", "low", "name"]), cells), max_size=4).map(tuple),
    description=words,
    options=st.dictionaries(st.sampled_from(["log", "title"]), cells),
)
tables = st.builds(
    Table,
    title=words,
    columns=st.lists(words, max_size=3).map(tuple),
    rows=st.lists(st.lists(cells, max_size=3).map(tuple), max_size=3).map(tuple),
)
sections = st.builds(
    Section,
    title=words,
    sentences=st.lists(words, max_size=3).map(tuple),
    estimates=st.dictionaries(st.sampled_from(["floor", "ceiling", "kind"]), estimates),
    charts=st.lists(charts, max_size=2).map(tuple),
    tables=st.lists(tables, max_size=2).map(tuple),
    warnings=st.lists(words, max_size=2).map(tuple),
)


@given(st.one_of(estimates, charts, tables, sections))
def test_what_is_written_as_json_is_read_back_equal(item):
    text = files.json_text(item)
    assert files.from_json(json.loads(text)) == item


@given(
    st.builds(Interval, low=st.floats(), high=st.floats(), confidence=st.floats(), method=words),
)
def test_no_float_escapes_json_and_what_is_not_finite_becomes_null(item):
    data = json.loads(files.json_text(item))
    back = files.from_json(data)
    for name in ("low", "high", "confidence"):
        before, after = getattr(item, name), getattr(back, name)
        assert after == before if math.isfinite(before) else math.isnan(after)


@settings(max_examples=50)
@given(
    hnp.arrays(
        dtype=st.sampled_from(["<f4", "<f8", "<i8", "|u1", "|b1", "<U3", ">i2"]),
        shape=hnp.array_shapes(min_dims=1, max_dims=3, max_side=14, min_side=0),
    )
)
@example(np.array(["\ud800"]))
def test_arrays_come_back_bit_for_bit_inline_and_beside(tmp_path_factory, array):
    if array.dtype.kind == "f":
        array = np.nan_to_num(array, posinf=1.0, neginf=-1.0)
    item = Dataset(name="d", x=array, ids=np.array(["a"]))
    inline = files.from_json(json.loads(files.json_text(item)))
    folder = tmp_path_factory.mktemp("beside")
    beside = files.load(files.save(item, folder / "d.json"))
    for back in (inline.x, beside.x):
        assert back.dtype == array.dtype
        assert back.shape == array.shape
        assert back.tobytes() == array.tobytes()
    assert len(list(folder.glob("*.npz"))) == (array.size > files.INLINE_NUMBERS)


def test_a_changed_array_is_noticed(tmp_path):
    item = Dataset(name="d", x=np.arange(2000), ids=np.array(["a"]))
    path = files.save(item, tmp_path / "d.json")
    (stored,) = tmp_path.glob("*.npz")
    np.savez(stored, data=np.arange(2000)[::-1])
    with pytest.raises(InputError, match="content"):
        files.load(path)


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("not json", ""),
        ("[1]", ""),
        ('{"kind": "Nonsense", "schema": 1}', "kind"),
        ('{"kind": "Interval", "schema": 9}', "schema"),
        ('{"kind": "Interval", "schema": 1, "low": 0}', ""),
        ('{"kind": "Interval", "schema": 1, "low": 0, "high": 1, "extra": 2}', ""),
    ],
)
def test_a_file_that_is_no_record_is_refused_in_one_sentence(tmp_path, text, argument):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        files.load(path)
    assert caught.value.argument == argument
    assert "\n" not in str(caught.value)


def test_a_record_is_read_before_its_part_was_imported(tmp_path):
    from hardpan.bayes.floors import held_out_error
    from hardpan.bayes.floors.entries import Entry

    entry = Entry("c", "classifier", held_out_error(1, 10, method="m"), "held-out")
    path = files.save(entry, tmp_path / "v.json")
    code = f"from hardpan import files; print(type(files.load({str(path)!r})).__name__)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "Entry\n"


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"absent\.json"):
        files.load(tmp_path / "absent.json")


@pytest.mark.parametrize("name", ["kind", "schema", "hardpan"])
def test_a_field_may_not_take_a_name_of_the_header(name):
    taken = type("Taken", (), {"__annotations__": {name: str}})
    with pytest.raises(TypeError, match=rf"Taken\.{name}"):
        files.record(taken)


@pytest.mark.parametrize("mapping", [{"kind": "array"}, {"kind": "x", "schema": 1}])
def test_a_mapping_that_looks_like_a_record_is_refused_when_written(mapping):
    chart = Chart("bars", "t", (mapping,), "d")
    with pytest.raises(TypeError, match=r"kind.*schema"):
        files.to_json(chart)


def test_every_header_names_kind_schema_and_version():
    import hardpan

    data = files.to_json(Section("t", charts=(Chart("bars", "t", (), "d"),)))
    assert (data["kind"], data["schema"], data["hardpan"]) == ("Section", 1, hardpan.__version__)
    assert data["charts"][0]["kind"] == "Chart"


def test_writing_is_all_or_nothing(tmp_path):
    path = tmp_path / "r.json"
    path.write_text("old")
    with pytest.raises(TypeError):
        files.save(Chart("bars", "t", ({"x": object()},), "d"), path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_no_mode_of_a_file_needs_a_change_of_the_umask(tmp_path, monkeypatch):
    def refuse(mask):
        raise AssertionError("other threads make files with this umask")

    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", refuse)
            files.write_text(tmp_path / "text", "x")
            files.write_bytes(tmp_path / "key", b"x", private=True)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("text", "key")]
    assert modes == [0o640, 0o600]
    sources = Path(files.__file__).parent.parent.rglob("*.py")
    assert [path for path in sources if "umask(" in path.read_text(encoding="utf-8")] == []


def test_a_renamed_record_without_a_former_field_reads_older_files():
    @files.record(kind="Older", dropped=("words",))
    class Newer:
        value: float

    older = {"kind": "Older", "schema": 1, "value": 0.5, "words": [{"kind": "Gone", "schema": 1}]}
    assert files.from_json(older) == Newer(0.5)
    assert files.to_json(Newer(0.5))["kind"] == "Older"


@pytest.mark.skipif(os.name != "posix", reason="folders are flushed on POSIX only")
def test_a_file_is_flushed_before_its_rename_and_the_folder_after_it(tmp_path, monkeypatch):
    calls = []
    replace, fsync = os.replace, os.fsync

    def flushed(handle):
        calls.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def renamed(source, target):
        calls.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", renamed)
    files.write_text(tmp_path / "a", "a")
    assert calls == ["file", "rename", "folder"]


def test_arrays_of_a_known_type_are_plain_lists() -> None:
    outcomes = Outcomes.from_arrays(np.random.default_rng(0).random((3, 40)) < 0.5)
    ranking = leaderboard.rank(outcomes)
    data = json.loads(ranking.to_json())
    assert data["score"] == ranking.score.tolist()
    assert data["pairs"]["difference"] == ranking.pairs.difference.tolist()
    assert data["within_variance"] == [None] * 3
    back = files.from_json(data)
    for name in ("score", "rank_low", "within_variance"):
        expected, found = getattr(ranking, name), getattr(back, name)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
