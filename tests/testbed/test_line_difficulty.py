import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.testbed.helpers import expected_accuracies, simulate_counts

from hardpan import testbed
from hardpan.errors import InputError

numbers = st.floats(-3, 3)
spreads = st.floats(0, 4)


@given(numbers, spreads, numbers, spreads)
def test_line_and_difficulty_are_inverse(mu: float, sigma: float, new_mu: float, new_sigma: float) -> None:
    u, v = testbed.line_from_difficulty(mu, sigma, new_mu, new_sigma)
    back_mu, back_sigma = testbed.difficulty_from_line(u, v, sigma, mu)
    assert float(back_mu) == pytest.approx(new_mu, abs=1e-6)
    # Near 0 the square root of a rounding error is left.
    if new_sigma > 1e-3:
        assert float(back_sigma) == pytest.approx(new_sigma, rel=1e-6)


def test_expected_accuracies_lie_on_the_probit_line() -> None:
    from scipy.special import ndtri

    first, second = expected_accuracies(np.linspace(-2, 3, 20), mu=(0.1, 0.6), sigma=(0.8, 1.5))
    u, v = testbed.line_from_difficulty(0.1, 0.8, 0.6, 1.5)
    np.testing.assert_allclose(ndtri(second), u * ndtri(first) + v, atol=1e-12)


def test_simulated_accuracies_approach_the_expected_ones() -> None:
    skills = np.linspace(0, 2, 5)
    outcomes = testbed.simulate(skills, examples=(40_000, 30_000), seed=1)
    accuracies = [item.scores.mean(axis=1) for item in outcomes]
    expected = expected_accuracies(skills)
    assert abs(accuracies[0] - expected[0]).max() < 4 * 0.5 / np.sqrt(40_000)
    assert abs(accuracies[1] - expected[1]).max() < 4 * 0.5 / np.sqrt(30_000)


def test_fit_recovers_the_new_set() -> None:
    outcomes = testbed.simulate(np.linspace(-1, 3.5, 60), examples=(20_000, 20_000), seed=2)
    report = testbed.compare(*outcomes, scale="probit", resample="examples", bootstrap=2000)
    found = testbed.difficulty(report.fit, sigma=1.0)
    assert found.mu.low < 0.5 < found.mu.high
    assert found.sigma.low < 1.2 < found.sigma.high
    assert "only u and v are identified" in found.notes[0]


def test_coverage_of_slope_and_ranks_in_a_few_runs() -> None:
    skills = np.linspace(0.0, 3.0, 30)
    truth, _ = testbed.line_from_difficulty(0.0, 1.0, 0.5, 1.2)
    slopes, ranks = 0, []
    for run in range(25):
        outcomes = testbed.simulate(skills, examples=(4000, 2000), seed=run)
        report = testbed.compare(*outcomes, scale="probit", resample="examples", bootstrap=400, seed=run)
        slopes += report.fit.slope.low <= truth <= report.fit.slope.high
        true_rank = {f"model-{i:02d}": 30 - i for i in range(30)}
        ranks += [row.new_rank_low <= true_rank[row.model] <= row.new_rank_high for row in report.rows]
    # Fewer than 19 of 25 would happen twice in 10,000 times at 95 %.
    assert slopes >= 19
    assert np.mean(ranks) >= 0.92


def test_simulation_repeats_and_names_models() -> None:
    first, same, other = (testbed.simulate([0, 1], examples=(30, 20), seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first[1].scores, same[1].scores)
    assert (first[1].scores != other[1].scores).any()
    counts = simulate_counts(np.zeros(11), examples=(100, 50))
    assert counts.models[10] == "model-10"
    assert counts.totals is not None
    assert counts.totals[0].tolist() == [100, 50]


def test_refusals() -> None:
    linear = testbed.fit_line([0.9, 0.8, 0.7], [0.8, 0.7, 0.6], bootstrap=100)
    with pytest.raises(InputError, match="probit"):
        testbed.difficulty(linear)
    steep = testbed.fit_line([0.9, 0.8, 0.7, 0.6], [0.99, 0.8, 0.5, 0.2], scale="probit", bootstrap=100)
    with pytest.raises(InputError, match="sigma"):
        testbed.difficulty(steep, sigma=0.1)
    with pytest.raises(InputError, match="u"):
        testbed.difficulty_from_line(-1.0, 0.0, 1.0)
    with pytest.raises(InputError, match="sigma"):
        testbed.difficulty_from_line(1.0, 0.0, -1.0)
    with pytest.raises(InputError, match="skills"):
        testbed.simulate([])
