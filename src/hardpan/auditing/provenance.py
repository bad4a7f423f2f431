"""How to make an audit again: the command, and everything that decides its numbers."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shlex
from collections.abc import Sequence

from hardpan import files
from hardpan.auditing.evidence import AuditConfig, Evidence, Finding
from hardpan.auditing.planning import AuditPlan
from hardpan.report.sections import Provenance


def command_of(source: str, evidence: Evidence, plan: AuditPlan) -> str:
    """The command that makes the report again, with what the budget decided written out."""
    if not source:
        return ""
    config = evidence.config
    words = ["hardpan", "audit", source, "--seed", str(config.seed)]
    for option, paths in (("--testbed", config.testbed), ("--predictions", config.predictions)):
        for path in paths:
            words += [option, path]
    for option, value in (
        ("--testbed-new", config.testbed_new),
        ("--new-test", config.new_test),
        ("--votes", config.votes),
    ):
        words += [option, value] if value else []
    words += ["--by-order"] if config.by_order else []
    words += ["--confidence", f"{config.confidence:g}"] if config.confidence != AuditConfig().confidence else []
    if config.flow != "auto":
        words += ["--flow", config.flow]
    elif plan.flow_epochs:
        words += ["--flow-epochs", str(plan.flow_epochs), "--flow-rows", str(plan.flow_rows)]
    if plan.ensemble:
        words += ["--ensemble", plan.ensemble, "--ensemble-epochs", str(plan.ensemble_epochs)]
        if plan.ensemble_rows < len(evidence.split.train):
            words += ["--ensemble-rows", str(plan.ensemble_rows)]
        words += ["--seeds", str(config.seeds)]
    elif config.ensemble != "auto":
        words += ["--ensemble", config.ensemble]
    return shlex.join(words)


def provenance_of(evidence: Evidence, findings: Sequence[Finding], command: str, plan: AuditPlan) -> Provenance:
    """How an audit was made: method and sources of its parts, versions, and hashes of what was read."""
    dataset = evidence.dataset
    packages = ["numpy", "scipy", "scikit-learn"]
    if (plan.ensemble or evidence.flow is not None) and importlib.util.find_spec("torch") is not None:
        packages.append("torch")
    return Provenance(
        method=tuple(text for finding in findings for text in finding.method),
        citations=tuple(dict.fromkeys(text for finding in findings for text in finding.citations)),
        command=command,
        seed=evidence.config.seed,
        versions=files.versions_of(*packages),
        hashes={
            "Examples, sha256": files.array_hash(dataset.x),
            "Labels, sha256": files.array_hash(evidence.labels),
        }
        | {name: digest for finding in findings for name, digest in finding.hashes.items()},
        warnings=evidence.notes,
    )
