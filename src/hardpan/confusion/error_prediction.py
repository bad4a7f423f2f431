"""Difficulty scores as predictors of errors, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import stats
from hardpan.arguments import real_numbers
from hardpan.confusion.banding import correct_by_model
from hardpan.confusion.difficulty_signals import DIFFICULTIES, NEED_LABELS, Signals
from hardpan.confusion.row_tasks import Floats
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.stats.correlation import fisher_interval, pearson_of_means
from hardpan.stats.resampling import percentile_interval, resample_counts

BANDS = 20
RESAMPLES = 1000
_CELLS = 20_000_000
_FEWEST = 100
MEASURES = ("by band", "by example", "AUROC", "AUPR", "AURC")


@record
class Predictor:
    """How well one difficulty score predicts errors.

    Attributes:
        name: of the score.
        meaning: its definition in one line.
        uses_labels: whether it depends on the labels, and is unavailable without them.
        by_band: Pearson's ρ between mean score and error of twenty bands of equal size.
        by_example: Pearson's ρ between score and error of the examples.
        auroc: probability that an error has a higher score than a correct answer.
        aupr: area under the precision–recall curve of finding the errors.
        aurc: area under the risk–coverage curve, expected over the order of ties; lower is better.
        auroc_lead: AUROC of the confusion score minus this one's, on the same resamples.
    """

    name: str
    meaning: str
    uses_labels: bool
    by_band: Estimate
    by_example: Estimate
    auroc: Estimate
    aupr: Estimate
    aurc: Estimate
    auroc_lead: Estimate


@record
class Predictors:
    """All difficulty scores, best AUROC first, with the AURC of an oracle and of chance."""

    rows: tuple[Predictor, ...]
    error: Estimate
    best_aurc: float
    chance_aurc: float
    examples: int
    target: str

    def row(self, name: str) -> Predictor:
        """The row of one score."""
        return next(row for row in self.rows if row.name == name)


def predictors(
    difficulties: Signals | Mapping[str, ArrayLike],
    correct: ArrayLike,
    *,
    target: str = "",
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Predictors:
    """Compare difficulty scores as predictors of a model's errors.

    Every number has a bootstrap interval over examples; all scores see the same resamples, so that their
    differences have intervals, too.

    Args:
        difficulties: from :func:`hardpan.confusion.signals`, or (N,) numbers by name, higher for harder. The first
            is the one that others are compared with.
        correct: (N,) right or wrong of the model whose errors are predicted.
        target: what to call that model.
        confidence: level of the intervals.
        resamples: of the bootstrap; fewer for many examples.
        seed: of the bootstrap.

    Source: Jaeger et al., "A call to reflect on evaluation practices for failure detection" (2023).

    Example:
        >>> import numpy as np
        >>> hard = np.linspace(0, 1, 400)
        >>> wrong = np.arange(400) % 5 < 3 * hard
        >>> found = predictors({"good": hard, "chance": np.arange(400) % 7}, ~wrong, resamples=50)
        >>> [row.name for row in found.rows], found.rows[0].auroc.value > 0.65
        (['good', 'chance'], True)
    """
    by_name = difficulties if isinstance(difficulties, Mapping) else difficulties.difficulties
    columns = {str(name): real_numbers(f"difficulties[{name!r}]", values) for name, values in by_name.items()}
    wrong = _wrong_answers(columns, correct)
    n = len(wrong)
    draws = max(_FEWEST, min(resamples, _CELLS // n))
    measured = {name: _ErrorPredictor(values, wrong) for name, values in columns.items()}
    ones = np.ones((1, n))
    exact = {name: item.error_measures(ones) for name, item in measured.items()}
    resampled: dict[str, list[Floats]] = {name: [] for name in columns}
    for counts in resample_counts(n, draws, seed):
        for name, item in measured.items():
            resampled[name].append(item.error_measures(counts))
    samples = {name: np.concatenate(parts) for name, parts in resampled.items()}
    lead = next(iter(columns))

    def estimate(value: Floats, draws: Floats, method: str) -> Estimate:
        number = float(value)
        low, high = percentile_interval(draws, confidence) if math.isfinite(number) else (math.nan, math.nan)
        spread = float(np.nanstd(draws, ddof=1)) if np.isfinite(draws).sum() > 1 else math.nan
        how = f"{method}, bootstrap of examples, {len(draws):,} resamples"
        return Estimate(number, spread, float(low), float(high), confidence, how, n, seed)

    rows = []
    for name in columns:
        results = [estimate(exact[name][0, k], samples[name][:, k], method) for k, method in enumerate(MEASURES)]
        how = f"{MEASURES[0]}, bootstrap of examples on Fisher's scale, {draws:,} resamples"
        results[0] = fisher_interval(float(exact[name][0, 0]), samples[name][:, 0], n, confidence, how, seed)
        ahead = estimate(
            exact[lead][0, 2] - exact[name][0, 2],
            samples[lead][:, 2] - samples[name][:, 2],
            f"AUROC of {lead} minus",
        )
        by_band, by_example, auroc, aupr, area = results
        meaning, labels = DIFFICULTIES.get(name, ""), name in NEED_LABELS
        rows.append(Predictor(name, meaning, labels, by_band, by_example, auroc, aupr, area, ahead))
    rows.sort(key=lambda row: -row.auroc.value)
    error = stats.share(int(wrong.sum()), n, confidence)
    return Predictors(tuple(rows), error, oracle_aurc(wrong), error.value, n, target)


class _ErrorPredictor:
    """A score's examples in order, ready to be measured with any weights."""

    def __init__(self, values: Floats, wrong: NDArray[np.bool_]) -> None:
        self.order = np.argsort(-values, kind="stable")  # hardest first
        ordered = values[self.order]
        self.first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        self.wrong = wrong.astype(np.float64)
        scaled = values - values.mean()
        self.scaled = scaled / max(float(np.abs(scaled).max()), 1e-300)
        edges = np.linspace(0, len(values), min(BANDS, len(values)) + 1).round().astype(np.int64)
        self.bands = edges[:-1]
        self.at = np.arange(len(self.bands))

    def error_measures(self, counts: Floats) -> Floats:
        """(b, 5): correlations by band and by example, AUROC, AUPR, AURC, by how often each is resampled."""
        weight = counts[:, self.order]
        bad = weight * self.wrong[self.order]
        x, y = self.scaled, self.wrong
        columns = np.stack([x, y, x * x, x * y, y * y], axis=1)
        by_example = pearson_of_means(counts @ columns / counts.sum(axis=1, keepdims=True))
        by_band = self._band_correlation(weight, bad)
        # Equal scores move together: sums over each group, then from the hardest on.
        size, fail = (np.add.reduceat(item, self.first, axis=1) for item in (weight, bad))
        taken, caught = np.cumsum(size, axis=1), np.cumsum(fail, axis=1)
        n, total = taken[:, -1:], caught[:, -1:]
        with np.errstate(invalid="ignore", divide="ignore"):
            good = size - fail
            passed = np.cumsum(good, axis=1)
            below = (n - total) - passed + good / 2
            auroc = np.sum(fail * below, axis=1) / (total * (n - total))[:, 0]
            precision = np.where(taken > 0, caught / np.where(taken > 0, taken, 1), 0.0)
            aupr = np.sum(fail * precision, axis=1) / total[:, 0]
        return np.stack([by_band, by_example, auroc, aupr, aurc(size, fail)], axis=1)

    def _band_correlation(self, weight: Floats, bad: Floats) -> Floats:
        scaled = weight * self.scaled[self.order]
        size, fail, score = (np.add.reduceat(item, self.bands, axis=1) for item in (weight, bad, scaled))
        filled = np.where(size > 0, size, 1.0)
        x, y = score / filled, fail / filled
        weights = (size > 0) / (size > 0).sum(axis=1, keepdims=True)
        means = [np.sum(weights * term, axis=1) for term in (x, y, x * x, x * y, y * y)]
        return pearson_of_means(np.stack(means, axis=1))


