"""Samples of a flow: the report says the same when it is read back without its images."""

import json

import numpy as np
import pytest
from PIL import Image
from reproductions.flow_cards import write_card
from tests.flows.small import three_digits

from hardpan import bayes, files, flows
from hardpan.bayes import gaussian_curve
from hardpan.flows.sampling import FlowSamples
from hardpan.pages.flows import view


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
    assert [item.drawing for item in view(result).hero] == ["gallery", "lines"]
    assert [item.drawing for item in view(again).hero] == ["lines"]


def test_a_card_says_what_its_own_folder_computes(tmp_path):
    data = three_digits()
    flow = flows.fit(data, flows.FlowConfig(preset="tiny", epochs=2, steps=2, width=8, pad_to=12))
    card = write_card(flow, data, tmp_path / "card")
    again, test = flows.load(tmp_path / "card"), data.splits(seed=0).test
    x, labels = data.x[test], data.labels[test]
    assert card.nll == again.nll(x, labels)
    assert card.original_bits == pytest.approx(card.nll.value / np.log(2) / 64)
    assert card.bits == pytest.approx(card.original_bits * 64 / 144)
    assert card.own_error == pytest.approx((again.posterior(x).argmax(1) != labels).mean())
    assert card.bayes_error.value == pytest.approx(again.bayes_error().value, rel=1e-6)
    alone = bayes.floor(data, neighbours=False, classifiers=("linear model",), seed=0).entries
    assert card.linear_error == next(entry.estimate for entry in alone if entry.name == "linear model")
    assert card.size == (tmp_path / "card" / "weights.safetensors").stat().st_size
    with Image.open(tmp_path / "card" / "samples.png") as picture:
        assert picture.size == (10 * 5 * 14, 3 * 5 * 14)
    text = (tmp_path / "card" / "card.md").read_text(encoding="utf-8")
    assert card.sha256 in text
    assert f"{card.original_bits:.3f} over the original" in text
