"""Running an audit: one dataset in, one report out.

To add a part, write ``hardpan/audit/NAME.py`` with a function from :class:`Evidence` to :class:`Finding` and add
its line to ``PARTS``. All parts see the same split and the same features.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import hardpan
from hardpan import datasets, records
from hardpan.audit import counts, floor, fresh
from hardpan.audit.evidence import AuditConfig, Evidence, Finding, gather
from hardpan.audit.finished import Audit
from hardpan.records import Dataset, Provenance, Tile

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
        measures={name: item for finding in findings for name, item in finding.measures.items()},
        curves={name: curve for finding in findings for name, curve in finding.curves.items()},
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
