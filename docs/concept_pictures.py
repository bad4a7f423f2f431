"""Draw the three pictures of docs/concepts.md: ``python docs/concept_pictures.py``; it trains for a few seconds."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import altair as alt
import numpy as np
from PIL import Image
from scipy.stats import norm

from hardpan import testbed, training
from hardpan.data.dataset import Dataset
from hardpan.pages.palette import LIGHT

PICTURES = Path(__file__).resolve().parent / "images"
FONT = "DejaVu Sans, Verdana, sans-serif"
SHOWN = 3  # easy, middling and hard digits


def save(chart: alt.TopLevelMixin, name: str) -> None:
    """Write a chart as SVG on white paper."""
    words = {"labelFontSize": 12, "titleFontSize": 13, "titleFontWeight": "normal", "labelColor": LIGHT.muted}
    styled = (
        chart.configure(font=FONT, background=LIGHT.paper, padding=12)
        .configure_axis(grid=False, domainColor=LIGHT.muted, tickColor=LIGHT.muted, titleColor=LIGHT.ink, **words)
        .configure_view(stroke=None)
    )
    path = PICTURES / f"{name}.svg"
    styled.save(str(path))
    print(path, path.stat().st_size)


def bayes() -> None:
    """Two classes on a line: where they overlap, somebody is wrong."""
    x = np.linspace(-4, 6, 201)
    first, second = norm.pdf(x, 0, 1) / 2, norm.pdf(x, 2, 1) / 2
    rows = [
        {"x": float(a), "first": float(p), "second": float(q), "least": float(min(p, q))}
        for a, p, q in zip(x, first, second, strict=True)
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("x:Q", title="a feature of the example", axis=alt.Axis(labels=False, ticks=False))
    )
    y = alt.Axis(labels=False, ticks=False)
    layers = [
        base.mark_area(color=LIGHT.refuted, opacity=0.45).encode(y=alt.Y("least:Q", title="density", axis=y)),
        base.mark_line(color=LIGHT.floor, strokeWidth=2.5).encode(y="first:Q"),
        base.mark_line(color=LIGHT.ceiling, strokeWidth=2.5).encode(y="second:Q"),
    ]
    told = (
        (-1.9, 0.16, "class A", LIGHT.floor),
        (3.9, 0.16, "class B", LIGHT.ceiling),
        (1.0, 0.045, f"{100 * norm.cdf(-1):.1f} %", LIGHT.ink),
        (-2.3, 0.205, "the best guess is A", LIGHT.muted),
        (4.3, 0.205, "the best guess is B", LIGHT.muted),
    )
    for place, height, words, colour in told:
        note = alt.Chart(alt.Data(values=[{"x": place, "y": height}]))
        layers.append(
            note.mark_text(text=words, color=colour, fontSize=14, fontWeight=600).encode(x="x:Q", y="y:Q")
        )
    border = alt.Chart(alt.Data(values=[{"x": 1.0}]))
    layers.append(border.mark_rule(color=LIGHT.muted, strokeDash=[4, 3]).encode(x="x:Q"))
    save(alt.layer(*layers).properties(width=560, height=220), "concept-bayes")


def confusion() -> None:
    """Three digits, and the entropy of the ensemble's mean probabilities for them after every epoch."""
    digits = Dataset.open("digits")
    rows = digits.splits().train
    x, y = digits.features(), digits.labels
    assert y is not None
    fit = training.fit_arrays(x[rows], y[rows], x, n_classes=10, model="mlp", seeds=3, epochs=15, device="cpu")
    mean = np.asarray(fit.probs, dtype=np.float64).mean(axis=0)  # epochs, examples, classes
    entropy = -np.sum(mean * np.log2(np.maximum(mean, 1e-12)), axis=2)
    order = np.argsort(entropy.mean(axis=0))
    chosen = [int(order[len(order) // 20]), int(order[int(0.97 * len(order))]), int(order[-3])]
    values, faces = [], []
    for number, row in enumerate(chosen):
        name = f"{entropy[:, row].mean():.2f} bits"
        values += [{"epoch": e + 1, "bits": float(entropy[e, row]), "digit": name} for e in range(len(entropy))]
        picture = Image.fromarray(np.uint8(255 - digits.x[row].astype(float) * 255 / 16)).resize(
            (48, 48), Image.Resampling.NEAREST
        )
        kept = io.BytesIO()
        picture.save(kept, "PNG")
        url = "data:image/png;base64," + base64.b64encode(kept.getvalue()).decode()
        faces.append({"x": 17.2, "y": 3.0 - 1.15 * (SHOWN - 1 - number), "url": url, "digit": name})
    names = list(dict.fromkeys(row["digit"] for row in values))
    colour = alt.Color(
        "digit:N", legend=None, scale=alt.Scale(domain=names, range=[LIGHT.floor, LIGHT.third, LIGHT.ceiling])
    )
    axis = alt.Axis(values=[1, 5, 10, 15], format="d")
    at = alt.X("epoch:Q", title="epoch of training", scale=alt.Scale(domain=[1, 20.5], nice=False), axis=axis)
    up = alt.Y("bits:Q", title="doubt of three seeds (bits)", scale=alt.Scale(domain=[0, 3.4]))
    lines = (
        alt.Chart(alt.Data(values=values)).mark_line(strokeWidth=2.5, point=True).encode(x=at, y=up, color=colour)
    )
    beside = alt.Chart(alt.Data(values=faces))
    pictures = beside.mark_image(width=48, height=48).encode(x="x:Q", y="y:Q", url="url:N")
    words = beside.mark_text(align="left", dx=32, fontSize=14, fontWeight=600).encode(
        x="x:Q", y="y:Q", text="digit:N", color=colour
    )
    save(alt.layer(lines, pictures, words).properties(width=560, height=240), "concept-confusion")


def replication() -> None:
    """Models on an old and a new test set: all drop, and in order."""
    original, fresh = testbed.simulate(np.linspace(0.5, 2.6, 14), examples=(5000, 2000))
    old, new = original.scores.mean(axis=1), fresh.scores.mean(axis=1)
    points = [{"old": float(a), "new": float(b)} for a, b in zip(old, new, strict=True)]
    scale = alt.Scale(domain=[float(new.min()) - 0.02, 1.0], nice=False)
    x = alt.X("old:Q", title="accuracy on the old test set", scale=scale, axis=alt.Axis(format="%"))
    y = alt.Y("new:Q", title="accuracy on the new test set", scale=scale, axis=alt.Axis(format="%"))
    low = float(new.min()) - 0.02
    same = alt.Chart(alt.Data(values=[{"old": low, "new": low}, {"old": 1.0, "new": 1.0}]))
    middle = points[len(points) // 2]
    gap = alt.Chart(alt.Data(values=[middle | {"top": middle["old"]}]))
    dots = alt.Chart(alt.Data(values=points))
    words = f"drop: {100 * (middle['old'] - middle['new']):.0f} points"
    written = {"align": "left", "dx": 14, "dy": 10, "fontSize": 14, "fontWeight": 600, "color": LIGHT.ceiling}
    layers = [
        same.mark_line(color=LIGHT.muted, strokeDash=[4, 3]).encode(x=x, y=y),
        gap.mark_rule(color=LIGHT.ceiling, strokeWidth=2).encode(x=x, y=y, y2="top:Q"),
        dots.mark_point(filled=True, size=70, opacity=1, color=LIGHT.floor).encode(x=x, y=y),
        gap.mark_text(text=words, **written).encode(x=x, y=y),
    ]
    note = alt.Chart(alt.Data(values=[{"old": low + 0.09, "new": low + 0.13}]))
    layers.append(note.mark_text(text="no drop", align="right", fontSize=14, color=LIGHT.muted).encode(x=x, y=y))
    save(alt.layer(*layers).properties(width=380, height=300), "concept-replication")


if __name__ == "__main__":
    bayes()
    replication()
    confusion()
