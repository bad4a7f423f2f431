"""A few of the planted problems of bench/verdicts.py: brackets hold, defects are found."""

import pytest

from bench import verdicts


@pytest.mark.parametrize(
    "name",
    [
        "XOR, noise 15 %",
        "three categories of six levels, noise 10 %",
        "known noise rate",
    ],
)
def test_the_bracket_of_a_planted_problem_contains_its_bayes_error(name, monkeypatch):
    monkeypatch.setattr(verdicts, "N", 800)
    cell = verdicts.audited(name, 0, budget=3.0)
    assert cell["holds"], cell
    assert not cell["alarms"], cell


@pytest.mark.parametrize("name", ["digits, test set copied from train", "one class"])
def test_planted_defects_are_found(name, monkeypatch):
    monkeypatch.setattr(verdicts, "N", 600)
    cell = verdicts.audited(name, 0, budget=1.0)
    assert cell["found"] == cell["planted"], cell
    assert not cell["alarms"], cell


def test_there_are_at_least_forty_planted_problems():
    assert len(verdicts.PROBLEMS) >= 40
