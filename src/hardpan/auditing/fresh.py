"""Will the score hold: the same models on the original and on a fresh test set, where there is one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import stats, testbed
from hardpan.auditing.evidence import Evidence, answers_by_seed
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate

_NO_MODEL = (
    "new_test: {} needs models that can be run on it; let the audit train its ensemble (no --predictions), or "
    "evaluate your models on both sets and pass --set testbed=counts.csv"
)


@dataclass(frozen=True, slots=True, eq=False)
class FreshScores:
    """The same models on the original and on a fresh test set.

    Attributes:
        drop: mean accuracy on the original set minus that on the fresh one.
        comparison: of the models of a table; None where the ensemble was evaluated.
        name: of the fresh set.
        size: its examples.
        before: accuracy of each network on the original test set.
        after: the same on the fresh one.
        sha256: of the fresh examples.
    """

    drop: Estimate
    comparison: testbed.Comparison | None = None
    name: str = ""
    size: int = 0
    before: tuple[float, ...] = ()
    after: tuple[float, ...] = ()
    sha256: str = ""


def find_fresh_scores(evidence: Evidence) -> FreshScores:
    """Compare the models of ``config.testbed``, or evaluate the ensemble on ``config.new_test``."""
    config = evidence.config
    if not config.testbed:
        return _scores_on_new_test(evidence)
    table = testbed.two_sets(*config.testbed, new_set=config.testbed_new or None)
    comparison = testbed.compare(table, seed=config.seed, confidence=config.confidence)
    return FreshScores(comparison.mean_gap, comparison)


def check_fresh(evidence: Evidence) -> None:
    """Refuse files that cannot be read or do not fit, and a fresh set that no model can be run on."""
    config = evidence.config
    if config.testbed:
        testbed.two_sets(*config.testbed, new_set=config.testbed_new or None)
        return
    _fresh_labels(_fresh_dataset(evidence), evidence)
    if config.predictions or config.ensemble == "none":
        raise InputError(_NO_MODEL.format(config.new_test))


def _scores_on_new_test(evidence: Evidence) -> FreshScores:
    fresh = _fresh_dataset(evidence)
    labels = _fresh_labels(fresh, evidence)
    model = next((item for item in evidence.models if item.weights), None)
    predicted: list[NDArray[Any]] = []
    if model is not None:
        from hardpan.auditing.networks import network_predictor

        predicted = [network_predictor(evidence, k)(fresh.inputs) for k in range(len(model.weights))]
    elif evidence.text_models and evidence.inputs is not None and fresh.texts is not None:
        model = next(item for item in evidence.models if item.trained_here)
        table = evidence.inputs.table
        assert table.vocabulary is not None
        values = table.vocabulary.transform(fresh.texts.tolist())
        table = replace(table, ngrams=values, scaled=np.zeros((len(fresh), table.directions)))
        predicted = [predict(np.arange(len(fresh)), table) for predict in evidence.text_models]
    if model is None or not predicted:
        raise InputError(_NO_MODEL.format(evidence.config.new_test))
    test = evidence.modelled.test
    truth = evidence.labels[test]
    before = tuple(float((answers == truth).mean()) for answers in answers_by_seed(evidence, model, test))
    after = tuple(float((probs.argmax(axis=1) == labels).mean()) for probs in predicted)
    first, second = float(np.mean(before)), float(np.mean(after))
    drop = _fresh_drop(first, len(truth), second, len(labels), evidence.config.confidence)
    return FreshScores(drop, None, fresh.name, len(labels), before, after, fresh.content_hash())


def _fresh_dataset(evidence: Evidence) -> Dataset:
    """The new test set, encoded as the original one."""
    return Dataset.open(evidence.config.new_test, encoder=evidence.encoder or evidence.dataset.encoder or None)


def _fresh_labels(fresh: Dataset, evidence: Evidence) -> NDArray[np.int64]:
    original = evidence.dataset
    if original.is_texts and original.vectors is None and original.x.shape[1]:
        raise InputError(
            f": {original.name} has columns beside the texts, so its models are not applied to a second set; pass "
            "predictions for both sets (testbed=FILE)",
            argument="new_test",
        )
    if original.is_texts != fresh.is_texts:
        raise InputError(
            f": {fresh.name} has {fresh.noun}s and {original.name} {original.noun}s; both must be alike",
            argument="new_test",
        )
    if fresh.labels is None:
        raise InputError(
            f": {fresh.name} has no labels; a drop needs a class number for every example", argument="new_test"
        )
    if fresh.x.shape[1:] != original.x.shape[1:]:
        raise InputError(
            f": {fresh.name} has examples of shape {fresh.x.shape[1:]}, and {original.name} of "
            f"{original.x.shape[1:]}; both must be alike",
            argument="new_test",
        )
    number = {name: k for k, name in enumerate(original.class_names)}
    unknown = [name for name in fresh.class_names if name not in number]
    if not unknown:
        return np.array([number[name] for name in fresh.class_names], dtype=np.int64)[fresh.labels]
    if len(unknown) < fresh.n_classes or fresh.n_classes > original.n_classes:
        raise InputError(
            f": {fresh.name} has the class {unknown[0]!r}, which {original.name} does not have; "
            "name the classes of both sets alike",
            argument="new_test",
        )
    return fresh.labels  # no name in common: class numbers of a set without names


def _fresh_drop(a: float, n: int, b: float, m: int, confidence: float) -> Estimate:
    """a − b for mean accuracies over n and m examples."""
    # A mean over networks need not be a whole count; one that is must not lose an example to rounding.
    whole = [(math.floor(share * of + 1e-6), math.ceil(share * of - 1e-6), of) for share, of in ((a, n), (b, m))]
    lows, highs = (
        [float(stats.clopper_pearson(item[end], item[2], confidence)[end]) for item in whole] for end in (0, 1)
    )
    value = a - b
    low = value - math.hypot(a - lows[0], highs[1] - b)
    high = value + math.hypot(highs[0] - a, b - lows[1])
    error = math.sqrt(a * (1 - a) / n + b * (1 - b) / m)
    return Estimate(value, error, low, high, confidence, "mean over networks; MOVER", n + m)
