"""Columns in and out of every format."""

import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from hardpan import tables
from hardpan.errors import InputError
from hardpan.tables import ROLES, column_role_names, find_columns, plain_name, read_table

COLUMNS = {
    "id": ["a", "b", "c"],
    "n": [1, 2, 3],
    "x": [0.5, None, 1.5],
    "t": ["one, two", 'say "x"', "li\u2028ne\nbreak"],
}


@pytest.mark.parametrize("ending", ["csv", "tsv", "json", "jsonl", "parquet"])
def test_what_is_written_is_read(tmp_path, ending):
    path = tables.write_table(tmp_path / f"t.{ending}", COLUMNS)
    assert tables.read_columns(path) == COLUMNS


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames_are_made_and_read(kind):
    assert tables.read_columns(tables.to_frame(COLUMNS, kind)) == COLUMNS


def test_cells_as_text_and_rows(tmp_path):
    (tmp_path / "a.csv").write_text("id, name\n007, x \n010,\n")
    assert tables.read_columns(tmp_path / "a.csv", text=True) == {"id": ["007", "010"], "name": ["x", ""]}
    assert tables.read_table(tmp_path / "a.csv", text=["id"]).column("id").to_pylist() == ["007", "010"]
    assert tables.read_rows(tmp_path / "a.csv", required=["id"])[1] == {"id": "010", "name": ""}
    with pytest.raises(InputError, match="name"):
        tables.read_rows(tmp_path / "a.csv", required=["name"])
    with pytest.raises(InputError, match="absent"):
        tables.read_rows(tmp_path / "a.csv", required=["absent"])


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("a;b\n1,5;x\n", {"a": [1.5], "b": ["x"]}),
        ("a|b\n1|x\n", {"a": [1], "b": ["x"]}),
        ("m,arc|5|0,hs|5|0\nx,1,2\n", {"m": ["x"], "arc|5|0": [1], "hs|5|0": [2]}),
        ('a,b\n1,5" disk\n2,"say ""x"""\n', {"a": [1, 2], "b": ['5" disk', 'say "x"']}),
        ("a\n1\nNA\n", {"a": [1, None]}),
        ("a\nNA\nx\n", {"a": ["NA", "x"]}),
        ("0,1\n0.2,0.8\n", {"0": [0.2], "1": [0.8]}),
        ("a,b\r\n1,2\r\n", {"a": [1], "b": [2]}),
    ],
)
def test_dialects_of_csv(tmp_path, text, columns):
    (tmp_path / "a.csv").write_bytes(text.encode())
    assert tables.read_columns(tmp_path / "a.csv") == columns


@pytest.mark.parametrize(
    "source",
    [
        {"a": [1, 2], "b": ["x", "y"]},
        [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}],
        pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]}, index=[5, 3]),
        polars.DataFrame({"a": [1, 2], "b": ["x", "y"]}),
        pyarrow.table({"a": [1, 2], "b": ["x", "y"]}),
        pyarrow.RecordBatch.from_pydict({"a": [1, 2], "b": ["x", "y"]}),
    ],
    ids=lambda source: type(source).__name__,
)
def test_objects_with_columns(source):
    assert tables.read_columns(source) == {"a": [1, 2], "b": ["x", "y"]}


def test_mixed_values_are_text():
    assert tables.read_columns([{"a": 1}, {"a": "x"}, {}]) == {"a": ["1", "x", None]}


def test_index_columns_of_pandas(tmp_path):
    frame = pandas.DataFrame({"a": [1, 2, 3]}, index=[5, 3, 4])
    frame.to_parquet(tmp_path / "a.parquet")
    assert tables.index_columns(tables.read_table(tmp_path / "a.parquet")) == ["__index_level_0__"]
    frame.rename_axis("key").to_parquet(tmp_path / "b.parquet")
    assert tables.index_columns(tables.read_table(tmp_path / "b.parquet")) == ["key"]
    frame.to_csv(tmp_path / "c.csv")
    assert tables.index_columns(tables.read_table(tmp_path / "c.csv")) == [""]
    assert tables.index_columns(pyarrow.table({"a": [1]}).replace_schema_metadata({"pandas": "[["})) == []


@pytest.mark.parametrize(
    ("source", "named"),
    [
        (5, "int"),
        (b"a.csv", "bytes"),
        ([1, 2], r"\b0\b"),
        ({"a": 1}, "'a'"),
        ({"a": [1], "b": [1, 2]}, r"\bb\W+2\b"),
        ({}, "rows"),
        ("absent.csv", "absent"),
    ],
)
def test_what_has_no_columns_is_refused(source, named):
    with pytest.raises(InputError, match=named):
        tables.read_table(source)


def test_an_unknown_ending_or_frame_is_refused(tmp_path):
    (tmp_path / "a.xls").write_bytes(b"x")
    with pytest.raises(InputError, match=r"a\.xls"):
        tables.read_table(tmp_path / "a.xls")
    with pytest.raises(InputError, match=r"a\.xls"):
        tables.write_table(tmp_path / "a.xls", COLUMNS)
    with pytest.raises(InputError, match="kind"):
        tables.to_frame(COLUMNS, "excel")


