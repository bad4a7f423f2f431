import numpy as np
import pytest
from scipy.stats import binom

from hardpan.bayes.floors.repeats import equal_inputs, repeat_floor


def test_groups_are_rows_with_equal_content():
    x = np.array([[0.0, 1.0], [2.0, 3.0], [-0.0, 1.0], [2.0, 3.0], [5.0, 6.0]])
    found = equal_inputs(x)
    assert [rows.tolist() for rows in found.copied_groups()] == [[0, 2], [1, 3]]
    assert found.with_copy_in(np.array([0, 4]), np.array([2, 3])).tolist() == [True, False]


def test_images_and_real_numbers_do_not_repeat_by_chance_and_discrete_tables_do():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (50, 4, 4), dtype=np.uint8)
    assert not equal_inputs(np.concatenate([images, images[:10]])).by_chance
    reals = rng.normal(size=(200, 4))
    assert not equal_inputs(np.concatenate([reals, reals[:10]])).by_chance
    assert equal_inputs(rng.integers(0, 3, (500, 4)).astype(float)).by_chance
    # a wide table of bits, with copies: chance does not explain them
    bits = rng.integers(0, 2, (400, 60))
    assert not equal_inputs(np.concatenate([bits, bits[:20]])).by_chance


def test_a_frequent_value_in_a_column_of_real_numbers_does_not_excuse_copies():
    rng = np.random.default_rng(1)
    income = np.where(rng.random(2000) < 0.05, np.nan, rng.lognormal(10, 0.5, 2000).round(2))
    x = np.column_stack([income, rng.integers(20, 70, 2000), rng.integers(0, 3, 2000)])
    copied = np.flatnonzero(~np.isnan(income))[:40]
    equal = equal_inputs(np.concatenate([x, x[copied]]))
    assert equal.with_copy_in(np.arange(2000, 2040), np.arange(2000)).all()
    rows = np.sort(np.concatenate(equal.copied_groups()))
    assert rows.tolist() == [*copied.tolist(), *range(2000, 2040)]
    assert equal.by_chance  # rows without an income coincide
    assert not np.isin(np.arange(2000, 2040), equal.without_repeats(np.arange(2040))).any()


@pytest.mark.parametrize("seed", range(5))
def test_rounded_numbers_and_dependent_columns_coincide_by_chance(seed):
    rng = np.random.default_rng(seed)
    city = np.minimum((rng.pareto(1, 3000) * 20).astype(int), 400)
    tables = [
        np.column_stack([rng.random(1000).round(4), rng.integers(0, 2, 1000)]),
        np.column_stack([city, city // 40]),
    ]
    for x in tables:
        equal = equal_inputs(x)
        assert equal.by_chance
        assert not equal.copies.any()


def noisy(rng, n, inputs, noise, k=2):
    x = rng.integers(0, inputs, n)
    flips = rng.random(n) < noise
    y = (x + flips * rng.integers(1, k, n)) % k
    return x[:, None], y


@pytest.mark.parametrize(("inputs", "noise", "k"), [(5, 0.1, 2), (300, 0.2, 3), (3000, 0.05, 2), (50, 0.0, 2)])
def test_the_lower_end_holds_at_its_level(inputs, noise, k):
    """The Bayes error is the noise rate; the bound exceeds it in at most 2.5 % of draws."""
    rng = np.random.default_rng([inputs, k])
    misses = 0
    for _ in range(40):
        x, y = noisy(rng, 1000, inputs, noise, k)
        found = repeat_floor(equal_inputs(x), y, n_classes=k)
        misses += found is not None and found.low > noise
    assert misses <= binom.ppf(0.999, 40, 0.025)


def test_the_lower_end_approaches_the_noise_rate():
    x, y = noisy(np.random.default_rng(0), 20_000, 100, 0.15)
    assert 0.13 < repeat_floor(equal_inputs(x), y, n_classes=2).low < 0.15


def test_only_repeated_rows_count():
    """One input in ten is repeated: the bound is a tenth of what its labels say."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(9000, 1)), np.repeat(rng.normal(size=(500, 1)), 2, axis=0)])
    y = rng.integers(0, 2, 10_000)
    found = repeat_floor(equal_inputs(x), y, n_classes=2)
    assert found.n == 1000
    assert "500 repeated inputs" in found.method
    assert 0.02 < found.low < found.value <= 0.05


def test_there_is_no_bound_without_repeats_or_where_copies_always_disagree():
    x = np.arange(10.0)[:, None]
    assert repeat_floor(equal_inputs(x), np.arange(10) % 2, n_classes=2) is None
    twice = np.repeat(x, 2, axis=0)
    assert repeat_floor(equal_inputs(twice), np.arange(20) % 2, n_classes=2) is None
    same = repeat_floor(equal_inputs(twice), np.repeat(np.arange(10) % 2, 2), n_classes=2)
    assert same.value == same.low == 0
