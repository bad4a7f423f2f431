import dataclasses
import itertools
import json
import re

import altair as alt
import numpy as np
import pytest
from altair.utils.schemapi import validate_jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pages.samples import BARS, CONFUSION, CURVE, EVERY, FAR, INTERVALS, floors

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.pages import charts
from hardpan.pages.charts import draw, vega_bundle
from hardpan.pages.charts.axes import log_ticks
from hardpan.pages.charts.intervals import STRUCK
from hardpan.pages.flow_charts import temperature_chart
from hardpan.pages.sections import Chart


def logarithmic(chart):
    return Chart(chart.drawing, chart.title, chart.rows, chart.description, dict(chart.options) | {"log": True})


@pytest.mark.parametrize("kind", charts.KINDS)
@pytest.mark.parametrize("log", [False, True])
def test_every_drawing_keeps_the_contract(kind, log):
    chart = logarithmic(EVERY[kind]) if log else EVERY[kind]
    drawn = draw(chart, "chart-1")
    assert drawn.svg.startswith("<svg ")
    assert drawn.svg.count("<svg ") == 1
    assert "var(--" in drawn.svg
    assert not re.search(r"#[0-9a-f]{6}", drawn.svg), "a colour that does not follow the theme"
    assert drawn.specs[0]["description"] == chart.description
    assert len(drawn.specs) == (2 if charts.KINDS[kind].switch else 1)
    for spec in drawn.specs:
        validate_jsonschema(spec, alt.LayerChart._schema, rootschema=alt.LayerChart._rootschema)
    text = json.dumps(drawn.specs)
    assert "http" not in text.replace("https://vega.github.io/schema", "")
    assert drawn.csv_url.startswith("data:text/csv")


@pytest.mark.parametrize("kind", charts.KINDS)
def test_a_chart_without_rows_is_drawn_empty(kind):
    assert draw(logarithmic(Chart(kind, "Empty", (), "Nothing.")), "chart-1").rows == ()


def test_numbers_that_a_log_axis_cannot_show_are_moved_to_its_edge_but_kept_in_the_table():
    drawn = draw(logarithmic(INTERVALS), "c")
    marks = drawn.specs[0]["layer"][-1]["data"] if "data" in drawn.specs[0]["layer"][-1] else drawn.specs[0]
    values = json.dumps(marks)
    assert '"low": 0.0,' not in values
    assert drawn.rows[1][drawn.columns.index("low")] == 0.0


def test_a_refuted_estimate_says_why():
    spec = charts.spec(INTERVALS)
    struck = [layer for layer in spec["layer"] if layer.get("name") == STRUCK]
    assert len(struck) == 1
    assert "refuted" in json.dumps(struck[0]["transform"])
    assert "too high" in json.dumps(spec)


def test_bars_start_at_zero_and_same_names_stay_apart():
    spec = charts.spec(BARS)
    x = spec["layer"][0]["encoding"]["x"]
    assert x["scale"]["domain"][0] == 0
    svg = draw(BARS, "c").svg
    assert svg.count(">cat<") == 2


def test_numpy_values_are_drawn_like_python_s():
    rows = tuple({key: np.float64(value) for key, value in row.items()} for row in CURVE.rows)
    odd = Chart("lines", "Dial", rows, "d", {"log": np.bool_(True), "log_x": np.bool_(True)})
    drawn = draw(odd, "c")
    assert drawn.on is True
    json.dumps(drawn.specs, allow_nan=False)


def test_unknown_drawings_list_the_legal_ones():
    with pytest.raises(InputError, match="drawing"):
        charts.spec(Chart("pie", "t", (), "d"))


def test_ids_in_two_pictures_differ():
    names = [set(re.findall(r'id="([^"]+)"', draw(CURVE, key).svg)) for key in ("chart-1", "chart-2")]
    assert not names[0] & names[1]


def test_a_spreadsheet_finds_no_formula_in_the_csv():
    chart = Chart("bars", "t", ({"name": "=1+1", "value": -3},), "d")
    assert "%27%3D1%2B1%2C-3" in draw(chart, "c").csv_url


def test_the_bundle_cannot_end_its_script_element():
    bundle = vega_bundle()
    assert "</script" not in bundle.lower()
    assert "<!--" not in bundle
    assert 500_000 < len(bundle) < 3_000_000


