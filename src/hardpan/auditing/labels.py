"""Labels that differ from what models predict, ranked; annotators' votes against labels; the review of a sample.

No data show by themselves whether a model errs or a label is wrong. So differences are listed, not judged, until a
person has reviewed a random sample of the labels (:mod:`hardpan.confusion.label_review`) or where annotators voted.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.auditing.contents import FEATURE
from hardpan.auditing.evidence import USABLE, Evidence
from hardpan.auditing.example_table import Examples, read_example_table
from hardpan.bayes.floors.error_estimates import Labels
from hardpan.confusion.label_noise import LabelIssues, RankedLabels
from hardpan.confusion.label_review import FILE, LabelCount, LabelReview, count_wrong
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError


def rank_labels(evidence: Evidence) -> LabelIssues | None:
    """Rank labels by predictions that did not see them: out of fold; of test rows the mean of the good models."""
    inputs = evidence.inputs
    if inputs is None:
        return None
    labels, dataset = evidence.labels, evidence.dataset
    probs = np.zeros((len(dataset), dataset.n_classes))
    if evidence.out_of_fold is not None:
        probs += evidence.out_of_fold
    held_out = evidence.test_probs()
    if held_out:
        truth = labels[inputs.test]
        errors = {name: float((p.argmax(axis=1) != truth).mean()) for name, p in held_out.items()}
        usable = [p for name, p in held_out.items() if errors[name] <= USABLE * min(errors.values()) + 1e-9]
        probs[inputs.test] = np.mean(usable, axis=0)
    # Models cannot know classes that train lacks.
    rows = np.flatnonzero((probs.sum(axis=1) > 0) & np.isin(labels, labels[inputs.split.train]))
    if not len(rows):
        return None
    split = np.full(len(dataset), "", dtype=object)
    for name, members in evidence.parts.items():
        split[members] = name
    own = probs[rows, labels[rows]]
    ranked = RankedLabels.of(
        row=rows,
        id=dataset.ids[rows].astype(np.str_),
        split=split[rows].astype(np.str_),
        label=labels[rows],
        predicted=np.where(probs[rows].max(axis=1) > own, probs[rows].argmax(axis=1), labels[rows]),
        probability=own,
    )
    return LabelIssues.of(ranked, dataset.class_names, dataset.name)


def outvoted_labels(evidence: Evidence) -> tuple[Labels, Labels]:
    """Rows with annotators' votes, and those of them whose label got fewer votes than another class."""
    annotations = evidence.annotations
    if annotations is None or annotations.votes is None or annotations.rows is None:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    voted = annotations.votes.sum(axis=1) > 0
    rows, votes = annotations.rows[voted], annotations.votes[voted]
    return rows, rows[votes.max(axis=1) > votes[np.arange(len(rows)), evidence.labels[rows]]]


def label_table(evidence: Evidence) -> tuple[dict[str, list[Any]], dict[str, NDArray[Any]]]:
    """Labels that differ from the prediction: columns of problems/labels.csv; and columns of the joined table.

    After id, label, suggested class and probability of the label come the contents of the row.
    """
    dataset, issues, annotations = evidence.dataset, evidence.issues, evidence.annotations
    columns: dict[str, NDArray[Any]] = {}
    if annotations is not None and annotations.votes is not None and annotations.rows is not None:
        votes, rows = annotations.votes, annotations.rows
        total, own = votes.sum(axis=1), votes[np.arange(len(rows)), evidence.labels[rows]]
        columns["selection_frequency"] = np.full(len(dataset), np.nan)
        columns["selection_frequency"][rows] = np.where(total > 0, own / np.maximum(total, 1), np.nan)
    headers = ["row", "id", "split", "label", "suggested", "probability"]
    if issues is None or issues.ranked is None:
        return {name: [] for name in headers}, columns
    numbers, names = dataset.metadata.get("row"), np.array(dataset.class_names, dtype=object)
    rows = issues.row
    table = {
        "row": [int(row if numbers is None else numbers[row]) for row in rows],
        "id": issues.id.tolist(),
        "split": issues.split.tolist(),
        "label": names[issues.label].tolist(),
        "suggested": names[issues.suggested].tolist(),
        "probability": [round(float(p), 4) for p in issues.probability],
    }
    if evidence.contents is not None:
        for name, values in evidence.contents.columns.items():
            table[f"{FEATURE}{name}" if name in (*headers, "path") else name] = values[rows].tolist()
    if "path" in dataset.metadata:
        table["path"] = [str(dataset.metadata["path"][row]) for row in rows]
    suggested = np.full(len(dataset), None, dtype=object)
    suggested[rows] = names[issues.suggested]
    rank, probability = np.full(len(dataset), np.nan), np.full(len(dataset), np.nan)
    rank[issues.ranked.row] = np.arange(1, issues.examples + 1)
    probability[issues.ranked.row] = issues.ranked.probability
    columns |= {"suggested_label": suggested, "label_rank": rank, "label_probability": probability}
    return table, columns


def label_issues(audit: str | os.PathLike[str] | Examples) -> LabelIssues:
    """The ranked labels of a finished audit.

    Args:
        audit: its folder, or its table of examples.
    """
    table = (audit if isinstance(audit, Examples) else read_example_table(audit)).table
    if not {"label_rank", "label", "row"} <= set(table.column_names):
        raise InputError(": has no ranked labels; audit the data again with this version", argument="audit")
    columns = {
        name: np.asarray(table[name].to_pylist(), dtype=object)
        for name in ("id", "split", "label", "suggested_label", "label_rank", "label_probability")
    }
    rank = np.array([np.nan if value is None else float(value) for value in columns["label_rank"]])
    rows = np.flatnonzero(np.isfinite(rank))
    rows = rows[np.argsort(rank[rows])]
    label, suggested = columns["label"][rows], columns["suggested_label"][rows]
    predicted = np.where(suggested == None, label, suggested)  # noqa: E711  by element
    names = sorted({*columns["label"].tolist(), *predicted.tolist()})
    number = {name: c for c, name in enumerate(names)}
    ranked = RankedLabels(
        row=rows,
        id=columns["id"][rows].astype(np.str_),
        split=columns["split"][rows].astype(np.str_),
        label=np.array([number[name] for name in label], dtype=np.int64),
        predicted=np.array([number[name] for name in predicted], dtype=np.int64),
        probability=columns["label_probability"][rows].astype(np.float64),
        differing=int((predicted != label).sum()),
    )
    return LabelIssues.of(ranked, names)


def saved_count(folder: str | os.PathLike[str], dataset: Dataset) -> LabelCount | None:
    """What the review in an audit's folder says; None without one, or before every stratum has a verdict.

    None also where labels of the review were corrected since: it says nothing of how many are wrong now.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    review = LabelReview.read(path)
    label_of = dict(zip(dataset.ids.tolist(), np.array(dataset.class_names)[dataset.require_labels()], strict=True))
    same = [label_of.get(name) == label for name, label in zip(review.id.tolist(), review.label, strict=True)]
    if not any(same):
        raise InputError(
            f"{path}: reviews labels that these data do not have; move it away or audit into another folder"
        )
    return count_wrong(review) if review.complete and all(same) else None
