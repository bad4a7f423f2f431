"""Transfer between two models: identities, NumPy's histogram, joins by id."""

import numpy as np
import pytest
from tests.confusion.planted import random_probs

from hardpan import confusion
from hardpan.errors import InputError


def test_transfer_of_a_model_to_itself_and_to_a_calmer_one():
    s = confusion.scores(random_probs(2, 3, 200, 5))
    itself = confusion.transfer(s, s)
    assert itself.tau.value == pytest.approx(1)
    assert itself.below.n == 0
    assert itself.counts.sum() == 200
    assert np.array_equal(itself.counts, np.diag(np.diag(itself.counts)))
    calmer = confusion.transfer(s.values, 0.5 * s.values)
    assert calmer.below.value == 1.0
    assert calmer.below.low > 0.95


def test_the_histogram_of_a_transfer_is_numpys():
    rng = np.random.default_rng(0)
    a = rng.uniform(0, 3, 400)
    b = np.clip(a + rng.normal(0, 0.4, 400), 0, 3)
    a[0] = b[1] = 3.0  # on the last edge
    found = confusion.transfer(a, b, names=("small", "large"), cells=12)
    assert (found.first, found.second, found.examples) == ("small", "large", 400)
    assert np.array_equal(found.counts, np.histogram2d(a, b, bins=(found.edges, found.edges))[0])
    assert found.counts[0].sum() == (a < found.edges[1]).sum()  # the first index is the first model's
    assert found.below.value == pytest.approx((b < a).sum() / (b != a).sum())


def test_transfer_joins_by_id():
    names = [f"e{i}" for i in range(50)]
    s = confusion.scores(random_probs(1, 2, 50, 4), ids=names)
    order = np.random.default_rng(0).permutation(50)[:40]
    found = confusion.transfer(s, s.select(order))
    assert found.examples == 40
    assert found.tau.value == pytest.approx(1)
    other = confusion.scores(random_probs(1, 2, 50, 4), ids=[f"x{i}" for i in range(50)])
    with pytest.raises(InputError, match="first"):
        confusion.transfer(s, other)
    with pytest.raises(InputError, match="first"):
        confusion.transfer(confusion.scores(random_probs(1, 1, 5, 3)), confusion.scores(random_probs(1, 1, 6, 3)))
