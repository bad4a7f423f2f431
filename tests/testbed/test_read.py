"""The same small testbed in every form that people keep it in has to give the same counts."""

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.testbed.written_forms import (
    CORRECT,
    FORMS,
    GUESSES,
    LABELS,
    MODELS,
    counts_rows,
    csv_long,
    long_rows,
    npz_file_a_model,
    npz_probabilities,
    parquet_long_lists,
    write_csv,
)

from hardpan import testbed
from hardpan.errors import InputError
from hardpan.testbed.columns import decimal_year


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_form_gives_the_same_counts(form: Callable[[Path], tuple[Path, ...]], tmp_path: Path) -> None:
    table = testbed.read(*form(tmp_path))
    counts = table.counts() if isinstance(table, testbed.Outcomes) else table
    order = np.argsort(counts.models)
    expected = np.argsort(MODELS)
    assert sorted(counts.models) == sorted(MODELS)
    np.testing.assert_array_equal(counts.original_correct[order], CORRECT["original"][expected])
    np.testing.assert_array_equal(counts.new_correct[order], CORRECT["new"][expected])
    assert set(counts.original_total) == {300}
    assert set(counts.new_total) == {120}


@pytest.mark.parametrize("form", [csv_long, parquet_long_lists, npz_file_a_model, npz_probabilities])
def test_forms_with_several_guesses_have_other_metrics(form, tmp_path: Path) -> None:
    table = testbed.read(*form(tmp_path), metric="top3")
    assert isinstance(table, testbed.Outcomes)
    best = (GUESSES["new"] == LABELS["new"][:, None]).any(axis=2).sum(axis=1)
    assert sorted(table.counts().new_correct.tolist()) == sorted(best.tolist())


def test_three_sets_need_a_choice(tmp_path: Path) -> None:
    arrays = {f"predictions_{name}": GUESSES["new"][:, :, 0] for name in ("a", "b", "c")}
    arrays |= {f"labels_{name}": LABELS["new"] for name in ("a", "b", "c")}
    np.savez(tmp_path / "three.npz", models=np.array(MODELS), **arrays)
    with pytest.raises(InputError, match="say which of the sets a, b, c is the original one"):
        testbed.read(tmp_path / "three.npz")
    with pytest.raises(InputError, match="has no set 'd'; it has a, b, c"):
        testbed.read(tmp_path / "three.npz", original="a", new="d")
    assert len(testbed.read(tmp_path / "three.npz", original="a", new="c")) == 3


def result_tables(folder: Path, decimals: int = 3) -> tuple[Path, Path]:
    """Two tables as timm writes them; the second has another order and one more model."""
    header = ["model", "top1", "top1_err", "top5", "top5_err", "param_count", "img_size"]
    first = [["a", 41_000, 48_000, "25.56"], ["b", 37_501, 46_999, "1,012.50"], ["c", 30_003, 42_000, ""]]
    second = [
        ["c", 5_001, 7_500, ""],
        ["a", 7_101, 9_002, "25.56"],
        ["b", 6_003, 8_303, "1,012.50"],
        ["d", 1, 2, "3"],
    ]

    def rows(table: list[list[object]], total: int) -> list[list[object]]:
        result = []
        for name, top1, top5, size in table:
            one, five = 100 * int(str(top1)) / total, 100 * int(str(top5)) / total
            shown = [f"{value:.{decimals}f}" for value in (one, 100 - one, five, 100 - five)]
            result.append([name, *shown, size, 224])
        return result

    return (
        write_csv(folder / "results-a.csv", header, rows(first, 50_000)),
        write_csv(folder / "results-b.csv", header, rows(second, 10_000)),
    )


def test_result_tables_join_by_model(tmp_path: Path) -> None:
    table = testbed.read(*result_tables(tmp_path), original_total=50_000, new_total=10_000)
    assert isinstance(table, testbed.Counts)
    top1, top5 = table.for_metric(), table.for_metric("top5")
    assert top1.models == ("a", "b", "c")
    assert top1.original_correct.tolist() == [41_000, 37_501, 30_003]
    assert top1.new_correct.tolist() == [7_101, 6_003, 5_001]
    assert top5.new_correct.tolist() == [9_002, 8_303, 7_500]
    assert top1.parameters[1] == 1012.5
    assert np.isnan(top1.parameters[2])
    assert table.notes == ("Left out, because only the new table has them: d",)


