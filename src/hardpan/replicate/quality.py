"""How good the votes are: workers on hidden controls, selection frequencies, agreement."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.replicate.bins import average_frequency
from hardpan.replicate.candidates import Annotated
from hardpan.replicate.project import Project
from hardpan.replicate.raters import beta_interval, dawid_skene, krippendorff_alpha
from hardpan.stats.intervals import clopper_pearson

if TYPE_CHECKING:
    from hardpan.replicate.database.votes import StoredVote

MIN_INFORMEDNESS = 0.5


@record
@dataclass(frozen=True, slots=True)
class WorkerQuality:
    """A worker on the hidden controls.

    Attributes:
        worker_id: who.
        votes: how many images they answered on.
        positives: originals of the target class they saw, and ``hits`` of them selected.
        hits: see positives.
        negatives: originals of a nearby class they saw, and ``false_alarms`` of them selected.
        false_alarms: see negatives.
        informedness: hit rate − false-alarm rate: 1 is perfect, 0 is guessing.
        flagged: even the upper limit of the informedness lies under the requirement.
    """

    worker_id: str
    votes: int
    positives: int
    hits: int
    negatives: int
    false_alarms: int
    informedness: float
    flagged: bool


@record
@dataclass(frozen=True, slots=True)
class Frequency:
    """The selection frequency of an image for a class, with a Beta interval; the same without flagged workers."""

    image_id: str
    class_index: int
    role: str
    selected: int
    votes: int
    value: float
    low: float
    high: float
    selected_unflagged: int
    votes_unflagged: int
    probability: float

    @property
    def unflagged(self) -> float:
        """The frequency without flagged workers; NaN where nobody is left."""
        return self.selected_unflagged / self.votes_unflagged if self.votes_unflagged else float("nan")


@record
@dataclass(frozen=True, slots=True)
class Quality:
    """What :func:`annotation_quality` returns.

    Attributes:
        workers: every worker on the controls.
        frequencies: every image and target class with votes.
        alpha: Krippendorff's α over candidates, all workers.
        alpha_unflagged: the same without flagged ones.
        average: mean selection frequency by role ("candidate", "positive", "negative").
        notes: what a reader has to know.
    """

    workers: tuple[WorkerQuality, ...]
    frequencies: tuple[Frequency, ...]
    alpha: Estimate | None
    alpha_unflagged: Estimate | None
    average: dict[str, Estimate]
    notes: tuple[str, ...] = ()

    @property
    def flagged(self) -> tuple[str, ...]:
        """Ids of flagged workers."""
        return tuple(item.worker_id for item in self.workers if item.flagged)


def annotation_quality(project: Project, *, min_informedness: float = MIN_INFORMEDNESS) -> Quality:
    """Workers, frequencies and agreement of a project's votes so far."""
    from hardpan.replicate.database.votes import counted_votes

    return quality_of(counted_votes(project), min_informedness=min_informedness)


def quality_of(votes: Sequence[StoredVote], *, min_informedness: float = MIN_INFORMEDNESS) -> Quality:
    """The same from votes in memory.

    A worker is flagged when the hit rate on positive controls at its upper limit, minus the selection rate on
    negative ones at its lower limit (Clopper–Pearson, 90 % two-sided), lies under ``min_informedness``: nobody is
    flagged for bad luck on a few controls; who selects at random, all or nothing is, after enough of them.
    """
    if not -1.0 <= min_informedness <= 1.0:
        raise InputError(f"min_informedness must lie between -1 and 1; got {min_informedness!r}")
    workers = worker_quality(votes, min_informedness)
    bad = {item.worker_id for item in workers if item.flagged}
    frequencies = selection_frequencies(votes, bad)
    candidates = [item for item in frequencies if item.role == "candidate"]
    average = {
        role: average_frequency([item.value for item in frequencies if item.role == role])
        for role in ("candidate", "positive", "negative")
        if any(item.role == role for item in frequencies)
    }
    notes = (f"{len(bad)} of {len(workers)} workers fail the controls",) if bad else ()
    return Quality(
        workers,
        frequencies,
        _alpha([(item.selected, item.votes) for item in candidates]),
        _alpha([(item.selected_unflagged, item.votes_unflagged) for item in candidates]),
        average,
        notes,
    )


