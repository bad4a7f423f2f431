"""What more data could bring: error against the number of training examples, and for twice as many."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hardpan import stats
from hardpan.auditing.evidence import AuditNote, Evidence
from hardpan.bayes.floors.error_estimates import Floats, Labels
from hardpan.estimates import Estimate
from hardpan.files import record

DRAWS = 500
EXPONENTS = np.geomspace(0.05, 2.0, 60)  # of the law that levels off


@record
class DataCurve:
    """Error against the number of training examples.

    Attributes:
        model: which classifier.
        sizes: training examples.
        errors: held-out errors.
        exponent: b of the power law error = a · n^(−b), with its interval.
        at_double: the error for twice the training examples, by a law that may level off; the interval contains
            that of the power law as well.
        gain: the lowest error that was measured here, by this or another classifier, minus ``at_double``. More data
            are said to help only where its interval is above 0 and the last doubling lowered the error.
    """

    model: str
    sizes: tuple[int, ...]
    errors: tuple[Estimate, ...]
    exponent: Estimate
    at_double: Estimate
    gain: Estimate | None = None  # audits of earlier versions lack it

    @property
    def promises(self) -> bool:
        """Whether twice the data are predicted to bring an error below any that was measured here."""
        still_falling = self.errors[-1].value < self.errors[-2].value
        return still_falling and self.exponent.low > 0 and self.gain is not None and self.gain.low > 0

    @property
    def lowest(self) -> float:
        """The lowest error that was measured here."""
        return self.errors[-1].value if self.gain is None else self.gain.value + self.at_double.value


def fit_data_curve(
    model: str,
    correct: Mapping[int, NDArray[np.bool_]],
    best: NDArray[np.bool_],
    *,
    confidence: float = 0.95,
    group: Labels | None = None,
    seed: int = 0,
) -> DataCurve | None:
    """Fit power laws to errors by training size; the intervals resample the test examples of all sizes jointly.

    Labels that are noisy or classes that overlap leave an error that no amount of data removes, and four sizes
    cannot show where it is. So two laws are extrapolated to twice the data: a · n^(−b), which falls to 0, and
    c + a · n^(−b), which levels off. The value is that of the second, and the interval contains both intervals.

    Args:
        model: name of the classifier.
        correct: by training size, which of the n test examples it gets right.
        best: (n,) which of them the best of all classifiers gets right.
        group: (n,) independent groups that the test examples come in: these are resampled.

    Returns:
        None where the error rises with the training size, or where the classifier would not reach the best one with
        twice the data: such a curve says how long training took, not what more data would bring.

    Example:
        >>> u = np.random.default_rng(0).random(2000)
        >>> correct = {n: u > 2 * n**-0.5 for n in (100, 200, 400, 800)}
        >>> curve = fit_data_curve("trees", correct, correct[800])
        >>> curve.promises, bool(curve.at_double.low < 2 * 1600**-0.5 < curve.at_double.high)
        (True, True)
    """
    sizes = tuple(sorted(correct))
    wrong = np.stack([*(~correct[size] for size in sizes), ~best]).astype(np.float64)
    n = len(best)
    rng, units = np.random.default_rng([seed, 81]), n
    if group is None:
        *errors, lowest = (stats.share(int(row.sum()), n, confidence) for row in wrong)
        sizes_of_units, sums = np.ones(n), wrong
    else:
        *errors, lowest = (stats.grouped_share(row > 0, group, confidence) for row in wrong)
        number, counts = np.unique(group, return_inverse=True, return_counts=True)[1:]
        units, sizes_of_units = len(counts), counts.astype(np.float64)
        sums = np.stack([np.bincount(number.ravel(), row) for row in wrong])
    resampled = (rng.integers(0, units, units) for _ in range(DRAWS))
    draws = (sums[:, rows].sum(axis=1) / sizes_of_units[rows].sum() for rows in resampled)
    rates = np.array([wrong.mean(axis=1), *draws])  # the first row: all examples
    slope, falling = data_curve_power_law(sizes, rates[:, :-1], n)
    level = data_curve_levelling_law(sizes, rates[:, :-1], n)
    if falling[0] > lowest.high or any(b.low > a.high for a, b in itertools.combinations(errors, 2)):
        return None
    reached = rates[:, -2:].min(axis=1)

    def estimate(method: str, *both: Floats) -> Estimate:
        ends = np.quantile([item[1:] for item in both], ((1 - confidence) / 2, (1 + confidence) / 2), axis=1)
        value, spread = float(both[0][0]), float(both[0][1:].std())
        low, high = min(value, float(ends[0].min())), max(value, float(ends[1].max()))
        return Estimate(value, spread, low, high, confidence, f"{method}, test examples resampled", n)

    return DataCurve(
        model,
        sizes,
        tuple(errors),
        exponent=estimate(f"power law fitted to {len(sizes)} sizes", slope),
        at_double=estimate("two laws extrapolated to 2n", level, falling),
        gain=estimate("lowest error measured minus that at 2n", reached - level, reached - falling),
    )


def data_curve_power_law(sizes: Sequence[int], errors: Floats, n: int) -> tuple[Floats, Floats]:
    """b of error = a · n^(−b), and the error at twice the largest size; errors of 0 count as half an example.

    Args:
        sizes: (S,) training sizes, rising.
        errors: (D, S) errors of n test examples, one fit for each row.
        n: test examples.
    """
    logs = np.log(sizes) - np.log(2 * sizes[-1])
    weights = np.maximum(errors, 0.5 / n)  # the variance of log e is about 1/(n e)
    y, total = np.log(weights), weights.sum(axis=1)
    centre, mean = (weights * logs).sum(axis=1) / total, (weights * y).sum(axis=1) / total
    away = logs - centre[:, None]
    slope = (weights * away * y).sum(axis=1) / (weights * away**2).sum(axis=1)
    return -slope, np.minimum(1.0, np.exp(mean - slope * centre))


def data_curve_levelling_law(sizes: Sequence[int], errors: Floats, n: int) -> Floats:
    """The error at twice the largest size by error = c + a · n^(−b), least squares with a, c ≥ 0, as above."""
    x = np.exp(-np.outer(EXPONENTS, np.log(sizes) - np.log(2 * sizes[-1])))  # (B, S), 1 at twice the largest size
    w = 1.0 / np.maximum(errors * (1 - errors), 0.5 / n)
    sw, sy = w.sum(axis=1)[:, None], (w * errors).sum(axis=1)[:, None]
    sx, sxx, sxy = w @ x.T, w @ (x**2).T, (w * errors) @ x.T
    a = (sw * sxy - sx * sy) / (sw * sxx - sx**2)
    a = np.where(sy < a * sx, sxy / sxx, np.maximum(a, 0.0))  # c = 0, or a = 0, where it would be negative
    c = np.maximum(0.0, (sy - a * sx) / sw)
    residual = a**2 * sxx + 2 * a * c * sx + c**2 * sw - 2 * a * sxy - 2 * c * sy
    rows = np.arange(len(errors)), residual.argmin(axis=1)
    return np.asarray(np.minimum(1.0, (a + c)[rows]))


def data_curve(evidence: Evidence) -> DataCurve | None:
    """The curve of the model that an audit trained on parts of the training set; None without three sizes."""
    correct, config, inputs = evidence.correct_by_size, evidence.config, evidence.inputs
    if len(correct) < 3 or inputs is None:
        return None
    truth = evidence.labels[inputs.test]
    right = [answers == truth for answers in evidence.test_answers().values()]
    best = max([*right, correct[max(correct)]], key=np.count_nonzero)
    group, level = inputs.sampling.group, config.confidence
    curve = fit_data_curve(evidence.curve_model, correct, best, confidence=level, group=group, seed=config.seed)
    if curve is None:
        evidence.notes.append(AuditNote("no-curve", {"model": evidence.curve_model}))
    return curve
