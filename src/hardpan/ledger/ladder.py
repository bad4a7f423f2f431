"""The Ladder of Blum and Hardt (2015): what a leaderboard may say, and how far it can then be from the truth."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from hardpan.arguments import real_number, whole_number
from hardpan.errors import InputError
from hardpan.stats.intervals import log_binomial


def parse_ladder_step(step: float | str | Fraction) -> Fraction:
    """Give the step η as an exact fraction, so that no answer hangs on a rounding of floats.

    Example:
        >>> parse_ladder_step(0.01), parse_ladder_step("1/50")
        (Fraction(1, 100), Fraction(1, 50))
    """
    try:
        exact = Fraction(str(step))
    except (ValueError, ZeroDivisionError):
        exact = Fraction(0)
    if not 0 < exact <= 1:
        raise InputError(f"must be a number in (0, 1]; got {step!r}; try 0.01", argument="step")
    return exact


def climb_ladder(best: int | None, errors: int, examples: int, step: Fraction) -> int:
    """Give the rung that the leaderboard shows after one more submission.

    With R the empirical error and R_best the best released one (none at first): if R < R_best − η, release R
    rounded to the nearest multiple of η (halves up); otherwise release R_best again. Rungs are multiples of η.

    Args:
        best: the rung shown so far, or None before the first submission.
        errors: wrong answers of this submission on the Ladder's part of the test set.
        examples: size of that part.
        step: η.

    Source: Blum and Hardt, "The Ladder: A Reliable Leaderboard for Machine Learning Competitions", 2015, Figure 1.

    Example:
        >>> climb_ladder(None, 304, 1000, Fraction(1, 100))
        30
        >>> climb_ladder(30, 290, 1000, Fraction(1, 100))   # better by exactly one step is not enough
        30
        >>> climb_ladder(30, 289, 1000, Fraction(1, 100))
        29
    """
    error = Fraction(errors, examples)
    if best is not None and not error < (best - 1) * step:
        return best
    return math.floor(error / step + Fraction(1, 2))


def ladder_rungs(step: Fraction) -> int:
    """How many different answers there are: the multiples of η that an error in 0..1 can round to."""
    return math.floor(1 / step + Fraction(1, 2)) + 1


def leaderboard_bound(
    examples: int, submissions: int, improvements: int, step: Fraction | float | str, delta: float = 0.05
) -> float:
    r"""Bound the distance between the error shown and the least true error of all submissions so far.

    With probability at least 1 − δ over the draw of the test set, for every t at once and however the
    submissions were chosen in view of the answers,

        |R_t − min_{i≤t} R_D(f_i)| ≤ η + sqrt( (log(2/δ) + log t(t+1)
                                               + max_{i≤j} log[(i+1)(i+2) C(t−1, i) C(m, i)]) / (2n) )

    with n examples, m rungs (:func:`ladder_rungs`), t submissions and j the improvements released before the t-th.
    Reason: what an analyst submits next depends on the answers alone, and there are C(t−1, i) C(m, i) falling
    sequences of at most t − 1 answers with i releases; Hoeffding's inequality holds for each, with δ shared out
    over t and i as 1/(t(t+1)) and 1/((i+1)(i+2)); and R_t is within η of the least empirical error.

    Example:
        >>> round(leaderboard_bound(10_000, 1000, 5, 0.01), 3)
        0.069
        >>> leaderboard_bound(10_000, 1, 1, 0.01) < 0.03
        True
    """
    exact = parse_ladder_step(step)
    _check_ladder_bound_arguments(examples, submissions, delta)
    if not 0 <= improvements <= submissions:
        raise InputError(f"must lie in 0..submissions={submissions}; got {improvements}", argument="improvements")
    m, earlier = ladder_rungs(exact), submissions - 1
    i = np.arange(min(improvements, earlier, m) + 1)
    strata = np.log((i + 1) * (i + 2)) + log_binomial(earlier, i) + log_binomial(m, i)
    log_count = math.log(2 / delta) + math.log(submissions * (submissions + 1)) + float(strata.max())
    return float(exact) + math.sqrt(log_count / (2 * examples))


def suggested_step(examples: int, submissions: int, delta: float = 0.05) -> Fraction:
    """Give the step 1/q, above one example, that makes the worst-case bound after this many submissions smallest.

    Example:
        >>> suggested_step(10_000, 1000) > suggested_step(1_000_000, 1000)
        True
    """
    _check_ladder_bound_arguments(examples, submissions, delta)
    choices = [Fraction(1, q) for q in range(1, max(2, min(1001, examples)))]
    return min(choices, key=lambda step: leaderboard_bound(examples, submissions, submissions, step, delta))


def submission_limit(examples: int, step: Fraction | float | str, delta: float = 0.05) -> int:
    """How many submissions keep the worst-case bound (every one an improvement) below 1; at most 10¹².

    At a bound of 1 the leaderboard says nothing about the true error. 0 where the first submission reaches it.

    Example:
        >>> submission_limit(20, "1/4"), submission_limit(50, "1/5"), submission_limit(10_000, "1/33")
        (18, 2589, 1000000000000)
    """
    low, high = 0, 10**12
    while low < high:
        middle = (low + high + 1) // 2
        if leaderboard_bound(examples, middle, middle, step, delta) < 1:
            low = middle
        else:
            high = middle - 1
    return low


def check_ladder_step(examples: int, step: Fraction, submissions: int, delta: float) -> None:
    """Refuse a step that shows single labels, or with which the bound says nothing after this many submissions."""
    if step * examples <= 1:
        raise InputError(
            f"step {float(step):g} is at most one of {examples} examples, so one answer can reveal one label; "
            f"give a step above {1 / examples:.3g} (suggested: {suggested_step(examples, submissions, delta)}) or "
            "--unsafe to accept that"
        )
    bound = leaderboard_bound(examples, submissions, submissions, step, delta)
    if bound >= 1:
        raise InputError(
            f"with {examples} examples and step {float(step):g} the bound on the leaderboard's error is "
            f"{bound:.2f} after {submissions:,} submissions, which excludes nothing; plan for at most "
            f"{submission_limit(examples, step, delta):,} submissions, use more labels, or give --unsafe"
        )


def _check_ladder_bound_arguments(examples: int, submissions: int, delta: float) -> None:
    whole_number("examples", examples, 1)
    whole_number("submissions", submissions, 1)
    real_number("delta", delta, "(0, 1)")
