"""Near-duplicates of the sample: its nearest originals and sampled images are queued for review."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.arguments import whole_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.execution.mapping import no_progress
from hardpan.files import record
from hardpan.neighbors.near_duplicates import duplicate_descriptors, near_duplicates
from hardpan.neighbors.ssim import ssim_pairs
from hardpan.neighbors.text_copies import match_texts, normalised_text
from hardpan.replicate import database
from hardpan.replicate.examples import Texts
from hardpan.replicate.folder import ProjectFolder, hash_project_rows
from hardpan.replicate.project_sample import current_project_sample, draw_project_sample_again
from hardpan.replicate.sampling import Sample
from hardpan.report import Report

NEAREST = 10
_PAIRS_AT_ONCE = 2048


@record(dropped=("close_recall",))
class DuplicateSearch(Report):
    """What :func:`find_duplicates` did.

    Attributes:
        images: images or texts of the sample.
        references: originals that they were compared with.
        new_pairs: pairs that were put into the queue.
        recall: proportion of the nearest by SSIM that the filter finds; None where nothing had to be compared.
        removed: images that people decided to remove.
        added: images drawn in their place.
        undecided: pairs that wait for review.
    """

    HEADLINE = (
        "{images:counted example} compared with {references:counted original}: {undecided:counted pair} to review."
    )

    images: int
    references: int
    new_pairs: int
    recall: Estimate | None
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    undecided: int = 0

    @property
    def stable(self) -> bool:
        """Whether nothing was removed and nothing waits for review."""
        return not self.removed and not self.undecided


def find_duplicates(
    project: ProjectFolder, *, k: int | None = None, progress: Progress = no_progress
) -> DuplicateSearch:
    """Remove what people decided to remove, draw other images, and queue the sample's nearest images for review.

    For every image of the sample its k nearest originals and sampled images by l2, SSIM and features, in the size
    of the originals; for every text at most k altered copies. Pairs that are in the queue already stay as they
    are. Call it, review, and call it again until it says ``stable``.

    Args:
        project: an open project with a sample.
        k: number of nearest images to review, by each measure of distance; default: as in the last search, or 10.
        progress: called with the step and the fraction done.
    """
    project.check_open()
    before = current_project_sample(project)
    removed = database.removed_by_decisions(project) & set(before.ids)
    after = draw_project_sample_again(project, removed) if removed else before
    ids = list(after.ids)
    if not ids:
        raise InputError("the sample is empty; draw one first")
    last = next(reversed(project.steps("duplicates")), None)
    count = k if k is not None else NEAREST if last is None else int(last.parameters["k"])
    whole_number("k", count, 1)
    search = DuplicateSearch(len(ids), len(project.originals), 0, None)
    if last is None or (last.outputs["images"], last.parameters["k"]) != (hash_project_rows(ids), count):
        search = _search_duplicates(project, ids, count, progress)
    return replace(
        search,
        removed=tuple(sorted(removed)),
        added=tuple(sorted(set(ids) - set(before.ids))),
        undecided=len(database.undecided_pairs(project)),
    )


def were_duplicates_found(project: ProjectFolder, sample: Sample) -> bool:
    """Whether the last search was in this sample."""
    searches = project.steps("duplicates")
    return bool(searches) and searches[-1].outputs["images"] == hash_project_rows(sample.ids)


def _search_duplicates(project: ProjectFolder, ids: Sequence[str], k: int, progress: Progress) -> DuplicateSearch:
    """Compare the sample with the originals and with itself, and queue the nearest pairs."""
    x = project.kind.stacked(project.example(name, None) for name in ids)
    originals = sorted(database.stored_images(project, "original"), key=lambda row: row.row)
    y = np.concatenate([project.originals, x])
    names = [row.id for row in originals] + list(ids)
    splits = [row.split or "original" for row in originals] + ["new"] * len(ids)
    search = _near_texts if isinstance(project.kind, Texts) else _near_pictures
    distances, metrics, recall = search(x, y, k, progress)
    round_number = max([0, *(row.round for row in database.stored_sample_images(project))])
    queue = []
    for (row, other), (l2, ssim, features) in sorted(distances.items()):
        first, second, split = ids[row], names[other], splits[other]
        if split == "new" and first > second:  # one entry per pair; the later id would be removed
            first, second = second, first
        pair = {"image_id": first, "other_id": second, "other_split": split, "round": round_number}
        queue.append(pair | {"l2": l2, "ssim": ssim, "features": features})
    new = database.queue_duplicates_for_review(project, queue)
    project.record_step(
        "duplicates",
        parameters={"k": k, "metrics": list(metrics), "recall": None if recall is None else recall.value},
        outputs={
            "images": hash_project_rows(ids),
            "pairs": hash_project_rows((ids[a], names[b]) for a, b in sorted(distances)),
        },
    )
    return DuplicateSearch(len(ids), len(originals), new, recall)


Distances = dict[tuple[int, int], tuple[float, float, float | None]]


def _near_pictures(
    x: NDArray[Any], y: NDArray[Any], k: int, progress: Progress
) -> tuple[Distances, Sequence[str], Estimate | None]:
    """L2, SSIM and distance of descriptors of each image (row) and its nearest (of y, which ends with x)."""
    pairs: set[tuple[int, int]] = set()
    recall = None
    metrics = ("l2", "features", "ssim") if min(x.shape[1:3]) >= 7 else ("l2", "features")
    for number, metric in enumerate(metrics):
        progress(f"nearest by {metric}", number / len(metrics))
        result = near_duplicates(x, y, min(k + 1, len(y)), metric, seed=0)
        recall = result.recall or recall
        for row in range(len(x)):
            own = len(y) - len(x) + row
            pairs |= {(row, int(j)) for j in [j for j in result.indices[row] if j != own][:k]}
    rows, others = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2).T
    l2 = np.empty(len(rows))
    for start in range(0, len(rows), _PAIRS_AT_ONCE):
        piece = slice(start, start + _PAIRS_AT_ONCE)
        difference = x[rows[piece]].astype(np.float64) - y[others[piece]]
        l2[piece] = np.sqrt((difference.reshape(len(difference), -1) ** 2).sum(axis=1))
    similarity = ssim_pairs(x, y, rows, others) if "ssim" in metrics else np.zeros(len(rows))
    features = np.linalg.norm(duplicate_descriptors(x)[rows] - duplicate_descriptors(y[others]), axis=1)
    values = zip(l2.tolist(), similarity.tolist(), features.tolist(), strict=True)
    return dict(zip(sorted(pairs), values, strict=True)), metrics, recall


def _near_texts(
    x: NDArray[Any], y: NDArray[Any], k: int, progress: Progress
) -> tuple[Distances, Sequence[str], Estimate | None]:
    """In the place of SSIM the proportion of words that each text and those most like it have in common, in order.

    Pairs whose words differ too much to be altered copies are left out; texts that differ in case, spaces or marks
    alone have 1.
    """
    own = len(y) - len(x)
    equal: dict[str, list[int]] = {}
    for at, text in enumerate(y):
        equal.setdefault(normalised_text(text), []).append(at)
    found = {(row, at): 1.0 for row, text in enumerate(x) for at in equal[normalised_text(text)]}
    for start, references in ((0, y[:own]), (own, y[own:])):
        progress("looking for altered copies", start / len(y))
        copies = match_texts(x.tolist(), references.tolist())
        for row, column in zip(*np.nonzero(copies.similarity), strict=True):
            pair = int(row), start + int(copies.references[row, column])
            found[pair] = max(found.get(pair, 0.0), float(copies.similarity[row, column]))
    nearest: dict[int, list[tuple[float, int]]] = {}
    for (row, other), similarity in found.items():
        if other != own + row:
            nearest.setdefault(row, []).append((-similarity, other))
    pairs = {(row, other): -away for row, others in nearest.items() for away, other in sorted(others)[:k]}
    return {pair: (0.0, similarity, None) for pair, similarity in pairs.items()}, ("words",), None
