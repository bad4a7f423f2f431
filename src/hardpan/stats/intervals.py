"""Confidence intervals for shares and means."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hardpan import arguments
from hardpan.errors import InputError
from hardpan.estimates import Estimate


def clopper_pearson(
    successes: ArrayLike, trials: ArrayLike, confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Exact binomial confidence limits for a proportion, element by element.

    The limits invert the two one-sided binomial tests, each at level α/2 with α = 1 − confidence:
    low = B⁻¹(α/2; k, n−k+1) and high = B⁻¹(1 − α/2; k+1, n−k), with B⁻¹ the quantile of the beta distribution;
    low is 0 where k = 0 and high is 1 where k = n.

    Args:
        successes: whole numbers k, 0 ≤ k ≤ n, of any shape.
        trials: whole numbers n ≥ 1; broadcasts against ``successes``.
        confidence: the level, between 0 and 1.

    Returns:
        (low, high), each of the broadcast shape.

    Source: Clopper and Pearson, "The use of confidence or fiducial limits" (1934).

    Example:
        >>> low, high = clopper_pearson([0, 1800], [10, 2000])
        >>> low.round(3).tolist(), high.round(3).tolist()
        ([0.0, 0.886], [0.308, 0.913])
    """
    k, n = _successes_and_trials(successes, trials)
    level = check_confidence(confidence)
    tail = (1.0 - level) / 2.0
    # Placeholder parameters where the limit is known exactly keep the special functions away from their edges.
    low = np.where(k == 0, 0.0, special.betaincinv(np.maximum(k, 1.0), n - k + 1.0, tail))
    high = np.where(k == n, 1.0, special.betainccinv(k + 1.0, np.maximum(n - k, 1.0), tail))
    return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)


def share(
    count: float,
    total: float,
    confidence: float = 0.95,
    *,
    method: str = "Clopper–Pearson",
    seed: int | None = None,
) -> Estimate:
    """A share k/n of examples with its exact interval (:func:`clopper_pearson`) and standard error √(p(1 − p)/n).

    Args:
        count: k, how many of them, a whole number.
        total: n, of how many; of none, the share is NaN and its interval 0 to 1.
        confidence: level of the interval.
        method: how the number was made, in words.
        seed: of the draw that chose the examples.

    Example:
        >>> share(5, 10)
        Estimate(0.5 ± 0.16, 95 % [0.187086, 0.812914], Clopper–Pearson, n=10)
    """
    if count == total == 0:
        return Estimate(np.nan, np.nan, 0.0, 1.0, check_confidence(confidence), method, 0, seed)
    low, high = clopper_pearson(count, total, confidence)
    value = float(count / total)
    error = (value * (1.0 - value) / total) ** 0.5
    return Estimate(value, error, float(low), float(high), confidence, method, int(total), seed)


def mean(
    values: ArrayLike,
    confidence: float = 0.95,
    *,
    least: float = -np.inf,
    most: float = np.inf,
    method: str = "mean, normal interval",
    seed: int | None = None,
    notes: tuple[str, ...] = (),
) -> Estimate:
    """The mean of independent values with its normal interval, x̄ ± z s/√n.

    Args:
        values: (n,) numbers, at least one; a single one has no standard error: NaN.
        confidence: level of the interval.
        least: what no mean can be below, such as 0 for errors: the interval ends there.
        most: what no mean can be above.
        method: how the number was made, in words.
        seed: of the draw of the values.
        notes: what a reader must know besides.

    Example:
        >>> mean([1.0, 2.0, 3.0])
        Estimate(2 ± 0.58, 95 % [0.868414, 3.13159], mean, normal interval, n=3)
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not len(numbers):
        raise InputError(f"must be one row of at least one number; got shape {numbers.shape}", argument="values")
    n = len(numbers)
    error = float(numbers.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    return normal(
        float(numbers.mean()), error, n, confidence, least=least, most=most, method=method, seed=seed, notes=notes
    )


def normal(
    value: float,
    stderr: float,
    n: int,
    confidence: float = 0.95,
    *,
    least: float = -np.inf,
    most: float = np.inf,
    method: str = "normal interval",
    seed: int | None = None,
    notes: tuple[str, ...] = (),
    df: int = 0,
) -> Estimate:
    """A value with the normal interval of its standard error, value ± z stderr, cut at what can be.

    Args:
        value: the number.
        stderr: its standard error; where it is NaN, so are the interval's ends.
        n: examples that it rests on.
        confidence: level of the interval.
        least: where the interval ends below.
        most: where the interval ends above.
        method: how the number was made, in words.
        seed: of the draw behind it.
        notes: what a reader must know besides.
        df: where the standard error itself is estimated from few values, its degrees of freedom: Student's t in the
            place of the normal.

    Example:
        >>> normal(0.01, 0.02, 50, least=0.0)
        Estimate(0.01 ± 0.02, 95 % [0, 0.0491993], normal interval, n=50)
    """
    level = 0.5 + check_confidence(confidence) / 2.0
    reach = float(special.stdtrit(df, level) if df > 0 else special.ndtri(level)) * stderr
    low, high = (float(end) for end in np.clip([value - reach, value + reach], least, most))
    return Estimate(value, stderr, low, high, confidence, method, n, seed, notes=notes)


def normal_quantile(confidence: float) -> float:
    """Half the width of a two-sided normal interval in standard errors, z = Φ⁻¹(½ + confidence/2).

    Example:
        >>> round(normal_quantile(0.95), 3)
        1.96
    """
    return float(special.ndtri(0.5 + check_confidence(confidence) / 2.0))


def check_confidence(confidence: float) -> float:
    """A confidence level as a float; refused unless it lies between 0 and 1."""
    return arguments.real_number("confidence", confidence, "(0, 1)")


def _successes_and_trials(
    successes: ArrayLike, trials: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    k = arguments.whole_numbers("successes", successes).astype(np.float64)
    n = arguments.whole_numbers("trials", trials).astype(np.float64)
    try:
        k, n = np.broadcast_arrays(k, n)
    except ValueError as error:
        raise InputError(
            f"must broadcast; got shapes {np.shape(successes)} and {np.shape(trials)}",
            argument=("successes", "trials"),
        ) from error
    if (n < 1).any():
        raise InputError("must be at least 1; got 0", argument="trials")
    if (k > n).any():
        where = np.argmax(k > n)
        raise InputError(
            f"must not exceed trials; got {k.flat[where]:g} of {n.flat[where]:g}", argument="successes"
        )
    return k, n
