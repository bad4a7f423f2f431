"""Running an audit: one dataset in, one report out.

To add a part, write ``hardpan/auditing/NAME.py`` with a function from :class:`Evidence` to :class:`Finding` and add
its line to ``PARTS``. All parts see the same split, the same predictions and the same flow.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import files
from hardpan.auditing import counts, examples, floor, fresh, hardness, materials, planning, quality, verdict
from hardpan.auditing.evidence import AuditConfig, Evidence, Finding, gather
from hardpan.auditing.finished import Audit
from hardpan.auditing.planning import AuditPlan
from hardpan.auditing.progress import between, unheard
from hardpan.auditing.provenance import command_of, provenance_of
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.predictions import Predictions
from hardpan.report.files import missing_parents, remove_if_empty
from hardpan.report.sections import Tile

Place = str | os.PathLike[str]
Given = Place | Sequence[Place] | NDArray[Any] | Predictions | Mapping[str, Predictions | ArrayLike]
WORK = "work"
PLAN = "plan.json"
# What decides only how the audit is made, not what it says.
_NOT_THE_NUMBERS = ("budget", "device")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an audit.

    Attributes:
        step: what it is doing, in words.
        find: does it.
        wanted: whether the settings ask for it.
        check: refuses what it was given, before anything is trained for it.
    """

    step: str
    find: Callable[[Evidence], Finding]
    wanted: Callable[[AuditConfig], bool] = lambda config: True
    check: Callable[[Evidence], object] = lambda evidence: None


