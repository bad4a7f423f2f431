"""Counts as the columns of a table, and the two sets that they open as; counts of the difficulty model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr

from hardpan import Outcomes, testbed
from hardpan.testbed.sets import TwoSets


def counts_columns(
    models: Sequence[str], original: Any, original_total: Any, new: Any, new_total: Any, **more: Any
) -> dict[str, Any]:
    n = len(models)
    numbers = {
        "original_correct": original,
        "original_total": original_total,
        "new_correct": new,
        "new_total": new_total,
    }
    columns: dict[str, Any] = {"model": list(models)}
    columns |= {name: np.broadcast_to(np.asarray(values), (n,)).tolist() for name, values in numbers.items()}
    return columns | {
        name: [values] * n if isinstance(values, str) else list(values) for name, values in more.items()
    }


def counts_table(*arguments: Any, metric: str | None = None, **more: Any) -> TwoSets:
    return testbed.two_sets(counts_columns(*arguments, **more), metric=metric)


def expected_accuracies(skills: Any, mu: Any = (0.0, 0.5), sigma: Any = (1.0, 1.2)) -> list[np.ndarray]:
    """Accuracies of models on two sets of the Gaussian difficulty model."""
    return [ndtr((np.asarray(skills) - mu[k]) / np.sqrt(sigma[k] ** 2 + 1)) for k in range(2)]


def simulate_counts(skills: Any, examples: Any = (10_000, 2_000), seed: int = 0) -> Outcomes:
    """Counts of models that each see their own examples of the two sets."""
    rng = np.random.default_rng([seed, 2])
    expected = expected_accuracies(skills)
    correct = np.stack([rng.binomial(examples[k], expected[k]) for k in range(2)], axis=1)
    totals = np.broadcast_to(np.array(examples), correct.shape).astype(np.int64)
    names = tuple(f"model-{index:0{len(str(len(correct) - 1))}d}" for index in range(len(correct)))
    return Outcomes(correct / totals, names, np.array(["original", "new"]), totals=totals)
