"""Item response models: gradients, planted parameters, both ways to compute, missing cells, both signs."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import expit

from hardpan.leaderboard import irt

WIDE = irt.Priors(1.0, 100.0, 100.0)
WEAK = irt.Priors()


def planted(models, items, *, seed=0, floor=0.0, missing=0.0, negative=0):
    rng = np.random.default_rng(seed)
    skill = rng.normal(size=models)
    skill = (skill - skill.mean()) / skill.std()
    slope, intercept = np.exp(rng.normal(0.2, 0.35, items)), rng.normal(0.3, 1.2, items)
    slope[:negative] *= -1
    p = floor + (1 - floor) * expit(skill[:, None] * slope + intercept)
    scores = (rng.random(p.shape) < p).astype(float)
    scores[rng.random(p.shape) < missing] = np.nan
    return scores, skill, slope, intercept


def data_of(scores, floor=0.0, shared=False, priors=WEAK):
    known = np.isfinite(scores)
    mask = None if known.all() else known.astype(float)
    return irt._ScoreData(np.where(known, scores, 0.0), mask, floor, shared, priors)


@pytest.mark.parametrize(("floor", "missing"), [(0.0, 0.0), (0.25, 0.0), (0.0, 0.3), (0.2, 0.3)])
def test_gradient_is_that_of_the_objective(floor, missing):
    scores, _, slope, intercept = planted(30, 6, floor=floor, missing=missing, negative=1)
    data = data_of(scores, floor)
    theta, log_prior = irt._nodes(slope, intercept, floor)

    def value(vector):
        return irt._evaluate(data, theta, log_prior, vector[:6], vector[6:]).value

    point = np.concatenate([slope, intercept])
    found = irt._objective_gradient(data, theta, irt._evaluate(data, theta, log_prior, slope, intercept))
    np.testing.assert_allclose(found, approx_fprime(point, value, 1e-6), atol=2e-3)


def test_information_is_minus_the_second_derivative():
    scores, _, slope, intercept = planted(60, 8, missing=0.1)
    data = data_of(scores)
    theta, log_prior = irt._nodes(slope, intercept, 0.0)

    def gradient(vector):
        return irt._objective_gradient(data, theta, irt._evaluate(data, theta, log_prior, vector[:8], vector[8:]))

    point = np.concatenate([slope, intercept])
    numeric = -np.array([(gradient(point + h) - gradient(point - h)) / 2e-5 for h in 1e-5 * np.eye(16)])
    for dense in (True, False):
        system = irt._ItemInformation(data, theta, irt._evaluate(data, theta, log_prior, slope, intercept))
        system.dense = dense
        assert system.factor(1.0)
        # four polynomials of skill per model leave little of the missing information out
        np.testing.assert_allclose(system.solve(numeric), np.eye(16), atol=0.05)
        np.testing.assert_allclose(system.variances(None), np.diag(np.linalg.inv(numeric)), rtol=0.03)


@pytest.mark.parametrize(
    ("models", "items", "floor", "missing"),
    [(3000, 40, 0.0, 0.0), (2000, 40, 0.25, 0.0), (1500, 50, 0.0, 0.3), (300, 900, 0.0, 0.0)],
)
def test_planted_parameters_come_back(models, items, floor, missing):
    scores, skill, slope, intercept = planted(models, items, floor=floor, missing=missing, negative=3)
    fit = irt.fit(scores, floor=floor, priors=irt.Priors())
    assert fit.converged
    assert np.corrcoef(fit.skill, skill)[0, 1] > 0.9
    for found, error, truth in (
        (fit.slope, fit.slope_stderr, slope),
        (fit.intercept, fit.intercept_stderr, intercept),
    ):
        z = (found - truth) / error
        assert np.mean(np.abs(z) < 1.96) > 0.85
        assert np.sqrt(np.mean(z**2)) < 1.4
    assert (fit.slope[:3] < 0).all()
    assert np.mean(np.abs(fit.skill - skill) < 1.96 * fit.skill_stderr) > 0.9


@pytest.mark.parametrize(("floor", "rtol"), [(0.0, 0.05), (0.25, 0.1)])  # near the floor, skills are skewed
def test_many_items_by_modes_agree_with_quadrature(floor, rtol):
    scores, skill, *_ = planted(120, 1500, floor=floor, missing=0.05, negative=20)
    data = data_of(scores, floor)
    start = irt._starting_parameters(data)
    one, other = irt.fit_by_quadrature(data, *start, False), irt.fit_by_modes(data, *start, False)
    assert one.converged
    assert other.converged
    np.testing.assert_allclose(one.skill, other.skill, atol=0.02)
    assert np.corrcoef(one.slope, other.slope)[0, 1] > 0.999
    np.testing.assert_allclose(one.skill_stderr, other.skill_stderr, rtol=rtol)
    assert np.mean(np.abs(other.skill - skill) < 1.96 * other.skill_stderr) > 0.85


def test_progress_is_a_fraction():
    fractions: list[float] = []
    irt.fit(planted(120, 400)[0], priors=irt.Priors(), progress=lambda _, fraction: fractions.append(fraction))
    assert 0 < max(fractions) < 1


@pytest.mark.parametrize("items", [4, 40, 400])
def test_no_likelihood_is_above_that_of_the_best_skills(items):
    """At most Σ log P of the data at the best skill of each model, which is nearly 0 here."""
    scores = np.ones((50, items))
    scores[:3, 0] = 0
    result = irt.fit(scores, priors=WEAK)
    grid = np.linspace(-8, 8, 2001)
    p = expit(grid[:, None] * result.slope + result.intercept)
    best = (np.log(p) @ scores.T + np.log1p(-p) @ (1 - scores).T).max(axis=0).sum()
    assert result.log_likelihood <= best <= 0


def test_rasch_has_one_slope_and_is_a_special_case():
    rng = np.random.default_rng(3)
    skill, intercept = rng.normal(size=2000), np.linspace(-2, 2, 30)
    scores = (rng.random((2000, 30)) < expit(1.4 * skill[:, None] + intercept)).astype(float)
    rasch = irt.fit(scores, shared_slope=True, priors=WIDE)
    free = irt.fit(scores, priors=WIDE)
    assert np.ptp(rasch.slope) < 1e-12
    assert abs(rasch.slope[0] - 1.4) < 4 * rasch.slope_stderr[0]
    # twice the gain of the 29 further slopes is chi-square with 29 degrees of freedom
    assert 0 < 2 * (free.log_likelihood - rasch.log_likelihood) < 60
    by_modes = irt.fit_by_modes(
        data_of(scores.T, shared=True, priors=WIDE),
        *irt._starting_parameters(data_of(scores.T, shared=True)),
        False,
    )
    assert by_modes.converged


def test_scale_does_not_depend_on_the_order_of_rows_and_columns():
    scores, *_ = planted(200, 30)
    one = irt.fit(scores, priors=irt.Priors())
    other = irt.fit(scores[::-1, ::-1], priors=irt.Priors())
    np.testing.assert_allclose(one.slope, other.slope[::-1], atol=1e-5)
    np.testing.assert_allclose(one.skill, other.skill[::-1], atol=1e-5)


def test_fractions_have_smaller_robust_errors():
    """Scores that are means of eight answers vary less than right and wrong."""
    rng = np.random.default_rng(5)
    skill, intercept = rng.normal(size=600), rng.normal(size=25)
    p = expit(skill[:, None] + intercept)
    scores = rng.binomial(8, p) / 8
    plain = irt.fit(scores, priors=irt.Priors())
    robust = irt.fit(scores, priors=irt.Priors(), robust=True)
    np.testing.assert_allclose(plain.slope, robust.slope)
    assert np.median(robust.slope_stderr / plain.slope_stderr) < 0.75
    assert np.mean(np.abs(robust.intercept - intercept) < 1.96 * robust.intercept_stderr) > 0.8
