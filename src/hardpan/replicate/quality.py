"""Votes: workers on hidden controls, selection frequencies, agreement, Dawid–Skene; import and export as files."""

from __future__ import annotations

import contextlib
import math
import os
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hardpan import files, tables
from hardpan.arguments import real_number, whole_numbers
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import file_hash, record
from hardpan.replicate import database
from hardpan.replicate.folder import ProjectFolder
from hardpan.replicate.sampling import AnnotatedImages, annotated_image_columns, average_frequency
from hardpan.report.base import Report
from hardpan.report.sections import columns_of
from hardpan.safe_files import few
from hardpan.stats.intervals import clopper_pearson

MIN_INFORMEDNESS = 0.5
COLUMNS = ("image_id", "class", "worker", "selected", "role", "at", "excluded")


def krippendorff_alpha(
    counts: ArrayLike, *, confidence: float = 0.95, resamples: int = 1000, seed: int = 0
) -> Estimate:
    """Krippendorff's α for categories without order: 1 − observed / expected disagreement.

    With n_uc ratings of unit u in category c, m_u their sum, n the sum over units with m_u ≥ 2:
    observed = (1/n) Σ_u Σ_{c≠d} n_uc n_ud / (m_u − 1), expected = Σ_{c≠d} n_c n_d / (n (n − 1)).

    Args:
        counts: (units, categories), how many raters put each unit into each category.
        confidence: level of the percentile interval.
        resamples: bootstrap samples of units.
        seed: of them.

    Returns:
        α; NaN where every rating is the same.

    Source: Krippendorff, "Computing Krippendorff's alpha-reliability" (2011).

    Example:
        >>> krippendorff_alpha([[2, 0], [0, 2], [2, 0], [0, 2]]).value
        1.0
    """
    level = real_number("confidence", confidence, "(0, 1)")
    table = whole_numbers("counts", counts)
    if table.ndim != 2 or table.shape[1] < 2:
        raise InputError(
            f"must be (units, categories) with two categories or more; got shape {table.shape}", argument="counts"
        )
    table = table[table.sum(axis=1) >= 2]
    if not len(table):
        raise InputError(": no unit has two ratings, so there is nothing to agree on", argument="counts")
    sizes = table.sum(axis=1)
    disagreements = (sizes**2 - (table**2).sum(axis=1)) / (sizes - 1.0)
    value = float(_alpha_values(disagreements.sum(), table.sum(axis=0)[None])[0])
    rng = np.random.default_rng([seed, 0])
    draws = np.empty(resamples)
    for start in range(0, resamples, 100):
        weights = rng.multinomial(len(table), np.full(len(table), 1 / len(table)), size=min(100, resamples - start))
        draws[start : start + 100] = _alpha_values(weights @ disagreements, weights @ table)
    good = draws[np.isfinite(draws)]
    error = float(good.std(ddof=1)) if len(good) > 1 else float("nan")
    low, high = np.quantile(good, [0.5 - level / 2, 0.5 + level / 2]) if len(good) > 1 else (np.nan, np.nan)
    return Estimate(
        value,
        error,
        float(low),
        float(high),
        confidence=level,
        method=f"Krippendorff α, {resamples:,} bootstrap samples of units",
        n=len(table),
        seed=seed,
    )


