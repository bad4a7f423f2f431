import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import bootstrap as scipy_bootstrap
from tests.testbed.helpers import counts_table

from hardpan import Outcomes, files, stats, testbed
from hardpan.errors import InputError
from hardpan.stats import lines
from hardpan.testbed.sets import SetScores

RNG = np.random.default_rng(0)
ORIGINAL = np.sort(RNG.uniform(0.6, 0.95, 40))
NEW = 1.3 * ORIGINAL - 0.35 + RNG.normal(0, 0.01, 40)


def test_agrees_with_polyfit_and_numpy_quantiles() -> None:
    fit = testbed.fit_line(ORIGINAL, NEW, bootstrap=20_000, seed=1)
    np.testing.assert_allclose([fit.slope.value, fit.offset.value], np.polyfit(ORIGINAL, NEW, 1), rtol=1e-10)
    assert fit.r2 == pytest.approx(np.corrcoef(ORIGINAL, NEW)[0, 1] ** 2)
    assert (fit.n, fit.scale, fit.resample) == (40, "linear", "models")
    expected = np.quantile(fit.draws, [0.025, 0.975], axis=0)
    np.testing.assert_allclose([[fit.slope.low, fit.offset.low], [fit.slope.high, fit.offset.high]], expected)
    assert fit.slope.low < 1.3 < fit.slope.high


def test_interval_matches_a_loop_of_polyfit() -> None:
    rng = np.random.default_rng(5)
    loop = []
    for _ in range(2000):
        rows = rng.integers(0, 40, 40)
        loop.append(np.polyfit(ORIGINAL[rows], NEW[rows], 1))
    fit = testbed.fit_line(ORIGINAL, NEW, bootstrap=40_000)
    low, high = np.quantile(loop, [0.025, 0.975], axis=0)
    width = fit.slope.high - fit.slope.low
    assert abs(fit.slope.low - low[0]) < 0.08 * width
    assert abs(fit.slope.high - high[0]) < 0.08 * width


@pytest.mark.parametrize("scale", ["linear", "probit", "logit"])
def test_an_exact_line_is_found_on_every_scale(scale: str) -> None:
    new = lines.from_scale(0.9 * lines.to_scale(ORIGINAL, scale) - 0.2, scale)  # type: ignore[arg-type]
    fit = testbed.fit_line(ORIGINAL, np.clip(new, 0, 1), scale=scale, bootstrap=500)
    assert fit.slope.value == pytest.approx(0.9, abs=1e-9)
    assert fit.offset.value == pytest.approx(-0.2, abs=1e-9)
    assert fit.r2 == pytest.approx(1.0)
    np.testing.assert_allclose(fit.predict(ORIGINAL), new, atol=1e-9)
    low, high = fit.band(ORIGINAL)
    np.testing.assert_allclose(low, new, atol=1e-9)
    np.testing.assert_allclose(high, new, atol=1e-9)


def test_band_holds_the_line_and_is_narrowest_inside() -> None:
    fit = testbed.fit_line(ORIGINAL, NEW, scale="probit", bootstrap=5000)
    x = np.linspace(0.5, 0.99, 200).reshape(2, 100)
    low, high = fit.band(x)
    line = fit.predict(x)
    assert low.shape == (2, 100)
    assert (low <= line).all()
    assert (line <= high).all()
    at = [float(np.diff(np.array(fit.band(v)).ravel())[0]) for v in (0.61, 0.8, 0.94)]
    assert at[1] < at[0]
    error = fit.prediction_error([0.8])[0]
    assert error == pytest.approx(at[1] / (2 * 1.96), rel=0.1)


def test_levels() -> None:
    wide = testbed.fit_line(ORIGINAL, NEW, bootstrap=20_000, confidence=0.99)
    plain = testbed.fit_line(ORIGINAL, NEW, bootstrap=20_000)
    assert wide.slope.low < plain.slope.low


def test_intervals_agree_with_scipy() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 0.95, 40)
    y = 1.3 * x - 0.37 + rng.exponential(0.02, 40)

    def slope(a: np.ndarray, b: np.ndarray, axis: int = -1) -> np.ndarray:
        centred = a - a.mean(axis=axis, keepdims=True)
        return (centred * b).sum(axis=axis) / (centred**2).sum(axis=axis)

    theirs = scipy_bootstrap(
        (x, y), slope, paired=True, vectorized=True, n_resamples=30_000, method="percentile", rng=rng
    ).confidence_interval
    ours = testbed.fit_line(x, y, bootstrap=30_000).slope
    width = theirs.high - theirs.low
    assert abs(ours.low - theirs.low) < 0.03 * width
    assert abs(ours.high - theirs.high) < 0.03 * width


def test_seeds_and_json() -> None:
    one, same, other = (testbed.fit_line(ORIGINAL, NEW, bootstrap=3000, seed=seed) for seed in (1, 1, 2))
    assert one.slope == same.slope
    assert one.slope.low != other.slope.low
    again = files.from_json(files.to_json(one))
    assert again.slope == one.slope
    with pytest.raises(InputError, match="draws"):
        again.band(0.8)
    assert again.predict(0.8) == one.predict(0.8)


def test_three_models_leave_out_degenerate_resamples() -> None:
    fit = testbed.fit_line([0.5, 0.6, 0.7], [0.4, 0.5, 0.65], bootstrap=2000)
    assert np.isfinite([fit.slope.low, fit.slope.high]).all()
    assert "were left out" in fit.slope.notes[0]


