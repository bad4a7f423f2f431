"""Samples of a flow at several temperatures as a chart, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.estimates import Estimate
from hardpan.pages import formatting
from hardpan.pages.figures import gallery_chart, thumbnails
from hardpan.pages.sections import Chart


def sample_gallery(
    samples: Sequence[tuple[float, Estimate, NDArray[Any]]],
    low: float,
    high: float,
    title: str,
    description: str,
    classes: Sequence[Sequence[str]] | None = None,
) -> Chart:
    """A gallery with a slider: the samples of one temperature at a time, that nearest to 1 first.

    Args:
        samples: temperature, its exact Bayes error, and samples (n, H, W[, C]) there.
        low: the value of black.
        high: the value of white.
        title: of the gallery.
        description: of it in words.
        classes: for each temperature, the class of each sample.

    Example:
        >>> error = Estimate(0.02, 0, 0.02, 0.02)
        >>> cold = (0.5, error, np.zeros((2, 4, 4)))
        >>> chart = sample_gallery([cold], 0.0, 1.0, "Samples", "Two samples.", [["cat", "dog"]])
        >>> chart.rows[1]["group"], chart.rows[1]["class"]
        ('Temperature 0.5: Bayes error 2.00 %', 'dog')
    """
    pictures = thumbnails(np.clip(np.concatenate([images for *_, images in samples]), low, high), low, high)
    tiles = []
    for number, (temperature, error, images) in enumerate(samples):
        percent = formatting.percent(error.value, error.value / 50)
        group = {"group": f"Temperature {temperature:g}: Bayes error {percent}", "temperature": f"{temperature:g}"}
        tiles += [group | ({"class": classes[number][row]} if classes else {}) for row in range(len(images))]
    start = min(range(len(samples)), key=lambda index: abs(samples[index][0] - 1))
    return gallery_chart(title, pictures, tiles, description, pick="Temperature", start=start)
