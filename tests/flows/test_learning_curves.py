"""Learning curves: planted power laws, and a small real one that goes on after a stop."""

import re

import numpy as np
import pytest

from hardpan import flows, learning_curves
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.learning_curves import CurveConfig, CurvePoint, fit_power_law


def points(exponent, amplitude=0.5, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    found = []
    for n in (100, 300, 1000, 3000, 10000):
        value = amplitude * n**-exponent * float(np.exp(noise * rng.normal()))
        found.append(CurvePoint("net", n, Estimate(0.1, 0, 0.1, 0.1), Estimate(value, 0.02 * value, 0, 1), 5))
    return tuple(found)


@pytest.mark.parametrize("exponent", [0.1, 0.5, 1.0])
def test_a_planted_power_law_is_found_exactly(exponent):
    law = fit_power_law("net", points(exponent))
    assert law.exponent.value == pytest.approx(exponent)
    assert law.amplitude == pytest.approx(0.5)
    assert law.r2 == pytest.approx(1.0)


def test_its_interval_covers_under_noise():
    inside = [fit_power_law("net", points(0.5, noise=0.1, seed=seed)).exponent for seed in range(200)]
    assert np.mean([item.low <= 0.5 <= item.high for item in inside]) >= 0.93


def test_two_sizes_give_no_law():
    assert fit_power_law("net", points(0.5)[:2]) is None
    assert fit_power_law("other", points(0.5)) is None


def test_a_curve_falls_towards_the_floor_and_goes_on_after_a_stop(tmp_path):
    flow = flows.fit(Dataset.open("digits"), flows.FlowConfig(preset="tiny", epochs=2))
    by_error = CurveConfig(
        bayes_error=0.05, models=("linear",), sizes=(40, 150, 600), test=1000, epochs=3, steps=80, device="cpu"
    )
    at_once = learning_curves.measure_learning_curve(flow, by_error)
    # The same by its temperature, which is not sought again for each of the runs below.
    config = CurveConfig(**{**_settings(by_error), "bayes_error": None, "temperature": at_once.temperature})

    def stop(step, fraction):
        if step == "2 of 3 runs":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learning_curves.measure_learning_curve(flow, config, out=tmp_path, progress=stop)
    assert len(list((tmp_path / "runs").iterdir())) == 2
    resumed = learning_curves.measure_learning_curve(flow, config, out=tmp_path)
    assert resumed.points == at_once.points
    assert resumed.laws == at_once.laws
    excess = [point.excess.value for point in resumed.points]
    assert excess[0] > excess[2] > 0
    assert resumed.floor.value == pytest.approx(0.05, rel=0.01)
    for point in resumed.points:
        assert point.error.value - point.excess.value == pytest.approx(0.05, abs=0.02)
    assert resumed.laws[0].exponent.value > 0
    more = learning_curves.measure_learning_curve(
        flow, CurveConfig(**{**_settings(config), "sizes": (40, 60)}), out=tmp_path
    )
    assert more.points[0] == resumed.points[0]
    assert len(list((tmp_path / "runs").iterdir())) == 4  # 40 was there
    learning_curves.measure_learning_curve(
        flow, CurveConfig(**{**_settings(config), "sizes": (40,), "epochs": 200}), out=tmp_path
    )
    assert len(list((tmp_path / "runs").iterdir())) == 5  # other settings, another training
    damaged = next((tmp_path / "runs").iterdir())
    damaged.write_text(damaged.read_text()[:20])
    assert learning_curves.measure_learning_curve(flow, config, out=tmp_path) == resumed
    assert re.search(r"error on these data is (5|4\.9\d|5\.0\d) %", resumed.headline)


def _settings(config):
    return {name: getattr(config, name) for name in config.__dataclass_fields__}


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"sizes": (5,)}, "sizes"), ({"models": ()}, "models"), ({"seeds": 0}, "seeds"), ({"test": 1}, "test")],
)
def test_settings_are_checked(changes, words):
    with pytest.raises(InputError, match=words):
        CurveConfig(**changes)
