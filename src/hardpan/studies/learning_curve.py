"""Learning curves against a known floor: how the error above the Bayes error falls as training data grow."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from hardpan import files, numbers, stats
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.files import record
from hardpan.report.sections import Chart, Section, Table

if TYPE_CHECKING:
    from hardpan.flows import Flow

FEWEST_FOR_FIT = 3
TEST_SEED_SHIFT = 1_000_003  # the test draw is another draw than the training draw of any seed in use


@record
@dataclass(frozen=True, slots=True)
class CurveConfig:
    """Settings of ``hardpan flow curve``.

    Attributes:
        bayes_error: the wanted Bayes error; None: the temperature is given.
        temperature: the temperature, where no error is wanted.
        models: architectures of ``hardpan.training.classifiers``.
        sizes: training-set sizes; each is the beginning of the next.
        test: how many test examples.
        seeds: runs of each architecture at each size.
        epochs: passes over the training set, at least.
        steps: steps of training, at least: small sets get more passes.
        soft: train on the exact posteriors as soft labels.
        seed: of the draws.
        device: ``auto``, ``cpu``, ``cuda``.
    """

    bayes_error: float | None = None
    temperature: float = 1.0
    models: tuple[str, ...] = ("linear", "mlp", "convnet")
    sizes: tuple[int, ...] = (500, 2000, 8000, 32000)
    test: int = 10_000
    seeds: int = 1
    epochs: int = 15
    steps: int = 1000
    soft: bool = False
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        if not self.models:
            raise InputError("models must name at least one architecture, such as linear,mlp,convnet")
        if not self.sizes or min(self.sizes) < 20 or len(set(self.sizes)) < len(self.sizes):
            raise InputError(f"sizes must be different whole numbers of at least 20; got {self.sizes!r}")
        for name, least in (("test", 2), ("seeds", 1), ("epochs", 1), ("steps", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}; got {getattr(self, name)!r}")
        if len(set(self.models)) < len(self.models):
            raise InputError(f"models must be different architectures; got {', '.join(self.models)}")


@record
@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One architecture trained on one number of examples.

    Attributes:
        model: the architecture.
        n: training examples.
        error: mean of 1 − p(ŷ | x) over test examples and seeds.
        excess: mean of max p − p(ŷ | x): the part of it above the floor.
        epochs: passes over the training set.
    """

    model: str
    n: int
    error: Estimate
    excess: Estimate
    epochs: int


@record
@dataclass(frozen=True, slots=True)
class PowerLaw:
    """excess ≈ amplitude · n^(−exponent) for one architecture, fitted on the logarithms."""

    model: str
    exponent: Estimate
    amplitude: float
    r2: float


@record
@dataclass(frozen=True, slots=True)
class LearningCurve:
    """Architectures against a known floor as the training set grows.

    Attributes:
        config: the settings.
        flow: name of the flow.
        temperature: what was drawn at.
        floor: the exact Bayes error.
        points: architecture by architecture, in order of size.
        laws: power laws of the architectures with at least three sizes.
    """

    config: CurveConfig
    flow: str
    temperature: float
    floor: Estimate
    points: tuple[CurvePoint, ...]
    laws: tuple[PowerLaw, ...]


