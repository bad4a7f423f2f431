"""Tables: which column is what, one encoding, and what is refused."""

import io
import json

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.tables import write_table


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
    ("columns", "named"),
    [
        ({"features": [[1.0], [1.0, 2.0]]}, r"features.*\b1\b"),
        ({"features": [[1.0, None], [1.0, 2.0]]}, "features"),
        ({"features": [None, [1.0]]}, r"features.*\b0\b"),
        ({"features": [["a"], ["b"]]}, "features.*string"),
        ({"features": [1.0, 2.0]}, "features.*double"),
        ({"features": [[], []]}, "features"),
        ({"features": [[np.nan], [1.0]]}, r"features.*\b0\b"),
        ({"a": [1.0, np.inf]}, r"\ba\b.*\b1\b"),
        ({"label": [0, 1]}, "features"),
        ({"a": pyarrow.array([], pyarrow.float64())}, "rows"),
        ({"a": [1.0, 2.0], "label": [0, 2]}, "label"),
        ({"a": [1.0, 2.0], "label": [0, -1]}, "label.*-1"),
        ({"a": [1.0, 2.0], "label": [0.5, 1.0]}, "label.*0.5"),
        ({"a": [1.0, 2.0], "label": [None, None]}, r"label.*\b0\b"),
        ({"a": [1.0, 2.0], "label": [[1], [2]]}, "label.*list"),
        ({"a": [1.0, 2.0], "split": ["train", "other"]}, "split.*'other'"),
        ({"a": [1.0, 2.0], "split": ["train", "train"]}, "split"),
        ({"a": [1.0, 2.0], "id": ["x", "x"]}, "id.*'x'"),
    ],
)
def test_bad_tables_are_refused_in_one_sentence(tmp_path, columns, named):
    path = saved(tmp_path, columns)
    with pytest.raises(InputError, match=named) as caught:
        Dataset.open(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_encoding_of_text_and_gaps(tmp_path):
    columns = {
        "age": [30.0, None, 50.0, 70.0],
        "town": ["rome", "oslo", None, "rome"],
        "tall": [True, False, True, True],
        "label": ["a", "b", "a", "b"],
    }
    dataset = Dataset.open(saved(tmp_path, columns))
    assert dataset.feature_names == (
        "age",
        "age is missing",
        "town=oslo",
        "town=rome",
        "town=(missing)",
        "tall",
    )
    np.testing.assert_array_equal(
        dataset.x, [[30, 0, 0, 1, 0, 1], [50, 1, 1, 0, 0, 0], [50, 0, 0, 0, 1, 1], [70, 0, 0, 1, 0, 1]]
    )
    native = dataset.table
    assert native.names == ("age", "town", "tall")
    assert native.categorical.tolist() == [False, True, False]
    assert native.levels == ((), ("oslo", "rome"), ())
    np.testing.assert_array_equal(native.values, [[30, 1, 1], [np.nan, 0, 0], [50, np.nan, 1], [70, 1, 1]])
    assert dataset.select([2, 0]).table.values[1].tolist() == [30, 1, 1]


def test_an_encoded_row_keeps_its_id_whatever_the_other_rows_are():
    rows = {"a": [1.0, None, 3.0], "town": ["x", "y", "x"], "label": [0, 1, 0]}
    whole = Dataset.open(pyarrow.table(rows))
    part = Dataset.open(pyarrow.table({name: values[:2] for name, values in rows.items()}))
    assert whole.ids[:2].tolist() == part.ids.tolist()


def test_lists_beside_text_are_features_too():
    table = {"emb": [[1.0, 2.0], [3.0, 4.0], [1.0, 5.0]], "town": ["x", "y", "x"], "label": [0, 1, 0]}
    dataset = Dataset.open(pyarrow.table(table))
    assert dataset.feature_names == ("emb[0]", "emb[1]", "town=x", "town=y")
    np.testing.assert_array_equal(dataset.table.values, [[1, 2, 0], [3, 4, 1], [1, 5, 0]])
    assert dataset.table.categorical.tolist() == [False, False, True]


def test_rare_values_share_a_column(tmp_path):
    towns = [f"town-{k % 45:02d}" for k in range(120)]
    dataset = Dataset.open(pyarrow.table({"town": towns, "label": [k % 2 for k in range(120)]}))
    assert dataset.x.shape == (120, 31)
    assert dataset.feature_names[-1] == "town=(other)"
    np.testing.assert_array_equal(dataset.x.sum(axis=1), 1)


def codes(dataset):
    return {warning.code: warning.columns for warning in dataset.warnings}


def test_text_with_a_value_for_each_row_is_no_feature():
    table = pyarrow.table({"note": [f"text {k}" for k in range(9)], "a": range(0, 18, 2), "label": [0, 1, 0] * 3})
    dataset = Dataset.open(table)
    assert dataset.feature_names == ("a",)
    assert codes(dataset) == {"unused_column": ("note",)}
    assert dataset.metadata["note"][4] == "text 4"
    assert "note=text 3" in Dataset.open(table, features=["note"]).feature_names


def test_the_columns_are_what_the_options_say(tmp_path):
    columns = {
        "patient": ["007", "012", "030", "031"],
        "ill": ["yes", "no", "no", "yes"],
        "age": [30, 40, 50, 60],
        "height": [1.5, 1.6, 1.7, 1.8],
        "fold": ["train", "val", "test", "train"],
        "clinic": [1, 1, 2, 2],
    }
    path = tmp_path / "patients.csv"
    write_table(path, columns)
    dataset = Dataset.open(
        path, label="ill", id="patient", group="clinic", columns={"split": "fold"}, drop=["height"]
    )
    assert dataset.name == "patients"
    assert dataset.ids.tolist() == columns["patient"]
    assert dataset.class_names == ("no", "yes")
    assert dataset.labels.tolist() == [1, 0, 0, 1]
    assert dataset.feature_names == ("age",)
    assert dataset.split.tolist() == ["train", "validation", "test", "train"]
    assert dataset.metadata["group"].tolist() == ["1", "1", "2", "2"]
    assert dataset.metadata["row"].tolist() == [0, 1, 2, 3]
    ordered = Dataset.open(path, label="ill", features=["height", "age"], class_names=["yes", "no"], name="mine")
    assert ordered.feature_names == ("height", "age")
    assert ordered.labels.tolist() == [0, 1, 1, 0]
    assert ordered.name == "mine"


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"label": "absent"}, "label"),
        ({"features": ["a", "absent"]}, "features"),
        ({"drop": ["absent"]}, "drop"),
        ({"id": "absent"}, "id"),
        ({"columns": {"split": "absent"}}, "columns"),
        ({"columns": {"colour": "a"}}, "columns"),
        ({"columns": ["a"]}, "columns"),
        ({"columns": {"label": "a"}, "label": "label"}, "columns"),
        ({"group": "absent"}, "group"),
        ({"text": "absent"}, "text"),
        ({"label": 3}, "label"),
        ({"features": 3}, "features"),
        ({"drop": [3]}, "drop"),
        ({"label": "a", "id": "a"}, "id"),
        ({"features": ["label"], "label": "label"}, "features"),
        ({"resize": 32}, "resize"),
        ({"class_names": ["x"]}, "class_names"),
    ],
)
def test_options_that_do_not_fit_are_named(options, argument):
    table = pyarrow.table({"a": [1, 2, 4], "label": [0, 1, 0]})
    with pytest.raises(InputError) as caught:
        Dataset.open(table, **options)
    assert caught.value.argument == argument


