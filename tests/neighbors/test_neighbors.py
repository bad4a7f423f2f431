"""Nearest neighbours against brute force in integers, SSIM against its definition and scikit-image."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refused

import hardpan
from hardpan.neighbors import exact as nearest_module
from hardpan.neighbors import gpu as gpu_module
from hardpan.neighbors import ssim as ssim_module
from hardpan.neighbors.exact import nearest
from hardpan.neighbors.gpu import nearest_on_gpu
from hardpan.neighbors.near_duplicates import near_duplicates


def brute(queries, references, k, same=False):
    """Every distance, in integers where the data are; ties to the lower number."""
    q, r = (a.reshape(len(a), -1) for a in (queries, references))
    q, r = (a.astype(np.int64 if a.dtype == np.uint8 else np.float64) for a in (q, r))
    squared = np.array([((one - r) ** 2).sum(axis=1) for one in q], dtype=np.float64)
    if same:
        np.fill_diagonal(squared, np.inf)
    order = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return np.sqrt(np.take_along_axis(squared, order, axis=1)), order


def smooth_images(n, seed, size=16):
    """Images with most of their variance in few directions, as photographs have."""
    rng = np.random.default_rng(seed)
    blocks = rng.normal(0, 60, (n, 4, 4, 3))
    x = np.kron(blocks, np.ones((1, size // 4, size // 4, 1))) + rng.normal(128, 12, (n, size, size, 3))
    return np.clip(x, 0, 255).astype(np.uint8)


@settings(max_examples=30)
@given(
    st.integers(1, 12),
    st.integers(2, 40),
    st.integers(1, 30),
    st.integers(0, 3),
    st.sampled_from(["u1", "f4", "f8"]),
    st.sampled_from([3, 7, 65_536]),
)
def test_equals_brute_force(q, n, d, seed, kind, block):
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(0, 4, (m, d)).astype(kind) for m in (q, n))  # few values: many ties
    k = int(rng.integers(1, n + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest_module, "_BLOCK", block)
        found, among = nearest(x, y, k), nearest(y, y, min(k, n - 1), same=True)
    for (distances, numbers), expected in ((found, brute(x, y, k)), (among, brute(y, y, min(k, n - 1), True))):
        np.testing.assert_array_equal(numbers, expected[1])
        np.testing.assert_array_equal(distances, expected[0])


@settings(max_examples=8)
@given(st.integers(1, 12), st.integers(2, 400), st.integers(1, 30), st.sampled_from(["u1", "f4", "f8"]))
def test_the_search_of_a_gpu_gives_the_same_bits(q, n, d, kind):
    rng = np.random.default_rng(q)
    x, y = ((rng.normal(1000, 3, (m, d)) if kind != "u1" else rng.integers(0, 4, (m, d))) for m in (q, n))
    x, y = x.astype(kind), y.astype(kind)
    y[n // 2 :: 3] = y[0]  # more ties than candidates: the search has to widen
    k = int(rng.integers(1, min(n, 12)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_module, "_BLOCK", 160)
        patch.setattr(gpu_module, "_SPARE", 3)
        patch.setattr(gpu_module, "_MORE", 2)
        searched = nearest_on_gpu(x, y, k, device="cpu"), nearest_on_gpu(y, y, k, same=True, device="cpu")
    for there, here in zip(searched, (nearest(x, y, k), nearest(y, y, k, same=True)), strict=True):
        np.testing.assert_array_equal(there[1], here[1])
        np.testing.assert_array_equal(there[0], here[0])


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "cuda:99"])
def test_a_device_that_is_not_there_is_refused(device):
    with refused("device"):
        near_duplicates(np.eye(4), k=1, device=device)


def test_blocks_in_processes_give_the_same_bits(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((n, 12)).astype(np.float32) for n in (50, 90))
    here = near_duplicates(x, y, k=4), near_duplicates(y, k=4)
    monkeypatch.setattr(nearest_module, "_BLOCK", 40)
    with hardpan.parallel("processes", workers=2):
        there = near_duplicates(x, y, k=4), near_duplicates(y, k=4)
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(one.indices, other.indices)
        np.testing.assert_array_equal(one.distances, other.distances)


@pytest.mark.parametrize("kind", [np.uint8, np.float64])
def test_bounds_by_few_directions_change_nothing(kind, monkeypatch):
    monkeypatch.setattr(nearest_module, "_SAMPLE", 300)
    x, y = smooth_images(100, 0), smooth_images(1300, 1)
    flat = [a.reshape(len(a), -1).astype(kind) for a in (x, y)]
    chosen = nearest_module._cheapest_distance_bounds(
        *flat, np.rint(nearest_module._mean_of_references(flat[1])), 10, False
    )
    assert chosen.basis is not None  # else this test would not try what it is for
    distances, numbers = nearest(*flat, 10)
    for start in range(0, 100, 20):
        rows = slice(start, start + 5)
        exact = brute(flat[0][rows], flat[1], 10)
        np.testing.assert_array_equal(numbers[rows], exact[1])
        np.testing.assert_allclose(distances[rows], exact[0], rtol=1e-12)


def test_noise_in_every_direction_takes_the_plain_product(monkeypatch):
    monkeypatch.setattr(nearest_module, "_SAMPLE", 300)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((100, 512)), rng.standard_normal((1300, 512))
    assert nearest_module._cheapest_distance_bounds(x, y, np.zeros(512), 5, False).basis is None
    numbers = nearest(x, y, 5)[1]
    exact = brute(x[:20], y, 5)
    np.testing.assert_array_equal(numbers[:20], exact[1])


def test_a_far_centre_does_not_cost_digits():
    rng = np.random.default_rng(0)
    y = rng.standard_normal((500, 8)) + 1e6
    np.testing.assert_array_equal(near_duplicates(y, k=3).indices, brute(y, y, 3, same=True)[1])


def test_within_one_set_nothing_is_its_own_neighbour():
    x = smooth_images(60, 2)
    x[7] = x[31]
    distances, numbers = near_duplicates(x, k=2)
    assert numbers[7, 0] == 31
    assert numbers[31, 0] == 7
    assert distances[7, 0] == 0
    assert (numbers != np.arange(60)[:, None]).all()


@pytest.mark.parametrize("metric", ["l2", "ssim", "features"])
def test_a_planted_near_duplicate_is_first(metric):
    rng = np.random.default_rng(3)
    y = smooth_images(400, 4)
    planted = rng.choice(400, 20, replace=False)
    x = np.clip(y[planted].astype(int) + rng.integers(-3, 4, (20, 16, 16, 3)), 0, 255).astype(np.uint8)
    found = near_duplicates(x, y, k=3, metric=metric)
    np.testing.assert_array_equal(found.indices[:, 0], planted)
    if metric == "ssim":
        assert found.recall is not None
        assert found.recall.n == 60
        assert 0.3 < found.recall.value <= 1


def test_features_find_what_changed_in_colour_scale():
    y = smooth_images(300, 5)
    x = (y[:10].astype(float) * 0.6 + 20).astype(np.uint8)
    np.testing.assert_array_equal(near_duplicates(x, y, k=1, metric="features").indices[:, 0], np.arange(10))


def test_recall_is_one_when_everything_is_let_through():
    x = smooth_images(40, 6)
    found = near_duplicates(x, k=5, metric="ssim", candidates=39, recall_queries=40)
    assert found.recall.value == 1.0
    exact = [[ssim(x[i : i + 1], x[j : j + 1])[0] for j in range(40)] for i in range(3)]
    for i in range(3):
        others = sorted(1 - exact[i][j] for j in range(40) if j != i)[:5]
        np.testing.assert_allclose(found.distances[i], others, atol=1e-6)


def direct_ssim(a, b, span, weights):
    """The definition, window by window."""
    size = len(weights)
    w = np.outer(weights, weights)
    n = size * size
    values = []
    for c in range(a.shape[2]):
        for i in range(a.shape[0] - size + 1):
            for j in range(a.shape[1] - size + 1):
                p, q = (z[i : i + size, j : j + size, c].astype(float) for z in (a, b))
                mp, mq = (w * p).sum(), (w * q).sum()
                vp, vq, vpq = ((w * s).sum() for s in ((p - mp) ** 2, (q - mq) ** 2, (p - mp) * (q - mq)))
                vp, vq, vpq = (v * n / (n - 1) for v in (vp, vq, vpq))
                c1, c2 = (0.01 * span) ** 2, (0.03 * span) ** 2
                values.append((2 * mp * mq + c1) * (2 * vpq + c2) / ((mp**2 + mq**2 + c1) * (vp + vq + c2)))
    return np.mean(values)


def ssim(a, b, **options):
    pairs = np.arange(len(a))
    return ssim_module.ssim_pairs(a, b, pairs, pairs, **options)


@pytest.mark.parametrize("kind", [np.uint8, np.float64, np.int32])
@pytest.mark.parametrize("shape", [(12, 15, 3), (11, 11, 1), (13, 12, 2)])
def test_ssim_is_its_definition(kind, shape):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 256, (2, *shape)).astype(kind) for _ in range(2))
    b[1] = a[1] // 2 + 90
    expected = [direct_ssim(p, q, 255.0, np.full(7, 1 / 7)) for p, q in zip(a, b, strict=True)]
    np.testing.assert_allclose(ssim(a, b, data_range=255.0), expected, atol=1e-6)


@pytest.mark.parametrize("flat", [0, 1, 254, 255])
def test_ssim_of_flat_and_extreme_images(flat):
    a = np.full((1, 16, 16, 3), flat, np.uint8)
    assert ssim(a, a)[0] == pytest.approx(1.0, abs=1e-6)
    b = a.copy()
    b[0, ::2] = 255 - flat
    assert ssim(a, b)[0] == pytest.approx(direct_ssim(a[0], b[0], 255.0, np.full(7, 1 / 7)), abs=1e-6)


def test_ssim_agrees_with_scikit_image():
    metrics = pytest.importorskip("skimage.metrics")
    a, b = smooth_images(10, 7), smooth_images(10, 8)
    expected = [metrics.structural_similarity(p, q, channel_axis=-1) for p, q in zip(a, b, strict=True)]
    np.testing.assert_allclose(ssim(a, b), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"metric": "cosine"}, "metric"),
        ({"k": 0}, "k"),
        ({"k": 6}, "k"),
        ({"references": np.zeros((5, 9, 8), np.uint8)}, ("queries", "references")),
        ({"queries": np.zeros((0, 8, 8))}, "queries"),
        ({"queries": np.full((5, 8, 8), np.nan)}, "queries"),
        ({"queries": np.zeros((5, 8)), "references": np.zeros((5, 8)), "metric": "ssim"}, "metric"),
    ],
)
def test_bad_input_is_refused(change, argument):
    arguments = {"queries": np.zeros((5, 8, 8), np.uint8), "references": np.zeros((5, 8, 8), np.uint8), "k": 2}
    with refused(argument):
        near_duplicates(**arguments | change)


def test_bad_images_for_ssim_are_refused():
    small = np.zeros((1, 6, 6), np.uint8)
    with refused("queries"):
        ssim(small, small)
    with refused("data_range"):
        ssim(np.zeros((1, 8, 8)), np.zeros((1, 8, 8)))


def test_ssim_on_a_few_windows_is_ssim_where_they_are_all_there_are():
    x = np.random.default_rng(9).integers(0, 256, (70, 9, 9), dtype=np.uint8)  # 3×3 windows
    every = np.arange(70)
    alike = ssim_module.ssim_pairs(x, x, np.repeat(every, 70), np.tile(every, 70)).reshape(70, 70)
    np.fill_diagonal(alike, -2)
    truth = np.sort(np.argsort(-alike, axis=1)[:, :5], axis=1)
    np.testing.assert_array_equal(np.sort(ssim_module.most_similar(x, x, 5, same=True), axis=1), truth)


def test_ssim_on_a_few_windows_in_pieces_of_the_references(monkeypatch):
    x, y = smooth_images(70, 10), smooth_images(90, 11)
    whole = np.sort(ssim_module.most_similar(x, y, 20), axis=1)
    monkeypatch.setattr(ssim_module, "_HELD", 16)
    monkeypatch.setattr(ssim_module, "_REFERENCES_AT_ONCE", 7)
    np.testing.assert_array_equal(np.sort(ssim_module.most_similar(x, y, 20), axis=1), whole)


def test_close_pairs_are_found_and_counted():
    rng = np.random.default_rng(12)
    y = smooth_images(600, 13)
    planted = rng.choice(600, 30, replace=False)
    noise = rng.normal(0, 12, (30, 16, 16, 3))
    x = np.clip(np.roll(y[planted], 1, axis=2) * 0.8 + 10 + noise, 0, 255).astype(np.uint8)
    found = near_duplicates(x, y, k=5, metric="ssim", candidates=10, recall_queries=30)
    close = 1 - ssim_table(x, y) <= 1 - 0.6
    wanted = sum(min(5, int(row.sum())) for row in close)
    assert wanted >= 10
    assert found.close_recall.n == wanted
    assert found.close_recall.value >= 0.95
    assert (1 - found.distances[found.distances <= 0.4] >= 0.6).all()
    assert near_duplicates(x, 255 - y, k=5, metric="ssim", recall_queries=5).close_recall is None


def ssim_table(x, y):
    rows, others = np.repeat(np.arange(len(x)), len(y)), np.tile(np.arange(len(y)), len(x))
    return ssim_module.ssim_pairs(x, y, rows, others).reshape(len(x), len(y))


def test_rows_without_structure_are_compared_by_products_also_among_themselves():
    shape = 2, 4 * nearest_module._SAMPLE, 2 * nearest_module._DIRECTIONS[0]
    x, other = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    assert nearest_module._cheapest_distance_bounds(other, x, x.mean(axis=0), 1, same=False).basis is None
    # A row finds itself at distance 0, which must not make loose bounds look tight.
    assert nearest_module._cheapest_distance_bounds(x, x, x.mean(axis=0), 1, same=True).basis is None
