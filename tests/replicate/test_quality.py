"""Agreement, truth and skill: published figures, closed forms, planted answers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hardpan.replicate.database.votes import StoredVote
from hardpan.replicate.quality import MIN_INFORMEDNESS, krippendorff_alpha, quality_of_votes
from hardpan.stats.intervals import beta_interval

# Four observers, twelve units, from Krippendorff's "Computing Krippendorff's Alpha-Reliability" (2011), section D.
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


def test_alpha_of_the_published_example():
    counts = np.zeros((12, 5), int)
    for row in OBSERVERS:
        for unit, value in enumerate(row):
            if value is not None:
                counts[unit, value - 1] += 1
    alpha = krippendorff_alpha(counts)
    assert alpha.value == pytest.approx(0.743, abs=5e-4)
    assert alpha.low < alpha.value < alpha.high


def test_alpha_is_zero_on_average_for_guesses_and_undefined_without_variety():
    rng = np.random.default_rng(0)
    yes = rng.binomial(10, 0.4, 4000)
    alpha = krippendorff_alpha(np.column_stack([yes, 10 - yes]))
    assert abs(alpha.value) < 4 * alpha.stderr
    assert np.isnan(krippendorff_alpha(np.array([[3, 0], [2, 0]])).value)


@given(st.integers(0, 40), st.integers(0, 40))
def test_beta_interval_is_the_posterior(k, extra):
    n = k + extra
    if n == 0:
        return
    low, high = beta_interval(k, n, 0.9)
    posterior = stats.beta(k + 0.5, n - k + 0.5)
    assert low == (0 if k == 0 else pytest.approx(posterior.ppf(0.05), rel=1e-9))
    assert high == (1 if k == n else pytest.approx(posterior.ppf(0.95), rel=1e-9))


def votes(worker, positives, hits, negatives, alarms):
    """A worker's votes on controls, on images of their own."""
    made = [StoredVote(f"{worker}-p{k}", 0, worker, "positive", k < hits, 0.0, 1) for k in range(positives)]
    made += [StoredVote(f"{worker}-n{k}", 0, worker, "negative", k < alarms, 0.0, 1) for k in range(negatives)]
    return made


@pytest.mark.parametrize(
    ("counts", "flagged"),
    [
        ((30, 29, 30, 1), False),  # good
        ((30, 22, 30, 2), False),  # originals are not selected by everybody
        ((30, 15, 30, 15), True),  # guesses
        ((30, 30, 30, 30), True),  # selects all
        ((30, 0, 30, 0), True),  # selects nothing
        ((30, 1, 30, 29), True),  # the wrong way round
        ((3, 1, 3, 2), False),  # too little to say
        ((0, 0, 0, 0), False),
    ],
)
def test_who_is_flagged(counts, flagged):
    given_votes = [*votes("w", *counts), StoredVote("c", 0, "w", "candidate", True, 0.0, 1)]
    (worker,) = quality_of_votes(given_votes).workers
    assert worker.flagged is flagged


def test_frequencies_with_and_without_flagged_workers():
    made = votes("good", 30, 29, 30, 0) + votes("bad", 30, 15, 30, 15)
    made += [StoredVote("c", 0, who, "candidate", who == "bad", 0.0, 1) for who in ("good", "bad")]
    (f,) = [f for f in quality_of_votes(made).frequencies if f.role == "candidate"]
    assert (f.selected, f.votes, f.value) == (1, 2, 0.5)
    assert (f.selected_unflagged, f.votes_unflagged, f.unflagged) == (0, 1, 0.0)


def test_a_negative_control_never_counts_against_its_own_class():
    made = [StoredVote("x", 0, "a", "positive", True, 0.0, 1), StoredVote("x", 1, "b", "negative", False, 0.0, 2)]
    found = {(f.image_id, f.class_index): f.value for f in quality_of_votes(made).frequencies}
    assert found == {("x", 0): 1.0, ("x", 1): 0.0}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_everything_is_what_counting_by_hand_gives(seed):
    rng = np.random.default_rng(seed)
    roles = ("candidate", "positive", "negative")
    made = [
        StoredVote(
            f"i{image}", image % 2, f"w{worker}", roles[image % 3], bool(rng.random() < 0.2 * worker), 0.0, 1
        )
        for worker in range(6)
        for image in range(18)
        if rng.random() < 0.6
    ]
    found = quality_of_votes(made)

    def counted(chosen):
        picked = [vote.selected for vote in made if chosen(vote)]
        return sum(picked), len(picked)

    for worker in found.workers:
        name = worker.worker_id
        hits, positives = counted(lambda vote, name=name: (vote.worker_id, vote.role) == (name, "positive"))
        alarms, negatives = counted(lambda vote, name=name: (vote.worker_id, vote.role) == (name, "negative"))
        assert worker.votes == counted(lambda vote, name=name: vote.worker_id == name)[1]
        assert (worker.hits, worker.positives) == (hits, positives)
        assert (worker.false_alarms, worker.negatives) == (alarms, negatives)
        if positives and negatives:
            assert worker.informedness == pytest.approx(hits / positives - alarms / negatives)
            highest = stats.binomtest(hits, positives).proportion_ci(0.9).high
            lowest = stats.binomtest(alarms, negatives).proportion_ci(0.9).low
            assert worker.flagged is bool(highest - lowest < MIN_INFORMEDNESS)
        else:
            assert not worker.flagged
    for item in found.frequencies:
        selected, total = counted(lambda vote, item=item: vote.image_id == item.image_id)
        kept, left = counted(
            lambda vote, item=item: vote.image_id == item.image_id and vote.worker_id not in found.flagged
        )
        assert (item.selected, item.votes, item.value) == (selected, total, selected / total)
        assert (item.low, item.high) == tuple(float(end) for end in beta_interval(selected, total))
        assert (item.selected_unflagged, item.votes_unflagged) == (kept, left)
        assert item.unflagged == pytest.approx(kept / left if left else np.nan, nan_ok=True)
    for role in roles:
        values = [item.value for item in found.frequencies if item.role == role]
        assert (role in found.average) is bool(values)
        if values:
            assert found.average[role].value == pytest.approx(np.mean(values))
    shared = [f for f in found.frequencies if f.role == "candidate" and f.votes >= 2]
    if shared:
        expected = krippendorff_alpha(np.array([[f.selected, f.votes - f.selected] for f in shared]))
        assert found.alpha.value == pytest.approx(expected.value, nan_ok=True)
