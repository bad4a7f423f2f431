import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.refusals import refused

from hardpan.bayes.floors.search import k_nearest


def brute(train, test, k, itself=False):
    distances = np.sqrt(((test[:, None].astype(float) - train[None].astype(float)) ** 2).sum(axis=2))
    if itself:
        np.fill_diagonal(distances, np.inf)
    return np.sort(distances, axis=1)[:, :k]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("itself", [False, True])
def test_distances_are_those_of_brute_force(dtype, itself):
    rng = np.random.default_rng(0)
    train, test = (rng.integers(0, 200, (n, 6)).astype(dtype) for n in (150, 40))
    rows, distances = k_nearest(train, None if itself else test, 9)
    judged = train if itself else test
    np.testing.assert_allclose(distances, brute(train, judged, 9, itself), rtol=1e-6)
    measured = np.sqrt(((judged[:, None].astype(float) - train[rows].astype(float)) ** 2).sum(axis=2))
    np.testing.assert_allclose(measured, distances, rtol=1e-6)
    if itself:
        assert (rows != np.arange(150)[:, None]).all()


@settings(max_examples=40)
@given(arrays(np.int8, st.tuples(st.integers(2, 30), st.integers(1, 3)), elements=st.integers(-3, 3)), st.data())
def test_repeats_and_ties_do_not_lose_a_neighbour(x, data):
    k = data.draw(st.integers(1, len(x) - 1))
    rows, distances = k_nearest(x, None, k)
    np.testing.assert_allclose(distances, brute(x, x, k, itself=True), atol=1e-5)
    assert all(len(set(row)) == k for row in rows.tolist())


def test_digits_are_kept_far_from_the_origin():
    train = 1e9 + np.arange(50.0)[:, None]
    assert k_nearest(train, train + 0.3, 1)[0][:, 0].tolist() == list(range(50))


@pytest.mark.parametrize(
    ("train", "test", "k", "argument"),
    [
        (np.eye(3), np.eye(3), 4, "k"),
        (np.eye(3), None, 3, "k"),
        (np.eye(3), np.eye(4), 1, ("x_train", "x_test")),
        (np.arange(3.0), np.eye(3), 1, "x_train"),
        (np.full((3, 3), np.nan), np.eye(3), 1, "x_train"),
        (np.array([["a"]]), np.eye(3), 1, "x_train"),
    ],
)
def test_bad_input_is_refused(train, test, k, argument):
    with refused(argument):
        k_nearest(train, test, k)
