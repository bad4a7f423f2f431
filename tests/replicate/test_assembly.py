"""Files of an assembled set, byte by byte."""

import numpy as np
import pytest

from hardpan import datasets
from hardpan.replicate.assembly import _folder_name, write_idx
from hardpan.replicate.datasheet import _plain


def test_idx_files_are_those_of_mnist(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (5, 4, 3), dtype=np.uint8)
    write_idx(tmp_path / "t10k-images-idx3-ubyte", x)
    content = (tmp_path / "t10k-images-idx3-ubyte").read_bytes()
    assert content[:16] == bytes([0, 0, 8, 3, 0, 0, 0, 5, 0, 0, 0, 4, 0, 0, 0, 3])
    np.testing.assert_array_equal(datasets.load(tmp_path / "t10k-images-idx3-ubyte").x, x)


def test_more_than_256_classes_have_labels_of_32_bits(tmp_path):
    write_idx(tmp_path / "labels", np.array([0, 999, 70_000], dtype=np.int32))
    content = (tmp_path / "labels").read_bytes()
    assert content == bytes([0, 0, 12, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 3, 231, 0, 1, 17, 112])


@pytest.mark.parametrize("name", ["../../etc", "a/b", "..", "", "cat", "<script>", "é", "a" * 500, "con:1"])
def test_class_names_make_harmless_folders(name):
    folder = _folder_name(3, name)
    assert folder.startswith("0003 ")
    assert not set(folder) & set("/\\<>:.\0")
    assert len(folder) <= 90


def test_text_of_others_stays_text_in_the_datasheet():
    assert _plain("<script>x</script>\n# big | cell") == r"\<script\>x\</script\> \# big \| cell"
