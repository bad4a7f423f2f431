"""All estimators of the floor side by side, and the verdict: the one door."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.bayes.floors import votes as votes_module
from hardpan.bayes.floors.calibration import CALIBRATIONS
from hardpan.bayes.floors.candidates import Candidate, Check, Floor
from hardpan.bayes.floors.from_features import FROM_FEATURES, Examples
from hardpan.bayes.floors.gap import Difference
from hardpan.bayes.floors.inputs import Labels, as_classes, as_labels, as_probabilities
from hardpan.bayes.floors.means import held_out_error
from hardpan.bayes.floors.plugin import calibrated_plug_in, plug_in, promise_p_value
from hardpan.bayes.floors.weighing import HELD_OUT, own_decisions_check, weigh
from hardpan.bayes.floors.wording import percent
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.stats.intervals import check_confidence

NO_LOWER_BOUND = "No lower bound of the floor is free of assumptions; every lower end here names its own."
OWN_FEATURES = (
    "Neighbours, spanning tree and Gaussian models look at the features as they are; of images, at single pixels. "
    "A classifier that learns features of its own may err far less, and then they are wrong."
)
TUNED = (
    "Limits hold for classifiers that never saw the test part. If a model was tuned on it, its error there is too "
    "low, and what it refutes is refuted less surely."
)
PLUG_INS_ARE_CEILINGS = (
    "A calibrated plug-in estimates the error of its own classifier: it is a ceiling, not an estimate of the floor."
)


def floor(
    labels: ArrayLike | None = None,
    *,
    examples: Examples | None = None,
    exact: Mapping[str, Estimate] | None = None,
    predictions: Mapping[str, ArrayLike] | None = None,
    validation: Mapping[str, ArrayLike] | None = None,
    validation_labels: ArrayLike | None = None,
    classifiers: Mapping[str, Estimate] | None = None,
    votes: ArrayLike | None = None,
    soft_labels: ArrayLike | None = None,
    differences: Sequence[Difference] = (),
    n_classes: int | None = None,
    estimators: Sequence[str] | None = None,
    calibrations: Sequence[str] = tuple(CALIBRATIONS),
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
) -> Floor:
    """Put every estimate of the floor side by side, and say which survive.

    Whatever is given is used; nothing is needed but some classifier's held-out errors (features give one).

    Args:
        labels: (m,) labels of the test examples; those of ``examples`` by default.
        examples: features and labels of train, test and validation: nearest neighbours, spanning tree, Gaussian
            model and Bhattacharyya bounds, each with its classifier.
        exact: Bayes errors of models of the data (flows), by the model's name.
        predictions: posteriors or class probabilities (m, K) of the test examples by name, or class numbers (m,).
            Under a name of ``exact`` they are that model's: its number is then held against its decisions.
        validation: the same models' probabilities (v, K) of validation examples, to calibrate on.
        validation_labels: (v,) their labels; those of ``examples`` by default.
        classifiers: held-out errors that were counted elsewhere (:func:`held_out_error`).
        votes: (n, K) counts of annotators' votes.
        soft_labels: (n, K) posteriors from people or from whoever made the data.
        differences: what :func:`told_apart` found for a model's samples.
        estimators: which of "neighbours", "tree", "gaussian" and "bhattacharyya" to run on ``examples``; all.
        calibrations: which of "temperature", "vector" and "isotonic" to apply to predictions; all.
        confidence: level of every interval, and the joint level of the verdict.

    Returns:
        A :class:`Floor`: entries, bracket, verdict.

    Source: Theisen et al. 2021 for floors from flows; :mod:`hardpan.bayes.floors.weighing` for the verdict.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 2, 3000)
        >>> x = rng.normal(2.0 * y, 1.0)[:, None]                       # Bayes error 0.159
        >>> parts = Examples(x[:1500], y[:1500], x[1500:], y[1500:])
        >>> wrong = Estimate(0.4, 0.0, 0.4, 0.4, method="a bad model")
        >>> found = floor(examples=parts, exact={"flow": wrong})
        >>> found.refuted, found.low < 0.159 < found.high
        (('Exact error of flow',), True)
    """
    level = check_confidence(confidence)
    report = progress or (lambda step, fraction: None)
    truth = _labels(labels, examples)
    tuning = _validation_labels(validation_labels, examples)
    k = _n_classes(n_classes, truth, examples, predictions, votes, soft_labels)
    found: list[Candidate] = []
    left_out: list[str] = []
    named = _chosen("estimators", estimators, FROM_FEATURES) if examples is not None else ()
    for number, name in enumerate(named):
        report(f"floor: {name}", 0.8 * number / len(named))
        try:
            assert examples is not None
            found += FROM_FEATURES[name](examples, level, seed)
        except InputError as reason:
            left_out.append(f"{name}: {reason}.")
    report("floor: predictions", 0.8)
    chosen = _chosen("calibrations", calibrations, CALIBRATIONS)
    held = dict(validation or {})
    for name, given in (predictions or {}).items():
        found += _from_predictions(name, given, held.pop(name, None), truth, tuning, k, chosen, level, seed)
    if held:
        raise InputError(f"validation holds {next(iter(held))!r}, which is not among the predictions")
    found += _exact(exact or {}, found)
    found += [Candidate(name, "classifier", item, HELD_OUT) for name, item in (classifiers or {}).items()]
    found += _from_people(votes, soft_labels, k, level)
    return weigh(
        _ordered(found),
        n_classes=k,
        confidence=level,
        notes=_notes(examples, predictions),
        left_out=left_out,
        differences=differences,
    )


def _from_predictions(
    name: str,
    given: ArrayLike,
    held: ArrayLike | None,
    labels: Labels | None,
    tuning: Labels | None,
    k: int,
    calibrations: Sequence[str],
    confidence: float,
    seed: int,
) -> list[Candidate]:
    if labels is None:
        raise InputError(f"predictions of {name!r} need labels to be judged by; give labels or examples")
    array: NDArray[Any] = np.asarray(given)
    if array.ndim == 1:
        said = as_labels(f"predictions of {name!r}", array, len(labels))
        made = _counted(name, int((said != labels).sum()), len(labels), confidence)
        return [Candidate(name, "classifier", made, HELD_OUT)]
    probs = as_probabilities(f"predictions of {name!r}", array, len(labels), k)
    wrong, promised, p_value = promise_p_value(probs, labels)
    made = _counted(name, wrong, len(labels), confidence)
    check = Check(
        p_value, f"it promises {percent(promised / len(labels))} of errors and makes {percent(made.value)}"
    )
    raw = plug_in(probs, confidence=confidence, method="mean of 1 − max posterior, as it is")
    posterior = f"the probabilities of {name} are the data's"
    candidates = [
        Candidate(f"Raw plug-in of {name}", "estimate", raw, posterior, check),
        Candidate(name, "classifier", made, HELD_OUT),
    ]
    tuned_on = None
    if held is not None:
        if tuning is None:
            raise InputError(f"validation predictions of {name!r} need validation_labels")
        tuned_on = (as_probabilities(f"validation of {name!r}", held, len(tuning), k), tuning)
    for calibration in calibrations:
        plugged = calibrated_plug_in(
            probs, labels, validation=tuned_on, calibration=calibration, confidence=confidence, seed=seed
        )
        ceiling = f"{name} is calibrated by {calibration}"
        candidates.append(Candidate(f"{calibration.capitalize()} plug-in of {name}", "upper", plugged, ceiling))
    return candidates


def _counted(name: str, wrong: int, n: int, confidence: float) -> Estimate:
    return held_out_error(wrong, n, method=f"held-out errors of {name}", confidence=confidence)


def _exact(exact: Mapping[str, Estimate], found: Sequence[Candidate]) -> list[Candidate]:
    made = {item.name: item.estimate for item in found if item.role == "classifier"}
    given = []
    for name, item in exact.items():
        check = own_decisions_check(item, made[name]) if name in made else None
        given.append(
            Candidate(f"Exact error of {name}", "estimate", item, f"{name} is the data's distribution", check)
        )
    return given


def _from_people(
    votes: ArrayLike | None, soft_labels: ArrayLike | None, k: int, confidence: float
) -> list[Candidate]:
    given = []
    if votes is not None:
        found = votes_module.vote_floor(votes, confidence=confidence)
        given.append(Candidate("Corrected votes", "estimate", found.corrected, votes_module.ASSUMPTION))
        given.append(Candidate("Uncorrected votes", "lower", found.direct, votes_module.ASSUMPTION))
    if soft_labels is not None:
        probs = as_probabilities("soft_labels", soft_labels, n_classes=k)
        item = plug_in(probs, confidence=confidence, method="mean of 1 − largest soft label")
        given.append(Candidate("Soft labels", "estimate", item, "the soft labels are the data's posteriors"))
    return given


def _ordered(found: Sequence[Candidate]) -> list[Candidate]:
    """Estimates and lower ends first, then ceilings, then classifiers: what claims most is read first."""
    ranks = {"estimate": 0, "lower": 0, "upper": 1, "classifier": 2}
    return sorted(found, key=lambda item: ranks[item.role])


def _notes(examples: Examples | None, predictions: Mapping[str, ArrayLike] | None) -> list[str]:
    notes = [NO_LOWER_BOUND]
    if examples is not None:
        notes.append(OWN_FEATURES)
        if len(examples.y_test) < 1000:
            notes.append(
                f"The test part has only {len(examples.y_test):,} examples, so all intervals here are wide."
            )
    if predictions:
        notes += [PLUG_INS_ARE_CEILINGS, TUNED]
    return notes


def _labels(labels: ArrayLike | None, examples: Examples | None) -> Labels | None:
    if labels is not None:
        return as_labels("labels", labels)
    return None if examples is None else examples.y_test


def _validation_labels(labels: ArrayLike | None, examples: Examples | None) -> Labels | None:
    if labels is not None:
        return as_labels("validation_labels", labels)
    return None if examples is None else examples.y_validation


def _n_classes(
    n_classes: int | None,
    labels: Labels | None,
    examples: Examples | None,
    predictions: Mapping[str, ArrayLike] | None,
    *tables: ArrayLike | None,
) -> int:
    """K as given, or the widest of what is given."""
    if n_classes is not None:
        return as_classes(n_classes, labels)
    widths = [0 if examples is None else examples.n_classes]
    for item in (*(predictions or {}).values(), *tables):
        array: NDArray[Any] = np.asarray(item)
        widths.append(array.shape[1] if array.ndim == 2 else 0)
    return as_classes(max(widths) or None, labels)


def _chosen(argument: str, names: Sequence[str] | None, known: Mapping[str, Any]) -> tuple[str, ...]:
    chosen = tuple(known) if names is None else tuple(names)
    for name in chosen:
        if name not in known:
            raise InputError(f"{argument} must be among {', '.join(known)}; got {name!r}")
    return chosen
