"""Answers of the explorer against plain Python over the same rows."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardpan.auditing.example_table import Examples
from hardpan.errors import InputError
from hardpan.web.explorer.query import ExampleQueries, Filter, read_filters

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "confusion": st.one_of(st.none(), st.floats(0, 4, width=16)),
            "label": st.one_of(st.none(), st.sampled_from(["cat", "dog", "10", "9"])),
            "correct": st.booleans(),
        }
    ),
    min_size=1,
    max_size=40,
)


def explorer(rows):
    table = pa.table(
        {
            "id": [f"{number:04d}" for number in range(len(rows))],
            "confusion": pa.array([row["confusion"] for row in rows], pa.float32()),
            "label": pa.array([row["label"] for row in rows], pa.string()).dictionary_encode(),
            "correct": pa.array([row["correct"] for row in rows], pa.bool_()),
        }
    )
    return ExampleQueries(Examples(table))


def in_order(rows, sort, descending):
    """Known values in order, ties as they stand, unknown ones last."""
    natural = {"9": 0, "10": 1, "cat": 2, "dog": 3}
    keys = [natural.get(row[sort]) if sort == "label" else row[sort] for row in rows]
    known = [number for number, key in enumerate(keys) if key is not None]
    known.sort(key=lambda number: -keys[number] if descending else keys[number])
    return known + [number for number, key in enumerate(keys) if key is None]


@settings(max_examples=50)
@given(ROWS, st.floats(0, 4), st.booleans(), st.sampled_from(["confusion", "label", "correct"]), st.booleans())
def test_filters_and_order_are_those_of_a_plain_loop(rows, least, right, sort, descending):
    least = float(np.float32(least))
    filters = (Filter("confusion", "at_least", least), Filter("correct", "is", right))
    found = explorer(rows).order(filters, sort, descending=descending).tolist()
    passing = {
        number
        for number, row in enumerate(rows)
        if row["confusion"] is not None and row["confusion"] >= least and row["correct"] == right
    }
    assert found == [number for number in in_order(rows, sort, descending) if number in passing]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("filters", [(), (Filter("odd", "is", True),)])
def test_a_page_is_a_part_of_the_whole_order(descending, filters):
    rng = np.random.default_rng(0)
    values = np.round(rng.gamma(1, 0.3, 5000), 2)  # many ties
    values[rng.random(5000) < 0.3] = np.nan
    odd = np.arange(5000) % 2 == 1
    asked = ExampleQueries(Examples(pa.table({"id": [str(i) for i in range(5000)], "value": values, "odd": odd})))
    whole = asked.order(filters, "value", descending=descending)
    for offset, limit in ((0, 1), (0, 120), (120, 120), (3000, 500), (4990, 120)):
        page, total = asked.page(filters, "value", descending=descending, offset=offset, limit=limit)
        assert page.tolist() == whole[offset : offset + limit].tolist()
        assert total == len(whole)


@given(ROWS, st.sets(st.sampled_from(["cat", "dog", "10", "9", "no such"])))
def test_choices(rows, wanted):
    found = explorer(rows).order((Filter("label", "any_of", sorted(wanted)),)) if has_labels(rows) else []
    assert list(found) == [number for number, row in enumerate(rows) if has_labels(rows) and row["label"] in wanted]


def has_labels(rows):
    return any(row["label"] is not None for row in rows)


@given(ROWS)
def test_histograms_count_every_known_value_once(rows):
    asked = explorer(rows)
    counts = asked.histogram("confusion", asked.order(()))["counts"]
    assert sum(counts) == sum(row["confusion"] is not None for row in rows)
    by_choice = asked.histogram("correct", asked.order(()))
    assert dict(zip(by_choice["choices"], by_choice["counts"], strict=True)) == {
        name: count
        for name, value in (("yes", True), ("no", False))
        if (count := sum(row["correct"] is value for row in rows))
    }


def test_a_search_in_text():
    asked = explorer([{"confusion": c, "label": "cat", "correct": True} for c in (0.5, None, math.nan)])
    assert asked.order((Filter("id", "contains", "0002"),)).tolist() == [2]
    assert asked.rows(np.array([2]))[0]["index"] == 2


@pytest.mark.parametrize(
    ("column", "operation", "value", "named"),
    [
        ("nothing", "is", True, "nothing"),
        ("confusion", "any_of", ["1"], "confusion"),
        ("confusion", "at_least", "much", "confusion"),
        ("confusion", "at_most", math.nan, "confusion"),
        ("confusion", "at_least", 10**400, "confusion"),
        ("correct", "is", 1, "correct"),
        ("label", "any_of", "cat", "label"),
        ("label", "any_of", ["\ud800"], "label"),
        ("id", "contains", 3, "id"),
        ("id", "contains", "\udfff", "id"),
    ],
)
def test_a_bad_filter_is_refused_and_names_the_column(column, operation, value, named):
    queried = explorer([{"confusion": 1.0, "label": "cat", "correct": True}])
    with pytest.raises(InputError, match=named):
        queried.order((Filter(column, operation, value),))


def test_filters_are_a_list_of_objects():
    assert read_filters([{"column": "a", "operation": "is", "value": True}]) == (Filter("a", "is", True),)
    with pytest.raises(InputError, match="filters"):
        read_filters({"column": "a"})


@given(st.lists(st.tuples(st.sampled_from([True, False, None]), st.booleans()), min_size=1, max_size=30))
def test_disagreements_are_those_of_a_plain_loop(pairs):
    table = pa.table(
        {
            "id": [str(number) for number in range(len(pairs))],
            "correct: a": pa.array([one for one, _ in pairs], pa.bool_()),
            "correct: b": pa.array([two for _, two in pairs], pa.bool_()),
        }
    )
    queried = ExampleQueries(Examples(table))
    assert queried.models == ["a", "b"]
    cases = queried.disagreements("a", "b", np.arange(len(pairs)))
    for name, answer in (("both", (True, True)), ("first", (True, False)), ("second", (False, True))):
        assert cases[name].tolist() == [number for number, pair in enumerate(pairs) if pair == answer]
    with pytest.raises(InputError, match="second"):
        queried.disagreements("a", "c", np.arange(1))
