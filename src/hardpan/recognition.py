"""``hardpan PATH`` and :func:`hardpan.look`: what something is, and which command answers which question with it.

A path, or an object in memory, is opened by the readers of hardpan in the order of how surely they know their own:
folders that hardpan wrote, logs of harnesses, tables whose columns have names of roles, probabilities, labelled
data, matrices of scores, data without labels. What a kind can be asked is its line in ``STEPS``.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from hardpan import files, tables
from hardpan.bayes.floors.votes import read_votes
from hardpan.data import opening
from hardpan.data.dataset import SPLITS, Dataset
from hardpan.errors import InputError, MissingExtra
from hardpan.files import record
from hardpan.leaderboard import bradley_terry
from hardpan.outcomes import Outcomes
from hardpan.outcomes.reading import log_formats
from hardpan.outcomes.tables import SCORE_ROLES
from hardpan.predictions import Predictions
from hardpan.predictions.store import is_store
from hardpan.report import Report

MOST_LABELS = 100  # different values of a column that may be the label
MOST_CANDIDATES = 3  # of such columns
_PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b")

STEPS: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "dataset": (
        ("problems", "audit {}", "audit(x)"),
        ("floor", "floor {}", "bayes.floor(x)"),
        ("train", "train {} --out run", "training.train(x, out='run')"),
        ("fresh", "replicate init new-set --original {}", "replicate.Project.create('new-set', original=x)"),
    ),
    "unlabelled": (
        ("problems", "audit {} --label {LABEL}", "audit(x, label='{LABEL}')"),
        ("accuracy", "leaderboard predict OLD NEW --labels LABELS", "leaderboard.predict(OLD, NEW, labels=LABELS)"),
    ),
    "predictions": (
        ("hard", "confusion score {}", "confusion.scores(x)"),
        ("problems", "audit DATA --predictions {}", "audit(DATA, predictions=x)"),
        ("rank", "leaderboard report {}", "leaderboard.rank(x.outcomes())"),
        ("whole", "predictions check {}", "predictions.check(x)"),
    ),
    "scores": (
        ("board", "leaderboard report {} --out board", "leaderboard.summarize(x)"),
        ("rank", "leaderboard rank {}", "leaderboard.rank(x)"),
        ("items", "leaderboard items {}", "leaderboard.items(x)"),
        ("shorten", "leaderboard shorten {}", "leaderboard.shorten(x, items=100)"),
        ("worse", "gate {}::BASELINE {}::CANDIDATE", "gate(BASELINE, CANDIDATE)"),
    ),
    "counts": (("fresh-scores", "testbed compare {}", "testbed.compare(x)"),),
    "battles": (("rank", "leaderboard rank {}", "leaderboard.battles(x)"),),
    "votes": (
        ("floor", "floor --votes {}", "bayes.floor(votes=x)"),
        ("outvoted", "audit DATA --votes {}", "audit(DATA, votes=x)"),
    ),
    "audit": (
        ("rows", "browse {}", ""),
        ("review", "browse {} --review 200", ""),
        ("compare", "compare {} OTHER", "auditing.compare([x, OTHER])"),
    ),
    "project": (
        ("next", "replicate status {}", "replicate.Project.open('{}').status()"),
        ("annotate", "replicate serve {}", ""),
        ("whole", "replicate verify {}", "replicate.Project.open('{}').verify()"),
    ),
    "ledger": (
        ("whole", "ledger verify {}", "ledger.open('{}').verify()"),
        ("submit", "ledger submit {} PREDICTIONS", "ledger.open('{}', KEY).submit(PREDICTIONS)"),
    ),
    "flow": (
        ("samples", "flow samples {}", "flows.load('{}').sample(100)"),
        ("benchmark", "flow synthesize {} --out synthetic", "flows.synthesize('{}', out='synthetic')"),
        ("floor", "floor DATA --flow {}", "bayes.floor(DATA, flow=x)"),
    ),
    "report": (),
}
"""By kind: a question (:mod:`hardpan.pages.recognition` has its words), the command, the line of Python.

