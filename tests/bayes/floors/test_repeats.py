import numpy as np
import pytest
from scipy.stats import binom

from hardpan.bayes.floors.repeats import equal_inputs, repeat_floor


def test_groups_are_rows_with_equal_content():
    x = np.array([[0.0, 1.0], [2.0, np.nan], [-0.0, 1.0], [2.0, -np.nan], [5.0, 6.0]])
    found = equal_inputs(x)
    assert found.group.tolist() == [0, 1, 0, 1, 2]
    assert found.occurs_in(np.array([0, 4]), np.array([2, 3])).tolist() == [True, False]
    assert found.repeats(np.arange(5)).tolist() == [2, 3]


@pytest.mark.parametrize("shape", [(6,), (2, 3), (2, 3, 1)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64])
def test_groups_do_not_depend_on_shape_and_type(shape, dtype):
    x = np.random.default_rng(0).integers(0, 2, (200, 6))
    _, expected = np.unique(x, axis=0, return_inverse=True)
    group = equal_inputs(x.astype(dtype).reshape(200, *shape)).group
    assert ((group[:, None] == group) == (expected.ravel()[:, None] == expected.ravel())).all()


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
