"""The dial: the Bayes error of a model against its temperature, as a chart."""

from __future__ import annotations

from collections.abc import Sequence

from hardpan import numbers
from hardpan.estimates import Estimate
from hardpan.report.sections import Chart


def dial(temperatures: Sequence[float], estimates: Sequence[Estimate], title: str, at_one: str = "") -> Chart:
    """A curve of errors over temperatures, logarithmic where they span much; ``at_one`` names the temperature 1.

    Example:
        >>> errors = [Estimate(0.02, 0, 0.02, 0.02), Estimate(0.16, 0, 0.16, 0.16)]
        >>> dial([0.5, 1.0], errors, "Two classes").description
        'The Bayes error goes from 2.00 % at temperature 0.5 to 16.0 % at 1.'
    """
    pairs = sorted(zip(temperatures, estimates, strict=True), key=lambda pair: pair[0])
    rows = tuple({"x": float(t), "y": e.value, "low": e.low, "high": e.high} for t, e in pairs)
    (first, lowest), (last, highest) = pairs[0], pairs[-1]
    return Chart(
        "curve",
        title,
        rows,
        f"The Bayes error goes from {numbers.percent(lowest.value)} at temperature {first:g} to "
        f"{numbers.percent(highest.value)} at {last:g}.",
        {
            "x_title": "temperature τ",
            "y_title": "Bayes error",
            "log": lowest.value < highest.value / 30,
            "log_x": True,
            "marks": ({"x": 1.0, "label": at_one},) if at_one and first <= 1.0 <= last else (),
        },
    )
