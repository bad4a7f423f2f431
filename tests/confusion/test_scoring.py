"""Confusion scores: closed forms, invariances, agreement with SciPy, the same bits wherever they are computed."""

import numpy as np
import pytest
from scipy import stats as scipy_stats
from scipy.special import entr
from tests.confusion.planted import random_probs

import hardpan
from hardpan import confusion, files
from hardpan.confusion import row_tasks
from hardpan.errors import InputError
from hardpan.predictions import Predictions
from hardpan.stats.resampling import block_bootstrap_variance, jackknife_variance


@pytest.fixture(params=["numba", "numpy"])
def kernel(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(row_tasks, "COMPILED", ())


def by_scipy(probs):
    """The definition, in double precision."""
    return (entr(probs.astype(np.float64).mean(axis=0)).sum(axis=-1) / np.log(2)).mean(axis=0)


def test_closed_forms():
    sure = np.zeros((2, 3, 4, 8))
    sure[..., 0] = 1.0
    assert np.asarray(confusion.scores(sure)).tolist() == [0.0] * 4
    uniform = np.full((2, 3, 4, 8), 1 / 8)
    assert np.asarray(confusion.scores(uniform)).tolist() == [3.0] * 4
    assert np.allclose(confusion.scores(uniform, base=8).values, 1.0, rtol=1e-15)
    # Two sure seeds that disagree confuse by one bit; averaged over epochs of which half agree, by half a bit.
    split = np.zeros((2, 2, 1, 4))
    split[0, :, 0, 0] = 1.0
    split[1, 0, 0, 1] = split[1, 1, 0, 0] = 1.0
    assert confusion.scores(split).values.tolist() == [0.5]


@pytest.mark.parametrize(("dtype", "close"), [(np.float16, 2e-6), (np.float32, 2e-6), (np.float64, 1e-13)])
@pytest.mark.parametrize("classes", [2, 10, 33, 1000])
@pytest.mark.usefixtures("kernel")
def test_agrees_with_scipy_on_the_mean(dtype, close, classes):
    probs = random_probs(3, 2, 50, classes, dtype=dtype)
    found = confusion.scores(probs)
    assert found.values.dtype == np.float64
    assert np.abs(found.values - by_scipy(probs)).max() < close * max(1.0, np.log2(classes))


def test_every_half_precision_number_is_decoded():
    numbers = np.arange(0x3C01, dtype=np.uint16).view(np.float16)  # 0 to 1, with all subnormals
    probs = np.stack([numbers, (1 - numbers.astype(np.float64)).astype(np.float16)], axis=-1)
    found = confusion.scores(probs)
    exact = (entr(probs.astype(np.float64)).sum(axis=-1)) / np.log(2)
    assert np.abs(found.values - exact).max() < 3e-7


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("block", "epochs"), [(1, 1), (5, 2), (16, 3), (22, 9)])
def test_the_same_bits_for_any_block(monkeypatch, block, epochs, dtype):
    probs = random_probs(2, epochs, 23, 7, dtype=dtype, seed=epochs)
    whole = confusion.scores(probs, stderr=True)
    monkeypatch.setattr(row_tasks, "ROWS", block)
    parts = confusion.scores(probs, stderr=True)
    for name in ("values", "stderr", "stderr_seeds", "stderr_epochs", "left_out"):
        first, second = getattr(whole, name), getattr(parts, name)
        assert (first is None and second is None) or np.array_equal(first, second), name
    alone = confusion.scores(probs[:, :, 5:6])
    assert alone.values[0] == whole.values[5]


@pytest.mark.parametrize("backend", ["threads", "processes"])
def test_the_same_bits_on_any_back_end_and_from_a_store(tmp_path, backend):
    probs = random_probs(3, 4, 60, 10, dtype=np.float16)
    kept = Predictions.create(tmp_path / "s", ids=[f"e{i}" for i in range(60)], n_classes=10, block=16)
    for seed in range(3):
        for epoch in range(4):
            kept.write(seed, epoch, probs[seed, epoch])
    whole = confusion.scores(probs).values
    with hardpan.parallel(backend, workers=2):
        assert np.array_equal(confusion.scores(probs).values, whole)
        assert np.array_equal(confusion.scores(kept).values, whole)
        assert np.array_equal(confusion.scores(str(tmp_path / "s")).values, whole)
        assert np.array_equal(confusion.scores(Predictions.from_arrays(probs)).values, whole)
    assert confusion.scores(kept).ids[3] == "e3"