@given(st.floats(1e-12, 1.0), st.floats(1.0001, 1e12))
def test_a_log_axis_has_a_handful_of_ticks(low, ratio):
    ticks = log_ticks(low, low * ratio)
    assert len(ticks) <= 13
    assert len(ticks) >= 2 or ratio < 1.2
    assert ticks == sorted(ticks)
    assert all(0.9 * low <= tick <= 1.1 * low * ratio for tick in ticks)


def test_several_lines_have_a_legend_that_names_each_once():
    rows = tuple({"series": name, "x": x, "y": 0.1} for name in ("one", "two") for x in (1, 2))
    svg = draw(Chart("lines", "Two", rows, "d"), "c").svg
    assert "role-legend" in svg
    assert all(svg.count(f">{name}<") == 1 for name in ("one", "two"))


def test_names_of_models_that_are_alike_are_not_written_over_one_another():
    def model(name, x, y):
        return {
            "name": name,
            "label": name,
            "x": x,
            "x_low": x - 0.01,
            "x_high": x + 0.01,
            "y": y,
            "y_low": y - 0.01,
            "y_high": y + 0.01,
        }

    alike = [model(f"model-{i}", 0.5, 0.9) for i in range(7)] + [
        model("near", 0.501, 0.901),
        model("far", 0.9, 0.7),
    ]
    svg = draw(Chart("points", "c", tuple(alike), "d"), "c").svg
    names = [row["name"] for row in alike]
    boxes = {name: text_box(svg, name) for name in names}
    for (a, b, c, d), (e, f, g, h) in itertools.combinations(boxes.values(), 2):
        assert not (a < f and e < b and c < h and g < d)


def text_box(svg, name):
    """Left, right, top and bottom of a word in a picture, in pixels."""
    anchor, x, y = re.search(
        rf'<text text-anchor="(\w+)" transform="translate\(([-\d.]+),([-\d.]+)\)"[^>]*>{name}</text>', svg
    ).groups()
    width = 6 * len(name)
    left = float(x) - (width if anchor == "end" else 0)
    return left, left + width, float(y) - 11, float(y) + 1


def test_a_legend_names_the_fitted_line_and_the_diagonal():
    rows = (
        {"name": "m", "role": "in the fit"} | dict.fromkeys(("x", "x_low", "x_high", "y", "y_low", "y_high"), 0.5),
    )
    line = [{"x": x, "y": x, "low": x, "high": x} for x in (0.4, 0.6)]
    svg = draw(Chart("scatter", "s", rows, "d", {"lines": {"linear": line, "probit": line}}), "c").svg
    assert all(svg.count(f">{name}<") == 1 for name in ("same accuracy", "fitted line"))


def test_a_struck_name_is_struck_in_the_picture_itself():
    svg = draw(INTERVALS, "c").svg
    struck = re.findall(r'<text text-decoration="line-through"[^>]*>([^<]+)</text>', svg)
    assert [text.partition(" · ")[0] for text in struck] == ["model"]


def rows_of(drawn, field):
    """Rows of the marks of a specification, wherever they stand in it."""
    values = drawn.get("data", {}).get("values", [])
    return [row for row in values if field in row] or [
        row for layer in drawn["layer"] for row in layer.get("data", {}).get("values", ()) if field in row
    ]


def symbols(svg, role="mark-symbol"):
    """Outlines of the points of a picture, with their attributes."""
    groups = re.findall(rf'<g class="{role} [^>]*>(.*?)</g>', svg, flags=re.S)
    return [found for group in groups for found in re.findall(r"<path [^>]*/>", group)]


def test_an_estimate_left_of_the_axis_is_an_arrow_with_its_number():
    chart = floors(FAR)
    drawn = draw(logarithmic(chart), "c")
    by_name = {row["name"]: row for row in rows_of(drawn.specs[0], "beyond")}
    assert by_name["far"]["beyond"] == "2.1 × 10⁻¹³, left of this axis"
    assert "1.00 × 10⁻¹²" in by_name["far"]["reason"]
    assert "1.00 × 10⁻¹²" in by_name["bound"]["reason"]
    assert not any(by_name[name]["cut"] or by_name[name]["beyond"] for name in ("model", "network"))
    assert "2.1 × 10⁻¹³, left of this axis" in drawn.svg
    # Rows without a dot: one arrow for the far estimate, a small one at the interval that goes on; three dots.
    assert len(symbols(drawn.svg)) == 2 + 3


def test_on_an_axis_that_reaches_it_nothing_is_an_arrow():
    drawn = draw(floors(FAR), "c")
    assert not any(row["cut"] or row["outside"] or row["beyond"] for row in rows_of(drawn.specs[0], "beyond"))
    assert len(symbols(drawn.svg)) == 4