PARTS = (
    Part("weighing the floor", floor.find),
    Part("scoring the examples", hardness.find),
    Part(
        "comparing models on fresh data",
        fresh.find,
        lambda config: bool(config.testbed or config.new_test),
        fresh.check,
    ),
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


def audit(
    dataset: Dataset | str | os.PathLike[str],
    config: AuditConfig | None = None,
    *,
    predictions: Given = (),
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    on_plan: Callable[[AuditPlan], None] | None = None,
    **changes: Any,
) -> Audit:
    """Audit a dataset: how low its error can go, which examples are hard, whether the score will hold.

    Args:
        dataset: a labelled dataset, or what :func:`hardpan.Dataset.open` loads.
        config: the settings; the defaults of :class:`AuditConfig` if None.
        predictions: of your models: paths of stores or arrays; or probabilities, one array or several by name, in
            the order of the examples or of the test examples: (N, K), (epochs, N, K) or (seeds, epochs, N, K), or
            what :func:`hardpan.predictions.open` gives. The first is scored for confusion.
        out: folder for the page, the record, the table of all examples, and what was trained; an audit that was
            stopped goes on from there. None keeps nothing.
        progress: called with the step that begins and the fraction of the work that is done.
        on_plan: called with the plan before anything is trained.
        changes: settings to be changed in ``config``.

    Returns:
        The finished audit.

    Example:
        >>> report = audit("digits", ensemble="none", flow="none")
        >>> [section.title for section in report.sections]
        ['The floor', 'Which examples are hard?', 'Data quality', 'What is in it']
    """
    held = _held(predictions)
    if named := tuple(held) or _paths(predictions):
        changes["predictions"] = named
    config = dataclasses.replace(config or AuditConfig(), **changes)
    report = progress or unheard
    report("reading the data", 0.0)
    source = "" if isinstance(dataset, Dataset) else os.fspath(dataset)
    if not isinstance(dataset, Dataset):
        dataset = Dataset.open(dataset)
    evidence = gather(dataset, config)
    parts = [part for part in PARTS if part.wanted(config)]
    for part in parts:
        part.check(evidence)
    evidence = materials.with_given(evidence, held)
    with _workplace(out, evidence) as work:
        report("planning", 0.01)
        plan = _plan(evidence, work)
        if on_plan is not None:
            on_plan(plan)
        evidence = materials.obtain(evidence, plan, work, between(report, 0.03, 0.75))
        findings: list[Finding] = []
        for number, part in enumerate(parts):
            begin, end = (0.75 + 0.2 * place / len(parts) for place in (number, number + 1))
            report(part.step, begin)
            found = part.find(dataclasses.replace(evidence, progress=between(report, begin, end)))
            findings.append(found)
            evidence = dataclasses.replace(evidence, columns={**evidence.columns, **found.columns})
        made = _joined(evidence, findings, command_of("" if held else source, evidence, plan), plan)
        if out is not None:
            report("writing", 0.96)
            _write(made, evidence, findings, Path(out))
    return made


def _held(predictions: Given) -> dict[str, Predictions]:
    """Predictions that are in memory already, by name."""
    if isinstance(predictions, (np.ndarray, Predictions)):
        predictions = {"predictions": predictions}
    if not isinstance(predictions, Mapping):
        return {}
    return {
        str(name): item if isinstance(item, Predictions) else Predictions.from_arrays(item, name=str(name))
        for name, item in predictions.items()
    }


def _paths(predictions: Given) -> tuple[str, ...]:
    if isinstance(predictions, (str, os.PathLike)):
        return (os.fspath(predictions),)
    return tuple(os.fspath(path) for path in predictions) if isinstance(predictions, Sequence) else ()


def _joined(evidence: Evidence, findings: Sequence[Finding], command: str, plan: AuditPlan) -> Audit:
    tiles = dict(TILES)
    for finding in findings:
        tiles.update(finding.tiles)
    measures = {name: item for finding in findings for name, item in finding.measures.items()}
    told = verdict.tell(evidence, findings)
    return Audit(
        dataset=evidence.dataset.name,
        config=evidence.config,
        headline=told.headline,
        lede=told.lede,
        tiles=tuple(tiles.values()),
        sections=(*(finding.section for finding in findings),),
        provenance=provenance_of(evidence, findings, command, plan),
        measures=measures,
        verdicts={name: entry for finding in findings for name, entry in finding.verdicts.items()},
        curves={name: curve for finding in findings for name, curve in finding.curves.items()},
        findings=told.findings,
        next_steps=told.next_steps,
    )


def _write(made: Audit, evidence: Evidence, findings: Sequence[Finding], folder: Path) -> None:
    """Everything at once, the report last: whoever sees the report sees what belongs to it."""
    table = examples.join(evidence.dataset, evidence.parts, evidence.columns)
    more = {name: text for finding in findings for name, text in finding.files.items()}
    made.save(folder, {**examples.files(table, evidence.dataset), **more})


def _plan(evidence: Evidence, work: Path) -> AuditPlan:
    """The plan of this audit: the one it began with, where it was begun before."""
    place = work / PLAN
    if place.is_file():
        found = files.load(place)
        if isinstance(found, AuditPlan):
            return found
    plan = planning.make_plan(evidence)
    files.save(plan, place)
    return plan


@contextmanager
def _workplace(out: str | os.PathLike[str] | None, evidence: Evidence) -> Iterator[Path]:
    """The folder of what is trained: in the audit's folder, one for each combination of data and settings."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="hardpan-audit-", ignore_cleanup_errors=True) as temporary:
            yield Path(temporary)
        return
    place = Path(out) / WORK / _key(evidence)
    made = missing_parents(place)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        remove_if_empty(made)
        raise InputError(f"{out}: cannot be written ({error.strerror}); give another folder") from error
    try:
        yield place
    except InputError:
        # A refusal leaves nothing; what was trained before it stays.
        if {path.name for path in place.iterdir()} <= {PLAN}:
            (place / PLAN).unlink(missing_ok=True)
            remove_if_empty(made)
        raise
    for other in place.parent.iterdir():  # what an earlier audit with other settings trained
        if other != place:
            shutil.rmtree(other, ignore_errors=True)


def _key(evidence: Evidence) -> str:
    """A name for this combination of data and settings."""
    settings = {
        name: value for name, value in dataclasses.asdict(evidence.config).items() if name not in _NOT_THE_NUMBERS
    }
    told = json.dumps([settings, files.array_hash(evidence.dataset.x), files.array_hash(evidence.labels)])
    return hashlib.sha256(told.encode()).hexdigest()[:12]
