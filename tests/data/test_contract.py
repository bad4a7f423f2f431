"""What every reader of files keeps: the truth that was written, and an answer to every damage."""

import contextlib
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.samples import SAMPLES

from hardpan.data import opening
from hardpan.data.dataset import Dataset, content_ids
from hardpan.errors import InputError

each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Every sample, written once; tests that do damage copy it."""
    places = {}
    for sample in SAMPLES:
        folder = tmp_path_factory.mktemp("sample")
        path, truth = sample.write(folder)
        places[sample.name] = (folder, path, truth)
    return places


def same(dataset, truth):
    return (
        np.array_equal(dataset.x, truth.x)
        and (truth.texts is None or len(dataset.texts) == len(truth.texts))
        and np.array_equal(dataset.labels, truth.labels)
        and dataset.class_names == truth.class_names
        and (None if dataset.split is None else dataset.split.tolist()) == truth.split
    )


def without_one(dataset, truth):
    """Whether a dataset is all of the truth but one image, and says so."""
    rows = range(len(truth.x))
    return [item.code for item in dataset.warnings] == ["unreadable_images"] and any(
        np.array_equal(dataset.x, np.delete(truth.x, row, axis=0))
        and np.array_equal(dataset.labels, np.delete(truth.labels, row))
        for row in rows
    )


def loaded(path):
    """The dataset, or None where it was refused in one sentence."""
    message = ""
    try:
        return Dataset.open(path)
    except InputError as error:
        message = str(error)
    assert "\n" not in message
    assert len(message) < 1000
    return None


def files_of(path):
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


@contextlib.contextmanager
def damage_to(written, sample, which, damage):
    """The sample with one of its files damaged; it is restored afterwards."""
    _, path, truth = written[sample.name]
    files = files_of(path)
    file = files[which % len(files)]
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    try:
        yield path, truth
    finally:
        file.write_bytes(whole)


def some_files(written, sample):
    """The first, a middle and the last file of a sample: folders have several files of one kind."""
    n = len(files_of(written[sample.name][1]))
    return sorted({0, n // 2, n - 1})


def test_every_format_has_a_sample(written):
    read = {
        next(kind for kind, item in opening.FORMATS.items() if item.recognises(path))
        for _, path, _ in written.values()
    }
    assert read == set(opening.FORMATS)


@each_sample
def test_what_was_written_is_read(written, sample):
    _, path, truth = written[sample.name]
    dataset = Dataset.open(path)
    assert same(dataset, truth)
    assert dataset.x.dtype == truth.x.dtype
    assert (dataset.texts is None) == (truth.texts is None)
    assert truth.texts is None or dataset.texts.tolist() == truth.texts.tolist()
    assert dataset.labels.dtype == np.int64
    assert dataset.labels.min() >= 0
    assert dataset.labels.max() < dataset.n_classes
    assert dataset.ids.tolist() == content_ids(truth.x, truth.texts).tolist()
    assert len(set(dataset.ids.tolist())) == len(dataset)
    assert all(len(column) == len(dataset) for column in dataset.metadata.values())
    assert dataset.name
    assert dataset.source


@each_sample
def test_reading_twice_and_elsewhere_gives_the_same_ids_and_split(written, sample, tmp_path):
    source, path, _ = written[sample.name]
    moved = tmp_path / "moved" / path.relative_to(source)
    shutil.copytree(source, tmp_path / "moved")
    first, second = Dataset.open(path), Dataset.open(moved)
    assert first.ids.tolist() == second.ids.tolist()
    parts, again = first.splits(1), second.splits(1)
    assert parts.validation.tolist() == again.validation.tolist()
    if first.split is not None:
        assert parts.test.tolist() == np.flatnonzero(first.split == "test").tolist()


@each_sample
def test_a_cut_file_is_refused(written, sample):
    for which in some_files(written, sample):
        name = files_of(written[sample.name][1])[which].name
        size = files_of(written[sample.name][1])[which].stat().st_size
        for keep in sorted({*range(0, size, max(1, size // 8)), *range(min(size, 9)), size - 1}):
            with damage_to(written, sample, which, lambda content, keep=keep: content[:keep]) as (path, truth):
                dataset = loaded(path)
            # Without its last line break a file of names is still whole.
            if sample.sees_cuts and not name.endswith(".txt"):
                assert dataset is None, (name, keep)
            elif dataset is not None:
                whole = same(dataset, truth) or without_one(dataset, truth)
                assert whole or name.endswith(".txt"), (name, keep)


@each_sample
def test_a_longer_file_is_refused_or_read_as_it_was(written, sample):
    for which in some_files(written, sample):
        with damage_to(written, sample, which, lambda content: content + b"\0\1\2") as (path, truth):
            dataset = loaded(path)
        assert dataset is None or same(dataset, truth)


@each_sample
@settings(max_examples=25, deadline=None)
@given(which=st.integers(0, 5), place=st.integers(0, 2**16), power=st.integers(0, 7))
def test_a_flipped_bit_in_a_header_is_refused_or_changes_nothing(written, sample, which, place, power):
    if not sample.header:
        return
    place, bit = place % sample.header, 1 << power

    def flip(content):
        return content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]

    with damage_to(written, sample, which, flip) as (path, truth):
        dataset = loaded(path)
    assert dataset is None or same(dataset, truth) or without_one(dataset, truth)


@each_sample
@settings(max_examples=15, deadline=None)
@given(
    which=st.integers(0, 5),
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=6),
)
def test_any_damage_is_refused_or_gives_a_whole_dataset(written, sample, which, changes):
    def damage(content):
        changed = bytearray(content)
        for place, value in changes:
            changed[int(place * (len(changed) - 1))] = value
        return bytes(changed)

    with damage_to(written, sample, which, damage) as (path, truth):
        dataset = loaded(path)
    if dataset is not None:
        assert dataset.x.shape == truth.x.shape or without_one(dataset, truth)
        # Nothing guards the footer of a Parquet file: a damaged name makes another column of "label".
        assert dataset.labels is None or dataset.labels.max() < dataset.n_classes
        assert len(set(dataset.ids.tolist())) == len(dataset)


@each_sample
def test_a_set_larger_than_memory_is_refused_before_loading(written, sample, monkeypatch):
    monkeypatch.setattr("hardpan.files.reading.available_memory", lambda: 100)
    with pytest.raises(InputError, match="memory"):
        Dataset.open(written[sample.name][1])
