import numpy as np
import pyarrow
import pytest

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
    ("arrays", "named"),
    [
        (changed(y_train=None), "y_train"),
        ({"z": np.eye(2)}, "x_train"),
        ({"probs": np.full((4, 2), 0.5), "labels": np.arange(4) % 2}, r"\bx\b"),
        ({"x": np.eye(2), "data": np.eye(2)}, "data"),
        (changed(y_test=np.arange(5) % 3), "y_test"),
        (changed(y_train=np.arange(12) / 3), r"\by\b"),
        (changed(y_train=np.arange(12) % 3 - 1), "-1"),
        (changed(y_train=(np.arange(12) % 3) * 2), "3"),
        (changed(y_train=np.full(12, 2**62)), "3"),
        (changed(y_train=np.full(12, 2**64 - 1, dtype=np.uint64)), "y_train"),
        (changed(x_train=np.full((12, 4, 4), np.nan)), "x_train"),
        (changed(x_train=np.zeros((12, 4, 5), dtype=np.uint8)), "x_test"),
        (changed(x_train=np.zeros((12, 4, 4), dtype=complex)), "x_train"),
        (changed(x_train=np.zeros((0, 4, 4), dtype=np.uint8)), "x_train"),
        ({"x": np.arange(3.0)}, r"\bx\b"),
        ({"x": np.eye(2), "ids": np.array(["a", "a"])}, "ids"),
        ({"x": np.eye(2), "ids": np.array(["a", ""])}, "ids"),
        ({"x": np.eye(2), "y": np.array([0, 3]), "class_names": np.array(["a"])}, "class_names"),
        ({"x": np.eye(2), "y": np.array([0, 1]), "class_names": np.array([], dtype="U1")}, "class_names"),
        ({"x": np.eye(2), "class_names": np.arange(2)}, "class_names"),
    ],
)
def test_bad_arrays_are_refused_in_one_sentence(tmp_path, arrays, named):
    path = saved(tmp_path, arrays)
    with pytest.raises(InputError, match=named) as caught:
        Dataset.open(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_objects_are_never_unpickled(tmp_path):
    class Boom:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    path = saved(tmp_path, {"x": np.array([[Boom()]], dtype=object)}, allow_pickle=True)
    with pytest.raises(InputError, match=path.name):
        Dataset.open(path)


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
        ({"y": TEXT, "class_names": np.array(["owl", "cat"])}, "class_names"),
        ({"y": TEXT[:5]}, r"\by\b"),
        ({"y": np.arange(6.0) / 4}, r"\by\b"),
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


def test_a_frame_with_labels_apart_keeps_ids_and_metadata():
    frame = pyarrow.table({"a": [1.5, 2.5, 4.0], "town": ["x", "y", "x"]})
    dataset = Dataset.from_arrays(
        frame, ["p", "q", "p"], ids=["i", "j", "k"], metadata={"votes": [3, 1, 2]}, name="m"
    )
    assert dataset.ids.tolist() == ["i", "j", "k"]
    assert dataset.metadata["votes"].tolist() == [3, 1, 2]
    assert dataset.feature_names == ("a", "town=x", "town=y")
    assert dataset.name == "m"
    with pytest.raises(InputError, match="feature_names"):
        Dataset.from_arrays(frame, [0, 1, 0], feature_names=["a", "b"])


def test_a_split_beside_x_is_the_official_split(tmp_path):
    words = np.array(["train", "test", "val", "train", "test", "train"])
    data = Dataset.open(saved(tmp_path, {"x": X, "y": TEXT, "split": words}))
    assert data.split.tolist() == ["train", "test", "validation", "train", "test", "train"]
    with pytest.raises(InputError, match="split"):
        Dataset.open(saved(tmp_path, {"x_train": X, "y_train": TEXT, "x_test": X, "y_test": TEXT, "split": words}))


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32])
def test_columns_that_say_nothing_are_named(dtype):
    x = np.column_stack([np.full(30, 7), np.arange(30) % 4, np.arange(30)]).astype(dtype)
    found = Dataset.from_arrays(x, np.arange(30) % 2, feature_names=["unit", "size", "row"]).warnings
    assert [(item.code, item.columns) for item in found] == [("constant", ("unit",)), ("identifier", ("row",))]
