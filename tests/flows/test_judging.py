"""Judging classifiers against planted posteriors, where every number has a closed form."""

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpan import flows
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.flows.synthetic_benchmark import Benchmark


def planted(posterior, seed=0, rounding=None):
    """A benchmark of test examples alone, with labels drawn from the posterior."""
    n = len(posterior)
    rng = np.random.default_rng(seed)
    labels = (posterior.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    exact = float(1 - posterior.max(axis=1).mean())
    return Benchmark(
        flows.SynthesizeConfig(), "planted", "0" * 64, 1.0, Estimate(exact, 0, exact, exact),
        Estimate(exact, 0, exact, exact), rounding, tuple(map(str, range(posterior.shape[1]))), "data.npz",
        np.array([f"s{row}" for row in range(n)]), labels, np.full(n, "test"), posterior,
    )  # fmt: skip


def dirichlet(n=2000, k=4, seed=1):
    return np.random.default_rng(seed).dirichlet(np.full(k, 0.5), n)


def test_the_truth_has_nothing_above_the_floor():
    truth = dirichlet()
    found = flows.judge(planted(truth), truth)
    for item in (
        found.excess,
        found.divergence,
        found.distance,
        found.disagreement,
        found.calibration,
    ):
        assert item.value == pytest.approx(0, abs=1e-12)
    assert found.expected_error.value == pytest.approx(found.floor.value)
    assert found.difficulty == pytest.approx(1 - truth.max(axis=1))


def test_always_the_same_class():
    truth = dirichlet()
    found = flows.judge(planted(truth), np.zeros(len(truth), dtype=int))
    assert found.expected_error.value == pytest.approx(1 - truth[:, 0].mean())
    assert found.excess.value == pytest.approx((truth.max(axis=1) - truth[:, 0]).mean())
    assert found.calibration.value == pytest.approx(1 - truth[:, 0].mean())
    assert found.distance.value == pytest.approx(1 - truth[:, 0].mean())


def test_an_overconfident_classifier_keeps_its_error_and_loses_its_calibration():
    truth = dirichlet()
    sharp = truth**3 / (truth**3).sum(axis=1, keepdims=True)
    found = flows.judge(planted(truth), sharp)
    assert found.excess.value == 0
    gap = float((sharp.max(axis=1) - truth.max(axis=1)).mean())
    assert found.calibration.value == pytest.approx(gap, rel=1e-6)  # over-confident in every bin
    entropy = (truth * (np.log(truth) - np.log(sharp))).sum(axis=1).mean()
    assert found.divergence.value == pytest.approx(entropy)


def test_the_counted_error_scatters_around_the_expected_one():
    truth = dirichlet(n=500)
    noisy = np.random.default_rng(2).dirichlet(np.ones(4), 500)
    inside = 0
    for seed in range(200):
        found = flows.judge(planted(truth, seed=seed), noisy)
        inside += found.error.low <= found.expected_error.value <= found.error.high
    assert inside >= 190


@given(st.integers(0, 10**6), st.integers(2, 6), st.floats(0.2, 3))
def test_bounds_and_order(seed, k, power):
    rng = np.random.default_rng(seed)
    truth, guess = rng.dirichlet(np.ones(k), 60), rng.dirichlet(np.ones(k), 60) ** power
    guess /= guess.sum(axis=1, keepdims=True)
    found = flows.judge(planted(truth), guess)
    assert 0 <= found.excess.value <= found.disagreement.value
    assert found.expected_error.value == pytest.approx(found.floor.value + found.excess.value)
    assert 0 <= found.distance.value <= 1
    # Pinsker: TV² ≤ KL/2 holds example by example, so also for the means.
    assert found.distance.value**2 <= found.divergence.value / 2 + 1e-9
    assert found.calibration.value <= 2 * found.distance.value + 1e-9
    swap = rng.permutation(k)
    turned = flows.judge(planted(truth[:, swap]), guess[:, swap])
    assert turned.excess.value == pytest.approx(found.excess.value)
    assert turned.divergence.value == pytest.approx(found.divergence.value)


def test_the_sentence_names_the_floor_of_the_examples_that_were_judged():
    truth = np.tile([[0.8, 0.2], [0.9, 0.1]], (50, 1))
    made = dataclasses.replace(planted(truth), bayes_error=Estimate(0.05, 0.0, 0.05, 0.05))
    found = flows.judge(made, truth, name="net")
    number = r"([\d.]+) %"
    said = re.search(
        f"^net has an expected error of {number} .* lowest possible is {number}: 0 points", found.headline
    )
    assert [float(value) for value in said.groups()] == [15, 15]
    assert "5.00 %" in found.sections()[0].sentences[0]


def test_8_bit_files_say_by_how_much_they_are_not_exact():
    cost = Estimate(0.01, 0.001, 0.008, 0.012)
    truth = dirichlet()
    found = flows.judge(planted(truth, rounding=cost), truth)
    assert found.inexact_by == cost
    assert "up to 1.00 points (0.80–1.20) higher" in found.sections()[0].warnings[0]


@pytest.mark.parametrize(
    "guess",
    [np.ones((3, 4)) / 4, np.full((2000, 4), 0.3), np.full((2000, 4), np.nan), np.full(2000, 4)],
    ids=["too few", "no distribution", "NaN", "no such class"],
)
def test_what_is_no_prediction_is_refused(guess):
    with pytest.raises(InputError, match="probs"):
        flows.judge(planted(dirichlet()), guess)
