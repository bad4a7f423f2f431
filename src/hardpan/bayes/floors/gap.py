"""What a model's number cannot promise: how far the model is from the data, as far as a discriminator sees it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.bayes.floors.inputs import Floats, as_classes, as_features, as_labels
from hardpan.estimates import Estimate
from hardpan.files import record

MOST_EACH = 5000
_RANDOM_FEATURES = 1000


@record
@dataclass(frozen=True, slots=True)
class Difference:
    """How well real examples and a model's samples can be told apart.

    Attributes:
        model: name of the model.
        accuracy: held-out accuracy of the discriminator; 0.5 is chance.
        variation: the lower bound 2 × accuracy − 1 of the total variation between data and model, with its
            interval; the total variation itself may be anything above.
        sentence: what follows for the model's Bayes error.
    """

    model: str
    accuracy: Estimate
    variation: Estimate
    sentence: str


def told_apart(
    real: ArrayLike,
    sampled: ArrayLike,
    *,
    real_labels: ArrayLike | None = None,
    sampled_labels: ArrayLike | None = None,
    model: str = "the model",
    confidence: float = 0.95,
    seed: int = 0,
) -> Difference:
    """Bound the total variation between data and a model from below, by a classifier that tells them apart.

    |E(p̂) − E(p)| ≤ TV(p̂, p), and any discriminator of accuracy a shows TV ≥ 2a − 1. A large bound means that
    the model's Bayes error may be far from the data's; a small one promises nothing, since a better discriminator
    may exist. Here: ridge regression on 1,000 random ReLU features of the standardised examples, and on
    their labels where they are given; fitted on four fifths and judged on the rest.

    Args:
        real: (n, ...) real examples that the model was not fitted on.
        sampled: (m, ...) the model's samples.
        real_labels: (n,) classes, and ``sampled_labels``: with both, the joint distribution is compared.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> found = told_apart(rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2)) * [1.0, 2.0])  # TV = 0.32
        >>> 0.1 < found.variation.low < 0.32 < found.variation.high
        True
    """
    from hardpan.testbed import discriminate

    a, b = as_features("real", real), as_features("sampled", sampled)
    if real_labels is not None and sampled_labels is not None:
        first, second = (
            as_labels("real_labels", real_labels, len(a)),
            as_labels("sampled_labels", sampled_labels, len(b)),
        )
        k = as_classes(None, first, second)
        a, b = _with_classes(a, first, k), _with_classes(b, second, k)
    rng = np.random.default_rng([seed, 0])
    a, b = (rows[np.sort(rng.permutation(len(rows))[:MOST_EACH])] for rows in (a, b))
    weights = np.random.default_rng([seed, 1])

    def random_features(x: Floats, which: NDArray[np.int64], judged: Floats) -> NDArray[np.int64]:
        return _ridge(x, which, judged, weights)

    found = discriminate(a, b, classifier=random_features, confidence=confidence, seed=seed)
    accuracy = found.accuracy
    bound = [max(0.0, 2 * end - 1) for end in (accuracy.value, accuracy.low, accuracy.high)]
    variation = Estimate(
        bound[0],
        2 * accuracy.stderr,
        bound[1],
        bound[2],
        confidence,
        "2 × accuracy − 1 of a discriminator on random features, one held-out split",
        accuracy.n,
        seed,
        ("A lower bound: the total variation may be anything above.",),
    )
    return Difference(model, accuracy, variation, _sentence(model, variation))


def _sentence(model: str, variation: Estimate) -> str:
    if variation.low <= 0:
        return f"No difference between the data and the samples of {model} was found; that proves nothing."
    return (
        f"Samples of {model} can be told from the data: the total variation between them is at least "
        f"{100 * variation.low:.2g} %, so nothing here promises that {model}'s Bayes error is nearer to the data's "
        "than that many points."
    )


def _with_classes(rows: NDArray[np.generic], labels: NDArray[np.int64], k: int) -> Floats:
    hot = np.zeros((len(rows), k))
    hot[np.arange(len(rows)), labels] = 1.0
    return np.concatenate([rows.astype(np.float64), hot], axis=1)


def _ridge(x: Floats, which: NDArray[np.int64], judged: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale[scale <= 1e-12 * (1 + np.abs(mean))] = np.inf
    directions = rng.normal(size=(x.shape[1], _RANDOM_FEATURES)) / np.sqrt(max(1, np.isfinite(scale).sum()))
    offsets = rng.normal(size=_RANDOM_FEATURES)

    def lifted(rows: Floats) -> Floats:
        return np.asarray(np.maximum((rows - mean) / scale @ directions + offsets, 0.0))

    inside = lifted(x)
    centre = inside.mean(axis=0)
    inside -= centre
    gram = inside.T @ inside
    gram[np.diag_indices_from(gram)] += 1e-3 * np.trace(gram) / len(gram)
    target = which - which.mean()
    answer = np.linalg.solve(gram, inside.T @ target)
    return np.asarray((lifted(judged) - centre) @ answer + which.mean() > 0.5).astype(np.int64)
