"""Model cards: a fitted flow in half precision, what it was fitted to, how good it is, and samples to look at.

Run: python -m reproductions.flow_cards FLOW DATA FOLDER     FLOW is a folder of `hardpan flow fit DATA`

The bundled flows (src/hardpan/flows/zoo/NAME) are such folders.
"""

from __future__ import annotations

import dataclasses
import io
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from reproductions.discrimination import discriminate

from hardpan import bayes, files
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.flows.flow import WEIGHTS, Flow, FlowRecord, load, weights_hash
from hardpan.pages import formatting

PICTURE = "samples.png"
TEMPERATURES = (0.5, 0.8, 1.0)
PER_TEMPERATURE = 10
MOST_SAMPLES, RANDOM_FEATURES = 5000, 1000  # of the classifier that separates samples from test rows


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
            :class:`hardpan.bayes.floors.entries.Entry`.
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
    floor = bayes.floor(dataset, flow=rounded, neighbours=False, classifiers=("linear model",), seed=seed)
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
        _separation_accuracy(rounded, dataset, labels, test, seed),
        TEMPERATURES if rounded.grey_levels is not None else (),
    )
    if card.temperatures:
        files.write_bytes(path / PICTURE, _picture(rounded))
    return card


def _separation_accuracy(flow: Flow, dataset: Dataset, labels: Any, test: Any, seed: int) -> Estimate | None:
    """Accuracy of ridge regression on random ReLU features that separates samples of a flow from test rows."""
    real = dataset.x[test]
    sampled, sampled_labels = flow.sample(min(MOST_SAMPLES, len(test)), seed=seed)
    if sampled[0].size != real[0].size:
        return None
    if real.dtype.kind != "f":  # uniform noise, as a flow sees whole numbers: else it is seen that they are whole
        real = real + np.random.default_rng([seed, 7]).random(real.shape)
    one_hot, rng = np.eye(dataset.n_classes), np.random.default_rng([seed, 0])
    sets = []
    for x, y in ((real, labels[test]), (sampled, sampled_labels)):
        rows = np.concatenate([x.reshape(len(x), -1).astype(np.float64), one_hot[y]], axis=1)
        sets.append(rows[np.sort(rng.permutation(len(rows))[:MOST_SAMPLES])])
    weights = np.random.default_rng([seed, 1])

    def classifier(x: Any, which: Any, judged: Any) -> Any:
        return _random_feature_ridge(x, which, judged, weights)

    return discriminate(*sets, classifier=classifier, seed=seed).accuracy


def _random_feature_ridge(x: Any, which: Any, judged: Any, rng: np.random.Generator) -> Any:
    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale[scale <= 1e-12 * (1 + np.abs(mean))] = np.inf
    directions = rng.normal(size=(x.shape[1], RANDOM_FEATURES)) / np.sqrt(max(1, np.isfinite(scale).sum()))
    offsets = rng.normal(size=RANDOM_FEATURES)

    def lifted(rows: Any) -> Any:
        return np.asarray(np.maximum((rows - mean) / scale @ directions + offsets, 0.0))

    inside = lifted(x)
    centre = inside.mean(axis=0)
    inside -= centre
    gram = inside.T @ inside
    gram[np.diag_indices_from(gram)] += 1e-3 * np.trace(gram) / len(gram)
    slopes = np.linalg.solve(gram, inside.T @ (which - which.mean()))
    return np.asarray((lifted(judged) - centre) @ slopes + which.mean() > 0.5).astype(np.int64)


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


def write_card(flow: Flow, dataset: Dataset, folder: str | os.PathLike[str]) -> FlowCard:
    """Save a flow in half precision with its card as ``card.md``."""
    card = save_rounded(flow, dataset, folder)
    files.write_text(Path(folder) / "card.md", card_text(card))
    return card


def card_text(card: FlowCard) -> str:
    """A model card as Markdown."""
    fitted, config, name = card.record.fitted, card.record.config, card.record.fitted["dataset"]
    said = {
        "not refuted": "No test refutes that it is also that of the data, which is no proof.",
        "assumption rejected": "It is not that of the data: its own decisions err more often than it says.",
    }
    against = "It is not that of the data: a classifier on the same examples contradicts it."
    pictures: tuple[str, ...] = ()
    if card.temperatures:
        listed = ", ".join(f"{t:g}" for t in card.temperatures)
        pictures = ("", f"![Samples]({PICTURE})", "", f"{PER_TEMPERATURE} samples at each temperature: {listed}.")
    separated = (
        ()
        if card.separated is None
        else (
            (
                "separating samples from test examples",
                f"{formatting.estimate(card.separated)} right; 50 % is chance",
            ),
        )
    )
    rows = (
        (
            "test NLL, label included",
            f"{formatting.plain(card.nll, unit='nats')} per example, {card.nll.n:,} examples",
        ),
        (
            "bits per dimension",
            f"{card.bits:.3f} over the padded example, {card.original_bits:.3f} over the original",
        ),
        ("Bayes error of the flow", formatting.estimate(card.bayes_error)),
        ("error of its own decisions on test examples", formatting.percent(card.own_error)),
        ("error of a linear model on them", formatting.estimate(card.linear_error)),
        *separated,
        ("fitted to", f"{fitted['train_rows']:,} examples; {fitted['split']}"),
        ("fit", f"{fitted['epochs']} epochs, {fitted['seconds']:,.0f} s on {fitted['device']}"),
        ("weights", f"{card.size:,} bytes, float16, sha256 {card.sha256}"),
    )
    settings = ", ".join(
        f"{f.name} {value}"
        for f in dataclasses.fields(config)
        if (value := getattr(config, f.name)) != f.default and value is not None
    )
    return "\n".join((
        f"# Flow of {name}", "",
        f"A class-conditional normalizing flow of {len(card.record.class_names)} classes. Read it with "
        "`hardpan.flows.load(FOLDER)`; `python -m reproductions.flow_cards` writes such a folder.", "",
        "| | |", "| --- | --- |", *(f"| {label} | {text} |" for label, text in rows), "",
        f"The Bayes error above is exact for examples drawn from the flow. {said.get(card.status, against)}",
        *pictures, "", f"Settings that differ from the defaults: {settings}.", "",
    ))  # fmt: skip


if __name__ == "__main__":
    fitted_folder, data, card_folder = sys.argv[1:]
    write_card(load(fitted_folder), Dataset.open(data), card_folder)
