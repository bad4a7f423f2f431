"""A dataset restricted to a manifest, at the door that every command goes through."""

import numpy as np
import pytest

from hardpan import confusion, files
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Interval


@pytest.fixture
def manifest(tmp_path):
    ids = Dataset.open("digits").ids[[900, 3, 40]]
    return confusion.chosen_by_hand(ids, examples=1797).save(tmp_path / "hard.json")


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
    with pytest.raises(InputError, match="cannot be read"):
        Dataset.open("digits@nothing.json")
    files.save(Interval(0, 1), tmp_path / "other.json")
    with pytest.raises(InputError, match="is a Interval, not a Subset"):
        Dataset.open(f"digits@{tmp_path / 'other.json'}")
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 3)), y=[0, 1])
    with pytest.raises(InputError, match="are not among"):
        Dataset.open(f"{tmp_path / 'd.npz'}@{manifest}")
    manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 7'))
    with pytest.raises(InputError, match="version 7"):
        Dataset.open(f"digits@{manifest}")
