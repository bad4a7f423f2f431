"""What an audit trains within its budget: classifiers, out-of-fold predictions, a learning curve, a flow.

The flow is the one that the settings name, a bundled one, or a small one that is fitted here.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from hardpan.auditing.evidence import USABLE, AuditNote, AuditStep, Evidence, FlowView
from hardpan.bayes.floors.classifiers import CLASSIFIERS, fit_classifier, fit_text_model
from hardpan.bayes.floors.error_estimates import Floats, Labels
from hardpan.bayes.floors.flow import FlowEvidence, flow_evidence, flow_fits_dataset, flow_inputs
from hardpan.bayes.floors.inputs import FloorInputs
from hardpan.bayes.floors.model_predictions import model_of
from hardpan.data.dataset import Dataset
from hardpan.encoders import DESCRIPTORS
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.execution.mapping import between, machine_is_busy
from hardpan.predictions import Predictions

VIEWS = ("words", "characters", "naive Bayes")  # of texts
OVERRUN = 0.1  # so much over the budget, optional steps are left out
AFTERWARDS = 0.25  # of the budget, for what follows the training: the floor, copies, a bundled flow, the page
# Weights of the steps in the budget; what a step leaves is shared by the later ones.
IMAGE_WEIGHTS = {"linear model": 0.5, "networks": 7.0, "out-of-fold": 1.5, "learning curve": 1.0}
TEXT_WEIGHTS = {"linear model": 2.0, "text models": 2.0, "out-of-fold": 3.0, "learning curve": 1.5}
TABLE_WEIGHTS = {
    "linear model": 0.5,
    "boosted trees": 2.5,
    "networks": 3.0,
    "out-of-fold": 2.0,
    "learning curve": 1.5,
}
VECTOR_WEIGHTS = {"linear model": 1.0, "networks": 3.0, "out-of-fold": 2.0, "learning curve": 1.5}


class Budget:
    """Wall-clock seconds shared by steps: each gets its weight's part of what is left when it begins."""

    def __init__(self, seconds: float, weights: Mapping[str, float]) -> None:
        self._end = time.monotonic() + seconds
        self._latest = self._end + OVERRUN * seconds
        self._weights = dict(weights)
        self.planned = {name: seconds * weight / sum(weights.values()) for name, weight in weights.items()}

    def allot(self, name: str) -> float:
        """Seconds for a step that begins now."""
        total = sum(self._weights.values())
        weight = self._weights.pop(name)
        return max(1.0, (self._end - time.monotonic()) * weight / total)

    def is_overrun(self) -> bool:
        """Whether the steps so far took far longer than the budget: optional work is then left out."""
        return time.monotonic() > self._latest


def plan_budget(evidence: Evidence) -> tuple[Budget, tuple[AuditStep, ...]]:
    """What will be trained, and how many seconds each step may take."""
    config, images = evidence.config, evidence.on_pixels
    weights = dict(IMAGE_WEIGHTS if images else TABLE_WEIGHTS)
    ensemble = "networks"
    if evidence.dataset.vectors is not None:
        weights = dict(VECTOR_WEIGHTS)
    elif evidence.dataset.is_texts:
        weights, ensemble = dict(TEXT_WEIGHTS), "text models"
        if evidence.dataset.x.shape[1]:  # columns beside the texts
            weights["boosted trees"] = TABLE_WEIGHTS["boosted trees"]
    skipped = {}
    usable = evidence.inputs is not None and len(evidence.inputs.test) > 0
    if config.ensemble == "none" or not usable:
        skipped = dict.fromkeys(weights, "not-requested" if usable else "no-test")
        weights = {}
    elif config.predictions or evidence.models:
        skipped[ensemble] = "predictions"
        weights.pop(ensemble)
    elif not evidence.has_torch and "networks" in weights:
        skipped["networks"] = "no-torch"
        weights.pop("networks")
        if images:
            weights["extra trees"] = 3.0
    if config.flow == "auto":
        evidence.dataset.require_vectors("a flow")
        if evidence.has_torch and usable:
            weights["flow"] = max(2.0, 0.5 * sum(weights.values()))
        else:
            skipped["flow"] = "no-torch" if usable else "no-test"
    budget = Budget((1 - AFTERWARDS) * config.budget, weights)
    steps = [AuditStep(name, seconds) for name, seconds in budget.planned.items()]
    return budget, (*steps, *(AuditStep(name, 0.0, skipped=why) for name, why in skipped.items()))