def grow(
    flow: Flow,
    config: CurveConfig | None = None,
    *,
    name: str = "flow",
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> LearningCurve:
    """Train architectures on growing draws of a flow and hold them against its exact Bayes error.

    The excess of a trained classifier is mean(max_y p(y | x) − p(ŷ | x)) over fresh draws: no label noise in it, so
    differences far below the standard error of a counted error are seen.

    Args:
        flow: where the examples come from.
        config: the settings.
        name: what to call the flow.
        out: a folder that keeps each finished training; a run that was stopped goes on from there.
        progress: called with a step and the fraction done.

    Returns:
        The curve, with a power law an architecture.
    """
    config = config or CurveConfig()
    _check_models(flow, config)
    temperature = config.temperature if config.bayes_error is None else flow.temperature_for(config.bayes_error)
    floor = flow.bayes_error(temperature, seed=config.seed)
    report = progress or (lambda step, fraction: None)
    report("drawing examples", 0.0)
    train, test = (
        drawn._replace(x=tamed(drawn.x, flow.grey_levels))
        for drawn in (
            flow.sample_with_posterior(max(config.sizes), temperature=temperature, seed=config.seed),
            flow.sample_with_posterior(config.test, temperature=temperature, seed=config.seed + TEST_SEED_SHIFT),
        )
    )
    cells = [
        (model, n, seed) for model in config.models for n in sorted(config.sizes) for seed in range(config.seeds)
    ]
    kept = _Kept(out, config, temperature, flow)
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    work = np.cumsum([0, *(_epochs(config, n) * n for _, n, _ in cells)])
    for number, (model, n, seed) in enumerate(cells):
        begin, end = (0.02 + 0.97 * float(work[i] / work[-1]) for i in (number, number + 1))

        def inside(step: str, fraction: float, begin: float = begin, end: float = end, n: int = n) -> None:
            report(f"{n:,} examples, {step}", begin + fraction * (end - begin))

        cell = kept.get(model, n, seed)
        if cell is None:
            cell = _train(model, n, seed, train, test, config, inside)
            kept.put(model, n, seed, cell)
        found.setdefault((model, n), []).append(cell)
    points = tuple(_point(model, n, runs) for (model, n), runs in found.items())
    laws = tuple(law for model in config.models if (law := fit_law(model, points)) is not None)
    return LearningCurve(config, name, temperature, floor, points, laws)


def tamed(x: NDArray[np.float32], levels: int | None) -> NDArray[np.float32]:
    """Press grey values far outside 0..levels together, by logarithms: strictly increasing, so the floor stays.

    High temperatures draw a few values of enormous size, and no training copes with those; what a classifier may
    know of an example is the same after any invertible map. Values from 0 to ``levels``, and vectors, stay.

    Example:
        >>> tamed(np.float32([-1e9, 0.0, 100.0, 256.0, 1e9]), 256).round().tolist()
        [-3886.0, 0.0, 100.0, 256.0, 4142.0]
    """
    if levels is None:
        return x
    inside = np.clip(x, 0, levels)
    beyond = x - inside
    return np.asarray(inside + np.sign(beyond) * levels * np.log1p(np.abs(beyond) / levels), dtype=np.float32)


def section(curve: LearningCurve) -> Section:
    """The curve as a part of a page."""
    floor = curve.floor.value
    best = min(curve.points, key=lambda point: point.excess.value)
    sentences = [
        f"No classifier errs less than {numbers.percent(floor)} on these data. {best.model} with {best.n:,} "
        f"examples comes closest: {numbers.plain(best.excess, scale=100, unit='points')} above it.",
    ]
    sentences += [
        f"{law.model}: ten times the data leaves {100 * 10**-law.exponent.value:.0f} % of the excess "
        f"with an exponent of {numbers.plain(law.exponent)}."
        for law in curve.laws
    ]
    rows = tuple(
        {"series": p.model, "x": p.n, "y": p.excess.value, "low": p.excess.low, "high": p.excess.high}
        for p in curve.points
    )
    told = "; ".join(
        f"{p.model} at {p.n:,}: {numbers.plain(p.excess, scale=100, unit='points')}" for p in curve.points
    )
    options = {"x_title": "training examples", "y_title": "error above the floor", "log_x": True, "log": True}
    charts = (
        Chart("lines", "Error above the exact floor as data grow", rows, told, options),
        Chart(
            "lines",
            "The same with the floor in it",
            tuple({"series": p.model, "x": p.n, "y": p.error.value} for p in curve.points)
            + tuple({"series": "floor", "x": n, "y": floor} for n in sorted({p.n for p in curve.points})),
            f"Errors of every architecture over the floor of {100 * floor:.3g} %.",
            {"x_title": "training examples", "y_title": "error", "log_x": True},
        ),
    )
    table = Table(
        "Every training",
        ("architecture", "examples", "error", "above the floor", "standard error", "passes"),
        tuple((p.model, p.n, p.error.value, p.excess.value, p.excess.stderr, p.epochs) for p in curve.points),
    )
    return Section("Learning curves", tuple(sentences), {"Floor (exact)": curve.floor}, charts, (table,))


def fit_law(model: str, points: Sequence[CurvePoint]) -> PowerLaw | None:
    """Fit log excess = log a − b log n, weighted by the errors of the logarithms; None below three sizes."""
    mine = [p for p in points if p.model == model and p.excess.value > 0]
    if len(mine) < FEWEST_FOR_FIT:
        return None
    x = np.log([p.n for p in mine])
    y = np.log([p.excess.value for p in mine])
    # A run's own scatter is not in the error of its test set: no weight counts more than 5 % relative error.
    spread = np.maximum([p.excess.stderr / p.excess.value for p in mine], 0.05)
    weight = 1 / spread**2
    centre, level = (float((weight * values).sum() / weight.sum()) for values in (x, y))
    bend = float((weight * (x - centre) ** 2).sum())
    slope = float((weight * (x - centre) * y).sum()) / bend
    left = float((weight * (y - level - slope * (x - centre)) ** 2).sum())
    total = float((weight * (y - level) ** 2).sum())
    error = float(np.sqrt(max(left / (len(mine) - 2), 1.0) / bend))
    reach = float(stdtrit(len(mine) - 2, 0.975)) * error
    exponent = Estimate(
        -slope, error, -slope - reach, -slope + reach, method="weighted least squares on logarithms", n=len(mine)
    )
    return PowerLaw(model, exponent, float(np.exp(level - slope * centre)), 1 - left / total if total > 0 else 1.0)


def _check_models(flow: Flow, config: CurveConfig) -> None:
    """Refuse an architecture that cannot be built for these examples before anything is drawn or trained."""
    from hardpan.training import classifiers

    shape = flow.sample_shape
    channels = {1: shape, 2: (1, *shape)}.get(len(shape), (*shape[2:], *shape[:2]))
    for model in config.models:
        classifiers.build(model, input_shape=channels, n_classes=flow.n_classes)


def _epochs(config: CurveConfig, n: int, batch: int = 128) -> int:
    return max(config.epochs, -(-config.steps // -(-n // batch)))


def _train(
    model: str, n: int, seed: int, train: Any, test: Any, config: CurveConfig, progress: Progress
) -> dict[str, Any]:
    from hardpan.training import TrainConfig, fit_arrays

    epochs = _epochs(config, n)
    targets = train.posterior[:n].astype(np.float32) if config.soft else train.y[:n]
    settings = TrainConfig(
        model=model, seeds=1, epochs=epochs, record_every=epochs, augment="none", device=config.device
    )
    fitted = fit_arrays(
        train.x[:n],
        targets,
        test.x,
        settings,
        n_classes=train.posterior.shape[1],
        first_seed=seed,
        progress=progress,
    )
    right = test.posterior[np.arange(len(test.y)), fitted.probs[0, -1].argmax(axis=1)]
    best = test.posterior.max(axis=1)
    return {"error": _moments(1 - right), "excess": _moments(best - right), "epochs": epochs}


def _moments(values: NDArray[np.float64]) -> list[float]:
    return [float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))), float(len(values))]


