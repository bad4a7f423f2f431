"""A flow's number against data that are the flow's own, and against data that are not."""

import pytest
from scipy.stats import binom
from tests.flows.small import FLOATS, VECTORS, random_flow

from hardpan import bayes

NAME = "Exact error of flow"
RUNS = 100


def statuses(flow, temperature, n, runs):
    """What the verdict says of the flow's number, on data that it drew at a temperature."""
    found = []
    for seed in range(runs):
        x, y = flow.sample(n, temperature=temperature, seed=seed)
        floor = bayes.floor(
            y, exact={"flow": flow.bayes_error()}, predictions={"flow": flow.posterior(x)}, calibrations=(),
            n_classes=flow.n_classes,
        )  # fmt: skip
        found.append(floor[NAME].status)
    return found


@pytest.mark.parametrize("data", ["images", "vectors"])
def test_where_the_flow_is_the_data_its_number_seldom_falls(data):
    flow = random_flow(FLOATS if data == "images" else VECTORS)
    fallen = sum(status != "stands" for status in statuses(flow, 1.0, 300, RUNS))
    assert fallen <= binom.ppf(0.999, RUNS, 0.05)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_where_it_is_not_its_number_falls(temperature):
    flow = random_flow(FLOATS)
    assert all(status != "stands" for status in statuses(flow, temperature, 1500, 8))
