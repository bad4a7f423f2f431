"""A fit that ends with the clock: what ``bounds`` and ``train`` do with a device that is lent for a time."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

import numpy as np
import torch
from reproductions.flow_jobs.shared import COMPACT, device

from hardpan import engine, flows
from hardpan.data.dataset import Dataset, Split
from hardpan.flows import fitting
from hardpan.predictions.checks import row_ids

SANE = 1000.0  # grey levels: a sample beyond has run away
WARM_STEPS = 200


def config_for(dataset: Dataset, *, tiny: bool, compact: bool, **changes: Any) -> flows.FlowConfig:
    """The paper's flow, or a compact one, for images of 256 grey levels where they are such."""
    changes |= {"grey_levels": 256 if dataset.x.max() > 127 else None}
    changes |= COMPACT if compact and not tiny else {}
    return flows.FlowConfig(preset="tiny" if tiny else "paper", ema=0.998, **changes).filled()


def fit_in_time(
    dataset: Dataset,
    config: flows.FlowConfig,
    limit: float,
    name: str,
    flips: bool = False,
    everything: bool = False,
) -> tuple[flows.Flow, float]:
    """As flows.fit, but the learning rate follows the clock; gives the flow and the images per second.

    Args:
        dataset: what is fitted.
        config: how.
        limit: seconds.
        name: what lines of progress begin with.
        flips: train on mirrored images, too.
        everything: train on the validation images, too; the weights at the end are kept.
    """
    parts = dataset.splits()
    if everything:
        train = np.sort(np.concatenate([parts.train, parts.validation]))
        parts = dataclasses.replace(parts, train=train, validation=np.zeros(0, dtype=np.int64))
    if flips:
        dataset, parts = mirrored(dataset, parts)
    task = fitting.prepare_fit(dataset, parts, config, device())
    history, begun, rows_done, highest = engine.History(), time.monotonic(), 0, config.learning_rate or 1e-3

    def done() -> float:
        return (time.monotonic() - begun) / limit

    while done() < 1:
        epoch = len(history.epochs)
        task.begin_epoch(epoch)
        for index in range(task.steps):
            if index % 8 == 0:
                if device().type == "cuda":
                    torch.cuda.current_stream().synchronize()  # else the clock would be that of launches
                if (share := done()) >= 1:
                    break
                risen = min(1.0, (1 + rows_done / task.examples_per_step) / WARM_STEPS)
                task.optimizer.table.fill_(highest * risen * (0.01 + 0.99 * (1 + math.cos(math.pi * share)) / 2))
            task.step(index)
            rows_done += task.examples_per_step
        values = task.means() | task.end_epoch(epoch)
        if not all(math.isfinite(value) for value in values.values()):
            raise SystemExit(f"{name}: {values}")
        history.epochs.append(values)
        best = history.epochs[history.best_epoch]["validation_nll"] if history.best_epoch >= 0 else math.inf
        if everything or values["validation_nll"] <= best:
            history.best_epoch = epoch
            history.best_weights = {name: item.clone() for name, item in task.weights().items()}
        if epoch % 5 == 0 or done() >= 1:
            shown = ("nll", "validation_nll", "validation_error", "bayes_error")
            told = {key: round(values[key], 4) for key in shown}
            print(f"{name}: epoch {epoch + 1}, {time.monotonic() - begun:.0f} s, {told}", flush=True)
    history.stopped = "time"
    seconds = time.monotonic() - begun
    return fitting.fitted_flow(dataset, parts, task, history, seconds), rows_done / seconds


def mirrored(dataset: Dataset, parts: Split) -> tuple[Dataset, Split]:
    """The training rows a second time, left and right exchanged."""
    assert dataset.labels is not None
    x = np.concatenate([dataset.x, dataset.x[parts.train][:, :, ::-1]])
    labels = np.concatenate([dataset.labels, dataset.labels[parts.train]])
    train = np.concatenate([parts.train, np.arange(len(dataset), len(x))])
    more = Dataset(dataset.name, x, row_ids(len(x)), labels, dataset.class_names)
    return more, dataclasses.replace(parts, train=train)


def tameness(flow: flows.Flow, dataset: Dataset) -> dict[str, Any]:
    """Validation NLL with several noises, and how far samples go at several temperatures."""
    rows = dataset.splits().validation
    assert dataset.labels is not None
    nll = [flow.nll(dataset.x[rows], dataset.labels[rows], seed=seed).value for seed in range(4)]
    found: dict[str, Any] = {}
    for temperature in (0.2, 0.5, 1.0, 1.4, 2.0, 3.0):
        x, _ = flow.sample(2000, temperature=temperature)
        far = np.abs(x).reshape(len(x), -1).max(1)
        found[f"{temperature:g}"] = {
            "largest_median": float(np.median(far)),
            "largest_of_all": float(far.max()),
            "runaways": float((far > SANE).mean()),
        }
    return {"validation_nll_by_noise": nll, "samples": found}
