"""The numbers that every audit gives by the same names, so that audits can be compared."""

from __future__ import annotations

from hardpan import numbers
from hardpan.confusion.banding import FEWEST_ERRORS
from hardpan.estimates import Estimate

MEASURES = {
    "bracket": "Bracket of the floor",
    "flow_floor": "Floor by the flow",
    "gaussian_floor": "Floor by the Gaussian model",
    "best_error": "Error of the best model",
    "headroom": "Headroom",
    "mean_confusion": "Mean confusion (bits)",
    "tail_share": "Errors in the confusing tenth",
    "drop": "Drop on fresh data",
    "bits": "Bits per dimension of the flow",
    "duplicated": "Test examples with a copy outside the test part",
}
"""Measure by name, and what it is in words."""

HARDNESS = ("flow_floor", "gaussian_floor", "best_error", "mean_confusion")
"""Measures by which datasets are ranked: larger is harder."""

PLAIN = ("mean_confusion", "bits")
"""Measures that are no fractions."""

DIFFERENCES = ("headroom", "drop")
"""Measures that are differences of shares: they are told in points."""

RANGES = ("bracket",)
"""Measures that are two ends rather than a number: they have no difference."""


def in_sentence(measure: str) -> str:
    """What a measure is, as it stands inside a sentence.

    Example:
        >>> in_sentence("gaussian_floor")
        'floor by the Gaussian model'
    """
    words = MEASURES[measure]
    return words[0].lower() + words[1:]


def too_few(measure: str, item: Estimate) -> bool:
    """Whether a measure rests on too few errors to be told."""
    return measure == "tail_share" and item.n < FEWEST_ERRORS


def in_words(measure: str, item: Estimate) -> str:
    """A measure as a person reads it, with its interval.

    Example:
        >>> in_words("tail_share", Estimate(1.0, 0.0, 0.16, 1.0, n=2))
        'too few errors to say (2)'
        >>> in_words("bracket", Estimate(0.02, 0.0, 0.005, 0.02)), in_words("bits", Estimate(2.3456, 0.0, 2.3, 2.4))
        ('0.5–2.0 %', '2.35 (2.30–2.40)')
        >>> in_words("headroom", Estimate(0.012, 0.0, 0.0, 0.031)), in_words("headroom", Estimate(2e-6, 0, 0, 3e-6))
        ('1.2 points (0.0–3.1 points)', '0.00020 points (0.00000–0.00030)')
    """
    if too_few(measure, item):
        return f"too few errors to say ({item.n})"
    if measure in RANGES:
        return numbers.percent_range(item.low, item.high)
    if measure in PLAIN:
        return numbers.plain(item)
    shown = numbers.estimate(item)
    if measure not in DIFFERENCES:
        return shown
    # A power of ten is a fraction, which is no number of points.
    return shown.replace(" %", " points") if "%" in shown else numbers.plain(item, scale=100, unit="points")


def limit_in_points(value: float) -> str:
    """An upper limit of a difference of shares.

    Example:
        >>> limit_in_points(0.02708), limit_in_points(3.1e-6)
        ('2.7 points', '0.000310 points')
    """
    shown = numbers.limit(value)
    exact = Estimate(value, 0.0, value, value)
    return shown.replace(" %", " points") if "%" in shown else numbers.plain(exact, scale=100, unit="points")
