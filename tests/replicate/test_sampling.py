"""Sampling strategies against rules written down by hand, and invariants over drawn tables."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from hardpan import files
from hardpan.errors import InputError
from hardpan.replicate.documents import datasheet_limits
from hardpan.replicate.sampling import (
    BINS,
    average_frequency,
    frequency_bins,
    largest_remainder_counts,
    sample,
    sample_again,
)


def table(counts, name="cat", votes=10, start=0):
    """Rows of one class with the given frequencies: {frequency: how many}."""
    rows = []
    for frequency, count in counts.items():
        for _ in range(count):
            rows.append(
                {"id": f"{name}-{start + len(rows)}", "class": name, "frequency": frequency, "votes": votes}
            )
    return rows


def bins_of(drawn):
    return Counter(frequency_bins([image.frequency for image in drawn.images]).tolist())


def test_matched_follows_the_originals_bin_by_bin():
    originals = table({0.1: 2, 0.5: 6, 0.7: 4, 0.95: 8})  # 20: 10 %, 30 %, 20 %, 40 %
    candidates = table({0.15: 30, 0.3: 30, 0.45: 30, 0.65: 30, 0.9: 30})
    drawn = sample(candidates, "matched", per_class=10, originals=originals)
    assert drawn.quotas == {"cat": (1, 0, 3, 2, 4)}
    assert bins_of(drawn) == {0: 1, 2: 3, 3: 2, 4: 4}
    assert drawn.fills == ()
    assert drawn.shortfalls == ()
    assert datasheet_limits(drawn) == ()


def test_a_short_bin_takes_from_the_next_higher_one_and_says_so():
    originals = table({0.5: 10, 0.7: 10})
    candidates = table({0.1: 50, 0.5: 2, 0.7: 6, 0.9: 50})
    drawn = sample(candidates, "matched", per_class=10, originals=originals)
    # Bin 0.4–0.6 wants 5 and has 2; one is left over in 0.6–0.8, the other two come from 0.8–1; never from 0–0.2.
    assert bins_of(drawn) == {2: 2, 3: 6, 4: 2}
    assert Counter(image.fill for image in drawn.fills) == {
        "from 0.6–0.8 for 0.4–0.6": 1,
        "from 0.8–1 for 0.4–0.6": 2,
    }
    assert drawn.shortfalls == ()


def test_a_bin_draws_its_own_quota_before_it_helps_others():
    originals = table({0.5: 10, 0.7: 10})
    drawn = sample(table({0.5: 0, 0.7: 5}), "matched", per_class=10, originals=originals)
    assert [image.slot for image in drawn.images] == [3] * 5
    assert [(item.slot, item.missing) for item in drawn.shortfalls] == [(2, 5)]


def test_the_lowest_bin_never_fills_a_higher_one():
    drawn = sample(table({0.1: 100}), "matched", per_class=5, originals=table({0.9: 20}))
    assert drawn.images == ()
    assert drawn.shortfalls[0].missing == 5
    assert drawn.shortfalls[0].slot == 4
    assert "5 missing in bin 0.8–1" in datasheet_limits(drawn)[-1]


def test_threshold_and_top():
    candidates = table({0.7: 3, 0.69: 50, 0.9: 2, 1.0: 4})
    drawn = sample(candidates, "threshold", per_class=9)
    assert sorted(image.frequency for image in drawn.images) == [0.7] * 3 + [0.9] * 2 + [1.0] * 4
    assert sample(candidates, "threshold", per_class=20).shortfalls[0].missing == 11
    assert [image.frequency for image in sample(candidates, "top", per_class=5).images] == [1.0] * 4 + [0.9]
    assert len(sample(candidates, "threshold", per_class=60, threshold=0.5).images) == 59


@pytest.mark.parametrize("form", [lambda k: k / 10, lambda k: 0.1 * k, lambda k: 1 - (10 - k) / 10])
def test_a_frequency_at_the_threshold_belongs_to_the_set(form):
    """However k of 10 votes was computed."""
    rows = table({form(k): 1 for k in range(11)})
    for k in range(11):
        assert len(sample(rows, "threshold", 20, threshold=k / 10).images) == 11 - k


def test_votes_and_originals_that_are_too_few_are_told():
    candidates = table({0.9: 10}) + table({0.9: 5}, votes=9, start=10)
    drawn = sample(candidates, "matched", per_class=12, originals=table({0.9: 19}))
    assert len(drawn.images) == 10
    assert (drawn.too_few_votes, drawn.originals_too_few_votes, drawn.few_originals) == (5, 0, {"cat": 19})
    assert [line.split()[0] for line in datasheet_limits(drawn)] == [
        "5",
        "class",
        "class",
    ]
    below = sample(candidates, "matched", 2, table({0.9: 30}) + table({0.9: 4}, votes=3, start=30))
    assert (below.originals_too_few_votes, below.few_originals) == (4, {})
    with pytest.raises(InputError, match="'cat'"):
        sample(candidates, originals=table({0.9: 30}, votes=9))


def test_an_image_of_a_sample_is_the_row_that_was_given():
    rows = table({0.9: 6}, votes=17) + table({0.8: 6}, "dog", votes=12)
    rows = [row | {"subclass": f"{row['class']} {k % 2}"} for k, row in enumerate(rows)]
    by_id = {row["id"]: row for row in rows}
    drawn = sample(rows, "top", per_class=4)
    assert len(drawn.images) == 8
    for image in drawn.images:
        row = by_id[image.id]
        assert (image.class_name, image.subclass) == (row["class"], row["subclass"])
        assert (image.frequency, image.votes, image.slot) == (row["frequency"], row["votes"], -1)
    untold = [{name: row[name] for name in ("id", "class", "frequency")} for row in rows]
    assert {image.votes for image in sample(untold, "top", per_class=4).images} == {-1}
    short = sample(rows, "top", per_class=9)
    assert [(item.slot, item.missing) for item in short.shortfalls] == [(-1, 3), (-1, 3)]
    assert datasheet_limits(short)[-1] == "class dog: 3 missing"


def test_quotas_by_subclass():
    rows = [row | {"subclass": ("tabby", "siamese")[k % 2]} for k, row in enumerate(table({0.9: 20}))]
    wanted = {("cat", "tabby"): 3, ("cat", "siamese"): 7}
    drawn = sample(rows, "threshold", quotas=wanted)
    assert Counter(image.subclass for image in drawn.images) == {"tabby": 3, "siamese": 7}


def test_drawing_again_keeps_the_rest_and_the_place():
    originals = table({0.5: 10, 0.9: 10})
    rows = [row | {"subclass": ("tabby", "siamese")[k % 2]} for k, row in enumerate(table({0.5: 12, 0.9: 12}))]
    quotas = {("cat", "tabby"): 4, ("cat", "siamese"): 4}
    first = sample(rows, "matched", originals=originals, quotas=quotas)
    gone = [image for image in first.images if image.subclass == "tabby"][:2]
    second = sample_again(first, rows, [image.id for image in gone], round_number=1)
    kept = set(first.ids) - {image.id for image in gone}
    assert kept < set(second.ids)
    assert not {image.id for image in gone} & set(second.ids)
    fresh = [image for image in second.images if image.id not in kept]
    assert Counter((i.subclass, i.slot) for i in fresh) == Counter((i.subclass, i.slot) for i in gone)
    again = sample_again(first, rows, [image.id for image in gone], round_number=1)
    assert again == second
    assert sample_again(first, rows, [], round_number=1).images == first.images


def test_drawing_again_from_another_subclass_is_told():
    rows = [{"id": k, "class": "cat", "frequency": 0.9, "votes": 10, "subclass": s} for k, s in enumerate("aabbb")]
    first = sample(rows, "top", quotas={("cat", "a"): 2})
    second = sample_again(first, rows, first.ids[:1], round_number=1)
    assert [image.fill for image in second.images] == ["", "in place of sub-class a"]
    third = sample_again(second, rows, second.ids, round_number=2, ever_removed=first.ids[:1])
    assert {image.subclass for image in third.images} == {"b"}
    assert len(third.images) == 2
    last = sample_again(third, rows, third.ids, round_number=3, ever_removed=[*first.ids, *second.ids])
    assert last.images == ()
    assert sum(item.missing for item in last.shortfalls) == 2


frequencies = st.lists(st.integers(0, 10).map(lambda k: k / 10), min_size=1, max_size=60)


@given(
    frequencies,
    frequencies,
    st.integers(1, 20),
    st.integers(0, 5),
    st.sampled_from(["matched", "threshold", "top"]),
)
def test_what_holds_for_every_table(candidates, originals, per_class, seed, strategy):
    rows = [{"id": k, "class": "c", "frequency": f, "votes": 10} for k, f in enumerate(candidates)]
    old = [{"class": "c", "frequency": f, "votes": 10} for f in originals]
    drawn = sample(rows, strategy, per_class, old, seed=seed)
    assert len(set(drawn.ids)) == len(drawn.ids)
    assert len(drawn.images) + sum(item.missing for item in drawn.shortfalls) == per_class
    assert drawn.images == sample(rows, strategy, per_class, old, seed=seed).images
    assert files.from_json(files.to_json(drawn)).images == drawn.images
    if strategy == "matched":
        assert sum(drawn.quotas["c"]) == per_class
        for image in drawn.images:
            own = int(frequency_bins([image.frequency])[0])
            assert own >= image.slot
            assert (own != image.slot) == bool(image.fill)
        for short in drawn.shortfalls:  # nothing as high or higher is left on the table
            left = set(map(str, range(len(rows)))) - set(drawn.ids)
            assert all(frequency_bins([candidates[int(k)]])[0] < short.slot for k in left)
    if strategy == "top" and len(drawn.ids) == per_class:
        left = [f for k, f in enumerate(candidates) if str(k) not in drawn.ids]
        assert max(left, default=0) <= min(image.frequency for image in drawn.images)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8).filter(any), st.integers(0, 40))
def test_largest_remainder_against_exact_fractions(weights, total):
    counts = largest_remainder_counts(weights, total).tolist()
    exact = [Fraction(w * total, sum(weights)) for w in weights]
    assert sum(counts) == total
    rest = [e - int(e) for e in exact]
    order = sorted(range(len(weights)), key=lambda k: (rest[k], k), reverse=True)
    expected = [int(e) for e in exact]
    for k in order[: total - sum(expected)]:
        expected[k] += 1
    assert counts == expected


@pytest.mark.parametrize("n", range(1, 60))
def test_bins_of_every_fraction(n):
    for k in range(n + 1):
        assert frequency_bins([k / n])[0] == min(4, (5 * k) // n)
        assert frequency_bins([np.float64(sum([1.0 / n] * k))])[0] == min(4, (5 * k) // n)


def test_the_average_frequency_is_at_most_one():
    found = average_frequency([1.0, 1.0, 1.0, 0.9])
    assert (found.value, found.high) == (pytest.approx(0.975), 1.0)
    assert found.low < 0.975


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"strategy": "best"}, "strategy"),
        ({"per_class": 0}, "per_class"),
        ({"threshold": 1.5}, "threshold"),
        ({"strategy": "matched"}, "originals"),
        ({"candidates": [{"id": 1, "class": "a"}]}, "candidates"),
        ({"candidates": [{"id": 1, "class": "a", "frequency": 2}]}, "candidates"),
        ({"candidates": [{"id": 1, "class": "a", "frequency": 1}] * 2}, "candidates: id"),
        ({"candidates": [{"id": 1, "class": "a", "frequency": 1, "votes": 1.5}]}, "candidates: votes"),
        (
            {"candidates": {"id": [1, 2], "class": ["a", "a"], "frequency": ["0.5", "often"]}},
            "candidates: frequency",
        ),
    ],
)
def test_bad_input_is_refused(change, argument):
    given_ = {"candidates": table({0.9: 3}), "strategy": "top"} | change
    with pytest.raises(InputError) as caught:
        sample(**given_)
    assert caught.value.argument == argument


@pytest.mark.parametrize("kind", ["rows", "csv", "parquet", "columns"])
def test_every_form_of_a_table_gives_the_same_sample(kind, tmp_path):
    rows = table({0.9: 8, 0.5: 8}) + table({0.7: 8}, name="dog")
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    given_ = {"rows": rows, "columns": {key: np.array(values) for key, values in columns.items()}}.get(kind)
    if kind == "csv":
        given_ = tmp_path / "table.csv"
        lines = [",".join(map(str, row.values())) for row in rows]
        given_.write_text("\n".join([",".join(columns), *lines]))
    if kind == "parquet":
        given_ = tmp_path / "table.parquet"
        parquet.write_table(pyarrow.table(columns), given_)
    assert (
        sample(given_, "threshold", 3, threshold=0.5).images == sample(rows, "threshold", 3, threshold=0.5).images
    )


def test_bins_are_named():
    assert len(BINS) == 5


@pytest.mark.parametrize("name", ["frequency", "selection_frequency", "selection frequency", "Selection Frequency"])
def test_columns_may_be_called_as_people_call_them(name):
    given_table = {
        "ID": ["a", "b"],
        "class": ["cat", "cat"],
        name: [0.9, 0.1],
        "votes": [10, 10],
        "sub-class": ["x", "y"],
    }
    drawn = sample(given_table, strategy="top", per_class=1, seed=0)
    assert [(image.id, image.subclass, image.frequency) for image in drawn.images] == [("a", "x", 0.9)]
