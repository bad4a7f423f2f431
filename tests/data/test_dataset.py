from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardpan.data.dataset import Dataset, content_ids
from hardpan.errors import InputError

contents = st.lists(st.integers(0, 40), min_size=1, max_size=120)


def made(values, split=None):
    x = np.array(values, dtype=np.int64)[:, None]
    return Dataset("made", x, content_ids(x), split=split)


@settings(max_examples=40)
@given(contents)
def test_ids_are_unique_and_know_nothing_of_the_order(values):
    x = np.array(values)[:, None]
    ids = content_ids(x).tolist()
    assert len(set(ids)) == len(ids)
    assert sorted(content_ids(x[::-1]).tolist()) == sorted(ids)
    firsts = {}
    for value, name in zip(values, ids, strict=True):
        assert firsts.setdefault(value, name) == name.partition("-")[0]


def test_ids_know_dtype_and_shape():
    x = np.zeros((1, 4), dtype=np.uint8)
    variants = [x, x.astype(np.int8), x.reshape(1, 2, 2), x.astype(np.float32)]
    assert len({content_ids(variant)[0] for variant in variants}) == 4


@settings(max_examples=40)
@given(contents, st.integers(0, 5), st.randoms(use_true_random=False))
def test_parts_are_disjoint_complete_and_independent_of_row_order(values, seed, random):
    dataset = made(values)
    parts = dataset.splits(seed)
    joined = np.concatenate([parts.train, parts.validation, parts.test])
    assert sorted(joined.tolist()) == list(range(len(values)))
    order = list(range(len(values)))
    random.shuffle(order)
    mixed = made([values[row] for row in order])
    again = mixed.splits(seed)
    for name in ("train", "validation", "test"):
        ours, theirs = getattr(parts, name), getattr(again, name)
        assert sorted(dataset.ids[ours].tolist()) == sorted(mixed.ids[theirs].tolist())


@settings(max_examples=40)
@given(contents, st.integers(0, 5))
def test_copies_of_one_example_stay_in_one_part(values, seed):
    parts = made(values).splits(seed)
    held = [{values[row] for row in rows.tolist()} for rows in (parts.train, parts.validation, parts.test)]
    assert len(held[0] | held[1] | held[2]) == sum(map(len, held))


@settings(max_examples=40)
@given(st.integers(1, 200), st.integers(1, 50), st.integers(0, 5))
def test_an_official_test_set_stays(n_train, n_test, seed):
    split = np.repeat(["train", "test"], [n_train, n_test])
    parts = made(range(n_train + n_test), split).splits(seed)
    assert parts.test.tolist() == list(range(n_train, n_train + n_test))
    assert len(parts.validation) == pytest.approx(0.1 * n_train, abs=0.5)


@settings(max_examples=40)
@given(st.integers(1, 500))
def test_without_a_split_the_shares_are_exact(n):
    parts = made(range(n)).splits()
    assert len(parts.train) == pytest.approx(0.6 * n, abs=0.5)
    assert len(parts.train) + len(parts.validation) == pytest.approx(0.8 * n, abs=0.5)


def test_a_rare_class_is_split_in_proportion_and_groups_stay_together():
    rng = np.random.default_rng(0)
    labels, group = (rng.random(1200) < 0.02).astype(int), np.arange(1200) // 2
    data = Dataset.from_arrays(rng.normal(size=(1200, 2)), labels)
    of_rare = labels.sum()
    counts = []
    for seed in range(40):
        parts = data.splits(seed)
        for part, share in (("train", 0.6), ("validation", 0.2), ("test", 0.2)):
            rows = getattr(parts, part)
            assert abs(labels[rows].sum() - share * of_rare) < 1.01
            assert len(rows) == pytest.approx(share * 1200, abs=1.01)
        counts.append(labels[parts.test].sum())
        grouped = data.splits(seed, together=group)
        assert not set(group[grouped.test]) & set(group[np.r_[grouped.train, grouped.validation]])
    assert np.mean(counts) == pytest.approx(0.2 * of_rare, abs=0.25)
    even = Dataset.from_arrays(data.x, np.arange(1200) % 2, ids=data.ids)
    assert "proportion" not in even.splits().method


def test_seeds_choose_differently_and_repeatably():
    digits = Dataset.open("digits")
    first, same, other = (digits.splits(seed) for seed in (0, 0, 1))
    assert first.test.tolist() == same.test.tolist()
    assert first.test.tolist() != other.test.tolist()


