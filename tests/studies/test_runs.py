"""The sets of a study: parts that are balanced, disjoint and whole."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpan.errors import InputError
from hardpan.studies.runs import balanced_parts, read_sets
from hardpan.studies.training_sets import Fold, WithHalf


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(1, 6), st.integers(0, 99), st.integers(0, 3)
)
def test_parts_are_a_partition_with_even_sizes_and_classes(labels, parts, seed, draw):
    values = np.array(labels)
    found = balanced_parts(values, parts, seed, draw)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(values)))
    assert np.ptp([len(part) for part in found]) <= 1
    for label in set(labels):
        assert np.ptp([int((values[part] == label).sum()) for part in found]) <= 1
    again = balanced_parts(values, parts, seed, draw)
    assert all(np.array_equal(a, b) for a, b in zip(found, again, strict=True))


def test_the_parts_of_another_seed_or_draw_are_others():
    labels = np.arange(40) % 4
    firsts = {tuple(balanced_parts(labels, 2, seed, draw)[0]) for seed in range(3) for draw in range(3)}
    assert len(firsts) == 9


def rows_of(part):
    return {tuple(row) for row in part.x.tolist()}


def test_a_fold_is_tested_on_and_everything_else_is_trained_on(world, same):
    sets = read_sets(world, same)
    assert (len(sets.train), len(sets.original), len(sets.new)) == (240, 120, 120)
    seen = set()
    for number in range(5):
        train, tests = Fold(number, 5, 0).arrange(sets)
        fold = rows_of(tests["held out"])
        assert not fold & rows_of(train)
        assert fold | rows_of(train) == rows_of(sets.train) | rows_of(sets.original)
        assert rows_of(sets.original) <= rows_of(train)
        assert np.bincount(tests["held out"].labels).tolist() == [16, 16, 16]
        seen |= fold
    assert seen == rows_of(sets.train)


@pytest.mark.parametrize("split", [0, 1])
def test_a_half_is_added_and_the_other_one_tested(world, same, split):
    sets = read_sets(world, same)
    with_new, tests = WithHalf(split, 0, "new").arrange(sets)
    with_old, tests_old = WithHalf(split, 0, "original").arrange(sets)
    rest = rows_of(tests["rest"])
    assert rest == rows_of(tests_old["rest"])
    assert rows_of(with_new) == rows_of(sets.train) | (rows_of(sets.new) - rest)
    assert not rest & rows_of(with_new)
    assert len(with_old) == len(with_new) == 300
    assert rows_of(with_old) - rows_of(sets.train) <= rows_of(sets.original)


def test_without_a_new_set_the_test_set_is_halved(world):
    sets = read_sets(world)
    assert sets.control
    assert (len(sets.original), len(sets.new)) == (60, 60)
    assert not rows_of(sets.original) & rows_of(sets.new)


def test_names_and_records_give_the_same_sets():
    from hardpan.data.dataset import Dataset

    named, given_ = read_sets("digits"), read_sets(Dataset.open("digits"))
    assert named.fingerprint == given_.fingerprint
    assert read_sets("digits") is named
    assert read_sets("digits", seed=1).fingerprint != named.fingerprint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": None}, "turned.*no labels"),
        ({"x": np.zeros((120, 3))}, r"must have examples like world, float64 \(2,\); it has float64 \(3,\)"),
        ({"x": np.zeros((120, 2), dtype=np.float32)}, "it has float32"),
        ({"class_names": ("a", "c", "b")}, "must have the classes of world in the same order; it has a, c, b"),
    ],
)
def test_a_new_set_that_does_not_fit_is_refused(world, turned, changes, message):
    with pytest.raises(InputError, match=message):
        read_sets(world, dataclasses.replace(turned, **changes))


def test_data_without_labels_are_refused(world):
    with pytest.raises(InputError, match="labels"):
        read_sets(dataclasses.replace(world, labels=None))
