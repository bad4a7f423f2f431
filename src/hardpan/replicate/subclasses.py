"""Sub-classes: each original's keyword by exact match, their distribution, and what each should give."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from hardpan.arguments import whole_number
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.files import file_hash, record
from hardpan.replicate.folder import ProjectFolder
from hardpan.replicate.pool import decoded, picture_id, read_offers
from hardpan.replicate.sampling import largest_remainder
from hardpan.replicate.steps import hash_rows, record_step
from hardpan.report.base import Report

TOP = 25
_PROGRESS_EVERY = 500


@record
class KeywordShare:
    """A keyword of a class: how many originals have it, how many new images it should give, and from what supply.

    Attributes:
        class_name: the class.
        keyword: the sub-class.
        originals: originals with this keyword.
        share: their share among the kept keywords of the class.
        quota: new images it should give, by largest remainder.
        supply: candidates it has (within the date window).
        used: quota as a proportion of the supply; above 1 where the supply is too small.
    """

    class_name: str
    keyword: str
    originals: int
    share: float
    quota: int
    supply: int
    used: float


@record
class Subclasses(Report):
    """What :func:`find_subclasses` did.

    Attributes:
        matched: originals whose keyword an exact match gave.
        unmatched: originals without a keyword.
        coverage: per class, the proportion of its originals with a keyword that the kept keywords cover.
        keywords: the kept keywords.
        outside: candidates outside the date window, which are set aside.
    """

    matched: int
    unmatched: int
    coverage: Mapping[str, float]
    keywords: tuple[KeywordShare, ...]
    outside: int


def keyword_quotas(counts: Mapping[str, int], total: int, top: int = TOP) -> dict[str, int]:
    """How many of ``total`` images each of the ``top`` most common keywords should give, by largest remainder.

    Equal counts: names in order, the earlier kept; equal remainders go to the more common keyword.

    Example:
        >>> keyword_quotas({"tabby": 6, "siamese": 3, "rare": 1}, 4, top=2)
        {'tabby': 3, 'siamese': 1}
    """
    common = sorted(counts, key=lambda name: (-counts[name], name))[:top]
    if not common:
        return {}
    # largest_remainder gives ties to later entries; reversed, those are the more common keywords.
    quotas = largest_remainder([counts[name] for name in reversed(common)], total)
    return dict(zip(common, reversed(quotas.tolist()), strict=True))


def find_subclasses(
    project: ProjectFolder,
    source: str | os.PathLike[str] | None = None,
    *,
    per_class: int,
    top: int = TOP,
    first_date: str = "",
    last_date: str = "",
    progress: Progress | None = None,
) -> Subclasses:
    """Find originals' keywords, make quotas, and give candidates with a kept keyword their class.

    Args:
        project: an open project.
        source: folder or table of images with keywords: originals get the keyword of the same image there; default:
            they keep their own.
        per_class: number of new images per class.
        top: number of keywords to keep per class.
        first_date: exclude candidates from before this date, such as 2012-01-31, or without a date.
        last_date: exclude candidates from after this date, or without a date.
        progress: called with the step and the fraction done.
    """
    from hardpan.replicate.database.images import contents, set_aside, set_columns, set_quotas, stored_images

    project.check_open()  # the sample of a frozen set is replayed with the quotas that it was drawn by
    whole_number("per_class", per_class, 1)
    whole_number("top", top, 1)
    window = _window(first_date, last_date)
    inputs: dict[str, str] = {}
    if source is not None:
        result, inputs = _matches(project, Path(source), contents(project, "original"), progress)
        set_columns(project, [{"id": name, "keyword": word} for name, word in sorted(result.items())], "keywords")
    originals = stored_images(project, "original")
    outside = [row.id for row in stored_images(project, "candidate") if not _within(row.date, window)]
    set_aside(project, outside)
    counts = [Counter[str]() for _ in project.classes]
    for row in originals:
        if row.keyword is not None and row.class_index is not None:
            counts[row.class_index][row.keyword] += 1
    quotas = [keyword_quotas(count, per_class, top) for count in counts]
    _classify(project, quotas)
    set_quotas(
        project,
        [(c, word, counts[c][word], quota) for c, words in enumerate(quotas) for word, quota in words.items()],
    )
    supply: Counter[tuple[int, str]] = Counter()
    for row in stored_images(project, "candidate"):
        if row.class_index is not None and row.keyword is not None and row.id not in set(outside):
            supply[row.class_index, row.keyword] += 1
    report = _report(project, originals, counts, quotas, supply, len(outside))
    record_step(
        project,
        "subclasses",
        inputs=inputs,
        parameters={"per_class": per_class, "top": top, "first_date": first_date, "last_date": last_date},
        outputs={"quotas": hash_rows(sorted([k.class_name, k.keyword, k.quota] for k in report.keywords))},
    )
    return report


def _matches(
    project: ProjectFolder, source: Path, originals: Mapping[str, str], progress: Progress | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Original id to keyword, of pictures with the same pixels (distance 0)."""
    results: dict[str, str] = {}
    read = []
    offered = list(read_offers(source))
    for number, item in enumerate(offered):
        if progress is not None and number % _PROGRESS_EVERY == 0:
            progress(f"looking for originals, {number:,} of {len(offered):,} pictures", number / len(offered))
        word = item.keyword or item.class_name
        pixels = decoded(project, item)
        if isinstance(pixels, str) or not word:
            continue
        name = picture_id(pixels)
        read.append((item.name, name, word))
        if name in originals:
            results.setdefault(originals[name], word)
    inputs = {"source": hash_rows(read)}
    if source.is_file():
        inputs["table"] = file_hash(source)
    return results, inputs


