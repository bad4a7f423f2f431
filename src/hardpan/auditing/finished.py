"""A finished audit: what it says, what that rests on, and how to show it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hardpan import files
from hardpan.auditing.evidence import AuditConfig
from hardpan.bayes.floors import Entry
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.report.files import Content, write_together
from hardpan.report.notebook import framed
from hardpan.report.sections import Provenance, Section, Tile


@record
@dataclass(frozen=True, slots=True)
class Audit:
    """A finished audit: what it says, what that rests on, and how to show it.

    Attributes:
        dataset: name of the dataset.
        config: the settings.
        headline: the one sentence to take away.
        lede: a few sentences under it.
        tiles: the five numbers at the top.
        sections: the parts, in order.
        provenance: how it was made.
        measures: the numbers by the names of :data:`hardpan.auditing.measures.MEASURES`, for comparisons.
        verdicts: of these numbers, how the weighing of the floor ended for them: whether they stand, and what is
            against them.
        curves: floors against temperature by the name of the floor: pairs of temperature and error.
        findings: what was found, a line a measure.
        next_steps: what the numbers advise.
    """

    dataset: str
    config: AuditConfig
    headline: str
    lede: tuple[str, ...]
    tiles: tuple[Tile, ...]
    sections: tuple[Section, ...]
    provenance: Provenance
    measures: Mapping[str, Estimate] = field(default_factory=dict)
    curves: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    findings: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    verdicts: Mapping[str, Entry] = field(default_factory=dict)

    def to_html(self) -> str:
        """Give the report as one self-contained HTML file."""
        from hardpan.report import page  # the drawing library loads when a page is first written

        return page(
            self._shown(),
            title=f"Audit of {self.dataset}",
            headline=self.headline,
            lede=self.lede,
            tiles=self.tiles,
            provenance=self.provenance,
        )

    def _shown(self) -> tuple[Section, ...]:
        if not self.next_steps:
            return self.sections
        return (Section("What to do next", self.next_steps), *self.sections)

    def to_json(self) -> str:
        """Give the report as JSON text; :func:`hardpan.files.from_json` reads it back."""
        return files.dumps(files.to_json(self))

    def save(self, folder: str | os.PathLike[str], more: Mapping[str, Content] | None = None) -> Path:
        """Write index.html, report.json and config.json into a folder, all or none; give the path of the page.

        Where report.json is, everything beside it belongs to it, whenever the writing was killed.

        Args:
            folder: where to.
            more: further files by name, written with them (:func:`hardpan.report.files.write_together`).
        """
        target = Path(folder)
        config = files.dumps(files.to_json(self.config)) + "\n"
        contents = {"index.html": self.to_html(), "config.json": config, "report.json": self.to_json() + "\n"}
        write_together(target, {**(more or {}), **contents})
        return target / "index.html"

    def _repr_html_(self) -> str:
        return framed(self.to_html())
