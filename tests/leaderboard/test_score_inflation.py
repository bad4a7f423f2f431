"""Scores against a reference set: planted inflation, honest leaders, noise in the reference."""

import numpy as np
import pytest
from scipy.special import ndtr

from hardpan import Outcomes
from hardpan.errors import InputError
from hardpan.leaderboard import inflation


def answers(rng, skill, n, spread=1.0):
    hard = rng.normal(0, spread, n)
    return (rng.random((len(skill), n)) < ndtr(np.asarray(skill)[:, None] - hard)).astype(float)


def test_planted_inflation_is_found_and_ranked_first():
    rng = np.random.default_rng(0)
    skill = np.linspace(-1, 1.5, 20)
    public = skill.copy()
    public[8] += 0.6
    found = inflation(
        Outcomes.from_arrays(answers(rng, public, 3000)), Outcomes.from_arrays(answers(rng, skill, 3000))
    )
    assert found.models[0] == "model-8"
    assert found.inflated.sum() == 1
    assert found.low[0] > 0
    frame = found.to_frame("pandas")
    assert list(frame.columns)[:5] == ["model", "score", "reference_score", "predicted", "excess"]


def test_honest_models_are_rarely_flagged():
    """Any false flag in at most 5 % of sets, with a small and noisy reference set; the leaders included."""
    rng = np.random.default_rng(1)
    flagged = 0
    best = []
    for _ in range(200):
        skill = rng.normal(0, 0.35, 15)
        found = inflation(
            Outcomes.from_arrays(answers(rng, skill, 600)), Outcomes.from_arrays(answers(rng, skill, 400))
        )
        flagged += bool(found.inflated.any())
        leader = int(np.argmax(found.score))
        best.append(found.excess[leader])
    assert flagged <= 19  # the upper end of the 99.9 % region of 5 %
    assert found.slope > found.slope_uncorrected


def test_a_model_beyond_the_others_is_called_outside():
    rng = np.random.default_rng(2)
    skill = np.append(np.linspace(-0.5, 0.5, 12), 2.5)
    found = inflation(
        Outcomes.from_arrays(answers(rng, skill, 1500)), Outcomes.from_arrays(answers(rng, skill, 1500))
    )
    row = found.models.index("model-12")
    assert found.outside[row]
    assert not found.inflated[row]


def test_models_are_joined_by_name():
    rng = np.random.default_rng(3)
    skill = np.linspace(-1, 1, 8)
    names = [f"m{i}" for i in range(8)]
    a, b = answers(rng, skill, 500), answers(rng, skill, 500)
    one = inflation(Outcomes.from_arrays(a, names), Outcomes.from_arrays(b, names))
    other = inflation(Outcomes.from_arrays(a, names), Outcomes.from_arrays(b[::-1], names[::-1]))
    assert one.models == other.models
    np.testing.assert_allclose(one.excess, other.excess)


def test_what_cannot_be_judged_is_refused():
    rng = np.random.default_rng(4)
    with pytest.raises(InputError, match="reference"):
        inflation(Outcomes.from_arrays(answers(rng, [0, 1], 50)), Outcomes.from_arrays(answers(rng, [0, 1], 50)))
    same = np.zeros(10)
    with pytest.raises(InputError, match="reference"):
        inflation(
            Outcomes.from_arrays(answers(rng, same, 300)), Outcomes.from_arrays(answers(rng, same, 100, 0.01))
        )
    with pytest.raises(InputError, match="reference"):
        inflation(Outcomes.from_arrays(np.eye(3)), np.eye(3))
