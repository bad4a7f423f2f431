"""The posterior against densities of SciPy, and what it must not do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from tests.refusals import refused

from hardpan import bayes

RNG = np.random.default_rng(0)
MEANS = RNG.normal(size=(4, 3))
PRIORS = RNG.dirichlet(np.ones(4))
ROOTS = RNG.normal(size=(4, 3, 3))
COVS = ROOTS @ ROOTS.transpose(0, 2, 1) + 0.5 * np.eye(3)
X = RNG.normal(size=(50, 3))


@pytest.mark.parametrize(
    ("arguments", "matrices"),
    [
        ({}, np.stack([np.eye(3)] * 4)),
        ({"cov": 2.0}, np.stack([2 * np.eye(3)] * 4)),
        ({"cov": [1.0, 2.0, 3.0]}, np.stack([np.diag([1.0, 2.0, 3.0])] * 4)),
        ({"cov": COVS[0]}, np.stack([COVS[0]] * 4)),
        ({"covs": [1.0, 2.0, 3.0, 4.0]}, np.arange(1, 5)[:, None, None] * np.eye(3)),
        ({"covs": np.abs(MEANS) + 0.1}, np.stack([np.diag(row) for row in np.abs(MEANS) + 0.1])),
        ({"covs": COVS}, COVS),
    ],
)
def test_against_scipy(arguments: dict[str, Any], matrices: np.ndarray) -> None:
    found = bayes.posterior(X, MEANS, priors=PRIORS, temperature=1.7, **arguments)
    joint = np.stack(
        [p * multivariate_normal(m, 1.7**2 * c).pdf(X) for p, m, c in zip(PRIORS, MEANS, matrices, strict=True)],
        axis=1,
    )
    assert np.allclose(found, joint / joint.sum(axis=1, keepdims=True), rtol=1e-9, atol=1e-12)


def test_prior_zero_is_never_chosen() -> None:
    found = bayes.posterior(X, MEANS, priors=[0.5, 0.5, 0.0, 0.0])
    assert (found[:, 2:] == 0).all()
    assert np.allclose(found.sum(axis=1), 1)


def test_one_row_and_refusals() -> None:
    assert bayes.posterior(X[0], MEANS).shape == (1, 4)
    with refused("x"):
        bayes.posterior(np.ones((2, 5)), MEANS)
    with refused("cov"):
        bayes.posterior(X, MEANS, np.ones(7))
    with refused(("cov", "covs")):
        bayes.posterior(X, MEANS, 1.0, covs=np.ones(4))
