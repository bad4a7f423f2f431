"""A small chart of each kind that confusion scores use."""

from hardpan.report.sections import Chart

_CELLS = ((0.0, 0.5, 90), (0.5, 1.0, 0), (1.0, 1.5, 10))
CONFUSION = (
    Chart(
        "distribution",
        "Scores",
        tuple(
            {"group": group, "low": low, "high": high, "count": count}
            for group in ("train", "test")
            for low, high, count in _CELLS
        ),
        "Two groups.",
    ),
    Chart(
        "threshold",
        "Hard from here",
        tuple(
            {"low": low, "high": high, "count": count, "above": above, "wrong": 1.0, "wrong_above": 2.0}
            for (low, high, count), above in zip(_CELLS, (100, 10, 10), strict=True)
        ),
        "Three bars.",
        {"start": 0.9, "total": 100, "wrong": 3},
    ),
    Chart(
        "error_by_band",
        "Error",
        tuple(
            {"group": "test", "x": x, "low": x - 0.2, "high": x + 0.2, "value": x / 2, "count": 5}
            | {"error_low": x / 3, "error_high": x / 2 + 0.1}
            for x in (0.2, 0.6)
        ),
        "Rising.",
    ),
    Chart(
        "joint",
        "Two models",
        ({"x_low": 0.0, "x_high": 0.5, "y_low": 0.0, "y_high": 0.5, "count": 7},),
        "One cell.",
        {"top": 1.0},
    ),
    Chart(
        "confused",
        "Models",
        ({"name": "a", "x": 0.3, "x_low": 0.2, "x_high": 0.4, "y": 0.9, "y_low": 0.88, "y_high": 0.92},),
        "One model.",
    ),
    Chart(
        "dots", "AUROC", ({"name": "a", "value": 0.9, "low": 0.88, "high": 0.92, "role": "ceiling"},), "One dot."
    ),
)
