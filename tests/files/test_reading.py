"""Readers that trust nothing: headers are compared with the file and with memory before anything is allocated."""

import gzip
import io
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from hardpan.errors import InputError
from hardpan.files import reading

X = np.random.default_rng(0).normal(size=(5, 3))


def header(shape, descr="<f8"):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def archive(path, members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as target:
        for name, content in members:
            target.writestr(name, content)
    return path


@pytest.mark.parametrize("mmap", [False, True])
def test_npy_is_read(tmp_path, mmap):
    for array in (X, X.T, X.astype(">f4"), np.array(["a", "bc"]), np.zeros((0, 3)), np.array(3)):
        np.save(tmp_path / "a.npy", array)
        read = reading.read_npy(tmp_path / "a.npy", mmap=mmap)
        np.testing.assert_array_equal(read, array)
        assert read.dtype == array.dtype


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_is_read_whole_or_by_key(tmp_path, save):
    save(tmp_path / "a.npz", x=X, y=np.arange(5))
    arrays = reading.read_npz(tmp_path / "a.npz")
    np.testing.assert_array_equal(arrays["x"], X)
    assert set(arrays) == {"x", "y"}
    assert set(reading.read_npz(tmp_path / "a.npz", ["y", "z"])) == {"y"}
    assert reading.npz_header(tmp_path / "a.npz")["x"] == ((5, 3), np.dtype("float64"))


@pytest.mark.parametrize("shape", [(2**40, 3), (2**63, 2**63), (10**30,)])
def test_an_absurd_header_takes_no_memory(tmp_path, shape):
    (tmp_path / "a.npy").write_bytes(header(shape))
    with pytest.raises(InputError, match=r"a\.npy"):
        reading.read_npy(tmp_path / "a.npy")
    with pytest.raises(InputError, match=r"a\.npz"):
        reading.read_npz(archive(tmp_path / "a.npz", [("x.npy", header(shape))]))


def test_memory_is_checked_before_loading(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", x=X)
    np.save(tmp_path / "a.npy", X)
    (tmp_path / "a.json").write_text("[" + "1," * 500 + "1]")
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(5000)))
    monkeypatch.setattr(reading, "available_memory", lambda: 100)
    for read, name in (("read_npz", "npz"), ("read_npy", "npy"), ("read_json", "json"), ("read_bytes", "gz")):
        with pytest.raises(InputError, match=rf"a\.{name}"):
            getattr(reading, read)(tmp_path / f"a.{name}")


def test_objects_are_never_unpickled(tmp_path):
    class Boom:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    np.savez(tmp_path / "a.npz", x=np.array([Boom()], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"a\.npz"):
        reading.read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_deflate_is_unpacked(tmp_path, compression):
    path = archive(tmp_path / "a.npz", [("x.npy", header((1,)) + bytes(8))], compression)
    with pytest.raises(InputError, match="compression"):
        reading.read_npz(path)


def test_a_member_twice_and_too_many_members_are_refused(tmp_path):
    with pytest.warns(UserWarning, match="Duplicate"):
        path = archive(tmp_path / "a.npz", [("x.npy", header((1,)) + bytes(8))] * 2)
    with pytest.raises(InputError, match="'x'"):
        reading.read_npz(path)
    many = archive(
        tmp_path / "b.npz", [(f"{k}.npy", b"") for k in range(reading.MOST_MEMBERS + 1)], zipfile.ZIP_STORED
    )
    with pytest.raises(InputError, match="members"):
        reading.read_npz(many)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 but not more", bytes(1000)])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    for read in (reading.read_npz, reading.read_npy, reading.read_json):
        with pytest.raises(InputError, match="/a"):
            read(tmp_path / "a")


@pytest.mark.parametrize("path", [None, 3, b"a", "", "a\0b", "x" * 5000, "no/such/file", "."])
def test_paths_that_are_none_are_refused(path):
    with pytest.raises(InputError) as caught:
        reading.existing_file(path)
    assert len(str(caught.value)) < 500


def test_json_with_deep_nesting_long_numbers_and_other_encodings(tmp_path):
    for content in (b"[" * 100_000, b'{"a": ' * 50_000, b"1" * 5000, "\u00e9".encode("latin-1"), b"{'a': 1}", b""):
        (tmp_path / "a.json").write_bytes(content)
        with pytest.raises(InputError, match=r"a\.json"):
            reading.read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_bytes('\ufeff{"a": [1, null]}'.encode())
    assert reading.read_json(tmp_path / "a.json") == {"a": [1, None]}


@pytest.mark.parametrize(
    ("controllers", "names"),
    [
        ("", ("memory.max", "memory.current")),
        ("memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")),
    ],
)
def test_the_smallest_limit_of_a_control_group_and_those_above_counts(tmp_path, controllers, names):
    for path, (most, used) in {"": ("max", 9000), "jobs": (5000, 2000), "jobs/7": (10_000, 1000)}.items():
        folder = tmp_path / controllers / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in zip(names, (most, used), strict=True):
            (folder / name).write_text(f"{value}\n")
        (folder / "memory.stat").write_text("anon 10\ninactive_file 500\n")
    assert sorted(reading._free_in_control_group(controllers, "/jobs/7", str(tmp_path))) == [3500, 9500]
    assert reading._free_in_control_group("cpu", "/jobs/7", str(tmp_path)) == []


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_limits_of_the_process_count(limit):
    code = (
        f"import resource; resource.setrlimit(resource.{limit}, (4 << 30, 4 << 30))\n"
        "from hardpan.files.reading import available_memory, memory_limit\n"
        "print(available_memory(), memory_limit('AS'), memory_limit('DATA'))"
    )
    words = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert 0 < int(words[0]) < 4 << 30
    assert words[1:] == [str(4 << 30), "None"][:: 1 if limit == "RLIMIT_AS" else -1]
