"""How sure a score is: jackknife over seeds, block bootstrap over epochs, and whether the ranking would hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hardpan.confusion.orders import kendall
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record

if TYPE_CHECKING:
    from hardpan.confusion.scoring import Scores

Floats = NDArray[np.float64]
HARDEST = 0.1


def jackknife_variance(left_out: Floats) -> Floats:
    """Variance of a statistic from its values without each of S units: (S−1)/S Σ (θ₍ᵢ₎ − θ̄)².

    Args:
        left_out: (S, ...) the values.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 11.

    Example:
        >>> import numpy as np
        >>> float(jackknife_variance(np.array([1.0, 2.0, 3.0])).round(4))  # of the means without one of three
        1.3333
    """
    count = len(left_out)
    centre = np.zeros(left_out.shape[1:])
    for row in left_out:
        centre += row
    centre /= count
    spread = np.zeros(left_out.shape[1:])
    for row in left_out:
        spread += (row - centre) ** 2
    return np.asarray((count - 1) / count * spread)


def block_length(epochs: int) -> int:
    """Epochs that are drawn together: about the cube root of their number.

    Example:
        >>> [block_length(epochs) for epochs in (2, 8, 20, 100)]
        [1, 2, 3, 5]
    """
    root: float = float(epochs) ** (1 / 3)
    return max(1, round(root))


def block_variance(curve: Floats) -> Floats:
    """Variance of the mean over epochs when blocks of neighbouring epochs are drawn with replacement.

    With circular blocks of length L the bootstrap needs no draws: the blocks' means B_i are independent and equally
    likely, so Var = (L/T)·1/T Σ_i (B_i − x̄)².

    Args:
        curve: (T, ...) a value each epoch.

    Returns:
        (...) variances.

    Source: Politis and Romano, "A circular block-resampling procedure for stationary data" (1992).

    Example:
        >>> import numpy as np
        >>> float(block_variance(np.array([0.0, 1.0])))  # blocks of one: the ordinary bootstrap
        0.125
    """
    epochs = len(curve)
    length = block_length(epochs)
    centre = np.zeros(curve.shape[1:])
    for row in curve:
        centre += row
    centre /= epochs
    spread = np.zeros(curve.shape[1:])
    for first in range(epochs):
        block = np.zeros(curve.shape[1:])
        for step in range(length):
            block += curve[(first + step) % epochs]
        spread += (block / length - centre) ** 2
    return np.asarray(spread * length / epochs**2)


@record
@dataclass(frozen=True, slots=True)
class Stability:
    """Whether the ranking would be the same with other seeds or other epochs.

    Attributes:
        without_seed: Kendall's τ between all seeds and all but one, a number each seed.
        tau: the smallest of them with its interval; None where there is one seed.
        overlap: share of the hardest tenth that stays in it when a seed is left out, a number each seed.
        between_halves: Kendall's τ between the scores of every other epoch and of the others; None for one epoch.
        mean_stderr: mean standard error of a score.
        spread: standard deviation of the scores, to compare it with.
        reliability: 1 − mean squared standard error / variance of the scores.
    """

    without_seed: tuple[float, ...]
    tau: Estimate | None
    overlap: tuple[float, ...]
    between_halves: Estimate | None
    mean_stderr: float
    spread: float
    reliability: float


def stability(scores: Scores) -> Stability:
    """Say how far the order of the examples depends on the seeds and epochs that happened to be used.

    Args:
        scores: from :func:`hardpan.confusion.scores` with ``stderr=True``.

    Example:
        >>> import numpy as np
        >>> from hardpan import confusion
        >>> rng = np.random.default_rng(0)
        >>> sure = rng.uniform(0.5, 1.0, (1, 1, 200)) + rng.normal(0, 0.02, (3, 8, 200))
        >>> probs = np.stack([sure.clip(0, 1), 1 - sure.clip(0, 1)], axis=-1)
        >>> found = stability(confusion.scores(probs, stderr=True))
        >>> 0.8 < found.tau.value < 1, 0.8 < found.reliability < 1
        (True, True)
    """
    if scores.stderr is None:
        raise InputError(
            "scores have no standard errors: compute them with stderr=True from at least two seeds or two epochs"
        )
    taus = [] if scores.left_out is None else [kendall(scores.values, row) for row in scores.left_out]
    hard = _hardest(scores.values)
    shared = [] if scores.left_out is None else [len(hard & _hardest(row)) / len(hard) for row in scores.left_out]
    variance = float(np.var(scores.values))
    noise = float(np.mean(scores.stderr**2))
    return Stability(
        without_seed=tuple(item.value for item in taus),
        tau=min(taus, key=lambda item: item.value) if taus else None,
        overlap=tuple(shared),
        between_halves=None if scores.halves is None else kendall(scores.halves[0], scores.halves[1]),
        mean_stderr=float(np.mean(scores.stderr)),
        spread=float(np.sqrt(variance)),
        reliability=1.0 - noise / variance if variance > 0 else float("nan"),
    )


def _hardest(values: Floats) -> set[int]:
    count = max(1, round(HARDEST * len(values)))
    return set(np.argsort(-values, kind="stable")[:count].tolist())