def simulated() -> tuple[Outcomes, Outcomes]:
    return testbed.simulate(np.linspace(0.5, 3.0, 25), examples=(4000, 2000), seed=3)


def test_redrawing_examples_matches_really_redrawing_them() -> None:
    first, second = simulated()
    rng = np.random.default_rng(0)
    slopes = []
    for _ in range(400):
        rows = rng.integers(0, 4000, 4000), rng.integers(0, 2000, 2000)
        x, y = first.scores[:, rows[0]].mean(axis=1), second.scores[:, rows[1]].mean(axis=1)
        slopes.append(float(stats.fit_lines(ndtri(x), ndtri(y))[0]))
    fit = testbed.fit_line(first, second, scale="probit", bootstrap=4000)
    assert fit.resample == "examples"
    assert fit.slope.stderr == pytest.approx(np.std(slopes), rel=0.12)
    assert np.std(fit.draws[:, 0]) == pytest.approx(fit.slope.stderr, rel=0.05)


def test_noise_in_x_is_corrected() -> None:
    """Alike models on one population twice: least squares finds too low a slope, the correction finds 1."""
    plain, corrected, covered = [], [], 0
    for seed in range(80):
        pair = testbed.simulate(
            np.linspace(2.0, 2.35, 20), examples=(2000, 2000), mu=(0, 0), sigma=(1, 1), seed=seed
        )
        plain.append(testbed.fit_line(*pair, resample="models", bootstrap=2).slope.value)
        slope = testbed.fit_line(*pair, bootstrap=2).slope
        corrected.append(slope.value)
        covered += slope.low <= 1 <= slope.high
    assert np.median(plain) < 0.9
    assert np.median(corrected) == pytest.approx(1.0, abs=0.06)
    assert covered >= 68  # the lower end of the 99.9 % binomial region of 95 %


def test_counts_give_a_wider_bound() -> None:
    pair = simulated()
    totals = np.broadcast_to([4000, 2000], (25, 2))
    counts = Outcomes(
        np.stack([item.scores.mean(axis=1) for item in pair], axis=1),
        pair[0].models,
        np.array(["original", "new"]),
        totals=totals,
    )
    exact, bound = testbed.fit_line(*pair, bootstrap=100), testbed.fit_line(counts, bootstrap=100)
    assert bound.slope.low < exact.slope.low < exact.slope.high < bound.slope.high


def test_both_is_wider_than_either() -> None:
    fits = {
        kind: testbed.fit_line(*simulated(), bootstrap=4000, resample=kind)
        for kind in ("models", "examples", "both")
    }
    assert fits["both"].slope.stderr > fits["examples"].slope.stderr
    assert fits["both"].slope.stderr > fits["models"].slope.stderr


def test_covariance_of_shared_examples() -> None:
    right = (RNG.random((5, 9000)) < 0.7).astype(float)
    side = SetScores("s", right.mean(axis=1), np.full(5, 9000), right)
    expected = np.cov(right, bias=True) / 9000
    np.testing.assert_allclose(side.covariance(), expected, atol=1e-12)
    weights = RNG.normal(size=(2, 5))
    np.testing.assert_allclose(side.combined(weights), weights @ expected @ weights.T, atol=1e-12)
    assert side.mean_variance() == pytest.approx(expected.mean())
    assert side.noise(np.ones(5)) == pytest.approx(np.trace(expected) - expected.sum() / 5, rel=1e-6)


def test_ends_have_a_place_when_totals_are_known() -> None:
    table = counts_table(list("abcd"), [10, 9, 8, 7], 10, [10, 8, 7, 0], 10)
    fit = testbed.compare(table, scale="probit", bootstrap=500, resample="models").fit
    assert np.isfinite(fit.slope.value)
    with pytest.raises(InputError, match="original"):
        testbed.fit_line([1.0, 0.9, 0.8], [0.9, 0.8, 0.7], scale="probit")


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"original": [90, 80, 70]}, "original"),
        ({"original": [0.9, 0.8]}, ("original", "new")),
        ({"original": [0.9, 0.9, 0.9]}, "original"),
        ({"original": [0.9, np.nan, 0.8]}, "original"),
        ({"original": "accuracies"}, "original"),
        ({"scale": "log"}, "scale"),
        ({"bootstrap": 0}, "bootstrap"),
        ({"resample": "labels"}, "resample"),
        ({"resample": "examples"}, "resample"),
    ],
)
def test_refusals(given: dict[str, object], argument: str | tuple[str, str]) -> None:
    arguments: dict[str, object] = {"original": [0.9, 0.8, 0.7], "new": [0.8, 0.7, 0.6]} | given
    original, new = arguments.pop("original"), arguments.pop("new")
    with pytest.raises(InputError) as caught:
        testbed.fit_line(original, new, **arguments)  # type: ignore[arg-type]
    assert caught.value.argument == argument


def test_probit_prediction_is_a_probability() -> None:
    fit = testbed.fit_line(ORIGINAL, NEW, scale="probit", bootstrap=200)
    expected = ndtr(fit.offset.value + fit.slope.value * ndtri(0.999))
    assert float(fit.predict(0.999)) == pytest.approx(float(expected))
