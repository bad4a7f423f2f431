"""Every refusal names the argument, what was wrong, and what is expected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hardpan import bayes
from hardpan.errors import InputError

MEANS = np.eye(3)

CASES: list[tuple[dict[str, Any], str | tuple[str, str]]] = [
    ({"means": [1.0, 2.0]}, "means"),
    ({"means": np.empty((0, 3))}, "means"),
    ({"means": [["a", "b"]]}, "means"),
    ({"means": [[0.0, np.nan], [1.0, 2.0]]}, "means"),
    ({"means": MEANS, "cov": -1.0}, "cov"),
    ({"means": MEANS, "cov": np.ones(4)}, "cov"),
    ({"means": MEANS, "cov": np.diag([1.0, 1.0, -1.0])}, "cov"),
    ({"means": MEANS, "cov": np.triu(np.ones((3, 3)))}, "cov"),
    ({"means": MEANS, "cov": [1.0, np.inf, 1.0]}, "cov"),
    ({"means": MEANS, "cov": "wide"}, "cov"),
    ({"means": MEANS, "covs": np.ones(2)}, "covs"),
    ({"means": MEANS, "covs": [1.0, 2.0, 0.0]}, "covs"),
    ({"means": MEANS, "covs": np.stack([np.eye(3), -np.eye(3), np.eye(3)])}, "covs[1]"),
    ({"means": MEANS, "cov": 1.0, "covs": [1.0, 2.0, 3.0]}, ("cov", "covs")),
    ({"means": MEANS, "priors": [0.5, 0.5]}, "priors"),
    ({"means": MEANS, "priors": [0.5, 0.3, 0.13]}, "priors"),
    ({"means": MEANS, "priors": [1.2, -0.2, 0.0]}, "priors"),
    ({"means": MEANS, "temperature": 0.0}, "temperature"),
    ({"means": MEANS, "temperature": "hot"}, "temperature"),
    ({"means": MEANS, "method": "magic"}, "method"),
    ({"means": MEANS, "method": "exact"}, "method"),
    ({"means": MEANS, "method": "chernoff"}, "method"),
    ({"means": MEANS, "covs": [1.0, 2.0, 3.0], "method": "hdr"}, "method"),
    ({"means": [[1.0, 2.0], [3.0]]}, "means"),
    ({"means": MEANS, "priors": [[0.5], [0.25, 0.25]]}, "priors"),
    ({"means": MEANS, "rtol": 0.0}, "rtol"),
    ({"means": MEANS, "seed": -1}, "seed"),
    ({"means": MEANS, "max_draws": 0}, "max_draws"),
]


@pytest.mark.parametrize(("arguments", "name"), CASES)
def test_refusals(arguments: dict[str, Any], name: str | tuple[str, str]) -> None:
    with pytest.raises(InputError) as caught:
        bayes.gaussian(**arguments)
    assert caught.value.argument == name
    assert "\n" not in str(caught.value)


@given(
    means=arrays.arrays(
        np.float64,
        st.tuples(st.integers(1, 4), st.integers(1, 3)),
        elements=st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1e-300, np.nan, np.inf]),
    ),
    weights=st.lists(st.floats(0, 1), min_size=1, max_size=4),
    cov=st.none() | st.floats(-1, 1e9),
    temperature=st.floats(-1, 1e3),
)
def test_an_answer_or_a_refusal(means: Any, weights: list[float], cov: Any, temperature: float) -> None:
    total = sum(weights)
    priors = [w / total for w in weights] if total > 0 else weights
    try:
        estimate = bayes.gaussian(means, cov, priors, temperature=temperature, rtol=0.1)
    except InputError:
        return
    assert 0 <= estimate.low <= estimate.value <= estimate.high
    assert estimate.value <= 1 - max(priors) + 5 * estimate.stderr + 1e-12
