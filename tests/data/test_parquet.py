import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from hardpan.data.dataset import Dataset
from hardpan.errors import InputError


def saved(folder, columns, **options):
    path = folder / "table.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path, **options)
    return path


VECTORS = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


@pytest.mark.parametrize(
    "kind",
    [
        pyarrow.list_(pyarrow.float32()),
        pyarrow.large_list(pyarrow.float64()),
        pyarrow.list_(pyarrow.float32(), 2),
        pyarrow.list_(pyarrow.int16()),
    ],
    ids=str,
)
def test_every_kind_of_list_is_a_vector(tmp_path, kind):
    path = saved(tmp_path, {"features": pyarrow.array(VECTORS, kind)}, row_group_size=2)
    dataset = Dataset.open(path)
    np.testing.assert_array_equal(dataset.x, VECTORS)
    assert dataset.x.dtype == kind.value_type.to_pandas_dtype()
    assert dataset.labels is None


def test_columns_keep_their_order_and_take_the_common_type(tmp_path):
    dataset = Dataset.open(saved(tmp_path, {"z": [1, 2], "a": [0.5, 1.5], "label": [1, 0]}))
    np.testing.assert_array_equal(dataset.x, [[1, 0.5], [2, 1.5]])
    assert dataset.labels.tolist() == [1, 0]


def test_ids_splits_and_dictionaries(tmp_path):
    columns = {
        "features": VECTORS,
        "id": ["p", "q", "r"],
        "split": pyarrow.array(["test", "train", "train"]).dictionary_encode(),
        "label": pyarrow.array(["dog", "cat", "dog"]).dictionary_encode(),
    }
    dataset = Dataset.open(saved(tmp_path, columns))
    assert dataset.ids.tolist() == ["p", "q", "r"]
    assert dataset.split.tolist() == ["test", "train", "train"]
    assert dataset.class_names == ("cat", "dog")
    assert dataset.labels.tolist() == [1, 0, 1]
    assert dataset.splits().test.tolist() == [0]


def test_other_columns_beside_vectors_become_metadata(tmp_path):
    columns = {"features": VECTORS, "url": ["x", "y", "z"], "votes": [1, 2, 3], "weight": [0.5, 1.0, 2.0]}
    metadata = Dataset.open(saved(tmp_path, columns)).metadata
    assert {name: column.tolist() for name, column in metadata.items() if name != "row"} == {
        name: columns[name] for name in ("url", "votes", "weight")
    }


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"features": [[1.0], [1.0, 2.0]]}, "must have one length; row 0 has 1 and row 1 2"),
        ({"features": [[1.0, None], [1.0, 2.0]]}, "lists with missing numbers"),
        ({"features": [None, [1.0]]}, "features has no value in row 0"),
        ({"features": [["a"], ["b"]]}, "must hold lists of numbers; got lists of string"),
        ({"features": [1.0, 2.0]}, "must hold lists of numbers; got double"),
        ({"features": [[], []]}, "must hold lists of numbers|must not be empty"),
        ({"features": [[np.nan], [1.0]]}, "row 0 holds NaN"),
        ({"features": [[1.0], [2.0]], "image": [b"x", b"y"]}, "image must hold text or integers; got binary"),
        ({"a": [1.0, None]}, "a has no value in row 1"),
        ({"a": [1.0, 2.0], "town": ["x", "y"]}, "column 'town' holds string, not numbers"),
        ({"label": [0, 1]}, "holds no features"),
        ({"a": pyarrow.array([], pyarrow.float64())}, "holds no rows"),
        ({"a": [1.0, 2.0], "label": [0, 2]}, "without gaps; no example has label 1"),
        ({"a": [1.0, 2.0], "label": [0, -1]}, "must not be negative"),
        ({"a": [1.0, 2.0], "label": [0.5, 1.0]}, "label must hold text or integers; got double"),
        ({"a": [1.0, 2.0], "split": ["train", "val"]}, "split must be train or test; row 1 has 'val'"),
        ({"a": [1.0, 2.0], "split": ["train", "train"]}, "got only 'train'"),
        ({"a": [1.0, 2.0], "id": ["x", "x"]}, "'x' is given 2 times"),
    ],
)
def test_bad_tables_are_refused_in_one_sentence(tmp_path, columns, message):
    path = saved(tmp_path, columns)
    with pytest.raises(InputError) as caught:
        Dataset.open(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", b"PAR1\xff\xff\xff\x7fPAR1"])
def test_a_file_that_is_no_parquet_is_refused(tmp_path, content):
    path = tmp_path / "fake.parquet"
    path.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read"):
        Dataset.open(path)


def test_a_table_that_unpacks_to_more_than_memory_is_refused(tmp_path, monkeypatch):
    path = saved(tmp_path, {"a": np.zeros(10**6)})
    assert path.stat().st_size < 10**5
    monkeypatch.setattr("hardpan.data.memory.free_memory", lambda: 10**7)
    with pytest.raises(InputError, match="needs about"):
        Dataset.open(path)
