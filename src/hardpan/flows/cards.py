"""Model cards: a fitted flow in half precision, what it was fitted to, how good it is, and samples to look at."""

from __future__ import annotations

import io
import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import bayes, files
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.flows.flow import WEIGHTS, Flow, FlowRecord, load, weights_hash

PICTURE = "samples.png"
TEMPERATURES = (0.5, 0.8, 1.0)
PER_TEMPERATURE = 10


@dataclass(frozen=True, slots=True, eq=False)
class FlowCard:
    """What a model card says.

    Attributes:
        record: settings and fit.
        size: bytes of the weights.
        sha256: of the weights.
        nll: mean of −log π_y p_y(x) over the test rows, nats per example.
        bits: bits per dimension of the density, padding included.
        original_bits: the same nats over the numbers of one original example, as the literature divides.
        bayes_error: of the flow.
        own_error: of its own decisions on the test rows.
        status: what the data says of ``bayes_error`` as the lowest error of the data, as in
            :class:`hardpan.bayes.floors.verdict.Entry`.
        linear_error: the error of a linear model on the same rows.
        separated: accuracy of a classifier that separates samples from test rows, where it was computed.
        temperatures: of the rows of ``samples.png``; none for feature vectors.
    """

    record: FlowRecord
    size: int
    sha256: str
    nll: Estimate
    bits: float
    original_bits: float
    bayes_error: Estimate
    own_error: float
    status: str
    linear_error: Estimate
    separated: Estimate | None
    temperatures: tuple[float, ...]


def save_rounded(flow: Flow, dataset: Dataset, folder: str | os.PathLike[str]) -> FlowCard:
    """Save a flow in half precision, and compute what its card says: what a library of flows keeps of it.

    The folder gets ``flow.json`` and ``weights.safetensors``, which :func:`hardpan.flows.load` reads, and for
    images ``samples.png``. All numbers are those of the rounded weights, on the test rows of the dataset.

    Args:
        flow: a fitted flow.
        dataset: what it was fitted to.
        folder: is made if it does not exist.
    """
    path = flow.save(folder, precision="float16")
    rounded = load(path).to(flow.network.base.log_priors.device)
    seed = rounded.config.seed
    labels, test = dataset.require_labels(), dataset.splits(seed=seed).test
    if not len(test):
        raise InputError(f"dataset {dataset.name!r} has no test rows; a card needs some")
    nll = rounded.nll(dataset.x[test], labels[test], seed=seed)
    floor = bayes.floor(dataset, flow=rounded, estimators=(), classifiers=("linear model",), seed=seed)
    entry = next(item for item in floor.entries if item.assumption == "flow" and item.role == "estimate")
    if entry.check is None:
        raise InputError(f"dataset {dataset.name!r} has too few test rows to test a flow")
    card = FlowCard(
        rounded.record,
        (path / WEIGHTS).stat().st_size,
        weights_hash(path),
        nll,
        rounded.bits_per_dimension(nll.value),
        nll.value / (math.log(2) * math.prod(rounded.input_shape)),
        entry.estimate,
        entry.check.observed,
        entry.status,
        next(item.estimate for item in floor.entries if item.name == "linear model"),
        floor.differences[0].accuracy if floor.differences else None,
        TEMPERATURES if rounded.grey_levels is not None else (),
    )
    if card.temperatures:
        files.write_bytes(path / PICTURE, _picture(rounded))
    return card


def _picture(flow: Flow) -> bytes:
    """One row of samples per temperature, as PNG, small images enlarged."""
    from PIL import Image

    white = max(1, (flow.grey_levels or 256) - 1)
    edges = [(1, 1), (1, 1), (0, 0)][: len(flow.sample_shape)]
    rows = []
    for temperature in TEMPERATURES:
        x, _ = flow.sample(PER_TEMPERATURE, temperature=temperature, seed=flow.config.seed)
        images = np.clip(x * (255 / white), 0, 255).astype(np.uint8)
        rows.append(np.concatenate([np.pad(image, edges, constant_values=96) for image in images], axis=1))
    pixels: NDArray[Any] = np.concatenate(rows)
    factor = max(1, 64 // flow.sample_shape[0])
    enlarged = pixels.repeat(factor, axis=0).repeat(factor, axis=1)
    content = io.BytesIO()
    Image.fromarray(enlarged).save(content, "PNG", optimize=True)
    return content.getvalue()
