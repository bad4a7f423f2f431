"""Documents of an assembled set: the datasheet in Markdown and Croissant 1.0 (JSON-LD)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hardpan
from hardpan.estimates import Estimate
from hardpan.replicate import database
from hardpan.replicate.folder import ProjectFolder
from hardpan.replicate.quality import annotation_quality
from hardpan.replicate.sampling import BINS, MIN_ORIGINALS, Sample

UNREVIEWED = "unreviewed_pairs.csv"
_MEDIA_TYPES = {
    "npz": "application/x-npz",
    "parquet": "application/vnd.apache.parquet",
    "csv": "text/csv",
    "md": "text/markdown",
}


_EXAMPLE_FIELDS = {  # columns of index.csv
    "id": ("Text", "The example: the first 16 digits of a hash of its content."),
    "class": ("Text", "Its class."),
    "subclass": ("Text", "Its keyword inside the class, where there is one."),
    "frequency": ("Float", "Its selection frequency: proportion of annotators who selected it for its class."),
    "votes": ("Integer", "How many annotators saw it."),
    "fill": ("Text", "Why it was taken from another bin or sub-class, if it was."),
    "source": ("Text", "Where it comes from."),
    "date": ("Text", "Its date, where it is known."),
    "sha256": ("Text", "Hash of its content: of the text, or of the pixels in the size of the set."),
}
_TEXT_FIELDS = {"id": ("Text", "The text."), "text": ("Text", "Its content."), "label": ("Text", "Its class.")}


@dataclass(frozen=True)
class DatasheetFacts:
    """What the documents of a set say; ``unseen`` images had no final review, ``waiting`` pairs no decision."""

    project: ProjectFolder
    sample: Sample
    author: str
    license: str
    unseen: int
    waiting: Sequence[database.UndecidedPair]

    @property
    def per_class(self) -> dict[str, int]:
        """Images by class name."""
        return dict(sorted(Counter(image.class_name for image in self.sample.images).items()))

    @property
    def date(self) -> str:
        """Today, in UTC."""
        return datetime.fromtimestamp(self.project.clock(), UTC).date().isoformat()

    def croissant(self, files: Mapping[str, str], sizes: Mapping[str, int]) -> dict[str, Any]:
        """The set as Croissant 1.0: what is the same in every set comes from ``croissant.json`` beside this module.

        Args:
            files: path inside the set to sha256.
            sizes: path inside the set to bytes.
        """
        result: dict[str, Any] = json.loads(Path(__file__).with_name("croissant.json").read_text(encoding="utf-8"))
        config, sample, author = self.project.config, self.sample, self.author or "not stated"
        noun = self.project.kind.noun
        examples, pictures = result["recordSet"]
        examples["field"] = _croissant_fields("examples", "index.csv", _EXAMPLE_FIELDS)
        texts: dict[str, Any] = {
            "@type": "cr:RecordSet",
            "@id": "texts",
            "name": "texts",
            "description": "Every text.",
        }
        texts["key"] = {"@id": "texts/id"}
        texts["field"] = _croissant_fields("texts", "data.parquet", _TEXT_FIELDS)
        objects = [
            {
                "@type": "cr:FileObject",
                "@id": name,
                "name": name,
                "contentUrl": name,
                "contentSize": f"{sizes[name]} B",
                "encodingFormat": _MEDIA_TYPES[name.rpartition(".")[2]],
                "sha256": digest,
            }
            for name, digest in files.items()
            if not name.startswith("images/")
        ]
        address = self.license.startswith(("https://", "http://"))
        return result | {
            "name": config.name,
            "description": (
                f"A new test set, collected in the same way as {config.original}: {len(sample.images)} {noun}s, "
                f"strategy {sample.strategy}, average selection frequency {sample.average_frequency.value:.3f}."
            ),
            "datePublished": self.date,
            "dateCreated": self.date,
            "license": self.license
            if address
            else {"@type": "sc:CreativeWork", "name": self.license or "not stated"},
            "creator": {"@type": "sc:Organization", "name": author},
            "citeAs": f"{author}: {config.name}, {self.date[:4]}",
            "keywords": [*result["keywords"], f"{noun} classification", *self.per_class][:50],
            "distribution": [*objects, *(result["distribution"] if noun == "image" else ())],
            "recordSet": [examples, pictures if noun == "image" else texts],
        }


def _croissant_fields(record: str, file: str, described: Mapping[str, tuple[str, str]]) -> list[dict[str, Any]]:
    """The columns of a file as fields of a record set."""
    return [
        {
            "@type": "cr:Field",
            "@id": f"{record}/{name}",
            "name": f"{record}/{name}",
            "description": text,
            "dataType": f"sc:{kind}",
            "source": {"fileObject": {"@id": file}, "extract": {"column": name}},
        }
        for name, (kind, text) in described.items()
    ]


def datasheet_text(facts: DatasheetFacts) -> str:
    """The datasheet of a set as Markdown: ``datasheet.md`` beside this module with its blanks filled."""
    project, sample, text = facts.project, facts.sample, _datasheet_markdown
    quality = annotation_quality(project)
    source_of = {row.id: row.source for row in database.stored_images(project, "candidate")}
    sources = Counter(source_of[name] for name in sample.ids).most_common()
    pairs, decided = database.count_duplicate_decisions(project)
    controls = [(role, _datasheet_estimate(e), e.n) for role, e in quality.average.items() if role != "candidate"]
    fills = [f"- {i.id} ({text(i.class_name)}): {text(i.fill)}" for i in sample.fills]
    limits = [f"- {text(item)}" for item in datasheet_limits(sample, len(facts.waiting), facts.unseen)]
    bins = unreviewed = ""
    if sample.quotas:
        rows = [(text(name), *counts) for name, counts in sample.quotas.items()]
        bins = f"## Images needed by bin of selection frequency\n\n{_datasheet_table(('class', *BINS), rows)}\n\n"
    if facts.waiting:
        unreviewed = f"{len(facts.waiting):,} of these pairs were not reviewed; `{UNREVIEWED}` lists them.\n\n"
    return (
        Path(__file__)
        .with_name("datasheet.md")
        .read_text(encoding="utf-8")
        .format(
            name=text(project.config.name),
            images=len(sample.images),
            noun=project.kind.noun,
            size=f" ({'×'.join(map(str, project.config.shape))}, 8 bits)" if project.config.shape else "",
            classes=len(facts.per_class),
            original=text(project.config.original),
            date=facts.date,
            author=facts.author and f", by {text(facts.author)}",
            license=facts.license and f". Licence: {text(facts.license)}",
            sample=sample,
            threshold=f", threshold {sample.threshold:g}" if sample.strategy == "threshold" else "",
            frequency=_datasheet_estimate(sample.average_frequency),
            votes=sum(worker.votes for worker in quality.workers),
            workers=len(quality.workers),
            flagged=len(quality.flagged),
            alpha=_datasheet_estimate(quality.alpha),
            controls=_datasheet_table(("controls", "average selection frequency", "images"), controls),
            per_class=_datasheet_table(
                ("class", "images"), [(text(name), n) for name, n in facts.per_class.items()]
            ),
            bins=bins,
            sources="\n".join(
                f"- {text(source) or 'not named'}: {count} {project.kind.noun}s" for source, count in sources
            ),
            pairs=pairs,
            decided=decided,
            removed=sum(row.removed_round is not None for row in database.stored_sample_images(project)),
            unreviewed=unreviewed,
            fills="\n".join(fills or ["None."]),
            limits="\n".join(limits or ["None known."]),
            hash=project.config.original_hash,
            version=hardpan.__version__,
        )
    )


def _datasheet_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (names, ["---"] * len(names), *rows))


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
    interval = f" ({item.low:.3g} to {item.high:.3g}, {100 * item.confidence:g} % interval)"
    return f"{item.value:.3g}" + (interval if item.low < item.high else "")


def _datasheet_markdown(text: str) -> str:
    """Text of others inside Markdown: no markup, no new lines, no table cells."""
    return " ".join("".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in text).split())