def test_two_columns_that_may_be_the_label_are_refused_until_one_is_named():
    table = pyarrow.table({"a": [1, 2, 4], "target": [0, 1, 0], "class": [1, 0, 1]})
    with pytest.raises(InputError) as caught:
        Dataset.open(table)
    assert caught.value.argument == "label"
    assert Dataset.open(table, label="class").labels.tolist() == [1, 0, 1]


def test_text_group_and_time_are_kept_and_are_no_features():
    table = pyarrow.table({"a": [1, 2], "body": ["x", "y"], "site": [7, 8], "day": ["1", "2"], "label": [0, 1]})
    dataset = Dataset.open(table, text="body", group="site", columns={"time": "day"})
    assert dataset.feature_names == ("a",)
    assert dataset.texts.tolist() == ["x", "y"]
    assert [dataset.metadata[name].tolist() for name in ("group", "time")] == [["7", "8"], ["1", "2"]]


def png(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def test_images_in_a_column_with_the_names_of_hugging_face(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)
    pictures = [{"bytes": png(image), "path": f"{row}.png"} for row, image in enumerate(pixels)]
    described = {"info": {"features": {"label": {"names": ["cat", "dog", "owl"], "_type": "ClassLabel"}}}}
    table = pyarrow.table({"image": pictures, "label": [0, 1, 1, 0]})
    table = table.replace_schema_metadata({"huggingface": json.dumps(described)})
    pyarrow.parquet.write_table(table, tmp_path / "data.parquet")
    dataset = Dataset.open(tmp_path / "data.parquet")
    np.testing.assert_array_equal(dataset.x, pixels)
    assert dataset.class_names == ("cat", "dog", "owl")
    assert dataset.metadata["path"].tolist() == ["0.png", "1.png", "2.png", "3.png"]
    plain = Dataset.open(pyarrow.table({"img": [item["bytes"] for item in pictures], "label": [0, 1, 1, 0]}))
    np.testing.assert_array_equal(plain.x, pixels)
    assert Dataset.open(tmp_path / "data.parquet", resize=3).x.shape == (4, 3, 3, 3)


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_a_folder_with_one_table_per_split(tmp_path, ending):
    write_table(tmp_path / f"train.{ending}", {"a": [1.5, 2.5, 3.5], "label": ["x", "y", "x"]})
    write_table(tmp_path / f"test.{ending}", {"label": ["y", "y"], "a": [4.5, 5.5]})
    dataset = Dataset.open(tmp_path)
    assert dataset.x[:, 0].tolist() == [1.5, 2.5, 3.5, 4.5, 5.5]
    assert dataset.split.tolist() == ["train"] * 3 + ["test"] * 2
    assert dataset.metadata["row"].tolist() == [0, 1, 2, 0, 1]
    assert dataset.labels.tolist() == [0, 1, 0, 1, 1]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", b"PAR1\xff\xff\xff\x7fPAR1"])
def test_a_file_that_is_no_parquet_is_refused(tmp_path, content):
    path = tmp_path / "fake.parquet"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"fake\.parquet"):
        Dataset.open(path)


