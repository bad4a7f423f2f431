"""Labels of an npz file that are text: numbered in the order of the class names, or of the alphabet."""

import numpy as np
import pytest

from hardpan.data.dataset import Dataset
from hardpan.errors import InputError

X = np.arange(24.0).reshape(6, 4)
TEXT = np.array(["owl", "cat", "ü x", "owl", "cat", "cat"])


def test_text_is_numbered_by_the_alphabet(tmp_path):
    np.savez(tmp_path / "a.npz", x_train=X, y_train=TEXT, x_test=X + 50, y_test=TEXT[::-1])
    read = Dataset.open(str(tmp_path / "a.npz"))
    assert read.class_names == ("cat", "owl", "ü x")
    assert read.labels.dtype == np.int64
    assert np.array_equal(np.array(read.class_names)[read.labels], np.concatenate([TEXT, TEXT[::-1]]))


def test_class_names_give_the_order_and_may_name_a_class_without_examples(tmp_path):
    np.savez(tmp_path / "a.npz", x=X, y=TEXT, class_names=np.array(["ü x", "yak", "owl", "cat"]))
    read = Dataset.open(str(tmp_path / "a.npz"))
    assert read.class_names == ("ü x", "yak", "owl", "cat")
    assert read.labels.tolist() == [2, 3, 0, 2, 3, 3]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"y": TEXT, "class_names": np.array(["owl", "cat"])}, "label 'ü x' is not among class_names"),
        ({"y": TEXT[:5]}, "y must have shape"),
        ({"y": np.arange(6.0) / 4}, "y must hold"),
    ],
)
def test_what_cannot_be_numbered_is_refused(tmp_path, given, words):
    np.savez(tmp_path / "a.npz", x=X, **given)
    with pytest.raises(InputError, match=words):
        Dataset.open(str(tmp_path / "a.npz"))


def test_one_part_in_text_and_one_in_numbers_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x_train=X, y_train=TEXT, x_test=X, y_test=np.arange(6))
    with pytest.raises(InputError, match="y_train"):
        Dataset.open(str(tmp_path / "a.npz"))
