"""Where the best model errs more than elsewhere: found on one half of the test rows, confirmed on the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from hardpan import stats
from hardpan.auditing.evidence import Evidence
from hardpan.auditing.problems import ALPHA
from hardpan.bayes.floors.error_estimates import Floats, Labels
from hardpan.estimates import Estimate
from hardpan.files import record

FEWEST = 10  # rows of a slice in each half
MOST_TRIED = 10  # slices that the second half is asked about
MOST_VALUES = 20  # values of a column that are slices, the most frequent ones
CLUSTERS = 8
CLUSTER = "cluster"
MOST_FITTED = 5000  # training rows that clusters are fitted on
QUANTILE = 0.2


@record
class ErrorSlice:
    """Rows on which the best model errs more.

    Attributes:
        column: what the rows have in common: a column, "brightness", "text length", "cluster", ...
        values: which rows: "at most 3", "at least 7", "= red", "missing".
        error: of the model on these rows of the second half.
        elsewhere: on the other rows of the second half.
        rows: numbers of some of the test rows, errors first.
        p_value: of the second half, Holm-adjusted over the slices that were tried there.
    """

    column: str
    values: str
    error: Estimate
    elsewhere: Estimate
    rows: tuple[int, ...]
    p_value: float


@record
class ErrorSlices:
    """Slices that the second half of the test rows confirms.

    Attributes:
        found: the confirmed ones, the largest error first, clusters last.
        searched: how many slices the first half was searched for.
        columns: in how many columns.
    """

    found: tuple[ErrorSlice, ...]
    searched: int
    columns: int


def error_slices(evidence: Evidence) -> ErrorSlices | None:
    """Search slices on one half of the test rows, confirm them on the other; None where the errors are unknown."""
    inputs, answers = evidence.inputs, evidence.best_answers()
    if inputs is None or answers is None or len(inputs.test) < 4 * FEWEST or evidence.is_late("slices"):
        return None
    test = inputs.test
    wrong = answers != evidence.labels[test]
    unit = inputs.group[test] if inputs.unit != "rows" else np.arange(len(test))
    number = np.unique(unit, return_inverse=True)[1].ravel()
    half = np.random.default_rng([evidence.config.seed, 97]).permutation(number.max() + 1) % 2
    second = half[number] == 1
    slices = [item for item in _candidate_slices(evidence, test) if _is_large(item[2], second)]
    confirmed = find_slices(wrong, number, second, [rows for *_, rows in slices])
    results = []
    for at, p_value in confirmed:
        column, values, rows = slices[at]
        own, others = rows & second, ~rows & second
        error, elsewhere = (
            inputs.share(wrong[members], test[members], evidence.config.confidence) for members in (own, others)
        )
        some = np.concatenate([test[rows & wrong], test[rows & ~wrong]])[:200]
        results.append(ErrorSlice(column, values, error, elsewhere, tuple(map(int, some)), p_value))
    results.sort(key=lambda item: (item.column == CLUSTER, -item.error.value))
    return ErrorSlices(tuple(results), len(slices), len({column for column, *_ in slices}))


def find_slices(
    wrong: NDArray[np.bool_], group: Labels, second: NDArray[np.bool_], slices: list[NDArray[np.bool_]]
) -> list[tuple[int, float]]:
    """Numbers of the confirmed slices with their adjusted p-values.

    The first half ranks the slices by their p-value; the ten smallest (of equal slices one) are tested on the
    second half, one-sided, with Holm's procedure at 2 %. So a slice without excess is confirmed with probability
    2 % at most over all of them, whatever the first half was searched for.

    Args:
        wrong: (m,) where the model errs.
        group: (m,) independent units.
        second: (m,) rows of the second half; a unit is in one half.
        slices: (m,) rows of each slice.

    Source: Holm (1979), A simple sequentially rejective multiple test procedure.

    Example:
        >>> rows, rng = np.arange(400), np.random.default_rng(0)
        >>> bad = rows % 4 == 0
        >>> wrong = rng.random(400) < np.where(bad, 0.5, 0.05)
        >>> [at for at, _ in find_slices(wrong, rows, rows >= 200, [rows % 3 == 0, bad])]
        [1]
    """
    first = [excess_p_value(wrong[~second], rows[~second], group[~second]) for rows in slices]
    tried: list[int] = []
    for at in np.argsort(first, kind="stable").tolist():
        if len(tried) < MOST_TRIED and not any(np.array_equal(slices[at], slices[other]) for other in tried):
            tried.append(at)
    adjusted = stats.holm([excess_p_value(wrong[second], slices[at][second], group[second]) for at in tried])
    return [(at, float(p)) for at, p in zip(tried, adjusted, strict=True) if p <= ALPHA]


def excess_p_value(wrong: NDArray[np.bool_], inside: NDArray[np.bool_], group: Labels) -> float:
    """One-sided p-value of a higher error inside: hypergeometric, of units with several rows a t test."""
    n, k = len(wrong), int(inside.sum())
    if not 0 < k < n or not wrong.any():
        return 1.0
    if len(np.unique(group)) == n:
        return float(hypergeom.sf(int((wrong & inside).sum()) - 1, n, int(wrong.sum()), k))
    rates = wrong[inside].mean(), wrong[~inside].mean()
    parts = np.where(inside, (wrong - rates[0]) / k, -(wrong - rates[1]) / (n - k))
    sums = np.bincount(np.unique(group, return_inverse=True)[1].ravel(), parts)
    spread = float(np.sqrt((sums**2).sum() * len(sums) / max(1, len(sums) - 1)))
    if spread == 0:
        return 1.0
    from scipy.special import stdtr

    return float(stdtr(max(1, len(sums) - 1), -(rates[0] - rates[1]) / spread))


def _is_large(rows: NDArray[np.bool_], second: NDArray[np.bool_]) -> bool:
    return all(FEWEST <= int((rows & side).sum()) <= int(side.sum()) - FEWEST for side in (second, ~second))


def _candidate_slices(evidence: Evidence, test: Labels) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Column, values and rows of every slice: low and high fifths, values, missing ones, clusters."""
    for name, values in _slicing_columns(evidence, test).items():
        missing = np.array([value is None or value != value for value in values.tolist()], dtype=bool)
        if missing.any():
            yield name, "missing", missing
        known = values[~missing]
        if not len(known):
            continue
        try:
            numbers = values.astype(np.float64)
            distinct = len(np.unique(numbers[~missing]))
        except (TypeError, ValueError):
            numbers, distinct = None, 0
        if numbers is None or distinct <= 10:
            kinds, counts = np.unique(known.astype(str), return_counts=True)
            text = values.astype(str)
            for kind in kinds[np.argsort(-counts, kind="stable")][:MOST_VALUES]:
                yield name, f"= {kind}", (text == kind) & ~missing
        else:
            low, high = np.nanquantile(numbers, [QUANTILE, 1 - QUANTILE])
            yield name, f"at most {low:.4g}", numbers <= low
            yield name, f"at least {high:.4g}", numbers >= high


