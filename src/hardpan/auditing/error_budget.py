"""Where the errors of the best model come from: labels, what no model gets right, what models disagree on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hardpan import stats
from hardpan.auditing.evidence import Evidence, answers_by_seed
from hardpan.auditing.labels import outvoted_labels
from hardpan.bayes.floors.error_estimates import Labels, error_of_best_classifier, held_out_error
from hardpan.estimates import Estimate
from hardpan.files import record


@record
class ErrorBudget:
    """Where the errors of the best model come from, as proportions of the test set.

    Attributes:
        model: which one.
        total: its error.
        labels: errors on examples whose label annotators outvoted.
        agreed: other errors on which all models predict the same other class.
        rest: errors on which models disagree.
        n_models: how many models were compared.
    """

    model: str
    total: Estimate
    labels: Estimate
    agreed: Estimate
    rest: Estimate
    n_models: int


def error_budget(
    model: str,
    answers: Labels,
    voters: Sequence[Labels],
    labels: Labels,
    doubted: NDArray[np.bool_],
    *,
    confidence: float = 0.95,
    classifiers: int = 1,
    group: Labels | None = None,
) -> ErrorBudget:
    """Of one model's errors: outvoted labels, errors that all models share, the rest.

    Args:
        model: name of the best one.
        answers: (n,) its classes of the test examples.
        voters: those of every model, this one included.
        labels: (n,) labels.
        doubted: (n,) whether annotators outvoted the label.
        confidence: level of the intervals, shared by ``classifiers`` from which the best was chosen.
        classifiers: how many there were.
        group: (n,) independent groups that the test examples come in.
    """
    wrong, n = answers != labels, len(labels)
    together = np.all([voter == answers for voter in voters], axis=0)
    which = (wrong, wrong & doubted, wrong & ~doubted & together, wrong & ~doubted & ~together)
    samples = [None if group is None else stats.grouped_sample(rows, group) for rows in which]
    total, labelled, agreed, rest = (
        error_of_best_classifier(
            held_out_error(int(rows.sum()), n, method="Clopper–Pearson", confidence=confidence, sample=sample),
            classifiers,
            sample,
        )
        for rows, sample in zip(which, samples, strict=True)
    )
    return ErrorBudget(model, total, labelled, agreed, rest, len(voters))


def find_error_budget(evidence: Evidence) -> ErrorBudget | None:
    """The error budget of the floor's best model; None where its answers to all test examples are not known."""
    inputs, floor, best = evidence.inputs, evidence.floor, evidence.best_answers()
    if inputs is None or floor is None or floor.best is None or best is None or not len(inputs.test):
        return None
    voters = list(evidence.test_answers().values())
    for model in evidence.models:
        if model.held_out and len(model.predictions.seeds) > 1 and model.covers(inputs.test):
            voters += answers_by_seed(evidence, model, inputs.test)
    if len(voters) < 2:
        return None
    return error_budget(
        floor.best.name,
        best,
        voters,
        evidence.labels[inputs.test],
        np.isin(inputs.test, outvoted_labels(evidence)[1]),
        confidence=evidence.config.confidence,
        classifiers=floor.bracket.n_classifiers,
        group=inputs.sampling.group,
    )
