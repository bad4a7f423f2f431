"""Labels and predictions as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.refusals import read_or_refused

from hardpan import ledger
from hardpan.errors import InputError
from hardpan.ledger import labels
from hardpan.ledger.labels import as_ledger_labels


@given(content=st.binary(max_size=200), suffix=st.sampled_from([".npy", ".npz", ".csv", ".json", ".txt", ""]))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_is_read_or_refused(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"answers{suffix}"
    path.write_bytes(content)
    with read_or_refused():
        answers = labels.read_label_file(path, "answer", "label")
        assert len(as_ledger_labels(answers.values, "labels")) == len(answers.values)


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("a.csv", "label\n1\n0\n", [1, 0]),
        ("a.csv", "\ufeffid,label\nx,cat\ny,dog\n", ["cat", "dog"]),
        ("a.json", "[3, 1]", [3, 1]),
        ("a.json", "[3.0, 1]", [3, 1]),
        ("a.json", '{"x": "cat", "y": "dog"}', ["cat", "dog"]),
    ],
)
def test_files_are_read_as_people_write_them(tmp_path: Path, name: str, text: str, values: list[object]) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert labels.read_label_file(tmp_path / name, "label").values.tolist() == values


@pytest.mark.parametrize("text", ["[0.9, 1]", "[1e400, 0]", "[1e30, 0]", f"[{10**30}, 0]"])
def test_numbers_that_are_no_class_are_not_rounded_to_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    book = ledger.create(tmp_path / "book", [0, 1] * 50, bytes(32))
    with pytest.raises(InputError) as caught:
        book.submit(tmp_path / "a.json")
    assert caught.value.argument == "predictions"
