import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardpan.bayes.floors import vote_floor
from hardpan.bayes.floors.votes import _held_out
from hardpan.errors import InputError


def one_vote_at_a_time(counts):
    """Set each vote aside in turn and ask the majority of the rest; equals share."""
    wrong = 0.0
    for label, count in enumerate(counts):
        rest = list(counts)
        rest[label] -= 1
        top = [other for other, number in enumerate(rest) if number == max(rest)]
        wrong += count * (1 - (label in top) / len(top))
    return wrong / sum(counts)


@settings(max_examples=200)
@given(arrays(np.int64, st.tuples(st.integers(1, 5), st.integers(2, 5)), elements=st.integers(0, 4)))
def test_held_out_votes_are_counted_as_one_by_one(votes):
    votes = votes[votes.sum(axis=1) >= 2]
    expected = [one_vote_at_a_time(row) for row in votes.tolist()]
    np.testing.assert_allclose(_held_out(votes.astype(float)), expected, atol=1e-12)


@pytest.mark.parametrize("votes", [2, 3, 5, 10, 50])
@pytest.mark.parametrize(("classes", "concentration"), [(2, 0.3), (2, 20.0), (10, 0.05), (10, 1.0)])
def test_the_truth_lies_between_too_low_and_too_high(votes, classes, concentration):
    rng = np.random.default_rng(votes)
    posterior = rng.dirichlet(np.full(classes, concentration), 3000)
    floor = float((1 - posterior.max(axis=1)).mean())
    found = vote_floor(rng.multinomial(votes, posterior))
    assert found.corrected.low < floor < found.corrected.high
    assert found.direct.low < floor
    assert floor < found.held_out.high
    assert abs(found.corrected.value - floor) < abs(found.direct.value - floor) + 3 * found.direct.stderr
    assert found.fewest == votes


def test_the_correction_takes_most_of_the_bias_away():
    rng = np.random.default_rng(0)
    posterior = rng.dirichlet(np.full(10, 0.3), 20_000)
    floor = float((1 - posterior.max(axis=1)).mean())
    for votes, share in ((3, 0.2), (5, 0.2), (10, 0.2)):
        found = vote_floor(rng.multinomial(votes, posterior))
        assert abs(found.corrected.value - floor) < share * abs(found.direct.value - floor)


def test_numbers_of_votes_may_differ_and_single_votes_are_left_out():
    rng = np.random.default_rng(0)
    posterior = rng.dirichlet([0.5, 0.5], 4000)
    votes = rng.multinomial(rng.integers(0, 8, 4000), posterior)
    found = vote_floor(votes)
    assert found.left_out == int((votes.sum(axis=1) < 2).sum())
    assert found.n + found.left_out == 4000
    assert any("left out" in note for note in found.corrected.notes)
    assert found.corrected.low < float((1 - posterior.max(axis=1)).mean()) < found.corrected.high


def test_agreement_of_all_gives_zero_with_an_upper_limit():
    found = vote_floor(np.tile([5, 0, 0], (200, 1)))
    assert (found.direct.value, found.held_out.value, found.corrected.value) == (0.0, 0.0, 0.0)
    assert 0 < found.corrected.high < 0.03


def test_class_order_does_not_matter():
    votes = np.random.default_rng(0).integers(0, 4, (100, 4))
    assert vote_floor(votes) == vote_floor(votes[:, [2, 0, 3, 1]])


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        (np.ones((5, 1)), "shape"),
        (np.full((5, 2), 0.5), "soft labels"),
        (np.full((5, 2), -1), "at least 0"),
        (np.eye(5, dtype=int), "two votes each"),
        (np.full((5, 2), np.nan), "whole numbers"),
        (["a"], "shape"),
    ],
)
def test_bad_votes_are_refused(votes, message):
    with pytest.raises(InputError, match=message):
        vote_floor(votes)
