"""The sets of a study: parts that are balanced, disjoint and whole."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpan.errors import InputError
from hardpan.studies.study_runs import balanced_parts, read_study_data
from hardpan.studies.training_sets import fold_rows, half_rows


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


def test_a_fold_is_tested_on_and_everything_else_is_trained_on(world, same):
    data = read_study_data(world, same)
    assert (len(data.train), len(data.original), len(data.new)) == (240, 120, 120)
    assert np.array_equal(data.x[data.new], same.x)
    tested = []
    for number, (train, tests) in enumerate(fold_rows(data, 5, 0), 1):
        fold = tests[f"split {number}"]
        assert sorted([*train, *fold]) == sorted([*data.train, *data.original])
        assert set(data.original) <= set(train)
        assert np.bincount(data.labels[fold]).tolist() == [16, 16, 16]
        tested += fold.tolist()
    assert sorted(tested) == data.train.tolist()


@pytest.mark.parametrize("split", [0, 1])
def test_a_half_is_added_and_the_other_one_tested(world, same, split):
    data = read_study_data(world, same)
    added, rest = half_rows(data, 0, split)
    assert sorted([*added["new"], *rest]) == data.new.tolist()
    assert len(added["new"]) == len(added["original"]) == 60
    assert set(added["original"]) <= set(data.original)


def test_without_a_new_set_the_test_set_is_halved(world):
    data = read_study_data(world)
    assert data.control
    assert (len(data.original), len(data.new)) == (60, 60)
    assert not set(data.original) & set(data.new)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": None}, "turned"),
        ({"x": np.zeros((120, 3))}, "(3,)"),
        ({"x": np.zeros((120, 2), dtype=np.float32)}, "float32"),
        ({"class_names": ("a", "c", "b")}, "a, c, b"),
    ],
)
def test_a_new_set_that_does_not_fit_is_refused(world, turned, changes, words):
    with pytest.raises(InputError) as caught:
        read_study_data(world, dataclasses.replace(turned, **changes))
    assert words in str(caught.value)


def test_data_without_labels_are_refused(world):
    with pytest.raises(InputError, match="labels"):
        read_study_data(dataclasses.replace(world, labels=None))
