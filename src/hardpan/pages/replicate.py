"""What the results of a project say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hardpan import formatting
from hardpan.estimates import Estimate
from hardpan.replicate.assembly import UNREVIEWED, Assembled
from hardpan.replicate.duplicates import DuplicateSearch, Resolution, ReviewThreshold
from hardpan.replicate.experiment import ExperimentResults, HumanExperiment
from hardpan.replicate.pool import AddedCandidates
from hardpan.replicate.quality import Quality
from hardpan.replicate.sampling import BINS, MIN_ORIGINALS, Sample
from hardpan.replicate.status import ProjectStatus
from hardpan.replicate.subclasses import Subclasses
from hardpan.replicate.tasks import TasksMade
from hardpan.replicate.thresholds import ThresholdSweep
from hardpan.replicate.verification import Verified
from hardpan.replicate.votes import VoteSummary, rows_to_columns
from hardpan.report.base import View
from hardpan.report.generic import view
from hardpan.report.sections import Chart, Section, Table, columns_of

MOST_LINES = 20


@view.register
def _status(result: ProjectStatus) -> View:
    missing = f", {result.sample_missing:,} missing" if result.sample_missing else ""
    rows = [
        ("originals", f"{result.originals:,} in {formatting.counted(result.classes, 'class', 'classes')}"),
        ("candidates", f"{result.candidates:,}"),
        ("tasks", f"{result.tasks_complete:,} of {result.tasks:,} complete"),
        ("votes", f"{result.votes:,} by {formatting.counted(result.workers, 'worker')}"),
        ("sample", f"{result.sample:,} images{missing}" if result.sample or missing else "none yet"),
        ("to review", f"{result.pairs_waiting:,} pairs, {result.reviews_waiting:,} images"),
        ("set", "frozen" if result.frozen else "open"),
    ]
    if result.keywords_short:
        rows.insert(2, ("keywords below their quota", f"{result.keywords_short:,}"))
    section = Section("State", tables=(Table("", ("quantity", "count"), tuple(rows)),))
    columns = {"what": [row[0] for row in rows], "count": [row[1] for row in rows]}
    return View(result.name, f"{result.name}. Next: {result.next}", (section,), columns=columns)


@view.register
def _added(result: AddedCandidates) -> View:
    lines = list(result.broken[:MOST_LINES])
    if len(result.broken) > MOST_LINES:
        lines.append(f"and {len(result.broken) - MOST_LINES:,} more (--json lists all)")
    if result.without_class:
        lines.append(f"{result.without_class:,} candidates have no class yet: give --class, or run subclasses")
    headline = (
        f"{result.added:,} of {result.read:,} images added; {result.repeated:,} were in the pool already, "
        f"{result.in_original:,} are copies of originals, {len(result.broken):,} cannot be used."
    )
    sections = (Section("Not used", tuple(lines)),) if lines else ()
    return View("Candidates", headline, sections, columns={"problem": list(result.broken)})


@view.register
def _subclasses(result: Subclasses) -> View:
    rows = tuple(
        (
            k.class_name,
            k.keyword,
            k.originals,
            k.quota,
            k.supply,
            f"{100 * k.used:.0f} %" if k.supply else "no supply",
        )
        for k in result.keywords
    )
    covered = ", ".join(f"{name} {100 * fraction:.1f} %" for name, fraction in result.coverage.items())
    lines = [f"Originals covered by the kept keywords: {covered}."] if covered else []
    if result.outside:
        lines.append(f"{result.outside:,} candidates are outside the dates and set aside.")
    names = ("class", "keyword", "originals", "quota", "supply", "used")
    section = Section("Keywords", tuple(lines), tables=(Table("Keywords", names, rows),))
    headline = f"{result.matched:,} originals have a keyword, {result.unmatched:,} have none."
    return View("Sub-classes", headline, (section,), columns=rows_to_columns(names, rows))


@view.register
def _tasks(result: TasksMade) -> View:
    rows = tuple(result.annotated_originals.items())
    warnings = tuple(
        f"class {name}: only {count} originals can be annotated; {result.wanted_originals} were requested"
        for name, count in rows
        if count < result.wanted_originals
    )
    if result.repeated_originals:
        several = f"{result.repeated_originals:,} originals are in several tasks"
        remedy = "annotators who compare what they saw can recognise them; give more originals, or a larger grid"
        warnings += (f"{several}: {remedy}",)
    headline = f"{result.tasks:,} new tasks with {result.candidates:,} candidates."
    if result.extra_workers:
        headline += f" {result.extra_workers:,} more workers are needed to replace those who fail the controls."
    table = Table("Originals to be annotated", ("class", "originals"), rows)
    section = Section("Tasks", tables=(table,) if rows else (), warnings=warnings)
    return View("Tasks", headline, (section,), columns=rows_to_columns(("class", "originals"), rows))


@view.register
def _votes(result: VoteSummary) -> View:
    lines = []
    if result.imported or result.already_imported:
        lines.append(f"{result.imported:,} votes imported; {result.already_imported:,} had been imported before.")
    if result.exported:
        lines.append(f"{result.exported:,} votes exported.")
    headline = f"{result.votes:,} votes by {formatting.counted(result.workers, 'worker')}."
    return View(
        "Votes", headline, (Section("Files", tuple(lines)),) if lines else (), columns={"votes": [result.votes]}
    )


@view.register
def _quality(result: Quality) -> View:
    rows = tuple((role, item.n, _plain(item)) for role, item in result.average.items())
    names = ("images", "count", "average selection frequency")
    lines = (
        f"Krippendorff's α on candidates: {_plain(result.alpha)}; without workers who fail the controls: "
        f"{_plain(result.alpha_unflagged)}.",
    )
    failing = tuple(
        (w.worker_id, f"{w.hits} of {w.positives}", f"{w.false_alarms} of {w.negatives}")
        for w in result.workers
        if w.flagged
    )
    flagged = Table(
        "Workers who fail the controls",
        ("worker", "positive controls selected", "negative controls selected"),
        failing,
    )
    tables = (Table("Frequencies", names, rows), *((flagged,) if failing else ()))
    headline = (
        f"{len(result.flagged)} of {formatting.counted(len(result.workers), 'worker')} fail the hidden controls."
    )
    frequency = result.frequencies
    charts = (_frequency_chart(result),) if frequency else ()
    section = Section("Selection frequencies", lines, charts=charts, tables=tables)
    columns = columns_of(frequency, image="image_id", role="role", frequency="value", votes="votes")
    return View("Annotation", headline, (section,), columns=columns)


def _frequency_chart(result: Quality) -> Chart:
    edges = np.linspace(0.0, 1.0, 11)
    rows: list[dict[str, Any]] = []
    for role in result.average:
        values = [item.value for item in result.frequencies if item.role == role]
        counts = np.histogram(values, edges)[0].tolist()
        rows += (
            {"group": role, "low": round(float(low), 1), "high": round(float(high), 1), "count": count}
            for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
        )
    means = "; ".join(f"{role}: mean {_plain(item)}" for role, item in result.average.items())
    words = f"Histograms of the selection frequency of images by role. {means}."
    return Chart(
        "distribution", "Selection frequencies by role", tuple(rows), words, {"x_title": "selection frequency"}
    )


@view.register
def _sample(result: Sample) -> View:
    missing = sum(item.missing for item in result.shortfalls)
    headline = (
        f"{len(result.images):,} images, average selection frequency {formatting.plain(result.average_frequency)}; "
        f"{len(result.fills):,} from another bin or sub-class, {missing:,} missing."
    )
    rows = tuple((image.id, image.class_name, image.fill) for image in result.fills)
    table = Table("Images from another bin or sub-class", ("image", "class", "reason"), rows)
    warnings = limits(result)
    section = Section("Sample", tables=(table,) if rows else (), warnings=warnings[:MOST_LINES])
    columns = {
        "id": list(result.ids),
        "class": [image.class_name for image in result.images],
        "frequency": [image.frequency for image in result.images],
    }
    sections = (section,) if rows or warnings else ()
    return View("Sample", headline, sections, columns=columns)


def limits(sample: Sample, unreviewed_pairs: int = 0, without_final_review: int = 0) -> tuple[str, ...]:
    """What a reader of a set has to know: votes that do not count, missing images, what nobody reviewed."""
    lines = [
        f"{count} {what} have fewer than {sample.min_votes} votes and do not count"
        for count, what in ((sample.too_few_votes, "candidates"), (sample.originals_too_few_votes, "originals"))
        if count
    ]
    lines += [
        f"class {name}: {count} annotated originals, fewer than {MIN_ORIGINALS}"
        for name, count in sample.few_originals.items()
    ]
    lines += [
        f"class {item.class_name}: {item.missing} missing"
        + (f" of sub-class {item.subclass}" if item.subclass else "")
        + (f" in bin {BINS[item.slot]}" if item.slot >= 0 else "")
        for item in sample.shortfalls
    ]
    if sample.without_flagged and sample.too_few_votes:
        lines.append(
            "flagged workers are left out, so request replacements with: hardpan replicate tasks PROJECT --top-up"
        )
    if unreviewed_pairs:
        lines.append(
            f"{unreviewed_pairs:,} pairs of possible near-duplicates were not reviewed; {UNREVIEWED} lists them"
        )
    if without_final_review:
        lines.append(f"{without_final_review} images had no final review")
    return tuple(lines)


@view.register
def _sweep(result: ThresholdSweep) -> View:
    largest = int(result.size.max())
    series = {
        f"images in the set, of {largest}": result.size / max(largest, 1),
        "average frequency": result.average,
    }
    series |= {f"accuracy of {name}": values for name, values in result.accuracies.items()}
    points = tuple(
        {"x": float(t), "y": None if np.isnan(y) else float(y), "name": name}
        for name, values in series.items()
        for t, y in zip(result.thresholds, values, strict=True)
    )
    chart = Chart(
        "slider",
        "The set at every threshold on the selection frequency",
        points,
        f"From threshold 0 to 1 the set shrinks from {int(result.size[0])} to {int(result.size[-1])} images.",
        {"x_title": "threshold", "start": 0.7},
    )
    names = ("threshold", "candidates", "images", "full classes", "average frequency", *result.accuracies)
    values = (result.thresholds, result.candidates, result.size, result.full_classes, result.average)
    columns = dict(zip(names, [v.tolist() for v in (*values, *result.accuracies.values())], strict=True))
    rows = tuple(tuple(_rounded(columns[name][t]) for name in names) for t in range(0, len(result.thresholds), 5))
    sentence = (
        f"Every class gives at most {result.per_class} images, drawn at random from candidates at or above the "
        "threshold."
    )
    warnings = () if result.accuracies else ("Accuracies are available after the set is assembled and frozen.",)
    section = Section(
        "Thresholds",
        (sentence,),
        charts=(chart,),
        tables=(Table("The set by threshold", names, rows),),
        warnings=warnings,
    )
    full = int(result.full_classes.max())
    last = int(np.flatnonzero(result.full_classes == full)[-1])
    headline = (
        f"Up to a threshold of {result.thresholds[last]:.2f} on the selection frequency "
        f"{formatting.counted(full, 'class has', 'classes have')} all {result.per_class} images; there the average "
        f"frequency is {result.average[last]:.2f}."
    )
    if not full:
        headline = f"At no threshold does a class have {result.per_class} images; at 0 the set has {largest:,}."
    return View("Threshold sweep", headline, (section,), columns=columns)


@view.register
def _search(result: DuplicateSearch) -> View:
    lines = []
    if result.recall is not None:
        lines.append(f"The filter before SSIM finds {formatting.estimate(result.recall)} of the nearest images.")
    if result.close_recall is not None:
        lines.append(f"Of those with an SSIM of at least 0.6 it finds {formatting.estimate(result.close_recall)}.")
    names = ("image", "nearest", "where", "l2", "SSIM")
    rows = tuple((p.image, p.other, p.other_split, f"{p.l2:.1f}", f"{p.ssim:.3f}") for p in result.closest)
    table = Table("Most similar pairs that wait for review", names, rows)
    section = Section("Pairs", tuple(lines), tables=(table,) if rows else ())
    headline = (
        f"{result.images:,} images compared with {result.references:,} originals: {result.new_pairs:,} new pairs "
        "to review."
    )
    return View("Near-duplicates", headline, (section,), columns=rows_to_columns(names, rows))


@view.register
def _threshold(result: ReviewThreshold) -> View:
    headline = (
        f"A threshold learned from {result.decisions:,} decisions finds "
        f"{formatting.estimate(result.recall)} of the "
        f"removed pairs; {result.undecided_above:,} undecided pairs are above it, {result.undecided_below:,} "
        "below."
    )
    return View("Review threshold", headline, columns={"threshold": [result.threshold]})


@view.register
def _resolution(result: Resolution) -> View:
    state = " Nothing is left to change." if result.stable else ""
    headline = (
        f"{formatting.counted(len(result.removed), 'image')} removed, {len(result.added):,} drawn as replacements; "
        f"{result.undecided:,} "
        f"pairs wait for review.{state}"
    )
    lines = []
    if result.decisions is not None:
        lines.append(f"{result.decisions:,} decisions imported.")
    if result.threshold is not None:
        lines.append(_threshold(result.threshold).headline)
    if result.kept is not None:
        lines.append(f"{result.kept:,} pairs below the threshold kept.")
    if result.exported is not None:
        lines.append(f"{result.exported:,} pairs exported.")
    sections = (Section("Review", tuple(lines)),) if lines else ()
    return View("Review", headline, sections, columns={"removed": list(result.removed)})


@view.register
def _assembled(result: Assembled) -> View:
    lineage = result.lineage
    classes = formatting.counted(len(lineage.per_class), "class", "classes")
    headline = f"{lineage.images:,} images in {classes} frozen in {result.folder}."
    warnings = (
        () if result.sample is None else limits(result.sample, result.unreviewed_pairs, result.without_final_review)
    )
    section = Section("Limits", warnings=warnings[:MOST_LINES])
    columns = {"file": list(lineage.files), "sha256": list(lineage.files.values())}
    return View("Set", headline, (section,) if warnings else (), columns=columns)


@view.register
def _verified(result: Verified) -> View:
    rows = tuple(
        (name, "as recorded" if not count else f"{count} problems") for name, count in result.checks.items()
    )
    lines = tuple(f"Problem: {item}" for item in result.problems[:50])
    section = Section("Checks", lines, tables=(Table("", ("check", "result"), rows),))
    headline = "Verified." if result.ok else f"NOT verified: {formatting.counted(len(result.problems), 'problem')}."
    return View("Verification", headline, (section,), columns={"problem": list(result.problems)})


@view.register
def _experiment(result: HumanExperiment) -> View:
    unit = f"{len(result.models)} models right" if result.models else "selection frequency"
    rows = (
        ("original", len(result.original), result.original_total, round(result.original_edge, 2)),
        ("new", len(result.new), result.new_total, round(result.new_edge, 2)),
    )
    names = ("set", "questions", "out of", f"hardest, up to ({unit})")
    warnings = [
        f"fewer than {result.per_class} images of {', '.join(short)} in the {side} set"
        for side, short in result.short_classes.items()
    ]
    if result.partial_models:
        models = ", ".join(result.partial_models)
        warnings.append(f"left out, because some images have no prediction of theirs: {models}")
    section = Section("Questions", tables=(Table("Questions", names, rows),), warnings=tuple(warnings))
    headline = f"{len(result.original) + len(result.new):,} questions; invite participants on the owner's page."
    return View("Human-accuracy experiment", headline, (section,), columns=rows_to_columns(names, rows))


@view.register
def _results(result: ExperimentResults) -> View:
    people = result.humans
    rows = tuple(
        zip(
            (row.name for row in people.rows),
            formatting.aligned((row.original for row in people.rows), scale=100),
            formatting.aligned((row.new for row in people.rows), scale=100),
            (round(100 * row.gap, 1) for row in people.rows),
            strict=True,
        )
    )
    names = ("participant", "original, %", "new, %", "gap, points")
    sentence = (
        f"{formatting.counted(len(people.rows), 'person', 'people')} named the class of the hardest images of both "
        f"sets without knowing the set. {people.better_on_original} did better on the original images, "
        f"{people.better_on_new} on the new ones."
    )
    warnings = tuple(
        f"participant {name} has answered {count} of {result.questions} questions"
        + (", on one set only, and is left out" if name in result.left_out else "")
        for name, count in result.answered.items()
        if count < result.questions
    )
    table = Table("Accuracy of people, with Clopper–Pearson intervals", names, rows)
    charts = tuple(chart for section in people.sections() for chart in section.charts)
    section = Section(
        "People on the hardest images", (sentence,), charts=charts, tables=(table,), warnings=warnings
    )
    headline = f"The average gap, original − new, is {formatting.signed(people.mean_gap)}."
    return View("Human accuracy", headline, (section,), columns=rows_to_columns(names, rows))


def _plain(item: Estimate | None) -> str:
    return "not known yet" if item is None or math.isnan(item.value) else formatting.plain(item)


def _rounded(value: float) -> float | int | None:
    return value if isinstance(value, int) else None if math.isnan(value) else round(value, 3)