def _slicing_columns(evidence: Evidence, test: Labels) -> dict[str, NDArray[np.object_]]:
    """Columns of the test rows by name: of the table, the metadata, brightness of images, lengths of texts."""
    dataset = evidence.dataset
    columns: dict[str, NDArray[np.object_]] = {}
    if evidence.contents is not None:
        for name, values in evidence.contents.columns.items():
            if name == "text":
                columns["text length"] = np.array([len(str(text)) for text in values[test]], dtype=object)
            else:
                columns[name] = values[test]
    if evidence.is_images:
        images = np.asarray(dataset.x[test], dtype=np.float32).reshape(len(test), -1)
        columns |= {"brightness": images.mean(axis=1).astype(object), "contrast": images.std(axis=1).astype(object)}
    clusters = _clusters(evidence, test)
    return columns if clusters is None else columns | {CLUSTER: clusters.astype(str).astype(object)}


def _clusters(evidence: Evidence, test: Labels) -> NDArray[np.int64] | None:
    """The k-means cluster of each test row, fitted on training rows."""
    from sklearn.cluster import MiniBatchKMeans

    assert evidence.inputs is not None
    scaled = evidence.inputs.table.scaled
    train = evidence.inputs.split.train
    if not isinstance(scaled, np.ndarray) or len(train) < 10 * CLUSTERS:
        return None
    rows = train[:: max(1, -(-len(train) // MOST_FITTED))]
    model = MiniBatchKMeans(CLUSTERS, random_state=evidence.config.seed % 2**31, n_init=3, max_iter=50)
    fitted: Floats = np.asarray(scaled[rows], dtype=np.float64)
    return np.asarray(model.fit(fitted).predict(np.asarray(scaled[test], dtype=np.float64)), dtype=np.int64)
