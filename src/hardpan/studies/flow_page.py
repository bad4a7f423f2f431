"""What a flow draws as a part of a page: grids of samples as its dial is turned, with exact Bayes errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import numbers
from hardpan.bayes import Curve
from hardpan.estimates import Estimate
from hardpan.report.figures import dial
from hardpan.report.galleries import gallery_chart, thumbnails
from hardpan.report.sections import Chart, Section

WIDE = 30  # a logarithmic axis is the first choice where the floors span more than this
SETTLED = 0.1  # a floor that moves by more of itself over the last quarter of the training is not at rest


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


def floor_along_training(floors: Sequence[Mapping[str, Any]]) -> Chart | None:
    """The flow's Bayes error and its classifier's error after each epoch of its fit, or None below two epochs.

    Args:
        floors: rows of epoch, bayes_error and, where known, bayes_error_stderr and validation_error.

    Example:
        >>> rows = [{"epoch": n, "bayes_error": e} for n, e in enumerate((0.5, 0.2, 0.12, 0.1), 1)]
        >>> floor_along_training(rows).description
        'The Bayes error of the flow went from 50.0 % after epoch 1 to 10.0 % after epoch 4.'
    """
    if len(floors) < 2:
        return None
    series = (("floor of the flow", "bayes_error"), ("error of its classifier", "validation_error"))
    rows = tuple(
        {"series": name, "x": int(row["epoch"]), "y": float(row[key])}
        for name, key in series
        for row in floors
        if row.get(key) is not None
    )
    values = [float(row["bayes_error"]) for row in floors]
    first, last = (f"{_three(row['bayes_error'])} after epoch {row['epoch']}" for row in (floors[0], floors[-1]))
    options = {"x_title": "epoch", "y_title": "error", "log": min(values) > 0 and max(values) > WIDE * min(values)}
    words = f"The Bayes error of the flow went from {first} to {last}."
    return Chart("lines", "The flow's floor along its training", rows, words, options)


def unsettled(floors: Sequence[Mapping[str, Any]]) -> str:
    """Say whether the floor still moved, by a tenth or more, over the last quarter of the epochs; else nothing.

    A floor that still moves when training ends measures how long was trained, not the data.

    Example:
        >>> unsettled([{"epoch": n, "bayes_error": e} for n, e in enumerate((0.5, 0.2, 0.1, 0.099), 1)])
        ''
        >>> unsettled([{"epoch": n, "bayes_error": e} for n, e in enumerate((0.5, 0.2, 0.12, 0.1), 1)])[:68]
        "The flow's floor still moved when its training ended: 12.0 % after e"
    """
    if len(floors) < 4:
        return ""
    earlier, last = floors[round(0.75 * len(floors)) - 1], floors[-1]
    values = [float(row["bayes_error"]) for row in (earlier, last)]
    noise = 3 * float(last.get("bayes_error_stderr") or 0.0)
    if abs(values[1] - values[0]) <= max(SETTLED * max(values), noise):
        return ""
    return (
        f"The flow's floor still moved when its training ended: {_three(values[0])} after epoch {earlier['epoch']} "
        f"and {_three(values[1])} after epoch {last['epoch']}. Such a number measures how long was trained, too."
    )


def _three(value: float) -> str:
    return numbers.percent(value, value / 30)


def samples_section(
    drawn: Sequence[Drawn],
    curve: Curve,
    *,
    high: float,
    n_classes: int,
    floors: Sequence[Mapping[str, Any]] = (),
) -> Section:
    """Samples at several temperatures under the dial; the first sentence says what they show.

    Args:
        drawn: what the flow drew, in the order of the temperatures asked for.
        curve: its Bayes error over many temperatures.
        high: the lightest number that its images have; the darkest is 0.
        n_classes: of the flow.
        floors: its Bayes error after each epoch of its fit, drawn where there are at least two.
    """
    along = floor_along_training(floors)
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
            *(() if along is None else (along,)),
        ),
    )


def _percent(error: Estimate) -> str:
    return numbers.percent(error.value, error.value / 50)
