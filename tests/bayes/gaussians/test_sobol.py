"""The Sobol sequence against SciPy's: the same points to the bit, however they are divided into calls."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import qmc

from hardpan.bayes.gaussians.sampling import MOST_DIMENSIONS, Sobol


@pytest.mark.parametrize("dimensions", [1, 2, 5, 24, MOST_DIMENSIONS])
@pytest.mark.parametrize("seed", [0, 7])
def test_the_points_of_scipy(dimensions: int, seed: int) -> None:
    # SciPy spawns a generator of its own from the one that it is given.
    ours = Sobol(dimensions, np.random.default_rng(seed).spawn(1)[0])
    theirs = qmc.Sobol(dimensions, scramble=True, rng=np.random.default_rng(seed))
    for n in (128, 1, 3, 256, 0):
        np.testing.assert_array_equal(ours.random(n), theirs.random(n))
