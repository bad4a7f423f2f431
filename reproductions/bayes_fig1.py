"""The paper's first figure: estimates of the error of two classes against the closed form, over temperatures.

Run: python reproductions/bayes_fig1.py

Two random unit means in 784 dimensions, covariance τ²I, 100 runs of each method (seeds 0 to 99) at every τ.
Writes reproductions/records/bayes_fig1.json, docs/results/bayes_fig1.md and .svg.

Source: Theisen et al. 2021, "Evaluating State-of-the-Art Classification Models Against Bayes Optimality", Figure 1
and Eq. 4.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from hardpan import bayes, files
from hardpan.pages import charts

ROOT = Path(__file__).resolve().parent.parent
DIMENSION = 784
TEMPERATURES = (0.12, 0.15, 0.2, 0.3, 0.4, 0.55, 0.75, 1.0, 1.4, 2.0, 3.0)
METHODS = ("hdr", "importance")
RTOL = 0.05
COLOURS = {"hdr": "#D55E00", "importance": "#0072B2"}
SMALLEST_SHOWN = 1e-17  # a deviation of exactly 0 has no place on a log axis
COMMAND = "python reproductions/bayes_fig1.py"


@files.record
class BayesFigure1:
    """What the script found: a row for each temperature and method, and how it was made."""

    rows: tuple[dict[str, Any], ...]
    dimension: int
    runs: int
    rtol: float
    seed: int
    seconds: dict[str, float]
    command: str
    machine: dict[str, Any]
    versions: dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=100, help="runs of each method at each temperature")
    runs = parser.parse_args().runs
    sys.path.insert(0, str(ROOT))
    truth = importlib.import_module("bench._truth")
    means = truth.unit_means(2, DIMENSION)
    distance = truth.exact_distance(means)
    rows, seconds = [], dict.fromkeys(METHODS, 0.0)
    for temperature in TEMPERATURES:
        exact = truth.two_classes(distance / temperature, (0.5, 0.5))
        for method in METHODS:
            start = time.perf_counter()
            rows.append(deviations(means, temperature, method, exact, runs))
            seconds[method] += time.perf_counter() - start
    result = BayesFigure1(tuple(rows), DIMENSION, runs, RTOL, 0, seconds, COMMAND, *surroundings())
    text = page(result)
    print(text)
    files.save(result, ROOT / "reproductions" / "records" / "bayes_fig1.json")
    (ROOT / "docs" / "results" / "bayes_fig1.md").write_text(text + "\n", encoding="utf-8")
    picture = charts.svg_of_spec(figure(result).to_dict())
    (ROOT / "docs" / "results" / "bayes_fig1.svg").write_text(picture, encoding="utf-8")


def deviations(means: np.ndarray, temperature: float, method: str, exact: Any, runs: int) -> dict[str, Any]:
    """Range of the estimates over the runs, and of their distance from the closed form (an mpmath number)."""
    found = [
        bayes.gaussian(means, temperature=temperature, method=method, rtol=RTOL, seed=seed) for seed in range(runs)
    ]
    values = np.array([e.value for e in found])
    off = np.abs([float(value / exact - 1) for value in values])
    return {
        "temperature": temperature,
        "exact": float(exact),
        "method": method,
        "low": float(values.min()),
        "high": float(values.max()),
        "median_off": float(np.median(off)),
        "largest_off": float(off.max()),
        "mean_off": float(values.mean() / exact - 1),
        "covered": float(np.mean([e.low <= exact * (1 + 1e-12) and exact <= e.high * (1 + 1e-12) for e in found])),
        "draws": float(np.median([e.n for e in found])),
    }


def surroundings() -> tuple[dict[str, Any], dict[str, Any]]:
    """Machine and versions, as bench records have them."""
    about = importlib.import_module("bench._records")
    return about.machine(), about.versions(("mpmath",))


def figure(result: BayesFigure1) -> alt.TopLevelMixin:
    """Left the curve with the range of the estimates, right how far they are from it."""
    size = {"width": 330, "height": 300}
    left = curve_panel(result).properties(**size, title="Bayes error of two classes")
    right = deviation_panel(result).properties(
        **size, title=f"Deviation from the closed form, median to largest of {result.runs} runs"
    )
    return (
        alt.hconcat(left, right, spacing=40)
        .configure(font="system-ui, sans-serif", background="white")
        .configure_view(stroke=None)
        .configure_title(anchor="start", fontSize=13)
        .configure_axis(titleFontWeight="normal", labelFontSize=11, titleFontSize=12)
    )


def curve_panel(result: BayesFigure1) -> alt.LayerChart:
    """The closed form, the range of hdr's estimates as a band, importance's as dots."""
    base = alt.Chart(alt.Data(values=list(result.rows)))
    y = alt.Y("low:Q", title="error", axis=alt.Axis(format="%"))
    band = base.mark_area(opacity=0.35).encode(x=_temperature(), y=y, y2="high:Q", color=_colour())
    curve = base.mark_line(color="#333333", strokeWidth=1.5, interpolate="monotone")
    dots = base.mark_point(filled=True, size=40, opacity=1).encode(x=_temperature(), y="high:Q", color=_colour())
    return alt.layer(
        band.transform_filter("datum.method == 'hdr'"),
        curve.encode(x=_temperature(), y="exact:Q").transform_filter("datum.method == 'hdr'"),
        dots.transform_filter("datum.method == 'importance'"),
        _label(1.0, 0.16, "closed form (line)", "#333333"),
        _label(1.0, 0.12, "hdr (band)", COLOURS["hdr"]),
        _label(1.0, 0.08, "importance (dots)", COLOURS["importance"]),
    )


def deviation_panel(result: BayesFigure1) -> alt.LayerChart:
    """Distance from the closed form on a log axis, which alone holds both methods."""
    rows = [
        row
        | {"off_low": max(row["median_off"], SMALLEST_SHOWN), "off_high": max(row["largest_off"], SMALLEST_SHOWN)}
        for row in result.rows
    ]
    base = alt.Chart(alt.Data(values=rows))
    log = alt.Scale(type="log", domain=[SMALLEST_SHOWN, 1], nice=False)
    ticks = alt.Axis(format=".0e", values=[1.0, 1e-4, 1e-8, 1e-12, 1e-16])
    y = alt.Y("off_low:Q", scale=log, axis=ticks, title="relative deviation (log scale)")
    band = base.mark_area(opacity=0.35).encode(x=_temperature(), y=y, y2="off_high:Q", color=_colour())
    edge = base.mark_line(point=True, strokeWidth=1.5)
    return alt.layer(
        band,
        edge.encode(x=_temperature(), y=alt.Y("off_high:Q", scale=log), color=_colour()),
        _label(0.5, 1e-4, "hdr", COLOURS["hdr"], log),
        _label(0.5, 1e-12, "importance", COLOURS["importance"], log),
    )


def _temperature(field: str = "temperature") -> alt.X:
    scale = alt.Scale(type="log", domain=[min(TEMPERATURES), max(TEMPERATURES)], nice=False)
    axis = alt.Axis(values=[0.12, 0.2, 0.5, 1, 2, 3], grid=False)
    return alt.X(f"{field}:Q", scale=scale, axis=axis, title="temperature τ (log scale)")


def _colour() -> alt.Color:
    return alt.Color("method:N", scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())), legend=None)


def _label(x: float, y: float, text: str, colour: str, scale: alt.Scale | None = None) -> alt.Chart:
    """A name beside the marks instead of a legend."""
    place = alt.Y("y:Q", scale=scale) if scale is not None else alt.Y("y:Q")
    mark = alt.Chart(alt.Data(values=[{"x": x, "y": y, "text": text}])).mark_text(
        align="left", fontSize=13, color=colour
    )
    return mark.encode(x=_temperature("x"), y=place, text="text:N")


def page(result: BayesFigure1) -> str:
    """The result as Markdown, which is also what is printed."""
    by_method = {method: [row for row in result.rows if row["method"] == method] for method in METHODS}
    worst = {method: max(row["largest_off"] for row in rows) for method, rows in by_method.items()}
    machine = result.machine
    lines = [
        "# Two classes: estimates against the closed form",
        "",
        f"Made by `{result.command}`; do not edit.",
        "",
        "![Bayes error against temperature, and how far two estimators are from it](bayes_fig1.svg)",
        "",
        "Figure 1 of Theisen et al. (2021) checks Holmes–Diaconis–Ross integration where the answer is known: two "
        f"classes with one covariance τ²I, their means random unit vectors in {result.dimension} dimensions. "
        f"Here both of hardpan's general estimators are run on the same problem, {result.runs} runs each at "
        "every temperature "
        f"(seeds 0 to {result.runs - 1}, relative tolerance {result.rtol:g}).",
        "",
        f"- `hdr`, the paper's method, follows the curve over its whole length, to {worst['hdr']:.2g} relative in "
        "the worst of all runs. The band is as wide as the tolerance allows, and narrows with the root of the "
        "number of draws. It holds for rare errors, too, because the regions of wrong decisions are integrated "
        "themselves; a probability of right decisions subtracted from 1 would not show them.",
        f"- `importance` is at most {worst['importance']:.1g} off: for two classes its weights are all equal, so "
        "that only rounding is left, and every run gives the same number.",
        "",
        "The closed form is evaluated with 50 digits. Deviations are on a logarithmic axis, since a linear one "
        "cannot show both methods.",
        "",
        "| τ | closed form | hdr, range | hdr, largest deviation | hdr, covered | hdr, draws | "
        "importance, largest deviation |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for ours, theirs in zip(by_method["importance"], by_method["hdr"], strict=True):
        lines.append(
            f"| {theirs['temperature']:g} | {theirs['exact']:.6g} | {theirs['low']:.4g} to {theirs['high']:.4g} | "
            f"{theirs['largest_off']:.2g} | {theirs['covered']:.0%} | {theirs['draws']:,.0f} | "
            f"{ours['largest_off']:.1g} |"
        )
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    lines += [
        "",
        "Covered: proportion of the runs whose 95 % interval contains the closed form.",
        "",
        f"All runs took {result.seconds['hdr']:.0f} s with hdr and {result.seconds['importance']:.0f} s with "
        f"importance on {machine['cpu']} ({machine['cores']} cores, {machine['memory GiB']} GiB); {versions}.",
        "",
        "## What is not reproduced and why",
        "",
        "The values of the figure: the paper's text gives no numbers for it, so only the shape is compared.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
