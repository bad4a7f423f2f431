"""The confusion score as a predictor of errors, beside other difficulty scores: one table, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import stats
from hardpan.confusion.answers import DIFFICULTIES, NEED_LABELS
from hardpan.confusion.banding import answers
from hardpan.confusion.orders import correlation_of_means, on_fishers_scale
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record

if TYPE_CHECKING:
    from hardpan.confusion.answers import Signals

Floats = NDArray[np.float64]
BANDS = 20
RESAMPLES = 1000
_CELLS = 20_000_000
_FEWEST = 100
MEASURES = ("by band", "by example", "AUROC", "AUPR", "AURC")


@record
@dataclass(frozen=True, slots=True)
class Predictor:
    """How well one difficulty score foretells errors.

    Attributes:
        name: of the score.
        meaning: what it is, in a line.
        uses_labels: whether it looks at the labels, so that it cannot be had for unlabelled data.
        by_band: Pearson's ρ between mean score and error of twenty equally full bands.
        by_example: Pearson's ρ between score and error of the examples.
        auroc: chance that a wrong example has a higher score than a right one.
        aupr: area under precision and recall of finding the wrong ones.
        aurc: area under risk and coverage: mean error of what is kept as the hardest are left out; less is better.
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
@dataclass(frozen=True, slots=True)
class Predictors:
    """The table of all of them, best AUROC first; the best possible AURC and that of chance frame the column."""

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
    differences have one, too.

    Args:
        difficulties: from :func:`hardpan.confusion.signals`, or (N,) numbers by name, higher for harder. The first
            is the one that others are compared with.
        correct: (N,) right or wrong of the model whose errors are foretold.
        target: what to call that model.
        confidence: level of the intervals.
        resamples: of the bootstrap; fewer where there are many examples.
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
    columns = {
        str(name): np.asarray(values, dtype=np.float64)
        for name, values in (
            difficulties if isinstance(difficulties, Mapping) else difficulties.difficulties
        ).items()
    }
    wrong = _checked(columns, correct)
    n = len(wrong)
    draws = max(_FEWEST, min(resamples, _CELLS // n))
    measured = {name: _Ranked(values, wrong) for name, values in columns.items()}
    ones = np.ones((1, n))
    exact = {name: item.measure(ones) for name, item in measured.items()}
    drawn: dict[str, list[Floats]] = {name: [] for name in columns}
    for counts in stats.resample_counts(n, draws, seed):
        for name, item in measured.items():
            drawn[name].append(item.measure(counts))
    samples = {name: np.concatenate(parts) for name, parts in drawn.items()}
    lead = next(iter(columns))

    def estimate(value: Floats, draws: Floats, method: str) -> Estimate:
        number = float(value)
        low, high = stats.percentile_interval(draws, confidence) if math.isfinite(number) else (math.nan, math.nan)
        spread = float(np.nanstd(draws, ddof=1)) if np.isfinite(draws).sum() > 1 else math.nan
        how = f"{method}, bootstrap of examples, {len(draws):,} resamples"
        return Estimate(number, spread, float(low), float(high), confidence, how, n, seed)

    rows = []
    for name in columns:
        found = [estimate(exact[name][0, k], samples[name][:, k], method) for k, method in enumerate(MEASURES)]
        how = f"{MEASURES[0]}, bootstrap of examples on Fisher's scale, {draws:,} resamples"
        found[0] = on_fishers_scale(float(exact[name][0, 0]), samples[name][:, 0], n, confidence, how, seed)
        ahead = estimate(
            exact[lead][0, 2] - exact[name][0, 2],
            samples[lead][:, 2] - samples[name][:, 2],
            f"AUROC of {lead} minus",
        )
        by_band, by_example, auroc, aupr, aurc = found
        meaning, labels = DIFFICULTIES.get(name, ""), name in NEED_LABELS
        rows.append(Predictor(name, meaning, labels, by_band, by_example, auroc, aupr, aurc, ahead))
    rows.sort(key=lambda row: -row.auroc.value)
    share = stats.share(int(wrong.sum()), n, confidence)
    return Predictors(tuple(rows), share, _best_aurc(wrong), share.value, n, target)


class _Ranked:
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

    def measure(self, counts: Floats) -> Floats:
        """(b, 5): correlations by band and by example, AUROC, AUPR, AURC, for rows of how often each is drawn."""
        weight = counts[:, self.order]
        bad = weight * self.wrong[self.order]
        by_example = self._correlation(counts)
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
            # Risk of what is kept: all groups from this one on to the easiest, weighted by its size.
            kept, risk = n - taken + size, total - caught + fail
            aurc = np.sum(size * np.where(kept > 0, risk / np.where(kept > 0, kept, 1), 0.0), axis=1) / n[:, 0]
        return np.stack([by_band, by_example, auroc, aupr, aurc], axis=1)

    def _correlation(self, counts: Floats) -> Floats:
        x, y = self.scaled, self.wrong
        columns = np.stack([x, y, x * x, x * y, y * y], axis=1)
        return correlation_of_means(counts @ columns / counts.sum(axis=1, keepdims=True))

    def _band_correlation(self, weight: Floats, bad: Floats) -> Floats:
        scaled = weight * self.scaled[self.order]
        size, fail, score = (np.add.reduceat(item, self.bands, axis=1) for item in (weight, bad, scaled))
        filled = np.where(size > 0, size, 1.0)
        x, y = score / filled, fail / filled
        share = (size > 0) / (size > 0).sum(axis=1, keepdims=True)
        means = [np.sum(share * term, axis=1) for term in (x, y, x * x, x * y, y * y)]
        return correlation_of_means(np.stack(means, axis=1))


def _checked(columns: Mapping[str, Floats], correct: ArrayLike) -> NDArray[np.bool_]:
    if not columns:
        raise InputError("difficulties must hold at least one score")
    n = len(next(iter(columns.values())))
    for name, values in columns.items():
        if values.shape != (n,) or not np.isfinite(values).all():
            raise InputError(f"difficulties[{name!r}] must be {n:,} finite numbers; got shape {values.shape}")
    right = answers(correct, n)
    if len(right) != 1:
        raise InputError(f"correct must be the answers of one model; got {len(right)}: choose one, or the ensemble")
    wrong: NDArray[np.bool_] = ~right[0]
    if not wrong.any() or wrong.all():
        raise InputError(
            f"correct must hold right and wrong answers; all {n:,} are {'wrong' if wrong.all() else 'right'}: "
            "nothing to foretell"
        )
    return wrong


def _best_aurc(wrong: NDArray[np.bool_]) -> float:
    """The AURC of one who knows the errors: they are left out first."""
    ordered = np.sort(wrong)[::-1].astype(np.float64)  # wrong ones are the hardest
    risk = np.cumsum(ordered[::-1]) / np.arange(1, len(wrong) + 1)
    return float(risk.mean())
