"""The flow of an audit: the one that the settings name, a bundled one, or a small one that is fitted here."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np

from hardpan.auditing.evidence import AuditNote, Evidence, FlowView
from hardpan.bayes.floors.flow import FlowEvidence, flow_evidence, flow_fits_dataset
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress

FlowResult = tuple[FlowEvidence, FlowView]

BUNDLED_SHARE = 0.05  # of the budget that evaluating a bundled flow may take
FLOW_PASSES = 6  # over its rows: validation, test, likelihood, and room for the samples on the page
FEWEST_FLOW_ROWS = 100
FLOW_EPOCHS = 36


def fit_small_flow(evidence: Evidence, seconds: float, folder: Path, progress: Progress) -> FlowResult | None:
    """Fit a small flow within about ``seconds``, or read it from its folder; None where none can be fitted."""
    from hardpan import flows

    config = evidence.config
    try:
        if not (folder / "flow.json").is_file():
            settings = flows.FlowConfig(preset="tiny", epochs=1, seed=config.seed, device=config.device)
            epochs, rows = config.flow_epochs, len(evidence.modelled.train)
            if not epochs:  # about fill the time, from that of one epoch on 256 rows
                trial, n, start = min(256, rows), rows, time.monotonic()
                flows.fit(_flow_dataset(evidence, trial), settings)
                per_row = max(1e-5, (time.monotonic() - start) / trial / 2)  # half of a first epoch is start-up
                rows = int(np.clip(0.8 * seconds / (per_row * FLOW_EPOCHS), min(n, 500), n))
                epochs = int(np.clip(0.8 * seconds / (per_row * rows), 3, FLOW_EPOCHS))
            settings = dataclasses.replace(settings, epochs=epochs)
            flows.fit(_flow_dataset(evidence, rows), settings, out=folder, progress=progress)
        return evaluate_flow(evidence, flows.load(folder), "small flow", progress=progress)
    except InputError as error:
        evidence.notes.append(AuditNote("no-flow", {"reason": str(error)}))
        return None


def _flow_dataset(evidence: Evidence, rows: int) -> Dataset:
    """The dataset with at most this many training rows, every class kept."""
    split = evidence.modelled
    names = np.full(len(evidence.dataset), "validation")
    names[split.train], names[split.test] = "train", "test"
    mixed = np.random.default_rng([evidence.config.seed, 7]).permutation(split.train)
    first = np.unique(evidence.labels[mixed], return_index=True)[1]
    rest = np.setdiff1d(np.arange(len(mixed)), first)
    train = mixed[np.concatenate([first, rest[: max(0, rows - len(first))]])]
    subset = np.sort(np.concatenate([train, split.validation[: max(rows, 2000)], split.test]))
    return dataclasses.replace(evidence.dataset.select(subset), split=names[subset], labels=evidence.labels[subset])


def open_flow(evidence: Evidence) -> tuple[Any, str, int | None] | None:
    """The flow that the settings name, or a bundled flow of this dataset: flow, source, rows to evaluate."""
    config, dataset = evidence.config, evidence.dataset
    if config.flow in ("none", "auto") or evidence.inputs is None or not len(evidence.inputs.test):
        return None
    if config.flow == "bundled" and not (evidence.has_torch and evidence.is_images):
        return None
    from hardpan import flows
    from hardpan.engine.devices import torch_threads_for_load

    if config.flow != "bundled":
        return flows.load(config.flow), config.flow, None
    if dataset.name not in flows.bundled_flow_names():
        return None
    flow = flows.load(dataset.name)
    if not flow_fits_dataset(flow, dataset):
        return None
    some = evidence.split.test[:32]
    with torch_threads_for_load():
        flow.posterior(dataset.x[some[:4]])
        start = time.monotonic()
        flow.posterior(dataset.x[some])
        per_row = (time.monotonic() - start) / len(some)
    most = int(BUNDLED_SHARE * config.budget / max(per_row, 1e-6) / FLOW_PASSES)
    if len(dataset) <= most:
        return flow, dataset.name, None
    if most < FEWEST_FLOW_ROWS:
        evidence.notes.append(AuditNote("skipped", {"step": "bundled flow", "why": "no-time"}))
        return None
    return flow, dataset.name, most


def evaluate_flow(
    evidence: Evidence, flow: Any, name: str, source: str = "", rows: int | None = None, *, progress: Progress
) -> FlowResult:
    """Evidence of a flow for the floor, its Bayes error against temperature, and its likelihood.

    Args:
        evidence: the data.
        flow: a fitted one.
        name: what to call it.
        source: its folder, or the name of a bundled one.
        rows: how many rows it is evaluated on; all if None.
        progress: called with a step and the fraction done.
    """
    from hardpan import flows
    from hardpan.engine.devices import torch_threads_for_load

    config, dataset, labels = evidence.config, evidence.dataset, evidence.labels
    test = evidence.modelled.test[:rows]
    with torch_threads_for_load():
        found = flow_evidence(
            flow,
            dataset,
            labels,
            evidence.modelled,
            name=name,
            most_rows=rows,
            seed=config.seed,
            progress=progress,
        )
        curve = flow.bayes_curve(config.temperatures, rtol=1e-2, seed=config.seed)
        nll = flow.nll(dataset.x[test], labels[test], seed=config.seed)
        factor = flow.bits_per_dimension(1.0)
    ends = (nll.value * factor, nll.stderr * factor, nll.low * factor, nll.high * factor)
    bits = Estimate(*ends, method="bits per dimension", n=nll.n)
    sha256 = flows.weights_hash(source) if source else ""
    return found, FlowView(tuple(curve.temperatures), tuple(curve.estimates), bits, sha256)
