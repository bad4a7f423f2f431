"""Datasets by name, by path, and restricted to a subset."""

import os

import numpy as np
import pytest
import torch

from hardpan import confusion, files
from hardpan.data import names, opening
from hardpan.data.dataset import Dataset
from hardpan.data.opening import parse_data_source
from hardpan.errors import InputError
from hardpan.estimates import Interval


def test_digits_are_what_scikit_learn_gives():
    from sklearn.datasets import load_digits

    digits = Dataset.open("digits")
    np.testing.assert_array_equal(digits.features(), load_digits().data)
    np.testing.assert_array_equal(digits.labels, load_digits().target)
    assert digits.x.dtype == np.uint8
    assert digits.ids[0] == "22b5bba243f99411"
    assert digits.split is None
    assert "digits" in names()


@pytest.mark.parametrize("name", ["", "digit", "absent.npz", "x" * 5000, "a\0b"])
def test_an_unknown_name_lists_the_legal_ones(name):
    with pytest.raises(InputError, match="digits") as caught:
        Dataset.open(name)
    assert len(str(caught.value)) < 1000


def test_a_file_of_unknown_format_lists_the_formats(tmp_path):
    (tmp_path / "data.xyz").write_text("x")
    with pytest.raises(InputError, match="npz"):
        Dataset.open(tmp_path / "data.xyz")


def test_a_pipe_is_refused_rather_than_waited_for(tmp_path):
    path = tmp_path / "train-images-idx3-ubyte"
    os.mkfifo(path)
    with pytest.raises(InputError, match="train-images"):
        Dataset.open(path)


@pytest.fixture
def manifest(tmp_path):
    ids = Dataset.open("digits").ids[[900, 3, 40]]
    return confusion.subset_of_ids(ids, examples=1797).save(tmp_path / "hard.json")


def test_only_the_named_examples_in_the_order_of_the_data(manifest):
    whole, part = Dataset.open("digits"), Dataset.open(f"digits@{manifest}")
    rows = [3, 40, 900]
    assert part.name == "digits@hard"
    assert np.array_equal(part.ids, whole.ids[rows])
    assert np.array_equal(part.x, whole.x[rows])
    assert np.array_equal(part.labels, whole.labels[rows])
    assert part.class_names == whole.class_names


def test_files_have_manifests_too(manifest, tmp_path):
    whole = Dataset.open("digits")
    np.savez(tmp_path / "d@home.npz", x=whole.x, y=whole.labels, ids=whole.ids)
    assert len(Dataset.open(tmp_path / "d@home.npz")) == 1797
    part = Dataset.open(f"{tmp_path}/d@home.npz@{manifest}")
    assert np.array_equal(part.labels, whole.labels[[3, 40, 900]])


def test_what_is_no_manifest_of_this_data_is_refused(manifest, tmp_path):
    with pytest.raises(InputError, match="nothing"):
        Dataset.open("digits@nothing.json")
    files.save(Interval(0, 1), tmp_path / "other.json")
    with pytest.raises(InputError, match="Subset"):
        Dataset.open(f"digits@{tmp_path / 'other.json'}")
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 3)), y=[0, 1])
    with pytest.raises(InputError, match="among"):
        Dataset.open(f"{tmp_path / 'd.npz'}@{manifest}")
    manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 7'))
    with pytest.raises(InputError, match="version"):
        Dataset.open(f"digits@{manifest}")


@pytest.mark.parametrize("data", ["digits", "me@home/data", "a @ b #", "s3://key@bucket/x"])
@pytest.mark.parametrize("name", ["hard.json", "h @ #.json", "a@b@c.json"])
def test_the_manifest_is_what_is_a_file(tmp_path, monkeypatch, data, name):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "x @ y"
    folder.mkdir()
    for place in (name, f"x @ y/{name}", str(folder / name)):
        (tmp_path / place).write_text("{}")
        assert parse_data_source(f"{data}@{place}") == (data, place)


def test_a_manifest_that_does_not_exist_follows_the_last_separator(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse_data_source("me@home/digits@gone.json") == ("me@home/digits", "gone.json")
    assert parse_data_source("@gone.json") == ("@gone.json", "")
    assert parse_data_source("me@home") == ("me@home", "")


def test_of_a_stream_the_first_rows_are_read_and_said(monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(opening, "MOST_STREAMED", 1500)
    data = datasets.Dataset.from_dict({"a": np.arange(3000) * 0.5, "label": np.arange(3000) % 2})

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return (([0.5 * k], k % 2) for k in range(3000))

    for dataset in (Dataset.open(data.to_iterable_dataset()), Dataset.open(Stream())):
        np.testing.assert_array_equal(dataset.x[:, 0], np.arange(1500) * 0.5)
        assert "streamed" in [item.code for item in dataset.warnings]
