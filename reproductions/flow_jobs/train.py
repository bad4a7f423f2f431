"""``train``: fit within a time, and say all that a row of the paper's Table 1 needs and its verdict rests on."""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from reproductions.flow_jobs.bundles import bundle
from reproductions.flow_jobs.packing import read
from reproductions.flow_jobs.shared import note
from reproductions.flow_jobs.timed_fit import config_for, fit_in_time, tameness

from hardpan import flows
from hardpan.data.dataset import Dataset

TEMPERATURES = (0.2, 1.0, 1.4, 3.0)
CLASS_WEIGHTS = (0.01, 0.1, 1.0, 10.0)


def train(given: argparse.Namespace) -> None:
    """Write NAME.json, NAME-samples.npz, and the flow in float16 as NAME.tar.0, ...; ``join`` makes files of it."""
    dataset = read(given.data)
    name = given.name or dataset.name
    chosen = json.loads(given.bounds.read_text())["chosen"] if given.bounds else {}
    if given.couplings:
        limits = map(float, given.couplings.split(","))
        chosen = dict(zip(("least_scale", "most_scale", "reach"), limits, strict=True))
    config = config_for(
        dataset, tiny=given.tiny, compact=given.compact, batch_size=given.batch, precision=given.precision,
        class_weight=given.class_weight, learning_rate=given.rate or None, dropout=given.dropout,
        dequantization=given.dequantization, class_loss=given.class_loss, **chosen,
    )  # fmt: skip
    tried = sweep(dataset, config, given.sweep, given.tiny) if given.sweep else []
    if tried:
        config = dataclasses.replace(config, class_weight=tried[0]["class_weight"])
    begun = time.monotonic()
    flow, speed = fit_in_time(dataset, config, 60 * given.minutes, name, given.flips, given.all)
    summary = {"name": name, "seconds": time.monotonic() - begun, "images_per_second": speed}
    summary |= described(flow, dataset) | {"sweep": tried}
    print("train", json.dumps(summary), flush=True)
    flow.to("cpu").save(given.out / name, precision="float16")
    record = summary | {"floors": list(flow.record.floors)}
    note(given.out / name, "record", record)
    note(given.out, name, record)  # small, and not in the bundle
    np.savez_compressed(given.out / f"{name}-samples.npz", **pictures(flow))
    bundle(given.out, name)


def sweep(dataset: Dataset, config: flows.FlowConfig, epochs: int, tiny: bool) -> list[dict[str, float]]:
    """Validation NLL of each λ at the small preset, the best first."""
    rows = []
    for weight in CLASS_WEIGHTS:
        small = flows.FlowConfig(
            preset="tiny" if tiny else "small", class_weight=weight, epochs=epochs, pad_to=config.pad_to,
            batch_size=config.batch_size, precision=config.precision, grey_levels=config.grey_levels,
            least_scale=config.least_scale, most_scale=config.most_scale, reach=config.reach,
        )  # fmt: skip
        fitted = flows.fit(dataset, small).record.fitted
        rows.append({"class_weight": weight, "validation_nll": fitted["validation_nll"]})
        print("sweep", json.dumps(rows[-1]), flush=True)
    return sorted(rows, key=lambda row: row["validation_nll"])


def described(flow: flows.Flow, dataset: Dataset) -> dict[str, Any]:
    """Likelihood, Bayes error by temperature, the flow as a classifier, and how tame it is."""
    parts = dataset.splits()
    assert dataset.labels is not None
    x, labels = dataset.x[parts.test], dataset.labels[parts.test]
    posterior = flow.posterior(x)
    if flow.record.fitted["validation_rows"] == len(parts.validation):
        rows = parts.validation
        heat = calibration(flow.posterior(dataset.x[rows]), dataset.labels[rows])
        softer = softened(posterior, heat)
    else:  # every other image was trained on: each half of the test set gets the temperature of the other half
        halves = np.arange(len(x)) % 2 == 0, np.arange(len(x)) % 2 == 1
        heats = [calibration(posterior[half], labels[half]) for half in halves]
        heat, softer = float(np.mean(heats)), posterior.copy()
        for half, other in zip(halves, heats[::-1], strict=True):
            softer[half] = softened(posterior[half], other)
    nll = flow.nll(x, labels)
    curve = flow.bayes_curve(list(TEMPERATURES))
    return {
        "bounds": {name: getattr(flow.config, name) for name in ("least_scale", "most_scale", "reach")},
        "class_weight": flow.config.class_weight,
        "fitted": {key: value for key, value in flow.record.fitted.items() if key != "sweep"},
        "test_nll": nll.value,
        "test_nll_stderr": nll.stderr,
        "bits_per_dim": flow.bits_per_dimension(nll.value),
        "bayes_error": {str(t): e.value for t, e in zip(curve.temperatures, curve.estimates, strict=True)},
        "test_nll_16_draws": flow.nll(x, labels, draws=16).value,
        "own_test_error": float((posterior.argmax(1) != labels).mean()),
        "plug_in": float((1 - posterior.max(1)).mean()),
        "calibration_temperature": heat,
        "plug_in_calibrated": float((1 - softer.max(1)).mean()),
    } | tameness(flow, dataset)


def softened(posterior: NDArray[Any], heat: float) -> NDArray[Any]:
    """Probabilities (n, C) at another softmax temperature."""
    logs = np.log(np.maximum(posterior, 1e-300)) / heat
    logs -= logs.max(1, keepdims=True)
    return np.asarray(np.exp(logs) / np.exp(logs).sum(1, keepdims=True))


def calibration(posterior: NDArray[Any], labels: NDArray[np.int64]) -> float:
    """The softmax temperature with the best log-likelihood on held-out labels, by a fine grid."""
    grid = np.geomspace(0.25, 20.0, 200)
    own = np.arange(len(labels))
    return float(min(grid, key=lambda t: -np.log(np.maximum(softened(posterior, t)[own, labels], 1e-300)).mean()))


def pictures(flow: flows.Flow) -> dict[str, Any]:
    """Samples as in the paper's Figure 2, a row of eight a class, by temperature."""
    found = {}
    for temperature in TEMPERATURES:
        x, y = flow.sample(400, temperature=temperature)
        rows = np.concatenate([np.flatnonzero(y == k)[:8] for k in range(len(flow.class_names))])
        found[f"t{temperature:g}"] = np.clip(np.floor(x[rows]), 0, 255).astype(np.uint8)
        found[f"y{temperature:g}"] = y[rows]
    return found
