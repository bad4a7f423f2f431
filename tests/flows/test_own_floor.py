"""A flow's number against data that are the flow's own, and against data that are not."""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom
from tests.flows.small import FLOATS, VECTORS, random_flow

from hardpan import Dataset, flows
from hardpan.bayes.floors.entries import weigh
from hardpan.bayes.floors.flow import FlowEvidence, flow_entries, flow_evidence
from hardpan.bayes.floors.inputs import prepare_floor_inputs
from hardpan.errors import InputError

NAME = "Exact error of flow"
RUNS = 100
TRAIN = 60


def statuses(flow, temperature, n, runs):
    """What the verdict says of the flow's number, on data that it drew at a temperature."""
    found = []
    number = flow.bayes_error()
    for seed in range(runs):
        x, y = flow.sample(n + TRAIN, temperature=temperature, seed=seed)
        names = tuple(map(str, flow.class_names))
        data = Dataset.from_arrays(x[:TRAIN], y[:TRAIN], x_test=x[TRAIN:], y_test=y[TRAIN:], class_names=names)
        evidence = FlowEvidence("flow", number, flow.posterior(data.x))
        entries = flow_entries(evidence, prepare_floor_inputs(data), 0.95)
        weighed, _ = weigh(entries, n_classes=data.n_classes)
        found.append(next(entry.status for entry in weighed if entry.name == NAME))
    return found


@pytest.mark.parametrize("data", ["images", "vectors"])
def test_where_the_flow_is_the_data_its_number_seldom_falls(data):
    flow = random_flow(FLOATS if data == "images" else VECTORS)
    fallen = sum(status != "not refuted" for status in statuses(flow, 1.0, 300, RUNS))
    assert fallen <= binom.ppf(0.999, RUNS, 0.05)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_where_it_is_not_its_number_falls(temperature):
    flow = random_flow(FLOATS)
    assert all(status != "not refuted" for status in statuses(flow, temperature, 1500, 8))


def test_a_flow_of_encoded_texts_has_an_exact_error_and_is_judged_by_its_decisions():
    """The vectors of the texts of each class are Gaussian, so that the least error is known."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 1500)
    vectors = rng.normal(size=(1500, 2)) + 1.2 * labels[:, None]
    known = {f"text {row}": vector for row, vector in enumerate(vectors)}
    texts = Dataset.from_arrays(list(known), labels)
    with pytest.raises(InputError) as refused:
        flows.fit(texts, flows.FlowConfig(preset="tiny", epochs=1))
    assert "encoder" in refused.value.argument
    data = texts.encoded(lambda batch: [known[text] for text in batch])
    flow = flows.fit(data, flows.FlowConfig(preset="tiny", epochs=12, transforms=1))
    errors = [flow.bayes_error(temperature).value for temperature in (0.5, 1.0, 2.0)]
    assert errors[1] == pytest.approx(ndtr(-1.2 / np.sqrt(2)), abs=0.04)
    assert errors == sorted(errors)
    entries = flow_entries(flow_evidence(flow, data, labels, data.splits()), prepare_floor_inputs(data), 0.95)
    weighed, _ = weigh(entries, n_classes=2)
    assert next(entry.status for entry in weighed if entry.name == NAME) == "not refuted"
