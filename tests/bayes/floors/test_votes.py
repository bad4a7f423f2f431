import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.refusals import refused

from hardpan.bayes.floors.votes import _disagreement_with_other_votes, read_votes, vote_floor
from hardpan.errors import InputError

POSTERIORS = {
    "sharp": lambda rng, n: rng.dirichlet(np.full(10, 0.05), n),
    "flat": lambda rng, n: rng.dirichlet(np.full(10, 1.0), n),
    "binary": lambda rng, n: rng.dirichlet([0.3, 0.3], n),
    "constant": lambda rng, n: np.tile([0.95, 0.05, 0.0], (n, 1)),
    # like CIFAR-10H: nearly all images are clear, some are shared by two classes
    "cifar": lambda rng, n: np.where(
        rng.random(n)[:, None] < 0.85,
        np.tile([0.99] + [0.01 / 9] * 9, (n, 1)),
        np.column_stack([(t := rng.uniform(0.4, 0.9, n)), 1 - t, np.zeros((n, 8))]),
    ),
}


def one_vote_at_a_time(counts):
    """Set each vote aside in turn and compare it with the majority of the rest; ties split."""
    wrong = 0.0
    for label, count in enumerate(counts):
        rest = list(counts)
        rest[label] -= 1
        top = [other for other, number in enumerate(rest) if number == max(rest)]
        wrong += count * (1 - (label in top) / len(top))
    return wrong / sum(counts)


@settings(max_examples=50)
@given(arrays(np.int64, st.tuples(st.integers(1, 5), st.integers(2, 5)), elements=st.integers(0, 4)))
def test_left_out_votes_are_counted_as_one_by_one(votes):
    votes = votes[votes.sum(axis=1) >= 2]
    expected = [one_vote_at_a_time(row) for row in votes.tolist()]
    np.testing.assert_allclose(_disagreement_with_other_votes(votes.astype(float)), expected, atol=1e-12)


@pytest.mark.parametrize("name", POSTERIORS)
def test_the_bracket_contains_the_truth_at_any_number_of_votes(name):
    """80 draws: each end misses no more often than its level of 2.5 % allows (99.9 % binomial limit: 7)."""
    rng = np.random.default_rng(3)
    low = high = 0
    for _ in range(20):
        posterior = POSTERIORS[name](rng, 400)
        truth = float((1 - posterior.max(axis=1)).mean())
        for m in (2, 3, 5, 10):
            votes = rng.multinomial(m, posterior)
            counted = votes[votes.sum(axis=1) >= 2]
            uncorrected = 1 - counted.max(axis=1) / m
            found = vote_floor(votes)
            low += found.low > truth
            high += found.high < truth
            assert found.uncorrected.value == pytest.approx(uncorrected.mean())
    assert low <= 7
    assert high <= 7


def test_numbers_of_votes_may_differ_and_single_votes_are_skipped():
    rng = np.random.default_rng(0)
    posterior = rng.dirichlet([0.5, 0.5], 4000)
    votes = rng.multinomial(rng.integers(0, 8, 4000), posterior)
    found = vote_floor(votes)
    assert found.n == int((votes.sum(axis=1) >= 2).sum())
    assert found.low < float((1 - posterior.max(axis=1)).mean()) < found.high


def test_complete_agreement_gives_zero_with_an_upper_limit():
    found = vote_floor(np.tile([5, 0, 0], (200, 1)))
    assert (found.uncorrected.value, found.left_out.value) == (0.0, 0.0)
    assert 0 < found.high < 0.03


def test_class_order_does_not_matter():
    votes = np.random.default_rng(0).integers(0, 4, (100, 4))
    assert vote_floor(votes) == vote_floor(votes[:, [2, 0, 3, 1]])


@pytest.mark.parametrize(
    "votes",
    [
        np.ones((5, 1)),
        np.full((5, 2), 1.5),
        np.tile([5, -1], (5, 1)),
        np.eye(5, dtype=int),
        np.tile([5.0, np.nan], (5, 1)),
        ["a"],
    ],
)
def test_bad_votes_are_refused(votes):
    with refused("votes"):
        vote_floor(votes)


def test_votes_are_read_from_files_and_joined_by_id(tmp_path):
    ids = np.array(["a", "b", "c", "d"])
    votes = np.array([[3, 0], [1, 2]])
    np.savez(tmp_path / "v.npz", votes=votes, ids=["c", "a"])
    found = read_votes(tmp_path / "v.npz", n_classes=2, ids=ids)
    assert found.rows.tolist() == [2, 0]
    np.save(tmp_path / "v.npy", votes)
    assert read_votes(str(tmp_path / "v.npy"), n_classes=2, ids=ids, test=np.array([1, 3])).rows.tolist() == [1, 3]
    np.savez(tmp_path / "s.npz", soft_labels=np.array([[0.25, 0.75]] * 4))
    assert read_votes(tmp_path / "s.npz", n_classes=2, ids=ids).soft_labels.tolist() == [[0.25, 0.75]] * 4
    for bad in ({"votes": np.ones((2, 3))}, {"x": votes}, {"votes": votes, "ids": np.array(["c", "z"])}):
        np.savez(tmp_path / "bad.npz", **bad)
        with refused("votes"):
            read_votes(tmp_path / "bad.npz", n_classes=2, ids=ids)
    (tmp_path / "not.npz").write_text("no")
    with pytest.raises(InputError, match=r"not\.npz"):
        read_votes(tmp_path / "not.npz", n_classes=2, ids=ids)
