"""The audit: one dataset in, one report out."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from hardpan import arguments, encoders, files, report, stats, tables
from hardpan.arguments import seconds
from hardpan.auditing.columns import search_columns
from hardpan.auditing.contents import FEATURE, row_contents
from hardpan.auditing.copies import copies_across_split, repeated_rows
from hardpan.auditing.data_curve import DataCurve, data_curve
from hardpan.auditing.evidence import AuditConfig, AuditNote, AuditStep, EveryRow, Evidence
from hardpan.auditing.example_table import TABLE, THUMBNAILS, example_table_files, join_example_table
from hardpan.auditing.hardness import find_hardness
from hardpan.auditing.labels import label_table, rank_labels, saved_count
from hardpan.auditing.metrics import ErrorBudget, ScoreMetrics, find_error_budget, score_metrics
from hardpan.auditing.near_copies import altered_images, altered_texts, nearest_columns, nearest_training
from hardpan.auditing.problems import (
    ALPHA,
    BenchmarkProblem,
    ProblemList,
    find_problems,
    search_shifts,
    searched_kinds,
)
from hardpan.auditing.slices import ErrorSlices, error_slices
from hardpan.auditing.training import train
from hardpan.bayes.floors.dataset_floor import Floor, FloorConfig, floor_of
from hardpan.bayes.floors.entries import Entry
from hardpan.bayes.floors.error_estimates import Labels
from hardpan.bayes.floors.inputs import GROUPS, FloorInputs, split_inputs
from hardpan.bayes.floors.model_predictions import Sources, read_models
from hardpan.bayes.floors.votes import read_votes
from hardpan.data.dataset import Dataset
from hardpan.data.tabular import DataOptions
from hardpan.errors import HardpanError, InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.execution.mapping import between, progress_bar
from hardpan.files import TRANSIENT, record
from hardpan.report import Provenance, Report

FEWEST_EXAMPLES = 10
MIN_BUDGET = 30.0  # seconds; searches are left out after this or the budget, whichever is longer
MOST_IMAGES = 200_000  # examples that models are trained and evaluated on; of more, a sample
MOST_NUMBERS = 4e8  # the same for examples × features, of images and tables
ROW_NUMBERS_PER_SECOND = 1.5e5  # of the budget: rows of a table × (features + ROW_COST), of more, a sample
ROW_COST, MIN_ROWS = 25, 5_000
WORK = "work"
HARD_SUBSET = "hard-subset.json"
REPEATS = "problems/repeats.csv"
DRAFT_SPACING = 10.0  # seconds between two versions of the page per second that one takes
ADDED_LATER = ("shift", "groups", "order", "leak-feature", "near-copies", "labels", "slices", "models")
"""What a version that is saved while the audit runs may lack, in the order in which it is computed."""
_NOT_THE_NUMBERS = ("budget", "device")  # settings that decide how the audit is computed, not what it says


@record(dropped=("parts", "curves"))
class Audit(Report):
    """A finished audit.

    Attributes:
        dataset: name of the dataset.
        config: the settings.
        problems: the most severe first; ``problems.to_frame()`` is a frame.
        floor: bracket of the lowest possible error; None where the benchmark is broken.
        measures: numbers by the names of :data:`hardpan.auditing.comparison.MEASURES`.
        verdicts: of these numbers, the entries of the floor that they come from.
        learning: the learning curve.
        budget: where the best model's errors come from.
        steps: what was trained, with planned and actual seconds.
        notes: what was not possible, and why; texts in audits of earlier versions.
        size: examples, classes and splits: "examples", "classes", "train", "validation", "test".
        metrics: the best model beside guessing, and what sees a rare class.
        slices: where the best model errs more than elsewhere.
        cut: how hardpan cut the test set; empty where it is official.
        searched: kinds of problems that were searched for.
        features: names of the columns that were used, where they have names.
        encoder: name of the encoder on whose vectors models were trained; empty without one.
        origin: the command, versions and hashes.
        evidence: the data and what was computed from them, from which the page is drawn; not in the JSON.
        examples: one row per example (:mod:`hardpan.auditing.example_table`); not in the JSON.
        pending: what is not computed yet, in a version that is saved while the audit runs; empty in a finished one.
        live: whether the page of such a version reloads itself; not in the JSON.
        downloads: files that ``save`` writes beside the page; not in the JSON.
        folder: where it was saved; not in the JSON.
        next_command: the command that audits the data with the corrections that are saved there; not in the JSON.
    """

    dataset: str
    config: AuditConfig
    problems: tuple[BenchmarkProblem, ...]
    floor: Floor | None
    measures: Mapping[str, Estimate] = field(default_factory=dict)
    verdicts: Mapping[str, Entry] = field(default_factory=dict)
    learning: DataCurve | None = None
    budget: ErrorBudget | None = None
    steps: tuple[AuditStep, ...] = ()
    notes: tuple[AuditNote | str, ...] = ()
    size: Mapping[str, int] = field(default_factory=dict)
    metrics: ScoreMetrics | None = None
    slices: ErrorSlices | None = None
    cut: str = ""
    searched: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    encoder: str = ""
    pending: tuple[str, ...] = ()
    live: bool = field(default=False, compare=False, metadata=TRANSIENT)
    origin: Provenance = field(default_factory=Provenance, compare=False)
    evidence: Evidence | None = field(default=None, compare=False, metadata=TRANSIENT)
    examples: pa.Table | None = field(default=None, compare=False, metadata=TRANSIENT)
    downloads: Mapping[str, Any] = field(default_factory=dict, compare=False, metadata=TRANSIENT)
    folder: str = field(default="", compare=False, metadata=TRANSIENT)
    next_command: str = field(default="", compare=False, metadata=TRANSIENT)

    def __post_init__(self) -> None:
        known = (
            item if isinstance(item, BenchmarkProblem) else BenchmarkProblem.from_json(item)
            for item in self.problems
        )
        object.__setattr__(self, "problems", ProblemList(known))  # those of a file are mappings

    def to_frame(self, kind: str | None = None) -> Any:
        """One row per example, as :meth:`hardpan.report.Report.to_frame`."""
        table = pa.table({}) if self.examples is None else self.examples
        return tables.to_frame({name: table[name].to_numpy() for name in table.column_names}, kind)

    def failing(self, kinds: Any) -> tuple[BenchmarkProblem, ...]:
        """Problems of these kinds ("any": of all), apart from notes: the gate of ``--fail-on``."""
        gated = set(kinds)
        return tuple(p for p in self.problems if p.severity != "note" and (p.kind in gated or "any" in gated))


def audit(
    dataset: Any,
    config: AuditConfig | None = None,
    *,
    predictions: Sources | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    on_plan: Callable[[tuple[AuditStep, ...]], None] | None = None,
    **changes: Any,
) -> Audit:
    """Audit a dataset: problems first, then how low its error can go, which examples are hard, whether scores hold.

    Args:
        dataset: a labelled dataset, or whatever :meth:`hardpan.Dataset.open` opens.
        config: the settings; the defaults of :class:`AuditConfig` if None.
        predictions: of your models: paths, arrays, :class:`hardpan.Predictions`, fitted estimators of scikit-learn
            or ``module:function``, one or several, or by name; ``folds=5`` cross-validates estimators. The first
            one is scored for confusion. They enter the best error and the bracket if the dataset has an official
            test split, if they were recorded as held out or cross-validated, or with ``held_out=True``; else they
            are listed as models that may have seen these rows.
        out: folder for the page, the record, the table of all examples, and what was trained; an interrupted audit
            resumes there. None keeps nothing.
        progress: called with the current step and the fraction of the work that is done; by default a bar in a
            notebook or on a terminal.
        on_plan: called with the planned steps before anything is trained.
        changes: settings to be changed in ``config``, and options of :meth:`hardpan.Dataset.open`: ``label``,
            ``id``, ``group`` and ``text`` name columns, ``columns={"time": "date", "split": "part"}`` any role.

    Returns:
        The finished audit.

    Example:
        >>> report = audit("digits", ensemble="none", flow="none")
        >>> report.measures["best_error"].value < 0.02 < report.metrics.guessing.value
        True
    """
    if progress is None:
        with progress_bar() as shown:
            return audit(
                dataset, config, predictions=predictions, out=out, progress=shown, on_plan=on_plan, **changes
            )
    tell = progress
    options = {item.name for item in dataclasses.fields(DataOptions)}
    reading = {name: changes.pop(name) for name in tuple(changes) if name in options}
    config = _audit_config(config, predictions, changes)
    tell("reading the data", 0.0)
    source = os.fspath(dataset) if isinstance(dataset, (str, os.PathLike)) else ""
    reads = between(tell, 0.0, 0.02)
    encoder = None if reading.get("encoder") is None else encoders.open_encoder(reading["encoder"])
    wanted = {"sample": functools.partial(_rows_of_large_table, config)} | reading
    opened = Dataset.open(dataset, progress=reads, **wanted | {"encoder": encoder})
    if opened.encoder:
        reading |= {"encoder": opened.encoder} if encoder is None else {"encoder": encoder.name, **encoder.options}
    begin = time.monotonic()
    evidence = _gather_evidence(opened, config, reads)
    evidence.encoder = encoder
    evidence.deadline = begin + max(config.budget, MIN_BUDGET)
    if config.testbed or config.new_test:
        from hardpan.auditing.fresh import check_fresh

        check_fresh(evidence)
    sources = predictions if predictions is not None else (list(config.predictions) or None)
    if evidence.inputs is not None and sources is not None:
        evidence.models = read_models(
            sources,
            evidence.dataset,
            evidence.labels,
            evidence.split,
            by_order=config.by_order,
            held_out=config.held_out,
            folds=config.folds,
            group=evidence.inputs.group,
        )
    if evidence.inputs is not None:
        votes = config.votes or evidence.dataset.metadata.get("votes")
        if votes is not None and len(votes):
            evidence.annotations = read_votes(
                votes,
                n_classes=evidence.dataset.n_classes,
                class_names=evidence.dataset.class_names,
                ids=evidence.dataset.ids,
                test=evidence.split.test,
            )
    evidence.label_count = None if out is None else saved_count(out, evidence.dataset)
    with _work_folder(out, evidence) as work:
        folder = "" if out is None else os.fspath(out)
        made = Provenance(seed=config.seed, versions=report.versions_of("numpy", "scipy", "scikit-learn"))
        origin = dataclasses.replace(made, command=config.command(source, reading, folder)), folder
        with _drafts(evidence, origin) as draft:
            audit_record = _run_audit(evidence, work, origin, tell, on_plan, draft)
            corrected = f"{source}@{folder}/corrections.csv" if source and folder and "@" not in source else source
            again = config.command(corrected, reading, folder)
            audit_record = dataclasses.replace(audit_record, next_command=again)
            if out is not None:
                tell("writing", 0.97)
                audit_record.save(out)
    return audit_record


def _audit_signature() -> inspect.Signature:
    """The signature of :func:`audit` with every setting and every option of reading in place of ``changes``."""
    known = [item for item in inspect.signature(audit).parameters.values() if item.kind is not item.VAR_KEYWORD]
    names = {item.name for item in known}
    for kind in (AuditConfig, DataOptions):
        for item in dataclasses.fields(kind):
            if item.name not in names:
                names.add(item.name)
                default = item.default if item.default is not dataclasses.MISSING else inspect.Parameter.empty
                known.append(
                    inspect.Parameter(
                        item.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=item.type
                    )
                )
    return inspect.Signature(known, return_annotation=Audit)


audit.__signature__ = _audit_signature()  # type: ignore[attr-defined]


def read_audit(path: str | os.PathLike[str]) -> Audit:
    """Read the record of an audit from its folder or its report.json."""
    file = arguments.as_path("path", path)
    file = file / "report.json" if file.is_dir() else file
    if not file.is_file():
        raise InputError(f"{path}: has no report.json; create it with: hardpan audit DATA --out {path}")
    try:
        audit = files.from_json(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: is not the report of an audit ({error}); run the audit again") from error
    if not isinstance(audit, Audit):
        raise InputError(f"{file}: is a {type(audit).__name__}, not an audit; pass the folder of an audit")
    return dataclasses.replace(audit, folder=str(file.parent))


def _audit_config(config: AuditConfig | None, predictions: Sources | None, changes: dict[str, Any]) -> AuditConfig:
    if config is not None and not isinstance(config, AuditConfig):
        raise InputError(f"must be an AuditConfig; got {type(config).__name__}", argument="config")
    known = {item.name for item in dataclasses.fields(AuditConfig)}
    for name in changes:
        if name not in known:
            if name in tables.ROLES:
                raise InputError(f': name the column of this role in columns={{"{name}": NAME}}', argument=name)
            raise InputError(f"{name} is not a setting of an audit; settings: {', '.join(sorted(known))}")
    if isinstance(changes.get("budget"), str):
        changes["budget"] = seconds("budget", changes["budget"])
    if isinstance(predictions, (str, os.PathLike)):
        changes["predictions"] = (os.fspath(predictions),)
    elif isinstance(predictions, Mapping):
        changes["predictions"] = tuple(str(name) for name in predictions)
    return dataclasses.replace(config or AuditConfig(), **changes)


def _rows_of_budget(config: AuditConfig, numbers: int) -> int:
    """How many rows of so many numbers models can take."""
    return max(MIN_ROWS, int(config.budget * ROW_NUMBERS_PER_SECOND / (numbers + ROW_COST)))


def _rows_of_large_table(config: AuditConfig, rows: int, columns: int) -> int | None:
    """How many rows are read of a table that is too large to be read as a whole."""
    return _rows_of_budget(config, columns) if rows * columns > tables.LARGE_CELLS else None


def _gather_evidence(dataset: Dataset, config: AuditConfig, progress: Progress | None = None) -> Evidence:
    """Check that a dataset can be audited, split it and prepare its features."""
    dataset = dataset.with_descriptors(progress)
    name = dataset.name
    labels, n = dataset.require_labels(), len(dataset)
    size = dataset.inputs[:1].size
    if dataset.is_texts and dataset.vectors is None:
        size = 0
    most = _rows_of_budget(config, size) if dataset.noun == "example" else MOST_IMAGES
    most = min(most, int(MOST_NUMBERS / max(1, size)))
    if n < FEWEST_EXAMPLES:
        raise InputError(f"{name}: has {n} examples; an audit needs at least {FEWEST_EXAMPLES}")
    inputs = split_inputs(dataset, labels, config.seed)
    split = inputs.split
    one_class = len(np.unique(labels)) < 2 or len(np.unique(labels[split.train])) < 2
    if dataset.split is None and (not len(split.test) or (one_class and len(np.unique(labels)) > 1)):
        unit = "groups" if inputs.unit == GROUPS else "different examples"
        raise InputError(
            f"{name}: {len(np.unique(inputs.group)):,} {unit} are too few to be split; give a split of your own"
        )
    if not len(split.test) and not one_class:
        raise InputError(f"{name}: has no test examples; name some in its split, or leave the split out")
    evidence = Evidence(dataset, labels, split, config, every=(every := EveryRow.of(inputs)))
    if one_class:
        return evidence
    evidence.copy_test = copied = None if dataset.split is None else copies_across_split(every, config.seed)
    claimed = copied is not None and min(copied.p_value, copied.similarity) <= ALPHA
    evidence.inputs = dataclasses.replace(inputs, apart=claimed, copied=np.sort(every.in_dataset(every.copied)))
    if n > most:
        evidence.inputs = _audit_sample(evidence.inputs, most, config.seed)
    if n > most or dataset.all_rows is not None:
        evidence.notes.append(AuditNote("sampled", {"rows": min(n, most), "of": len(every.labels)}))
    return evidence


def _audit_sample(inputs: FloorInputs, most: int, seed: int) -> FloorInputs:
    """The same inputs with about ``most`` rows: an equal fraction of every split, every class kept in train."""
    rng, split = np.random.default_rng([seed, 71]), inputs.split
    fraction = most / len(inputs.dataset)

    def drawn(rows: Labels) -> Labels:
        return np.sort(rng.choice(rows, math.ceil(fraction * len(rows)), replace=False))

    first = split.train[np.unique(inputs.labels[split.train], return_index=True)[1]]
    train, test = np.union1d(drawn(split.train), first), drawn(split.test)
    reduced = dataclasses.replace(split, train=train, validation=drawn(split.validation), test=test)
    return dataclasses.replace(inputs, split=reduced, test=inputs.test[np.isin(inputs.test, test)])


def _run_audit(
    evidence: Evidence,
    work: Path,
    origin: tuple[Provenance, str],
    tell: Progress,
    on_plan: Callable[[tuple[AuditStep, ...]], None] | None,
    draft: Callable[[], None],
) -> Audit:
    config, dataset, inputs = evidence.config, evidence.dataset, evidence.inputs
    flow, evidence.flow = train(evidence, work, tell, on_plan, draft) or (None, None)
    error = None
    if inputs is not None:
        evidence.floor = floor_of(
            inputs,
            _floor_settings(config),
            models=evidence.models,
            fitted=evidence.fitted,
            flow=flow,
            annotations=evidence.annotations,
            out_of_fold=evidence.out_of_fold,
            progress=between(tell, 0.75, 0.85),
        )
        error = evidence.floor.best_error
        tell("looking for copies", 0.85)
        evidence.nearest = nearest_training(evidence)
        evidence.turned, evidence.altered = altered_images(evidence)
        if dataset.is_texts:
            evidence.altered = altered_texts(evidence)
        evidence.columns |= nearest_columns(evidence)
        evidence.issues = rank_labels(evidence)
        evidence.probs = evidence.test_probs() if len(inputs.test) else {}
    tell("scoring the examples", 0.88)
    evidence.hard = find_hardness(evidence) if evidence.models else None
    if (config.testbed or config.new_test) and inputs is not None:
        from hardpan.auditing.fresh import find_fresh_scores

        evidence.fresh = find_fresh_scores(evidence)
    listed = tuple(find_problems(evidence, error))
    evidence.metrics = score_metrics(evidence)
    evidence.contents = row_contents(evidence)
    evidence.slices = error_slices(evidence)
    label_csv, label_columns = label_table(evidence)
    text = {} if dataset.texts is None else {"text": dataset.texts}
    evidence.columns = text | evidence.columns  # before what was computed
    evidence.columns |= {
        name if name == "text" else f"{FEATURE}{name}": values for name, values in evidence.contents.columns.items()
    }
    evidence.columns |= {} if evidence.hard is None else evidence.hard.columns
    evidence.columns |= label_columns
    test = np.zeros(0, dtype=np.int64) if inputs is None else inputs.test
    for model, probs in evidence.probs.items():  # so that two of them can be compared example by example
        right = np.full(len(dataset), None, dtype=object)
        right[test] = probs.argmax(axis=1) == evidence.labels[test]
        evidence.columns.setdefault(f"correct: {model}", right)
    learning, budget = data_curve(evidence), find_error_budget(evidence)
    entries = () if evidence.floor is None else evidence.floor.entries
    of_flow = [entry for entry in entries if entry.assumption == "flow"]
    verdicts = {"flow_floor": of_flow[-1]} if of_flow else {}
    measures = _audit_measures(evidence, error, verdicts)
    hashes, searched = _hashes_of_evidence(evidence), searched_kinds(evidence)
    table = join_example_table(dataset, evidence.parts, evidence.columns)
    downloads = {**example_table_files(table, dataset), "problems/labels.csv": tables.csv_text(label_csv)}
    if evidence.floor is not None and evidence.floor.consensus is not None:
        downloads["problems/consensus.csv"] = tables.csv_text(evidence.floor.consensus.columns)
    if dataset.all_rows is not None and evidence.every is not None:
        downloads[REPEATS] = tables.csv_text(repeated_rows(evidence.every, dataset.class_names))
    if evidence.hard is not None:
        downloads[HARD_SUBSET] = files.json_text(evidence.hard.subset) + "\n"
    return _audit_of(
        evidence,
        origin,
        listed,
        measures,
        hashes=hashes,
        verdicts=verdicts,
        learning=learning,
        budget=budget,
        searched=searched,
        examples=table,
        downloads=downloads,
    )


def _floor_settings(config: AuditConfig) -> FloorConfig:
    return FloorConfig(
        classifiers=(),
        by_order=config.by_order,
        held_out=config.held_out,
        label_noise=config.label_noise,
        budget=config.budget / 4,
        confidence=config.confidence,
        seed=config.seed,
    )


def _audit_of(
    evidence: Evidence,
    origin: tuple[Provenance, str],
    problems: tuple[BenchmarkProblem, ...],
    measures: Mapping[str, Estimate],
    *,
    hashes: Mapping[str, str] = MappingProxyType({}),
    **results: Any,
) -> Audit:
    """The record of what the steps so far put into the evidence, and of their ``results``."""
    (made, folder), dataset = origin, evidence.dataset
    versions = {**made.versions, **(report.versions_of("torch") if evidence.models else {})}
    return Audit(
        dataset=dataset.name,
        config=evidence.config,
        problems=problems,
        floor=evidence.floor,
        measures=measures,
        steps=tuple(evidence.steps),
        notes=tuple(evidence.notes),
        size={
            "examples": len(dataset if evidence.every is None else evidence.every.labels),
            "classes": dataset.n_classes,
            **{
                split: len(members)
                for split, members in (evidence if evidence.every is None else evidence.every).parts.items()
            },
        },
        metrics=evidence.metrics,
        slices=evidence.slices,
        cut="" if dataset.split is not None else evidence.split.method,
        features=dataset.feature_names,
        encoder=dataset.encoder,
        origin=dataclasses.replace(made, versions=versions, hashes=dict(hashes)),
        evidence=evidence,
        folder=folder,
        **results,
    )


@contextmanager
def _drafts(evidence: Evidence, origin: tuple[Provenance, str]) -> Iterator[Callable[[], None]]:
    """A function that saves what is known so far, as a complete page that says what is not computed yet.

    The first version has what needs no training. It is followed by one with the searches that take seconds, and by
    others while models are trained; together they take about a tenth of the time. If the audit stops, the last one
    stays, and no longer reloads itself.
    """
    folder, saved, allowed = origin[1], list[Audit](), 0.0

    def draft() -> None:
        nonlocal allowed
        if evidence.inputs is None or time.monotonic() < allowed:
            return
        if folder and not saved:
            saved.append(_draft(evidence, origin, only_quick=True))
            saved[0].save(folder)
        search_shifts(evidence)
        search_columns(evidence)
        if not folder:
            allowed = math.inf
            return
        start = time.monotonic()
        saved[:] = [_draft(evidence, origin)]
        saved[0].save(folder)
        allowed = time.monotonic() + DRAFT_SPACING * (time.monotonic() - start)

    try:
        yield draft
    except BaseException:
        if saved:
            with suppress(OSError, HardpanError):
                dataclasses.replace(saved[0], live=False).save(folder)
        raise


def _draft(evidence: Evidence, origin: tuple[Provenance, str], *, only_quick: bool = False) -> Audit:
    """The audit as far as it is computed; the evidence keeps nothing that only a finished one may have."""
    config, inputs = evidence.config, evidence.inputs
    error, measures = None, {}
    # Without a column that numbers the rows, models would have to be fitted again.
    if inputs is not None and not inputs.numbering and (evidence.fitted or evidence.models):
        settings = dataclasses.replace(_floor_settings(config), neighbours=False)
        evidence.floor = floor_of(
            inputs, settings, models=evidence.models, fitted=evidence.fitted, annotations=evidence.annotations
        )
        evidence.probs, error = evidence.test_probs(), evidence.floor.best_error
        measures = _audit_measures(evidence, error, {})
    problems = tuple(find_problems(evidence, error, only_quick=only_quick))
    evidence.metrics = score_metrics(evidence)
    done = searched_kinds(evidence)
    grouped = evidence.dataset.split is not None or {"group", "time"} & set(evidence.dataset.metadata)
    never = ({"groups"} if grouped else set()) | ({"shift"} if evidence.dataset.split is None else set())
    made = _audit_of(
        evidence,
        origin,
        problems,
        measures,
        searched=done,
        pending=tuple(kind for kind in ADDED_LATER if kind not in (*done, *never)),
        live=True,
        downloads=dict.fromkeys(
            (TABLE, THUMBNAILS, "problems/labels.csv", "problems/consensus.csv", REPEATS, HARD_SUBSET)
        ),
    )
    made.view()  # while the evidence is as it is now
    evidence.floor, evidence.probs, evidence.metrics = None, {}, None
    return made


def _hashes_of_evidence(evidence: Evidence) -> dict[str, str]:
    """Sha256 of everything that was read."""
    floor, fresh_scores, flow = evidence.floor, evidence.fresh, evidence.flow
    hashes = {
        "Examples, sha256": evidence.dataset.content_hash(),
        "Labels, sha256": files.array_hash(evidence.labels),
        **(
            {}
            if evidence.dataset.vectors is None
            else {"Vectors, sha256": files.array_hash(evidence.dataset.vectors)}
        ),
        **(floor.hashes if floor is not None else {}),
    }
    if flow is not None and flow.sha256:
        hashes["Flow, sha256"] = flow.sha256
    if fresh_scores is not None and fresh_scores.comparison is not None:
        hashes |= {f"{name}, sha256": value for name, value in fresh_scores.comparison.hashes.items()}
    elif fresh_scores is not None:
        hashes["Fresh examples, sha256"] = fresh_scores.sha256
    return hashes


def _audit_measures(
    evidence: Evidence, error: Estimate | None, verdicts: Mapping[str, Entry]
) -> dict[str, Estimate]:
    """Numbers of an audit by name; ``error`` is that of the best model."""
    measures, bracket = {}, None if evidence.floor is None else evidence.floor.bracket
    if bracket is not None:
        method = f"upper limit of {bracket.high_from}"
        measures["bracket"] = Estimate(bracket.high, 0.0, bracket.low, bracket.high, bracket.confidence, method)
    if bracket is not None and error is not None:
        high = max(0.0, min(error.high, bracket.high) - bracket.low)
        measures["best_error"] = error
        measures["headroom"] = Estimate(
            min(high, max(0.0, error.value - bracket.low)),
            error.stderr,
            max(0.0, error.low - bracket.high),
            high,
            error.confidence,
            "error of the best model above the lower end of the bracket",
            error.n,
        )
    measures |= {name: entry.estimate for name, entry in verdicts.items()}
    if evidence.flow is not None and evidence.flow.bits is not None:
        measures["bits"] = evidence.flow.bits
    if evidence.hard is not None:
        measures |= evidence.hard.measures
    if evidence.fresh is not None:
        measures["drop"] = evidence.fresh.drop
    if evidence.inputs is not None and evidence.every is not None:
        copied, test = len(evidence.every.copied), len(evidence.every.parts["test"])
        measures["duplicated"] = stats.share(copied, test, evidence.config.confidence)
    return measures


@contextmanager
def _work_folder(out: str | os.PathLike[str] | None, evidence: Evidence) -> Iterator[Path]:
    """The folder of what is trained: in the audit's folder, one for each combination of data and settings."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="hardpan-audit-", ignore_cleanup_errors=True) as temporary:
            yield Path(temporary)
        return
    path = arguments.as_path("out", out)
    settings = {
        name: value for name, value in dataclasses.asdict(evidence.config).items() if name not in _NOT_THE_NUMBERS
    }
    vectors = "" if evidence.dataset.vectors is None else files.array_hash(evidence.dataset.vectors)
    text = json.dumps([settings, evidence.dataset.content_hash(), vectors, files.array_hash(evidence.labels)])
    folder = path / WORK / hashlib.sha256(text.encode()).hexdigest()[:12]
    created = files.missing_parents(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        files.remove_if_empty(created)
        raise InputError(
            f": {out} cannot be written ({error.strerror}); choose another folder", argument="out"
        ) from error
    try:
        yield folder
    except InputError:
        if not any(folder.iterdir()):  # a refusal leaves nothing behind; what was trained before it is kept
            files.remove_if_empty(created)
        raise
    for other in folder.parent.iterdir():  # what an earlier audit with other settings trained
        if other != folder and re.fullmatch("[0-9a-f]{12}", other.name):  # whatever else is there is not ours
            shutil.rmtree(other, ignore_errors=True)
