"""Documents of an assembled set: the datasheet in Markdown and Croissant 1.0 (JSON-LD)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hardpan
from hardpan import formatting
from hardpan.estimates import Estimate
from hardpan.files import clean_text
from hardpan.replicate import database
from hardpan.replicate.folder import ProjectConfig, ProjectFolder
from hardpan.replicate.quality import AnnotationQuality, annotation_quality
from hardpan.replicate.sampling import BINS, MIN_ORIGINALS, Sample

UNREVIEWED = "unreviewed_pairs.csv"
UNREVIEWED_SHOWN = 20


@dataclass(frozen=True, slots=True)
class DatasheetFacts:
    """Everything the datasheet says."""

    config: ProjectConfig
    author: str
    license: str
    date: str
    sample: Sample
    per_class: Mapping[str, int]
    sources: Mapping[str, int]
    quality: AnnotationQuality
    removed: int
    pairs: int
    pairs_decided: int
    unseen: int
    waiting: Sequence[database.DuplicatePair]


def datasheet_facts(
    project: ProjectFolder,
    sample: Sample,
    author: str,
    license_: str,
    unseen: int,
    waiting: Sequence[database.DuplicatePair],
) -> DatasheetFacts:
    """Gather the facts of a project; ``unseen`` images had no final review, ``waiting`` pairs no decision."""
    sources = {row.id: row.source for row in database.stored_images(project, "candidate")}
    return DatasheetFacts(
        project.config,
        clean_text(author),
        clean_text(license_),
        datetime.fromtimestamp(project.clock(), UTC).date().isoformat(),
        sample,
        dict(sorted(Counter(image.class_name for image in sample.images).items())),
        dict(Counter(sources[name] for name in sample.ids).most_common()),
        annotation_quality(project),
        sum(row.removed_round is not None for row in database.sample_rows(project)),
        len(database.all_duplicate_pairs(project)),
        len(database.decision_verdicts(project, "duplicate")),
        unseen,
        waiting,
    )


def datasheet_text(facts: DatasheetFacts) -> str:
    """The datasheet as Markdown."""
    sample, quality, waiting, text = facts.sample, facts.quality, facts.waiting, _datasheet_markdown
    controls = [(role, _datasheet_estimate(e), e.n) for role, e in quality.average.items() if role != "candidate"]
    fills = [f"- {i.id} ({text(i.class_name)}): {text(i.fill)}" for i in sample.fills]
    limits = [f"- {text(item)}" for item in datasheet_limits(sample, len(waiting), facts.unseen)]
    sources = [f"- {text(source) or 'not named'}: {count} images" for source, count in facts.sources.items()]
    bins = unreviewed = ""
    if sample.quotas:
        rows = [(text(name), *counts) for name, counts in sample.quotas.items()]
        bins = f"## Images needed by bin of selection frequency\n\n{_datasheet_table(('class', *BINS), rows)}\n\n"
    if waiting:
        pairs = [
            (i.image_id, text(i.other_id), i.other_split, f"{i.ssim:.3f}", f"{i.l2:.1f}")
            for i in waiting[:UNREVIEWED_SHOWN]
        ]
        unreviewed = (
            f"{len(waiting):,} of these pairs were not reviewed (`{UNREVIEWED}`); the most similar are:\n\n"
            f"{_datasheet_table(('image', 'other', 'where', 'SSIM', 'l2'), pairs)}\n\n"
        )
    return f"""# {text(facts.config.name)}

A new test set of {len(sample.images):,} images ({"×".join(map(str, facts.config.shape))}, 8 bits) \
in {len(facts.per_class)} classes, collected in the same way as the test set of {text(facts.config.original)}, \
on {facts.date}{f", by {text(facts.author)}" if facts.author else ""}\
{f". Licence: {text(facts.license)}" if facts.license else ""}.

## How the images were chosen

