"""Near-copies across the split: test rows that are closer to a training row than rows drawn like train would be.

Where the test set is official, rows that were held back from train tell how many test rows would have so near a
neighbour if test were drawn like train. Without such an excess only pairs are listed, rows that are far nearer to
one training row than to any other.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardpan import stats
from hardpan.auditing.columns import LEVEL
from hardpan.auditing.copies import copies_by_class_p_value, held_back_for_copies
from hardpan.auditing.evidence import Evidence, Nearest
from hardpan.bayes.floors.error_estimates import Floats, Labels
from hardpan.bayes.floors.neighbours import nearest_rows
from hardpan.bayes.floors.repeats import row_digests
from hardpan.encoders import DESCRIPTORS
from hardpan.stats.hypothesis_tests import benjamini_hochberg

if TYPE_CHECKING:
    from hardpan.neighbors.image_copies import ImageCopies

HELD_BACK = 5  # random parts of train that are compared with test
NEIGHBOURS = 8  # nearest inputs of train that are kept of each row
QUANTILES = (0.0, 0.01, 0.05, 0.25)  # of the distances within train, up to which a neighbour is near
SEARCH_SHARE = 0.1  # of the budget that the search may take
LEAST_SECONDS = 5.0  # of the search for altered images, whatever the budget
TURNED_AT_ONCE = 10_000
LEAST_WORDS = 6  # of a training text that is altered to see whether it is found
SMALLEST_IMAGE = 8  # pixels a side
PLANTED = 20  # training images that are altered in every way, to see how many are found
FEWEST_SEARCHED = 100


@dataclass(frozen=True, slots=True, eq=False)
class AlteredSearch:
    """Test images or texts that are an altered training example, and how well such examples are found.

    Attributes:
        found: test rows with the training rows that are most like them; distances are 1 less the correlation (of
            texts the proportion of common words), and inf where a pair is no copy.
        alterations: what was done, by test row.
        sensitivity: how many of some training examples that were altered were found, of how many, by alteration.
    """

    found: Nearest
    alterations: Mapping[int, tuple[str, ...]]
    sensitivity: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, eq=False)
class NearCopies:
    """Test rows with a near training row, and whether there are more than in a test set drawn like train.

    Attributes:
        rows: test rows at most ``limit`` away from a training row, nearest first; none equals a training row.
            Without an excess, those of them that are one of a pair.
        limit: the distance, where columns have deviation 1, or vectors of an encoder length 1.
        typical: median distance of a test row to the nearest training row.
        nearest: the smallest distance.
        searched: how many test rows were searched.
        p_value: of the excess; None where the test set is not official.
        expected: how many rows of a test set drawn like train would be so near; None where there is no test.
    """

    rows: Labels
    limit: float
    typical: float
    nearest: float
    searched: int
    p_value: float | None = None
    expected: float | None = None


def nearest_training(evidence: Evidence) -> Nearest:
    """The nearest training inputs of each test row, or of a sample where there are many.

    Where the test set is official, those of training rows among the others, too.
    """
    from hardpan.neighbors.exact import affordable_pairs  # compiled loops, imported when they are first needed

    assert evidence.inputs is not None
    x, group, seed = evidence.inputs.table.scaled, evidence.inputs.equal.group, evidence.config.seed
    train, queries = evidence.training_rows(), evidence.modelled.test
    inputs = train[np.unique(group[train], return_index=True)[1]]
    most = max(100, affordable_pairs(x, SEARCH_SHARE * evidence.config.budget) // len(inputs))
    if len(queries) > most:
        queries = np.sort(np.random.default_rng([seed, 11]).choice(queries, most, replace=False))

    # The length of each vector, where there are no other columns.
    unit = np.sqrt(evidence.inputs.table.directions) if evidence.dataset.vectors is not None else 1.0

    def near(rows: Labels) -> Nearest:
        at, distances = nearest_rows(x[inputs], x[rows], min(NEIGHBOURS + 1, len(inputs)))
        return Nearest(rows, np.asarray(distances, dtype=np.float64) / unit, inputs[at])

    if evidence.dataset.split is None:
        return near(queries)
    own = np.random.default_rng([seed, 12]).permutation(train)[: min(most, 4 * len(queries))]
    return replace(near(queries), own=near(own))


def near_copies(
    found: Nearest,
    group: Labels,
    labels: Labels,
    train: Labels,
    equal: NDArray[np.bool_],
    seed: int = 0,
    quantiles: tuple[float, ...] = QUANTILES,
) -> NearCopies:
    """Test rows that are near a training row.

    Near is a distance within the part of train that was not held back, at the quantile with the smallest p-value.
    Without an excess, :func:`pair_p_values` decides, so that at most 2 % of the listed rows are chance on average.

    Args:
        found: the nearest training inputs of test rows and of training rows.
        group: (N,) groups of equal rows.
        labels: (N,) class numbers.
        train: training rows, all that were searched.
        equal: which rows of ``found`` equal a training row: copies, which are no near-copies.
        seed: of the parts of train that are held back.
        quantiles: of the distances; none where every pair in ``found`` is near.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(1000, 5))
        >>> x[800:815] = x[:15] + 0.01
        >>> at, away = nearest_rows(x[:800], x[800:], 9)
        >>> back, inside = nearest_rows(x[:800], x[:800], 9)
        >>> own = Nearest(np.arange(800), inside, back)
        >>> copies = near_copies(Nearest(np.arange(800, 1000), away, at, own), np.arange(1000),
        ...                      np.zeros(1000, dtype=int), np.arange(800), np.zeros(200, dtype=bool))
        >>> len(copies.rows), copies.expected < 2, copies.p_value < 0.01
        (16, True, True)
    """
    everywhere = np.ones(int(group.max()) + 1, dtype=bool)
    first = np.where(equal, np.inf, _near_copy_distances(found, group, everywhere))
    known = first[np.isfinite(first)]
    typical = float(np.median(known)) if len(known) else np.inf
    limit, p_value, expected = float(np.finfo(np.float64).max), None, None
    if found.own is not None and len(found.own.rows):
        own, new = found.own, found
        asked = np.concatenate([train, found.rows])
        if stats.kept_together_test(group[asked], np.arange(len(asked)) >= len(train)):
            # Inputs were drawn, not rows: of each one row, since rows that equal one of R do not count as near.
            own, new = (_one_row_per_input(item, group) for item in (own, new))
            asked = np.concatenate([own.rows, train])
            train = asked[np.unique(group[asked], return_index=True)[1]]
        p_value, level = excess_of_near_copies(own, new, group, labels, train, seed, quantiles)
        limit = level if level > 0 else limit
    if quantiles and (p_value is None or p_value > LEVEL):
        others = np.where(group[found.training] != group[found.rows][:, None], found.distances, np.inf)
        pairs = np.where(first <= typical, pair_p_values(np.sort(others, axis=1)), 1.0)  # not far from all
        adjusted = benjamini_hochberg(pairs)
        first = np.where(adjusted <= LEVEL, first, np.inf)
        limit = float(first[np.isfinite(first)].max(initial=0.0))
    if p_value is not None:
        alone = np.bincount(group[train], minlength=len(everywhere))[group[own.rows]] == 1
        expected = float((alone & (_near_copy_distances(own, group, everywhere) <= limit)).mean()) * len(first)
    order = np.argsort(first, kind="stable")
    rows = found.rows[order[(first[order] <= limit) & np.isfinite(first[order])]]
    return NearCopies(rows, limit, typical, float(known.min(initial=np.inf)), len(first), p_value, expected)


def pair_p_values(distances: Floats) -> Floats:
    """Probabilities that the nearest row is so much nearer than the next ones in a locally uniform density.

    Of a density that is uniform around a row in any number d of dimensions, T = log(r₂/r₁) is exponential with rate
    d, and S = Σ_{2≤j<k} log(r_k/r_j) + log(r_k/r₂) is independent of it, Gamma(k − 2) with the same rate (Rényi's
    spacings). So P(T/S > t) = (1 + t)^−(k−2), whatever d is; k is the number of finite distances, at least 4. Where
    two distances are equal there is no density, and p is 1.

    Args:
        distances: (n, K) from each row to its nearest rows, ascending; inf where there is none.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p = pair_p_values(np.sort(rng.random((20_000, 9)) ** (1 / 5), axis=1))
        >>> bool(abs((p <= 0.02).mean() - 0.02) < 0.004)
        True
    """
    if distances.shape[1] < 4:
        return np.ones(len(distances))
    known = np.isfinite(distances)
    last = np.where(known, distances, 0.0).max(axis=1, keepdims=True)
    logs = np.log(np.maximum(np.where(known, distances, last), 1e-300))  # what is missing adds nothing to S
    k, farthest = known.sum(axis=1), logs[:, -1]
    spread = (farthest[:, None] - logs[:, 1:]).sum(axis=1) + farthest - logs[:, 1]
    ratio = (logs[:, 1] - logs[:, 0]) / np.maximum(spread, 1e-12)
    tied = ((np.diff(logs, axis=1) < 1e-9) & known[:, 1:]).any(axis=1)
    return np.where((k >= 4) & ~tied, (1 + ratio) ** -(k - 2.0), 1.0)


def excess_of_near_copies(
    own: Nearest,
    new: Nearest,
    group: Labels,
    labels: Labels,
    train: Labels,
    seed: int = 0,
    quantiles: tuple[float, ...] = QUANTILES,
) -> tuple[float, float]:
    """Test whether more test rows have a near neighbour in a part R of train than rows held back from train.

    Of each class as many of the rows ``own`` as test has, at most half of them, are held back; R is the rest of
    train. If test is drawn like train within classes, then, given R, "is no row of R, but at most δ away from one"
    is an independent coin with one probability for held-back and test rows of a class; δ is a quantile of the
    distances within R. One-sided hypergeometric test with classes as strata, for five parts: twice the median
    p-value, times the number of quantiles.

    Args:
        own: the nearest training inputs of training rows (they find themselves, too).
        new: the nearest training inputs of test rows.
        group: (N,) groups of equal rows.
        labels: (N,) class numbers.
        train: training rows, all that were searched.
        seed: of the parts.
        quantiles: of the distances within R; none where every neighbour that ``own`` and ``new`` have is near.

    Returns:
        The p-value, and the median δ of the quantile with the smallest one; 0 where no test row is so near.
    """
    p_values = np.ones((HELD_BACK, max(1, len(quantiles))))
    limits = np.full(p_values.shape, 0.0 if quantiles else np.finfo(np.float64).max)
    for draw in range(HELD_BACK):
        rng = np.random.default_rng([seed, 13, draw])
        back = held_back_for_copies(labels[own.rows], labels[new.rows], rng)
        rest = np.zeros(int(group.max()) + 1, dtype=bool)
        rest[group[np.setdiff1d(train, own.rows[back])]] = True
        of_own, of_new = (_near_copy_distances(item, group, rest) for item in (own, new))
        inside = of_own[~back & np.isfinite(of_own)]
        if not back.any() or (quantiles and not len(inside)):
            continue
        of_own, of_new = (
            np.where(rest[group[item.rows]], np.inf, away) for item, away in ((own, of_own), (new, of_new))
        )
        if quantiles:
            limits[draw] = np.quantile(inside, quantiles, method="lower")
        for level, limit in enumerate(limits[draw]):
            hits = of_own[back] <= limit, labels[own.rows][back], of_new <= limit, labels[new.rows]
            p_values[draw, level] = copies_by_class_p_value(*hits)
    twice = 2 * np.median(p_values, axis=0)
    best = int(twice.argmin())
    p_value = min(1.0, p_values.shape[1] * float(twice[best]))
    return p_value, float(np.median(limits[:, best])) if twice[best] < 1 else 0.0


def _one_row_per_input(found: Nearest, group: Labels) -> Nearest:
    first = np.unique(group[found.rows], return_index=True)[1]
    return Nearest(found.rows[first], found.distances[first], found.training[first])


def _near_copy_distances(found: Nearest, group: Labels, among: NDArray[np.bool_]) -> Floats:
    """(m,) distances to the nearest different input of the groups ``among``; inf where none was found."""
    others = group[found.training]
    usable = among[others] & (others != group[found.rows][:, None])
    return np.asarray(np.where(usable, found.distances, np.inf).min(axis=1))


def altered_images(evidence: Evidence) -> tuple[Labels, AlteredSearch | None]:
    """Test images that are turned training images; and a search for altered ones, from 8 pixels a side on.

    Test images are a sample where the search would take more than a tenth of the budget and five seconds; of 100
    where the time is used up.
    """
    x, config = evidence.dataset.x, evidence.config
    turned = turned_copies(evidence) if evidence.is_images else np.zeros(0, dtype=np.int64)
    if not evidence.is_images or evidence.inputs is None or min(x.shape[1:3]) < SMALLEST_IMAGE:
        return turned, None
    from hardpan.neighbors import image_copies

    group, train, test = evidence.inputs.equal.group, evidence.training_rows(), evidence.modelled.test
    inputs = train[np.unique(group[train], return_index=True)[1]]
    rng = np.random.default_rng([config.seed, 14])
    planted = rng.permutation(inputs)[:PLANTED]
    fixed = image_copies.image_search_seconds(0, len(inputs))
    seconds = 0.0 if time.monotonic() > evidence.deadline else max(LEAST_SECONDS, SEARCH_SHARE * config.budget)
    most = int((seconds - fixed) / (image_copies.image_search_seconds(1, len(inputs)) - fixed))
    most = max(FEWEST_SEARCHED, most - len(planted) * len(image_copies.ALTERATIONS))
    official = evidence.dataset.split is not None
    queries = np.sort(rng.permutation(test)[: most // 2 if official else most])
    theirs = image_copies.grey_grids(x, inputs)

    def near(rows: Labels) -> tuple[Nearest, ImageCopies]:
        copies = image_copies.match_grids(image_copies.grey_grids(x, rows), theirs)
        away = np.where(copies.accepted, 1 - np.abs(copies.correlation), np.inf)
        return Nearest(rows, away, inputs[copies.references]), copies

    nearest, copies = near(queries)
    others = np.where(group[nearest.training] != group[queries][:, None], nearest.distances, np.inf)
    first = others.argmin(axis=1).tolist()
    done = {row: copies.alterations(at, first[at]) for at, row in enumerate(queries.tolist())}
    sensitivity = {}
    for name, images in image_copies.altered_copies(x[planted], config.seed).items():
        again = image_copies.match_grids(image_copies.grey_grids(images), theirs)
        hits = (again.accepted & (inputs[again.references] == planted[:, None])).any(axis=1)
        sensitivity[name] = (int(hits.sum()), len(planted))
    own = near(rng.permutation(train)[: 2 * len(queries)])[0] if official else None
    return turned, AlteredSearch(replace(nearest, own=own), done, sensitivity)


def altered_texts(evidence: Evidence) -> AlteredSearch | None:
    """Search the test texts for altered training texts; a sample where that would take a tenth of the budget."""
    from hardpan.neighbors import text_copies  # imported where there are texts

    dataset = evidence.dataset
    assert evidence.inputs is not None
    assert dataset.texts is not None
    texts, group, seed = dataset.texts, evidence.inputs.equal.group, evidence.config.seed
    train, test = evidence.training_rows(), evidence.modelled.test
    inputs = train[np.unique(group[train], return_index=True)[1]]
    rng = np.random.default_rng([seed, 14])
    most = int(max(LEAST_SECONDS, SEARCH_SHARE * evidence.config.budget) * text_copies.SEARCHES_PER_SECOND)
    official = dataset.split is not None
    queries = np.sort(rng.permutation(test)[: most // 3 if official else most])
    own = rng.permutation(train)[: 2 * len(queries)] if official else train[:0]
    planted = [row for row in rng.permutation(inputs).tolist() if len(texts[row].split()) >= LEAST_WORDS][:PLANTED]
    edited = text_copies.altered_texts(texts[planted].tolist(), seed)
    rows = np.concatenate([queries, own])
    words_of = [*texts[rows].tolist(), *(text for edits in edited.values() for text in edits)]
    copies = text_copies.match_texts(words_of, texts[inputs].tolist())
    away, training = np.where(copies.accepted, 1 - copies.similarity, np.inf), inputs[copies.references]
    at = len(rows) + np.arange(len(planted))
    sensitivity = {}
    for name in edited:
        hits = (copies.accepted[at] & (training[at] == np.array(planted)[:, None])).any(axis=1)
        sensitivity[name] = (int(hits.sum()), len(planted))
        at = at + len(planted)
    m = len(queries)
    nearest = Nearest(queries, away[:m], training[:m])
    others = np.where(group[nearest.training] != group[queries][:, None], nearest.distances, np.inf)
    first = others.argmin(axis=1)
    done = {
        row: (text_copies.text_alteration(texts[row], texts[nearest.training[place, first[place]]]),)
        for place, row in enumerate(queries.tolist())
        if np.isfinite(others[place, first[place]])
    }
    if official:
        nearest = replace(nearest, own=Nearest(own, away[m : len(rows)], training[m : len(rows)]))
    return AlteredSearch(nearest, done, sensitivity if planted else {})


def find_near_copies(evidence: Evidence) -> Iterator[tuple[Labels, float | None, dict[str, Any]]]:
    """Test rows near a training row, the p-value of their excess, and details, by search.

    The searches: altered images or texts; the features of a table, or the vectors of an encoder.
    """
    altered = evidence.altered
    encoder = evidence.dataset.encoder.replace(DESCRIPTORS, "")  # they know no meaning
    if altered is not None:
        yield _rows_near_training(evidence, altered.found, altered)
    elif evidence.is_images:
        yield evidence.turned, None, {"searched": len(evidence.split.test), "p_value": None}
    if evidence.nearest is not None and (encoder or (altered is None and not evidence.is_images)):
        rows, p_value, details = _rows_near_training(evidence, evidence.nearest, None)
        yield rows, p_value, details | ({"encoder": encoder} if encoder else {})


def _rows_near_training(
    evidence: Evidence, search: Nearest, altered: AlteredSearch | None
) -> tuple[Labels, float | None, dict[str, Any]]:
    assert evidence.inputs is not None
    group, turned = evidence.inputs.equal.group, evidence.turned
    equal = np.isin(group[search.rows], group[np.concatenate([evidence.split.train, evidence.split.validation])])
    near = near_copies(
        search,
        group,
        evidence.labels,
        evidence.training_rows(),
        equal,
        evidence.config.seed,
        QUANTILES if altered is None else (),
    )
    if altered is None:
        names = ("limit", "typical", "nearest", "expected", "p_value", "searched")
        return near.rows, near.p_value, {name: getattr(near, name) for name in names}
    done = Counter(name for row in near.rows.tolist() for name in altered.alterations[row])
    missed = turned[~np.isin(turned, near.rows)]
    details = {
        "searched": len(np.union1d(search.rows, turned)),
        "alterations": dict(done) | ({"exactly turned or mirrored": len(missed)} if len(missed) else {}),
        "sensitivity": dict(altered.sensitivity),
        "expected": near.expected,
        "p_value": near.p_value,
    }
    return np.concatenate([near.rows, missed]), near.p_value, details


def nearest_columns(evidence: Evidence) -> dict[str, NDArray[Any]]:
    """Columns of the joined table: of a test example, the nearest training example."""
    dataset, n = evidence.dataset, len(evidence.dataset)
    names, away, parts = np.full(n, None, dtype=object), np.full(n, np.nan), np.full(n, None, dtype=object)
    # An altered copy is a better pair than the nearest pixels.
    for nearest in (evidence.nearest, None if evidence.altered is None else evidence.altered.found):
        if nearest is not None:
            near = np.isfinite(nearest.distances[:, 0])
            at, first = nearest.rows[near], nearest.training[near, 0]
            names[at], away[at] = dataset.ids[first], nearest.distances[near, 0]
            parts[at] = np.where(np.isin(first, evidence.split.train), "train", "validation")
    return {"duplicate": names, "duplicate_distance": away, "duplicate_split": parts}


def turned_copies(evidence: Evidence) -> Labels:
    """Test images that equal a training image after a quarter turn, a half turn or mirroring, not as they are."""
    from hardpan.neighbors.image_copies import turned_images

    x, split = evidence.dataset.x, evidence.split
    elsewhere = np.zeros(len(x), dtype=bool)
    elsewhere[split.train] = elsewhere[split.validation] = True
    own = row_digests(x)
    known = np.unique(own[elsewhere])
    copied = np.zeros(len(split.test), dtype=bool)
    for start in range(0, len(split.test), TURNED_AT_ONCE):
        images = x[split.test[start : start + TURNED_AT_ONCE]]
        for turned in turned_images(images):
            copied[start : start + len(images)] |= np.isin(row_digests(turned), known)
    return np.asarray(split.test[copied & ~np.isin(own[split.test], known)])
