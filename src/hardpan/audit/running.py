"""Running an audit: one dataset in, one report out.

To add a part, write ``hardpan/audit/NAME.py`` with a function from :class:`Evidence` to :class:`Finding` and add
its line to ``PARTS``. All parts see the same split, the same predictions and the same flow.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shlex
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import hardpan
from hardpan import datasets, records
from hardpan.audit import counts, examples, floor, fresh, hardness, materials, planning, quality, verdict
from hardpan.audit.evidence import AuditConfig, Evidence, Finding, gather
from hardpan.audit.finished import Audit
from hardpan.audit.planning import AuditPlan
from hardpan.records import Dataset, Provenance, Tile

Progress = Callable[[str, float], None]
WORK = "work"
PLAN = "plan.json"
# What decides only how the audit is made, not what it says.
_NOT_THE_NUMBERS = ("budget", "device")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an audit: what it is doing, how, and whether it was given what it needs."""

    step: str
    find: Callable[[Evidence], Finding]
    wanted: Callable[[AuditConfig], bool] = lambda config: True


PARTS = (
    Part("weighing the floor", floor.find),
    Part("scoring the examples", hardness.find),
    Part("comparing models on fresh data", fresh.find, lambda config: bool(config.testbed or config.new_test)),
    Part("looking for duplicates", quality.find),
    Part("counting the classes", counts.find),
)

# The five numbers of every report, in order; what stands here is shown until a part finds the number.
TILES = {
    "floor": Tile("Floor", detail="Where the lowest possible error lies. Needs labelled train and test examples."),
    "best": Tile("Best model", detail="Its error on the test set. Needs one classifier that can be scored."),
    "headroom": Tile("Headroom", detail="What is left to win. Needs the test predictions of your best model."),
    "hard": Tile(
        "Errors in the confusing tenth",
        detail="Needs the predictions of several seeds.",
        command="hardpan audit DATA --predictions STORE",
    ),
    "fresh": Tile(
        "Drop on fresh data",
        detail="Needs the scores of several models on this test set and on a second one, collected like the first.",
        command="hardpan audit DATA --testbed counts.csv",
    ),
}


def run(
    dataset: Dataset | str | os.PathLike[str],
    config: AuditConfig | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    on_plan: Callable[[AuditPlan], None] | None = None,
    **changes: object,
) -> Audit:
    """Audit a dataset: how low its error can go, which examples are hard, whether the score will hold.

    Args:
        dataset: a labelled dataset, or what :func:`hardpan.datasets.load` loads.
        config: the settings; the defaults of :class:`AuditConfig` if None.
        out: folder for the page, the record, the table of all examples, and what was trained; an audit that was
            stopped goes on from there. None keeps nothing.
        progress: called with the step that begins and the fraction of the work that is done.
        on_plan: called with the plan before anything is trained.
        changes: settings to be changed in ``config``.

    Returns:
        The finished audit.

    Example:
        >>> audit = run("digits", ensemble="none", flow="none")
        >>> [section.title for section in audit.sections]
        ['The floor', 'Which examples are hard?', 'Data quality', 'What is in it']
    """
    config = dataclasses.replace(config or AuditConfig(), **changes)  # type: ignore[arg-type]
    report = progress or (lambda step, fraction: None)
    report("reading the data", 0.0)
    source = "" if isinstance(dataset, Dataset) else os.fspath(dataset)
    if not isinstance(dataset, Dataset):
        dataset = datasets.load(dataset)
    evidence = gather(dataset, config)
    with _workplace(out, evidence) as work:
        report("planning", 0.01)
        plan = _plan(evidence, work)
        if on_plan is not None:
            on_plan(plan)
        evidence = materials.obtain(evidence, plan, work, _between(report, 0.03, 0.75))
        findings = []
        parts = [part for part in PARTS if part.wanted(config)]
        for number, part in enumerate(parts):
            report(part.step, 0.75 + 0.2 * number / len(parts))
            found = part.find(evidence)
            findings.append(found)
            evidence = dataclasses.replace(evidence, columns={**evidence.columns, **found.columns})
        made = _joined(evidence, findings, _command(source, config, plan), plan)
        if out is not None:
            report("writing", 0.96)
            _write(made, evidence, findings, Path(out))
    return made


