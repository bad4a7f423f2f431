import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import pdist, squareform
from scipy.stats import norm
from tests.refusals import refused

from hardpan.bayes.floors import henze_penrose
from hardpan.bayes.floors.neighbours import cover_hart
from hardpan.bayes.floors.spanning_tree import minimal_spanning_tree


def test_separated_classes_leave_half_an_edge_of_uncertainty():
    labels = np.repeat([0, 1], 200)
    x = np.random.default_rng(0).normal(size=(400, 2)) + 100.0 * labels[:, None]
    assert henze_penrose(x, labels).upper.stderr == pytest.approx(1 / 800)


@settings(max_examples=30)
@given(st.integers(2, 60), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_the_tree_is_as_short_as_scipys_and_joins_everything(n, d, seed):
    x = np.random.default_rng(seed).normal(size=(n, d))
    source, target, lengths = minimal_spanning_tree(x)
    assert lengths.sum() == pytest.approx(minimum_spanning_tree(squareform(pdist(x))).sum(), rel=1e-5)
    np.testing.assert_allclose(np.linalg.norm(x[source] - x[target], axis=1), lengths, rtol=1e-3, atol=1e-4)
    group = np.arange(n)
    for a, b in zip(source, target, strict=True):
        group[group == group[a]] = group[b]
    assert len(np.unique(group)) == 1


@settings(max_examples=30)
@given(st.integers(2, 70), st.integers(1, 3), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_repeats_and_ties_join_as_in_prims_algorithm_by_hand(n, d, spread, seed):
    x = np.random.default_rng(seed).integers(-spread, spread + 1, size=(n, d)).astype(float)
    source, target, lengths = minimal_spanning_tree(x)
    distances, inside, expected = squareform(pdist(x)), np.arange(n) == 0, []
    while not inside.all():
        gaps = np.where(inside[:, None] & ~inside, distances, np.inf)
        expected.append(gaps.min())
        inside[np.unravel_index(gaps.argmin(), gaps.shape)[1]] = True
    np.testing.assert_allclose(np.sort(lengths), np.sort(expected), rtol=1e-4, atol=1e-3)
    # Every edge begins in the tree and ends outside of it.
    seen = {0}
    for a, b in zip(source.tolist(), target.tolist(), strict=True):
        assert a in seen
        assert b not in seen
        seen.add(b)


def test_the_share_of_mixed_edges_goes_to_the_henze_penrose_integral():
    # Two unit Gaussians at distance 2: 2δ = 2 ∫ ¼ p q / (½ p + ½ q).
    def integrand(t):
        p, q = norm.pdf(t), norm.pdf(t - 2)
        return p * q / (p + q)

    limit = quad(integrand, -10, 12)[0]
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 6000)
    x = np.column_stack([rng.normal(2.0 * y), np.zeros(6000)])
    found = henze_penrose(x, y)
    assert found.upper.value == pytest.approx(limit, abs=4 * found.upper.stderr + 0.005)
    assert found.lower.value == pytest.approx(cover_hart(found.upper.value, 2))
    assert found.lower.value < norm.cdf(-1) < found.upper.value


def test_the_standard_error_is_that_of_repetition():
    rng = np.random.default_rng(1)
    found = []
    for _ in range(40):
        y = rng.integers(0, 3, 600)
        found.append(henze_penrose(rng.normal(1.5 * np.eye(3)[y]), y).upper)
    spread = np.std([item.value for item in found], ddof=1)
    assert np.median([item.stderr for item in found]) == pytest.approx(spread, rel=0.5)


def test_scale_rotation_offset_and_class_names_do_not_matter():
    rng = np.random.default_rng(2)
    y = rng.integers(0, 3, 400)
    x = rng.normal(2 * np.eye(3)[y])
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    base = henze_penrose(x, y)
    assert henze_penrose(1e6 * x @ turn + 1e7, y).upper.value == base.upper.value
    assert henze_penrose(x, (y + 1) % 3).upper.value == base.upper.value


def test_separate_classes_have_no_mixed_edge_but_an_interval():
    y = np.repeat([0, 1, 2], 100)
    found = henze_penrose(100.0 * y[:, None] + np.random.default_rng(0).normal(size=(300, 2)), y)
    assert (found.upper.value, found.lower.value) == (0.0, 0.0)
    assert found.upper.high > 0


def test_a_sample_is_drawn_from_many_and_said_to_be():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 900)
    x = rng.normal(y[:, None], 1.0)
    found = henze_penrose(x, y, most=300)
    assert found.upper.n == 300
    assert "300 drawn from 900" in found.upper.method
    assert "300 drawn from 900" in found.upper.method
    assert found == henze_penrose(x, y, most=300)
    assert found != henze_penrose(x, y, most=300, seed=1)


def test_bad_input_is_refused():
    with refused("x"):
        henze_penrose(np.eye(2), [0, 1])
    with refused("labels"):
        henze_penrose(np.eye(3), [0, 1])
    with refused("labels"):
        henze_penrose(np.eye(4), [0, 1, 2, 1], n_classes=2)
