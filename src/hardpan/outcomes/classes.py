"""Do predictions and labels use the same class numbers? If not, they are refused with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError

REMEDY = "map them to one numbering first, or switch the class check off if this is intended"

# A gain in accuracy from renaming classes counts as a wrong class map only beyond this and four standard errors.
_GAIN = 0.05
_OWN_NAME = 0.25
_MOST_SAMPLED = 20_000

Predictions = NDArray[np.integer[Any]]


def check_same_classes(original_labels: Predictions, new_labels: Predictions) -> None:
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


def check_predicted_classes(model: str, guesses: Predictions, labels: Predictions) -> None:
    """Refuse predicted classes (N,) that fit the labels (N,) far better once they are renamed."""
    renamed = find_renamed_classes(guesses, labels)
    if renamed is not None:
        first = next(guess for guess, label in renamed.mapping.items() if guess != label)
        raise InputError(
            f"predictions of model {model} are right on {100 * np.mean(guesses == labels):.1f} %, but on "
            f"{100 * renamed.accuracy:.1f} % once classes are renamed (its class {first} occurs mostly on examples "
            f"of class {renamed.mapping[first]}): the classes look permuted or shifted; {REMEDY}"
        )


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


@dataclass(frozen=True, slots=True)
class ClassRenaming:
    """How right the guesses are once each guessed class is renamed to the label of most of its examples.

    The renaming is estimated on one half of the examples and tested on the other, and the other way round, so that
    uninformative guesses gain nothing.

    Attributes:
        accuracy: after renaming.
        mapping: the label of most examples, by guessed class.
    """

    accuracy: float
    mapping: dict[int, int]

    def columns(self, n_classes: int) -> tuple[int, ...]:
        """The order of the columns 0..C-1 that the renaming makes: column ``columns[c]`` belongs to class c.

        Example:
            >>> ClassRenaming(0.9, {0: 1, 1: 0}).columns(3)
            (1, 0, 2)
        """
        column = {label: guess for guess, label in reversed(self.mapping.items())}
        free = [guess for guess in range(n_classes) if guess not in column.values()]
        free.sort(reverse=True)
        return tuple(column[label] if label in column else free.pop() for label in range(n_classes))


def find_renamed_classes(guesses: Predictions, labels: Predictions) -> ClassRenaming | None:
    """The one check of class maps: a renaming of the guessed classes that fits the labels far better, or None.

    It counts where accuracy rises by more than chance and weak models explain.

    Args:
        guesses: (N,) class numbers of a model.
        labels: (N,) class numbers.

    Example:
        >>> labels = np.arange(300) % 3
        >>> find_renamed_classes((labels + 1) % 3, labels).mapping == {0: 2, 1: 0, 2: 1}
        True
        >>> find_renamed_classes(labels, labels) is None
        True
    """
    sample = np.random.default_rng([0, len(labels)]).permutation(len(labels))[:_MOST_SAMPLED]
    guess, label = guesses[sample].astype(np.int64), labels[sample].astype(np.int64)
    half = len(sample) // 2
    halves = (slice(None, half), slice(half, None))
    renamed = np.empty_like(guess)
    for train, test in (halves, halves[::-1]):
        mapping = _majority_classes(guess[train], label[train])
        unknown = int(label.min()) - 1
        renamed[test] = [mapping.get(item, unknown) for item in guess[test].tolist()]
    right, direct, moved = renamed == label, guess == label, renamed != guess
    gain = float(right.mean() - direct.mean())
    error = float(np.sqrt(np.mean(right != direct) / len(sample)))
    # Under a wrong map a renamed class is hardly ever right under its own name; a weak model that mixes two
    # classes up is right under both.
    wrong_name = np.count_nonzero(direct & moved) <= _OWN_NAME * np.count_nonzero(right & moved)
    commonest = np.unique(labels, return_counts=True)[1].max() / len(labels)
    if not wrong_name or gain <= max(_GAIN, 4.0 * error) or right.mean() <= commonest + _GAIN:
        return None
    return ClassRenaming(float(right.mean()), _majority_classes(guess, label))


def _majority_classes(guess: Predictions, label: Predictions) -> dict[int, int]:
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