def _classify(project: ProjectFolder, quotas: Sequence[Mapping[str, int]]) -> None:
    """A candidate that came with a keyword but without a class gets the class of the keyword."""
    from hardpan.replicate.database.images import set_columns, stored_images

    owners: dict[str, list[int]] = {}
    for c, words in enumerate(quotas):
        for word in words:
            owners.setdefault(word, []).append(c)
    rows = [
        {"id": row.id, "class_index": owners[row.keyword][0]}
        for row in stored_images(project, "candidate")
        if row.class_index is None and len(owners.get(row.keyword or "", ())) == 1
    ]
    set_columns(project, rows, "classes")


def _report(
    project: ProjectFolder,
    originals: Sequence[Any],
    counts: Sequence[Counter[str]],
    quotas: Sequence[Mapping[str, int]],
    supply: Counter[tuple[int, str]],
    outside: int,
) -> Subclasses:
    names = [item.name for item in project.classes]
    keywords, coverage = [], {}
    for c, words in enumerate(quotas):
        covered = sum(counts[c][word] for word in words)
        if counts[c]:
            coverage[names[c]] = covered / counts[c].total()
        for word, quota in words.items():
            have = supply[c, word]
            used = quota / have if have else (float("inf") if quota else 0.0)
            keywords.append(
                KeywordShare(names[c], word, counts[c][word], counts[c][word] / covered, quota, have, used)
            )
    matched = sum(row.keyword is not None for row in originals)
    return Subclasses(matched, len(originals) - matched, coverage, tuple(keywords), outside)


def _window(first: str, last: str) -> tuple[date | None, date | None]:
    ends = tuple(_date(text) if text else None for text in (first, last))
    for text, end in zip((first, last), ends, strict=True):
        if text and end is None:
            raise InputError(f"a date must be written as YYYY-MM-DD; got {text!r}")
    if ends[0] and ends[1] and ends[0] > ends[1]:
        raise InputError(f"the dates must rise; got from {first} to {last}")
    return ends[0], ends[1]


def _within(text: str | None, window: tuple[date | None, date | None]) -> bool:
    if window == (None, None):
        return True
    when = _date(text or "")
    if when is None:
        return False
    return (window[0] is None or when >= window[0]) and (window[1] is None or when <= window[1])


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text.strip()[:10])
    except ValueError:
        return None
