"""What the results of a project say, beyond their fields."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from hardpan.errors import counted
from hardpan.estimates import Estimate
from hardpan.pages import formatting
from hardpan.pages.field_views import view, view_of_fields
from hardpan.pages.sections import Chart, Section, Table, View, table_of_columns
from hardpan.replicate.assembly import AssembledSet
from hardpan.replicate.documents import datasheet_limits
from hardpan.replicate.experiment import ExperimentResults
from hardpan.replicate.project import ProjectStatus, VerifiedProject
from hardpan.replicate.quality import AnnotationQuality
from hardpan.replicate.sampling import Sample
from hardpan.replicate.task_planning import TasksMade
from hardpan.tables import columns_of

MOST_LINES = 20


@view.register
def _project_status_view(result: ProjectStatus) -> View:
    made = view_of_fields(replace(result, quality=None), title=result.name)
    if result.quality is None:
        return made
    votes = view(result.quality)
    sections = tuple(replace(section, sentences=(votes.headline, *section.sentences)) for section in votes.sections)
    return replace(made, sections=(*made.sections, *sections))


@view.register
def _tasks_view(result: TasksMade) -> View:
    warnings = [
        f"class {name}: only {count} originals can be annotated; {result.wanted_originals} were requested"
        for name, count in result.annotated_originals.items()
        if count < result.wanted_originals
    ]
    if result.repeated_originals:
        warnings.append(
            f"{result.repeated_originals:,} originals are in several tasks: annotators who compare what they saw "
            "can recognise them; give more originals, or a larger grid"
        )
    headline = f"{result.tasks:,} new tasks with {result.candidates:,} candidates."
    if result.extra_workers:
        headline += f" {result.extra_workers:,} more workers are needed to replace those who fail the controls."
    return view_of_fields(result, headline, title="Tasks", warnings=warnings)


@view.register
def _annotation_quality_view(result: AnnotationQuality) -> View:
    rows = tuple((role, item.n, _known_estimate(item)) for role, item in result.average.items())
    sentence = (
        f"Krippendorff's α on candidates: {_known_estimate(result.alpha)}; without workers who fail the controls: "
        f"{_known_estimate(result.alpha_unflagged)}."
    )
    failing = tuple(
        (w.worker_id, f"{w.hits} of {w.positives}", f"{w.false_alarms} of {w.negatives}")
        for w in result.workers
        if w.flagged
    )
    names = ("worker", "positive controls selected", "negative controls selected")
    flagged = (Table("Workers who fail the controls", names, failing),) if failing else ()
    frequencies = Table("Frequencies", ("images", "count", "average selection frequency"), rows)
    section = Section(
        "Selection frequencies",
        (sentence,),
        charts=(_frequency_chart(result),) if result.frequencies else (),
        tables=(frequencies, *flagged),
    )
    workers = counted(len(result.workers), "worker")
    headline = f"{len(result.flagged)} of {workers} fail the hidden controls."
    columns = columns_of(result.frequencies, image="image_id", role="role", frequency="value", votes="votes")
    return View("Annotation", headline, (section,), columns=columns)


def _frequency_chart(result: AnnotationQuality) -> Chart:
    edges = np.linspace(0.0, 1.0, 11)
    rows: list[dict[str, Any]] = []
    for role in result.average:
        values = [item.value for item in result.frequencies if item.role == role]
        counts = np.histogram(values, edges)[0].tolist()
        rows += (
            {"group": role, "low": round(float(low), 1), "high": round(float(high), 1), "count": count}
            for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
        )
    means = "; ".join(f"{role}: mean {_known_estimate(item)}" for role, item in result.average.items())
    words = f"Histograms of the selection frequency of images by role. {means}."
    return Chart(
        "distribution", "Selection frequencies by role", tuple(rows), words, {"x_title": "selection frequency"}
    )


@view.register
def _sample_view(result: Sample) -> View:
    missing = sum(item.missing for item in result.shortfalls)
    headline = (
        f"{len(result.images):,} drawn, average selection frequency {formatting.plain(result.average_frequency)}; "
        f"{len(result.fills):,} from another bin or sub-class, {missing:,} missing."
    )
    rows = tuple((image.id, image.class_name, image.fill) for image in result.fills)
    table = Table("From another bin or sub-class", ("id", "class", "reason"), rows)
    warnings = datasheet_limits(result)
    section = Section("Sample", tables=(table,) if rows else (), warnings=warnings[:MOST_LINES])
    columns = {"id": list(result.ids), **columns_of(result.images, "frequency", **{"class": "class_name"})}
    return View("Sample", headline, (section,) if rows or warnings else (), columns=columns)


@view.register
def _assembled_set_view(result: AssembledSet) -> View:
    lineage = result.lineage
    classes = counted(len(lineage.per_class), "class", "classes")
    headline = f"{lineage.images:,} examples in {classes} frozen in {result.folder}."
    limits = (
        ()
        if result.sample is None
        else datasheet_limits(result.sample, result.unreviewed_pairs, result.without_final_review)
    )
    columns = {"file": list(lineage.files), "sha256": list(lineage.files.values())}
    return View(
        "Set", headline, (Section("Limits", warnings=limits[:MOST_LINES]),) if limits else (), columns=columns
    )


@view.register
def _verified_project_view(result: VerifiedProject) -> View:
    rows = tuple(
        (name, "as recorded" if not count else f"{count} problems") for name, count in result.checks.items()
    )
    lines = tuple(f"Problem: {item}" for item in result.problems[:50])
    section = Section("Checks", lines, tables=(Table("", ("check", "result"), rows),))
    headline = "Verified." if result.ok else f"NOT verified: {counted(len(result.problems), 'problem')}."
    return View("Verification", headline, (section,), columns={"problem": list(result.problems)})


@view.register
def _experiment_results_view(result: ExperimentResults) -> View:
    people = result.humans
    columns = {
        "participant": [row.name for row in people.rows],
        "original, %": formatting.aligned((row.original for row in people.rows), scale=100),
        "new, %": formatting.aligned((row.new for row in people.rows), scale=100),
        "gap, points": [round(100 * row.gap, 1) for row in people.rows],
    }
    sentence = (
        f"{counted(len(people.rows), 'person', 'people')} named the class of the hardest images of both "
        f"sets without knowing the set. {people.better_on_original} did better on the original images, "
        f"{people.better_on_new} on the new ones."
    )
    warnings = tuple(
        f"participant {name} has answered {count} of {result.questions} questions"
        + (", on one set only, and is left out" if name in result.left_out else "")
        for name, count in result.answered.items()
        if count < result.questions
    )
    table = table_of_columns("Accuracy of people, with Clopper–Pearson intervals", columns)
    charts = tuple(chart for section in people.sections() for chart in section.charts)
    section = Section(
        "People on the hardest images", (sentence,), charts=charts, tables=(table,), warnings=warnings
    )
    headline = f"The average gap, original − new, is {formatting.signed(people.mean_gap)}."
    return View("Human accuracy", headline, (section,), columns=columns)


def _known_estimate(item: Estimate | None) -> str:
    return "not known yet" if item is None or math.isnan(item.value) else formatting.plain(item)
