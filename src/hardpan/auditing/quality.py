"""Data quality: exact copies, copies with different labels, and near-duplicates across the parts of the split."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardpan import numbers, stats
from hardpan.auditing.evidence import Evidence, Finding
from hardpan.data.dataset import content_ids, content_of
from hardpan.estimates import Estimate
from hardpan.report.galleries import gallery_chart, thumbnails
from hardpan.report.sections import Chart, Section, Table

MOST_PRODUCTS = 6e12  # multiplications that the search may take; about a minute on two cores
NEAR = 0.25  # nearer than a quarter of the usual distance to the nearest neighbour: worth a look
SHOWN_PAIRS = 12
MOST_ROWS = 40
METHOD = (
    "Two examples are exact copies when their numbers are the same. The nearest training example of each test "
    "example is found exactly (Euclidean distance); pairs nearer than a quarter of the median of these distances "
    "are listed as near-duplicates. That is a list to look at, not a verdict.",
)
CITATIONS = (
    "Recht, Roelofs, Schmidt and Shankar, “Do ImageNet Classifiers Generalize to ImageNet?”, 2019, Appendix B.",
    "Barz and Denzler, “Do We Train on Test Data? Purging CIFAR of Near-Duplicates”, 2020.",
)


def find(evidence: Evidence) -> Finding:
    """Look for copies, conflicting labels and near-duplicates."""
    dataset, split = evidence.dataset, evidence.split
    groups = _groups(evidence)
    part = _part_numbers(evidence)
    across = [rows for rows in groups if (part[rows] == 2).any() and (part[rows] != 2).any()]
    conflicts = [rows for rows in groups if len(np.unique(evidence.labels[rows])) > 1]
    leaked = sum(int((part[rows] == 2).sum()) for rows in across)
    shown = stats.share(leaked, len(split.test), evidence.config.confidence)
    sentences = _of_copies(groups, leaked, shown, conflicts, len(dataset))
    tables = [_group_table("Copies with different labels", conflicts, evidence)] if conflicts else []
    charts: list[Chart] = []
    queries, distances, nearest = _nearest(evidence)
    usual = float(np.median(distances))
    near = np.flatnonzero(distances < NEAR * usual)
    near = near[np.argsort(distances[near], kind="stable")]
    asked = "" if len(queries) == len(split.test) else f" of {len(queries):,} that were searched for"
    nearer = f"nearer than a quarter of the usual distance, {usual:.3g}"
    with_one = f"{numbers.counted(len(near), 'test example')}{asked} {_have(len(near))}"
    sentences.append(
        f"{with_one} a near-duplicate in the training part ({nearer}): a model may know the answer by heart."
        if len(near)
        else f"No test example{asked} has a near-duplicate in the training part ({nearer})."
    )
    if len(near):
        tables.append(_pair_table(near[:MOST_ROWS], queries, distances, nearest, evidence))
    closest = np.argsort(distances, kind="stable")[:SHOWN_PAIRS]
    picture = _pairs(closest, queries, distances, nearest, evidence)
    if picture is not None:
        charts.append(picture)
    return Finding(
        Section("Data quality", tuple(sentences), charts=tuple(charts), tables=tuple(tables)),
        method=METHOD,
        citations=CITATIONS,
        measures={"duplicated": shown},
        columns=_columns(queries, distances, nearest, evidence),
    )


def _of_copies(
    groups: list[NDArray[np.int64]], leaked: int, shown: Estimate, conflicts: list[NDArray[np.int64]], n: int
) -> list[str]:
    """What there is of exact copies, in three sentences."""
    copies = sum(len(rows) - 1 for rows in groups)
    copied = "is an exact copy" if copies == 1 else "are exact copies"
    test = f"{numbers.counted(leaked, 'test example')} ({numbers.estimate(shown)}) {_have(leaked)}"
    disagree = f"{numbers.counted(len(conflicts), 'group')} of copies {_have(len(conflicts))}"
    return [
        f"{copies:,} of {n:,} examples {copied} of another."
        if copies
        else "No two examples are exact copies of one another.",
        f"{test} an exact copy outside the test part."
        if leaked
        else "No test example has an exact copy outside the test part.",
        f"{disagree} labels that disagree." if conflicts else "No copies have labels that disagree.",
    ]


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _groups(evidence: Evidence) -> list[NDArray[np.int64]]:
    """Rows that hold the same numbers, two or more together."""
    ids = content_ids(evidence.dataset.x)
    contents = np.array([content_of(str(name)) for name in ids])
    order = np.argsort(contents, kind="stable")
    edges = np.flatnonzero(contents[order][1:] != contents[order][:-1]) + 1
    return [rows for rows in np.split(order, edges) if len(rows) > 1]


def _part_numbers(evidence: Evidence) -> NDArray[np.int64]:
    part = np.zeros(len(evidence.dataset), dtype=np.int64)
    part[evidence.split.validation], part[evidence.split.test] = 1, 2
    return part


def _nearest(evidence: Evidence) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Test rows, the distance of each to its nearest training row, and that row."""
    from hardpan.neighbors.near import near_duplicates

    train, test, x = evidence.split.train, evidence.split.test, evidence.features
    most = max(100, int(MOST_PRODUCTS / max(1, len(train) * x.shape[1])))
    queries = test
    if len(test) > most:
        queries = np.sort(np.random.default_rng([evidence.config.seed, 11]).choice(test, most, replace=False))
    distances, places = near_duplicates(x[queries], x[train], k=1)
    return queries, np.asarray(distances[:, 0], dtype=np.float64), train[places[:, 0]]


