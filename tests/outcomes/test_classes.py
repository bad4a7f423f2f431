"""A wrong class map has to be refused, with a sentence that says what looks wrong; an odd but right one has not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardpan import Outcomes, testbed
from hardpan.errors import InputError
from hardpan.outcomes.classes import check_predicted_classes
from hardpan.testbed.sets import TwoSets

CLASSES = 10


def labelled(n: int, seed: int, classes: int = CLASSES) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.arange(n) % classes)


def guesses(labels: np.ndarray, accuracy: float, seed: int, classes: int = CLASSES) -> np.ndarray:
    rng = np.random.default_rng(seed)
    wrong = (labels + rng.integers(1, classes, size=len(labels))) % classes
    return np.where(rng.random(len(labels)) < accuracy, labels, wrong)


ORIGINAL, NEW = labelled(2000, 1), labelled(1200, 2)


def check(original: np.ndarray, new: np.ndarray, *, labels=(ORIGINAL, NEW), **choices: object) -> TwoSets:
    sides = []
    for said, truth in zip((original, new), labels, strict=True):
        check_predicted_classes("m", said, truth)
        sides.append(Outcomes.from_arrays([said == truth], ["m"], answers=[said], key=truth))
    found = testbed.two_sets(*sides, **choices)  # type: ignore[arg-type]
    for side, said, truth in zip((found.original, found.new), (original, new), labels, strict=True):
        assert side.accuracy == pytest.approx([np.mean(said == truth)])
    return found


@pytest.mark.parametrize("accuracy", [0.1, 0.3, 0.6, 0.99, 1.0])
@pytest.mark.parametrize("classes", [2, 10, 100])
def test_honest_models_pass(accuracy: float, classes: int) -> None:
    accuracy = max(accuracy, 1 / classes)
    labels = labelled(2000, 1, classes), labelled(600, 2, classes)
    for seed in range(5):
        made = [guesses(part, accuracy, seed, classes) for part in labels]
        check(made[0], made[1], labels=labels)


@pytest.mark.parametrize("accuracy", [0.25, 0.4])
def test_weak_models_that_mix_up_the_same_two_classes_pass(accuracy: float) -> None:
    """More often the neighbour than the right class: a poor model, but its classes mean what they say."""
    made = []
    for seed, part in enumerate((ORIGINAL, NEW)):
        rng = np.random.default_rng(seed)
        neighbour = np.where(part % 2 == 0, part + 1, part - 1)
        draw = rng.random(len(part))
        other = rng.integers(0, CLASSES, len(part))
        made.append(np.where(draw < accuracy, part, np.where(draw < 2.2 * accuracy, neighbour, other)))
    check(made[0], made[1])


def test_a_two_class_model_below_one_half_passes() -> None:
    labels = labelled(2000, 1, 2), labelled(1000, 2, 2)
    check(guesses(labels[0], 0.7, 3, 2), guesses(labels[1], 0.4, 4, 2), labels=labels)


def test_a_constant_guess_passes() -> None:
    check(np.full(2000, 3), np.full(1200, 3))


def test_a_majority_guess_on_unbalanced_labels_passes() -> None:
    labels = np.repeat([0, 1], [1900, 100]), np.repeat([0, 1], [550, 50])
    check(np.zeros(2000, dtype=int), np.zeros(600, dtype=int), labels=labels)
    check(np.ones(2000, dtype=int), np.ones(600, dtype=int), labels=labels)


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(CLASSES)), st.sampled_from([0.5, 0.8, 0.97]))
def test_permuted_classes(order: list[int], accuracy: float) -> None:
    table = np.array(order)
    if (table == np.arange(CLASSES)).all():
        return
    with pytest.raises(InputError, match="permuted"):
        check(guesses(ORIGINAL, accuracy, 3), table[guesses(NEW, accuracy, 4)])


def test_two_classes_exchanged() -> None:
    table = np.arange(CLASSES)
    table[[3, 5]] = [5, 3]
    with pytest.raises(InputError, match="permuted"):
        check(table[guesses(ORIGINAL, 0.95, 3)], guesses(NEW, 0.9, 4))


def test_answers_of_a_two_class_model_the_wrong_way_round() -> None:
    labels = labelled(500, 1, 2), labelled(200, 2, 2)
    with pytest.raises(InputError, match="permuted"):
        check(1 - guesses(labels[0], 0.9, 3, 2), guesses(labels[1], 0.9, 4, 2), labels=labels)


@pytest.mark.parametrize("step", [1, -1])
def test_shifted_by_one_beyond_the_range(step: int) -> None:
    with pytest.raises(InputError, match="shifted"):
        check(guesses(ORIGINAL, 0.9, 3) + step, guesses(NEW, 0.9, 4) + step)


@pytest.mark.parametrize("step", [1, -1])
def test_shifted_by_one_and_wrapped_around(step: int) -> None:
    with pytest.raises(InputError, match="shifted"):
        check((guesses(ORIGINAL, 0.9, 3) + step) % CLASSES, guesses(NEW, 0.9, 4))


def test_labels_counted_from_one_are_fine_when_all_do() -> None:
    check(guesses(ORIGINAL, 0.9, 3) + 1, guesses(NEW, 0.9, 4) + 1, labels=(ORIGINAL + 1, NEW + 1))


def test_labels_of_a_subset() -> None:
    few = NEW % 5
    with pytest.raises(InputError, match="labels"):
        check(guesses(ORIGINAL, 0.9, 3), guesses(few, 0.9, 4), labels=(ORIGINAL, few))


def test_a_small_set_may_miss_classes_by_chance() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 200, 20_000), rng.integers(0, 200, 300)
    assert len(np.unique(labels[1])) < 200
    check(guesses(labels[0], 0.8, 3, 200), guesses(labels[1], 0.7, 4, 200), labels=labels)


def test_examples_out_of_order() -> None:
    shuffled = np.random.default_rng(0).permutation(guesses(NEW, 0.9, 4))
    with pytest.raises(InputError, match="order"):
        check(guesses(ORIGINAL, 0.9, 3), shuffled)


def test_the_check_can_be_switched_off() -> None:
    few = NEW % 5
    check(guesses(ORIGINAL, 0.9, 3), guesses(few, 0.9, 4), labels=(ORIGINAL, few), check_classes=False)