def worker_quality(
    votes: Sequence[StoredVote], min_informedness: float = MIN_INFORMEDNESS
) -> tuple[WorkerQuality, ...]:
    """Every worker on the controls, in the order of ids."""
    counts: dict[str, list[int]] = {}
    for vote in votes:
        row = counts.setdefault(vote.worker_id, [0, 0, 0, 0, 0])
        row[0] += 1
        if vote.role == "positive":
            row[1] += 1
            row[2] += vote.selected
        elif vote.role == "negative":
            row[3] += 1
            row[4] += vote.selected
    found = []
    for name in sorted(counts):
        total, positives, hits, negatives, alarms = counts[name]
        informedness, flagged = float("nan"), False
        if positives and negatives:
            informedness = hits / positives - alarms / negatives
            highest = float(clopper_pearson(hits, positives, 0.9)[1])
            lowest = float(clopper_pearson(alarms, negatives, 0.9)[0])
            flagged = highest - lowest < min_informedness
        found.append(WorkerQuality(name, total, positives, hits, negatives, alarms, informedness, flagged))
    return tuple(found)


def selection_frequencies(votes: Sequence[StoredVote], flagged: Collection[str] = ()) -> tuple[Frequency, ...]:
    """The share of workers that selected each image for its target class; (image, class) in order.

    ``probability`` is the Dawid–Skene estimate that the image shows the class, over all votes for this class.
    """
    if not votes:
        return ()
    keys = sorted({(vote.image_id, vote.class_index) for vote in votes})
    place = {key: number for number, key in enumerate(keys)}
    counts = np.zeros((len(keys), 4), dtype=np.int64)
    roles = [""] * len(keys)
    bad = set(flagged)
    for vote in votes:
        row = place[vote.image_id, vote.class_index]
        roles[row] = vote.role
        counts[row] += (vote.selected, 1, 0, 0)
        if vote.worker_id not in bad:
            counts[row] += (0, 0, vote.selected, 1)
    low, high = beta_interval(counts[:, 0], counts[:, 1])
    chances = _probabilities(votes, keys, place)
    return tuple(
        Frequency(
            *key,
            roles[row],
            int(counts[row, 0]),
            int(counts[row, 1]),
            counts[row, 0] / counts[row, 1],
            float(low[row]),
            float(high[row]),
            int(counts[row, 2]),
            int(counts[row, 3]),
            float(chances[row]),
        )
        for row, key in enumerate(keys)
    )


def frequency_table(
    frequencies: Sequence[Frequency],
    role: str,
    class_names: Sequence[str],
    subclasses: dict[str, str] | None = None,
    *,
    without_flagged: bool = False,
) -> Annotated:
    """Frequencies of one role as the table that :func:`hardpan.replicate.sample` takes."""
    kept = [f for f in frequencies if f.role == role and (f.votes_unflagged or not without_flagged)]
    return Annotated(
        np.array([f.image_id for f in kept], dtype=np.str_),
        np.array([class_names[f.class_index] for f in kept], dtype=np.str_),
        np.array([f.unflagged if without_flagged else f.value for f in kept], dtype=np.float64),
        np.array([f.votes_unflagged if without_flagged else f.votes for f in kept], dtype=np.int64),
        np.array([(subclasses or {}).get(f.image_id, "") for f in kept], dtype=np.str_),
    )


def _probabilities(votes: Sequence[StoredVote], keys: Sequence[Any], place: dict[Any, int]) -> NDArray[np.float64]:
    """Dawid–Skene class by class: a worker's skill may differ between classes."""
    out = np.full(len(keys), np.nan)
    by_class: dict[int, list[StoredVote]] = {}
    for vote in votes:
        by_class.setdefault(vote.class_index, []).append(vote)
    for members in by_class.values():
        rows = np.array([place[vote.image_id, vote.class_index] for vote in members])
        used, items = np.unique(rows, return_inverse=True)
        crew = {name: number for number, name in enumerate(sorted({vote.worker_id for vote in members}))}
        workers = [crew[vote.worker_id] for vote in members]
        out[used] = dawid_skene(items, workers, [vote.selected for vote in members]).probability
    return out


def _alpha(pairs: Sequence[tuple[int, int]]) -> Estimate | None:
    counts = np.array([(selected, total - selected) for selected, total in pairs if total >= 2])
    return krippendorff_alpha(counts) if len(counts) else None
