"""Charts about flows, without torch: samples at several temperatures, the Bayes error along the fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import numbers
from hardpan.estimates import Estimate
from hardpan.report.galleries import gallery_chart, thumbnails
from hardpan.report.sections import Chart

LOG_RANGE = 30  # errors that span a larger factor get a logarithmic axis
SETTLED = 0.1  # a larger relative change over the last quarter of the fit counts as still changing


@dataclass(frozen=True, slots=True, eq=False)
class TemperatureSamples:
    """Samples of a flow at one temperature.

    Attributes:
        temperature: of the samples.
        error: the exact Bayes error at this temperature.
        images: (n, H, W[, C]) samples.
        columns: further columns (n,) of text about each sample.
    """

    temperature: float
    error: Estimate
    images: NDArray[Any]
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)


def sample_gallery(
    samples: Sequence[TemperatureSamples], low: float, high: float, title: str, description: str
) -> Chart:
    """A gallery with a slider: the samples of one temperature at a time, that nearest to 1 first.

    Example:
        >>> error, classes = Estimate(0.02, 0, 0.02, 0.02), {"class": ["cat", "dog"]}
        >>> cold = TemperatureSamples(0.5, error, np.zeros((2, 4, 4)), classes)
        >>> chart = sample_gallery([cold], 0.0, 1.0, "Samples", "Two samples.")
        >>> chart.rows[1]["group"], chart.rows[1]["class"]
        ('Temperature 0.5: Bayes error 2.00 %', 'dog')
    """
    pictures = thumbnails(np.clip(np.concatenate([item.images for item in samples]), low, high), low, high)
    tiles = [
        {
            "group": f"Temperature {item.temperature:g}: Bayes error {_percent(item.error)}",
            "temperature": f"{item.temperature:g}",
            **{name: column[row] for name, column in item.columns.items()},
        }
        for item in samples
        for row in range(len(item.images))
    ]
    start = min(range(len(samples)), key=lambda place: abs(samples[place].temperature - 1))
    return gallery_chart(title, pictures, tiles, description, pick="Temperature", start=start)


def training_chart(floors: Sequence[Mapping[str, Any]]) -> Chart | None:
    """The flow's Bayes error and validation error after each epoch of its fit; None below two epochs.

    Args:
        floors: rows of epoch, bayes_error and, where known, bayes_error_stderr and validation_error.

    Example:
        >>> rows = [{"epoch": n, "bayes_error": e} for n, e in enumerate((0.5, 0.2, 0.12, 0.1), 1)]
        >>> training_chart(rows).description
        'The Bayes error of the flow went from 50.0 % after epoch 1 to 10.0 % after epoch 4.'
    """
    if len(floors) < 2:
        return None
    series = (("Bayes error of the flow", "bayes_error"), ("error of its classifier", "validation_error"))
    rows = tuple(
        {"series": name, "x": int(row["epoch"]), "y": float(row[key])}
        for name, key in series
        for row in floors
        if row.get(key) is not None
    )
    values = [float(row["bayes_error"]) for row in floors]
    first, last = (f"{_three(row['bayes_error'])} after epoch {row['epoch']}" for row in (floors[0], floors[-1]))
    options = {
        "x_title": "epoch",
        "y_title": "error",
        "log": min(values) > 0 and max(values) > LOG_RANGE * min(values),
    }
    words = f"The Bayes error of the flow went from {first} to {last}."
    return Chart("lines", "Bayes error of the flow during its fit", rows, words, options)


def unsettled_warning(floors: Sequence[Mapping[str, Any]]) -> str:
    """A warning if the Bayes error still changed by a tenth or more over the last quarter of the epochs, else "".

    A Bayes error that still changes when the fit ends depends on the length of the fit, not only on the data.

    Example:
        >>> unsettled_warning([{"epoch": n, "bayes_error": e} for n, e in enumerate((0.5, 0.2, 0.1, 0.099), 1)])
        ''
        >>> unsettled_warning([{"epoch": n, "bayes_error": e} for n, e in enumerate((0.5, 0.2, 0.12, 0.1), 1)])[:68]
        "The flow's Bayes error still changed when its fit ended: 12.0 % afte"
    """
    if len(floors) < 4:
        return ""
    earlier, last = floors[round(0.75 * len(floors)) - 1], floors[-1]
    values = [float(row["bayes_error"]) for row in (earlier, last)]
    noise = 3 * float(last.get("bayes_error_stderr") or 0.0)
    if abs(values[1] - values[0]) <= max(SETTLED * max(values), noise):
        return ""
    return (
        f"The flow's Bayes error still changed when its fit ended: {_three(values[0])} after epoch "
        f"{earlier['epoch']} and {_three(values[1])} after epoch {last['epoch']}, so it also depends "
        "on the length of the fit."
    )


def _three(value: float) -> str:
    return numbers.percent(value, value / 30)


def _percent(error: Estimate) -> str:
    return numbers.percent(error.value, error.value / 50)
