"""Archives that are read by name alone: what was written is read, and nothing else is taken for it."""

import gzip
import io

import numpy as np
import pytest
import scipy.io
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data import samples

from hardpan.data import emnist, svhn
from hardpan.data.sources import SOURCES
from hardpan.errors import InputError

PARTS = [source.part for source in SOURCES.values() if source.layout == "emnist"]


def archive(folder, files):
    path = folder / "gzip.zip"
    path.write_bytes(samples.zip_bytes(files))
    return path


def pair(folder, files):
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder / "train_32x32.mat", folder / "test_32x32.mat"


def refused(read, *arguments):
    with pytest.raises(InputError) as caught:
        read(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("part", PARTS)
def test_images_are_upright_and_letters_count_from_nought(tmp_path, part):
    truth = samples.emnist_truth(part)
    found = emnist.read_part(archive(tmp_path, samples.emnist_files(part)), part, truth.class_names)
    np.testing.assert_array_equal(found.x, truth.x)
    np.testing.assert_array_equal(found.labels, truth.labels)
    assert found.split.tolist() == truth.split
    assert found.x.flags.c_contiguous


def test_the_classes_are_those_of_the_paper():
    counts = {part: len(SOURCES[f"emnist-{part}"].class_names) for part in PARTS}
    assert counts == {"balanced": 47, "byclass": 62, "bymerge": 47, "digits": 10, "letters": 26, "mnist": 10}
    assert all(len(set(SOURCES[f"emnist-{part}"].class_names)) == n for part, n in counts.items())


def test_what_is_no_emnist_is_refused(tmp_path):
    files, names = samples.emnist_files("digits"), SOURCES["emnist-digits"].class_names
    images = "gzip/emnist-digits-train-images-idx3-ubyte.gz"
    labels = "gzip/emnist-digits-train-labels-idx1-ubyte.gz"
    assert "must hold emnist-letters" in refused(emnist.read_part, archive(tmp_path, files), "letters", names)
    doubled = archive(tmp_path, files | {f"other/{images}": files[images]})
    assert "once; got 2" in refused(emnist.read_part, doubled, "digits", names)
    huge = gzip.compress(bytes([0, 0, 8, 3]) + b"\xff" * 12)
    assert "can hold" in refused(emnist.read_part, archive(tmp_path, files | {images: huge}), "digits", names)
    cut = files | {images: gzip.compress(gzip.decompress(files[images])[:-1])}
    assert "holds only" in refused(emnist.read_part, archive(tmp_path, cut), "digits", names)
    many = files | {f"{i}": b"" for i in range(1001)}
    assert "more than 1000 members" in refused(emnist.read_part, archive(tmp_path, many), "digits", names)
    high = gzip.compress(samples.idx_bytes(np.full(11, 10, dtype=np.uint8)))
    assert "must be 0..9" in refused(emnist.read_part, archive(tmp_path, files | {labels: high}), "digits", names)
    plain = archive(tmp_path, files)
    plain.write_bytes(plain.read_bytes()[:-30])
    assert "no readable zip archive" in refused(emnist.read_part, plain, "digits", names)


def test_the_memory_of_emnist_is_asked_for_first(tmp_path, monkeypatch):
    path = archive(tmp_path, samples.emnist_files("mnist"))
    monkeypatch.setattr("hardpan.data.memory.free_memory", lambda: 100)
    assert "GB of memory" in refused(emnist.read_part, path, "mnist", SOURCES["emnist-mnist"].class_names)


def test_ten_means_the_digit_nought(tmp_path):
    truth = samples.svhn_truth()
    found = svhn.read_pair(*pair(tmp_path, samples.svhn_files()))
    np.testing.assert_array_equal(found.x, truth.x)
    np.testing.assert_array_equal(found.labels, truth.labels)
    assert found.split.tolist() == truth.split


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"X": np.zeros((32, 32, 3, 4), np.uint8)}, r"y must have shape \(4, 1\)"),
        ({"X": np.zeros((32, 32, 3, 4)), "y": np.ones((4, 1))}, "X must be uint8"),
        ({"X": np.zeros((28, 28, 1, 4), np.uint8), "y": np.ones((4, 1), np.uint8)}, "X must be uint8"),
        ({"X": np.zeros((32, 32, 3, 4), np.uint8), "y": np.zeros((4, 1), np.uint8)}, r"y must be 1..10"),
        ({"X": np.zeros((32, 32, 3, 4), np.uint8), "y": np.full((4, 1), 11, np.uint8)}, r"y must be 1..10"),
        ({"z": np.zeros(3)}, "got nothing"),
    ],
)
def test_what_is_no_svhn_is_refused(tmp_path, content, message):
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, content)
    files = samples.svhn_files() | {"test_32x32.mat": buffer.getvalue()}
    with pytest.raises(InputError, match=message):
        svhn.read_pair(*pair(tmp_path, files))


def test_the_memory_of_svhn_is_asked_for_first(tmp_path, monkeypatch):
    paths = pair(tmp_path, samples.svhn_files())
    monkeypatch.setattr("hardpan.data.memory.free_memory", lambda: 100)
    assert "GB of memory" in refused(svhn.read_pair, *paths)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["emnist", "svhn"]), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1))
def test_any_damage_is_refused_or_gives_a_whole_dataset(tmp_path_factory, kind, changes):
    folder = tmp_path_factory.mktemp("damage")
    if kind == "emnist":
        truth, path = samples.emnist_truth("digits"), archive(folder, samples.emnist_files("digits"))
    else:
        truth, (path, other) = samples.svhn_truth(), pair(folder, samples.svhn_files())
    content = bytearray(path.read_bytes())
    for place, value in changes:
        content[int(place * (len(content) - 1))] = value
    path.write_bytes(bytes(content))
    message, found = "", None
    try:
        found = (
            emnist.read_part(path, "digits", truth.class_names) if kind == "emnist" else svhn.read_pair(path, other)
        )
    except InputError as error:
        message = str(error)
    assert "\n" not in message
    if found is not None:
        assert found.x.shape == truth.x.shape
        assert found.labels.max() < found.n_classes
