import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.refusals import refused

from hardpan.bayes.floors import floor
from hardpan.bayes.floors.votes import _disagreement_with_other_votes, read_votes, vote_floor
from hardpan.data.dataset import Dataset
from hardpan.data.opening import open_corrected
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


LONG = [("b", "ann", "dog"), ("a", "bob", "cat"), ("a", "ann", "cat"), ("c", "bob", "dog"), ("b", "cy", "cat")]


def test_votes_are_read_from_long_and_wide_tables(tmp_path):
    names = ("cat", "dog")
    long = pandas.DataFrame(LONG, columns=["example", "worker", "label"])
    wide = long.pivot(index="example", columns="worker", values="label").reset_index()
    counts = pandas.DataFrame({"id": ["a", "b", "c"], "dog": [0, 1, 1], "cat": [2, 1, 0]})
    long.to_json(tmp_path / "long.jsonl", orient="records", lines=True)
    wide.to_csv(tmp_path / "wide.csv", index=False)
    ids = np.array(["c", "x", "a", "b"])
    for source in (long, long.to_dict("records"), tmp_path / "long.jsonl", wide, tmp_path / "wide.csv", counts):
        found = read_votes(source, n_classes=2, class_names=names, ids=ids)
        assert dict(zip(found.ids, found.votes.tolist(), strict=True)) == {"a": [2, 0], "b": [1, 1], "c": [0, 1]}
        assert [ids[row] for row in found.rows] == list(found.ids)
        if source is not counts:
            at = {name: found.annotators.index(name) for name in ("ann", "bob", "cy")}
            row = found.ids.index("b")
            assert [int(found.answers[row, at[name]]) for name in ("ann", "bob", "cy")] == [1, -1, 0]


def test_numbers_are_classes_and_rows_are_examples():
    table = {"example": [0, 0, 2], "annotator": ["x", "y", "x"], "label": [1.0, None, 0.0]}
    found = read_votes(table, n_classes=2, class_names=("cat", "dog"), ids=np.array(["p", "q", "r"]))
    assert found.rows.tolist() == [0, 2]
    assert found.ids == ("p", "r")
    assert found.votes.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    "table",
    [
        {"example": ["a"], "annotator": ["x"], "label": ["owl"]},
        {"example": ["a", "a"], "annotator": ["x", "x"], "label": ["cat", "dog"]},
        {"example": ["a", None], "annotator": ["x", "x"], "label": ["cat", "dog"]},
        {"example": ["a", "a"], "x": ["cat", "dog"], "y": ["cat", "dog"]},
        {"example": ["z"], "annotator": ["x"], "label": ["cat"]},
        {"example": ["a"]},
    ],
)
def test_tables_that_are_no_votes_are_refused(table):
    with refused("votes"):
        read_votes(table, n_classes=2, class_names=("cat", "dog"), ids=np.array(["a", "b"]))


def test_the_consensus_corrects_the_labels(tmp_path):
    """Ten wrong labels, which three annotators each see: the file that a floor writes corrects them."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 200)
    given = np.where(np.arange(200) < 10, 1 - truth, truth)
    data = Dataset.from_arrays(rng.normal(size=(200, 2)), given, class_names=["no", "yes"])
    names = np.array(["no", "yes"])[truth]
    votes = pandas.DataFrame({"id": data.ids, **dict.fromkeys(("ann", "bob", "cy"), names)})
    result = floor(data, votes=votes, classifiers=(), neighbours=False)
    assert result.consensus.differing == 10
    assert {item.majority for item in result.consensus.annotators} == {1.0}
    (tmp_path / "consensus.csv").write_text(result.view().downloads["consensus.csv"], encoding="utf-8")
    corrected = open_corrected(data, tmp_path / "consensus.csv")
    np.testing.assert_array_equal(corrected.labels, truth)
    assert "votes" in [section.key for section in result.sections()]
