import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binomtest, norm
from tests.refusals import refused

from hardpan.bayes.floors.error_estimates import cover_hart
from hardpan.bayes.floors.inputs import prepare_floor_inputs, standardised
from hardpan.bayes.floors.neighbours import MIN_SEARCHED, k_nearest, neighbour_bounds, neighbour_entries
from hardpan.data.dataset import Dataset


@given(st.floats(0, 1), st.integers(2, 10_000))
def test_the_bound_inverts_cover_and_hart(share, k):
    guessing = (k - 1) / k
    bayes = share * guessing
    asymptotic = bayes * (2 - bayes / guessing)
    assert cover_hart(min(1.0, asymptotic), k) == pytest.approx(bayes, rel=1e-6, abs=2e-8)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(2, 1000))
def test_the_bound_rises_and_lies_between_half_the_error_and_the_error(a, b, k):
    low, high = sorted([a, b])
    assert cover_hart(low, k) <= cover_hart(high, k)
    assert cover_hart(low, k) <= low
    assert cover_hart(low, k) >= min(low, (k - 1) / k) / 2 - 1e-15


@pytest.mark.parametrize("distance", [1.0, 2.0, 3.0])
def test_the_bracket_holds_the_known_bayes_error(distance):
    rng = np.random.default_rng(int(distance))
    labels = rng.integers(0, 2, 8000)
    x = rng.normal(distance * labels, 1.0)[:, None]
    found = neighbour_bounds(x[:4000], labels[:4000], x[4000:], labels[4000:])
    assert found.lower.low <= norm.cdf(-distance / 2) <= found.upper.high
    errors = round(found.error.value * 4000)
    exact = binomtest(errors, 4000).proportion_ci(method="exact")
    assert (found.error.low, found.error.high) == pytest.approx((exact.low, exact.high))
    assert found.upper == found.error
    assert found.lower.low == pytest.approx(cover_hart(exact.low, 2))
    around = found.error.value + np.array([-1e-6, 1e-6])
    slope = np.diff([cover_hart(point, 2) for point in around])[0] / 2e-6
    assert found.lower.stderr == pytest.approx(slope * found.error.stderr, rel=0.05)


@pytest.mark.parametrize(
    ("error", "k", "argument"),
    [(-0.1, 2, "error"), (1.1, 2, "error"), (float("nan"), 2, "error"), (0.1, 1, "n_classes")],
)
def test_bad_numbers_are_refused(error, k, argument):
    with refused(argument):
        cover_hart(error, k)


def test_images_keep_their_distances_and_columns_get_one_scale():
    rng = np.random.default_rng(0)
    images, rows = rng.integers(0, 256, (30, 4, 4), dtype=np.uint8), np.arange(20)
    flat = images.reshape(30, 16)
    assert np.array_equal(standardised(images, rows), flat)
    scaled = standardised(images.astype(np.float32), rows)
    np.testing.assert_allclose(scaled * flat.max(), flat, rtol=1e-12)
    columns = standardised(flat * 10.0 ** np.arange(-160, 160, 20), rows)
    np.testing.assert_allclose(columns[rows].mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(columns[rows].std(axis=0), 1.0)


def test_lengths_that_disagree_are_refused():
    with refused("y_train"):
        neighbour_bounds(np.eye(3), np.arange(2), np.eye(3), np.arange(3))


def test_k_is_chosen_on_validation_and_helps_where_classes_overlap():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4000)
    x = rng.normal(2.0 * y)[:, None]
    found = neighbour_bounds(
        x[:2000], y[:2000], x[3000:], y[3000:], k=None, validation=(x[2000:3000], y[2000:3000])
    )
    assert found.k >= 9
    assert "fewest errors on validation" in found.upper.method
    assert found.upper.value < found.error.value
    assert found.lower.low < norm.cdf(-1) < found.upper.high


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
def test_bad_input_of_the_search_is_refused(train, test, k, argument):
    with refused(argument):
        k_nearest(train, test, k)


def test_few_seconds_search_a_sample_that_the_entries_state():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 8000)
    inputs = prepare_floor_inputs(Dataset.from_arrays(rng.normal(2.0 * labels, 1.0)[:, None], labels))
    entries = neighbour_entries(inputs, 0.95, 1e-6)
    searched = {f"1-NN on {MIN_SEARCHED + classes:,} training examples, Euclidean" for classes in range(3)}
    assert entries[1].estimate.method in searched  # every class is among them
    assert [entry.estimate.n for entry in entries[1:]] == [len(inputs.test)] * len(entries[1:])
    assert entries[-1].estimate.low <= norm.cdf(-1) * 1.1
    assert entries == neighbour_entries(inputs, 0.95, 1e-6)
    assert "4,800" in neighbour_entries(inputs, 0.95, 10.0)[1].estimate.method
