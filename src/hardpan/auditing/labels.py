"""Labels that look wrong, and how far the models can be trusted to say so.

No data show by themselves whether a model errs or a label is wrong. So the audit repeats its search where the truth
is known: every example gets the label that the models predict for it, some of these are flipped at random, models
are trained again, and the same rule looks for wrong labels (:class:`Trial`). The flips that it recovers give its
recall; the other suspects are errors of the models, as many of which are expected among the suspects of the data.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import stats
from hardpan.auditing.evidence import USABLE, Evidence, Trial
from hardpan.bayes.floors.error_estimates import Floats, Labels
from hardpan.confusion import label_issues
from hardpan.estimates import Estimate

SURE = 0.5  # a suggested class has at least this probability
USUAL = 0.2  # quantile of the probability of correctly predicted examples that a suggested class has to reach
SUREST = (3, 10)  # random flips fall as often on the third or tenth of which models are most sure as on the others
FEWEST_SURE = 100  # examples in that tenth
SLIGHT = 0.02  # difference of two errors that does not matter
RECALL = 1 / 3  # of the planted flips, below which a trial says nothing
TELLING = 1 / 3  # expected precision from which suspects are a problem of the labels, not errors of the models
CLUELESS = 0.6  # of the error of guessing: models that err more cannot doubt labels
FLIPS = (0.02, 0.2)  # least and largest rate of the flips of a trial
DRAWS = 4000


@dataclass(frozen=True, slots=True, eq=False)
class Suspects:
    """Labels that look wrong in one split.

    Attributes:
        rows: rows of the dataset, most suspicious first.
        suggested: class that the models prefer.
        probability: its probability.
        searched: how many labels were checked.
        error: of the models on these labels.
        guessing: error of always answering the most frequent class.
        sure_errors: errors on the examples of which the models are most sure: the third or, where it has fewer
            errors in proportion, the tenth; models err less on the latter, random mistakes do not.
        sure: how many examples these are.
        trial: the same search where the truth is known; None without one.
    """

    rows: Labels
    suggested: Labels
    probability: Floats
    searched: int
    error: float = 0.0
    guessing: float = 1.0
    sure_errors: int = 0
    sure: int = 0
    trial: Trial | None = None

    @property
    def comparable(self) -> bool:
        """Whether the models of the trial are about as good as those that doubt, and found what was planted."""
        trial = self.trial
        if trial is None or not trial.flips:
            return True
        return trial.error <= USABLE * self.error + SLIGHT and trial.recovered >= RECALL * trial.flips

    def precision(self, confidence: float) -> Estimate | None:
        """Proportion of the suspects that is wrong; None without suspects, or where the trial cannot tell.

        From the trial: 1 − (rate of false suspects in the trial) / (rate of suspects). It assumes that the labels
        follow a rule about as hard to learn as the one that the models learned. That one has the models' own
        irregularities, so the estimate tends to be low; where classes overlap it is too high. From the surest
        examples: errors of models are rare where they are most sure, wrong labels are not, so the error rate there
        estimates the rate of wrong labels, of which four fifths are expected among the suspects (the rule leaves
        out the lowest fifth of the probabilities); where models are bad it is too high. So with a trial the smaller
        of both is taken, and the interval is one-sided.
        """
        if not self.comparable:
            return None
        sure = self._precision_from_sure(confidence)
        if self.trial is None or sure is None:
            return sure
        estimate = self._precision_from_trial(self.trial, confidence)
        return estimate if estimate is None or estimate.value <= sure.value else dataclasses.replace(sure, high=1.0)

    def _precision_from_trial(self, trial: Trial, confidence: float) -> Estimate | None:
        count = len(self.rows)
        if not count or not trial.clean:
            return None
        rng = np.random.default_rng(0)
        false = rng.beta(trial.false + 0.5, trial.clean - trial.false + 0.5, DRAWS)
        suspected = rng.beta(count + 0.5, self.searched - count + 0.5, DRAWS)
        draws = np.clip(1 - false / suspected, 0.0, 1.0)
        low = float(np.quantile(draws, 1 - confidence))
        value = float(np.clip(1 - trial.false_rate * self.searched / count, 0.0, 1.0))
        method = "planted flips of learned labels, models trained again; lower limit from Jeffreys intervals"
        return Estimate(value, float(draws.std()), min(low, value), 1.0, confidence, method, count)

    def _precision_from_sure(self, confidence: float) -> Estimate | None:
        if not len(self.rows) or not self.sure:
            return None
        rate = stats.share(self.sure_errors, self.sure, confidence)
        factor = (1 - USUAL) * self.searched / len(self.rows)
        value, low, high = (min(1.0, factor * end) for end in (rate.value, rate.low, rate.high))
        method = "error rate on the examples of which models are most sure"
        return Estimate(value, factor * rate.stderr, low, high, confidence, method, self.sure)

    @property
    def clueless(self) -> bool:
        """Whether the models are too close to guessing to doubt labels."""
        return self.error > CLUELESS * self.guessing

    @property
    def telling(self) -> bool:
        """Whether the suspects say something of the labels; else they are mostly errors of the models."""
        expected = self.precision(0.95)
        if self.clueless or expected is None or expected.value < TELLING:
            return False
        by_trial = None if self.trial is None else self._precision_from_trial(self.trial, 0.95)
        return by_trial is None or by_trial.low > 0


def suspect_labels(probs: Floats, labels: Labels, rows: Labels) -> Suspects:
    """Labels that models doubt: another class is at least as probable as it is on its own examples.

    With t_j the mean probability of class j over examples labelled j, a label y is suspicious when the best other
    class has p_j ≥ max(t_j, 1/2), p_j > p_y, and p_j is not below the lowest fifth of its values on examples that
    are labelled and predicted j: near a boundary between classes models are less sure. Sorted by p_j − p_y.

    Args:
        probs: (n, K) held-out or out-of-fold probabilities.
        labels: (n,) class numbers.
        rows: (n,) rows of the dataset.

    Source: Northcutt, Jiang and Chuang, "Confident learning" (2021).

    Example:
        >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8], [0.05, 0.95]])
        >>> suspect_labels(p, np.array([0, 0, 1, 1, 0]), np.arange(5)).rows.tolist()
        [4]
    """
    issues = label_issues(probs, labels=labels)
    usual = np.ones(probs.shape[1])
    predicted = probs.argmax(axis=1)
    for c in range(probs.shape[1]):
        agreed = probs[(labels == c) & (predicted == c), c]
        if len(agreed):
            usual[c] = float(np.quantile(agreed, USUAL))
    # equal up to rounding to single precision
    sure = issues.suggested_probability >= np.maximum(usual[issues.suggested], SURE) - 1e-6
    at = issues.row[sure]
    wrong = predicted != labels
    surest = _surest_predictions(probs, predicted, wrong)
    return Suspects(
        rows[at],
        issues.suggested[sure],
        issues.suggested_probability[sure],
        len(labels),
        error=float(wrong.mean()),
        guessing=1.0 - float(np.bincount(labels).max()) / len(labels),
        sure_errors=int(wrong[surest].sum()),
        sure=len(surest),
    )


def _surest_predictions(probs: Floats, predicted: Labels, wrong: NDArray[np.bool_]) -> Labels:
    """The third or the tenth, whichever has the lower error rate, with the largest probability of each class."""
    subsets = []
    for fraction in SUREST:
        surest = []
        for c in np.unique(predicted):
            members = np.flatnonzero(predicted == c)
            order = np.argsort(-probs[members, c], kind="stable")
            surest.append(members[order[: -(-len(members) // fraction)]])
        subsets.append(np.concatenate(surest))
    large = [rows for rows in subsets if len(rows) >= FEWEST_SURE] or subsets[:1]
    return min(large, key=lambda rows: float(wrong[rows].mean()))


def planted_labels(probs: Floats, rate: float, seed: int) -> tuple[Labels, NDArray[np.bool_]]:
    """Labels that are known to be right, the predicted classes, with some flipped at random; and which ones.

    Args:
        probs: (n, K) probabilities of models that did not see these examples.
        rate: of the flips.
        seed: of the flips.

    Example:
        >>> labels, flipped = planted_labels(np.tile([0.9, 0.1], (1000, 1)), 0.1, seed=0)
        >>> int(labels.sum()) == int(flipped.sum()), 70 < int(flipped.sum()) < 130
        (True, True)
    """
    rng = np.random.default_rng([seed, 91])
    learned, k = probs.argmax(axis=1), probs.shape[1]
    flipped = rng.random(len(probs)) < rate
    return np.where(flipped, (learned + rng.integers(1, k, len(probs))) % k, learned), flipped


def trial_of(probs: Floats, labels: Labels, flipped: NDArray[np.bool_], error: float) -> Trial:
    """Search for planted flips with models that were trained on planted labels; ``error``: of those on the data."""
    suspects = suspect_labels(probs, labels, np.arange(len(labels)))
    recovered = int(flipped[suspects.rows].sum())
    flips = int(flipped.sum())
    return Trial(flips, recovered, len(suspects.rows) - recovered, len(labels) - flips, error)


def flip_rate(suspects: Suspects) -> float:
    """The rate of the flips of a trial: about that of wrong labels in the data."""
    return float(np.clip(suspects.sure_errors / max(1, suspects.sure), *FLIPS))


def find_suspects(evidence: Evidence) -> dict[str, Suspects]:
    """Labels that look wrong: in test by the mean of the good models, in train by out-of-fold predictions."""
    suspects: dict[str, Suspects] = {}
    inputs = evidence.inputs
    if inputs is None:
        return suspects
    labels = evidence.labels
    probs = evidence.test_probs() or evidence.seen_probs()
    learnable = np.isin(labels[inputs.test], labels[inputs.split.train])  # models cannot know the other classes
    if probs and learnable.any():
        rows = inputs.test[learnable]
        truth = labels[rows]
        probs = {name: p[learnable] for name, p in probs.items()}
        errors = {name: float((p.argmax(axis=1) != truth).mean()) for name, p in probs.items()}
        usable = [p for name, p in probs.items() if errors[name] <= USABLE * min(errors.values()) + 1e-9]
        suspects["test"] = suspect_labels(np.mean(usable, axis=0), truth, rows)
    if evidence.out_of_fold is not None:
        train = inputs.split.train
        known = evidence.out_of_fold.sum(axis=1) > 0
        if known.any():
            suspects["train"] = suspect_labels(evidence.out_of_fold[known], labels[train[known]], train[known])
    return {split: dataclasses.replace(item, trial=evidence.trials.get(split)) for split, item in suspects.items()}


def label_table(evidence: Evidence) -> tuple[dict[str, list[Any]], dict[str, NDArray[Any]]]:
    """All suspicious labels: columns of problems/labels.csv, one row per label, and columns of the joined table."""
    dataset = evidence.dataset
    numbers = dataset.metadata.get("row")
    names, files = dataset.class_names, dataset.metadata.get("path")
    rows = []
    suggested = np.full(len(dataset), None, dtype=object)
    probability = np.full(len(dataset), np.nan)
    for split, item in evidence.suspects.items():
        for row, other, value in zip(item.rows, item.suggested, item.probability, strict=True):
            number = int(numbers[row]) if numbers is not None else int(row)
            label = names[int(evidence.labels[row])]
            cells = (number, str(dataset.ids[row]), split, label, names[int(other)], round(float(value), 4))
            rows.append(cells if files is None else (*cells, str(files[row])))
            suggested[row], probability[row] = names[int(other)], float(value)
    columns = {"suggested_label": suggested, "suggested_probability": probability}
    headers = ["row", "id", "split", "label", "suggested", "probability", *(["path"] if files is not None else [])]
    return {name: [row[column] for row in rows] for column, name in enumerate(headers)}, columns
