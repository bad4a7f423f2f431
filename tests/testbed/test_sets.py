"""The same small testbed in every form that people keep it in has to give the same counts."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import read_or_refused
from tests.testbed.written_forms import (
    CORRECT,
    FORMS,
    GUESSES,
    LABELS,
    MODELS,
    counts_rows,
    write_csv,
)

from hardpan import testbed
from hardpan.errors import InputError
from hardpan.testbed.sets import decimal_year


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_form_gives_the_same_counts(form: Callable[[Path], tuple[Path, ...]], tmp_path: Path) -> None:
    counts = testbed.two_sets(*form(tmp_path))
    order = np.argsort(counts.models)
    expected = np.argsort(MODELS)
    assert sorted(counts.models) == sorted(MODELS)
    np.testing.assert_array_equal(counts.original.correct[order], CORRECT["original"][expected])
    np.testing.assert_array_equal(counts.new.correct[order], CORRECT["new"][expected])
    assert set(counts.original.total.tolist()) == {300}
    assert set(counts.new.total.tolist()) == {120}


def test_three_sets_need_a_choice(tmp_path: Path) -> None:
    arrays = {f"correct_{name}": GUESSES["new"][:, :, 0] == LABELS["new"] for name in ("a", "b", "c")}
    np.savez(tmp_path / "three.npz", models=np.array(MODELS), **arrays)
    with pytest.raises(InputError, match="original"):
        testbed.two_sets(tmp_path / "three.npz")
    with pytest.raises(InputError, match="new"):
        testbed.two_sets(tmp_path / "three.npz", original_set="a", new_set="d")
    assert len(testbed.two_sets(tmp_path / "three.npz", original_set="a", new_set="c")) == 3


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
    top1, top5 = (
        testbed.two_sets(*result_tables(tmp_path), original_total=50_000, new_total=10_000, metric=metric)
        for metric in (None, "top5")
    )
    assert top1.models == ("a", "b", "c")
    assert top1.original.correct.tolist() == [41_000, 37_501, 30_003]
    assert top1.new.correct.tolist() == [7_101, 6_003, 5_001]
    assert top5.new.correct.tolist() == [9_002, 8_303, 7_500]
    assert any(note.endswith(": d.") for note in top1.notes)


def test_result_tables_need_totals_and_notice_wrong_ones(tmp_path: Path) -> None:
    pair = result_tables(tmp_path)
    with pytest.raises(InputError, match="original_total"):
        testbed.two_sets(*pair, new_total=10_000)
    with pytest.raises(InputError, match=pair[0].name):
        testbed.two_sets(pair[0], original_total=50_000)
    wrong = testbed.two_sets(*pair, original_total=1234, new_total=10_000)
    assert any("size of the set" in note for note in wrong.notes)


def test_accuracies_in_one_table() -> None:
    rows = [{"model": "a", "original_accuracy": 0.9, "new_accuracy": 80.5, "original_total": 10, "new_total": 200}]
    table = testbed.two_sets(rows)
    assert table.original.correct.tolist() == [9]
    assert table.new.correct.tolist() == [161]


def test_optional_columns(tmp_path: Path) -> None:
    rows = [row | {"group": "g", "date": "2015-07-01"} for row in counts_rows()]
    path = write_csv(tmp_path / "more.csv", list(rows[0]), [list(row.values()) for row in rows])
    table = testbed.two_sets(path)
    assert table.group == ("g", "g", "g")
    assert table.date[0] == pytest.approx(2015.5, abs=0.01)


def with_cell(name: str, value: object) -> list[dict[str, object]]:
    rows = counts_rows()
    rows[1][name] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (with_cell("original_correct", 301), "original_correct"),
        (with_cell("new_total", 0), "new_total"),
        (with_cell("new_correct", -1), "new_correct"),
        (with_cell("new_correct", 1.5), "new_correct"),
        (with_cell("new_correct", "many"), "new_correct"),
        (with_cell("model", "alpha"), "alpha"),
        ([{"model": "a", "new_correct": 1}], "total"),
        ([{"name": "a", "original_correct": 1}], "set"),
        ([], "source"),
    ],
)
def test_bad_counts_are_refused(rows: list[dict[str, object]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        testbed.compare(rows)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"model,label\nx\n",
        b"model,model\nx,y\n",
        b"id,label\n1,2\n",
        b"label,m\n1,1\n",
        b"color,shape\nred,round\n",
    ],
)
def test_bad_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError):
        testbed.two_sets(tmp_path / "a.csv")


def test_missing_and_empty_folders(tmp_path: Path) -> None:
    for source in (tmp_path / "nothing.csv", tmp_path):
        with pytest.raises(InputError, match=source.name):
            testbed.two_sets(source)


def test_arrays_of_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "objects.npz", labels=np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="objects"):
        testbed.two_sets(tmp_path / "objects.npz")


@given(st.dates())
def test_dates_rise(day) -> None:
    value = decimal_year(day.isoformat())
    assert day.year <= value < day.year + 1.01


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.csv"
        path.write_text(text, encoding="utf-8", newline="")
        with read_or_refused():
            found = testbed.two_sets(path)
            assert len(found.models) == len(found.original.accuracy) == len(found.new.accuracy) > 0


def test_right_and_wrong_have_one_metric_only():
    skill = np.linspace(0, 2, 6)
    original, new = testbed.simulate(skill, examples=(200, 200), seed=0)
    with pytest.raises(InputError, match="metric"):
        testbed.two_sets(original, new, metric="top5")
