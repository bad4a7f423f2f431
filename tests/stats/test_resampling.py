import numpy as np
import pytest
from scipy import stats as scipy_stats
from tests.refusals import refused

from hardpan import stats
from hardpan.stats import resampling


def mean(means: np.ndarray) -> np.ndarray:
    return means[:, 0]


def test_counts_sum_to_the_sample_and_are_multinomial() -> None:
    counts = np.concatenate(list(resampling.resample_counts(7, 20_000, seed=3)))
    assert counts.shape == (20_000, 7)
    assert (counts.sum(axis=1) == 7).all()
    # A cell of a multinomial with 7 draws over 7 cells has mean 1 and variance 6/7.
    assert abs(counts.mean(axis=0) - 1).max() < 5 * np.sqrt(6 / 7 / 20_000)
    assert abs(counts.var() - 6 / 7) < 0.02


def test_blocks_bound_memory_and_do_not_depend_on_the_number_asked_for() -> None:
    assert max(resampling.block_sizes(60_000, 1000)) * 60_000 <= resampling.BLOCK_CELLS
    few = next(iter(resampling.resample_counts(50, 4096)))
    many = next(iter(resampling.resample_counts(50, 10_000)))
    np.testing.assert_array_equal(few, many)


def test_many_rows_are_reached() -> None:
    counts = np.concatenate(list(resampling.resample_counts(70_000, 3)))
    assert counts.sum() == 3 * 70_000
    assert counts[:, 65_536:].sum() > 0


def test_standard_error_of_a_mean_is_the_plug_in_one() -> None:
    sample = np.random.default_rng(0).normal(size=200)
    estimate = stats.bootstrap(sample, mean, resamples=40_000)
    assert estimate.stderr == pytest.approx(sample.std() / np.sqrt(200), rel=0.02)
    assert estimate.value == pytest.approx(sample.mean())
    assert estimate.low < estimate.value < estimate.high


def test_agrees_with_scipy_on_a_skewed_sample() -> None:
    sample = np.random.default_rng(1).exponential(size=60)
    ours = stats.bootstrap(sample, mean, resamples=60_000, seed=2)
    theirs = scipy_stats.bootstrap(
        (sample,), np.mean, n_resamples=60_000, method="percentile", rng=np.random.default_rng(5), vectorized=True
    ).confidence_interval
    assert ours.low == pytest.approx(theirs.low, abs=0.01)
    assert ours.high == pytest.approx(theirs.high, abs=0.01)


def test_nan_draws_are_left_out() -> None:
    draws = np.array([[1.0, np.nan], [2.0, 5.0], [3.0, 5.0]])
    low, high = resampling.percentile_interval(draws, 0.5)
    assert low.tolist() == [1.5, 5.0]
    assert high.tolist() == [2.5, 5.0]


def test_same_seed_same_result() -> None:
    sample = np.random.default_rng(0).normal(size=30)
    assert stats.bootstrap(sample, mean, seed=4) == stats.bootstrap(sample, mean, seed=4)
    assert stats.bootstrap(sample, mean, seed=4).low != stats.bootstrap(sample, mean, seed=5).low


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"columns": [1.0]}, "columns"),
        ({"columns": [1.0, np.nan]}, "columns"),
        ({"resamples": 1}, "resamples"),
        ({"confidence": 0}, "confidence"),
    ],
)
def test_refusals(change: dict[str, object], argument: str) -> None:
    arguments: dict[str, object] = {"columns": [1.0, 2.0, 3.0], "statistic": mean} | change
    with refused(argument):
        stats.bootstrap(**arguments)  # type: ignore[arg-type]
