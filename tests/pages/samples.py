"""One small chart of each kind."""

from hardpan.pages.sections import Chart

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
        "dots", "AUROC", ({"name": "a", "value": 0.9, "low": 0.88, "high": 0.92, "role": "ceiling"},), "One dot."
    ),
)
INTERVALS = Chart(
    "intervals",
    "Floors",
    (
        {"name": "model", "value": 0.05, "low": 0.049, "high": 0.051, "role": "refuted", "reason": "too high"},
        {"name": "bound", "value": 0.007, "low": 0.0, "high": 0.016, "role": "floor", "reason": ""},
        {"name": "network", "value": 0.014, "low": 0.004, "high": 0.032, "role": "ceiling", "reason": ""},
    ),
    "Three intervals.",
    {"bracket": (0.0, 0.032)},
)
CURVE = Chart(
    "lines",
    "Dial",
    tuple(
        {"x": 2.0**i, "y": 10.0 ** (i - 4), "low": 0.9 * 10.0 ** (i - 4), "high": 10.0 ** (i - 4)} for i in range(4)
    ),
    "A rising curve.",
    {"x_title": "temperature", "log_x": True, "marks": ({"x": 1.0, "label": "as fitted"},)},
)
BARS = Chart("bars", "Counts", ({"name": "cat", "value": 3}, {"name": "cat", "value": 5}), "Two bars.")
SCATTER = Chart(
    "scatter",
    "Accuracies",
    tuple(
        {
            "name": f"m{i}",
            "x": x,
            "x_low": x - 0.02,
            "x_high": x + 0.02,
            "y": x - 0.1,
            "y_low": x - 0.13,
            "y_high": x - 0.07,
        }
        | {"role": "in the fit"}
        for i, x in enumerate((0.6, 0.7, 0.8))
    ),
    "Three models below the identity.",
)
SLOPE = Chart(
    "slope", "Ranks", ({"name": "a", "original": 1, "new": 2}, {"name": "b", "original": 2, "new": 1}), "Ranks."
)
DEVIATIONS = Chart(
    "deviations",
    "Off the line",
    ({"name": "a", "value": 0.01, "low": -0.01, "high": 0.03, "role": "in the fit"},),
    "One model.",
)
FAR = {"name": "far", "value": 2.1e-13, "low": 1e-14, "high": 4e-13, "role": "floor", "reason": "Stands."}
# Every drawing joins this list and gets every check of this file.
EVERY = {chart.drawing: chart for chart in (INTERVALS, BARS, SCATTER, SLOPE, DEVIATIONS)}
EVERY |= {chart.drawing: chart for chart in CONFUSION}
LINES = Chart(
    "lines",
    "Errors as data grow",
    tuple(
        {"series": name, "x": n, "y": y / n, "low": 0.5 * y / n, "high": 2 * y / n}
        for name, y in (("net", 10.0), ("floor", 5.0), ("other", 7.0))
        for n in (100, 1000, 20_000)
    ),
    "Three falling lines.",
    {"x_title": "examples", "y_title": "error", "log_x": True, "marks": ({"x": 1000, "label": "here"},)},
)
EVERY |= {"lines": LINES}
COLUMNS = Chart(
    "columns",
    "Error by tenth of the confusion score",
    tuple({"name": str(i), "value": 4 * i * i} for i in range(1, 11)),
    "Errors rise with the score.",
    {"x_title": "tenth"},
)
COMPOSITION = Chart(
    "composition",
    "Where the error comes from",
    (
        {"name": "label looks wrong", "value": 0.002},
        {"name": "all seeds give the same other class", "value": 0.06},
        {"name": "seeds disagree", "value": 0.03},
    ),
    "Three parts.",
)
RELIABILITY = Chart(
    "reliability",
    "Reliability",
    tuple(
        {"x": x, "y": x - 0.03, "low": x - 0.09, "high": min(1.0, x + 0.03), "count": 40}
        for x in (0.5, 0.7, 0.9, 0.99)
    ),
    "Points near the diagonal.",
)
RANKING = Chart(
    "ranking",
    "Scores of models",
    tuple(
        {"name": f"model-{i}", "value": 0.8 - i / 50, "low": 0.77 - i / 50, "high": 0.83 - i / 50}
        | {"tier": 1 if i < 3 else 2, "note": f"{i + 1}–{i + 4}"}
        for i in range(8)
    ),
    "Eight models.",
    {"x_title": "accuracy", "note_title": "ranks"},
)
POINTS = Chart(
    "points",
    "Items",
    tuple(
        {"name": f"item {i}", "x": (i * 37 % 50) / 10 - 2.5, "y": (i * 17 % 23) / 10 - 0.4}
        | {"role": "ceiling" if i == 7 else "floor", "label": "item 7" if i == 7 else ""}
        for i in range(50)
    ),
    "Fifty items.",
    {
        "x_title": "difficulty",
        "y_title": "discrimination",
        "rule": 0.0,
        "rule_text": "below: better models do worse",
    }
    | {"rug": (-1.0, 0.2, 0.5)},
)
MATRIX = Chart(
    "matrix",
    "Confusion matrix",
    tuple(
        {"row": row, "column": column, "value": 0.8 if row == column else 0.1}
        for row in ("cat", "dog", "bird")
        for column in ("cat", "dog", "bird")
    ),
    "Three classes.",
    {"diagonal": True, "x_title": "prediction", "y_title": "label"},
)
EVERY |= {chart.drawing: chart for chart in (COLUMNS, COMPOSITION, RELIABILITY, RANKING, POINTS, MATRIX)}


def floors(*more):
    """The three intervals and more of them, with a shaded range."""
    rows = (*INTERVALS.rows, *more)
    return Chart("intervals", "Floors", rows, "Intervals.", {"bracket": (0.0, 0.03)})
