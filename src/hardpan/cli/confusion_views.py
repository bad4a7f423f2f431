"""What ``hardpan confusion`` prints for a person."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from hardpan import numbers
from hardpan.confusion import Subset
from hardpan.confusion.reports import ComparisonReport
from hardpan.confusion.shown import subset_sentence
from hardpan.report.sections import Section
from hardpan.report.terminal import FittedTable


def section(part: Section, page: Path | None, tables: int = 1, rows: int = 24) -> RenderableType:
    """The sentences, the first tables, the warnings and where the page lies."""
    lines: list[RenderableType] = [Text(sentence) for sentence in part.sentences]
    lines += [FittedTable(item.title, item.columns, item.rows[:rows]) for item in part.tables[:tables]]
    lines += [Text(warning, style="yellow") for warning in part.warnings]
    return Group(*lines, *_page(page))


def predictors(part: Section, report: ComparisonReport, page: Path | None) -> RenderableType:
    """The table with fewer intervals than the page has, to fit a terminal; what the scores are is on the page."""
    measured = [
        numbers.aligned(getattr(row, name) for row in report.predictors.rows)
        for name in ("by_band", "by_example", "auroc", "aupr", "aurc")
    ]
    rows = [
        (row.name, "yes" if row.uses_labels else "no", _value(band), _value(example), auroc, *map(_value, rest))
        for row, band, example, auroc, *rest in zip(report.predictors.rows, *measured, strict=True)
    ]
    columns = ("score", "labels", "ρ band", "ρ example", "AUROC", "AUPR", "AURC")
    title = "Difficulty scores as predictors of errors; every number has an interval in the JSON and on the page"
    lines: list[RenderableType] = [Text(sentence) for sentence in part.sentences]
    lines.append(FittedTable(title, columns, rows))
    lines += [FittedTable(item.title, item.columns, item.rows) for item in part.tables[2:]]
    return Group(*lines, *_page(page))


def subset(found: Subset, written: Path | None, page: Path | None) -> RenderableType:
    """How many, from where, and where the manifest lies."""
    lines = [
        subset_sentence(found),
        f"Scores {found.scores_sha256[:16]}, ids {found.ids_sha256[:16]}.",
    ]
    if found.per_class:
        shown = ", ".join(f"{name} {count}" for name, count in list(found.per_class.items())[:20])
        lines.insert(1, f"By class: {shown}")
    if written is not None:
        lines.append(f"Manifest: {written}")
    return Group(*map(Text, lines), *_page(page))


def _value(text: str) -> str:
    """What stands before an interval."""
    return text.partition(" (")[0]


def _page(page: Path | None) -> list[RenderableType]:
    return [] if page is None else [Text(f"Page: {page}")]