def _columns(
    queries: NDArray[np.int64], distances: NDArray[np.float64], nearest: NDArray[np.int64], evidence: Evidence
) -> dict[str, NDArray[np.generic]]:
    n = len(evidence.dataset)
    names, away, parts = np.full(n, None, dtype=object), np.full(n, np.nan), np.full(n, None, dtype=object)
    names[queries], away[queries], parts[queries] = evidence.dataset.ids[nearest], distances, "train"
    return {"duplicate": names, "duplicate_distance": away, "duplicate_part": parts}


def _group_table(title: str, groups: list[NDArray[np.int64]], evidence: Evidence) -> Table:
    names = evidence.dataset.class_names
    rows = tuple(
        (", ".join(evidence.dataset.ids[group]), ", ".join(names[label] for label in evidence.labels[group]))
        for group in groups[:MOST_ROWS]
    )
    return Table(title, ("examples", "labels"), rows)


def _pair_table(
    which: NDArray[np.int64],
    queries: NDArray[np.int64],
    distances: NDArray[np.float64],
    nearest: NDArray[np.int64],
    evidence: Evidence,
) -> Table:
    ids, names, labels = evidence.dataset.ids, evidence.dataset.class_names, evidence.labels
    rows = tuple(
        (
            str(ids[queries[i]]),
            names[labels[queries[i]]],
            str(ids[nearest[i]]),
            names[labels[nearest[i]]],
            round(float(distances[i]), 4),
        )
        for i in which
    )
    columns = ("test example", "its label", "nearest training example", "its label", "distance")
    return Table("Near-duplicates across the split", columns, rows)


def _pairs(
    which: NDArray[np.int64],
    queries: NDArray[np.int64],
    distances: NDArray[np.float64],
    nearest: NDArray[np.int64],
    evidence: Evidence,
) -> Chart | None:
    """The closest pairs side by side."""
    dataset = evidence.dataset
    if dataset.x.ndim not in (3, 4):
        return None
    rows = np.stack([queries[which], nearest[which]], axis=1).ravel()
    pictures = thumbnails(dataset.x[rows], float(dataset.x.min()), float(dataset.x.max()))
    tiles = [
        {
            "group": "test example, then its nearest training example",
            "shown": f"{'train' if place % 2 else 'test'}, {distances[which[place // 2]]:.3g} apart",
            "id": str(dataset.ids[row]),
            "label": dataset.class_names[evidence.labels[row]],
        }
        for place, row in enumerate(rows.tolist())
    ]
    words = f"The {len(which)} closest pairs of a test and a training example, side by side."
    return gallery_chart("The closest pairs across the split", pictures, tiles, words)