FOLDS = 3
TREE_SHARE = 0.25  # of the time of a fold, for extra trees beside the network
SIZES = (8, 4, 2)  # the learning curve has n/8, n/4, n/2 and n
OPTIONAL = (
    "networks",
    "out-of-fold",
    "learning curve",
    "flow",
)  # steps that are left out when earlier ones took far too long


def train(
    evidence: Evidence,
    work: Path,
    tell: Progress,
    on_plan: Callable[[tuple[AuditStep, ...]], None] | None,
    on_step: Callable[[], None],
) -> FlowResult | None:
    """Plan and train; the evidence gets models, out-of-fold predictions and the learning curve.

    ``on_step`` is called before the first step and after each of them.

    Returns:
        What the flow says that the settings name, that is bundled or that was fitted; None where there is none.
    """
    config, inputs = evidence.config, evidence.inputs
    budget, steps = plan_budget(evidence)
    if on_plan is not None:
        on_plan(steps)
    evidence.steps = [step for step in steps if step.skipped]
    evidence.notes += [
        AuditNote("skipped", {"step": step.name, "why": step.skipped})
        for step in evidence.steps
        if step.skipped == "no-torch"
    ]
    progress, fitted = between(tell, 0.02, 0.7), None
    # A flow that cannot be read is refused before anything is trained.
    opened = None if config.flow == "bundled" else open_flow(evidence)
    on_step()
    for number, name in enumerate(budget.planned):
        assert inputs is not None
        if name in OPTIONAL and budget.is_overrun():
            evidence.steps.append(AuditStep(name, budget.planned[name], skipped="no-time"))
            evidence.notes.append(AuditNote("skipped", {"step": name, "why": "no-time"}))
            continue
        seconds = budget.allot(name)
        progress(f"{name} (up to {seconds:.0f} s)", number / len(budget.planned))
        start = time.monotonic()
        if name in CLASSIFIERS:
            rows = inputs.split.train, inputs.split.validation, inputs.test
            item = fit_classifier(name, inputs.table, *rows, seconds=seconds, seed=config.seed)
            evidence.fitted = (*evidence.fitted, item)
        elif name == "text models":
            train_text_models(evidence, seconds)
        elif name == "networks":
            from hardpan.auditing.networks import train_networks

            train_networks(evidence, seconds, work)
        elif name == "out-of-fold":
            _out_of_fold(evidence, inputs, seconds)
        elif name == "learning curve":
            _learning_curve(evidence, inputs, seconds)
        elif name == "flow":
            fitted = fit_small_flow(evidence, seconds, work / "flow", progress)
        evidence.steps.append(AuditStep(name, budget.planned[name], time.monotonic() - start))
        on_step()
    if config.flow == "bundled":
        opened = open_flow(evidence)
        if opened is not None and budget.is_overrun():
            evidence.notes.append(AuditNote("skipped", {"step": "bundled flow", "why": "no-time"}))
            opened = None
    if opened is None:
        return fitted
    flow, source, most = opened
    progress = between(tell, 0.7, 0.75)
    return evaluate_flow(evidence, flow, f"flow {Path(source).name}", source, most, progress=progress)


def _quick_model(evidence: Evidence) -> str:
    """The classifier that is fitted again and again: but of pixels, the one with the lowest validation error."""
    if evidence.on_pixels or not evidence.fitted:
        columns = not evidence.dataset.is_texts and evidence.dataset.vectors is None
        return "extra trees" if evidence.on_pixels else "boosted trees" if columns else "linear model"
    return min(evidence.fitted, key=lambda item: item.validation_error).name


