"""What is in the dataset: how many examples each class has, and in which part of the split."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardpan import stats
from hardpan.auditing.evidence import Evidence, Finding
from hardpan.estimates import Estimate
from hardpan.report.sections import Chart, Section, Table

MOST_BARS = 60
MOST_ROWS = 1000


def find(evidence: Evidence) -> Finding:
    """Count the examples of each class in each part of the split."""
    dataset, split = evidence.dataset, evidence.split
    k = dataset.n_classes
    parts = {"train": split.train, "validation": split.validation, "test": split.test}
    counts = {name: np.bincount(evidence.labels[rows], minlength=k) for name, rows in parts.items()}
    total = np.bincount(evidence.labels, minlength=k)
    kind = "images of " + " × ".join(map(str, dataset.x.shape[1:])) if dataset.x.ndim > 2 else "feature vectors"
    size = int(np.prod(dataset.x.shape[1:]))
    sentences = (
        f"{dataset.name} holds {len(dataset):,} {kind} ({size:,} numbers each) in {k:,} classes.",
        f"Everything on this page uses one split: {len(split.train):,} examples to train, "
        f"{len(split.validation):,} to validate, {len(split.test):,} to test ({split.method}, seed {split.seed}).",
        _balance(total, dataset.class_names),
    )
    shown, which = _chosen(total)
    chart = Chart(
        "bars",
        f"Examples in each class{which}",
        tuple({"name": dataset.class_names[c], "value": int(total[c])} for c in shown),
        f"Bars of class sizes{which}: from {int(total.min()):,} to {int(total.max()):,} examples.",
        {"x_title": "examples"},
    )
    order = range(k) if k <= MOST_ROWS else np.argsort(-total, kind="stable")[:MOST_ROWS].tolist()
    columns = (total, *counts.values())
    more = _found(evidence)
    rows = tuple(
        (dataset.class_names[c], *(int(column[c]) for column in columns), *(column[c] for column in more.values()))
        for c in order
    )
    title = "Per class" if k <= MOST_ROWS else f"Per class: the {MOST_ROWS:,} largest of {k:,}"
    table = Table(title, ("class", "examples", *parts, *more), rows, bars=("examples", *more))
    section = Section(
        "What is in it", sentences, charts=(chart,), tables=(table,), warnings=_warnings(evidence, counts)
    )
    return Finding(section)


def _found(evidence: Evidence) -> dict[str, list[Estimate | float | None]]:
    """What the other parts found, by class, on the test part: errors of the models, confusion, the flow's floor."""
    test, labels, k = evidence.split.test, evidence.labels, evidence.dataset.n_classes
    level = evidence.config.confidence
    by_class = [test[labels[test] == c] for c in range(k)]
    found: dict[str, list[Estimate | float | None]] = {}
    for model in evidence.models:
        if model.known(test):
            wrong = model.probs.argmax(axis=1) != labels
            found[f"error of {model.name}"] = [
                stats.share(int(wrong[rows].sum()), len(rows), level) if len(rows) else None for rows in by_class
            ]
    if "floor_difficulty" in evidence.columns:
        values = np.asarray(evidence.columns["floor_difficulty"], dtype=np.float64)
        found["floor by the flow"] = [_mean(values[rows], level) for rows in by_class]
    if "confusion" in evidence.columns:
        values = np.asarray(evidence.columns["confusion"], dtype=np.float64)
        means = [_mean(values[rows], level) for rows in by_class]
        found["mean confusion, bits"] = [None if mean is None else round(mean.value, 3) for mean in means]
    return found


def _mean(values: NDArray[np.float64], confidence: float) -> Estimate | None:
    """The mean of what is known, none below 0."""
    known = values[np.isfinite(values)]
    return stats.mean(known, confidence, least=0.0) if len(known) else None


def _balance(total: NDArray[np.int64], names: tuple[str, ...]) -> str:
    small, large = int(total.argmin()), int(total.argmax())
    if total[small] == total[large]:
        return f"Every class has {int(total[small]):,} examples."
    return (
        f"The smallest class ({names[small]}) has {int(total[small]):,} examples, the largest ({names[large]}) "
        f"{int(total[large]):,}."
    )


def _chosen(total: NDArray[np.int64]) -> tuple[list[int], str]:
    """The classes that a chart has room for, and words that say which they are."""
    if len(total) <= MOST_BARS:
        return list(range(len(total))), ""
    order = np.argsort(-total, kind="stable").tolist()
    half = MOST_BARS // 2
    return order[:half] + order[-half:], f": the {half} largest and the {half} smallest of {len(total):,}"


def _warnings(evidence: Evidence, counts: dict[str, NDArray[np.int64]]) -> tuple[str, ...]:
    found = []
    untrained = int((counts["train"] == 0).sum())
    if untrained:
        found.append(
            f"{untrained:,} of {evidence.dataset.n_classes:,} classes have no training example: every test example "
            "of theirs counts as an error of the classifiers on this page."
        )
    return tuple(found)