def labels(svg):
    """Texts of each axis that are seen."""
    axes = re.findall(r'<g class="mark-text role-axis-label"[^>]*>(.*?)</g>', svg, flags=re.S)
    return [
        [
            text
            for style, text in re.findall(r"<text ([^>]*)>([^<]*)</text>", axis)
            if text and 'opacity="0"' not in style
        ]
        for axis in axes
    ]


@pytest.mark.parametrize("epochs", [2, 3, 4, 7, 60])
def test_an_axis_over_epochs_has_whole_numbers(epochs):
    rows = tuple({"series": "a", "x": n, "y": 1 / n, "low": 1 / n, "high": 1 / n} for n in range(1, epochs + 1))
    across = labels(draw(Chart("lines", "Epochs", rows, "d", {"x_title": "epoch"}), "c").svg)[0]
    assert all(text.isdigit() for text in across)
    assert len(across) == len(set(across)) >= 2


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("drawing", ["distribution", "bars"])
@pytest.mark.parametrize("most", [2, 3, 40])
def test_an_axis_of_counts_has_whole_numbers(log, drawing, most):
    counts = ({"low": 0, "high": 1, "count": 1}, {"low": 1, "high": 2, "count": most})
    rows = tuple(
        row | {"name": "a", "value": row["count"], "group": "a", "above": 1, "wrong_above": None} for row in counts
    )
    axes = labels(draw(Chart(drawing, "Counts", rows, "d", {"log": log}), "c").svg)
    across, up = axes
    counted = across if drawing == "bars" else up
    assert counted
    assert all(text.isdigit() for text in counted)


def test_shares_that_happen_to_be_none_and_all_keep_their_fractions():
    rows = tuple({"series": "a", "x": x, "y": x} for x in (0, 1))
    assert "0.4" in labels(draw(Chart("lines", "Shares", rows, "d"), "c").svg)[0]


def test_few_sizes_on_a_logarithmic_axis_have_whole_ticks():
    rows = tuple({"series": "a", "x": x, "y": x / 10} for x in (2, 3, 4))
    across = labels(draw(Chart("lines", "Sizes", rows, "d", {"log_x": True}), "c").svg)[0]
    assert across == ["2", "3", "4"]


@given(st.floats(-11, -0.4), st.floats(0.01, 6), st.booleans())
@settings(max_examples=30, deadline=None)
def test_labels_along_an_axis_of_errors_have_one_style(low, span, log):
    values = [10 ** (low + span * part / 4) for part in range(5)]
    values = [min(value, 1.0) for value in values]
    estimates = [Estimate(value, 0.0, value, value) for value in values]
    chart = temperature_chart([0.2, 0.5, 1.0, 2.0, 4.0], estimates, "Dial")
    drawn = draw(Chart(chart.drawing, "Dial", chart.rows, "d", dict(chart.options) | {"log": log}), "c")
    up = labels(drawn.svg)[1]
    percents = [re.fullmatch(r"[\d.]+ %", text) is not None for text in up]
    powers = [re.fullmatch(r"0|([\d.]+ × )?10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", text) is not None for text in up]
    assert all(percents) or all(powers)
    assert len(set(up)) == len(up)
    title = str(drawn.specs[0]["layer"][0]["encoding"]["y"]["title"])
    assert ("as a fraction" in title) == all(powers)


def test_where_labels_are_powers_of_ten_the_edge_is_told_as_one():
    none = {"name": "none", "value": 0.0, "low": 0.0, "high": 0.0, "role": "floor", "reason": ""}
    drawn = charts.spec(logarithmic(Chart("intervals", "t", (none, FAR), "d")))
    (said,) = (row["reason"] for row in rows_of(drawn, "beyond") if row["name"] == "none")
    assert "1.00 × 10⁻¹²" in said


@pytest.mark.parametrize("lines", [1, 3, 4, 6])
def test_intervals_of_errors_by_band_are_drawn_however_many_lines_there_are(lines):
    one = next(chart for chart in CONFUSION if chart.drawing == "error_by_band")
    rows = tuple({**row, "group": f"model {k}"} for k in range(lines) for row in one.rows)
    layers = charts.spec(dataclasses.replace(one, rows=rows))["layer"]
    (reach,) = (layer for layer in layers if "y2" in layer["encoding"])
    assert [reach["encoding"][side]["field"] for side in ("y", "y2")] == ["error_low", "error_high"]
    assert reach["mark"]["type"] == ("rule" if lines <= 3 else "area")
