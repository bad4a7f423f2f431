"""The best model beside guessing, the metrics of a class that is rare, and where its errors come from."""

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
from hardpan.stats.classification import auroc, average_precision, balanced_error, paired_gain

RARE = 0.4  # divided by the number of classes: a class below that is rare; 20 % of two


@record
class ScoreMetrics:
    """The best model's score, and what guessing would have.

    Attributes:
        guess: the most frequent class of train, which guessing answers.
        guessing: error of always answering it on the test rows.
        gain: that error minus the best model's, on the same rows; None where the model's answers are not known.
        model: the model whose probabilities the other metrics are of; empty where no class is rare.
        rare: the rarest class, where one is rare, else empty.
        share: the proportion of it among the test rows.
        balanced_error: mean over classes of the error within the class.
        auroc: probability that a row of the rare class has a higher probability of it than a row of another class.
        average_precision: mean precision over the ranks of the rows of the rare class; of guessing: ``share``.
        recall: proportion of the rows of the rare class that are answered with it.
        precision: proportion of rows of the rare class among those that are answered with it; None without any.
    """

    guess: str
    guessing: Estimate
    gain: Estimate | None = None
    model: str = ""
    rare: str = ""
    share: Estimate | None = None
    balanced_error: Estimate | None = None
    auroc: Estimate | None = None
    average_precision: Estimate | None = None
    recall: Estimate | None = None
    precision: Estimate | None = None


def score_metrics(evidence: Evidence) -> ScoreMetrics | None:
    """Guessing beside the best model; where a class is rare, metrics that see it. None without test rows."""
    inputs = evidence.inputs
    if inputs is None or not len(inputs.test):
        return None
    labels, test, k = evidence.labels, inputs.test, evidence.dataset.n_classes
    level, names = evidence.config.confidence, evidence.dataset.class_names
    guess = int(np.bincount(labels[inputs.split.train], minlength=k).argmax())
    truth, group = labels[test], None if inputs.unit == "rows" else inputs.group[test]
    guessing = inputs.share(truth != guess, test, level)
    answers, best = evidence.best_answers(), None if evidence.floor is None else evidence.floor.best
    gain = None
    if answers is not None and evidence.floor is not None:
        shared = 1 - (1 - level) / max(1, evidence.floor.bracket.n_classifiers)  # the best of several
        gain = paired_gain(truth != guess, answers != truth, group, shared)
    counts = np.bincount(truth, minlength=k)
    total = np.bincount(labels, minlength=k)
    rare = int(np.where(total > 0, total, len(labels)).argmin())
    if total[rare] >= RARE / k * len(labels) or not evidence.probs or not 0 < counts[rare] < len(test):
        return ScoreMetrics(names[guess], guessing, gain)
    wrong = {name: float((probs.argmax(axis=1) != truth).mean()) for name, probs in evidence.probs.items()}
    model = best.name if best is not None and best.name in wrong else min(wrong, key=lambda name: wrong[name])
    probs = evidence.probs[model]
    said, own = probs.argmax(axis=1), truth == rare
    return ScoreMetrics(
        names[guess],
        guessing,
        gain,
        model,
        names[rare],
        inputs.share(own, test, level),
        balanced_error(truth, said, level, group=group),
        auroc(own, probs[:, rare], level, group=group),
        average_precision(own, probs[:, rare], level, group=group, seed=evidence.config.seed),
        inputs.share(said[own] == rare, test[own], level),
        inputs.share(own[said == rare], test[said == rare], level) if (said == rare).any() else None,
    )


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
