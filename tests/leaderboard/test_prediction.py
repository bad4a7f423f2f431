"""Scores on another set: planted inflation and honest leaders; accuracy on an unlabelled set from agreements."""

import numpy as np
import pytest
from scipy.special import ndtr

from hardpan import Outcomes, Predictions
from hardpan.errors import InputError
from hardpan.leaderboard import agreement, inflation


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


def predictions(rng, labels, skill, classes=10):
    hard = rng.normal(0, 1.2, labels.size)
    right = skill[:, None] - hard + rng.normal(size=(skill.size, labels.size)) > 0
    return np.where(right, labels, rng.integers(0, classes, (skill.size, labels.size)))


@pytest.fixture(scope="module")
def shifted():
    rng = np.random.default_rng(0)
    old, new = rng.integers(0, 10, 6000), rng.integers(0, 10, 3000)
    skill = np.linspace(1, 3, 15)
    return predictions(rng, old, skill), old, predictions(rng, new, skill - 0.6), new


def test_planted_drop_is_recovered(shifted):
    old, labels, new, hidden = shifted
    result = agreement(old, labels, new)
    truth = (new == hidden).mean(axis=1)
    drop = (result.accuracy - truth).mean()
    assert (result.examples_old, result.examples_new) == (6000, 3000)
    assert drop > 0.05
    assert np.abs(result.estimate - truth).mean() < 0.25 * drop
    assert np.mean((result.low <= truth) & (truth <= result.high)) > 0.9
    assert list(result.to_frame("pandas").columns) == ["model", "accuracy", "estimate", "stderr", "low", "high"]


def test_no_shift_gives_no_drop(shifted):
    old, labels, *_ = shifted
    result = agreement(old[:, :3000], labels[:3000], old[:, 3000:])
    assert abs((result.accuracy - result.estimate).mean()) < 0.015


def test_transfer_error_widens_the_interval(shifted):
    old, labels, new, _ = shifted
    tight, wide = agreement(old, labels, new, transfer_error=0), agreement(old, labels, new, transfer_error=0.03)
    np.testing.assert_allclose(wide.stderr**2, tight.stderr**2 + 0.03**2)
    assert (wide.estimate == tight.estimate).all()


def test_forms_of_predictions_agree(shifted):
    old, labels, new, _ = shifted
    expected = agreement(old, labels, new)
    probs_old, probs_new = np.eye(10)[old], np.eye(10)[new]
    np.testing.assert_allclose(agreement(probs_old, labels, probs_new).estimate, expected.estimate)
    by_name = agreement(
        {f"m{i}": row for i, row in enumerate(old)}, labels, {f"m{i}": row for i, row in enumerate(new)}
    )
    np.testing.assert_allclose(by_name.estimate, expected.estimate)
    text = agreement(old.astype(str), labels, new.astype(str))
    np.testing.assert_allclose(text.estimate, expected.estimate)
    stored = [Predictions.from_arrays(part[:, None].astype(np.float32)) for part in (probs_old, probs_new)]
    np.testing.assert_allclose(agreement(stored[0], labels, stored[1]).estimate, expected.estimate)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda o, y, n: (o[:2], y, n[:2]), "predictions_old"),
        (lambda o, y, n: (o, y[:5], n), "labels"),
        (lambda o, y, n: (o, y, n[:4]), "predictions_new"),
        (lambda o, y, n: (o.astype(float), y, n), "predictions_old"),
        (lambda o, y, n: (o[0], y, n), "predictions_old"),
    ],
)
def test_wrong_arguments_are_named(shifted, change, name):
    old, labels, new, _ = shifted
    with pytest.raises(InputError, match=name):
        agreement(*change(old, labels, new))
    with pytest.raises(InputError, match="transfer_error"):
        agreement(old, labels, new, transfer_error=-1)
