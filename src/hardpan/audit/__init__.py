"""The audit: one dataset in, one report out.

To add a part, write ``hardpan/audit/NAME.py`` with a function from :class:`Evidence` to :class:`Finding` and add
its line to ``PARTS``. All parts see the same split and the same features.
"""

from __future__ import annotations

import html
import importlib.metadata
import os
import platform
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import hardpan
from hardpan import datasets, records
from hardpan.audit import counts, floor, fresh
from hardpan.audit.evidence import AuditConfig, Evidence, Finding, gather
from hardpan.records import Dataset, Provenance, Section, Tile, record
from hardpan.report import page
from hardpan.report.files import write_together

__all__ = ["PARTS", "Audit", "AuditConfig", "Evidence", "Finding", "Part", "run"]

Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an audit: what it is doing, how, and whether it was given what it needs."""

    step: str
    find: Callable[[Evidence], Finding]
    wanted: Callable[[AuditConfig], bool] = lambda config: True


PARTS = (
    Part("looking for the floor", floor.find),
    Part("comparing models on fresh data", fresh.find, lambda config: bool(config.testbed)),
    Part("counting the classes", counts.find),
)

# The five numbers of every report, in order; what stands here is shown until a part finds the number.
TILES = {
    "floor": Tile("Floor", detail="Where the lowest possible error lies. Needs labelled train and test examples."),
    "best": Tile("Best model", detail="Its error on the test set. Needs one classifier that can be scored."),
    "headroom": Tile("Headroom", detail="What is left to win. Needs the test predictions of your best model."),
    "hard": Tile("Errors in the confusing tenth", detail="Needs the predictions of several models or seeds."),
    "fresh": Tile(
        "Drop on fresh data",
        detail="Needs the scores of several models on this test set and on a second one, collected like the first.",
        command="hardpan audit DATA --testbed counts.csv",
    ),
}


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
    """

    dataset: str
    config: AuditConfig
    headline: str
    lede: tuple[str, ...]
    tiles: tuple[Tile, ...]
    sections: tuple[Section, ...]
    provenance: Provenance

    def to_html(self) -> str:
        """Give the report as one self-contained HTML file."""
        return page(
            self.sections,
            title=f"Audit of {self.dataset}",
            headline=self.headline,
            lede=self.lede,
            tiles=self.tiles,
            provenance=self.provenance,
        )

    def to_json(self) -> str:
        """Give the report as JSON text; :func:`hardpan.records.from_json` reads it back."""
        return records.dumps(records.to_json(self))

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write index.html, report.json and config.json into a folder, all or none; give the path of the page."""
        target = Path(folder)
        config = records.dumps(records.to_json(self.config)) + "\n"
        files = {"index.html": self.to_html(), "config.json": config, "report.json": self.to_json() + "\n"}
        write_together(target, files)
        return target / "index.html"

    def _repr_html_(self) -> str:
        # A frame of its own keeps the page's styles and scripts apart from the notebook's.
        inside = html.escape(self.to_html(), quote=True)
        style = "width: 100%; height: 48rem; border: 1px solid #888"
        return f'<iframe sandbox="allow-scripts allow-downloads" style="{style}" srcdoc="{inside}"></iframe>'


def run(
    dataset: Dataset | str | os.PathLike[str],
    config: AuditConfig | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Audit a dataset: class counts, and how low its error can go.

    Args:
        dataset: a labelled dataset, or what :func:`hardpan.datasets.load` loads.
        config: the settings; the defaults of :class:`AuditConfig` if None.
        progress: called with the step that begins and the fraction of the work that is done.

    Example:
        >>> audit = run("digits")
        >>> [section.title for section in audit.sections]
        ['The floor', 'What is in it']
    """
    config = config or AuditConfig()
    report = progress or (lambda step, fraction: None)
    report("reading the data", 0.0)
    command = ""
    if not isinstance(dataset, Dataset):
        command = _command(os.fspath(dataset), config)
        dataset = datasets.load(dataset)
    evidence = gather(dataset, config)
    findings = []
    parts = [part for part in PARTS if part.wanted(config)]
    for number, part in enumerate(parts):
        report(part.step, 0.05 + 0.9 * number / len(parts))
        findings.append(part.find(evidence))
    report("writing", 0.95)
    tiles = dict(TILES)
    for finding in findings:
        tiles.update(finding.tiles)
    return Audit(
        dataset=dataset.name,
        config=config,
        headline=" ".join(finding.headline for finding in findings if finding.headline),
        lede=tuple(sentence for finding in findings for sentence in finding.lede),
        tiles=tuple(tiles.values()),
        sections=tuple(finding.section for finding in findings),
        provenance=_provenance(evidence, findings, command),
    )


def _command(source: str, config: AuditConfig) -> str:
    words = ["hardpan", "audit", source, "--seed", str(config.seed)]
    for path in config.testbed:
        words += ["--testbed", path]
    if config.testbed_new:
        words += ["--testbed-new", config.testbed_new]
    return shlex.join(words)


def _provenance(evidence: Evidence, findings: Sequence[Finding], command: str) -> Provenance:
    dataset = evidence.dataset
    packages = ("numpy", "scipy", "scikit-learn")
    versions = {"hardpan": hardpan.__version__, "Python": platform.python_version()}
    return Provenance(
        method=tuple(text for finding in findings for text in finding.method),
        citations=tuple(dict.fromkeys(text for finding in findings for text in finding.citations)),
        command=command,
        seed=evidence.config.seed,
        versions=versions | {name: importlib.metadata.version(name) for name in packages},
        hashes={
            "Examples, sha256": records.array_hash(dataset.x),
            "Labels, sha256": records.array_hash(evidence.labels),
        }
        | {name: digest for finding in findings for name, digest in finding.hashes.items()},
    )
