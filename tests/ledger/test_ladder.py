"""The Ladder's rule and bound, and what attacks can get out of it."""

from __future__ import annotations

import contextlib
import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledger.conftest import KEY, LABELS

from hardpan import ledger
from hardpan.errors import InputError
from hardpan.ledger import chain, ladder


@given(st.lists(st.integers(0, 200), min_size=1, max_size=30), st.sampled_from(["1/7", "0.01", "0.05", "1", "0.3"]))
def test_shown_error_is_within_one_step_of_the_least_empirical_error(errors: list[int], text: str) -> None:
    step, best = Fraction(text), None
    for i, wrong in enumerate(errors):
        new = ladder.climb_ladder(best, wrong, 200, step)
        assert best is None or new <= best
        if best is not None and Fraction(wrong, 200) >= best * step - step:
            assert new == best  # an improvement of no more than the step is not released
        best = new
        assert abs(best * step - Fraction(min(errors[: i + 1]), 200)) <= step
        assert 0 <= best < ladder.ladder_rungs(step)


@pytest.mark.parametrize(("rungs", "length"), [(2, 3), (3, 4), (4, 5)])
def test_bound_counts_the_transcripts_that_there_are(rungs: int, length: int) -> None:
    # Prefixes of at most length-1 answers that start with a release and only fall: count by brute force.
    counted: dict[int, int] = {0: 1}
    for n in range(1, length):
        for answers in itertools.product(range(rungs), repeat=n):
            if all(a >= b for a, b in itertools.pairwise(answers)):
                releases = len(set(answers))
                counted[releases] = counted.get(releases, 0) + 1
    for releases, count in counted.items():
        assert count == math.comb(length - 1, releases) * math.comb(rungs, releases)


def test_bound_by_hand() -> None:
    # t = 3 submissions, 2 releases before the third, step 1/2: rungs at 0, 1/2, 1.
    log_count = math.log(2 / 0.1) + math.log(12) + max(math.log(2), math.log(6 * 2 * 3), math.log(12 * 1 * 3))
    assert ledger.leaderboard_bound(50, 3, 2, "1/2", 0.1) == pytest.approx(0.5 + math.sqrt(log_count / 100))


@given(
    st.integers(10, 10**6), st.integers(1, 10**4), st.integers(0, 10**4), st.sampled_from([0.005, 0.01, 0.05, 0.1])
)
def test_bound_grows_with_submissions(n: int, t: int, j: int, step: float) -> None:
    bound = ledger.leaderboard_bound(n, t, min(j, t), step)
    assert bound <= ledger.leaderboard_bound(n, t + 1, min(j, t) + 1, step)


def test_leaderboard_survives_an_attack_that_fools_exact_answers() -> None:
    # Labels are coins: every submission has true error 1/2. The attacker keeps what scored above chance and votes.
    rng = np.random.default_rng(3)
    n, k, step = 2000, 300, Fraction(1, 50)
    labels = rng.integers(0, 2, n)
    tries = rng.integers(0, 2, (k, n))
    exact = (tries != labels).mean(axis=1)
    vote = (tries[exact < 0.5].mean(axis=0) > 0.5).astype(int)
    assert (vote != labels).mean() < 0.44  # exact answers are overfitted by six points and more
    best, shown = None, []
    for attempt in tries:
        best = ladder.climb_ladder(best, int((attempt != labels).sum()), n, step)
        shown.append(best)
    improved = [i for i in range(k) if i == 0 or shown[i] < shown[i - 1]]
    vote = (tries[improved].mean(axis=0) > 0.5).astype(int)
    best = ladder.climb_ladder(best, int((vote != labels).sum()), n, step)
    bound = ledger.leaderboard_bound(n, k + 1, len(improved) + 1, step)
    assert abs(float(best * step) - 0.5) <= min(bound, 0.05)


@pytest.mark.parametrize("step", [0, -1, 1.5, "x", "1/0", float("nan")])
def test_bad_step_is_refused(step: object) -> None:
    with pytest.raises(InputError, match=r"\bstep\b"):
        ladder.parse_ladder_step(step)  # type: ignore[arg-type]


# Attacks through a whole ledger with its default settings. Labels are coins, so every classifier errs on half of
# the distribution: what the best submission gets right beyond half of the test set was learned from answers.