def _fold_probs(
    evidence: Evidence, inputs: FloorInputs, train: Labels, validation: Labels, rows: Labels, seconds: float
) -> Floats:
    """Predictions of ``rows`` by the audit's quick model, trained on ``train`` and tuned on ``validation``."""
    seed = evidence.config.seed
    if evidence.on_pixels and evidence.has_torch:
        from hardpan.auditing.networks import train_network

        one = train_network(evidence, train, validation, rows, seconds, seed=seed)
        return np.asarray(one.probs[-1], dtype=np.float64)
    name = _quick_model(evidence)
    return fit_classifier(name, inputs.table, train, validation, rows, seconds=seconds, seed=seed).probs


def _out_of_fold(evidence: Evidence, inputs: FloorInputs, seconds: float) -> None:
    """Predictions of every training and validation example by a model that was not fitted or tuned on it.

    Equal inputs, or groups that the user names, are kept in one fold: a copy would reveal the label of an example.
    """
    train, validation, labels = inputs.split.train, inputs.split.validation, evidence.labels
    order = np.random.default_rng([evidence.config.seed, 51]).permutation(int(inputs.group.max()) + 1)
    fold = order[inputs.group] % FOLDS
    probs = np.zeros((len(evidence.dataset), evidence.dataset.n_classes))
    end = time.monotonic() + seconds
    for number in range(FOLDS):
        left = max(1.0, (end - time.monotonic()) / (FOLDS - number))
        fitted, tuned = (rows[fold[rows] != number] for rows in (train, validation))
        rows = np.concatenate([split_rows[fold[split_rows] == number] for split_rows in (train, validation)])
        if len(rows) and len(np.unique(labels[fitted])) > 1:
            probs[rows] = _mean_probs(evidence, inputs, fitted, tuned, rows, left)
    evidence.out_of_fold = probs


def _mean_probs(
    evidence: Evidence, inputs: FloorInputs, train: Labels, validation: Labels, rows: Labels, seconds: float
) -> Floats:
    """Predictions of ``rows`` by the quick model; of images the mean with extra trees, of those that are good.

    A network that had too little time is left out: it differs from every label, or from none.
    """
    if not evidence.on_pixels or not evidence.has_torch:
        return _fold_probs(evidence, inputs, train, validation, rows, seconds)
    n, both, seed = len(rows), np.concatenate([rows, validation]), evidence.config.seed
    trees = fit_classifier(
        "extra trees", inputs.table, train, validation, both, seconds=TREE_SHARE * seconds, seed=seed
    )
    network = _fold_probs(evidence, inputs, train, validation, both, (1 - TREE_SHARE) * seconds)
    candidates, truth = [trees.probs, network], evidence.labels[validation]
    errors = [float((p[n:].argmax(axis=1) != truth).mean()) if len(truth) else 0.0 for p in candidates]
    usable = [p[:n] for p, error in zip(candidates, errors, strict=True) if error <= USABLE * min(errors) + 1e-9]
    return np.asarray(np.mean(usable, axis=0))


