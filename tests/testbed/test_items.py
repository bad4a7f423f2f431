"""Item analysis: planted parameters come back with honest errors, and the optimum is the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm

from hardpan.errors import InputError
from hardpan.testbed import items
from hardpan.testbed.items import likelihood
from hardpan.testbed.items.likelihood import Parameters, Patterns, posterior, score_products, value_and_gradient


def simulate(
    models: int, examples: int, seed: int, *, sloped: bool = False, spread: float = 1.3, mean: float = -0.7
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    skills = rng.normal(0, 0.8, models)
    skills -= skills.mean()
    difficulty = rng.normal(mean, spread, examples)
    slope = np.exp(rng.normal(0, 0.4, examples)) if sloped else np.ones(examples)
    right = slope * (skills[:, None] - difficulty) + rng.standard_normal((models, examples)) > 0
    return right, skills, difficulty, slope


# The likelihood


def test_likelihood_is_the_integral() -> None:
    right, *_ = simulate(5, 40, 0)
    parameters = Parameters(np.linspace(-0.5, 1.0, 5), 1.4)
    patterns = Patterns.of(right.T.astype(np.uint8))

    grid = np.linspace(-14, 14, 8001)

    def one(row: np.ndarray) -> float:
        joint = norm.cdf((2 * row - 1) * (parameters.skills - grid[:, None])).prod(axis=1) * norm.pdf(grid, 0, 1.4)
        return float(np.log(joint.sum() * (grid[1] - grid[0])))

    expected = sum(one(row) for row in right.T.astype(int)) - (parameters.skills**2).sum() / 200
    assert value_and_gradient(patterns, parameters, parameters.nodes(0.5))[0] == pytest.approx(expected, abs=1e-4)


def test_two_parameter_likelihood_is_the_double_integral() -> None:
    row = np.array([1, 1, 0, 1])
    parameters = Parameters(np.array([1.0, 0.2, -0.5, 0.4]), 1.2, 0.5, 0.3)

    log_a, t = np.meshgrid(np.linspace(-3, 3, 401), np.linspace(-9, 9, 1201), indexing="ij")
    chance = np.prod(
        [
            norm.cdf((2 * y - 1) * np.exp(log_a) * (skill - t))
            for y, skill in zip(row, parameters.skills, strict=True)
        ],
        axis=0,
    )
    joint = chance * norm.pdf(t, 0.3 * log_a, 1.2) * norm.pdf(log_a, 0, 0.5)
    expected = np.log(joint.sum() * (6 / 400) * (18 / 1200)) - (parameters.skills**2).sum() / 200
    patterns = Patterns.of(row[None].astype(np.uint8))
    assert value_and_gradient(patterns, parameters, parameters.nodes(0.6))[0] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("sloped", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_gradient_is_that_of_the_value(sloped: bool, missing: bool) -> None:
    right, *_ = simulate(6, 80, 1)
    answers = right.T.astype(np.uint8)
    if missing:
        answers[np.random.default_rng(0).random(answers.shape) < 0.2] = 2
    patterns = Patterns.of(answers)
    parameters = Parameters(np.linspace(-1, 1, 6), 1.1, 0.4 if sloped else 0.0, 0.2 if sloped else 0.0)
    nodes, vector = parameters.nodes(1.0), parameters.vector()
    gradient = value_and_gradient(patterns, parameters, nodes)[1]
    for i in range(len(vector)):
        offset = np.eye(len(vector))[i] * 1e-5
        above, below = (
            value_and_gradient(patterns, parameters.replaced(vector + o), nodes)[0] for o in (offset, -offset)
        )
        assert gradient[i] == pytest.approx((above - below) / 2e-5, abs=1e-4)
    assert score_products(patterns, parameters, nodes).shape == (len(vector), len(vector))


def test_optimum_agrees_with_brute_force() -> None:
    right, *_ = simulate(4, 150, 2)
    rows, counts = np.unique(right.T.astype(int), axis=0, return_counts=True)
    grid = np.linspace(-14, 14, 801)

    def negative(vector: np.ndarray) -> float:
        spread = np.exp(vector[4])
        chance = np.prod([norm.cdf((2 * rows[:, [j]] - 1) * (vector[j] - grid)) for j in range(4)], axis=0)
        whole = (chance * norm.pdf(grid, 0, spread)).sum(axis=1) * (grid[1] - grid[0])
        return float(-(counts @ np.log(whole)) + (vector[:4] ** 2).sum() / 200)

    best = minimize(negative, np.zeros(5), method="BFGS", options={"gtol": 1e-5})
    fit = items.fit_items(right)
    assert fit.log_likelihood == pytest.approx(-best.fun, abs=1e-3)
    np.testing.assert_allclose(fit.skills, best.x[:4] - best.x[:4].mean(), atol=2e-3)
    assert fit.difficulty_spread.value == pytest.approx(np.exp(best.x[4]), abs=3e-3)
    covariance = np.linalg.inv(_numerical_hessian(negative, best.x))
    centring = np.eye(4) - 0.25
    expected = np.sqrt(np.diag(centring @ covariance[:4, :4] @ centring))
    np.testing.assert_allclose(fit.skill_stderr, expected, rtol=0.01)


def _numerical_hessian(function, x: np.ndarray) -> np.ndarray:  # type: ignore[no-untyped-def]
    n, h = len(x), 1e-3
    steps = np.eye(n) * h
    return np.array(
        [
            [
                (function(x + a + b) - function(x + a - b) - function(x - a + b) + function(x - a - b))
                / (4 * h * h)
                for b in steps
            ]
            for a in steps
        ]
    )


# Planted answers


def test_skills_and_difficulties_are_covered_as_often_as_promised() -> None:
    inside, covered, means = [], [], []
    for seed in range(12):
        right, skills, difficulty, _ = simulate(12, 1200, 100 + seed)
        fit = items.fit_items(right)
        assert fit.converged
        inside.append(np.abs(fit.skills - skills) < 1.96 * fit.skill_stderr)
        covered.append(np.abs(fit.difficulty - difficulty) < 1.96 * fit.difficulty_stderr)
        means.append([fit.difficulty_mean.low < -0.7 < fit.difficulty_mean.high, fit.difficulty_spread.value])
    assert 0.89 < np.mean(inside) < 0.99  # 144 intervals of 95 %
    assert 0.94 < np.mean(covered) < 0.96  # 14,400 intervals
    assert np.mean(means, axis=0)[1] == pytest.approx(1.3, abs=0.04)


def test_two_parameter_model_recovers_discrimination() -> None:
    right, skills, difficulty, slope = simulate(40, 2500, 7, sloped=True)
    fit = items.fit_items(right, "two-parameter")
    z = (fit.skills - skills) / fit.skill_stderr
    assert np.abs(z).max() < 4
    assert (np.abs(fit.difficulty - difficulty) < 1.96 * fit.difficulty_stderr).mean() == pytest.approx(
        0.95, abs=0.02
    )
    log_error = np.log(fit.discrimination / slope) / (fit.discrimination_stderr / fit.discrimination)
    assert (np.abs(log_error) < 1.96).mean() == pytest.approx(0.95, abs=0.025)
    assert fit.discrimination_spread.low < 0.4 < fit.discrimination_spread.high
    assert fit.log_likelihood > items.fit_items(right).log_likelihood + 50
    assert np.corrcoef(np.log(slope), np.log(fit.discrimination))[0, 1] > 0.5


def test_skills_are_not_stretched_by_the_many_examples() -> None:
    # Two models: estimating every difficulty beside the skills would double their distance.
    rng = np.random.default_rng(0)
    skills, difficulty = np.array([-0.5, 0.0, 0.5]), rng.normal(0, 1, 60_000)
    right = skills[:, None] - difficulty + rng.standard_normal((3, 60_000)) > 0
    fit = items.fit_items(right)
    np.testing.assert_allclose(fit.skills, skills, atol=4 * fit.skill_stderr.max())
    assert fit.skill_stderr.max() < 0.02


def test_more_models_than_examples() -> None:
    right, skills, difficulty, _ = simulate(600, 40, 3)
    fit = items.fit_items(right)
    assert (np.abs(fit.skills - skills) < 1.96 * fit.skill_stderr).mean() == pytest.approx(0.95, abs=0.03)
    offset = fit.difficulty - difficulty
    assert np.abs(offset - offset.mean()).max() < 4 * fit.difficulty_stderr.max()
    assert fit.skills.mean() == pytest.approx(0, abs=1e-12)


def test_missing_answers_are_left_out_not_counted_wrong() -> None:
    right, skills, _, _ = simulate(10, 3000, 4)
    holes = right.astype(float)
    holes[np.random.default_rng(1).random(holes.shape) < np.linspace(0, 0.6, 10)[:, None]] = np.nan
    fit = items.fit_items(holes)
    assert np.abs((fit.skills - skills) / fit.skill_stderr).max() < 4
    assert fit.skill_stderr[-1] > 1.2 * fit.skill_stderr[0] * 0.8


# Invariances


def test_order_of_models_and_examples_changes_nothing() -> None:
    right, *_ = simulate(8, 300, 5)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(8), rng.permutation(300)
    one, other = items.fit_items(right), items.fit_items(right[rows][:, columns])
    np.testing.assert_allclose(other.skills, one.skills[rows], atol=1e-5)
    np.testing.assert_allclose(other.skill_stderr, one.skill_stderr[rows], rtol=1e-4)
    np.testing.assert_allclose(other.difficulty, one.difficulty[columns], atol=1e-5)


def test_right_for_wrong_turns_the_scale_round() -> None:
    right, *_ = simulate(8, 300, 6)
    one, other = items.fit_items(right), items.fit_items(~right)
    np.testing.assert_allclose(other.skills, -one.skills, atol=1e-5)
    np.testing.assert_allclose(other.difficulty, -one.difficulty, atol=1e-5)


def test_every_example_twice_gives_the_same_skills() -> None:
    right, *_ = simulate(8, 300, 8)
    one, other = items.fit_items(right), items.fit_items(np.hstack([right, right]))
    np.testing.assert_allclose(other.skills, one.skills, atol=1e-3)
    np.testing.assert_allclose(other.skill_stderr, one.skill_stderr / np.sqrt(2), rtol=1e-3)


def test_examples_that_all_or_none_get_right_have_finite_difficulty() -> None:
    right, *_ = simulate(8, 300, 9)
    right[:, 0], right[:, 1] = True, False
    fit = items.fit_items(right)
    assert np.isfinite(fit.difficulty).all()
    assert fit.difficulty[0] == fit.difficulty.min()
    assert fit.difficulty[1] == fit.difficulty.max()


@given(st.integers(2, 6), st.integers(2, 12), st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_small_matrices_are_fitted_or_refused(models: int, examples: int, seed: int) -> None:
    right = np.random.default_rng(seed).random((models, examples)) < 0.7
    try:
        fit = items.fit_items(right)
    except InputError:
        assert right.all() or not right.any()
    else:
        assert np.isfinite(fit.skills).all()
        assert np.isfinite(fit.skill_stderr).all()


@pytest.mark.parametrize(
    ("right", "message"),
    [
        (np.zeros(5), "models × examples"),
        (np.full((3, 4), 7), "must hold 0, 1 and NaN; got 7"),
        (np.full((3, 4), np.nan), "has no answer at all"),
        (np.ones((3, 4)), "the same everywhere"),
        (np.full((3, 4), np.inf), "must hold 0, 1 and NaN"),
        (np.array([["a", "b"], ["c", "d"]]), "compare predictions with labels"),
    ],
)
def test_bad_matrices_are_refused(right: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        items.fit_items(right)


def test_two_parameter_fit_needs_more_examples_than_models() -> None:
    with pytest.raises(InputError, match="at least as many examples as models"):
        items.fit_items(simulate(20, 10, 0)[0], "two-parameter")


DEGENERATE = {
    "a perfect order": np.arange(10)[:, None] > np.arange(300) % 10,
    "models that are all the same": np.repeat(np.random.default_rng(0).random((1, 100)) < 0.6, 5, axis=0),
    "a model without fault": np.vstack([np.ones((1, 200)), np.random.default_rng(1).random((3, 200)) < 0.7]),
    "a model without merit": np.vstack([np.zeros((1, 200)), np.random.default_rng(2).random((3, 200)) < 0.7]),
    "hardly anything right": np.random.default_rng(3).random((5, 500)) < 0.01,
    "coins": np.random.default_rng(4).random((12, 200)) < 0.5,
}


@pytest.mark.parametrize("model", ["rasch", "two-parameter"])
@pytest.mark.parametrize("name", list(DEGENERATE))
def test_degenerate_matrices_give_finite_numbers(name: str, model: str) -> None:
    fit = items.fit_items(DEGENERATE[name], model)  # type: ignore[arg-type]
    for values in (fit.skills, fit.skill_stderr, fit.difficulty, fit.difficulty_stderr, fit.discrimination):
        assert np.isfinite(values).all()
    assert fit.difficulty_spread.low <= fit.difficulty_spread.value <= fit.difficulty_spread.high


def test_single_precision_with_skipped_nodes_agrees_with_double(monkeypatch: pytest.MonkeyPatch) -> None:
    right, skills, _, _ = simulate(60, 6000, 12, sloped=True)
    patterns = Patterns.of(right.T.astype(np.uint8))
    parameters = Parameters(skills, 1.3, 0.4, 0.1)
    nodes = parameters.nodes(1.6)
    exact = value_and_gradient(patterns, parameters, nodes)
    spread = posterior(patterns, parameters, nodes)
    monkeypatch.setattr(likelihood, "_DOUBLE_CELLS", 0)
    quick = value_and_gradient(patterns, parameters, nodes)
    assert quick[0] == pytest.approx(exact[0], rel=1e-6)
    np.testing.assert_allclose(quick[1], exact[1], atol=0.5)  # a standard error is about 40 of these
    for a, b in zip(posterior(patterns, parameters, nodes), spread, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)


# What the scale tells


def test_one_scale_holds_when_it_is_true_and_fails_when_it_is_not() -> None:
    values = []
    for seed in range(20):
        rng = np.random.default_rng([9, seed])
        skills = np.linspace(-1, 1, 8)
        sets = [
            skills[:, None] - rng.normal(mean, spread, n) + rng.standard_normal((8, n)) > 0
            for mean, spread, n in ((-1.0, 1.0, 800), (0.2, 1.6, 500))
        ]
        found = items.one_scale(*sets)
        values.append([found.p_value, found.stretch.low < 1 < found.stretch.high, found.slope, found.shift])
    p, covered, slope, shift = np.array(values).T
    assert (p < 0.05).sum() <= 5  # binomial(20, 0.05) exceeds 5 with probability 3e-4
    assert covered.sum() >= 15
    assert slope.mean() == pytest.approx(np.sqrt(2 / 3.56), abs=0.03)
    assert shift.mean() == pytest.approx(1.2, abs=0.06)
    shuffled = items.one_scale(sets[0], sets[1][::-1])
    assert shuffled.p_value < 1e-10
    assert shuffled.disagreement > 0.5
