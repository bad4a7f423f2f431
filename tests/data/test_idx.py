import gzip
import struct

import numpy as np
import pytest
from tests.data import samples

from hardpan.data.dataset import Dataset
from hardpan.errors import InputError


@pytest.mark.parametrize(
    ("name", "code", "dtype"),
    [
        ("byte", 9, ">i1"),
        ("short", 11, ">i2"),
        ("int", 12, ">i4"),
        ("float", 13, ">f4"),
        ("double", 14, ">f8"),
    ],
)
def test_every_type_of_number_is_read_in_this_machines_order(tmp_path, name, code, dtype):
    x = np.arange(12).reshape(3, 4).astype(dtype)
    path = tmp_path / f"some-images-idx2-{name}"
    path.write_bytes(samples.idx_bytes(x, code))
    dataset = Dataset.open(path)
    np.testing.assert_array_equal(dataset.x, x)
    assert dataset.x.dtype == np.dtype(dtype).newbyteorder("<")
    assert dataset.labels is None
    assert dataset.split is None


@pytest.mark.parametrize("dot", ["-", "."])
def test_one_images_file_takes_the_labels_beside_it(tmp_path, dot):
    truth = samples.grey_truth()
    for name, content in samples.idx_files(truth).items():
        (tmp_path / name.replace("-idx", f"{dot}idx")).write_bytes(content)
    dataset = Dataset.open(tmp_path / f"t10k-images{dot}idx3-ubyte")
    assert dataset.name == "t10k"
    np.testing.assert_array_equal(dataset.labels, truth.labels[truth.n_train :])
    assert Dataset.open(tmp_path).split.tolist() == truth.split
    with pytest.raises(InputError, match="t10k-labels"):
        Dataset.open(tmp_path / f"t10k-labels{dot}idx1-ubyte")


def test_a_plain_file_under_a_gzip_name_is_read(tmp_path):
    truth = samples.grey_truth()
    for name, content in samples.idx_files(truth).items():
        (tmp_path / f"{name}.gz").write_bytes(content)
    np.testing.assert_array_equal(Dataset.open(tmp_path).x, truth.x)


@pytest.mark.parametrize("missing", samples.IDX_FILES)
def test_a_missing_file_is_named(tmp_path, missing):
    samples.write_idx(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(InputError, match=missing):
        Dataset.open(tmp_path)


def header(*sides):
    return bytes([0, 0, 8, len(sides)]) + struct.pack(f">{len(sides)}I", *sides)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("sides", [(2**32 - 1,) * 3, (2**31, 28, 28), (0, 28, 28)])
def test_an_absurd_header_takes_no_memory(tmp_path, sides, packed):
    path = tmp_path / "train-images-idx3-ubyte"
    content = header(*sides) + bytes(100)
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(InputError, match=path.name):
        Dataset.open(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t10k-labels-idx1-ubyte", samples.idx_bytes(np.zeros(4, np.uint8)), "y_test"),
        (
            "t10k-labels-idx1-ubyte",
            samples.idx_bytes(np.full(5, 9, np.uint8)),
            "3",
        ),
        ("t10k-labels-idx1-ubyte", samples.idx_bytes(np.zeros((5, 1), np.uint8)), "idx1-ubyte"),
        ("t10k-images-idx3-ubyte", samples.idx_bytes(np.zeros((5, 4, 5), np.uint8)), "x_test"),
        ("t10k-images-idx3-ubyte", samples.idx_bytes(np.zeros((5, 5, 4), np.int8), 9), r"09\W03"),
        ("t10k-images-idx3-ubyte", b"", "t10k-images"),
        ("t10k-images-idx3-ubyte", b"\x1f\x8b", "t10k-images"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, name, content, message):
    samples.write_idx(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        Dataset.open(tmp_path)


@pytest.mark.parametrize("name", [samples.IDX_FILES[0], samples.IDX_FILES[2]])
def test_every_single_flipped_bit_of_a_plain_header_is_refused(tmp_path, name):
    samples.write_idx(tmp_path)
    whole = (tmp_path / name).read_bytes()
    for bit in range(16 * 8):
        content = bytearray(whole)
        content[bit // 8] ^= 1 << bit % 8
        (tmp_path / name).write_bytes(bytes(content))
        with pytest.raises(InputError):
            Dataset.open(tmp_path)


def test_class_names_allow_classes_without_examples(tmp_path):
    samples.write_idx(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(samples.idx_bytes(np.full(5, 9, np.uint8)))
    dataset = Dataset.open(tmp_path, class_names=list("abcdefghij"))
    assert dataset.labels[-1] == 9
    assert dataset.n_classes == 10
