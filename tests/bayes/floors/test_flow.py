import numpy as np
import pytest
from scipy.stats import norm
from tests.refusals import refused

from hardpan.bayes.floors import two_sample_test
from hardpan.errors import InputError


def test_equal_distributions_are_rarely_two_sample_test():
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        found.append(two_sample_test(rng.normal(size=(600, 5)), rng.normal(size=(600, 5)), seed=seed).variation.low)
    assert sum(low > 0 for low in found) <= 2


@pytest.mark.parametrize("shift", [0.5, 2.0])
def test_the_bound_is_below_the_total_variation(shift):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3000, 3)), rng.normal(size=(3000, 3)) + np.array([shift, 0, 0])
    found = two_sample_test(a, b, model="the flow")
    exact = 2 * norm.cdf(shift / 2) - 1
    assert 0 < found.variation.low < exact
    assert found.variation.value > 0.6 * exact


def test_a_difference_that_no_line_shows_is_found():
    rng = np.random.default_rng(0)
    ring = rng.normal(size=(2000, 2))
    ring *= 2 / np.linalg.norm(ring, axis=1, keepdims=True)
    assert two_sample_test(ring, rng.normal(size=(2000, 2))).variation.low > 0.5


def test_labels_show_what_features_alone_do_not():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2000)
    x = rng.normal(3.0 * y)[:, None]
    assert two_sample_test(x[:1000], x[1000:]).variation.low == 0
    joint = two_sample_test(x[:1000], x[1000:], real_labels=y[:1000], sampled_labels=1 - y[1000:])
    assert joint.variation.low > 0.5


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="size"):
        two_sample_test(np.eye(30), np.eye(40))
    with refused("real_labels"):
        two_sample_test(np.eye(30), np.eye(30), real_labels=[0], sampled_labels=[1])
