"""A search of settings as a part of a report."""

from __future__ import annotations

from hardpan import numbers
from hardpan.report.sections import Chart, Section, Table
from hardpan.studies.retune import RetuneStudy, Setting

MOST_ROWS = 20
_LOGARITHMIC = ("rate", "weight_decay", "clip")


def section(study: RetuneStudy) -> Section:
    """What the search says, accuracy along each setting, and the best combinations."""
    best, start = study.best, study.start
    several = len(study.settings) - 1
    sentences = [
        f"Of {numbers.counted(len(study.settings), 'setting')} of {study.config.train.model} on {study.data}, "
        f"{study.better} {'is' if study.better == 1 else 'are'} better than the starting point on the new test set "
        f"({study.new}) after Holm's correction over {numbers.counted(several, 'comparison')}.",
        f"The starting point ({named(start)}) has {numbers.estimate(start.new)} there and the best on the "
        f"{study.config.choose} set ({named(best)}) {numbers.estimate(best.new)}: {numbers.signed(best.gain)}.",
        f"Judged by examples that did not choose, the best setting gains {numbers.signed(study.fair_gain)}.",
    ]
    if study.extended:
        sentences.append(f"The best lay at an end, so the grid was extended by {', '.join(study.extended)}.")
    if not study.at_edge:
        sentences.append("The best setting is inside the range of every setting that was varied.")
    warnings = list(study.notes)
    lost = sum(item.diverged for item in study.settings)
    if lost:
        warnings.append(f"{lost} settings diverged; their accuracy counts as 0.")
    estimates = {
        "start, new test set": start.new,
        "best, new test set": best.new,
        "gain of the best": best.gain,
        "gain, judged fairly": study.fair_gain,
    }
    charts = tuple(_along(study, name) for name, values in study.grid.items() if len(values) > 1)
    title = "Can other settings recover the drop?"
    return Section(title, tuple(sentences), estimates, charts, (_table(study),), tuple(warnings))


def named(setting: Setting) -> str:
    """A combination in words, such as "rate 0.1, dropout 1"."""
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in setting.values.items())


def _along(study: RetuneStudy, name: str) -> Chart:
    words = name.replace("_", " ")
    rows = []
    for series in ("original", "new"):
        for value in study.grid[name]:
            best = max(
                (getattr(item, series) for item in study.settings if item.values[name] == value),
                key=lambda item: item.value,
            )
            rows.append({"series": series, "x": value, "y": best.value, "low": best.low, "high": best.high})
    return Chart(
        "lines",
        f"Best accuracy at each {words}",
        tuple(rows),
        f"Two lines, original and new test set: the highest accuracy over the other settings at each {words}, from "
        f"{study.grid[name][0]:g} to {study.grid[name][-1]:g}; the best setting has {study.best.values[name]:g}.",
        {
            "x_title": words,
            "y_title": "accuracy",
            "log_x": name in _LOGARITHMIC,
            "zero": False,
            "marks": ({"x": study.best.values[name], "label": "best"},),
        },
    )


def _table(study: RetuneStudy) -> Table:
    names = tuple(study.grid)
    best = study.settings[:MOST_ROWS]
    columns = (
        numbers.aligned((item.new for item in best), scale=100),
        numbers.aligned((item.gain for item in best), scale=100, sign="+"),
    )
    rows = tuple(
        (
            *(item.values[name] for name in names),
            f"{100 * item.original.value:.1f}",
            new,
            gain,
            float(f"{item.p_holm:.2g}"),
        )
        for item, new, gain in zip(best, *columns, strict=True)
    )
    varied = tuple(name.replace("_", " ") for name in names)
    shown = f"The {len(rows)} best of {len(study.settings)} settings" if len(rows) > 1 else "The setting"
    return Table(
        f"{shown}: accuracies (percent), gain over the start (points), Holm's p",
        (*varied, "original", "new", "gain", "p"),
        rows,
    )