def _wrong_answers(columns: Mapping[str, Floats], correct: ArrayLike) -> NDArray[np.bool_]:
    if not columns:
        raise InputError("must have at least one score", argument="difficulties")
    n = len(next(iter(columns.values())))
    for name, values in columns.items():
        if values.shape != (n,):
            raise InputError(f"difficulties[{name!r}] must be {n:,} finite numbers; got shape {values.shape}")
    right = correct_by_model(correct, n)
    if len(right) != 1:
        raise InputError(f"must be of one model; got {len(right)}: give one, or the ensemble", argument="correct")
    wrong: NDArray[np.bool_] = ~right[0]
    if not wrong.any() or wrong.all():
        raise InputError(
            f"must have right and wrong answers; all {n:,} are {'wrong' if wrong.all() else 'right'}: "
            "there are no errors to predict",
            argument="correct",
        )
    return wrong


def aurc(size: Floats, wrong: Floats) -> Floats:
    """Expected area under the risk–coverage curve of b weightings of groups of equal scores, hardest group first.

    With E errors among K examples easier than a group of m examples with f errors, the group adds
    Σ_{j=1..m} (E + j f/m)/(K + j) = f + (E − K f/m) h, h = H_{K+m} − H_K with harmonic numbers H.

    Args:
        size: (b, g) whole numbers of examples by group.
        wrong: (b, g) how many of them are errors.
    """
    remaining = np.cumsum(size[:, ::-1], axis=1)[:, ::-1] - size
    failed = np.cumsum(wrong[:, ::-1], axis=1)[:, ::-1] - wrong
    n = size.sum(axis=1)
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1.0, float(n.max()) + 1.0))])
    below = remaining.astype(np.int64)
    h = np.where(size == 1, 1.0 / (remaining + 1.0), harmonic[below + size.astype(np.int64)] - harmonic[below])
    rate = np.divide(wrong, size, out=np.zeros(size.shape), where=size > 0)
    total: Floats = (wrong + (failed - remaining * rate) * h).sum(axis=1)
    return np.asarray(total / n)


def oracle_aurc(wrong: ArrayLike) -> float:
    """The area of a score that leaves out every error first.

    Example:
        >>> oracle_aurc([True, False, False, False])
        0.0625
    """
    ordered = np.sort(np.asarray(wrong, dtype=np.float64))
    return float((np.cumsum(ordered) / np.arange(1, len(ordered) + 1)).mean())
