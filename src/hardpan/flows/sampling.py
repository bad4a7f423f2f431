"""Samples of a flow at several temperatures, each with its exact Bayes error."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import files
from hardpan.bayes.gaussians.temperature import TemperatureCurve
from hardpan.errors import HardpanError, InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.execution.mapping import no_progress
from hardpan.files import record
from hardpan.flows.flow import Flow, flow_fingerprint
from hardpan.report import Report

CURVE = tuple(float(f"{t:.4g}") for t in np.geomspace(0.2, 4, 25))


@record(eq=False)
class FlowSamples(Report):
    """Images drawn from a flow at several temperatures.

    Attributes:
        flow: name of the flow.
        flow_sha256: hash of its weights.
        temperatures: as given.
        errors: the exact Bayes error at each.
        images: (temperatures, n, H, W[, C]) samples.
        labels: (temperatures, n) their classes.
        class_names: the K names.
        grey_levels: levels of the images that the flow was fitted to.
        curve: the Bayes error at many temperatures.
        floors: the Bayes error after each epoch of the fit.
        seed: of the samples.
    """

    flow: str
    flow_sha256: str
    temperatures: tuple[float, ...]
    errors: tuple[Estimate, ...]
    images: NDArray[np.float32]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    grey_levels: int
    curve: TemperatureCurve
    floors: tuple[Mapping[str, Any], ...] = field(default=())
    seed: int = 0

    def to_json(self) -> str:
        """The result without its images, which are on the page."""
        brief = dataclasses.replace(self, images=np.zeros((0,), dtype=np.float32))
        return files.json_text(brief)


def sample_temperatures(
    flow: Flow,
    temperatures: Sequence[float] = (0.2, 0.5, 1.0, 1.4, 3.0),
    n: int = 48,
    *,
    name: str = "flow",
    seed: int = 0,
    progress: Progress | None = None,
) -> FlowSamples:
    """Draw n images at each temperature, with the exact Bayes error of each.

    Args:
        flow: a flow of images.
        temperatures: different positive numbers.
        n: images at each temperature.
        name: what to call the flow.
        seed: of the samples.
        progress: called with a step and the fraction done.
    """
    if flow.grey_levels is None:
        raise InputError(f"flow {name!r} draws feature vectors, which have no pictures; pass a flow of images")
    if not temperatures or len(set(temperatures)) < len(temperatures):
        raise InputError(f"must be different numbers; got {list(temperatures)}", argument="temperatures")
    report = progress or no_progress
    images, labels, errors = [], [], []
    for number, temperature in enumerate(temperatures):
        report(f"temperature {temperature:g}", number / len(temperatures))
        try:
            x, y = flow.sample(n, temperature=temperature, seed=seed)
        except HardpanError as error:
            raise InputError(f": {temperature:g} failed ({error})", argument="temperatures") from None
        images.append(x)
        labels.append(y)
        errors.append(flow.bayes_error(temperature, seed=seed))
    report("Bayes error against temperature", 0.95)
    curve = flow.bayes_curve(CURVE, rtol=1e-2, seed=seed)
    return FlowSamples(
        name,
        flow_fingerprint(flow),
        tuple(float(t) for t in temperatures),
        tuple(errors),
        np.stack(images),
        np.stack(labels),
        flow.class_names,
        flow.grey_levels,
        curve,
        flow.record.floors,
        seed,
    )