- Strategy: {sample.strategy}{f", threshold {sample.threshold:g}" if sample.strategy == "threshold" else ""}
- Average selection frequency: {_datasheet_estimate(sample.average_frequency)}
- Votes: {sum(worker.votes for worker in quality.workers):,} by {len(quality.workers)} workers, \
{len(quality.flagged)} of whom fail the hidden controls
- Seed: {sample.seed}; at least {sample.min_votes} votes per image
- Agreement of workers on candidates (Krippendorff's α): {_datasheet_estimate(quality.alpha)}

## The annotators on control images

Originals of the target class (positive) and of a nearby class (negative) were hidden in every task.

{_datasheet_table(("controls", "average selection frequency", "images"), controls)}

## Classes

{_datasheet_table(("class", "images"), [(text(name), count) for name, count in facts.per_class.items()])}

{bins}## Sources

{_datasheet_lines(sources)}

## Near-duplicates

{facts.pairs:,} pairs with originals or among the new images were queued for review, \
{facts.pairs_decided:,} were decided; {facts.removed} images were removed and replaced.

{unreviewed}## Images from another bin or sub-class

{_datasheet_lines(fills or ["None."])}

## Limits

{_datasheet_lines(limits or ["None known."])}

## Hashes

- original data: {facts.config.original_hash}
- files of this set: see `lineage.json`; check with `hardpan replicate verify`

Made with hardpan {hardpan.__version__}.
"""


def _datasheet_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    return _datasheet_lines(f"| {' | '.join(map(str, row))} |" for row in (names, ["---"] * len(names), *rows))


def _datasheet_lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def datasheet_limits(sample: Sample, unreviewed_pairs: int = 0, without_final_review: int = 0) -> tuple[str, ...]:
    """What a reader of a set has to know: votes that do not count, missing images, what nobody reviewed."""
    lines = [
        f"{count} {what} have fewer than {sample.min_votes} votes and do not count"
        for count, what in ((sample.too_few_votes, "candidates"), (sample.originals_too_few_votes, "originals"))
        if count
    ]
    lines += [
        f"class {name}: {count} annotated originals, fewer than {MIN_ORIGINALS}"
        for name, count in sample.few_originals.items()
    ]
    lines += [
        f"class {item.class_name}: {item.missing} missing"
        + (f" of sub-class {item.subclass}" if item.subclass else "")
        + (f" in bin {BINS[item.slot]}" if item.slot >= 0 else "")
        for item in sample.shortfalls
    ]
    if sample.without_flagged and sample.too_few_votes:
        lines.append(
            "flagged workers are left out, so request replacements with: hardpan replicate tasks PROJECT --top-up"
        )
    if unreviewed_pairs:
        lines.append(
            f"{unreviewed_pairs:,} pairs of possible near-duplicates were not reviewed; {UNREVIEWED} lists them"
        )
    if without_final_review:
        lines.append(f"{without_final_review} images had no final review")
    return tuple(lines)


def _datasheet_estimate(item: Estimate | None) -> str:
    if item is None or item.value != item.value:
        return "not known"
    text = formatting.plain(item)
    return f"{text}, {100 * item.confidence:g} % interval" if item.low < item.high else text


def _datasheet_markdown(text: str) -> str:
    """Text of others inside Markdown: no markup, no new lines, no table cells."""
    return " ".join("".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in text).split())


# Licences that are known by these names; anything else is given as a name and no address.
_SPDX = (
    *("CC0-1.0", "CC-BY-4.0", "CC-BY-SA-4.0", "CC-BY-NC-4.0", "CC-BY-ND-4.0", "CC-BY-NC-SA-4.0"),
    *("CC-BY-NC-ND-4.0", "CC-BY-3.0", "MIT", "Apache-2.0", "BSD-3-Clause", "ODbL-1.0", "ODC-By-1.0"),
    *("PDDL-1.0",),
)
_TYPES = {"npz": "application/x-npz", "csv": "text/csv", "md": "text/markdown", "json": "application/json"}


def croissant_document(facts: DatasheetFacts, files: Mapping[str, str], sizes: Mapping[str, int]) -> dict[str, Any]:
    """The set as Croissant 1.0: what is the same in every set comes from ``croissant.json`` beside this module.

    Args:
        facts: what the datasheet says.
        files: path inside the set to sha256.
        sizes: path inside the set to bytes.
    """
    result: dict[str, Any] = json.loads(Path(__file__).with_name("croissant.json").read_text(encoding="utf-8"))
    if not any(name.startswith("images/") for name in files):
        result["distribution"], result["recordSet"] = [], result["recordSet"][:1]
    objects = [
        {
            "@type": "cr:FileObject",
            "@id": name,
            "name": name,
            "contentUrl": name,
            "contentSize": f"{sizes[name]} B",
            "encodingFormat": _TYPES.get(name.rpartition(".")[2], "application/octet-stream"),
            "sha256": digest,
        }
        for name, digest in files.items()
        if not name.startswith("images/")
    ]
    author = facts.author or "not stated"
    return result | {
        "name": facts.config.name,
        "description": (
            f"A new test set, collected in the same way as {facts.config.original}: {len(facts.sample.images)} "
            f"images, strategy {facts.sample.strategy}, average selection frequency "
            f"{facts.sample.average_frequency.value:.3f}."
        ),
        "datePublished": facts.date,
        "dateCreated": facts.date,
        "license": _croissant_license(facts.license),
        "creator": {"@type": "sc:Organization", "name": author},
        "citeAs": f"{author}: {facts.config.name}, {facts.date[:4]}",
        "keywords": [*result["keywords"], *facts.per_class][:50],
        "distribution": [*objects, *result["distribution"]],
    }


def _croissant_license(name: str) -> Any:
    """The licence's address where it is one or is known by its SPDX name, else a work with a name only.

    Example:
        >>> _croissant_license("CC-BY-4.0"), _croissant_license("ours")["name"]
        ('https://spdx.org/licenses/CC-BY-4.0.html', 'ours')
    """
    if name.startswith(("https://", "http://")):
        return name
    if name in _SPDX:
        return f"https://spdx.org/licenses/{name}.html"
    return {"@type": "sc:CreativeWork", "name": name or "not stated"}
