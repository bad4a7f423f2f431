"""The discriminator test: it finds a difference that is there, and seldom one that is not."""

from __future__ import annotations

import numpy as np
import pytest
from reproductions.discrimination import discriminate
from scipy.stats import binom, norm

from hardpan.errors import InputError


def normal(seed: int, n: int, shift: float = 0.0, d: int = 4) -> np.ndarray:
    return np.random.default_rng([5, seed]).normal(shift, 1, (n, d))


def test_false_positives_are_as_rare_as_promised() -> None:
    values = np.array([discriminate(normal(2 * i, 60), normal(2 * i + 1, 75), seed=i).p_value for i in range(80)])
    for level in (0.05, 0.2):
        assert (values <= level).sum() <= binom.isf(1e-4, 80, level)
    assert values.mean() > 0.4


def test_accuracy_reaches_the_bayes_error_of_two_gaussians() -> None:
    found = discriminate(normal(0, 6000), normal(1, 6000, 0.5), test_fraction=0.5)
    assert found.accuracy.low < norm.cdf(0.5) < found.accuracy.high  # distance 1 between the means
    assert found.accuracy.value == pytest.approx(norm.cdf(0.5), abs=0.02)
    assert 0 < found.variation_bound < 2 * norm.cdf(0.5) - 1
    assert found.p_value == pytest.approx(
        binom.sf(round(found.accuracy.value * found.test) - 1, found.test, 0.5), rel=1e-9
    )


def test_split_is_the_paper_s_where_the_sets_are() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(2000) % 10
    found = discriminate(
        rng.normal(size=(2000, 3)), rng.normal(size=(2000, 3)), original_labels=labels, new_labels=labels[::-1]
    )
    assert (found.train, found.test, found.classes) == (3200, 800, 10)


def test_class_shares_alone_do_not_tell_sets_apart() -> None:
    # Features are the class; the sets differ only in how often classes occur.
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 2, 1000), (rng.random(1000) < 0.9).astype(int)
    blind = discriminate(a[:, None], b[:, None])
    balanced = discriminate(a[:, None], b[:, None], original_labels=a, new_labels=b)
    assert blind.p_value < 1e-6
    assert balanced.p_value > 0.05


def test_images_and_own_classifier() -> None:
    def guess(x: np.ndarray, which: np.ndarray, judged: np.ndarray) -> np.ndarray:
        return (judged.mean(axis=1) > 0.5).astype(int)

    found = discriminate(np.zeros((50, 4, 4, 3)), np.ones((60, 4, 4, 3)), classifier=guess)
    assert found.accuracy.value == 1.0
    assert found.classifier == "guess"
    assert found.p_value == pytest.approx(0.5**found.test)


def test_same_seed_same_result() -> None:
    a, b = normal(0, 100), normal(1, 100)
    assert discriminate(a, b, seed=3) == discriminate(a, b, seed=3)


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"original": np.zeros(5)}, "original"),
        ({"new": np.zeros((50, 3))}, ("original", "new")),
        ({"original": np.full((50, 4), np.nan)}, "original"),
        ({"original_labels": np.zeros(50)}, ("original_labels", "new_labels")),
        ({"original_labels": np.zeros(50), "new_labels": np.ones(50)}, ("original_labels", "new_labels")),
        ({"original_labels": np.zeros(3), "new_labels": np.ones(50)}, "original_labels"),
        ({"test_fraction": 1.0}, "test_fraction"),
        ({"original": np.zeros((4, 4))}, ("original", "new")),
    ],
)
def test_bad_input_is_refused(arguments: dict[str, object], argument: str | tuple[str, str]) -> None:
    options: dict[str, object] = {"original": normal(0, 50), "new": normal(1, 50)} | arguments
    with pytest.raises(InputError) as caught:
        discriminate(**options)  # type: ignore[arg-type]
    assert caught.value.argument == argument
