"""A few of the planted problems of bench/verdicts.py: brackets hold, defects are found."""

import pytest

from bench import verdicts


@pytest.mark.parametrize(
    "name",
    [
        "tree of 4 leaves, noise 0 %",
        "XOR, noise 15 %",
        "Student, 2 degrees of freedom",
        "labels without a rule",
        "three categories of six levels, noise 10 %",
        "known noise rate",
    ],
)
def test_the_bracket_of_a_planted_problem_contains_its_bayes_error(name, monkeypatch):
    monkeypatch.setattr(verdicts, "N", 800)
    cell = verdicts.audited(name, 0, budget=3.0)
    assert cell["holds"], cell
    assert not cell["alarms"], cell


@pytest.mark.parametrize(
    "name",
    ["digits, test set copied from train", "row number among the features", "one class", "a constant column"],
)
def test_planted_defects_are_found(name, monkeypatch):
    monkeypatch.setattr(verdicts, "N", 600)
    cell = verdicts.audited(name, 0, budget=1.0)
    assert cell["found"] == cell["planted"], cell
    assert not cell["alarms"], cell


def test_there_are_at_least_forty_planted_problems():
    assert len(verdicts.PROBLEMS) >= 40
