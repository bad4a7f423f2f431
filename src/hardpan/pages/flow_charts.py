"""Charts of a flow's Bayes error: against temperature, and during its fit; without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hardpan.estimates import Estimate
from hardpan.pages import formatting
from hardpan.pages.sections import Chart, fields_of

WIDE = 30  # a logarithmic axis where the numbers span more than this


def temperature_chart(
    temperatures: Sequence[float], estimates: Sequence[Estimate], title: str, at_one: str = ""
) -> Chart:
    """A curve of errors over temperatures, logarithmic where they span much; ``at_one`` names the temperature 1.

    Example:
        >>> errors = [Estimate(0.02, 0, 0.02, 0.02), Estimate(0.16, 0, 0.16, 0.16)]
        >>> temperature_chart([0.5, 1.0], errors, "Two classes").description
        'The Bayes error goes from 2.00 % at temperature 0.5 to 16.0 % at 1.'
    """
    pairs = sorted(zip(temperatures, estimates, strict=True), key=lambda pair: pair[0])
    rows = tuple({"x": float(t), **fields_of(e, "y")} for t, e in pairs)
    (first, lowest), (last, highest) = pairs[0], pairs[-1]
    return Chart(
        "lines",
        title,
        rows,
        f"The Bayes error goes from {formatting.percent(lowest.value)} at temperature "
        f"{formatting.number(first, 6)} to {formatting.percent(highest.value)} at {formatting.number(last, 6)}.",
        {
            "x_title": "temperature τ",
            "y_title": "Bayes error",
            "log": lowest.value < highest.value / WIDE,
            "log_x": True,
            "marks": ({"x": 1.0, "label": at_one},) if at_one and first <= 1.0 <= last else (),
        },
    )


def flow_training_chart(floors: Sequence[Mapping[str, Any]]) -> tuple[Chart, ...]:
    """A flow's Bayes error and its classifier's error after each epoch of its fit; none below two epochs.

    Args:
        floors: rows of epoch, bayes_error and, where known, bayes_error_stderr and validation_error.

    Example:
        >>> rows = [{"epoch": n, "bayes_error": e} for n, e in enumerate((0.5, 0.2, 0.12, 0.1), 1)]
        >>> flow_training_chart(rows)[0].description
        'The Bayes error of the flow changed from 50 % after epoch 1 to 10 % after epoch 4.'
    """
    if len(floors) < 2:
        return ()
    series = (("Bayes error of the flow", "bayes_error"), ("error of its classifier", "validation_error"))
    rows = tuple(
        {"series": name, "x": int(row["epoch"]), "y": float(row[key])}
        for name, key in series
        for row in floors
        if row.get(key) is not None
    )
    values = [float(row["bayes_error"]) for row in floors]
    options = {"x_title": "epoch", "y_title": "error", "log": min(values) > 0 and max(values) > WIDE * min(values)}
    words = f"The Bayes error of the flow changed from {_after_epoch(floors[0])} to {_after_epoch(floors[-1])}."
    return (Chart("lines", "The flow's Bayes error during its training", rows, words, options),)


def flow_unsettled_warning(floors: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Say whether a flow's Bayes error still moved, by a tenth or more, over the last quarter of the epochs.

    Example:
        >>> rows = [{"epoch": n, "bayes_error": e} for n, e in enumerate((0.5, 0.2, 0.1, 0.099), 1)]
        >>> flow_unsettled_warning(rows)
        ()
        >>> flow_unsettled_warning([*rows[:2], {"epoch": 3, "bayes_error": 0.12}, rows[2] | {"epoch": 4}])[0][:60]
        "The flow's Bayes error was still changing when its training "
    """
    if len(floors) < 4:
        return ()
    earlier, last = floors[round(0.75 * len(floors)) - 1], floors[-1]
    values = [float(row["bayes_error"]) for row in (earlier, last)]
    noise = 3 * float(last.get("bayes_error_stderr") or 0.0)
    if abs(values[1] - values[0]) <= max(0.1 * max(values), noise):
        return ()
    return (
        "The flow's Bayes error was still changing when its training ended: "
        f"{_after_epoch(earlier)} and {_after_epoch(last)}. Such a number depends on the length of training, too.",
    )


def _after_epoch(row: Mapping[str, Any]) -> str:
    return f"{formatting.exact_percent(float(row['bayes_error']))} after epoch {row['epoch']}"
