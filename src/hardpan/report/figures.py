"""Charts of results: estimates and counts in, a :class:`hardpan.report.sections.Chart` out; nothing is drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from hardpan import formatting
from hardpan.estimates import Estimate
from hardpan.report.sections import Chart, fields_of


def dial(temperatures: Sequence[float], estimates: Sequence[Estimate], title: str, at_one: str = "") -> Chart:
    """A curve of errors over temperatures, logarithmic where they span much; ``at_one`` names the temperature 1.

    Example:
        >>> errors = [Estimate(0.02, 0, 0.02, 0.02), Estimate(0.16, 0, 0.16, 0.16)]
        >>> dial([0.5, 1.0], errors, "Two classes").description
        'The Bayes error goes from 2.00 % at temperature 0.5 to 16.0 % at 1.'
    """
    pairs = sorted(zip(temperatures, estimates, strict=True), key=lambda pair: pair[0])
    rows = tuple({"x": float(t), **fields_of(e, "y")} for t, e in pairs)
    (first, lowest), (last, highest) = pairs[0], pairs[-1]
    return Chart(
        "curve",
        title,
        rows,
        f"The Bayes error goes from {formatting.percent(lowest.value)} at temperature {first:g} to "
        f"{formatting.percent(highest.value)} at {last:g}.",
        {
            "x_title": "temperature τ",
            "y_title": "Bayes error",
            "log": lowest.value < highest.value / 30,
            "log_x": True,
            "marks": ({"x": 1.0, "label": at_one},) if at_one and first <= 1.0 <= last else (),
        },
    )


def confusion_matrix(counts: ArrayLike, class_names: Sequence[str], title: str, *, most: int = 25) -> Chart:
    """A confusion matrix in percent of each label: rows are labels, columns predictions.

    Of more than ``most`` classes, those with the most errors are drawn.

    Args:
        counts: (K, K) examples by label and prediction.
        class_names: K names.
        title: of the chart.
        most: how many classes are drawn.

    Example:
        >>> chart = confusion_matrix([[3, 1], [0, 4]], ["cat", "dog"], "Confusion matrix")
        >>> chart.rows[1]
        {'row': 'cat', 'column': 'dog', 'value': 0.25, 'count': 1}
    """
    table = np.asarray(counts, dtype=np.int64)
    errors = table.sum(axis=1) - np.diag(table)
    classes = np.sort(np.argsort(-errors, kind="stable")[:most])
    totals = np.maximum(table.sum(axis=1), 1)
    rows = tuple(
        {
            "row": str(class_names[i]),
            "column": str(class_names[j]),
            "value": float(table[i, j] / totals[i]),
            "count": int(table[i, j]),
        }
        for i in classes
        for j in classes
    )
    if len(table) > most:
        title += f" (the {most} of {len(table)} classes with the most errors)"
    off = table - np.diag(np.diag(table))
    i, j = divmod(int(off.argmax()), off.shape[1])
    words = (
        f"Most often {class_names[i]} is confused with {class_names[j]}: {off[i, j]:,} of {totals[i]:,}."
        if off[i, j]
        else "No example is misclassified."
    )
    options = {"x_title": "prediction", "y_title": "label", "diagonal": True, "text": 0.005}
    return Chart("matrix", title, rows, words, options)


def reliability_chart(confidence: ArrayLike, correct: ArrayLike, title: str, *, bins: int = 10) -> Chart:
    """Accuracy against stated confidence in bins of equal counts, with Wilson's intervals (95 %).

    Args:
        confidence: (N,) the probability of the predicted class.
        correct: (N,) whether the prediction is right.
        title: of the chart.
        bins: how many, at most.

    Example:
        >>> chart = reliability_chart([0.6, 0.6, 0.9, 0.9], [1, 0, 1, 1], "Reliability", bins=2)
        >>> [(round(row["x"], 2), row["y"], row["count"]) for row in chart.rows]
        [(0.6, 0.5, 2), (0.9, 1.0, 2)]
    """
    stated = np.asarray(confidence, dtype=np.float64)
    right = np.asarray(correct, dtype=np.float64)
    order = np.argsort(stated, kind="stable")
    rows = []
    for block in np.array_split(order, min(bins, len(order))) if len(order) else ():
        n, rate = len(block), float(right[block].mean())
        z2 = 1.959963984540054**2
        middle, half = rate + z2 / (2 * n), np.sqrt(z2 * (rate * (1 - rate) / n + z2 / (4 * n * n)))
        low, high = (middle - half) / (1 + z2 / n), (middle + half) / (1 + z2 / n)
        rows.append(
            {
                "x": float(stated[block].mean()),
                "y": rate,
                "low": max(0.0, float(low)),
                "high": min(1.0, float(high)),
                "count": n,
            }
        )
    gap = sum(row["count"] * abs(row["x"] - row["y"]) for row in rows) / max(1, len(order))
    words = f"Mean distance between confidence and accuracy over {len(rows)} bins: {100 * gap:.1f} points."
    return Chart("reliability", title, tuple(rows), words, {"height": 170})


def raster_chart(values: ArrayLike, title: str, description: str, *, left: str = "", right: str = "") -> Chart:
    """A matrix of numbers in 0..1 (models by items) as an image; cells that are not known are grey.

    Args:
        values: (rows, columns) numbers in 0..1, NaN where missing.
        title: of the chart.
        description: the text alternative.
        left: words under the left end.
        right: words under the right end.
    """
    import base64
    import io

    from PIL import Image

    table = np.asarray(values, dtype=np.float64)
    high, low, missing = (np.array(colour) for colour in ((0, 114, 178), (238, 243, 248), (190, 195, 201)))
    known = np.nan_to_num(table)[..., None]
    pixels = np.where(np.isnan(table)[..., None], missing, low + (high - low) * known)
    image = Image.fromarray(np.rint(pixels).astype(np.uint8)).quantize(64)
    stretch = max(1, round(len(table[0]) / (4 * len(table)))) if table.size else 1
    image = image.resize((image.width, image.height * stretch), Image.Resampling.NEAREST)
    stream = io.BytesIO()
    image.save(stream, "PNG", optimize=True)
    png = "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()
    return Chart("raster", title, (), description, {"png": png, "left": left, "right": right})