def _learning_curve(evidence: Evidence, inputs: FloorInputs, seconds: float) -> None:
    """Which test examples the quick model gets right after training on n/8, n/4, n/2 and n examples."""
    train, test = inputs.split.train, inputs.test
    order = np.random.default_rng([evidence.config.seed, 61]).permutation(train)
    truth = evidence.labels[test]
    sizes = [size for divisor in SIZES if (size := len(train) // divisor) >= 2 * evidence.dataset.n_classes]
    if not len(test) or not sizes:
        return
    correct: dict[int, NDArray[np.bool_]] = {}
    end = time.monotonic() + seconds
    total = sum(sizes) + len(train)
    for size in (*sizes, len(train)):
        rows = order[:size]
        if len(np.unique(evidence.labels[rows])) < 2:
            continue
        left = max(1.0, (end - time.monotonic()) * size / total)
        total -= size
        known = {item.name: item.probs for item in evidence.fitted}
        if size == len(train) and not evidence.on_pixels and _quick_model(evidence) in known:
            correct[size] = known[_quick_model(evidence)].argmax(axis=1) == truth  # was fitted to all rows before
            continue
        validation = inputs.split.validation
        correct[size] = _fold_probs(evidence, inputs, rows, validation, test, left).argmax(axis=1) == truth
    evidence.correct_by_size = correct
    network = evidence.on_pixels and evidence.has_torch
    evidence.curve_model = "one convolutional network" if network else _quick_model(evidence)


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
    subset_of_data = evidence.dataset.select(subset)
    if subset_of_data.encoder == DESCRIPTORS:  # a flow is of the images
        subset_of_data = dataclasses.replace(subset_of_data, vectors=None)
    return dataclasses.replace(subset_of_data, split=names[subset], labels=evidence.labels[subset])


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
        flow.posterior(flow_inputs(flow, dataset)[some[:4]])
        start = time.monotonic()
        flow.posterior(flow_inputs(flow, dataset)[some])
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
        evidence_of_flow = flow_evidence(
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
        nll = flow.nll(flow_inputs(flow, dataset)[test], labels[test], seed=config.seed)
        factor = flow.bits_per_dimension(1.0)
    ends = (nll.value * factor, nll.stderr * factor, nll.low * factor, nll.high * factor)
    bits = Estimate(*ends, method="bits per dimension", n=nll.n)
    sha256 = flows.weights_hash(source) if source else ""
    return evidence_of_flow, FlowView(tuple(curve.temperatures), tuple(curve.estimates), bits, sha256)


def train_text_models(evidence: Evidence, seconds: float) -> None:
    """Fit one linear model or naive Bayes per seed of the settings, each another view of the texts; predict all.

    From the fourth on a view is fitted again, on a bootstrap sample of the training rows.
    """
    config, inputs = evidence.config, evidence.inputs
    assert inputs is not None
    split, rows = evidence.modelled, np.arange(len(evidence.dataset))
    if len(evidence.split.test) > len(split.test):  # a sample is modelled
        rows = np.sort(np.concatenate([split.train, split.validation, split.test]))
    tuned_on = split.validation if len(split.validation) else split.train
    end = time.monotonic() + seconds
    probs: list[NDArray[np.float32]] = []
    for number in range(config.seeds):
        if probs and time.monotonic() > end:
            evidence.notes.append(AuditNote("fewer-networks", {"trained": len(probs), "planned": config.seeds}))
            break
        train, seed = split.train, config.seed + number
        if number >= len(VIEWS):
            first = train[np.unique(evidence.labels[train], return_index=True)[1]]
            resampled = np.random.default_rng([seed, 41]).choice(train, len(train) - len(first))
            train = np.concatenate([first, resampled])
        left = max(1.0, (end - time.monotonic()) / (config.seeds - number))
        with warnings.catch_warnings(), threadpool_limits(limits=1 if machine_is_busy() else None):
            warnings.simplefilter("ignore")  # scikit-learn warns of few iterations
            view = VIEWS[number % len(VIEWS)]
            predict, _ = fit_text_model(inputs.table, train, tuned_on, left, seed, view)
            probs.append(predict(rows).astype(np.float32))
            evidence.text_models += (predict,)
    name = f"ensemble of {len(probs)} text models" if len(probs) > 1 else "text model of words"
    model = model_of(
        name,
        Predictions.from_arrays(np.stack(probs)[:, None], name=name, held_out=False),
        rows,
        len(evidence.dataset),
        evidence.dataset.n_classes,
        evidence.labels,
        trained_here=True,
        held_out=True,
    )
    evidence.models = (*evidence.models, model)