def test_a_table_without_rows_is_read_where_it_is_meant(tmp_path):
    (tmp_path / "a.csv").write_text("id,label\n")
    with pytest.raises(InputError, match="rows"):
        tables.read_columns(tmp_path / "a.csv")
    assert tables.read_columns(tmp_path / "a.csv", empty=True) == {"id": [], "label": []}


def test_a_csv_file_of_delimiters_only_has_no_rows(tmp_path):
    (tmp_path / "empty.csv").write_text(",\n,\n")
    with pytest.raises(InputError, match=r"empty\.csv"):
        tables.csv_rows(tmp_path / "empty.csv")


@given(st.text("'=+-@x3. "))
def test_a_formula_is_escaped_and_no_two_texts_have_one_cell(text):
    cell = tables.safe_table_cell(text)
    assert tables.stored_cell(cell) == text
    assert cell[:1] not in ("=", "+", "-", "@") or float(cell) is not None


def test_the_columns_of_roles_are_found_by_their_names():
    names = ["Model", "Question-ID", "question", "acc", "label", "Epoch"]
    assert find_columns(names, ("model", "item", "score", "key", "run", "answer")) == {
        "model": "Model",
        "item": "Question-ID",
        "score": "acc",
        "key": "label",
        "run": "Epoch",
    }
    # The name of the role beats synonyms, synonyms beat weak names.
    assert find_columns(["id", "item"], ["item"]) == {"item": "item"}
    assert find_columns(["row", "id"], ["item"]) == {"item": "id"}
    # The name of another role of the same call is left to it.
    assert find_columns(["label", "id"], ["key", "label", "item", "id"]) == {"label": "label", "id": "id"}
    assert find_columns(["image"], ["id"], only_given=["image"]) == {}
    assert find_columns(["ids"], ["id"], exact=["id"]) == {}


def test_a_role_that_two_columns_fit_is_refused_with_the_options_that_decide():
    with pytest.raises(InputError) as caught:
        find_columns(["model", "sample_id", "question_id"], ["model", "item"], where="t.csv")
    assert caught.value.argument == "columns"
    assert all(text in str(caught.value) for text in ("--column item=sample_id", "--column item=question_id"))
    with pytest.raises(InputError) as caught:
        find_columns(["target", "class"], ["label"])
    assert caught.value.argument == "label"
    assert "--label target or --label class" in str(caught.value)
    given = {"item": "sample_id", "model": None}
    assert find_columns(["sample_id", "question_id"], ["item", "model"], given) == {"item": "sample_id"}
    assert find_columns(["ID", "id"], ["id"], {"id": "ID"}) == {"id": "ID"}


@pytest.mark.parametrize(
    ("columns", "argument"),
    [
        ({"label": "diagnose"}, "label"),
        ({"item": "nothing"}, "columns"),
        ({"colour": "label"}, "columns"),
        ({"label": 1.5}, "label"),
        ({"label": "id", "item": "id"}, "columns"),
    ],
)
def test_given_columns_that_cannot_be_are_refused(columns, argument):
    with pytest.raises(InputError) as caught:
        find_columns(["id", "diagnosis"], ["label", "item"], columns)
    assert caught.value.argument == argument


def test_every_synonym_belongs_to_one_step_of_its_role():
    for role in ROLES:
        words = column_role_names(role)
        assert len(set(words)) == len(words)
        assert all(plain_name(word) == word for word in words)


def test_an_object_among_columns_is_refused():
    with pytest.raises(InputError) as caught:
        tables.read_table({"a": [1, 2], "x": {"u": 1, "v": 2}})
    assert "'x'" in str(caught.value)


@pytest.mark.parametrize("encoded", [True, False])
def test_a_small_file_of_much_text_is_refused_before_it_is_unpacked(tmp_path, monkeypatch, encoded):
    """2,000 rows of one text of 100 kB are 200 MB, and less than 100 kB as a file."""
    texts = pyarrow.array(["x" * 100_000]).take(pyarrow.array([0] * 2000))
    path = tmp_path / "bomb.parquet"
    texts = texts.dictionary_encode() if encoded else texts
    parquet.write_table(pyarrow.table({"text": texts}), path, compression="zstd")
    assert path.stat().st_size < 100_000
    monkeypatch.setattr("hardpan.files.reading.available_memory", lambda: 300_000_000)
    with pytest.raises(InputError, match="bomb"):
        read_table(path)


@pytest.mark.parametrize("dictionary", [True, False])
def test_texts_of_a_parquet_file_are_what_was_written(tmp_path, dictionary):
    texts = pyarrow.array(["a", None, "ü", "a", ""] * 3)
    path = tmp_path / "texts.parquet"
    parquet.write_table(pyarrow.table({"text": texts}), path, use_dictionary=dictionary)
    column = read_table(path).column("text")
    assert column.type == pyarrow.string()
    assert column.to_pylist() == texts.to_pylist()
