"""Damaged files: the readers give an InputError or a right answer, and nothing else ever comes out."""

import dataclasses
import io
import math

import numpy as np
import pytest
from tests.refusals import check_message

import hardpan
from hardpan import files
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.pages.sections import Chart, Section, Table

from .damage import damaged, with_damaged_member, with_damaged_node
from .readers import READERS, fuzz

pytestmark = pytest.mark.soak

ROUNDS = 1000
SHARDS = range(4)


def npz_bytes(compress: bool, official: bool, extras: bool) -> bytes:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, size=(24, 4, 4)).astype(np.uint8), np.arange(24) % 3
    arrays = {"x": x, "y": y}
    if official:
        arrays = {"x_train": x[:18], "y_train": y[:18], "x_test": x[18:], "y_test": y[18:]}
    if extras:
        arrays["ids"] = np.array([f"example-{row}" for row in range(24)])
        arrays["class_names"] = np.array(["cat", "dog", "owl"])
    buffer = io.BytesIO()
    (np.savez_compressed if compress else np.savez)(buffer, **arrays)
    return buffer.getvalue()


FILES = [npz_bytes(c, o, e) for c in (False, True) for o in (False, True) for e in (False, True)]


def check_dataset(data: Dataset) -> None:
    """What every dataset keeps, whatever it was read from."""
    assert data.x.ndim in (2, 3, 4)
    assert np.isfinite(data.x).all()
    assert data.ids.shape == (len(data),)
    assert len(set(data.ids.tolist())) == len(data)
    if data.labels is not None:
        assert data.labels.shape == (len(data),)
        assert data.labels.min() >= 0
        assert data.labels.max() < data.n_classes
    if data.split is not None:
        assert set(data.split.tolist()) <= {"train", "validation", "test"}


@pytest.mark.parametrize("shard", SHARDS)
def test_an_altered_npz_is_refused_or_read_as_it_was(tmp_path, shard):
    path = tmp_path / "data.npz"
    originals = []
    for content in FILES:
        path.write_bytes(content)
        originals.append(Dataset.open(path))
    outcomes = {"refused": 0, "read": 0}
    for round_number in range(ROUNDS):
        rng = np.random.default_rng([shard, round_number])
        which = int(rng.integers(len(FILES)))
        path.write_bytes(damaged(FILES[which], rng))
        try:
            data = Dataset.open(path)
        except InputError as error:
            check_message(error)
            outcomes["refused"] += 1
            continue
        # Checksums of the archive stand between a flipped bit and a number: what is read is what was written.
        check_dataset(data)
        assert np.array_equal(data.x, originals[which].x), (shard, round_number)
        if data.labels is not None:
            assert np.array_equal(data.labels, originals[which].labels), (shard, round_number)
        outcomes["read"] += 1
    assert outcomes["refused"] > ROUNDS // 2


@pytest.mark.parametrize("shard", SHARDS)
def test_an_npz_that_lies_is_refused_or_a_whole_dataset(tmp_path, shard):
    path = tmp_path / "data.npz"
    for round_number in range(ROUNDS):
        rng = np.random.default_rng([100 + shard, round_number])
        path.write_bytes(with_damaged_member(FILES[int(rng.integers(len(FILES)))], rng))
        try:
            data = Dataset.open(path)
        except InputError as error:
            check_message(error)
            continue
        check_dataset(data)


@pytest.mark.parametrize("shard", SHARDS)
def test_noise_is_no_dataset(tmp_path, shard):
    path = tmp_path / "data.npz"
    for round_number in range(ROUNDS // 4):
        rng = np.random.default_rng([200 + shard, round_number])
        path.write_bytes(rng.bytes(int(rng.integers(400))))
        with pytest.raises(InputError):
            Dataset.open(path)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_damaged_files_of_every_reader_are_refused_or_read(tmp_path, reader):
    assert fuzz(reader, tmp_path, rounds=100).wrong == ()


def sample_records() -> list[object]:
    estimate = Estimate(0.25, 0.01, 0.23, math.inf, method="example", n=100, seed=0, notes=("a",), log10=-0.6)
    chart = Chart("bars", "Counts", ({"class": "cat", "count": 3},), "one bar", {"log": True})
    section = Section("Floor", ("One.",), {"floor": estimate}, (chart,), (Table("t", ("a",), ((1,),)),))
    rng = np.random.default_rng(0)
    data = Dataset("d", rng.normal(size=(300, 4)), np.array([f"i{row}" for row in range(300)]))
    small = Dataset("s", rng.normal(size=(3, 2)), np.array(["a", "b", "c"]), np.array([0, 1, 0]), ("p", "q"))
    return [estimate, section, data, small]


@pytest.mark.parametrize("way", [damaged, with_damaged_node], ids=["bytes", "nodes"])
@pytest.mark.parametrize("shard", SHARDS)
def test_an_altered_record_is_refused_or_a_record(tmp_path, shard, way):
    texts = [files.save(item, tmp_path / f"{i}.json").read_text() for i, item in enumerate(sample_records())]
    path = tmp_path / "altered.json"
    for round_number in range(ROUNDS):
        rng = np.random.default_rng([300 + shard, round_number])
        text = texts[int(rng.integers(len(texts)))]
        if way is damaged:
            path.write_bytes(damaged(text.encode(), rng))
        else:
            path.write_text(with_damaged_node(text, rng))
        try:
            item = files.load(path)
        except InputError:
            continue
        assert dataclasses.is_dataclass(item), (shard, round_number)
        assert type(item).__module__.startswith(hardpan.__name__)


def test_an_array_beside_a_record_is_refused_or_as_it_was(tmp_path):
    original = sample_records()[2]
    path = files.save(original, tmp_path / "data.json")
    beside = list(tmp_path.glob("*.npz"))
    assert beside
    for round_number in range(ROUNDS):
        rng = np.random.default_rng([400, round_number])
        which = beside[int(rng.integers(len(beside)))]
        whole = which.read_bytes()
        which.write_bytes(damaged(whole, rng))
        try:
            read = files.load(path)
        except InputError:
            pass
        else:
            assert np.array_equal(read.x, original.x), round_number
        which.write_bytes(whole)
    assert np.array_equal(files.load(path).x, original.x)
