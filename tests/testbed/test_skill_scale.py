"""The probit Rasch model of two test sets: an outside oracle, planted skills, invariances, one scale or two."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from hardpan.errors import InputError
from hardpan.testbed import one_scale
from hardpan.testbed.skill_scale import fit_scale


def simulate(models, examples, seed):
    rng = np.random.default_rng(seed)
    skills = rng.normal(0, 0.8, models)
    skills -= skills.mean()
    difficulty = rng.normal(-0.7, 1.3, examples)
    return skills[:, None] - difficulty + rng.standard_normal((models, examples)) > 0, skills


def test_fit_is_the_maximum_of_the_integral_written_down():
    right, _ = simulate(4, 400, 1)
    rows, counts = np.unique(right.T, axis=0, return_counts=True)
    grid = np.linspace(-12, 12, 601)

    def negative(vector):
        chance = np.prod([norm.cdf((2 * rows[:, [j]] - 1) * (vector[j] - grid)) for j in range(4)], axis=0)
        whole = (chance * norm.pdf(grid, 0, np.exp(vector[4]))).sum(axis=1) * (grid[1] - grid[0])
        return float(-(counts @ np.log(whole)) + (vector[:4] ** 2).sum() / 200)

    best = minimize(negative, np.zeros(5), method="BFGS", options={"gtol": 1e-5})
    fit = fit_scale("right", right)
    assert fit.converged
    assert fit.log_likelihood == pytest.approx(-best.fun, abs=1e-3)
    np.testing.assert_allclose(fit.skills, best.x[:4] - best.x[:4].mean(), atol=2e-3)
    assert fit.difficulty_spread == pytest.approx(np.exp(best.x[4]), abs=3e-3)
    centring = np.eye(4) - 0.25
    expected = np.sqrt(np.diag(centring @ best.hess_inv[:4, :4] @ centring))
    np.testing.assert_allclose(np.sqrt(np.diag(fit.covariance)), expected, rtol=0.1)


def test_skills_are_covered_as_often_as_promised():
    inside = []
    for seed in range(12):
        right, skills = simulate(12, 800, 100 + seed)
        fit = fit_scale("right", right)
        inside.append(np.abs(fit.skills - skills) < 1.96 * np.sqrt(np.diag(fit.covariance)))
    assert 0.89 < np.mean(inside) < 0.99  # 144 intervals of 95 %


def test_missing_answers_are_left_out_not_counted_wrong():
    right, skills = simulate(10, 2000, 4)
    holes = right.astype(float)
    holes[np.random.default_rng(1).random(holes.shape) < np.linspace(0, 0.6, 10)[:, None]] = np.nan
    fit = fit_scale("right", holes)
    assert np.abs((fit.skills - skills) / np.sqrt(np.diag(fit.covariance))).max() < 4


def test_order_and_direction_only_turn_the_scale():
    right, _ = simulate(8, 300, 5)
    one, turned, wrong = (fit_scale("right", part) for part in (right, right[::-1, ::-1], ~right))
    np.testing.assert_allclose(turned.skills, one.skills[::-1], atol=1e-5)
    np.testing.assert_allclose(wrong.skills, -one.skills, atol=1e-5)


def test_large_problems_in_single_precision_agree(monkeypatch):
    right, _ = simulate(20, 3000, 6)
    exact = fit_scale("right", right)
    monkeypatch.setattr("hardpan.testbed.skill_scale._DOUBLE_CELLS", 0)
    quick = fit_scale("right", right)
    error = np.sqrt(np.diag(exact.covariance))
    assert (np.abs(quick.skills - exact.skills) < 0.1 * error).all()


@pytest.mark.parametrize(
    "right",
    [
        np.arange(10)[:, None] > np.arange(300) % 10,
        np.repeat(np.random.default_rng(0).random((1, 100)) < 0.6, 5, axis=0),
        np.vstack([np.ones((1, 200)), np.random.default_rng(1).random((3, 200)) < 0.7]),
        np.random.default_rng(3).random((5, 500)) < 0.01,
    ],
    ids=["a perfect order", "equal models", "a model without errors", "hardly anything right"],
)
def test_degenerate_matrices_give_finite_numbers(right):
    fit = fit_scale("right", right)
    assert np.isfinite(fit.skills).all()
    assert np.isfinite(fit.covariance).all()


def test_one_scale_holds_when_it_is_true_and_fails_when_it_is_not():
    values, inside = [], 0
    for seed in range(20):
        rng = np.random.default_rng([9, seed])
        skills = np.linspace(-1, 1, 8)
        sets = [
            skills[:, None] - rng.normal(mean, spread, n) + rng.standard_normal((8, n)) > 0
            for mean, spread, n in ((-1.0, 1.0, 800), (0.2, 1.6, 500))
        ]
        found = one_scale(*sets)
        covers = found.stretch.low < 1 < found.stretch.high
        values.append([found.p_value, covers, found.slope, found.shift, found.offset])
        for fitted in (found.skills_original, found.skills_new):
            inside += sum(item.low < truth < item.high for item, truth in zip(fitted, skills, strict=True))
    p, covered, slope, shift, offset = np.array(values).T
    assert (p < 0.05).sum() <= 5  # binomial(20, 0.05) exceeds 5 with probability 3e-4
    assert covered.sum() >= 15
    assert inside >= 290  # of 320 intervals of skills; at 95 % and independent, fewer with probability 4e-4
    assert slope.mean() == pytest.approx(np.sqrt(2 / 3.56), abs=0.03)
    assert shift.mean() == pytest.approx(1.2, abs=0.06)
    assert offset.mean() == pytest.approx(-1.2 / np.sqrt(3.56), abs=0.04)
    shuffled = one_scale(sets[0], sets[1][::-1])
    assert shuffled.p_value < 1e-10
    assert shuffled.disagreement > 0.5


def test_disagreement_is_the_planted_difference_of_skills_without_the_noise():
    skills, difference, found = np.linspace(-1, 1, 8), np.tile([0.3, -0.3], 4), []
    for seed in range(8):
        rng = np.random.default_rng([11, seed])
        pair = (skills, skills + difference)
        sets = [s[:, None] - rng.normal(size=300) + rng.standard_normal((8, 300)) > 0 for s in pair]
        found.append(one_scale(*sets).disagreement)
    assert np.mean(found) == pytest.approx(np.sqrt(8 * 0.3**2 / 7), abs=0.03)


def test_three_models_are_enough():
    right = np.random.default_rng(0).random((3, 200)) < np.array([[0.4], [0.6], [0.8]])
    result = one_scale(right, right, models=("a", "b", "c"))
    assert result.degrees == 2
    marks = result.sections()[0].charts[0].rows
    assert [(row["name"], row["x"]) for row in marks] == [(row["name"], row["y"]) for row in marks]
    assert np.diff([row["x"] for row in marks]).min() > 0  # the planted order
    with pytest.raises(InputError, match="models"):
        one_scale(right, right, models=("a", "b"))
    with pytest.raises(InputError, match="3"):
        one_scale(right[:2], right[:2])


@pytest.mark.parametrize(
    "right",
    [np.zeros(5), np.full((3, 4), 7), np.full((3, 4), np.nan), np.ones((3, 4)), np.array([["a", "b"], ["c", "d"]])],
)
def test_bad_matrices_are_refused(right):
    good = np.random.default_rng(0).random((3, 40)) < 0.5
    with pytest.raises(InputError, match="new"):
        one_scale(good, right)