Capital letters are what the user has to fill in. Most useful first.
"""


@record
class NextStep:
    """A question that can be answered, by its key, and the command or line of Python that does it.

    ``ready`` says that nothing has to be filled in.
    """

    question: str
    command: str
    ready: bool


@record
class Recognition(Report):
    """What something is, and what can be asked of it.

    Attributes:
        source: its path or name; empty in memory.
        what: one of :data:`STEPS`.
        sizes: counts by what is counted: "class": 10.
        columns: columns of a table by role.
        notes: what its reader noticed.
        steps: what can be asked, most useful first.
        finding: of a report that was saved, its headline.
        detail: of a ledger, its public state.
    """

    source: str
    what: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    steps: tuple[NextStep, ...] = ()
    finding: str = ""
    detail: Any = None

    @property
    def ready(self) -> str:
        """The first command that needs nothing further; empty where all do."""
        return next((step.command for step in self.steps if step.ready), "")


def look(source: Any) -> Recognition:
    """Say what something is and what can be asked of it.

    Args:
        source: a path or name; or an object: a Dataset, Predictions, Outcomes, a report, a frame, arrays, ...

    Returns:
        Its kind, sizes, the columns with a role, and the questions with their commands, most useful first.

    Example:
        >>> found = look("digits")
        >>> found.what, found.sizes["image"], found.steps[0].command
        ('dataset', 1797, 'hardpan audit digits')
    """
    is_path = isinstance(source, (str, os.PathLike))
    path = Path(source) if is_path else None
    if path is not None and path.exists() and (own := _written_by_hardpan(path)) is not None:
        return own
    name = os.fspath(source) if is_path else ""
    if isinstance(source, Report):
        return _recognised("", _kind_of_report(source), finding=source.headline)
    columns = _column_names(source)
    if path is not None and not path.exists() and name not in opening.names():
        Dataset.open(source)  # says that there is none
    refused: dict[str, str] = {}
    for kind, reader in _readers(source, columns):
        try:
            found = reader(source)
        except (InputError, MissingExtra) as error:
            refused.setdefault(kind, str(error).replace(f"{name}: ", ""))
            continue
        if found is not None:
            made = _described(name, kind, found, columns)
            # Columns have names of scores: what is missing for these.
            missing = f"not read as scores: {refused['scores']}" if "scores" in refused else ""
            return dataclasses.replace(
                made, notes=(*made.notes, *([missing] if missing and not made.ready else []))
            )
    nearest = "dataset" if "dataset" in refused else next(iter(refused))
    named = name or f"a {type(source).__name__}"
    raise InputError(f"{named} is not recognised; nearest is {nearest}: {refused[nearest]}", argument="source")


def _written_by_hardpan(path: Path) -> Recognition | None:
    """A folder or a record that hardpan wrote; None for anything else."""
    name = os.fspath(path)
    if path.is_dir() and (path / "ledger.json").is_file():
        from hardpan import ledger

        status = ledger.open(path).status()
        return _recognised(name, "ledger", finding=status.headline, detail=status)
    if is_store(path):
        return _described(name, "predictions", Predictions.open(path), ())
    records = [path / file for file in ("report.json", "project.json", "flow.json")] if path.is_dir() else [path]
    for file in records:
        if not file.is_file() or file.suffix != ".json":
            continue
        with suppress(InputError):
            saved = files.read_json(file)
            if not isinstance(saved, dict) or not {"kind", "schema", "hardpan"} <= set(saved):
                continue
            if file.name == "flow.json":
                sizes = {"class": len(saved.get("class_names", ()))}
                return _recognised(name, "flow", sizes)
            item = files.load(file)
            if file.name == "project.json":
                return _recognised(name, "project", {"class": len(item.classes)})
            if isinstance(item, Report):
                made = _recognised(name, _kind_of_report(item), finding=item.headline)
                stopped: Any = item
                if getattr(stopped, "pending", ()):  # an audit that was stopped
                    made = dataclasses.replace(made, steps=(NextStep("resume", stopped.origin.command, True),))
                return made
    return None


def _kind_of_report(report: Report) -> str:
    from hardpan.auditing.running import Audit

    return "audit" if isinstance(report, Audit) else "report"


Opened = Callable[[Any], Any]


def _readers(source: Any, columns: Collection[str]) -> list[tuple[str, Opened]]:
    """Readers by kind in the order in which they are tried; one that gives None does not know the source."""
    path = Path(source) if isinstance(source, (str, os.PathLike)) else None
    if isinstance(source, Dataset) or (path is not None and str(source) in opening.names()):
        return [("dataset", Dataset.open)]
    if isinstance(source, Predictions):
        return [("predictions", Predictions.open)]
    if isinstance(source, Outcomes):
        return [("scores", Outcomes.open)]
    scores: tuple[str, Opened] = ("scores", Outcomes.open)
    dataset: tuple[str, Opened] = ("dataset", Dataset.open)
    if path is not None and path.exists() and log_formats(path):
        return [scores]
    if path is not None and path.is_dir():
        of_class_folders = next(kind for kind, form in opening.FORMATS.items() if form.recognises(path))
        return [scores, dataset] if of_class_folders == "image folder" else [dataset]
    roles = _roles(columns, (*bradley_terry.ROLES, "annotator", *SCORE_ROLES))
    if set(bradley_terry.ROLES) <= set(roles):
        return [("battles", lambda item: roles)]
    if "annotator" in roles:
        return [("votes", read_votes)]
    first: list[tuple[str, Opened]] = [scores] if "model" in roles or {"answer", "key"} <= set(roles) else []
    if path is not None and path.suffix.lower() == ".npz":
        first.append(("votes", read_votes))
    return [*first, ("predictions", _probabilities), ("dataset", _labelled), scores, dataset,
            ("predictions", Predictions.open)]  # fmt: skip


def _probabilities(source: Any) -> Predictions | None:
    """Predictions whose rows are probabilities; numbers that would have to be converted may be anything."""
    opened = Predictions.open(source)
    return None if opened.array is None else opened


def _labelled(source: Any) -> Dataset | None:
    opened = Dataset.open(source)
    return None if opened.labels is None else opened


def _column_names(source: Any) -> list[str]:
    """The columns of a table; none of what is no table."""
    is_path = isinstance(source, (str, os.PathLike))
    if is_path and not (os.path.isfile(source) and tables.is_table_file(Path(source))):
        return []
    if not is_path and not tables.is_frame(source) and not isinstance(source, (dict, list)):
        return []
    with suppress(InputError):
        return list(tables.read_table(source, notes=[]).column_names)
    return []


def _roles(columns: Collection[str], wanted: Collection[str]) -> dict[str, str]:
    """The columns of these roles; a role that two columns fit has none."""
    found: dict[str, str] = {}
    for role in wanted:
        with suppress(InputError):
            found |= tables.find_columns(list(columns), [role])
    return found


def _described(name: str, kind: str, found: Any, columns: Collection[str]) -> Recognition:
    """What was opened, in numbers."""
    if isinstance(found, Dataset):
        noun = found.noun if found.is_images or found.is_texts else "row"
        sizes = {noun: len(found), "class": found.n_classes} | (
            {} if found.is_images else {"feature": found.x.shape[1]}
        )
        if found.split is not None:
            sizes |= {f"{part} example": int((found.split == part).sum()) for part in SPLITS}
        kind = "dataset" if found.labels is not None else "unlabelled"
        notes = tuple(item.message for item in found.warnings)
        roles = _roles(columns, ("label", "id", "split"))
        labels = _label_candidates(found) if kind == "unlabelled" else ()
        return _recognised(name, kind, sizes, roles, notes, labels=labels)
    if isinstance(found, Predictions):
        who = {"model": len(found.models)} if found.named else {"seed": len(found.seeds)}
        sizes = {"row": len(found), "class": found.n_classes, **who, "epoch": len(found.epochs)}
        return _recognised(name, kind, sizes, _roles(columns, ("id", "label", "model", "seed", "epoch")))
    if isinstance(found, Outcomes):
        counts = found.totals is not None
        sizes = {"model": found.n_models, "test set" if counts else "item": found.n_items}
        sizes |= {"repeat": found.n_repeats} if found.n_repeats > 1 else {}
        kind = "counts" if counts and found.n_items == 2 else "scores"
        return _recognised(name, kind, sizes, _roles(columns, SCORE_ROLES), found.notes)
    if kind == "votes":
        table = found.votes if found.votes is not None else found.soft_labels
        sizes = {"row": len(table), "class": table.shape[1], "annotator": len(found.annotators)}
        return _recognised(name, kind, sizes, _roles(columns, ("id", "annotator", "label")))
    return _recognised(name, kind, columns=found)


def _label_candidates(data: Dataset) -> list[str]:
    """Columns of few categories or whole numbers, the last ones first: the label may be one of them."""
    if data.table is None:
        return []
    found = []
    for column, values in zip(data.table.names, data.table.values.T, strict=True):
        known = np.unique(values[np.isfinite(values)])
        if 2 <= len(known) <= min(MOST_LABELS, len(values) // 5) and not (known % 1).any():
            found.append(column)
    return found[::-1][:MOST_CANDIDATES]


def _recognised(
    name: str,
    kind: str,
    sizes: Mapping[str, int] | None = None,
    columns: Mapping[str, str] | None = None,
    notes: tuple[str, ...] = (),
    *,
    labels: Collection[str] = (),
    finding: str = "",
    detail: Any = None,
) -> Recognition:
    """The result, with the steps of its kind; ``labels`` are columns that may be the label."""
    steps = []
    for question, command, python in STEPS[kind]:
        line = f"hardpan {command}" if name else f"hardpan.{python}" if python else ""
        of_label = "{LABEL}" in line
        ready = len(labels) == 1 if of_label else not _PLACEHOLDER.search(line)
        for label in labels or ("NAME",) if of_label else ("",):
            filled = line.replace("{LABEL}", shlex.quote(label)).replace("{}", shlex.quote(name))
            steps += [NextStep(question, filled, ready)] if line else []
    shown = {what: count for what, count in (sizes or {}).items() if count}
    return Recognition(name, kind, shown, columns or {}, notes, tuple(steps), finding, detail)
