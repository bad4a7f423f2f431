"""The gap against the publication date of the models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.stats.lines import fit_lines
from hardpan.stats.resampling import Floats, bootstrap
from hardpan.testbed.tables import Counts


def gap_by_date(counts: Counts, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0) -> Estimate:
    """How the gap changes with the publication date: accuracy (0..1) a year, least squares over models."""
    dates = np.array(counts.date, dtype=np.float64)
    known = np.isfinite(dates) if len(dates) else np.zeros(0, dtype=np.bool_)
    if np.count_nonzero(known) < 3 or np.ptp(dates[known]) == 0:
        raise InputError("gap by date needs at least 3 models with dates that differ")
    x = dates[known] - dates[known].mean()
    y = (counts.original_accuracy - counts.new_accuracy)[known]
    y = y - y.mean()

    def slope(means: Floats) -> Floats:
        spread = means[:, 2] - means[:, 0] ** 2
        flat = spread <= 1e-14 * means[:, 2]
        joint = means[:, 3] - means[:, 0] * means[:, 1]
        return np.where(flat, np.nan, joint / np.where(flat, 1.0, spread))

    columns = np.stack([x, y, x * x, x * y], axis=1)
    estimate = bootstrap(columns, slope, resamples=resamples, confidence=confidence, seed=seed)
    value = float(fit_lines(x, y)[0])
    return replace(estimate, value=value, method=f"least squares of gap on date, {estimate.method}")


def has_dates(counts: Counts) -> bool:
    """Whether at least three models have dates that differ."""
    dates = np.array(counts.date, dtype=np.float64)
    known = dates[np.isfinite(dates)] if len(dates) else dates
    return len(known) >= 3 and float(np.ptp(known)) > 0
