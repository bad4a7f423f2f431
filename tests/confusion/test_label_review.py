"""The review of a random sample counts wrong labels: known truth, known coverage, two ends for ambiguous ones."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import binom

from hardpan import confusion
from hardpan.confusion.label_noise import LabelIssues, RankedLabels
from hardpan.confusion.label_review import LEAST, LabelReview, count_wrong, strata_of
from hardpan.errors import InputError


def ranking(seed, n=3000, classes=4, noise=0.1, signal=3.0):
    """Ranked labels of a classifier, some of them wrong, and the true classes by row."""
    rng = np.random.default_rng([seed, n])
    truth = rng.integers(0, classes, n)
    logits = 2 * (signal * np.eye(classes)[truth] + rng.normal(size=(n, classes)))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    label = np.where(rng.random(n) < noise, (truth + rng.integers(1, classes, n)) % classes, truth)
    split = np.where(np.arange(n) < n // 4, "test", "train")
    predicted, own = probs.argmax(axis=1), probs[np.arange(n), label]
    ids = np.array([f"e{row}" for row in range(n)])
    return RankedLabels.of(np.arange(n), ids, split, label, predicted, own), truth


def judged(ranked, truth, count, seed):
    """The review of somebody who knows the truth."""
    review = LabelIssues.of(ranked).sample(count, seed=seed)
    for position, row in enumerate(review.row):
        right = str(truth[row])
        review.judge(position, *(("right",) if right == review.label[position] else ("wrong", right)))
    return review


def test_differing_labels_come_first_and_each_part_by_its_probability():
    ranked, _ = ranking(0)
    differs = ranked.predicted != ranked.label
    assert differs[: ranked.differing].all()
    assert not differs[ranked.differing :].any()
    for part in (slice(ranked.differing), slice(ranked.differing, None)):
        assert (np.diff(ranked.probability[part]) >= 0).all()


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_strata_are_within_the_list_and_within_the_test_set(noise):
    ranked, _ = ranking(1, noise=noise)
    stratum = strata_of(ranked)
    for h in range(stratum.max() + 1):
        members = np.flatnonzero(stratum == h)
        assert len({bool(row < ranked.differing) for row in members}) == 1
        assert len(set((ranked.split[members] == "test").tolist())) == 1
        others = (ranked.split == "test") == (ranked.split[members[0]] == "test")
        assert (stratum[members[0] : members[-1] + 1] == h)[others[members[0] : members[-1] + 1]].all()
    review = LabelIssues.of(ranked).sample(200, seed=0)
    assert len(review) == len(set(review.id)) == 200
    drawn, sizes = np.bincount(review.stratum), np.bincount(stratum)
    assert (drawn >= np.minimum(sizes, LEAST)).all()
    assert (review.size == sizes[review.stratum]).all()
    assert (np.diff(review.stratum) < 0).any()  # in random order
    assert set(LabelIssues.of(ranked).sample(149, seed=0).stratum) == {0}


@pytest.mark.parametrize(("count", "noise", "signal"), [(200, 0.1, 3.0), (200, 0.4, 1.0), (100, 0.1, 3.0)])
def test_intervals_cover_the_truth(count, noise, signal):
    ranked, truth = ranking(2, noise=noise, signal=signal)
    by_row = np.argsort(ranked.row)
    label, predicted, split = (column[by_row] for column in (ranked.label, ranked.predicted, ranked.split))
    wrong, differs = truth != label, predicted != label
    facts = (wrong.sum(), wrong[differs].mean(), (predicted != truth)[split == "test"].mean())
    hits, values = np.zeros(3), []
    for seed in range(300):
        found = count_wrong(judged(ranked, truth, count, seed))
        estimates = (found.wrong, found.precision, found.test_error)
        hits += [item.low <= fact <= item.high for item, fact in zip(estimates, facts, strict=True)]
        values.append(found.wrong.value)
        assert found.found <= found.wrong.low
        assert found.stated_error == pytest.approx(differs[split == "test"].mean()) or count < 150
    assert (hits >= binom.ppf(0.001, 300, 0.95)).all(), hits
    assert abs(np.mean(values) - facts[0]) < 4 * np.std(values) / np.sqrt(300)


def test_the_strata_make_the_interval_narrower():
    ranked, truth = ranking(3, n=20_000, noise=0.05)
    ranked = dataclasses.replace(ranked, split=np.full(20_000, ""))
    strata = [count_wrong(judged(ranked, truth, 200, seed)).wrong for seed in range(20)]
    plain = [count_wrong(judged(ranked, truth, 149, seed)).wrong for seed in range(20)]
    width = {name: np.mean([item.high - item.low for item in got]) for name, got in (("s", strata), ("p", plain))}
    assert width["s"] < np.sqrt(149 / 200) * width["p"]


def test_all_labels_judged_leave_no_doubt():
    ranked, truth = ranking(4, n=300)
    found = count_wrong(judged(ranked, truth, 300, 0))
    wrong = (ranked.label != truth[ranked.row]).sum()
    assert found.wrong.low == found.wrong.value == found.wrong.high == wrong
    assert found.precision.low == found.precision.high


def test_ambiguous_labels_count_as_right_and_as_wrong():
    ranked, truth = ranking(5, n=300)
    review = judged(ranked, truth, 300, 0)
    wrong = count_wrong(review).wrong.value
    for position in range(10):
        review.judge(int(np.flatnonzero(review.verdict == "right")[0]), "ambiguous" if position % 2 else "skipped")
    found = count_wrong(review)
    assert (found.wrong.low, found.wrong.value, found.ambiguous) == (wrong, wrong, 10)
    assert found.wrong.high == wrong + 10
    assert (
        found.test_error.low <= count_wrong(judged(ranked, truth, 300, 0)).test_error.value <= found.test_error.high
    )


def test_a_file_keeps_the_review_and_refuses_what_is_none(tmp_path):
    ranked, truth = ranking(6)
    review, issues = judged(ranked, truth, 200, 0), LabelIssues.of(ranked)
    review.save(tmp_path / "review.csv")
    LabelReview.read(tmp_path / "review.csv").save(tmp_path / "again.csv")
    saved = (tmp_path / "review.csv").read_text()
    assert (tmp_path / "again.csv").read_text() == saved
    assert issues.count(tmp_path / "review.csv") == issues.count(review) == count_wrong(review)
    review.verdict[review.stratum == 0] = ""
    with pytest.raises(InputError, match="continue"):
        issues.count(review)
    with pytest.raises(InputError, match="among"):
        LabelIssues.of(ranking(6, n=100)[0]).count(review)
    for text in ("id,verdict\n1,right\n", saved.replace("right", "fine"), ""):
        (tmp_path / "other.csv").write_text(text)
        with pytest.raises(InputError):
            LabelReview.read(tmp_path / "other.csv")
    for verdict in (("fine",), ("right", "2"), ("wrong", review.label[0])):
        with pytest.raises(InputError):
            review.judge(0, *verdict)


def test_a_list_of_arrays_can_be_reviewed():
    rng = np.random.default_rng(7)
    probs = rng.dirichlet(np.ones(3), 400)
    review = confusion.label_issues(probs, labels=rng.integers(0, 3, 400)).sample(20, seed=1)
    assert (len(review), set(review.split)) == (20, {""})
