"""Adaptive tests: fewer items than random ones for an error, coverage on held-out models, a known next item."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

from hardpan import Outcomes
from hardpan.errors import InputError
from hardpan.leaderboard import shorten
from hardpan.leaderboard.adaptive_tests import AdaptiveTest

RNG = np.random.default_rng(0)
SKILL = RNG.normal(0, 1.2, 40)
SLOPE, INTERCEPT = RNG.uniform(0.5, 2.5, 120), RNG.normal(0, 1.5, 120)
BOARD = Outcomes.from_arrays((RNG.random((40, 120)) < expit(SKILL[:, None] * SLOPE + INTERCEPT)).astype(float))


@pytest.fixture(scope="module")
def short() -> AdaptiveTest:
    made = shorten(BOARD, 40, adaptive=0.08)
    assert isinstance(made, AdaptiveTest)
    return made


def test_held_out_models_are_covered_with_less_error_than_random_items(short: AdaptiveTest) -> None:
    assert short.held_out == 40
    assert short.coverage >= binom.ppf(0.0001, 40, 0.95) / 40
    assert short.used <= 40
    assert short.mean_error < short.random_error
    assert "held-out" in short.view().sections[0].sentences[0]


def test_the_next_item_is_the_most_informative_one_and_the_test_stops(short: AdaptiveTest) -> None:
    p = expit(short.intercept)  # the prior mean of the skill is 0
    assert short.next_item({}) == short.items[np.argmax(short.slope**2 * p * (1 - p))]
    truth, answered = dict(zip(BOARD.items.tolist(), BOARD.scores[7].tolist(), strict=True)), dict[str, float]()
    while name := short.next_item(answered):
        answered[name] = truth[name]
    assert 2 < len(answered) <= 40
    found = short.estimate(answered)
    assert (found.high - found.low) / 2 >= short.misfit
    everything = short.estimate(truth)
    assert everything.value == pytest.approx(BOARD.scores[7].mean())
    assert everything.stderr == pytest.approx(short.misfit)


def test_refusals(short: AdaptiveTest) -> None:
    with pytest.raises(InputError) as caught:
        short.estimate({"no such item": 1.0})
    assert caught.value.argument == "answered"
    with pytest.raises(InputError) as caught:
        shorten(BOARD, 40, adaptive=0.0)
    assert caught.value.argument == "adaptive"
