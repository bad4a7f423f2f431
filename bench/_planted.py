"""Further problems for development: mechanisms on which earlier versions stated what was not true.

Same format as fresh problems (docs/measured.md). Most of them are honest sets that look suspicious.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Rng = np.random.Generator
Made = dict[str, Any]
P: dict[str, tuple[str, Callable[[Rng], Made]]] = {}
LABELS = frozenset({"labels"})


def plant(name: str, mode: str = "none") -> Callable[[Callable[[Rng], Made]], Callable[[Rng], Made]]:
    def add(function: Callable[[Rng], Made]) -> Callable[[Rng], Made]:
        P[name] = (mode, function)
        return function

    return add


def made(x: Array, y: Array, truth: float | None = None, test: int = 0, ok: Any = (), **planted: Any) -> Made:
    """A problem of arrays, the last ``test`` rows an official test set; ``planted``: kinds with _ for -."""
    split = {"split": np.repeat(["train", "test"], [len(y) - test, test])} if test else {}
    kinds = {kind.replace("_", "-"): where for kind, where in planted.items()}
    return {"x": x, "y": y, "truth": truth, "planted": kinds, "ok": set(ok), **split}


def flipped(rng: Rng, y: Array, rate: float | Array) -> Array:
    return np.where(rng.random(len(y)) < rate, 1 - y, y)


def wrong(y: Array, clean: Array) -> dict[str, Array]:
    return {"rows": np.flatnonzero(y != clean)}


def upper(z: float) -> float:
    from scipy.stats import norm

    return float(norm.sf(z))


def minority(p: Array) -> float:
    return float(np.minimum(p, 1 - p).mean())


def sigmoid(z: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-z)))


# Label noise.


@plant("labels wrong only in one region", "train")
def _region(rng: Rng) -> Made:
    x = rng.normal(size=(2000, 6))
    clean = (x[:, 0] > 0).astype(int)
    y = flipped(rng, clean, 0.4 * (x[:, 1] > 1))
    return made(x, y, 0.4 * upper(1), labels=wrong(y, clean))


@plant("wrong labels in train, none in test", "train")
def _train_only(rng: Rng) -> Made:
    x = rng.normal(size=(2000, 8))
    clean = (x[:, 0] + x[:, 1] > 0).astype(int)
    y = flipped(rng, clean, np.repeat([0.2, 0], [1500, 500]))
    return made(x, y, 0.0, 500, {"shift", "order"}, labels=wrong(y, clean))


@plant("heavy tails with wrong labels", "train")
def _tails(rng: Rng) -> Made:
    x = rng.standard_t(1.2, size=(2000, 5))
    clean = (x[:, 0] > x[:, 1]).astype(int)
    y = flipped(rng, clean, 0.1)
    return made(x, y, 0.1, labels=wrong(y, clean))


@plant("two sources, one with swapped class codes")
def _sources(rng: Rng) -> Made:
    x = rng.normal(size=(2000, 6))
    clean = np.digitize(x[:, 0], [-0.4307, 0.4307])  # three classes of 1/3
    swapped = np.array([0, 2, 1])[clean]
    return made(x, np.where(rng.random(2000) < 0.3, swapped, clean), 0.2, ok=LABELS)


# Honest labels that look wrong.


@plant("two overlapping Gaussian classes", "train")
def _overlap(rng: Rng) -> Made:
    y = rng.integers(0, 2, 2000)
    x = rng.normal(size=(2000, 2))
    x[:, 0] += 1.5 * y
    return made(x, y, upper(0.75))


@plant("outcome random by nature, two levels of risk", "train")
def _risk(rng: Rng) -> Made:
    x = rng.normal(size=(2000, 5))
    return made(x, flipped(rng, (x[:, 0] > 0).astype(int), 0.15), 0.15)


@plant("rare subgroup with the opposite rule", "train")
def _subgroup(rng: Rng) -> Made:
    x = rng.normal(size=(2000, 15))
    return made(x, ((x[:, 0] > 0) ^ (x[:, 3] * x[:, 4] > 1.65)).astype(int), 0.0)


@plant("small islands with the opposite rule", "train")
def _islands(rng: Rng) -> Made:
    centres = np.random.default_rng(11).normal(size=(60, 6))
    x, on = rng.normal(size=(2000, 6)), rng.random(2000) < 0.1
    of = rng.integers(0, 60, 2000)
    x[on] = (centres[of] + 0.02 * rng.normal(size=(2000, 6)))[on]
    return made(x, np.where(on, centres[of, 0] <= 0, x[:, 0] > 0).astype(int), 0.0)


@plant("measurements of 400 settings, five each")
def _settings(rng: Rng) -> Made:
    x = np.repeat(rng.normal(size=(400, 3)), 5, axis=0)[rng.permutation(2000)]
    y = (rng.random(2000) < sigmoid(2 * x[:, 0])).astype(int)
    truth = minority(sigmoid(2 * np.random.default_rng(1).normal(size=300_000)))
    return made(x, y, truth, ok={"conflicting-labels", "duplicates"})


@plant("ambiguous inputs listed three times")
def _adjudicated(rng: Rng) -> Made:
    x = rng.normal(size=(1800, 5))
    y = flipped(rng, (x[:, 0] > 0).astype(int), 0.03)
    chosen = rng.choice(1800, 100, replace=False)
    again = np.concatenate([chosen, chosen])
    rows = np.concatenate([chosen, np.arange(1800, 2000)])
    labels = np.concatenate([y, rng.integers(0, 2, 200)])
    differ = [
        row for row, at in zip(rows, np.concatenate([chosen, again]), strict=True) if _conflict(labels, again, at)
    ]
    kinds = {"conflicting_labels": {"rows": np.array(differ)}}
    return made(np.concatenate([x, x[again]]), labels, ok={"duplicates", "labels", "order"}, **kinds)


def _conflict(labels: Array, again: Array, row: int) -> bool:
    return len(np.unique([labels[row], *labels[1800:][again == row]])) > 1


# Sizes and classes.


@plant("200 Gaussian classes")
def _many(rng: Rng) -> Made:
    means = np.random.default_rng(3).normal(0, 2.2, size=(200, 10))
    y, new = rng.integers(0, 200, 6000), np.random.default_rng(4)
    of = new.integers(0, 200, 20_000)
    x = means[of] + new.normal(size=(20_000, 10))
    nearest = (x @ means.T - (means**2).sum(axis=1) / 2).argmax(axis=1)
    return made(means[y] + rng.normal(size=(6000, 10)), y, float((nearest != of).mean()))


@plant("fewer rows than columns, one column decides")
def _wide(rng: Rng) -> Made:
    x = rng.normal(size=(120, 500))
    return made(x, (x[:, 0] > 0).astype(int), 0.0)


@plant("fewer rows than columns, Gaussian classes")
def _wide_gaussian(rng: Rng) -> Made:
    y = rng.integers(0, 2, 300)
    x = rng.normal(size=(300, 600))
    x[:, :40] += y[:, None] * 2 * 1.2815516 / np.sqrt(40)
    return made(x, y, 0.1)


# Train and test, order, groups.


@plant("test set sorted by label")
def _sorted(rng: Rng) -> Made:
    x = rng.normal(size=(2000, 4))
    y = flipped(rng, (x[:, 0] > 0).astype(int), 0.1)
    order = np.concatenate([np.arange(1600), 1600 + np.argsort(y[1600:], kind="stable")])
    return made(x[order], y[order], 0.1, 400, {"labels", "order"})


@plant("test set in other units")
def _units(rng: Rng) -> Made:
    x = rng.normal(10, 2, size=(2000, 4))
    y = flipped(rng, (x[:, 0] > 10).astype(int), 0.05)
    x[1500:, 0] *= 1000
    return made(x, y, 0.05, 500, {"labels", "order"}, shift={"columns": [0]})


@plant("rule that rotates along the file")
def _rotating(rng: Rng) -> Made:
    x, angle = rng.normal(size=(3000, 4)), np.pi * np.arange(3000) / 3000
    y = np.cos(angle) * x[:, 0] + np.sin(angle) * x[:, 1] > 0
    # Of the test rows a fifth lies where the rule changes within the test set; there a quarter is wrong at best.
    return made(x, y.astype(int), 0.05, 600, {"labels", "order"}, shift={})


@plant("class shares of the test set differ")
def _shares(rng: Rng) -> Made:
    y = (rng.random(2000) < np.repeat([0.5, 0.05], [1500, 500])).astype(int)
    x = rng.normal(size=(2000, 3))
    x[:, 0] += 2 * y
    grid = np.linspace(-8, 10, 200_001)
    densities = np.minimum(0.95 * np.exp(-(grid**2) / 2), 0.05 * np.exp(-((grid - 2) ** 2) / 2))
    truth = float(densities.sum() * (grid[1] - grid[0]) / np.sqrt(2 * np.pi))
    return made(x, y, truth, 500, {"labels", "order"}, shift={})


def patients(rng: Rng) -> tuple[Array, Array, Array]:
    of = np.repeat(np.arange(150), 12)[rng.permutation(1800)]
    x = rng.normal(size=(150, 8))[of] + 0.25 * rng.normal(size=(1800, 8))
    return x, rng.integers(0, 2, 150)[of], of


@plant("patients with random labels, not named")
def _patients(rng: Rng) -> Made:
    x, y, _ = patients(rng)
    return made(x, y, 0.5, ok={"groups"}, near_copies={})


@plant("patients with random labels, named")
def _named_patients(rng: Rng) -> Made:
    import pandas as pd

    x, y, of = patients(rng)
    frame = pd.DataFrame(x, columns=list("abcdefgh")).assign(patient=of, label=y)
    options = {"label": "label", "group": "patient"}
    return {"frame": frame, "opts": options, "truth": 0.5, "planted": {"groups": {}}, "ok": {"near-copies"}}


# Columns.


@plant("code of the outcome, sometimes missing")
def _code(rng: Rng) -> Made:
    import pandas as pd

    y = rng.integers(0, 3, 2000)
    frame = pd.DataFrame(rng.normal(size=(2000, 4)), columns=list("abcd"))
    frame["code"], frame["label"] = np.where(rng.random(2000) < 0.02, np.nan, y), y
    planted = {"leak-feature": {"columns": ["code"]}}
    return {"frame": frame, "opts": {"label": "label"}, "truth": None, "planted": planted}


@plant("one honest column decides nearly everything")
def _strong(rng: Rng) -> Made:
    y = rng.integers(0, 2, 2000)
    x = rng.normal(size=(2000, 4))
    x[:, 0] += 6.2 * y
    return made(x, y, upper(3.1))


@plant("ranks among the columns")
def _ranks(rng: Rng) -> Made:
    income = rng.normal(size=2000)
    y = (income + 0.7 * rng.normal(size=2000) > 0).astype(int)
    from scipy.stats import norm

    truth = minority(norm.cdf(np.random.default_rng(1).normal(size=300_000) / 0.7))
    return made(np.column_stack([income.argsort().argsort() + 1.0, rng.normal(size=(2000, 4))]), y, truth)


@plant("rounded correlated sensors")
def _sensors(rng: Rng) -> Made:
    level = rng.normal(size=(2000, 1))
    x = np.round(level + 0.12 * rng.normal(size=(2000, 3)), 1)
    return made(x, flipped(rng, (level[:, 0] > 0).astype(int), 0.05), ok=LABELS)


@plant("values missing where they are large")
def _missing(rng: Rng) -> Made:
    import pandas as pd

    x = rng.normal(size=(2000, 4))
    y = flipped(rng, (x[:, 0] > 0).astype(int), 0.1)
    x[x[:, 1] > 0.8, 1] = np.nan
    frame = pd.DataFrame(x, columns=list("abcd")).assign(label=y)
    return {"frame": frame, "opts": {"label": "label"}, "truth": 0.1, "planted": {}, "ok": LABELS}


# Altered copies of images.


@functools.cache
def patches() -> tuple[Array, Array]:
    from sklearn.datasets import load_sample_images

    images = [image[:420, :640].reshape(21, 20, 32, 20, 3).swapaxes(1, 2) for image in load_sample_images().images]
    return np.concatenate([image.reshape(-1, 20, 20, 3) for image in images]), np.repeat([0, 1], 21 * 32)


@functools.cache
def digits() -> tuple[Array, Array]:
    from sklearn.datasets import load_digits

    data = load_digits()
    return data.images.astype(np.uint8), data.target


def copies(rng: Rng, source: tuple[Array, Array], alter: Callable[[Array], Array]) -> Made:
    order = rng.permutation(len(source[1]))
    x, y = source[0][order], source[1][order]
    x[-60:], y[-60:] = [alter(image) for image in x[:60]], y[:60]
    rows = np.arange(len(y) - 60, len(y))
    return made(x, y, None, 300, {"shift"}, near_copies={"rows": rows})  # only test has altered images


def moved(by: int) -> Callable[[Array], Array]:
    return lambda image: np.roll(image, (by, by), (0, 1))


def cropped(image: Array) -> Array:
    from PIL import Image

    high, wide = image.shape[:2]
    part = Image.fromarray(image).crop((2, 2, wide - 1, high - 1))
    return np.asarray(part.resize((wide, high), Image.Resampling.BILINEAR))


def compressed(image: Array) -> Array:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=60)
    return np.asarray(Image.open(file))


plant("photographs, copies moved by 3 pixels")(lambda rng: copies(rng, patches(), moved(3)))
plant("photographs, copies cropped")(lambda rng: copies(rng, patches(), cropped))
plant("photographs, copies as JPEG")(lambda rng: copies(rng, patches(), compressed))
plant("digits, copies moved by 1 pixel")(lambda rng: copies(rng, digits(), moved(1)))
