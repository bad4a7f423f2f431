"""Will the score hold: the same models on the original and on a fresh test set, where one is given."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from hardpan import files, numbers, stats, testbed
from hardpan.auditing.evidence import Evidence, Finding, Model
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.report.sections import Section, Table, Tile

TITLE = "Will the score hold?"
METHOD = (
    "The seeds of the ensemble are tried on the fresh set as they are. The drop is accuracy on the original test "
    "part minus accuracy on the fresh one, mean over the seeds; its interval is put together from the "
    "Clopper–Pearson intervals of the two mean accuracies (Zou and Donner's MOVER), each as of one test set.",
)

_NO_MODEL = (
    "--new-test {}: needs models that can be run on it; let the audit train its ensemble (no --predictions), or "
    "score your models on both sets and give --testbed counts.csv"
)


def find(evidence: Evidence) -> Finding:
    """Compare the models of the table that ``config.testbed`` names, or try the ensemble on ``config.new_test``."""
    return _table(evidence) if evidence.config.testbed else _new_test(evidence)


def check(evidence: Evidence) -> None:
    """Refuse files that cannot be read or do not fit, and a fresh set that no model can be run on."""
    config = evidence.config
    if config.testbed:
        testbed.two_sets(*config.testbed, new_set=config.testbed_new or None)
        return
    _checked(Dataset.open(config.new_test), evidence)
    if config.predictions or config.ensemble == "none":
        raise InputError(_NO_MODEL.format(config.new_test))


def _table(evidence: Evidence) -> Finding:
    config = evidence.config
    table = testbed.two_sets(*config.testbed, new_set=config.testbed_new or None)
    from hardpan.testbed import report as testbed_report

    report = testbed.compare(table, seed=config.seed, confidence=config.confidence)
    made = testbed_report.provenance(report)
    gap = report.mean_gap
    shown = numbers.estimate(gap).replace(" %", " points")
    detail = f"{shown}, the mean over {len(report.rows)} models at {100 * gap.confidence:g} %; each counts once."
    section = testbed_report.section(report)
    section = dataclasses.replace(section, warnings=(*_other_set(report, evidence), *section.warnings))
    return Finding(
        section,
        {"fresh": Tile("Drop on fresh data", shown.partition(" (")[0], detail)},
        method=made.method,
        citations=made.citations,
        hashes=made.hashes,
        measures={"drop": gap},
    )


def _other_set(report: testbed.Comparison, evidence: Evidence) -> tuple[str, ...]:
    """A warning where the table's original set cannot be the test part of this audit."""
    sizes, here = sorted({row.original.n for row in report.rows}), len(evidence.split.test)
    if here in sizes:
        return ()
    told = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    return (
        f"The table scores models on an original set of {told} examples, and the test part of this audit has "
        f"{here:,}: this section is about that set, not about this test part.",
    )


def _new_test(evidence: Evidence) -> Finding:
    fresh = Dataset.open(evidence.config.new_test)
    labels = _checked(fresh, evidence)
    model = next((item for item in evidence.models if item.weights), None)
    if model is None:
        raise InputError(_NO_MODEL.format(evidence.config.new_test))
    old, new = _original(model, evidence), _on_fresh(model, fresh)
    rows = []
    for number, (before, after) in enumerate(zip(old, new, strict=True)):
        right = (after.argmax(axis=1) == labels, before == evidence.labels[evidence.split.test])
        rows.append((f"{model.name}, seed {number}", float(right[1].mean()), float(right[0].mean())))
    first, second = (np.mean([row[place] for row in rows]) for place in (1, 2))
    drop = _drop(float(first), len(evidence.split.test), float(second), len(labels), evidence.config.confidence)
    shown = numbers.estimate(drop).replace(" %", " points")
    shown_rows = tuple(
        (name, f"{100 * a:.2f} %", f"{100 * b:.2f} %", f"{100 * (a - b):+.2f}") for name, a, b in rows
    )
    section = Section(
        TITLE,
        (
            f"On {fresh.name} ({len(labels):,} examples) the ensemble is right {100 * second:.1f} % of the time, "
            f"on the original test part {100 * first:.1f} %: a drop of {shown}.",
            "One ensemble shows whether the two sets differ, not whether models were tuned to the first one: for "
            "that, compare many models (hardpan testbed compare).",
        ),
        tables=(Table("Seeds on both sets", ("model", "original", "fresh", "drop, points"), shown_rows),),
    )
    return Finding(
        section,
        {
            "fresh": Tile(
                "Drop on fresh data",
                shown.partition(" (")[0],
                f"{shown}: the small ensemble, mean over {len(rows)} seeds.",
            )
        },
        method=METHOD,
        hashes={"Fresh examples, sha256": files.array_hash(fresh.x)},
        measures={"drop": drop},
    )


def _checked(fresh: Dataset, evidence: Evidence) -> NDArray[np.int64]:
    original = evidence.dataset
    if fresh.labels is None:
        raise InputError(f"--new-test {fresh.name}: has no labels; a drop needs a class number for every example")
    if fresh.x.shape[1:] != original.x.shape[1:]:
        raise InputError(
            f"--new-test {fresh.name}: holds examples of shape {fresh.x.shape[1:]}, and {original.name} of "
            f"{original.x.shape[1:]}; both must be alike"
        )
    if fresh.class_names != original.class_names and fresh.n_classes > original.n_classes:
        raise InputError(
            f"--new-test {fresh.name}: has {fresh.n_classes} classes, and the original {original.n_classes}"
        )
    return fresh.labels


def _original(model: Model, evidence: Evidence) -> list[NDArray[np.int64]]:
    """Each seed's answers on the original test part."""
    held, test = model.predictions, evidence.split.test
    places = np.full(len(evidence.dataset), -1)
    places[model.rows] = np.arange(len(model.rows))
    return [held.read(seed, held.epochs[-1]).argmax(axis=1)[places[test]] for seed in held.seeds]


def _on_fresh(model: Model, fresh: Dataset) -> list[NDArray[np.float32]]:
    from hardpan.training import predict

    return [np.asarray(predict(folder, fresh)) for folder in model.weights]


def _drop(a: float, n: int, b: float, m: int, confidence: float) -> Estimate:
    """a − b for mean accuracies over n and m examples."""
    ends = [_interval(share, count, confidence) for share, count in ((a, n), (b, m))]
    value = a - b
    low = value - math.hypot(a - ends[0][0], ends[1][1] - b)
    high = value + math.hypot(ends[0][1] - a, b - ends[1][0])
    error = math.sqrt(a * (1 - a) / n + b * (1 - b) / m)
    return Estimate(value, error, low, high, confidence, "mean over seeds; MOVER", n + m)


def _interval(share: float, n: int, confidence: float) -> tuple[float, float]:
    # A mean over seeds need not be a whole count; one that is must not lose an example to rounding.
    low, _ = stats.clopper_pearson(math.floor(share * n + 1e-6), n, confidence)
    _, high = stats.clopper_pearson(math.ceil(share * n - 1e-6), n, confidence)
    return float(low), float(high)
