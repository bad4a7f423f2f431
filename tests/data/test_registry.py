import importlib
import inspect
import os

import numpy as np
import pytest

from hardpan.data import opening
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError


@pytest.mark.parametrize("name", opening.BUNDLED)
def test_every_bundled_dataset_keeps_the_contract(name):
    dataset = Dataset.open(name)
    n = len(dataset)
    assert dataset.name == name
    assert dataset.source
    assert dataset.ids.shape == (n,)
    assert len(set(dataset.ids.tolist())) == n
    if dataset.labels is not None:
        assert dataset.labels.dtype == np.int64
        assert np.array_equal(np.unique(dataset.labels), np.arange(dataset.n_classes))
    assert np.isfinite(dataset.features()).all()


@pytest.mark.parametrize("module", opening.FORMATS.values())
def test_every_format_offers_matches_and_read(module):
    reader = importlib.import_module(module)
    assert list(inspect.signature(reader.matches).parameters) == ["path"]
    assert list(inspect.signature(reader.read).parameters) == ["path"]


def test_digits_are_what_scikit_learn_gives():
    from sklearn.datasets import load_digits

    digits = Dataset.open("digits")
    np.testing.assert_array_equal(digits.features(), load_digits().data)
    assert digits.x.dtype == np.uint8
    assert digits.split is None


@pytest.mark.parametrize("name", ["", "digit", "absent.npz", "x" * 5000, "a\0b"])
def test_an_unknown_name_lists_the_legal_ones(name):
    with pytest.raises(InputError, match="digits") as caught:
        Dataset.open(name)
    assert "npz" in str(caught.value)


def test_a_file_of_unknown_format_lists_the_formats(tmp_path):
    (tmp_path / "data.xyz").write_text("x")
    with pytest.raises(InputError, match="npz"):
        Dataset.open(tmp_path / "data.xyz")


def test_a_pipe_is_refused_rather_than_waited_for(tmp_path):
    path = tmp_path / "train-images-idx3-ubyte"
    os.mkfifo(path)
    with pytest.raises(InputError, match="neither a file nor a folder"):
        Dataset.open(path)
