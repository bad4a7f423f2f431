"""What an audit trains within its budget: classifiers, out-of-fold predictions, a learning curve, a flow."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardpan.auditing.budget import plan_budget
from hardpan.auditing.evidence import USABLE, AuditNote, AuditStep, Evidence
from hardpan.auditing.flow import FlowResult, evaluate_flow, fit_small_flow, open_flow
from hardpan.bayes.floors.classifiers import CLASSIFIERS, fit_classifier
from hardpan.bayes.floors.error_estimates import Floats, Labels
from hardpan.bayes.floors.inputs import FloorInputs
from hardpan.execution import Progress
from hardpan.execution.mapping import between

FOLDS = 3
TREE_SHARE = 0.25  # of the time of a fold, for extra trees beside the network
SIZES = (8, 4, 2)  # the learning curve has n/8, n/4, n/2 and n
OPTIONAL = ("out-of-fold", "learning curve", "flow")  # steps that are left out when earlier ones took far too long


def train(
    evidence: Evidence, work: Path, tell: Progress, on_plan: Callable[[tuple[AuditStep, ...]], None] | None
) -> FlowResult | None:
    """Plan and train; the evidence gets models, out-of-fold predictions and the learning curve.

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
            from hardpan.auditing.text_models import train_text_models

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
    """The classifier that is fitted again and again: of a table the one with the lowest validation error."""
    if evidence.is_images or not evidence.fitted:
        return (
            "extra trees"
            if evidence.is_images
            else "linear model"
            if evidence.dataset.is_texts
            else "boosted trees"
        )
    return min(evidence.fitted, key=lambda item: item.validation_error).name


def _fold_probs(
    evidence: Evidence, inputs: FloorInputs, train: Labels, validation: Labels, rows: Labels, seconds: float
) -> Floats:
    """Predictions of ``rows`` by the audit's quick model, trained on ``train`` and tuned on ``validation``."""
    seed = evidence.config.seed
    if evidence.is_images and evidence.has_torch:
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
        rows = np.concatenate([part[fold[part] == number] for part in (train, validation)])
        if len(rows) and len(np.unique(labels[fitted])) > 1:
            probs[rows] = _mean_probs(evidence, inputs, fitted, tuned, rows, left)
    evidence.out_of_fold = probs


def _mean_probs(
    evidence: Evidence, inputs: FloorInputs, train: Labels, validation: Labels, rows: Labels, seconds: float
) -> Floats:
    """Predictions of ``rows`` by the quick model; of images the mean with extra trees, of those that are good.

    A network that had too little time is left out: it differs from every label, or from none.
    """
    if not evidence.is_images or not evidence.has_torch:
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
        if size == len(train) and evidence.dataset.is_texts and _quick_model(evidence) in known:
            correct[size] = known[_quick_model(evidence)].argmax(axis=1) == truth  # was fitted to all rows before
            continue
        validation = inputs.split.validation
        correct[size] = _fold_probs(evidence, inputs, rows, validation, test, left).argmax(axis=1) == truth
    evidence.correct_by_size = correct
    network = evidence.is_images and evidence.has_torch
    evidence.curve_model = "one convolutional network" if network else _quick_model(evidence)
