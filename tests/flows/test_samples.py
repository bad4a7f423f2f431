"""Samples of a flow: the report says the same when it is read back without its images."""

import json

import numpy as np
import pytest

from hardpan import files
from hardpan.bayes import gaussian_curve
from hardpan.flows.sampling import FlowSamples


@pytest.mark.parametrize("temperatures", [(1.0,), (0.5, 1.0, 2.0)])
def test_a_report_that_was_read_back_has_the_same_numbers(temperatures):
    curve = gaussian_curve([[0.0], [2.0]], temperatures=temperatures)
    images = np.zeros((len(temperatures), 2, 4, 4), dtype=np.float32)
    labels = np.tile([0, 1], (len(temperatures), 1))
    result = FlowSamples("flow", "0" * 64, temperatures, curve.estimates, images, labels, ("a", "b"), 256, curve)
    again = files.from_json(json.loads(result.to_json()))
    (section,), (same,) = result.sections(), again.sections()
    assert again.headline == result.headline
    assert same.tables == section.tables
    assert [item.drawing for item in section.charts] == ["curve", "gallery"]
    assert [item.drawing for item in same.charts] == ["curve"]