def one_at_a_time(book, n: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Change one prediction after the other; keep a change that is answered with an improvement."""
    best, kept = rng.integers(0, 2, n), 0
    book.submit(best)
    for i in range(n):
        trial = best.copy()
        trial[i] ^= 1
        if book.submit(trial).improved:
            best, kept = trial, kept + 1
    return best, kept


def by_groups(book, n: int, rng: np.random.Generator, tries: int, size: int) -> tuple[np.ndarray, int]:
    """Change ``size`` predictions at random; keep a change that is answered with an improvement."""
    best, kept = rng.integers(0, 2, n), 0
    book.submit(best)
    for _ in range(tries):
        trial = best.copy()
        trial[rng.choice(n, size, replace=False)] ^= 1
        if book.submit(trial).improved:
            best, kept = trial, kept + 1
    return best, kept


def test_one_at_a_time_recovers_nothing(tmp_path: Path) -> None:
    n, rng = 100, np.random.default_rng(0)
    book = ledger.create(tmp_path / "book", rng.integers(0, 2, n), KEY)
    assert one_at_a_time(book, n, rng)[1] == 0


def test_a_walk_recovers_one_label_for_each_step_of_the_shown_error(tmp_path: Path) -> None:
    # The change with which a walk crosses a step is right for certain; nothing else is.
    n, rng = 60, np.random.default_rng(0)
    coins = np.zeros(n, dtype=int)
    book = ledger.create(tmp_path / "book", coins, KEY, classes=2)
    trial, known = np.ones(n, dtype=int), []
    first = book.submit(trial).error
    for i in rng.permutation(n):  # the luckiest walk: every change is right
        trial[i] = 0
        if book.submit(trial).improved:
            known.append(i)
    state = book.status()
    assert 0 < len(known) <= (first - state.error) / state.step <= 1 / state.step < n / 5


@pytest.mark.parametrize("size", [8, 30])
def test_groups_recover_no_more_than_the_bound_allows(tmp_path: Path, size: int) -> None:
    n, rng = 100, np.random.default_rng(size)
    coins = rng.integers(0, 2, n)
    book = ledger.create(tmp_path / "book", coins, KEY)
    best, kept = by_groups(book, n, rng, 100, size)
    state = book.status()
    assert abs(state.error - 0.5) <= state.bound
    # An improvement is worth more than a step, and there are few steps between 1/2 and 0.
    assert kept <= 0.5 / state.step
    assert (best == coins).mean() - 0.5 <= state.bound


def test_a_step_below_one_example_is_what_made_the_attack_work(tmp_path: Path) -> None:
    n, rng = 60, np.random.default_rng(0)
    coins = rng.integers(0, 2, n)
    with pytest.raises(InputError, match="step"):
        ledger.create(tmp_path / "book", coins, KEY, step=0.01)
    assert not (tmp_path / "book").exists()
    book = ledger.create(tmp_path / "book", coins, KEY, step=0.01, unsafe=True)
    best, _ = one_at_a_time(book, n, rng)
    assert (best == coins).all()
    assert book.status().unsafe


def test_a_bound_that_excludes_nothing_is_refused_at_the_start_and_on_the_way(tmp_path: Path) -> None:
    coins = np.random.default_rng(0).integers(0, 2, 12)
    with pytest.raises(InputError, match="bound"):
        ledger.create(tmp_path / "book", coins, KEY)
    book = ledger.create(tmp_path / "book", coins, KEY, submissions=2)
    state = book.status()
    assert state.limit == 2
    assert state.bound_limit == ledger.leaderboard_bound(12, 2, 2, state.step) < 1
    # The limit is for the worst case, in which every submission improves; with few improvements there is more room.
    tries = iter(np.random.default_rng(1).integers(0, 2, (300, 12)))

    def submit_all() -> None:
        for trial in tries:
            assert book.submit(trial).bound <= state.bound_limit

    with pytest.raises(InputError, match="bound"):
        submit_all()
    assert book.status().submissions >= state.limit


def pairs_until_refused(book, n: int, rng: np.random.Generator, most: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Change two predictions at a time; gives the first and the best submission, and how many were answered."""
    first = rng.integers(0, 2, n)
    best = first.copy()
    book.submit(best)
    for count in range(1, most):
        trial = best.copy()
        trial[rng.choice(n, 2, replace=False)] ^= 1
        try:
            if book.submit(trial).improved:
                best = trial
        except InputError:
            return first, best, count
    return first, best, most


def test_a_plan_for_few_submissions_has_a_small_step_and_so_few_are_answered(tmp_path: Path) -> None:
    # The step for two submissions is one example: without the limit, pairs would recover most of the labels.
    n, rng = 100, np.random.default_rng(0)
    coins = rng.integers(0, 2, n)
    book = ledger.create(tmp_path / "book", coins, KEY, submissions=2)
    assert book.status().step * n < 1.1
    first, best, answered = pairs_until_refused(book, n, rng, 300)
    assert 2 <= answered <= 4
    assert (best == coins).sum() - (first == coins).sum() <= 2
    free = ledger.create(tmp_path / "free", coins, KEY, submissions=2, unsafe=True)
    first, best, answered = pairs_until_refused(free, n, rng, 100)
    assert answered == 100
    assert (best == coins).sum() - (first == coins).sum() > 10


def learned(step: Fraction, size: int, seed: int, n: int = 100, tries: int = 1000) -> float:
    """By how much the best of a thousand submissions, each with ``size`` predictions changed, beats the first."""
    rng = np.random.default_rng(seed)
    coins, best = rng.integers(0, 2, (2, n))
    first, shown = (best == coins).mean(), ladder.climb_ladder(None, int((best != coins).sum()), n, step)
    for _ in range(tries):
        trial = best.copy()
        trial[rng.choice(n, size, replace=False)] ^= 1
        answer = ladder.climb_ladder(shown, int((trial != coins).sum()), n, step)
        if answer != shown:
            best, shown = trial, answer
    return float((best == coins).mean() - first)


@pytest.mark.parametrize("size", [1, 2, 8, 30])
def test_groups_of_any_size_learn_little_with_the_default_step(size: int) -> None:
    step = ledger.suggested_step(100, 1000)
    assert np.mean([learned(step, size, seed) for seed in range(5)]) < 0.15
    assert (
        np.mean([learned(Fraction(1, 200), size, seed) for seed in range(5)]) > 0.2
    )  # what a small step gives away


def labels_that_answers_determine(submitted: np.ndarray, rungs: list[int], step: Fraction) -> int:
    """How many labels are the same in all labelings that would have been answered so: by trying all of them."""
    n = submitted.shape[1]
    labelings = np.array(list(itertools.product((0, 1), repeat=n)), dtype=np.int8)
    possible, best = np.ones(len(labelings), dtype=bool), None
    for predictions, rung in zip(submitted, rungs, strict=True):
        answers = np.array([ladder.climb_ladder(best, wrong, n, step) for wrong in range(n + 1)])
        possible &= answers[(labelings != predictions).sum(axis=1)] == rung
        best = rung
    return int((labelings[possible] == labelings[possible][0]).all(axis=0).sum())


def test_the_limit_keeps_the_labels_of_a_tiny_set(tmp_path: Path) -> None:
    # One prediction after the other is changed, and all changes are kept.
    n, limited, unlimited = 12, 0, 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        coins = rng.integers(0, 2, n)
        changes = np.eye(n, dtype=int)[rng.permutation(n)]
        walk = np.cumsum([rng.integers(0, 2, n), *changes], axis=0) % 2
        book = ledger.create(tmp_path / str(seed), coins, KEY, submissions=2)
        answered = 0
        with contextlib.suppress(InputError):
            for predictions in walk:
                book.submit(predictions)
                answered += 1
        step, rungs = ladder.parse_ladder_step(chain.read_ledger_header(book.folder)[0]["step"]), []
        for predictions in walk:
            best = rungs[-1] if rungs else None
            rungs.append(ladder.climb_ladder(best, int((predictions != coins).sum()), n, step))
        limited += labels_that_answers_determine(walk[:answered], rungs[:answered], step)
        unlimited += labels_that_answers_determine(walk, rungs, step)
    assert limited <= 5  # of 60 labels
    assert unlimited > 10


def test_the_hold_out_is_off_unless_asked_for(tmp_path: Path) -> None:
    assert ledger.create(tmp_path / "book", LABELS, KEY).status().holdout_examples == 0


@pytest.mark.parametrize("n", [50, 100, 1000, 20_000])
def test_the_suggested_step_shows_no_single_label(n: int) -> None:
    step = ledger.suggested_step(n, 1000)
    assert step * n > 1
    assert ledger.leaderboard_bound(n, 1000, 1000, step) < 1
