"""Redrawn accuracies have the mean and the covariance that they should, each side its own."""

import numpy as np
import pytest

from hardpan import testbed
from hardpan.testbed.redraw import Sampling, sampling_of

COUNTS = Sampling(*(np.array(row) for row in ([90, 0, 50], [100, 100, 100], [30, 7, 40], [50, 7, 80])))


def outcomes() -> testbed.Outcomes:
    return testbed.simulate([0.0, 0.5, 1.0], examples=(400, 150), seed=3)


def test_variances_of_counts_are_binomial_and_never_zero() -> None:
    assert COUNTS.variance("original") == pytest.approx([0.9 * 0.1 / 100, 0.01 * 0.99 / 100, 0.5 * 0.5 / 100])
    inside = 6 / 7  # all of seven right: the variance of six
    assert COUNTS.variance("new") == pytest.approx([0.6 * 0.4 / 50, inside * (1 - inside) / 7, 0.5 * 0.5 / 80])


def test_models_that_share_examples_have_the_covariance_of_a_mean() -> None:
    table = outcomes()
    found = sampling_of(table)
    for side, right in (("original", table.original), ("new", table.new)):
        expected = np.cov(right.astype(float), ddof=0) / right.shape[1]
        assert found.variance(side) == pytest.approx(expected, abs=1e-12)  # type: ignore[arg-type]
    kept = np.array([True, False, True])
    part = found.take(kept)
    for side in ("original", "new"):
        whole = found.variance(side)  # type: ignore[arg-type]
        assert part.variance(side) == pytest.approx(whole[np.ix_(kept, kept)])  # type: ignore[arg-type]
    assert part.new_correct.tolist() == found.new_correct[kept].tolist()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("side", ["original", "new"])
def test_draws_have_the_mean_and_the_covariance(shared: bool, side: str) -> None:
    table = outcomes()
    found = sampling_of(table if shared else table.counts())
    drawn = found.draw(side, 40_000, np.random.default_rng(0))  # type: ignore[arg-type]
    right = table.original if side == "original" else table.new
    spread = np.cov(right.astype(float), ddof=0) / right.shape[1]
    expected = spread if shared else np.diag(np.diag(spread))
    assert drawn.mean(axis=0) == pytest.approx(right.mean(axis=1), abs=4 * np.sqrt(spread.max() / 40_000))
    assert np.cov(drawn.T) == pytest.approx(expected, abs=0.04 * spread.max())


def test_draws_stay_half_an_example_inside() -> None:
    drawn = COUNTS.draw("original", 2000, np.random.default_rng(0))
    assert (drawn[:, 1] == 0.005).all()
    assert COUNTS.draw("new", 2000, np.random.default_rng(0))[:, 1].max() == pytest.approx(1 - 0.5 / 7)
