"""Learning curves against a known Bayes error: how the error above it falls as training data grow."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardpan import execution, files, stats
from hardpan.arguments import whole_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.files import record
from hardpan.report import Report

if TYPE_CHECKING:
    from hardpan.flows import Flow
    from hardpan.flows.flow import Samples

FEWEST_FOR_FIT = 3
BATCH = 128  # examples per step
TEST_SEED_SHIFT = 1_000_003  # the test draw is another draw than the training draw of any seed in use


@record(dropped=("soft",))
class CurveConfig:
    """Settings of ``hardpan flow judge --sizes``.

    Attributes:
        bayes_error: the Bayes error of the examples; None: use ``temperature``.
        temperature: of the examples, if ``bayes_error`` is None.
        models: architectures, such as ``linear``, ``mlp`` or ``resnet18``.
        sizes: sizes of the training set; each set contains the smaller ones.
        test: number of test examples.
        seeds: number of runs per architecture and size.
        epochs: smallest number of epochs.
        steps: smallest number of training steps; small sets get more epochs.
        seed: of the draws.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
    """

    bayes_error: float | None = None
    temperature: float = 1.0
    models: tuple[str, ...] = ("linear", "mlp", "convnet")
    sizes: tuple[int, ...] = (500, 2000, 8000, 32000)
    test: int = 10_000
    seeds: int = 1
    epochs: int = 15
    steps: int = 1000
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        if not self.models:
            raise InputError("must name at least one architecture, such as linear,mlp,convnet", argument="models")
        if not self.sizes or min(self.sizes) < 20 or len(set(self.sizes)) < len(self.sizes):
            raise InputError(
                f"must be different whole numbers of at least 20; got {self.sizes!r}", argument="sizes"
            )
        for name, least in (("test", 2), ("seeds", 1), ("epochs", 1), ("steps", 1)):
            whole_number(name, getattr(self, name), least)
        if len(set(self.models)) < len(self.models):
            raise InputError(f"must be different architectures; got {', '.join(self.models)}", argument="models")


@record
class CurvePoint:
    """One architecture trained on one number of examples.

    Attributes:
        model: the architecture.
        n: training examples.
        error: mean of 1 − p(ŷ | x) over test examples and seeds.
        excess: mean of max p − p(ŷ | x): the error above the Bayes error.
        epochs: passes over the training set.
    """

    model: str
    n: int
    error: Estimate
    excess: Estimate
    epochs: int


@record
class PowerLaw:
    """excess ≈ amplitude · n^(−exponent) for one architecture, fitted on the logarithms."""

    model: str
    exponent: Estimate
    amplitude: float
    r2: float


@record
class LearningCurve(Report):
    """Errors of architectures above a known Bayes error as the training set grows.

    Attributes:
        config: the settings.
        flow: name of the flow.
        flow_sha256: hash of its weights.
        temperature: of the examples.
        floor: the exact Bayes error.
        points: architecture by architecture, in order of size.
        laws: power laws of the architectures with at least three sizes.
    """

    config: CurveConfig
    flow: str
    flow_sha256: str
    temperature: float
    floor: Estimate
    points: tuple[CurvePoint, ...]
    laws: tuple[PowerLaw, ...]


def measure_learning_curve(
    flow: Flow,
    config: CurveConfig | None = None,
    *,
    name: str = "flow",
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> LearningCurve:
    """Train architectures on growing samples of a flow and compare them with its exact Bayes error.

    The excess of a trained classifier is mean(max_y p(y | x) − p(ŷ | x)) over fresh samples: without label noise,
    so differences far below the standard error of a counted error can be measured.

    Args:
        flow: the source of the examples.
        config: the settings.
        name: what to call the flow.
        out: folder that keeps every finished training in ``runs``; an interrupted study resumes from it.
        progress: called with a line and the fraction done.
    """
    from hardpan.flows.flow import flow_fingerprint  # torch: only where there is a flow
    from hardpan.training import classifiers

    config = config or CurveConfig()
    shape = flow.sample_shape
    input_shape = {1: shape, 2: (1, *shape)}.get(len(shape), (*shape[2:], *shape[:2]))
    for model in config.models:  # refuse an architecture before anything is drawn or trained
        classifiers.build(model, input_shape=input_shape, n_classes=flow.n_classes)
    temperature = flow.chosen_temperature(config.bayes_error, config.temperature)
    floor = flow.bayes_error(temperature, seed=config.seed)
    if progress is not None:
        progress("drawing examples", 0.0)
    train, test = (
        samples._replace(x=compressed_grey_values(samples.x, flow.grey_levels))
        for samples in (
            flow.sample_with_posterior(max(config.sizes), temperature=temperature, seed=config.seed),
            flow.sample_with_posterior(config.test, temperature=temperature, seed=config.seed + TEST_SEED_SHIFT),
        )
    )
    digest = flow_fingerprint(flow)
    which = ("models", "sizes", "seeds", "bayes_error", "temperature", "device")  # not the numbers of a training
    settings = {key: value for key, value in dataclasses.asdict(config).items() if key not in which}
    results: dict[tuple[str, int, int], TrainingResult] = {}  # by architecture, size and seed
    paths: dict[tuple[str, int, int], Path] = {}
    for task in itertools.product(config.models, sorted(config.sizes), range(config.seeds)):
        key = [settings, temperature, digest, dict(zip(("model", "n", "seed"), task, strict=True))]
        name_of_run = hashlib.sha256(json.dumps(key, sort_keys=True, default=str).encode()).hexdigest()[:24]
        paths[task] = Path(out or "") / "runs" / f"{name_of_run}.json"
        with contextlib.suppress(InputError):  # missing or damaged
            if out is not None:
                results[task] = files.load(paths[task])
    missing = [task for task in paths if task not in results]

    def report(*_: Any) -> None:
        if progress is not None:
            progress(f"{len(results)} of {len(paths)} runs", len(results) / len(paths))

    def save(index: int, result: TrainingResult) -> None:
        results[missing[index]] = result
        if out is not None:
            files.save(result, paths[missing[index]])

    report()
    function = partial(_train_on_samples, train=train, test=test, config=config)
    # Training sets the state of the process: one at a time here, or in other processes.
    here = execution.current().backend in ("", "threads")
    with execution.parallel("threads", workers=1) if here else contextlib.nullcontext():
        execution.map_tasks(function, missing, progress=report, each=save)
    points = []
    for model in config.models:
        for n in sorted(config.sizes):
            runs = [results[model, n, seed] for seed in range(config.seeds)]
            error, excess = (
                _mean_over_seeds([getattr(run, key) for run in runs], config.test) for key in ("error", "excess")
            )
            points.append(CurvePoint(model, n, error, excess, _curve_epochs(config, n)))
    laws = tuple(law for model in config.models if (law := fit_power_law(model, points)) is not None)
    return LearningCurve(config, name, digest, temperature, floor, tuple(points), laws)


def compressed_grey_values(x: NDArray[np.float32], levels: int | None) -> NDArray[np.float32]:
    """Compress grey values far outside 0..levels by logarithms, strictly increasing, so that the Bayes error stays.

    High temperatures produce a few enormous values, on which training fails; an invertible map does not change what
    an example tells about its class. Values from 0 to ``levels``, and vectors, are unchanged.

    Example:
        >>> compressed_grey_values(np.float32([-1e9, 0.0, 100.0, 256.0, 1e9]), 256).round().tolist()
        [-3886.0, 0.0, 100.0, 256.0, 4142.0]
    """
    if levels is None:
        return x
    inside = np.clip(x, 0, levels)
    beyond = x - inside
    return np.asarray(inside + np.sign(beyond) * levels * np.log1p(np.abs(beyond) / levels), dtype=np.float32)


def fit_power_law(model: str, points: Sequence[CurvePoint]) -> PowerLaw | None:
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
    method, df = "weighted least squares on logarithms", len(mine) - 2
    exponent = stats.normal(-slope, error, len(mine), method=method, df=df)
    return PowerLaw(model, exponent, float(np.exp(level - slope * centre)), 1 - left / total if total > 0 else 1.0)


def _curve_epochs(config: CurveConfig, n: int) -> int:
    return max(config.epochs, -(-config.steps // -(-n // BATCH)))


@record
class TrainingResult:
    """Mean and standard error of 1 − p(ŷ | x) and of the excess, over the test examples."""

    error: tuple[float, float]
    excess: tuple[float, float]
    test: int


def _train_on_samples(
    task: tuple[str, int, int], *, train: Samples, test: Samples, config: CurveConfig
) -> TrainingResult:
    from hardpan.training import fit_arrays

    model, n, seed = task
    epochs = _curve_epochs(config, n)
    fitted = fit_arrays(
        train.x[:n],
        train.y[:n],
        test.x,
        n_classes=train.posterior.shape[1],
        first_seed=seed,
        model=model,
        seeds=1,
        epochs=epochs,
        record_every=epochs,
        augment="none",
        device=config.device,
    )
    of_predicted = test.posterior[np.arange(len(test.y)), fitted.probs[0, -1].argmax(axis=1)]
    error, excess = 1 - of_predicted, test.posterior.max(axis=1) - of_predicted
    moments = [(float(v.mean()), float(v.std(ddof=1) / np.sqrt(len(v)))) for v in (error, excess)]
    return TrainingResult(moments[0], moments[1], len(test.y))


def _mean_over_seeds(runs: Sequence[Sequence[float]], test: int) -> Estimate:
    """The mean over seeds; its error includes the test sample and, from two seeds on, their spread."""
    means, errors = np.array([run[0] for run in runs]), np.array([run[1] for run in runs])
    spread = float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else 0.0
    value, error = float(means.mean()), float(np.hypot(errors.mean(), spread))
    method = f"fresh test examples with known posteriors, {len(runs)} training run{'s' if len(runs) > 1 else ''}"
    return stats.normal(value, error, test, least=0.0, method=method)
