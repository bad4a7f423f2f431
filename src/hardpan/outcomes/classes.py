"""Do predictions and labels use the same class numbers? If not, they are refused with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError
from hardpan.stats.intervals import clopper_pearson

REMEDY = "map them to one numbering first, or switch the class check off if this is intended"

# A gain in accuracy from renaming classes counts as a wrong class map only beyond this and four standard errors.
_GAIN = 0.05
_OWN_NAME = 0.25
_SURE = 0.9999
_FAR_BELOW = 0.5  # of chance
_LOOK_CLOSER = 20_000
_MODELS_AT_ONCE = 64

Predictions = NDArray[np.integer[Any]]


def check_sets(original_labels: Predictions, new_labels: Predictions) -> None:
    """Refuse two sets whose labels do not name the same classes, beyond what their sizes explain."""
    for here, there, name, other in (
        (original_labels, new_labels, "new", "original"),
        (new_labels, original_labels, "original", "new"),
    ):
        classes, sizes = np.unique(here, return_counts=True)
        missing = ~np.isin(classes, there)
        # A class with proportion q is absent from N examples with probability (1 − q)^N.
        expected = float(np.sum((1.0 - sizes / sizes.sum()) ** len(there)))
        if np.count_nonzero(missing) > expected + 5.0 * np.sqrt(expected) + 0.5:
            raise InputError(
                f"labels of the {name} set name {len(classes) - np.count_nonzero(missing)} of the {len(classes)} "
                f"classes of the {other} set: they look like a subset or another numbering; {REMEDY}"
            )


def check_predictions(
    models: Sequence[str], predictions: Predictions, labels: Predictions, classes: Predictions, where: str
) -> NDArray[np.float64]:
    """Refuse predictions of one set that look permuted, shifted, of another size, or with columns reversed.

    Args:
        models: (M,) names.
        predictions: (M, N, k) class numbers, best guess first.
        labels: (N,) class numbers.
        classes: the class numbers that may occur, sorted.
        where: name of the set, for messages.

    Returns:
        (M,) top-1 accuracies.
    """
    order = np.argsort(labels, kind="stable")
    _, starts = np.unique(labels[order], return_index=True)
    sizes = np.diff([*starts, len(labels)])
    accuracies = np.empty(len(models))
    for start in range(0, len(models), _MODELS_AT_ONCE):
        batch = slice(start, start + _MODELS_AT_ONCE)
        block = predictions[batch]
        right = block[:, :, 0] == labels
        accuracies[batch] = right.mean(axis=1)
        hits = np.add.reduceat(right[:, order], starts, axis=1, dtype=np.int64)
        rarely = hits < 0.25 * accuracies[batch, None] * sizes
        poor = (rarely * sizes).sum(axis=1) / len(labels)
        low, high = block.min(axis=(1, 2)), block.max(axis=(1, 2))
        for i, model in enumerate(models[batch]):
            _check_order(model, block[i], labels, where)
            if low[i] < classes[0] or high[i] > classes[-1]:
                _refuse_range(model, block[i, :, 0], (int(low[i]), int(high[i])), labels, classes, where)
            # A wrong class map leaves classes that are hardly ever right; other models need no closer look.
            if poor[i] >= _GAIN or accuracies[start + i] < 2.0 / len(classes):
                _look_closer(model, block[i, :, 0], labels, classes, where)
    return accuracies


def check_both(
    models: Sequence[str], original: NDArray[np.float64], new: NDArray[np.float64], chance: float
) -> None:
    """Refuse a model that is good on one set and no better than chance on the other."""
    for name, good, poor in (("new", original, new), ("original", new, original)):
        suspicious = (poor <= 1.5 * chance) & (good >= 5.0 * chance) & (good >= 0.3) & (good >= poor + 0.25)
        if suspicious.any():
            row = int(np.argmax(suspicious))
            both = (
                f"is right on {100 * good[row]:.1f} % of one set but on {100 * poor[row]:.1f} % of the {name} set"
            )
            raise InputError(
                f"model {models[row]} {both}, no better than chance: "
                f"its predictions and the labels look out of order; {REMEDY}"
            )


def _check_order(model: str, guesses: Predictions, labels: Predictions, where: str) -> None:
    if guesses.shape[1] < 2:
        return
    by_column = (guesses == labels[:, None]).mean(axis=0)
    best = int(np.argmax(by_column))
    if by_column[best] - by_column[0] > _accuracy_margin(len(labels)):
        order = "in rising instead of falling order" if best == guesses.shape[1] - 1 else "out of order"
        raise InputError(
            f"top-{guesses.shape[1]} predictions of model {model} on the {where} set: column {best + 1} is right "
            f"on {100 * by_column[best]:.1f} %, column 1 on {100 * by_column[0]:.1f} %: the columns look {order}; "
            "give the best guess first"
        )


def _refuse_range(
    model: str,
    guesses: Predictions,
    reach: tuple[int, int],
    labels: Predictions,
    classes: Predictions,
    where: str,
) -> None:
    span = f"predictions of model {model} on the {where} set run from {reach[0]} to {reach[1]}"
    own = f"the labels from {classes[0]} to {classes[-1]}"
    shift = _class_shift(guesses, labels, classes, _renaming(guesses, labels))
    if shift is not None:
        raise InputError(f"{span}, {own}: the predictions look shifted by one ({shift:+d}); {REMEDY}")
    raise InputError(
        f"{span}, {own}: the predictions look made for another number of classes "
        f"({reach[1] - min(reach[0], int(classes[0])) + 1}, not {int(classes[-1] - classes[0]) + 1}); {REMEDY}"
    )


def _look_closer(model: str, guesses: Predictions, labels: Predictions, classes: Predictions, where: str) -> None:
    named = np.unique(guesses)
    if len(named) < 2:
        return  # A constant guess carries no class map that could be wrong.
    renamed = wrong_names(guesses, labels)
    say = f"predictions of model {model} on the {where} set are right on {100 * np.mean(guesses == labels):.1f} %"
    if renamed is not None:
        shift = _class_shift(guesses, labels, classes, renamed)
        if shift is not None:
            raise InputError(
                f"{say}, and on far more once shifted: they look shifted by one ({shift:+d}); {REMEDY}"
            )
        if len(named) <= len(classes) // 2:
            raise InputError(
                f"{say} and name only {len(named)} of {len(classes)} classes: "
                f"they look like the numbering of a subset; {REMEDY}"
            )
        first = next(key for key, label in renamed.mapping.items() if key != label)
        raise InputError(
            f"{say}, but on {100 * renamed.accuracy:.1f} % once classes are renamed (its class {first} occurs "
            f"mostly on examples of class {renamed.mapping[first]}): they look permuted; {REMEDY}"
        )
    _check_subset(say, guesses, labels, named, classes)
    high = float(clopper_pearson(int(np.sum(guesses == labels)), len(labels), _SURE)[1])
    if high < _FAR_BELOW / len(classes):
        raise InputError(
            f"{say}, far below the {100 / len(classes):.3g} % of chance: the class map looks wrong; {REMEDY}"
        )


def _check_subset(
    say: str, guesses: Predictions, labels: Predictions, named: Predictions, classes: Predictions
) -> None:
    present = np.unique(labels)
    covered = np.isin(labels, named)
    if len(np.intersect1d(named, present)) > len(present) // 2 or not covered.any():
        return
    inside = float(np.mean(guesses[covered] == labels[covered]))
    if inside > 0.5 + 0.5 / len(named):
        raise InputError(
            f"{say}, name only {len(named)} of {len(classes)} classes and are right on {100 * inside:.1f} % of "
            f"these: the model looks made for a subset of the classes; {REMEDY}"
        )


@dataclass(frozen=True, slots=True)
class Renaming:
    """How right the guesses are once each guessed class is renamed to the label of most of its examples.

    The renaming is estimated on one half of the examples and tested on the other, and the other way round, so that
    uninformative guesses gain nothing.

    Attributes:
        accuracy: after renaming.
        gain_is_real: whether it is above the accuracy before by more than chance and weak models explain.
        mapping: the label of most examples, by guessed class.
    """

    accuracy: float
    gain_is_real: bool
    mapping: dict[int, int]

    def columns(self, n_classes: int) -> tuple[int, ...]:
        """The order of the columns 0..C-1 that the renaming makes: column ``columns[c]`` belongs to class c.

        Example:
            >>> Renaming(0.9, True, {0: 1, 1: 0}).columns(3)
            (1, 0, 2)
        """
        column = {label: guess for guess, label in reversed(self.mapping.items())}
        free = [guess for guess in range(n_classes) if guess not in column.values()]
        free.sort(reverse=True)
        return tuple(column[label] if label in column else free.pop() for label in range(n_classes))


def wrong_names(guesses: Predictions, labels: Predictions) -> Renaming | None:
    """The one check of class maps: a renaming of the guessed classes that fits the labels far better, or None.

    Args:
        guesses: (N,) class numbers of a model.
        labels: (N,) class numbers.

    Example:
        >>> labels = np.arange(300) % 3
        >>> wrong_names((labels + 1) % 3, labels).mapping == {0: 2, 1: 0, 2: 1}
        True
        >>> wrong_names(labels, labels) is None
        True
    """
    renamed = _renaming(guesses, labels)
    commonest = np.unique(labels, return_counts=True)[1].max() / len(labels)
    return renamed if renamed.gain_is_real and renamed.accuracy > commonest + _GAIN else None


def _renaming(guesses: Predictions, labels: Predictions) -> Renaming:
    sample = np.random.default_rng([0, len(labels)]).permutation(len(labels))[:_LOOK_CLOSER]
    guess, label = guesses[sample].astype(np.int64), labels[sample].astype(np.int64)
    half = len(sample) // 2
    halves = (slice(None, half), slice(half, None))
    renamed = np.empty_like(guess)
    for train, test in (halves, halves[::-1]):
        mapping = _majority_map(guess[train], label[train])
        unknown = int(label.min()) - 1
        renamed[test] = [mapping.get(item, unknown) for item in guess[test].tolist()]
    right, direct, moved = renamed == label, guess == label, renamed != guess
    gain = float(right.mean() - direct.mean())
    error = float(np.sqrt(np.mean(right != direct) / len(sample)))
    # Under a wrong map a renamed class is hardly ever right under its own name; a weak model that mixes two
    # classes up is right under both.
    wrong_name = np.count_nonzero(direct & moved) <= _OWN_NAME * np.count_nonzero(right & moved)
    is_real = gain > max(_GAIN, 4.0 * error) and bool(wrong_name)
    return Renaming(float(right.mean()), is_real, _majority_map(guess, label))


def _majority_map(guess: Predictions, label: Predictions) -> dict[int, int]:
    """The commonest label by guessed class, the surest first."""
    if len(guess) == 0:
        return {}
    lowest = int(min(guess.min(), label.min()))
    width = int(max(guess.max(), label.max())) - lowest + 1
    pairs, counts = np.unique((guess - lowest) * width + (label - lowest), return_counts=True)
    mapping: dict[int, int] = {}
    for pair in pairs[np.argsort(-counts, kind="stable")].tolist():
        mapping.setdefault(pair // width + lowest, pair % width + lowest)
    return mapping


def _class_shift(guesses: Predictions, labels: Predictions, classes: Predictions, renamed: Renaming) -> int | None:
    direct = float(np.mean(guesses == labels))
    lowest, size = int(classes[0]), int(classes[-1] - classes[0]) + 1
    wide = guesses.astype(np.int64) - lowest
    inside = wide.min() >= 0 and wide.max() < size
    for step in (1, -1):
        moved = (wide - step) % size if inside else wide - step
        share = float(np.mean(moved == labels - lowest))
        # A shift has to explain nearly all that any renaming could.
        if share - direct > _GAIN and share > 0.8 * renamed.accuracy:
            return step
    return None


def _accuracy_margin(n: int) -> float:
    return float(max(_GAIN, 5.0 * np.sqrt(0.25 / n)))
