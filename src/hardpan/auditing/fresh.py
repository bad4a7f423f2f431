"""Will the score hold: the same models on the original and on a fresh test set, where there is one."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from hardpan import files, numbers, stats, testbed
from hardpan.auditing import training
from hardpan.auditing.evidence import Evidence, Part
from hardpan.bayes.floors.models import Model
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.report.sections import Section, Table
from hardpan.testbed import report as testbed_report

METHOD = (
    "The networks of the ensemble are evaluated on the fresh set without change. The drop is accuracy on the "
    "original test set minus accuracy on the fresh one, mean over the networks; its interval combines the "
    "Clopper–Pearson intervals of the two mean accuracies (Zou and Donner's MOVER), so it contains the sampling "
    "of both test sets.",
)
_NO_MODEL = (
    "new_test: {} needs models that can be run on it; let the audit train its ensemble (no --predictions), or "
    "evaluate your models on both sets and pass --testbed counts.csv"
)


def find(evidence: Evidence) -> Part:
    """Compare the models of ``config.testbed``, or evaluate the ensemble on ``config.new_test``."""
    return _table(evidence) if evidence.config.testbed else _new_test(evidence)


def check(evidence: Evidence) -> None:
    """Refuse files that cannot be read or do not fit, and a fresh set that no model can be run on."""
    config = evidence.config
    if config.testbed:
        testbed.two_sets(*config.testbed, new_set=config.testbed_new or None)
        return
    _labels(Dataset.open(config.new_test), evidence)
    if config.predictions or config.ensemble == "none":
        raise InputError(_NO_MODEL.format(config.new_test))


def _table(evidence: Evidence) -> Part:
    config = evidence.config
    table = testbed.two_sets(*config.testbed, new_set=config.testbed_new or None)
    report = testbed.compare(table, seed=config.seed, confidence=config.confidence)
    made = testbed_report.provenance(report)
    section = testbed_report.section(report)
    section = dataclasses.replace(
        section, warnings=(*_other_set(report, evidence), *section.warnings), key="fresh", short="Fresh data"
    )
    return Part(section, {"drop": report.mean_gap}, made.method, made.citations, made.hashes)


def _other_set(report: testbed.Comparison, evidence: Evidence) -> tuple[str, ...]:
    """A warning where the table's original set cannot be the test set of this audit."""
    sizes, here = sorted({row.original.n for row in report.rows}), len(evidence.split.test)
    if here in sizes:
        return ()
    size = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    return (
        f"The table has models on an original set of {size} examples, and the test set of this audit has {here:,}: "
        "this section is about that set, not about this test set.",
    )


def _new_test(evidence: Evidence) -> Part:
    fresh = Dataset.open(evidence.config.new_test)
    labels = _labels(fresh, evidence)
    model = next((item for item in evidence.models if item.weights), None)
    if model is None:
        raise InputError(_NO_MODEL.format(evidence.config.new_test))
    truth = evidence.labels[evidence.split.test]
    before = [float((answers == truth).mean()) for answers in _original(model, evidence)]
    after = [
        float((training.predictor(evidence, number)(fresh.x).argmax(axis=1) == labels).mean())
        for number in range(len(model.weights))
    ]
    first, second = float(np.mean(before)), float(np.mean(after))
    drop = _drop(first, len(truth), second, len(labels), evidence.config.confidence)
    rows = tuple(
        (f"network {number}", f"{100 * a:.2f} %", f"{100 * b:.2f} %", f"{100 * (a - b):+.2f}")
        for number, (a, b) in enumerate(zip(before, after, strict=True))
    )
    section = Section(
        "Will the score hold?",
        (
            f"On {fresh.name} ({len(labels):,} examples) the networks are right on {100 * second:.1f} %, on the "
            f"original test set on {100 * first:.1f} %: a drop of {numbers.signed(drop)}.",
            "One ensemble shows whether the two sets differ, not whether models were tuned to the first one: for "
            "that, compare many models (hardpan testbed compare).",
        ),
        tables=(Table("Networks on both sets", ("model", "original", "fresh", "drop, points"), rows),),
        key="fresh",
        short="Fresh data",
    )
    return Part(section, {"drop": drop}, METHOD, hashes={"Fresh examples, sha256": files.array_hash(fresh.x)})


def _labels(fresh: Dataset, evidence: Evidence) -> NDArray[np.int64]:
    original = evidence.dataset
    if fresh.labels is None:
        raise InputError(f"new_test: {fresh.name} has no labels; a drop needs a class number for every example")
    if fresh.x.shape[1:] != original.x.shape[1:]:
        raise InputError(
            f"new_test: {fresh.name} has examples of shape {fresh.x.shape[1:]}, and {original.name} of "
            f"{original.x.shape[1:]}; both must be alike"
        )
    if fresh.class_names != original.class_names and fresh.n_classes > original.n_classes:
        raise InputError(
            f"new_test: {fresh.name} has {fresh.n_classes} classes, and the original {original.n_classes}"
        )
    return fresh.labels


def _original(model: Model, evidence: Evidence) -> list[NDArray[np.int64]]:
    """Each network's predictions on the original test set."""
    recorded, test = model.predictions, evidence.split.test
    at = np.full(len(evidence.dataset), -1)
    at[model.rows] = np.arange(len(model.rows))
    return [recorded.read(seed, recorded.epochs[-1]).argmax(axis=1)[at[test]] for seed in recorded.seeds]


def _drop(a: float, n: int, b: float, m: int, confidence: float) -> Estimate:
    """a − b for mean accuracies over n and m examples."""
    ends = [_interval(share, count, confidence) for share, count in ((a, n), (b, m))]
    value = a - b
    low = value - math.hypot(a - ends[0][0], ends[1][1] - b)
    high = value + math.hypot(ends[0][1] - a, b - ends[1][0])
    error = math.sqrt(a * (1 - a) / n + b * (1 - b) / m)
    return Estimate(value, error, low, high, confidence, "mean over networks; MOVER", n + m)


def _interval(share: float, n: int, confidence: float) -> tuple[float, float]:
    # A mean over networks need not be a whole count; one that is must not lose an example to rounding.
    low, _ = stats.clopper_pearson(math.floor(share * n + 1e-6), n, confidence)
    _, high = stats.clopper_pearson(math.ceil(share * n - 1e-6), n, confidence)
    return float(low), float(high)
