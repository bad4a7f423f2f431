"""What a flow draws as a part of a page: grids of samples as its dial is turned, with exact Bayes errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.bayes import Curve
from hardpan.datasets.galleries import gallery_chart, thumbnails
from hardpan.records import Chart, Estimate, Section
from hardpan.report import numbers
from hardpan.report.dial import dial


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Samples of a flow at one temperature.

    Attributes:
        temperature: at which they were drawn.
        error: the exact Bayes error of examples drawn there.
        images: (n, H, W[, C]) samples.
        story: further columns (n,) that are told of each.
    """

    temperature: float
    error: Estimate
    images: NDArray[Any]
    story: Mapping[str, Sequence[str]] = field(default_factory=dict)


def sample_gallery(drawn: Sequence[Drawn], low: float, high: float, title: str, description: str) -> Chart:
    """A gallery with a slider: the samples of one temperature at a time, that nearest to 1 first.

    Example:
        >>> cold = Drawn(0.5, Estimate(0.02, 0, 0.02, 0.02), np.zeros((2, 4, 4)), {"class": ["cat", "dog"]})
        >>> chart = sample_gallery([cold], 0.0, 1.0, "Samples", "Two samples.")
        >>> chart.rows[1]["group"], chart.rows[1]["class"]
        ('Temperature 0.5: Bayes error 2.00 %', 'dog')
    """
    pictures = thumbnails(np.clip(np.concatenate([item.images for item in drawn]), low, high), low, high)
    tiles = [
        {
            "group": f"Temperature {item.temperature:g}: Bayes error {_percent(item.error)}",
            "temperature": f"{item.temperature:g}",
            **{name: column[row] for name, column in item.story.items()},
        }
        for item in drawn
        for row in range(len(item.images))
    ]
    start = min(range(len(drawn)), key=lambda place: abs(drawn[place].temperature - 1))
    return gallery_chart(title, pictures, tiles, description, pick="Turn the dial", start=start)


def samples_section(drawn: Sequence[Drawn], curve: Curve, *, high: float, n_classes: int) -> Section:
    """Samples at several temperatures under the dial; the first sentence says what they show.

    Args:
        drawn: what the flow drew, in the order of the temperatures asked for.
        curve: its Bayes error over many temperatures.
        high: the lightest number that its images have; the darkest is 0.
        n_classes: of the flow.
    """
    ends = [f"{_percent(item.error)} at temperature {item.temperature:g}" for item in (drawn[0], drawn[-1])]
    each = len(drawn[0].images)
    return Section(
        "What the flow draws",
        (
            f"One flow, any difficulty: Bayes errors from {ends[0]} to {ends[1]}.",
            f"Each grid holds {each} samples of {n_classes} classes. The Bayes error of each temperature is exact: "
            "no classifier can err less on examples drawn there.",
        ),
        {f"Temperature {item.temperature:g}": item.error for item in drawn},
        (
            dial(
                curve.temperatures, curve.estimates, "The dial: Bayes error against temperature", at_one="as fitted"
            ),
            sample_gallery(
                drawn,
                0.0,
                high,
                "Samples as the dial is turned",
                f"A grid of {each} samples for each temperature.",
            ),
        ),
    )


def _percent(error: Estimate) -> str:
    return numbers.percent(error.value, error.value / 50)