def _point(model: str, n: int, runs: Sequence[Mapping[str, Any]]) -> CurvePoint:
    error, excess = (_average([run[key] for run in runs]) for key in ("error", "excess"))
    return CurvePoint(model, n, error, excess, int(runs[0]["epochs"]))


def _average(runs: Sequence[Sequence[float]]) -> Estimate:
    """The mean over seeds; its error holds the draw of the test set and, from two seeds on, their spread."""
    means, errors = np.array([run[0] for run in runs]), np.array([run[1] for run in runs])
    spread = float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else 0.0
    value, error = float(means.mean()), float(np.hypot(errors.mean(), spread))
    method = f"fresh test examples with known posteriors, {len(runs)} training run{'s' if len(runs) > 1 else ''}"
    return stats.normal(value, error, int(runs[0][2]), least=0.0, method=method)


class _Kept:
    """Finished trainings on disk, one small file each; those of other settings or another flow are not taken."""

    def __init__(
        self, out: str | os.PathLike[str] | None, config: CurveConfig, temperature: float, flow: Flow
    ) -> None:
        from hardpan.flows.flow import fingerprint  # torch: only where there is a flow

        self._folder = None if out is None else Path(out) / "cells"
        same = dataclasses.asdict(config) | {"temperature": temperature, "flow_sha256": fingerprint(flow)}
        # What only decides which trainings there are, not their numbers, may change.
        self._settings = {key: value for key, value in same.items() if key not in ("models", "sizes", "seeds")}

    def _path(self, model: str, n: int, seed: int) -> Path:
        assert self._folder is not None
        return self._folder / f"{model.replace(':', '-').replace('/', '-')}-{n}-{seed}.json"

    def get(self, model: str, n: int, seed: int) -> dict[str, Any] | None:
        if self._folder is None or not self._path(model, n, seed).is_file():
            return None
        try:
            held = json.loads(self._path(model, n, seed).read_text(encoding="utf-8"))
            found: dict[str, Any] = dict(held["cell"])
            settings = held["settings"]
        except (ValueError, KeyError, TypeError):
            return None  # damaged: trained again
        if settings != json.loads(json.dumps(self._settings)):
            raise InputError(
                f"{self._folder}: holds trainings with other settings or of another flow; give another folder"
            )
        return found

    def put(self, model: str, n: int, seed: int, cell: Mapping[str, Any]) -> None:
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"settings": self._settings, "cell": dict(cell)})
        files.write_text(self._path(model, n, seed), text)
