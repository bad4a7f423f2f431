import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.refusals import refused

from hardpan import stats
from hardpan.stats import lines, resampling
from hardpan.stats.lines import check_scale, scale_derivative


def points(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.3, 0.9, n)
    return x, 1.1 * x - 0.2 + rng.normal(0, 0.02, n)


def test_agrees_with_polyfit_and_the_correlation() -> None:
    x, y = points(40)
    slope, offset, r2 = stats.fit_lines(x, y)
    np.testing.assert_allclose([slope, offset], np.polyfit(x, y, 1), rtol=1e-12)
    assert float(r2) == pytest.approx(np.corrcoef(x, y)[0, 1] ** 2, rel=1e-12)


def test_weights_count_as_repeats() -> None:
    x, y = points(10)
    repeats = np.array([0, 1, 2, 0, 3, 1, 1, 1, 0, 1])
    weighted = stats.fit_lines(x, y, repeats)
    repeated = stats.fit_lines(np.repeat(x, repeats), np.repeat(y, repeats))
    np.testing.assert_allclose(weighted, repeated, rtol=1e-12)


def test_many_lines_at_once() -> None:
    x, y = points(60)
    slopes, offsets, _ = stats.fit_lines(x.reshape(3, 20), y.reshape(3, 20))
    for row in range(3):
        np.testing.assert_allclose(
            [slopes[row], offsets[row]],
            np.polyfit(x.reshape(3, 20)[row], y.reshape(3, 20)[row], 1),
            rtol=1e-11,
        )


def test_bootstrap_lines_are_lines_of_resamples() -> None:
    x, y = points(12)
    draws = lines.bootstrap_lines(x, y, resamples=50, seed=7)
    counts = np.concatenate(list(resampling.resample_counts(12, 50, seed=7))).astype(int)
    for draw, count in zip(draws, counts, strict=True):
        np.testing.assert_allclose(draw, np.polyfit(np.repeat(x, count), np.repeat(y, count), 1), rtol=1e-9)


def test_a_resample_of_one_point_has_no_line() -> None:
    slope, offset, r2 = stats.fit_lines([0.4, 0.4, 0.4], [0.1, 0.2, 0.3])
    assert np.isnan([slope, offset, r2]).all()
    draws = lines.bootstrap_lines([0.1, 0.2, 0.9], [0.1, 0.3, 0.2], resamples=2000)
    share = np.isnan(draws[:, 0]).mean()
    assert share == pytest.approx(1 / 9, abs=0.03)


@given(
    arrays(np.float64, 8, elements=st.floats(0, 1, width=32), unique=True),
    arrays(np.float64, 8, elements=st.floats(0, 1, width=32)),
    st.floats(0.1, 10),
    st.floats(-5, 5),
)
def test_shifting_and_stretching_y_moves_the_line_along(
    x: np.ndarray, y: np.ndarray, factor: float, shift: float
) -> None:
    slope, offset, _ = stats.fit_lines(x, y)
    moved_slope, moved_offset, _ = stats.fit_lines(x, factor * y + shift)
    np.testing.assert_allclose(moved_slope, factor * slope, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(moved_offset, factor * offset + shift, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", ["linear", "probit", "logit"])
def test_scales_round_trip_and_have_their_derivatives(scale: str) -> None:
    kind = check_scale(scale)
    p = np.linspace(0.01, 0.99, 50)
    z = lines.to_scale(p, kind)
    np.testing.assert_allclose(lines.from_scale(z, kind), p, rtol=1e-12)
    step = 1e-6
    slope = (lines.from_scale(z + step, kind) - lines.from_scale(z - step, kind)) / (2 * step)
    np.testing.assert_allclose(scale_derivative(z, kind), slope, rtol=1e-7)


def test_unknown_scale_is_refused() -> None:
    with refused("scale"):
        check_scale("log")
