"""A result without a view of its own: what it says is made of its fields."""

from dataclasses import field

import numpy as np
import pytest

from hardpan.estimates import Estimate, Interval
from hardpan.files import TRANSIENT, from_json, record
from hardpan.pages import field_views
from hardpan.report import Report

ERROR = Estimate(0.0139, 0.006, 0.0046, 0.0322, method="m", n=359)


@record
class GenericRow:
    model: str
    error: Estimate
    gap: Estimate = field(metadata={"unit": "points"})


@record(eq=False)
class GenericResult(Report):
    HEADLINE = "{examples:counted example} of {rows[0].model}: {error}."

    examples: int
    error: Estimate
    bits: Estimate = field(metadata={"unit": "bits"})
    bracket: Interval
    rows: tuple[GenericRow, ...]
    scores: np.ndarray
    note: str | None = None
    config: str = "settings"
    pixels: tuple[int, ...] = field(default=(), metadata=TRANSIENT)


def result() -> GenericResult:
    rows = tuple(GenericRow(name, ERROR, Estimate(0.02, 0.005, 0.01, 0.03)) for name in ("a", "b"))
    bits = Estimate(1.5, 0.1, 1.3, 1.7)
    return GenericResult(1200, ERROR, bits, Interval(0.1, 0.3), rows, np.array([0.25, 0.75]))


def test_numbers_tables_and_headline_come_from_the_fields():
    view = result().view()
    assert view.title == "Generic result"
    assert view.headline == result().headline == "1,200 examples of a: 1.4 % (0.5–3.2 %)."
    (section,) = view.sections
    numbers, rows = section.tables
    assert dict(section.estimates) == {"error": ERROR}
    assert dict(numbers.rows) == {
        "examples": "1,200",
        "bits": "1.50 bits (1.30–1.70)",
        "bracket": "10–30 %",
        "scores": "2 numbers, 0.25 to 0.75",
    }
    assert rows.columns == ("model", "error, %", "gap, points")
    assert rows.rows[1] == ("b", "1.4 (0.5–3.2)", "+2.0 (+1.0 to +3.0)")


def test_the_frame_has_a_row_per_record_with_the_ends_of_intervals():
    frame = result().to_frame("pyarrow")
    assert frame.column_names == ["model", "error", "error_low", "error_high", "gap", "gap_low", "gap_high"]
    assert frame.column("error_high").to_pylist() == [0.0322, 0.0322]


def test_a_view_is_made_once_and_is_no_part_of_the_record(monkeypatch):
    calls = []
    monkeypatch.setattr(field_views, "view", lambda item: calls.append(item) or field_views.view_of_fields(item))
    shown = result()
    assert shown.view() is shown.view()
    assert shown.headline in repr(shown)
    assert len(calls) == 1
    assert "_view" not in shown.to_json()


def test_a_result_read_from_json_shows_the_same():
    import json

    shown = result()
    again = from_json(json.loads(shown.to_json()))
    assert again.view().headline == shown.headline
    assert again.view().sections == shown.view().sections


@pytest.mark.parametrize("kind", ["html", "notebook", "terminal"])
def test_page_notebook_and_terminal_show_it(kind):
    from rich.console import Console

    console = Console(record=True, width=100)
    if kind == "terminal":
        console.print(result())
    text = {"html": result().to_html, "notebook": result()._repr_html_, "terminal": console.export_text}[kind]()
    assert "1,200" in text
