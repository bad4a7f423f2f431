"""Samples of a flow at several temperatures as a chart, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import formatting
from hardpan.estimates import Estimate
from hardpan.report.figures import gallery_chart, thumbnails
from hardpan.report.sections import Chart


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
    start = min(range(len(samples)), key=lambda index: abs(samples[index].temperature - 1))
    return gallery_chart(title, pictures, tiles, description, pick="Temperature", start=start)


def _percent(error: Estimate) -> str:
    return formatting.percent(error.value, error.value / 50)