def beta_interval(
    selected: ArrayLike, votes: ArrayLike, confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Equal-tailed limits of the Beta(k + ½, n − k + ½) posterior of a selection probability (Jeffreys' prior).

    The lower limit is 0 where k = 0 and the upper one 1 where k = n.

    Example:
        >>> low, high = beta_interval([7, 10], [10, 10])
        >>> low.round(3).tolist(), high.round(3).tolist()
        ([0.394, 0.783], [0.907, 1.0])
    """
    k, n = whole_numbers("selected", selected), whole_numbers("votes", votes)
    if (k > n).any():
        raise InputError("must not exceed votes", argument="selected")
    tail = (1.0 - real_number("confidence", confidence, "(0, 1)")) / 2.0
    low = np.where(k == 0, 0.0, special.betaincinv(k + 0.5, n - k + 0.5, tail))
    high = np.where(k == n, 1.0, special.betainccinv(k + 0.5, n - k + 0.5, tail))
    return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)


@record(eq=False)
class DawidSkene:
    """What :func:`dawid_skene` returns.

    Attributes:
        probability: (items,) that the answer is yes.
        sensitivity: (workers,) probability of saying yes where it is.
        specificity: (workers,) probability of saying no where it is not.
        prevalence: proportion of items whose answer is yes.
        iterations: how many it took.
    """

    probability: NDArray[np.float64]
    sensitivity: NDArray[np.float64]
    specificity: NDArray[np.float64]
    prevalence: float
    iterations: int


def dawid_skene(
    items: ArrayLike, workers: ArrayLike, answers: ArrayLike, *, tolerance: float = 1e-7, most: int = 500
) -> DawidSkene:
    """Truth and skill from votes alone: each item is yes or no, each worker has a sensitivity and a specificity.

    Expectation–maximisation from the vote shares; rates get one imagined right and one wrong answer, so that none
    becomes 0 or 1.

    Args:
        items: (V,) item numbers 0..I−1 of the votes.
        workers: (V,) worker numbers 0..W−1.
        answers: (V,) yes or no.
        tolerance: the largest change of a probability at which it stops.
        most: largest number of iterations.

    Source: Dawid and Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm" (1979).

    Example:
        >>> result = dawid_skene([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], [1, 1, 0, 0, 0, 1])
        >>> result.probability.round().tolist()
        [1.0, 0.0]
    """
    i, w = np.asarray(items, dtype=np.int64), np.asarray(workers, dtype=np.int64)
    yes = np.asarray(answers, dtype=np.float64)
    if not (i.shape == w.shape == yes.shape) or i.ndim != 1 or not len(i):
        raise InputError("must be rows of one length, not empty", argument=("items", "workers", "answers"))
    size, crew = int(i.max()) + 1, int(w.max()) + 1
    probability = np.bincount(i, yes, size) / np.maximum(np.bincount(i, minlength=size), 1)
    sensitivity = specificity = np.zeros(crew)
    prevalence, count = 0.5, 0
    for count in range(1, most + 1):  # noqa: B007 - the last count is returned
        p = probability[i]
        sensitivity = (np.bincount(w, p * yes, crew) + 1.0) / (np.bincount(w, p, crew) + 2.0)
        specificity = (np.bincount(w, (1 - p) * (1 - yes), crew) + 1.0) / (np.bincount(w, 1 - p, crew) + 2.0)
        prevalence = float((probability.sum() + 1.0) / (size + 2.0))
        a, b = sensitivity[w], specificity[w]
        odds = np.where(yes > 0, np.log(a) - np.log1p(-b), np.log1p(-a) - np.log(b))
        fresh = special.expit(np.bincount(i, odds, size) + special.logit(prevalence))
        change = float(np.abs(fresh - probability).max())
        probability = fresh
        if change < tolerance:
            break
    return DawidSkene(probability, sensitivity, specificity, prevalence, count)


def _alpha_values(disagreement: Any, totals: NDArray[np.float64]) -> NDArray[np.float64]:
    n = totals.sum(axis=1)
    expected = (n**2 - (totals**2).sum(axis=1)) / np.maximum(n - 1.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(expected > 0, 1.0 - disagreement / expected, np.nan), dtype=np.float64)


@record
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
        flagged: even the upper limit of the informedness is below the requirement.
    """

    worker_id: str
    votes: int
    positives: int
    hits: int
    negatives: int
    false_alarms: int
    informedness: float
    flagged: bool


@record(kind="Frequency")
class SelectionFrequency:
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


@record(kind="Quality")
class AnnotationQuality(Report):
    """What :func:`annotation_quality` returns.

    Attributes:
        workers: every worker on the controls.
        alpha: Krippendorff's α over candidates, all workers.
        alpha_unflagged: the same without flagged ones.
        average: mean selection frequency by role ("candidate", "positive", "negative").
        frequencies: every image and target class with votes (not in the JSON).
    """

    workers: tuple[WorkerQuality, ...]
    alpha: Estimate | None
    alpha_unflagged: Estimate | None
    average: dict[str, Estimate]
    frequencies: tuple[SelectionFrequency, ...] = field(default=(), repr=False, metadata=files.TRANSIENT)

    @property
    def flagged(self) -> tuple[str, ...]:
        """Ids of flagged workers."""
        return tuple(item.worker_id for item in self.workers if item.flagged)


def annotation_quality(project: ProjectFolder, *, probabilities: bool = True) -> AnnotationQuality:
    """Workers, frequencies and agreement of a project's votes so far.

    Args:
        project: an open project.
        probabilities: also estimate the probability that each image shows the class, which takes most of the time.
    """
    return quality_of_votes(database.counted_votes(project), probabilities=probabilities)


def quality_of_votes(votes: Sequence[database.StoredVote], *, probabilities: bool = True) -> AnnotationQuality:
    """The same from votes in memory.

    A worker is flagged when the hit rate on positive controls at its upper limit, minus the selection rate on
    negative ones at its lower limit (Clopper–Pearson, 90 % two-sided), is below :data:`MIN_INFORMEDNESS`: nobody is
    flagged for bad luck on a few controls; workers who select at random, all or nothing are, after enough of them.
    """
    workers = worker_quality(votes)
    flagged = {item.worker_id for item in workers if item.flagged}
    frequencies = selection_frequencies(votes, flagged, probabilities=probabilities)
    candidates = [item for item in frequencies if item.role == "candidate"]
    average = {
        role: average_frequency([item.value for item in frequencies if item.role == role])
        for role in ("candidate", "positive", "negative")
        if any(item.role == role for item in frequencies)
    }
    return AnnotationQuality(
        workers,
        _alpha_of_pairs([(item.selected, item.votes) for item in candidates]),
        _alpha_of_pairs([(item.selected_unflagged, item.votes_unflagged) for item in candidates]),
        average,
        frequencies,
    )


def worker_quality(votes: Sequence[database.StoredVote]) -> tuple[WorkerQuality, ...]:
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
    results = []
    for name in sorted(counts):
        total, positives, hits, negatives, alarms = counts[name]
        informedness, flagged = float("nan"), False
        if positives and negatives:
            informedness = hits / positives - alarms / negatives
            highest = float(clopper_pearson(hits, positives, 0.9)[1])
            lowest = float(clopper_pearson(alarms, negatives, 0.9)[0])
            flagged = highest - lowest < MIN_INFORMEDNESS
        results.append(WorkerQuality(name, total, positives, hits, negatives, alarms, informedness, flagged))
    return tuple(results)


def selection_frequencies(
    votes: Sequence[database.StoredVote], flagged: Collection[str] = (), *, probabilities: bool = True
) -> tuple[SelectionFrequency, ...]:
    """The proportion of workers that selected each image for its target class; (image, class) in order.

    ``probability`` is the Dawid–Skene estimate that the image shows the class, over all votes for this class; NaN
    without ``probabilities``, which are what takes the time.
    """
    if not votes:
        return ()
    keys = sorted({(vote.image_id, vote.class_index) for vote in votes})
    row_of = {key: number for number, key in enumerate(keys)}
    counts = np.zeros((len(keys), 4), dtype=np.int64)
    roles = [""] * len(keys)
    bad = set(flagged)
    for vote in votes:
        row = row_of[vote.image_id, vote.class_index]
        roles[row] = vote.role
        counts[row] += (vote.selected, 1, 0, 0)
        if vote.worker_id not in bad:
            counts[row] += (0, 0, vote.selected, 1)
    low, high = beta_interval(counts[:, 0], counts[:, 1])
    chances = _dawid_skene_probabilities(votes, keys, row_of) if probabilities else np.full(len(keys), np.nan)
    return tuple(
        SelectionFrequency(
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


def selection_frequency_table(
    frequencies: Sequence[SelectionFrequency],
    role: str,
    class_names: Sequence[str],
    subclasses: dict[str, str] | None = None,
    *,
    without_flagged: bool = False,
) -> AnnotatedImages:
    """Frequencies of one role as the table that :func:`hardpan.replicate.sample` takes."""
    selected = [f for f in frequencies if f.role == role and (f.votes_unflagged or not without_flagged)]
    return AnnotatedImages(
        np.array([f.image_id for f in selected], dtype=np.str_),
        np.array([class_names[f.class_index] for f in selected], dtype=np.str_),
        np.array([f.unflagged if without_flagged else f.value for f in selected], dtype=np.float64),
        np.array([f.votes_unflagged if without_flagged else f.votes for f in selected], dtype=np.int64),
        np.array([(subclasses or {}).get(f.image_id, "") for f in selected], dtype=np.str_),
    )


def _dawid_skene_probabilities(
    votes: Sequence[database.StoredVote], keys: Sequence[Any], row_of: dict[Any, int]
) -> NDArray[np.float64]:
    """Dawid–Skene class by class: a worker's skill may differ between classes."""
    out = np.full(len(keys), np.nan)
    by_class: dict[int, list[database.StoredVote]] = {}
    for vote in votes:
        by_class.setdefault(vote.class_index, []).append(vote)
    for members in by_class.values():
        rows = np.array([row_of[vote.image_id, vote.class_index] for vote in members])
        used, items = np.unique(rows, return_inverse=True)
        crew = {name: number for number, name in enumerate(sorted({vote.worker_id for vote in members}))}
        workers = [crew[vote.worker_id] for vote in members]
        out[used] = dawid_skene(items, workers, [vote.selected for vote in members]).probability
    return out


def _alpha_of_pairs(pairs: Sequence[tuple[int, int]]) -> Estimate | None:
    counts = np.array([(selected, total - selected) for selected, total in pairs if total >= 2])
    return krippendorff_alpha(counts) if len(counts) else None


def export_votes(project: ProjectFolder, path: str | os.PathLike[str]) -> int:
    """Write every vote as .csv or .parquet, those of excluded workers marked; gives how many."""
    if Path(path).suffix.lower() not in (".csv", ".parquet", ".pq"):
        raise InputError(f": votes are written as .csv or .parquet; got {path}", argument="export_votes")
    columns = vote_columns(project)
    write_vote_columns(path, columns)
    return len(columns["worker"])


def vote_columns(project: ProjectFolder) -> dict[str, list[Any]]:
    """Every vote, those of excluded workers marked."""
    names, excluded = project.class_names, database.excluded_workers(project)
    rows = [
        (v.image_id, names[v.class_index], v.worker_id, int(v.selected), v.role, v.at, int(v.worker_id in excluded))
        for v in database.all_votes(project)
    ]
    return rows_to_columns(COLUMNS, rows)


def frequency_columns(project: ProjectFolder, quality: AnnotationQuality) -> dict[str, list[Any]]:
    """Every selection frequency with its interval, and the same without flagged workers."""
    rows = quality.frequencies
    return {
        "id": [row.image_id for row in rows],
        "class": [project.classes[row.class_index].name for row in rows],
        **columns_of(rows, "role", "selected", "votes", frequency="value"),
        **columns_of(rows, "low", "high", "selected_unflagged", "votes_unflagged", "probability"),
    }


def rows_to_columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Rows as columns by name.

    Example:
        >>> rows_to_columns(("a", "b"), [(1, 2), (3, 4)]), rows_to_columns(("a",), [])
        ({'a': [1, 3], 'b': [2, 4]}, {'a': []})
    """
    return {name: [row[position] for row in rows] for position, name in enumerate(names)}


def export_frequencies(project: ProjectFolder, path: str | os.PathLike[str]) -> AnnotationQuality:
    """Write every selection frequency with its interval, and the same without flagged workers."""
    quality = annotation_quality(project)
    write_vote_columns(path, frequency_columns(project, quality))
    return quality


def write_vote_columns(path: str | os.PathLike[str], columns: dict[str, list[Any]]) -> None:
    """Write a table where a person asked for it, its folder too; what cannot be written is an InputError."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target}: is a folder; give the name of a file in it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        tables.write_table(target, columns)
    except OSError as error:
        raise InputError(
            f"{target}: cannot be written ({error.strerror or error}); make room or give another path"
        ) from error


def import_votes(project: ProjectFolder, path: str | os.PathLike[str], *, platform: str = "") -> tuple[int, int]:
    """Add votes of a CSV, JSON or Parquet file (image_id, class, worker, selected, at); gives how many new, known.

    Workers are named PLATFORM:NAME, the file's own name where no platform is given, so that two platforms' workers
    stay apart; the same file again adds nothing. Votes that an export marked as excluded are left out.
    """
    source = Path(path)
    columns = tables.read_columns(source, text=True)
    names = annotated_image_columns(columns, ("id", "label", "annotator"), str(source))
    names |= {"selected": "selected"} if "selected" in columns else {}
    for role in ("id", "label", "annotator", "selected"):
        if role not in names:
            raise InputError(f": {source} has no column of {role}; it has {few(columns)}", argument="votes")
    required = [columns[names[role]] for role in ("id", "label", "annotator", "selected")]
    size = len(required[0])
    times, excluded = columns.get("at", [""] * size), columns.get("excluded", ["0"] * size)
    rows = [
        {
            "image_id": image,
            "class_index": project.config.class_index(label),
            "worker": worker,
            "selected": _vote_is_true(said, source),
            "at": _vote_moment(when, source),
        }
        for image, label, worker, said, when, out in zip(*required, times, excluded, strict=True)
        if not (out and _vote_is_true(out, source, "excluded"))
    ]
    if any(not row["worker"] for row in rows):
        raise InputError(f": {source} has rows without a worker; name the worker of every vote", argument="votes")
    counts = Counter((row["worker"], row["image_id"], row["class_index"]) for row in rows)
    (worker, image, _), most = max(counts.items(), key=lambda item: item[1], default=(("", "", 0), 1))
    if most > 1:
        raise InputError(
            f": worker {worker!r} votes twice on image {image!r} in {source}; keep one", argument="votes"
        )
    new, known = database.store_votes(project, rows, platform=platform or source.stem)
    if new:
        project.record_step("votes", inputs={source.name: file_hash(source)}, outputs={"votes": new})
    return new, known


def _vote_moment(text: str, source: Path) -> float | None:
    """Seconds since 1970, from a number or from a time as ISO 8601 writes it (UTC where it names no zone)."""
    if not text:
        return None
    with contextlib.suppress(ValueError):
        if math.isfinite(seconds := float(text)):
            return seconds
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f": at must be seconds since 1970 or a time such as 2024-05-01T12:00:00Z; got {text!r} in {source}",
            argument="votes",
        ) from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _vote_is_true(text: str, source: Path, name: str = "selected") -> bool:
    if text.lower() in ("1", "true", "yes", "1.0"):
        return True
    if text.lower() in ("0", "false", "no", "0.0"):
        return False
    raise InputError(f": {name} must be 0 or 1; got {text!r} in {source}", argument="votes")