@pytest.mark.parametrize("seed", [-1, 1.5, "0", True, None])
def test_a_seed_that_is_none_is_refused(seed):
    with pytest.raises(InputError, match=r"\bseed\b"):
        made(range(5)).splits(seed)


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["train", "validation", "test"]), min_size=1, max_size=60), st.integers(0, 5))
def test_official_validation_examples_stay_where_they_are(names, seed):
    names = [*names, "validation"]
    parts = made(range(len(names)), np.array(names)).splits(seed)
    for part in ("train", "validation", "test"):
        assert getattr(parts, part).tolist() == [row for row, name in enumerate(names) if name == part]


def test_select_by_rows_mask_ids_and_split():
    digits = Dataset.open("digits")
    for rows in ([7, 3], digits.ids[[7, 3]], np.array([7, 3], dtype=np.uint8)):
        part = digits.select(rows)
        assert part.labels.tolist() == digits.labels[[7, 3]].tolist()
        assert part.metadata["row"].tolist() == [7, 3]
    assert digits.select(np.arange(1797) < 5).ids.tolist() == digits.ids[:5].tolist()
    assert digits.select(split="test").ids.tolist() == digits.ids[digits.splits().test].tolist()
    assert len(digits.select([])) == 0


def test_an_example_is_named_by_its_row_in_its_own_file():
    dataset = made([5, 6, 7, 8, 9], split=np.array(["train", "train", "train", "test", "test"]))
    assert dataset.place(4) == "test row 4"
    rows = {"row": np.array([0, 1, 2, 0, 1])}
    dataset = replace(dataset, metadata=rows)
    assert [dataset.place(row) for row in (2, 4)] == ["train row 2", "test row 1"]
    assert dataset.select([4]).place(0) == "test row 1"
    files = replace(dataset, metadata={**rows, "path": np.array(["a.png", "b.png", "c.png", "d.png", "e.png"])})
    assert files.place(3) == "d.png"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "rows"),
        ({"rows": [1], "split": "test"}, "rows"),
        ({"split": "dev"}, "split"),
        ({"rows": [1797]}, "1797"),
        ({"rows": [-1]}, "-1"),
        ({"rows": [0.5]}, "rows"),
        ({"rows": [True, False]}, "mask"),
        ({"rows": [[1]]}, "rows"),
        ({"rows": ["nobody"]}, "nobody"),
    ],
)
def test_select_names_what_is_wrong(arguments, named):
    with pytest.raises(InputError, match=named):
        Dataset.open("digits").select(**arguments)


def test_align_by_id_and_by_order():
    digits = Dataset.open("digits")
    part = digits.select([9, 4, 7])
    assert digits.align(part).labels.tolist() == part.labels.tolist()
    renamed = part.align(["a", "b", "c"], by_order=True)
    assert renamed.ids.tolist() == ["a", "b", "c"]
    assert renamed.labels.tolist() == part.labels.tolist()
    with pytest.raises(InputError, match="by_order"):
        part.align(["a", "b"], by_order=True)
    with pytest.raises(InputError, match="'a'"):
        digits.align(["a"])


@pytest.mark.parametrize("kind", ["number", "date"])
def test_a_time_cuts_the_split(kind):
    rng = np.random.default_rng(0)
    days = rng.permutation(300) // 2
    times = days if kind == "number" else (np.datetime64("2019-12-01") + days).astype(str)
    data = Dataset.from_arrays(rng.normal(size=(300, 2)), rng.integers(0, 2, 300), metadata={"time": times})
    split = data.splits(seed=3)
    assert [len(rows) for rows in (split.train, split.validation, split.test)] == [180, 60, 60]
    assert days[split.train].max() < days[split.validation].min()
    assert days[split.validation].max() < days[split.test].min()
    assert "by time" in split.method
    official = np.repeat(["train", "test"], 150)
    kept = Dataset.from_arrays(data.x, data.labels, metadata={"time": times}, split=official).splits()
    assert kept.test.tolist() == list(range(150, 300))


def test_few_or_missing_times_still_give_three_parts():
    x, y = np.random.default_rng(0).normal(size=(100, 2)), np.arange(100) % 2
    years = np.repeat(["2019", "2020"], [85, 15])
    split = Dataset.from_arrays(x, y, metadata={"time": years}).splits()
    assert split.test.tolist() == list(range(85, 100))
    assert len(split.validation) in range(15, 30)
    empty = np.where(np.arange(100) < 40, "", years)
    assert Dataset.from_arrays(x, y, metadata={"time": empty}).splits().test.tolist() == list(range(85, 100))
    same = Dataset.from_arrays(x, y, metadata={"time": np.repeat("2019", 100)})
    assert same.times() is None
    assert "hash" in same.splits().method
    with pytest.raises(InputError) as error:
        Dataset.from_arrays(x, y, metadata={"time": np.repeat("last spring", 100)}).splits()
    assert error.value.argument == "columns"
