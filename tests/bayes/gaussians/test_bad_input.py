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

CASES: list[tuple[dict[str, Any], str]] = [
    ({"means": [1.0, 2.0]}, r"means\b"),
    ({"means": np.empty((0, 3))}, r"means\b"),
    ({"means": [["a", "b"]]}, r"means\b"),
    ({"means": [[0.0, np.nan], [1.0, 2.0]]}, r"means\b"),
    ({"means": MEANS, "cov": -1.0}, r"cov\b"),
    ({"means": MEANS, "cov": np.ones(4)}, r"cov\b"),
    ({"means": MEANS, "cov": np.diag([1.0, 1.0, -1.0])}, r"cov\b"),
    ({"means": MEANS, "cov": np.triu(np.ones((3, 3)))}, r"cov\b"),
    ({"means": MEANS, "cov": [1.0, np.inf, 1.0]}, r"cov\b"),
    ({"means": MEANS, "cov": "wide"}, r"cov\b"),
    ({"means": MEANS, "covs": np.ones(2)}, r"covs\b"),
    ({"means": MEANS, "covs": [1.0, 2.0, 0.0]}, r"covs\b"),
    (
        {"means": MEANS, "covs": np.stack([np.eye(3), -np.eye(3), np.eye(3)])},
        r"covs\[1\]",
    ),
    ({"means": MEANS, "cov": 1.0, "covs": [1.0, 2.0, 3.0]}, r"cov and covs"),
    ({"means": MEANS, "priors": [0.5, 0.5]}, r"priors\b"),
    ({"means": MEANS, "priors": [0.5, 0.3, 0.13]}, r"priors\b"),
    ({"means": MEANS, "priors": [1.2, -0.2, 0.0]}, r"priors\b"),
    ({"means": MEANS, "temperature": 0.0}, r"temperature\b"),
    ({"means": MEANS, "temperature": "hot"}, r"temperature\b"),
    ({"means": MEANS, "method": "magic"}, r"method\b"),
    ({"means": MEANS, "method": "exact"}, r"method 'exact'"),
    (
        {"means": MEANS, "method": "chernoff"},
        r"method 'chernoff'",
    ),
    (
        {"means": MEANS, "covs": [1.0, 2.0, 3.0], "method": "hdr"},
        r"method 'hdr'",
    ),
    ({"means": MEANS, "rtol": 0.0}, r"rtol\b"),
    ({"means": MEANS, "seed": -1}, r"seed\b"),
    ({"means": MEANS, "max_draws": 0}, r"max_draws\b"),
]


@pytest.mark.parametrize(("arguments", "message"), CASES)
def test_refusals(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        bayes.gaussian(**arguments)
    assert isinstance(caught.value, InputError)
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
