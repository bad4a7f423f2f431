"""Will the score hold: the same models on the original and on a fresh test set, where a table of them is given."""

from __future__ import annotations

from pathlib import Path

from hardpan import testbed
from hardpan.audit.evidence import Evidence, Finding
from hardpan.records import Tile
from hardpan.report import numbers


def find(evidence: Evidence) -> Finding:
    """Compare the models of the table that ``config.testbed`` names."""
    config = evidence.config
    table = testbed.read(*config.testbed, new=config.testbed_new or None)
    report = testbed.compare(table, seed=config.seed, confidence=config.confidence)
    made = testbed.provenance(report, [Path(path) for path in config.testbed])
    gap = report.mean_gap
    detail = f"Mean over {len(report.rows)} models, {100 * gap.confidence:g} % interval; each counts once."
    return Finding(
        testbed.section(report),
        {"fresh": Tile("Drop on fresh data", f"{numbers.estimate(gap)}".replace(" %", " points"), detail)},
        method=made.method,
        citations=made.citations,
        hashes=made.hashes,
    )