def test_order_of_seeds_epochs_examples_and_classes_does_not_matter():
    probs = random_probs(3, 4, 30, 6)
    whole = confusion.scores(probs).values
    rng = np.random.default_rng(0)
    for axis in (0, 1, 3):
        moved = np.take(probs, rng.permutation(probs.shape[axis]), axis=axis)
        assert np.allclose(confusion.scores(moved).values, whole, rtol=1e-13)
    order = rng.permutation(30)
    assert np.array_equal(confusion.scores(probs[:, :, order]).values, whole[order])


def test_mean_over_seeds_comes_before_entropy_and_epochs_after():
    probs = random_probs(3, 5, 20, 4)
    whole = confusion.scores(probs).values
    seeds = np.mean([confusion.scores(probs, seeds=[seed]).values for seed in range(3)], axis=0)
    assert (whole > seeds).all()  # entropy is concave
    epochs = np.mean([confusion.scores(probs, epochs=[epoch]).values for epoch in range(5)], axis=0)
    assert np.allclose(whole, epochs, rtol=1e-13)


def test_choice_of_epochs_and_seeds():
    probs = random_probs(3, 7, 10, 4)
    assert confusion.scores(probs, epochs=3).epochs == (0, 3, 6)
    assert np.array_equal(confusion.scores(probs, epochs=3).values, confusion.scores(probs[:, ::3]).values)
    assert np.array_equal(confusion.scores(probs, seeds=[2]).values, confusion.scores(probs[2:]).values)
    three, two = probs[0], probs[0, 0]
    assert np.array_equal(confusion.scores(three).values, confusion.scores(probs[:1]).values)
    assert np.array_equal(confusion.scores(two).values, confusion.scores(probs[:1, :1]).values)


def test_arrays_in_any_layout():
    probs = random_probs(2, 3, 20, 5, dtype=np.float16)
    whole = confusion.scores(probs).values
    turned = np.asfortranarray(probs)
    assert np.array_equal(confusion.scores(turned).values, whole)
    padded = np.zeros((2, 3, 40, 5), dtype=np.float16)
    padded[:, :, ::2] = probs
    assert np.array_equal(confusion.scores(padded[:, :, ::2]).values, whole)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("value", "said"), [(np.nan, "NaN"), (-0.5, "-0.5"), (3.0, "sum")])
def test_rows_that_are_not_probabilities_are_refused_by_number(monkeypatch, value, said, dtype):
    probs = random_probs(2, 2, 9, 4).astype(dtype)
    probs[1, 1, 5, 2] = value
    monkeypatch.setattr(row_tasks, "ROWS", 4)
    with pytest.raises(InputError, match=said):
        confusion.scores(probs)


@pytest.mark.parametrize(
    ("probs", "options", "said"),
    [
        (np.zeros(4), {}, "probs"),
        (np.zeros((2, 3), dtype=complex), {}, "probs"),
        (random_probs(1, 3, 4, 2), {"epochs": "some"}, "epochs"),
        (random_probs(1, 3, 4, 2), {"epochs": 0}, "epochs"),
        (random_probs(1, 3, 4, 2), {"epochs": [7]}, "epochs"),
        (random_probs(1, 3, 4, 2), {"seeds": [1]}, "seeds"),
        (random_probs(1, 3, 4, 2), {"base": 1}, "base"),
        (random_probs(1, 3, 4, 2), {"ids": ["a", "a", "b", "c"]}, "ids"),
        (random_probs(1, 3, 4, 2), {"labels": [0, 1, 2, 0]}, "labels"),
    ],
)
def test_bad_input_is_refused_in_words(probs, options, said):
    with pytest.raises(InputError, match=said):
        confusion.scores(probs, **options)


def test_jackknife_is_the_variance_of_a_mean():
    x = np.random.default_rng(0).normal(size=(6, 40))
    left_out = (x.sum(axis=0) - x) / 5
    assert np.allclose(jackknife_variance(left_out), x.var(axis=0, ddof=1) / 6)