def _joined(evidence: Evidence, findings: Sequence[Finding], command: str, plan: AuditPlan) -> Audit:
    tiles = dict(TILES)
    for finding in findings:
        tiles.update(finding.tiles)
    measures = {name: item for finding in findings for name, item in finding.measures.items()}
    told = verdict.tell(evidence, findings, measures)
    return Audit(
        dataset=evidence.dataset.name,
        config=evidence.config,
        headline=told.headline,
        lede=told.lede,
        tiles=tuple(tiles.values()),
        sections=(*(finding.section for finding in findings),),
        provenance=_provenance(evidence, findings, command, plan),
        measures=measures,
        curves={name: curve for finding in findings for name, curve in finding.curves.items()},
        findings=told.findings,
        next_steps=told.next_steps,
    )


def _write(made: Audit, evidence: Evidence, findings: Sequence[Finding], folder: Path) -> None:
    """The table first, the report last: whoever sees the report sees everything."""
    table = examples.join(evidence.dataset, evidence.parts, evidence.columns)
    examples.write(folder, table, evidence.dataset)
    made.save(folder, {name: text for finding in findings for name, text in finding.files.items()})


def _plan(evidence: Evidence, work: Path) -> AuditPlan:
    """The plan of this audit: the one it began with, where it was begun before."""
    place = work / PLAN
    if place.is_file():
        found = records.load(place)
        if isinstance(found, AuditPlan):
            return found
    plan = planning.make_plan(evidence)
    records.save(plan, place)
    return plan


class _workplace:  # noqa: N801  (reads as a verb where it is used)
    """The folder of what is trained: in the audit's folder, one for each combination of data and settings."""

    def __init__(self, out: str | os.PathLike[str] | None, evidence: Evidence) -> None:
        self._parent = None if out is None else Path(out) / WORK
        settings = {
            name: value
            for name, value in dataclasses.asdict(evidence.config).items()
            if name not in _NOT_THE_NUMBERS
        }
        told = json.dumps([settings, records.array_hash(evidence.dataset.x), records.array_hash(evidence.labels)])
        self._name = hashlib.sha256(told.encode()).hexdigest()[:12]
        self._temporary: Path | None = None

    def __enter__(self) -> Path:
        if self._parent is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="hardpan-audit-"))
            return self._temporary
        place = self._parent / self._name
        place.mkdir(parents=True, exist_ok=True)
        return place

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
        elif kind is None and self._parent is not None:
            for other in self._parent.iterdir():  # what an earlier audit with other settings trained
                if other.name != self._name:
                    shutil.rmtree(other, ignore_errors=True)


def _between(progress: Progress, low: float, high: float) -> Progress:
    return lambda step, fraction: progress(step, low + (high - low) * fraction)


def _command(source: str, config: AuditConfig, plan: AuditPlan) -> str:
    """The command that makes the report again, with what the budget decided written out."""
    if not source:
        return ""
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
    if config.flow != "auto":
        words += ["--flow", config.flow]
    elif plan.flow_epochs:
        words += ["--flow-epochs", str(plan.flow_epochs), "--flow-rows", str(plan.flow_rows)]
    if plan.ensemble:
        words += ["--ensemble", plan.ensemble, "--ensemble-epochs", str(plan.ensemble_epochs)]
        words += ["--seeds", str(config.seeds)]
    elif config.ensemble != "auto":
        words += ["--ensemble", config.ensemble]
    return shlex.join(words)


def _provenance(evidence: Evidence, findings: Sequence[Finding], command: str, plan: AuditPlan) -> Provenance:
    dataset = evidence.dataset
    packages = ["numpy", "scipy", "scikit-learn"]
    if (plan.ensemble or evidence.flow is not None) and importlib.util.find_spec("torch") is not None:
        packages.append("torch")
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
        warnings=evidence.notes,
    )
