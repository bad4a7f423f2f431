"""Near-duplicates of a project's sample: the queue, decisions by file, learned thresholds, removal until stable."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import tables
from hardpan.arguments import whole_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.files import file_hash, record
from hardpan.neighbors.near_duplicates import near_duplicates
from hardpan.replicate.folder import ProjectFolder, resized
from hardpan.replicate.samples import current_sample, draw_again, removed_so_far
from hardpan.replicate.steps import hash_rows, read_steps, record_step
from hardpan.replicate.votes import rows_to_columns, write_output
from hardpan.report.base import Report
from hardpan.stats import share

FEWEST_DECISIONS = 10
_PAIRS_AT_ONCE = 2048


@record
class SimilarPair:
    """A sampled image and an image near to it; ``other_split`` is "new", "train", "test" or "original"."""

    image: str
    other: str
    other_split: str
    l2: float
    ssim: float


@record
class DuplicateSearch(Report):
    """What :func:`find_duplicates` did: images compared, new pairs in the queue, the filter's recall.

    ``recall`` is the proportion of the nearest by SSIM that the filter finds, ``close_recall`` of those with SSIM
    of at least 0.6.
    """

    images: int
    references: int
    new_pairs: int
    recall: Estimate | None
    close_recall: Estimate | None = None
    closest: tuple[SimilarPair, ...] = ()


@record
class ReviewThreshold(Report):
    """A threshold learned from decisions.

    Attributes:
        weights: of (log(1 + l2), SSIM, feature distance) and the constant, in a logistic score.
        threshold: pairs that score at least this are to be reviewed.
        recall: proportion of the removed pairs that score as much, on decisions that the threshold did not see.
        precision: proportion of pairs at or above it that were removed, likewise.
        decisions: how many decisions it rests on.
        undecided_above: pairs above the threshold that nobody has decided.
        undecided_below: pairs below it that nobody has decided.
    """

    weights: tuple[float, float, float, float]
    threshold: float
    recall: Estimate
    precision: Estimate
    decisions: int
    undecided_above: int
    undecided_below: int


@record
class Resolution(Report):
    """A round of removals: images removed and added, and whether anything is left to review.

    The last four are filled by :func:`review`: decisions imported, the threshold learned, pairs kept
    below it, pairs exported; None where that was not requested.
    """

    removed: tuple[str, ...]
    added: tuple[str, ...]
    undecided: int
    stable: bool
    decisions: int | None = None
    threshold: ReviewThreshold | None = None
    kept: int | None = None
    exported: int | None = None


def find_duplicates(
    project: ProjectFolder, *, k: int = 10, seed: int = 0, progress: Progress | None = None
) -> DuplicateSearch:
    """Queue, for every image of the sample, its k nearest originals and sampled images by l2, SSIM and features.

    Images are compared in the size of the originals. Pairs that are in the queue already stay as they are.

    Args:
        project: an open project with a sample.
        k: number of nearest images to review, by each measure of distance.
        seed: of the search.
        progress: called with the step and the fraction done.
    """
    from hardpan.replicate.database.decisions import add_pairs, chosen_rows, duplicate_queue
    from hardpan.replicate.database.images import stored_images

    project.check_open()
    whole_number("k", k, 1)
    sample = current_sample(project)
    shape = project.config.shape
    ids = list(sample.ids)
    if not ids:
        raise InputError("the sample is empty; draw one first")
    x = np.stack([resized(project.pixels(name, None), shape) for name in ids])
    originals = sorted(stored_images(project, "original"), key=lambda row: row.row)
    y = np.concatenate([np.asarray(project.original_pixels), x])
    names = [row.id for row in originals] + ids
    splits = [row.split or "original" for row in originals] + ["new"] * len(ids)
    pairs: set[tuple[int, int]] = set()
    count = min(k + 1, len(y))
    recall = close_recall = None
    metrics = ("l2", "features", "ssim") if min(shape[:2]) >= 7 else ("l2", "features")
    for number, metric in enumerate(metrics):
        if progress is not None:
            progress(f"nearest by {metric}", number / len(metrics))
        result = near_duplicates(x, y, count, metric, seed=seed)
        recall, close_recall = result.recall or recall, result.close_recall or close_recall
        for row in range(len(ids)):
            own = len(originals) + row
            pairs |= {(row, int(j)) for j in [j for j in result.indices[row] if j != own][:k]}
    round_number = max([0, *(row.round for row in chosen_rows(project))])
    new = add_pairs(project, _measured(x, y, sorted(pairs), ids, names, splits, round_number))
    record_step(
        project,
        "duplicates",
        parameters={"k": k, "metrics": list(metrics), "recall": None if recall is None else recall.value},
        seed=seed,
        outputs={"images": hash_rows(ids), "pairs": hash_rows([(ids[a], names[b]) for a, b in sorted(pairs)])},
    )
    closest = duplicate_queue(project, most=10)
    most_similar = tuple(SimilarPair(p.image_id, p.other_id, p.other_split, p.l2, p.ssim) for p in closest)
    return DuplicateSearch(len(ids), len(y) - len(ids), new, recall, close_recall, most_similar)


def learn_threshold(project: ProjectFolder, *, target: float = 0.99, seed: int = 0) -> ReviewThreshold:
    """Learn from decisions which pairs need a look: the lowest score that finds ``target`` of the removed ones.

    Five-fold cross-validation over the decided pairs: recall and precision of a fold are measured at the threshold
    learned from the other folds. The threshold in use is learned from all decisions.
    """
    from hardpan.replicate.database.decisions import all_pairs, verdicts

    decided = verdicts(project, "duplicate")
    pairs = all_pairs(project)
    x = np.array([(np.log1p(p.l2), p.ssim, p.features or 0.0) for p in pairs]).reshape(-1, 3)
    pair_verdicts = [decided.get(f"{p.image_id}|{p.other_id}", "") for p in pairs]
    known = np.array([bool(item) for item in pair_verdicts], dtype=bool)
    removed = np.array([item == "remove" for item in pair_verdicts], dtype=bool)
    if known.sum() < FEWEST_DECISIONS or removed[known].sum() < 2 or not (~removed[known]).any():
        raise InputError(
            f"a threshold needs at least {FEWEST_DECISIONS} decisions, two of them removals; "
            f"got {int(known.sum())} with {int(removed.sum())}"
        )
    hits, at_or_above = _cross_checked(x[known], removed[known], target, seed)
    weights, threshold = _fit(x[known], removed[known], target)
    scores = x @ weights[:3] + weights[3]
    unseen = "a threshold that did not see them"
    return ReviewThreshold(
        (float(weights[0]), float(weights[1]), float(weights[2]), float(weights[3])),
        float(threshold),
        share(hits, int(removed.sum()), method=f"removed pairs found by {unseen}, Clopper–Pearson"),
        share(hits, at_or_above, method=f"pairs at or above {unseen} that were removed, Clopper–Pearson"),
        int(known.sum()),
        int((scores[~known] >= threshold).sum()),
        int((scores[~known] < threshold).sum()),
    )


def review(
    project: ProjectFolder,
    *,
    decisions: str | os.PathLike[str] | None = None,
    learn: bool = False,
    keep_rest: bool = False,
    export: str | os.PathLike[str] | None = None,
) -> Resolution:
    """One round of review: import decisions, keep what a learned threshold allows, remove and draw again, export.

    Args:
        project: an open project with a sample.
        decisions: CSV with columns step (duplicate, final-review, ...), subject and verdict (keep or remove).
        learn: learn from the decisions above which similarity pairs need a review, and state the recall.
        keep_rest: keep the images of undecided pairs below that similarity.
        export: write the pairs without a decision to this CSV file.
    """
    if keep_rest and not learn:
        raise InputError("must be used with learn, which gives the threshold", argument="keep_rest")
    imported = import_decisions(project, decisions) if decisions is not None else None
    threshold = learn_threshold(project) if learn else None
    kept_pairs = keep_below(project, threshold) if keep_rest and threshold is not None else None
    result = resolve_duplicates(project)
    exported = export_pairs(project, export) if export is not None else None
    return replace(result, decisions=imported, threshold=threshold, kept=kept_pairs, exported=exported)


def resolve_duplicates(project: ProjectFolder) -> Resolution:
    """Remove what people decided to remove, draw again from the same sub-classes, and queue the new images' pairs.

    As many pairs per image as in the last search. Call it, review, and call it again until it says
    ``stable``: nothing removed, nothing undecided that is new.
    """
    from hardpan.replicate.database.decisions import duplicate_queue

    project.check_open()
    before = current_sample(project)
    removed = removed_so_far(project) & set(before.ids)
    searches = [step for step in read_steps(project) if step.name == "duplicates"]
    if not removed:
        # A call that was killed may have drawn again without comparing what it drew.
        if searches and searches[-1].outputs["images"] != hash_rows(before.ids):
            find_duplicates(project, k=searches[-1].parameters["k"], seed=searches[-1].seed)
        waiting = len(duplicate_queue(project, most=10**9))
        return Resolution((), (), waiting, waiting == 0)
    after = draw_again(project, dict.fromkeys(removed, "removed by a person"))
    if searches:
        find_duplicates(project, k=searches[-1].parameters["k"], seed=searches[-1].seed)
    else:  # removed for another reason before anything was compared
        find_duplicates(project)
    fresh = tuple(sorted(set(after.ids) - set(before.ids)))
    return Resolution(tuple(sorted(removed)), fresh, len(duplicate_queue(project, most=10**9)), False)


def _measured(
    x: NDArray[Any],
    y: NDArray[Any],
    pairs: Sequence[tuple[int, int]],
    ids: Sequence[str],
    names: Sequence[str],
    splits: Sequence[str],
    round_number: int,
) -> list[dict[str, Any]]:
    from hardpan.neighbors.near_duplicates import describe
    from hardpan.neighbors.ssim import ssim_pairs

    rows, others = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    l2 = np.empty(len(rows))
    for k in range(0, len(rows), _PAIRS_AT_ONCE):
        piece = slice(k, k + _PAIRS_AT_ONCE)
        difference = x[rows[piece]].astype(np.float64) - y[others[piece]]
        l2[piece] = np.sqrt((difference.reshape(len(difference), -1) ** 2).sum(axis=1))
    small = min(x.shape[1:3]) < 7
    alike = np.full(len(rows), np.nan) if small else ssim_pairs(x, y, rows, others)
    features = np.linalg.norm(describe(x)[rows] - describe(y[others]), axis=1)
    results = []
    for k, (row, other) in enumerate(pairs):
        first, second, split = ids[row], names[other], splits[other]
        if split == "new" and first > second:  # one entry per pair; the later id would be removed
            first, second = second, first
        values = {"l2": float(l2[k]), "ssim": 0.0 if small else float(alike[k]), "features": float(features[k])}
        results.append(
            {"image_id": first, "other_id": second, "other_split": split, "round": round_number, **values}
        )
    return results


def _cross_checked(x: NDArray[np.float64], removed: NDArray[np.bool_], target: float, seed: int) -> tuple[int, int]:
    """Removed pairs at or above the thresholds that other folds give, and all pairs there."""
    folds = np.random.default_rng(seed).permutation(len(x)) % 5
    hits = above = 0
    for fold in range(5):
        rest, here = folds != fold, folds == fold
        if removed[rest].sum() < 1 or not (~removed[rest]).any():
            continue
        weights, threshold = _fit(x[rest], removed[rest], target)
        selected = (x[here] @ weights[:3] + weights[3]) >= threshold
        hits += int((selected & removed[here]).sum())
        above += int(selected.sum())
    return hits, above


def _fit(x: NDArray[np.float64], removed: NDArray[np.bool_], target: float) -> tuple[NDArray[np.float64], float]:
    from sklearn.linear_model import LogisticRegression

    centre, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-9)
    model = LogisticRegression(C=10.0, max_iter=1000).fit((x - centre) / scale, removed)
    slope = model.coef_[0] / scale
    weights = np.append(slope, model.intercept_[0] - slope @ centre)
    scores = np.sort((x @ weights[:3] + weights[3])[removed])
    missed = int(np.floor((1.0 - target) * len(scores)))
    # Half a spacing under the lowest score that must be found: new pairs fall a little lower than seen ones.
    others = (x @ weights[:3] + weights[3])[~removed]
    below = others[others < scores[missed]]
    return weights, float((scores[missed] + below.max()) / 2 if len(below) else scores[missed])


QUEUE_COLUMNS = ("step", "subject", "verdict", "other_split", "l2", "ssim", "features")


def export_pairs(project: ProjectFolder, path: str | os.PathLike[str]) -> int:
    """Write the pairs that wait for review as CSV, most similar first; fill in ``verdict`` (keep or remove)."""
    from hardpan.replicate.database.decisions import duplicate_queue

    items = duplicate_queue(project, most=10**9)
    rows = [("duplicate", i.subject, "", i.other_split, i.l2, i.ssim, i.features) for i in items]
    write_output(path, rows_to_columns(QUEUE_COLUMNS, rows))
    return len(items)


def import_decisions(project: ProjectFolder, path: str | os.PathLike[str], *, by: str = "owner") -> int:
    """Import decisions of a CSV file (step, subject, verdict, note); the same file again changes nothing.

    Rows without a verdict are skipped. Gives how many were new.
    """
    from hardpan.replicate.database.decisions import decide

    source = Path(path)
    rows = tables.read_rows(source)
    if rows and not {"step", "subject", "verdict"} <= set(rows[0]):
        raise InputError(f"{source}: needs columns step, subject and verdict")
    digest = file_hash(source)[:32]
    new = 0
    for number, row in enumerate(rows, start=2):
        verdict = row["verdict"]
        if not verdict:
            continue
        try:
            key = f"file-{digest}-{number}"
            note = row.get("note", "")
            new += decide(project, row["step"], row["subject"], verdict, by=by, submission_key=key, note=note)
        except InputError as error:
            raise InputError(f"{source}, row {number}: {error}") from error
    return new


def keep_below(project: ProjectFolder, learned: ReviewThreshold) -> int:
    """Keep every undecided pair that scores below a learned threshold; its recall says what that may miss."""
    from hardpan.replicate.database.decisions import decide, duplicate_queue

    weights = np.array(learned.weights)
    count = 0
    for item in duplicate_queue(project, most=10**9):
        score = float(np.array([np.log1p(item.l2), item.ssim, item.features or 0.0, 1.0]) @ weights)
        if score < learned.threshold:
            key = f"threshold-{item.subject}-{learned.threshold:.6f}"
            count += decide(project, "duplicate", item.subject, "keep", by="threshold", submission_key=key[:200])
    return count