def test_block_bootstrap_needs_no_draws():
    rng = np.random.default_rng(1)
    curve = np.cumsum(rng.normal(size=20))
    length = 3  # the cube root of 20
    starts = rng.integers(0, 20, size=(200_000, 20 // length + 1))
    picked = (starts[..., None] + np.arange(length)) % 20
    means = curve[picked].mean(axis=2)[:, :1].mean(axis=1)
    expected = means.var() * length / 20
    assert abs(block_bootstrap_variance(curve[:, None])[0] / expected - 1) < 0.02


def test_standard_errors_cover_what_other_seeds_would_say():
    # Seeds are draws around each example's own probabilities; the spread over ensembles is what stderr says.
    rng = np.random.default_rng(2)
    truth = rng.dirichlet(np.ones(5), size=200)
    runs, stderrs = [], []
    for _ in range(60):
        probs = np.stack([[rng.dirichlet(40 * p) for p in truth] for _ in range(4)])[:, None]
        found = confusion.scores(probs, stderr=True)
        runs.append(found.values)
        stderrs.append(found.stderr)
    ratio = np.sqrt(np.mean(np.square(stderrs))) / np.sqrt(np.mean(np.var(runs, axis=0, ddof=1)))
    assert 0.85 < ratio < 1.25


def test_stability_tells_steady_from_shaky():
    rng = np.random.default_rng(3)
    own = rng.dirichlet(np.ones(4), size=300)
    steady = np.stack([own] * 3)[:, None] * np.ones((1, 6, 1, 1))
    found = confusion.stability(confusion.scores(steady, stderr=True))
    assert found.tau.value == pytest.approx(1.0)
    shaky = confusion.stability(confusion.scores(rng.dirichlet(np.ones(4), size=(3, 1, 300)), stderr=True))
    assert shaky.tau.value < 0.8
    with pytest.raises(InputError, match="stderr"):
        confusion.stability(confusion.scores(steady))


def test_pages_show_bits_whatever_the_base():
    probs = random_probs(2, 3, 40, 8)
    bits, nats = confusion.scores(probs, stderr=True), confusion.scores(probs, base=np.e, stderr=True)
    assert np.allclose(nats.values, bits.values * np.log(2))
    assert np.allclose(nats.in_bits().stderr, bits.stderr)
    assert nats.in_bits().largest == bits.largest == 3.0
    assert confusion.summarize(nats).headline == confusion.summarize(bits).headline


def test_byte_order_does_not_matter():
    probs = random_probs(2, 3, 10, 4, dtype=np.float16)
    assert np.array_equal(confusion.scores(probs.astype(">f2")).values, confusion.scores(probs).values)


def test_scores_survive_the_disk(tmp_path):
    probs = random_probs(2, 3, 1200, 4)
    found = confusion.scores(probs, stderr=True, labels=np.arange(1200) % 4)
    found.save(tmp_path)
    back = confusion.load_scores(tmp_path)
    assert np.array_equal(back.values, found.values)
    assert back.sha256 == found.sha256
    assert (tmp_path / "scores.csv").read_text().splitlines()[0] == "id,score,stderr,label"
    assert isinstance(files.load(tmp_path / "scores" / "scores.json"), confusion.Scores)
    assert confusion.load_scores(tmp_path / "nothing") is None


def test_workers_that_live_on_see_what_was_recorded_since(tmp_path):
    probs = random_probs(1, 3, 40, 5, dtype=np.float16)
    made = Predictions.create(tmp_path / "run", ids=[str(row) for row in range(40)], n_classes=5, block=10)
    for epoch in range(3):
        made.write(0, epoch, probs[0, epoch])
        found = confusion.scores(tmp_path / "run")
        assert found.epochs == tuple(range(epoch + 1))
        np.testing.assert_array_equal(found.values, confusion.scores(probs[:, : epoch + 1]).values)


def test_intervals_are_students_t_over_seeds():
    probs = random_probs(3, 4, 50, 5)
    found = confusion.scores(probs, stderr=True)
    low, high = found.interval(0.9)
    width = scipy_stats.t(2).ppf(0.95) * found.stderr
    assert np.allclose(high, np.minimum(found.values + width, found.largest))
    assert np.allclose(low, np.maximum(found.values - width, 0))
    one = confusion.scores(probs[:1], stderr=True)
    assert np.allclose(one.interval()[1], np.minimum(one.values + 1.959964 * one.stderr, one.largest))
    with pytest.raises(InputError, match="stderr"):
        confusion.scores(probs).interval()


def test_the_corrected_interval_covers_the_score_of_many_seeds():
    rng = np.random.default_rng(4)
    truth = rng.dirichlet(np.ones(5), size=400)
    many = -(truth * np.log2(truth)).sum(axis=1)  # the mean of many seeds is each example's own distribution
    probs = np.stack([[rng.dirichlet(4 * p) for p in truth] for _ in range(4)])[:, None]
    found = confusion.scores(probs, stderr=True)
    low, high = found.interval(0.95, many_seeds=True)
    assert np.mean((low <= many) & (many <= high)) > 0.88
    # The score of four seeds is too low on average; the centre of the corrected interval is not.
    corrected = 4 * found.values - 3 * found.left_out.mean(axis=0)
    assert abs((corrected - many).mean()) < 0.3 * abs((found.values - many).mean())


def test_every_kth_epoch_needs_as_many():
    probs = random_probs(1, 3, 20, 4)
    assert confusion.scores(probs, epochs=3).epochs == (0,)
    with pytest.raises(InputError) as caught:
        confusion.scores(probs, epochs=4)
    assert caught.value.argument == "epochs"