def test_a_table_that_unpacks_to_more_than_memory_is_refused(tmp_path, monkeypatch):
    path = saved(tmp_path, {"a": np.zeros(10**6)})
    assert path.stat().st_size < 10**5
    monkeypatch.setattr("hardpan.files.reading.available_memory", lambda: 10**7)
    with pytest.raises(InputError, match="memory"):
        Dataset.open(path)


def test_ids_that_start_again_in_every_split(tmp_path):
    for part in ("train", "test"):
        rows = "".join(f"{number},{number % 2},{number / 3}\n" for number in range(8))
        (tmp_path / f"{part}.csv").write_text(f"id,label,x\n{rows}")
    dataset = Dataset.open(tmp_path, label="label")
    ids = [f"{part}/{number}" for part in ("test", "train") for number in range(8)]
    assert sorted(dataset.ids.tolist()) == ids
    assert [(item.code, item.columns) for item in dataset.warnings if item.code == "ids_by_split"] == [
        ("ids_by_split", ("id",))
    ]
    twice = (tmp_path / "test.csv").read_text().replace("7,1,", "6,1,")
    (tmp_path / "test.csv").write_text(twice)
    with pytest.raises(InputError) as refused:
        Dataset.open(tmp_path, label="label")
    assert "id" in str(refused.value.argument)
