"""Is one model better than another? Every pair on one test set, on the same examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.stats.agreement import holm, mcnemar, paired_bootstrap
from hardpan.testbed.reading import as_table
from hardpan.testbed.tables import Booleans, Outcomes

MOST_PAIRS = 20_000


@record
@dataclass(frozen=True, slots=True)
class Pair:
    """Two models on the same examples.

    Attributes:
        first: the model with the higher accuracy.
        second: the other one.
        difference: accuracy of the first − of the second, with a paired bootstrap interval.
        only_first: examples that only the first gets right.
        only_second: examples that only the second gets right.
        p: exact McNemar p-value.
        p_holm: the same after Holm's correction over all pairs of the table.
    """

    first: str
    second: str
    difference: Estimate
    only_first: int
    only_second: int
    p: float
    p_holm: float


@record
@dataclass(frozen=True, slots=True)
class Pairs:
    """What :func:`pairs` returns: the pairs in the order of the first's, then the second's accuracy."""

    rows: tuple[Pair, ...]
    test_set: str
    metric: str
    confidence: float
    told_apart: int


def pairs(
    table: object,
    *,
    test_set: str = "new",
    models: Sequence[str] = (),
    neighbours: bool = False,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Pairs:
    """McNemar's test and the paired bootstrap for every pair of models, with Holm's correction.

    Args:
        table: :class:`Outcomes` or a file of predictions.
        test_set: "original" or "new".
        models: which models; empty for all.
        neighbours: only pairs next to each other in the ranking.
        confidence: level of the intervals.
        resamples: of the examples.
        seed: of the draws.

    Example:
        >>> from hardpan.testbed import simulate
        >>> result = pairs(simulate([0.0, 2.0], examples=(200, 200)), resamples=500)
        >>> result.rows[0].first, result.rows[0].p < 0.001
        ('model-1', True)
    """
    source = as_table(table)
    if not isinstance(source, Outcomes):
        raise InputError("pairs need right or wrong example by example; a counts table cannot tell which examples")
    if test_set not in ("original", "new"):
        raise InputError(f"test_set must be 'original' or 'new'; got {test_set!r}")
    names = _wanted(source, models)
    chosen = [source.models.index(name) for name in names]
    right = (source.original if test_set == "original" else source.new)[chosen]
    order = np.argsort(-right.mean(axis=1), kind="stable")
    couples = _couples(len(order), neighbours)
    if len(couples) > MOST_PAIRS:
        raise InputError(
            f"{len(couples):,} pairs are too many to read; name fewer models or ask for neighbours in the ranking"
        )
    only = [_discordant(right, order[i], order[j]) for i, j in couples]
    p_values = mcnemar([item[0] for item in only], [item[1] for item in only])
    rows = tuple(
        Pair(
            names[order[i]],
            names[order[j]],
            paired_bootstrap(
                right[order[i]], right[order[j]], resamples=resamples, confidence=confidence, seed=seed
            ),
            *counts,
            float(p),
            float(corrected),
        )
        for (i, j), counts, p, corrected in zip(couples, only, p_values, holm(p_values), strict=True)
    )
    told_apart = sum(row.p_holm < 1.0 - confidence for row in rows)
    return Pairs(rows, test_set, source.metric, confidence, told_apart)


def _wanted(source: Outcomes, models: Sequence[str]) -> tuple[str, ...]:
    for name in models:
        if name not in source.models:
            raise InputError(f"models has {name!r}, which the table does not have")
    names = tuple(dict.fromkeys(models)) or source.models
    if len(names) < 2:
        raise InputError("a pair needs two models; one is left")
    return names


def _couples(count: int, neighbours: bool) -> list[tuple[int, int]]:
    if neighbours:
        return [(i, i + 1) for i in range(count - 1)]
    return [(i, j) for i in range(count) for j in range(i + 1, count)]


def _discordant(right: Booleans, first: int, second: int) -> tuple[int, int]:
    return (
        int(np.count_nonzero(right[first] & ~right[second])),
        int(np.count_nonzero(~right[first] & right[second])),
    )
