"""The datasheet of an assembled set, in Markdown, and the facts that it states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import hardpan
from hardpan import numbers
from hardpan.estimates import Estimate
from hardpan.replicate.bins import BINS
from hardpan.replicate.project import Project
from hardpan.replicate.sampling import Sample

if TYPE_CHECKING:
    from hardpan.replicate.database.decisions import PairItem

UNREVIEWED_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything the datasheet says."""

    name: str
    author: str
    license: str
    date: str
    original: str
    original_hash: str
    shape: tuple[int, ...]
    sample: Sample
    per_class: Mapping[str, int]
    sources: Mapping[str, int]
    votes: int
    workers: int
    flagged: int
    alpha: Estimate | None
    controls: Mapping[str, Estimate]
    removed: Mapping[str, int]
    pairs: int
    pairs_decided: int
    warnings: Sequence[str]
    waiting: Sequence[PairItem]


def facts_of(
    project: Project,
    drawn: Sample,
    shape: tuple[int, ...],
    author: str,
    license_: str,
    warnings: Sequence[str],
    waiting: Sequence[PairItem] = (),
) -> Facts:
    """Gather the facts of a project."""
    from hardpan.replicate.database.chosen import all_pairs, chosen_rows
    from hardpan.replicate.database.decisions import verdicts
    from hardpan.replicate.database.images import stored_images
    from hardpan.replicate.quality import annotation_quality

    quality = annotation_quality(project)
    known = {row.id: row for row in stored_images(project, "candidate")}
    removed = Counter(row.removed_why for row in chosen_rows(project) if row.removed_round is not None)
    return Facts(
        project.config.name,
        author,
        license_,
        datetime.fromtimestamp(project.clock(), UTC).date().isoformat(),
        project.config.original,
        project.config.original_hash,
        shape,
        drawn,
        dict(sorted(Counter(image.class_name for image in drawn.images).items())),
        dict(Counter(known[name].source for name in drawn.ids).most_common()),
        sum(worker.votes for worker in quality.workers),
        len(quality.workers),
        len(quality.flagged),
        quality.alpha,
        quality.average,
        dict(removed),
        len(all_pairs(project)),
        len(verdicts(project, "duplicate")),
        warnings,
        waiting,
    )


def datasheet(facts: Facts) -> str:
    """The datasheet as Markdown."""
    drawn = facts.sample
    lines = [
        *_opening(facts),
        "## The annotators on control images",
        "",
        "Originals of the target class (positive) and of a nearby class (negative) were hidden in every task.",
        "",
        "| controls | average selection frequency | images |",
        "| --- | --- | --- |",
        *(f"| {role} | {_shown(e)} | {e.n} |" for role, e in facts.controls.items() if role != "candidate"),
        "",
        "## Classes",
        "",
        "| class | images |",
        "| --- | --- |",
        *(f"| {_plain(name)} | {count} |" for name, count in facts.per_class.items()),
        "",
        *_bins(drawn),
        "## Sources",
        "",
        *(f"- {_plain(source) or 'not named'}: {count} images" for source, count in facts.sources.items()),
        "",
        "## Near-duplicates",
        "",
        f"{facts.pairs:,} pairs with originals or among the new images were put up for review, "
        f"{facts.pairs_decided:,} were decided; {sum(facts.removed.values())} images were removed and replaced.",
        "",
        *_unreviewed(facts.waiting),
        "## Fills",
        "",
        *([f"- {i.id} ({_plain(i.class_name)}): {_plain(i.fill)}" for i in drawn.fills] or ["None."]),
        "",
        "## What limits it",
        "",
        *([f"- {_plain(item)}" for item in facts.warnings] or ["Nothing that was noticed."]),
        "",
        "## Hashes",
        "",
        f"- original data: {facts.original_hash}",
        "- files of this set: see `lineage.json`; check with `hardpan replicate verify`",
        "",
        f"Made with hardpan {hardpan.__version__}.",
        "",
    ]
    return "\n".join(lines)


def _opening(facts: Facts) -> list[str]:
    """What the set is, and how its images were chosen."""
    drawn = facts.sample
    size = "×".join(str(n) for n in facts.shape)
    author = f", by {_plain(facts.author)}" if facts.author else ""
    licence = f". Licence: {_plain(facts.license)}" if facts.license else ""
    threshold = f", threshold {drawn.threshold:g}" if drawn.strategy == "threshold" else ""
    return [
        f"# {_plain(facts.name)}",
        "",
        f"A new test set of {len(drawn.images):,} images ({size}, 8 bits) in {len(facts.per_class)} classes, made "
        f"in the manner of the test set of {_plain(facts.original)}, on {facts.date}{author}{licence}.",
        "",
        "## How the images were chosen",
        "",
        f"- Strategy: {drawn.strategy}{threshold}",
        f"- Average selection frequency: {_shown(drawn.average_frequency)}",
        f"- Votes: {facts.votes:,} by {facts.workers} workers, {facts.flagged} of whom fail the hidden controls",
        f"- Seed: {drawn.seed}; at least {drawn.min_votes} votes an image",
        f"- Agreement of workers on candidates (Krippendorff's α): {_shown(facts.alpha)}",
        "",
    ]


def _unreviewed(waiting: Sequence[PairItem]) -> list[str]:
    """The pairs that nobody has reviewed: all of them by file, the most similar by name."""
    if not waiting:
        return []
    shown = waiting[:UNREVIEWED_SHOWN]
    return [
        f"Nobody has reviewed {len(waiting):,} of these pairs (`unreviewed_pairs.csv`); the most similar are:",
        "",
        "| image | other | where | SSIM | l2 |",
        "| --- | --- | --- | --- | --- |",
        *(f"| {i.image_id} | {_plain(i.other_id)} | {i.place} | {i.ssim:.3f} | {i.l2:.1f} |" for i in shown),
        "",
    ]


def _bins(drawn: Sample) -> list[str]:
    if not drawn.quotas:
        return []
    rows = [f"| {_plain(name)} | {' | '.join(str(n) for n in counts)} |" for name, counts in drawn.quotas.items()]
    head = [f"| class | {' | '.join(BINS)} |", "| --- " * (1 + len(BINS)) + "|"]
    return ["## Wanted images by bin of selection frequency", "", *head, *rows, ""]


def _shown(item: Estimate | None) -> str:
    if item is None or item.value != item.value:
        return "not known"
    text = numbers.plain(item)
    return f"{text}, {100 * item.confidence:g} % interval" if item.low < item.high else text


def _plain(text: str) -> str:
    """Text of others inside Markdown: no markup, no new lines, no table cells."""
    return " ".join("".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in text).split())
