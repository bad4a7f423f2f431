"""Is a score higher than a reference set predicts? For each model, against the line of the others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hardpan.errors import InputError
from hardpan.files import record
from hardpan.leaderboard.sampling import Floats, as_outcomes
from hardpan.outcomes import Outcomes
from hardpan.report.base import Report
from hardpan.stats import holm
from hardpan.stats.intervals import check_confidence

FEWEST_MODELS = 6
_LEFT = 0.1  # of the spread of the reference scores must be more than noise


@record(eq=False)
class Inflation(Report):
    """Scores against what a reference set predicts, most inflated first.

    Attributes:
        models: names of the models in both sets.
        score: (M,) on the test set.
        reference_score: (M,) on the reference set.
        predicted: (M,) score that the line of the other models predicts from the reference score.
        excess: (M,) score − predicted.
        low: (M,) lower end of the interval of ``excess`` for a single model.
        high: (M,) upper end.
        p_value: (M,) one-sided, that the score is not above the prediction.
        p_holm: (M,) the same after Holm over the models.
        inflated: (M,) whether p_holm is at most 1 − confidence and the model is within the others' range.
        outside: (M,) whether the reference score lies outside those of the other models: the line is extrapolated.
        slope: of the line of all models on the probit scale, corrected for noise in the reference scores.
        offset: of it.
        slope_uncorrected: least squares without the correction.
        noise_share: share of the spread of the reference scores that is sampling noise.
        items: number of items of the test set.
        reference_items: of the reference set.
        confidence: level.
        notes: what the reader of the scores reported.
    """

    models: tuple[str, ...]
    score: Floats
    reference_score: Floats
    predicted: Floats
    excess: Floats
    low: Floats
    high: Floats
    p_value: Floats
    p_holm: Floats
    inflated: NDArray[np.bool_]
    outside: NDArray[np.bool_]
    slope: float
    offset: float
    slope_uncorrected: float
    noise_share: float
    items: int
    reference_items: int
    confidence: float
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Inflation({len(self.models)} models, {int(self.inflated.sum())} inflated)"


def inflation(outcomes: object, reference: object, *, confidence: float = 0.95) -> Inflation:
    """Compare each model's score with what a reference set predicts, such as a private or newer test set.

    On the probit scale, y = Φ⁻¹(score) against x = Φ⁻¹(reference score). For each model the line is fitted to the
    others, with the slope corrected for noise in x: S_xy/(S_xx − noise), noise = Σ_m Var(x_m) − M Var(mean x),
    which keeps what the models share. SE² = scatter + Var(y) + slope² Var(x) + (line), Student's t with M − 3
    degrees of freedom, Holm over the models. Ordinary least squares would make the best models look inflated.

    Args:
        outcomes: :class:`hardpan.Outcomes`, or what its ``open`` opens: scores on the test set.
        reference: scores of the same models (at least 6 in common) on the reference set, by name.
        confidence: level of the intervals and of the flags.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> skill = np.linspace(-1, 1, 12)[:, None]
        >>> def answers(n, bonus=0.0):
        ...     return (rng.random((12, n)) < special.ndtr(skill + bonus)).astype(float)
        >>> bonus = np.zeros((12, 1)); bonus[6] = 0.8
        >>> result = inflation(Outcomes.from_arrays(answers(4000, bonus)), Outcomes.from_arrays(answers(4000)))
        >>> result.models[0], result.inflated.tolist().count(True)
        ('model-6', 1)
    """
    outcomes = as_outcomes(outcomes, items=2)
    reference = reference if isinstance(reference, Outcomes) else Outcomes.open(reference)
    level = check_confidence(confidence)
    names = tuple(name for name in outcomes.models if name in set(reference.models))
    if len(names) < FEWEST_MODELS:
        raise InputError(
            f"must have at least {FEWEST_MODELS} models in common with outcomes, by name; got {len(names)}",
            argument="reference",
        )
    y, y_noise = _probits("outcomes", outcomes.align(names))
    x, x_noise = _probits("reference", reference.align(names))
    m = len(names)
    everyone = np.arange(m)
    slope, offset, plain, share = _line(x, y, x_noise, everyone)
    predicted, error, outside = np.empty(m), np.empty(m), np.zeros(m, dtype=bool)
    for i in everyone:
        others = everyone[everyone != i]
        b, a, _, _ = _line(x, y, x_noise, others)
        residual = y[others] - a - b * x[others]
        own_noise = _relative(y_noise, others) + b**2 * _relative(x_noise, others)
        scatter = max(float((residual**2).sum() / (m - 3) - own_noise.mean()), 0.0)
        centre = x[others].mean()
        spread = float(((x[others] - centre) ** 2).sum()) * (1 - share)
        line = float((residual**2).sum() / (m - 3)) * (1 / (m - 1) + (x[i] - centre) ** 2 / spread)
        predicted[i] = a + b * x[i]
        error[i] = np.sqrt(scatter + np.diag(y_noise)[i] + b**2 * np.diag(x_noise)[i] + line)
        outside[i] = not x[others].min() <= x[i] <= x[others].max()
    reach = float(special.stdtrit(m - 3, 0.5 + level / 2)) * error
    with np.errstate(divide="ignore"):
        t = (y - predicted) / error
    p = special.stdtr(m - 3, -t)
    adjusted = holm(p)
    score = special.ndtr(y)
    low, high = (score - special.ndtr(predicted + sign * reach) for sign in (1, -1))
    excess = score - special.ndtr(predicted)
    order = np.argsort(-t, kind="stable")
    return Inflation(
        models=tuple(names[i] for i in order),
        score=score[order],
        reference_score=special.ndtr(x)[order],
        predicted=special.ndtr(predicted)[order],
        excess=excess[order],
        low=low[order],
        high=high[order],
        p_value=p[order],
        p_holm=adjusted[order],
        inflated=((adjusted <= 1 - level) & ~outside)[order],
        outside=outside[order],
        slope=slope,
        offset=offset,
        slope_uncorrected=plain,
        noise_share=share,
        items=outcomes.n_items,
        reference_items=reference.n_items,
        confidence=level,
        notes=outcomes.notes,
    )


def _probits(name: str, outcomes: Outcomes) -> tuple[Floats, Floats]:
    """Φ⁻¹ of the models' scores on the items that all have, and the covariance (M, M) of their sampling noise."""
    scores = outcomes.item_scores()
    complete = np.isfinite(scores).all(axis=0)
    n = int(complete.sum())
    if n < 20:
        raise InputError(f"{name}: the models have {n} items in common; at least 20 are needed")
    used = scores[:, complete]
    mean = np.clip(used.mean(axis=1), 0.5 / n, 1 - 0.5 / n)
    z = special.ndtri(mean)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return z, np.cov(used) / n / density[:, None] / density


def _relative(noise: Floats, rows: NDArray[np.int64]) -> Floats:
    """Variances of the noise relative to the mean of these models: what they share shifts all of them alike."""
    block = noise[np.ix_(rows, rows)]
    return np.asarray(np.maximum(np.diag(block) - 2 * block.mean(axis=1) + block.mean(), 0.0))


def _line(x: Floats, y: Floats, noise: Floats, rows: NDArray[np.int64]) -> tuple[float, float, float, float]:
    """Noise-corrected slope and offset, the uncorrected slope, and the share of the spread of x that is noise."""
    a, b = x[rows] - x[rows].mean(), y[rows] - y[rows].mean()
    spread = float(a @ a)
    share = float(_relative(noise, rows).sum()) / spread if spread > 0 else 1.0
    if share > 1 - _LEFT:
        raise InputError(
            ": the models' scores differ by little more than sampling noise, so no line can be "
            "fitted; use more items or models that differ more",
            argument="reference",
        )
    plain = float(a @ b) / spread
    slope = plain / (1 - share)
    return slope, float(y[rows].mean() - slope * x[rows].mean()), plain, share
