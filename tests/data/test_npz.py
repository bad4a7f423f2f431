import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardpan.data.dataset import Dataset, content_ids
from hardpan.errors import InputError

RNG = np.random.default_rng(0)


def good():
    return {
        "x_train": RNG.integers(0, 255, (12, 4, 4), dtype=np.uint8),
        "y_train": np.arange(12) % 3,
        "x_test": RNG.integers(0, 255, (6, 4, 4), dtype=np.uint8),
        "y_test": np.arange(6) % 3,
    }


def saved(folder, arrays, name="set.npz", **options):
    path = folder / name
    np.savez(path, **arrays, **options)
    return path


def test_official_split_round_trip(tmp_path):
    arrays = good()
    dataset = Dataset.open(saved(tmp_path, arrays))
    assert dataset.name == "set"
    np.testing.assert_array_equal(dataset.x, np.concatenate([arrays["x_train"], arrays["x_test"]]))
    np.testing.assert_array_equal(dataset.labels, np.concatenate([arrays["y_train"], arrays["y_test"]]))
    assert dataset.split.tolist() == ["train"] * 12 + ["test"] * 6
    assert dataset.class_names == ("0", "1", "2")
    assert dataset.ids.tolist() == content_ids(dataset.x).tolist()


def test_plain_x_needs_no_labels(tmp_path):
    dataset = Dataset.open(saved(tmp_path, {"x": np.eye(3)}))
    assert dataset.labels is None
    assert dataset.split is None
    assert dataset.class_names == ()


def test_names_and_ids_are_taken(tmp_path):
    ids = np.array([f"photo-{row}" for row in range(3)])
    arrays = {"x": np.eye(3), "y": np.array([0, 2, 2]), "class_names": np.array(["a", "b", "c"]), "ids": ids}
    dataset = Dataset.open(saved(tmp_path, arrays))
    assert dataset.class_names == ("a", "b", "c")
    assert dataset.ids.tolist() == ids.tolist()


def test_compressed_files_and_foreign_byte_order_give_the_same_ids(tmp_path):
    x = RNG.normal(size=(5, 3))
    np.savez_compressed(tmp_path / "big.npz", x=x.astype(">f8"))
    assert Dataset.open(tmp_path / "big.npz").ids.tolist() == content_ids(x).tolist()


def changed(**changes):
    return {key: value for key, value in (good() | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (changed(y_train=None), r"key y_train is missing \(the file holds x_test, x_train, y_test\)"),
        ({"z": np.eye(2)}, r"key x_train is missing \(the file holds none of the keys that are read\)"),
        (changed(y_test=np.arange(5) % 3), r"y_test must have shape \(6,\)"),
        (changed(y_train=np.arange(12) / 3), "y_train must hold integers"),
        (changed(y_train=np.arange(12) % 3 - 1), "must not be negative; got -1"),
        (changed(y_train=(np.arange(12) % 3) * 2), "without gaps; no example has label 3, but one has 4"),
        (changed(y_train=np.full(12, 2**62)), "without gaps"),
        (changed(y_train=np.full(12, 2**64 - 1, dtype=np.uint64)), "class numbers"),
        (changed(x_train=np.full((12, 4, 4), np.nan)), "row 0 holds NaN"),
        (changed(x_train=np.zeros((12, 4, 5), dtype=np.uint8)), "both must be alike"),
        (changed(x_train=np.zeros((12, 4, 4), dtype=complex)), "must hold numbers; got complex128"),
        (changed(x_train=np.zeros((0, 4, 4), dtype=np.uint8)), "must not be empty"),
        ({"x": np.arange(3.0)}, r"reshape it to \(N, 1\)"),
        ({"x": np.eye(2), "ids": np.array(["a", "a"])}, "'a' is given 2 times"),
        ({"x": np.eye(2), "ids": np.array(["a", ""])}, "must not be empty"),
        (
            {"x": np.eye(2), "y": np.array([0, 3]), "class_names": np.array(["a"])},
            "holds 1 names, but a label is 3",
        ),
        ({"x": np.eye(2), "class_names": np.arange(2)}, "must be text"),
    ],
)
def test_bad_arrays_are_refused_in_one_sentence(tmp_path, arrays, message):
    path = saved(tmp_path, arrays)
    with pytest.raises(InputError) as caught:
        Dataset.open(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_objects_are_never_unpickled(tmp_path):
    class Boom:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    path = saved(tmp_path, {"x": np.array([[Boom()]], dtype=object)}, allow_pickle=True)
    with pytest.raises(InputError, match="Python objects, which are never unpickled"):
        Dataset.open(path)


def forged(folder, shape, payload=b"", descr="<f8"):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": shape})
    path = folder / "forged.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header.getvalue() + payload)
    return path


@pytest.mark.parametrize("shape", [(2**40, 3), (2**63, 2**63), (10**30,)])
def test_an_absurd_header_takes_no_memory(tmp_path, shape):
    with pytest.raises(InputError, match=r"x\.npy claims shape .* but holds 0"):
        Dataset.open(forged(tmp_path, shape))


def test_a_set_larger_than_memory_is_refused_before_loading(tmp_path, monkeypatch):
    path = saved(tmp_path, good())
    monkeypatch.setattr("hardpan.data.memory.free_memory", lambda: 100)
    with pytest.raises(InputError, match=r"needs about .* GB of memory"):
        Dataset.open(path)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 but not more", bytes(1000)])
def test_a_file_that_is_no_npz_is_refused(tmp_path, content):
    path = tmp_path / "fake.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="is not an npz file"):
        Dataset.open(path)


def test_a_folder_called_npz_is_refused(tmp_path):
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        Dataset.open(tmp_path / "folder.npz")


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_damage_to_a_file_raises_anything_but_an_input_error(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damage")
    content = bytearray(saved(folder, good()).read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(len(content) // 2, len(content)))
    path = folder / "damaged.npz"
    path.write_bytes(bytes(content[:cut]))
    message = ""
    try:
        Dataset.open(path)
    except InputError as error:
        message = str(error)
    assert "\n" not in message
