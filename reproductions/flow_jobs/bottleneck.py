"""``bottleneck``: NLL, error of its own decisions and Bayes error of flows against the classification weight.

Two losses (:class:`hardpan.flows.FlowConfig`, ``class_loss``) at several weights λ. Each flow is then examined in
the K − 1 directions in which its classes differ: the spread of held-out images there, in units of the flow's own,
and the flow's Bayes error, decisions and likelihood if the variance in these directions were larger by a factor.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray
from reproductions.flow_jobs.packing import read
from reproductions.flow_jobs.shared import note
from reproductions.flow_jobs.timed_fit import config_for, fit_in_time
from reproductions.flow_jobs.train import calibration, softened

from hardpan import bayes, flows
from hardpan.data.dataset import Dataset

WEIGHTS = (0.0, 0.01, 0.1, 1.0, 10.0)
FACTORS = tuple(round(float(factor), 3) for factor in np.geomspace(0.7, 4.0, 25))


def bottleneck(options: argparse.Namespace) -> None:
    """Write bottleneck.json: one row per loss and λ."""
    dataset = read(options.data)
    rows: list[dict[str, Any]] = []
    for loss in ("head", "posterior"):
        for weight in WEIGHTS[1 if loss == "posterior" else 0 :]:  # without weight the loss makes no difference
            config = config_for(
                dataset, tiny=options.tiny, compact=True, batch_size=64 if options.tiny else 512, precision="bf16",
                class_loss=loss, class_weight=weight, learning_rate=None if options.tiny else 2e-3,
            )  # fmt: skip
            flow, _ = fit_in_time(dataset, config, 60 * options.minutes, f"{loss}, λ = {weight:g}")
            rows.append({"class_loss": loss, "class_weight": weight} | examined(flow, dataset))
            print("bottleneck", json.dumps(rows[-1]), flush=True)
            note(
                options.out,
                "bottleneck",
                {"rows": rows, "data": dataset.name, "seconds_each": 60 * options.minutes},
            )


def examined(flow: flows.Flow, dataset: Dataset) -> dict[str, Any]:
    """The flow's numbers, and what they become with another variance in the directions between classes."""
    split = dataset.splits()
    assert dataset.labels is not None
    validation, test = (coordinates(flow, dataset.x[rows]) for rows in (split.validation, split.test))
    validation_labels, labels = dataset.labels[split.validation], dataset.labels[split.test]
    means, log_priors = class_coordinates(flow), np.log(flow.priors)

    def posterior(points: NDArray[np.float64], factor: float) -> NDArray[np.float64]:
        squares = ((points[:, None] - means) ** 2).sum(2)
        logs = log_priors - squares / (2 * factor)
        logs -= logs.max(1, keepdims=True)
        return np.asarray(np.exp(logs) / np.exp(logs).sum(1, keepdims=True))

    residuals = validation - means[validation_labels]
    sweep = []
    for factor in FACTORS:
        on_validation, on_test = posterior(validation, factor), posterior(test, factor)
        squares = ((test - means[labels]) ** 2).sum(1)
        sweep.append({
            "factor": factor,
            "bayes_error": bayes.gaussian(means, factor * np.eye(means.shape[1]), flow.priors).value,
            "own_error": float((on_test.argmax(1) != labels).mean()),
            "validation_error": float((on_validation.argmax(1) != validation_labels).mean()),
            "plug_in": float((1 - on_test.max(1)).mean()),
            "validation_cross_entropy": cross_entropy(on_validation, validation_labels),
            "nll_change": float((squares * (1 / factor - 1) / 2).mean() + means.shape[1] / 2 * np.log(factor)),
        })  # fmt: skip
    plain = posterior(test, 1.0)
    heat = calibration(posterior(validation, 1.0), validation_labels)
    nll = flow.nll(dataset.x[split.test], dataset.labels[split.test])
    return {
        "test_nll": nll.value,
        "test_nll_stderr": nll.stderr,
        "train_nll": flow.record.fitted["train_nll"],
        "bayes_error": flow.bayes_error().value,
        "own_error": float((plain.argmax(1) != labels).mean()),
        "test_rows": len(labels),
        "plug_in": float((1 - plain.max(1)).mean()),
        "plug_in_calibrated": float((1 - softened(plain, heat).max(1)).mean()),
        "calibration_temperature": heat,
        "held_out_variances": np.linalg.eigvalsh(residuals.T @ residuals / len(residuals)).round(4).tolist(),
        "sweep": sweep,
    }


def coordinates(flow: flows.Flow, x: NDArray[Any]) -> NDArray[np.float64]:
    """(N, K − 1): examples in the whitened directions in which the classes differ."""
    tops = [flow.network.top(ready).double().cpu().numpy() for ready, _ in flow._blocks(x, 0)]
    return np.asarray(np.concatenate(tops) / np.sqrt(flow.variances) @ directions(flow))


def class_coordinates(flow: flows.Flow) -> NDArray[np.float64]:
    """(K, K − 1): class means in the same directions."""
    return np.asarray(flow.means / np.sqrt(flow.variances) @ directions(flow))


def directions(flow: flows.Flow) -> NDArray[np.float64]:
    """(d_top, K − 1), orthonormal."""
    whitened = flow.means / np.sqrt(flow.variances)
    return np.linalg.svd(whitened - whitened.mean(0), full_matrices=False)[2][: flow.n_classes - 1].T


def cross_entropy(probs: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    return float(-np.log(np.maximum(probs[np.arange(len(labels)), labels], 1e-300)).mean())