def test_result_tables_need_totals_and_notice_wrong_ones(tmp_path: Path) -> None:
    pair = result_tables(tmp_path)
    with pytest.raises(InputError, match="give the size of the original set"):
        testbed.read(*pair, new_total=10_000)
    with pytest.raises(InputError, match="holds the accuracies of one set"):
        testbed.read(pair[0], original_total=50_000)
    wrong = testbed.read(*pair, original_total=1234, new_total=10_000)
    assert any("check the size of the set" in note for note in wrong.notes)


def test_accuracies_in_one_table() -> None:
    rows = [{"model": "a", "original_accuracy": 0.9, "new_accuracy": 80.5, "original_total": 10, "new_total": 200}]
    from hardpan.testbed.reading import as_table

    table = as_table(rows)
    assert isinstance(table, testbed.Counts)
    assert table.original_correct.tolist() == [9]
    assert table.new_correct.tolist() == [161]


def test_optional_columns(tmp_path: Path) -> None:
    rows = [row | {"group": "g", "date": "2015-07-01", "parameters": ""} for row in counts_rows()]
    path = write_csv(tmp_path / "more.csv", list(rows[0]), [list(row.values()) for row in rows])
    table = testbed.read(path)
    assert isinstance(table, testbed.Counts)
    assert table.group == ("g", "g", "g")
    assert table.date[0] == pytest.approx(2015.5, abs=0.01)
    assert np.isnan(table.parameters).all()


def with_cell(name: str, value: object) -> list[dict[str, object]]:
    rows = counts_rows()
    rows[1][name] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            with_cell("original_correct", 301),
            "original_correct must not exceed original_total; got 301 of 300 for Beta-2",
        ),
        (with_cell("new_total", 0), "new_total must be at least 1; got 0 for Beta-2"),
        (with_cell("new_correct", -1), "new_correct must be whole numbers of at least 0; got -1"),
        (with_cell("new_correct", 1.5), "got 1.5"),
        (with_cell("new_correct", ""), "column 'new_correct' is empty in row 2"),
        (with_cell("new_correct", "many"), "must hold numbers; got 'many' in row 2"),
        (with_cell("model", "alpha"), r"alpha \(top1\) appears twice"),
        ([{"model": "a", "new_correct": 1}], "column 'original_total' is missing"),
        (
            [{"name": "a", "original_correct": 1}],
            "column 'model' is missing; the columns are name, original_correct",
        ),
        ([], "must be rows or columns"),
    ],
)
def test_bad_counts_are_refused(rows: list[dict[str, object]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        testbed.compare(rows)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "the table has no rows"),
        ("a.csv", b"model,label\nx\n", "row 2 has 1 cells, the header 2"),
        ("a.csv", b"model,model\nx,y\n", "column names must differ"),
        ("a.csv", b"\xff\xfe\x00", "cannot be read as text"),
        ("a.json", b"{", "cannot be read as JSON"),
        ("a.json", b"3", "must be rows or columns"),
        ("a.npz", b"PK", "cannot be read as npz"),
        ("a.parquet", b"PAR", "cannot be read as Parquet"),
        ("a.txt", b"x", "must be a table"),
        ("a.csv", b"id,label\n1,2\n", "holds labels but no predictions"),
        ("a.csv", b"label,m\n1,1\n", "holds one test set; give the file of the other set"),
        ("a.csv", b"color,shape\n1,1\n", "column 'label' is missing"),
    ],
)
def test_bad_files_are_refused(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        testbed.read(path)


def test_missing_and_empty_places(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        testbed.read(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match=r"holds no \.npz"):
        testbed.read(tmp_path)
    with pytest.raises(InputError, match="one file with both test sets, or two"):
        testbed.read()


def test_models_with_other_examples_are_refused(tmp_path: Path) -> None:
    rows = [row for row in long_rows() if not (row[0] == "gamma" and row[1] == "new" and row[2] == 5)]
    path = write_csv(tmp_path / "long.csv", ["model", "set", "id", "label", "p1", "p2", "p3"], rows)
    path.write_text(path.read_text().replace("p1,p2,p3", "prediction_1,prediction_2,prediction_3"))
    with pytest.raises(InputError, match="model gamma has predictions for other examples"):
        testbed.read(path)


def test_arrays_of_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "objects.npz", labels=np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="cannot be read as npz"):
        testbed.read(tmp_path / "objects.npz")


@given(st.dates())
def test_dates_rise(day) -> None:
    value = decimal_year(day.isoformat(), "table")
    assert day.year <= value < day.year + 1.01


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.csv"
        path.write_text(text, encoding="utf-8", newline="")
        with contextlib.suppress(InputError):
            testbed.read(path)
