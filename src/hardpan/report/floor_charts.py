"""The floor as a chart: every estimate a dot with its interval on one error axis, and the bracket that survives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hardpan import numbers
from hardpan.report.sections import Chart

MOST_CLASSIFIERS = 6
WIDE = 30  # a logarithmic axis is the first choice where the numbers span more than this
SHOWN_BELOW = 1e-3  # an estimate that is this much smaller than the ceiling becomes an arrow at the edge


def floor_chart(rows: Sequence[Mapping[str, Any]], *, high: float, sentence: str) -> Chart:
    """Draw estimates of the floor and errors of classifiers on one axis, the surviving bracket shaded.

    The shade begins at 0: no evidence bounds the floor from below, only assumptions do. Of many classifiers, the
    best six are drawn.

    Args:
        rows: name, value, low, high, role ("floor", "ceiling" or "refuted") and reason of every mark; status, how
            the weighing ended ("disputed" is drawn hollow); and classifier: whether it is one.
        high: upper end of the bracket.
        sentence: the verdict, for the text alternative.

    Example:
        >>> row = {"name": "flow", "value": 0.3, "low": 0.3, "high": 0.3, "role": "refuted", "reason": "too high"}
        >>> floor_chart([row], high=0.1, sentence="The flow is refuted.").description
        'flow 30.0 %. The flow is refuted.'
    """
    classifiers = sorted((row for row in rows if row.get("classifier")), key=lambda row: float(row["value"]))
    hidden = [id(row) for row in classifiers[MOST_CLASSIFIERS:]]
    shown = [{key: row[key] for key in row if key != "classifier"} for row in rows if id(row) not in hidden]
    doubts = ["(disputed)" if row.get("status") == "disputed" else "" for row in shown]
    told = "; ".join(
        f"{row['name']} {numbers.percent(float(row['value']))} {doubt}".rstrip()
        for row, doubt in zip(shown, doubts, strict=True)
    )
    title = "Estimates of the floor, and the errors that classifiers make"
    if hidden:
        title += f" (the best {MOST_CLASSIFIERS} of {len(classifiers)} classifiers)"
    positive = [float(row["value"]) for row in shown if float(row["value"]) > SHOWN_BELOW * high]
    return Chart(
        "intervals",
        title,
        tuple(shown),
        f"{told}. {sentence}",
        {
            "x_title": "error",
            "log": bool(positive) and max(positive) > WIDE * min(positive),
            "bracket": (0.0, high),
            "smallest": SHOWN_BELOW * high,
        },
    )
