"""The human-accuracy experiment of a project: which images people are asked about, and what came out (Table 3)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hardpan import numbers
from hardpan.errors import InputError
from hardpan.files import record
from hardpan.replicate.drawing import current_sample, is_frozen
from hardpan.replicate.project import Project
from hardpan.replicate.steps import hash_rows, record_step
from hardpan.report.sections import Section, Table

if TYPE_CHECKING:
    from hardpan.testbed.humans import Humans

FRACTION = 0.05


@record
@dataclass(frozen=True, slots=True)
class HumanExperiment:
    """The images that people are asked about.

    Attributes:
        original: ids of the hardest originals, hardest first.
        new: ids of the hardest new images, likewise.
        original_total: originals that they were chosen from.
        new_total: new images that they were chosen from.
        by: "predictions" or "selection frequency".
        models: names of the models that were counted; empty for selection frequencies.
        original_edge: models right on, or selection frequency of, the easiest of the chosen originals.
        new_edge: the same of the new images.
        seed: of the choice between equally hard images.
        notes: what a reader has to know.
    """

    original: tuple[str, ...]
    new: tuple[str, ...]
    original_total: int
    new_total: int
    by: str
    models: tuple[str, ...]
    original_edge: float
    new_edge: float
    seed: int
    notes: tuple[str, ...] = ()


def begin_experiment(
    project: Project,
    predictions: Sequence[str | os.PathLike[str]] = (),
    *,
    fraction: float = FRACTION,
    per_class: int | None = None,
    count: int | None = None,
    seed: int = 0,
) -> HumanExperiment:
    """Choose the hardest images of the original test set and of the frozen new set, and ask people about them.

    With predictions, the images that the fewest models get right; without, those that the fewest annotators
    selected. Equally hard images are chosen between by ``seed``. The same call again changes nothing.

    Args:
        project: a project whose set is frozen.
        predictions: see :func:`hardpan.replicate.model_answers.right_by_model`; opening them is logged.
        fraction: share of each set, rounded up.
        per_class: instead, so many of each class and set.
        count: instead, so many of each set.
        seed: of ties.

    Source: Recht et al., appendix B.2.5 and Table 3.
    """
    from hardpan.replicate.database.experiment import start_experiment

    if not is_frozen(project):
        raise InputError(
            f"the experiment asks about the frozen set; first run: hardpan replicate assemble {project.root}"
        )
    classes = _classes(project)
    easy, models, notes = _by_predictions(project, predictions, classes) if predictions else _by_votes(project)
    sides = [
        hardest_images(
            easy[side], {name: classes[side][name] for name in easy[side]}, fraction, per_class, count, seed
        )
        for side in ("original", "new")
    ]
    for side, ids in zip(("original", "new"), sides, strict=True):
        short = _short(ids, classes[side], per_class)
        notes += (f"fewer than {per_class} images of {short} in the {side} set",) if short else ()
    chosen = HumanExperiment(
        sides[0],
        sides[1],
        len(easy["original"]),
        len(easy["new"]),
        "predictions" if predictions else "selection frequency",
        models,
        max(easy["original"][name] for name in sides[0]),
        max(easy["new"][name] for name in sides[1]),
        seed,
        notes,
    )
    start_experiment(project, chosen.original, chosen.new)
    settings = {
        "by": chosen.by,
        "models": list(models),
        "fraction": fraction,
        "per_class": per_class,
        "count": count,
    }
    outputs = {"original": hash_rows(chosen.original), "new": hash_rows(chosen.new)}
    record_step(project, "experiment", parameters=settings, seed=seed, outputs=outputs)
    return chosen


def hardest_images(
    easiness: Mapping[str, float],
    classes: Mapping[str, str],
    fraction: float = FRACTION,
    per_class: int | None = None,
    count: int | None = None,
    seed: int = 0,
) -> tuple[str, ...]:
    """The ids with the lowest easiness, lowest first, ties in an order drawn by ``seed``.

    Args:
        easiness: id to models right, or to selection frequency.
        classes: id to class name.
        fraction: share of all, rounded up.
        per_class: instead, so many of each class.
        count: instead, so many in all.
        seed: of ties.

    Example:
        >>> hardest_images({"a": 3, "b": 0, "c": 1}, {"a": "x", "b": "x", "c": "y"}, per_class=1)
        ('b', 'c')
    """
    if per_class is not None and count is not None:
        raise InputError(f"give per_class or count, not both; got {per_class} and {count}")
    if not 0.0 < fraction <= 1.0:
        raise InputError(f"fraction must lie above 0 and up to 1; got {fraction!r}")
    if min(per_class or 1, count or 1) < 1 or 0 in (per_class, count):
        raise InputError(f"per_class and count must be at least 1; got {per_class} and {count}")
    names = sorted(easiness)
    tie = np.random.default_rng(seed).permutation(len(names))
    order = [names[k] for k in np.lexsort((tie, np.array([easiness[name] for name in names])))]
    if per_class is not None:
        seen: Counter[str] = Counter()
        chosen = []
        for name in order:
            seen[classes[name]] += 1
            if seen[classes[name]] <= per_class:
                chosen.append(name)
        return tuple(chosen)
    wanted = count if count is not None else int(np.ceil(fraction * len(order) - 1e-9))
    if wanted > len(order):
        raise InputError(f"count must be at most {len(order):,}, the images to choose from; got {wanted:,}")
    return tuple(order[:wanted])


def experiment_results(project: Project, *, confidence: float = 0.95, seed: int = 0) -> Humans:
    """Table 3: accuracies on the original and the new images of everybody who has answered on both.

    Who has answered part of the questions counts with that part, and a note says so.
    """
    from hardpan.replicate.database.experiment import human_responses, question_count
    from hardpan.testbed.humans import human_table

    total = question_count(project)
    if not total:
        raise InputError(f"no experiment has begun; start one with: hardpan replicate experiment {project.root}")
    answers = human_responses(project)
    sides: dict[str, Counter[str]] = {}
    for row in answers:
        sides.setdefault(row["participant"], Counter())[row["set"]] += 1
    both = {name for name, seen in sides.items() if len(seen) == 2}
    if not both:
        raise InputError(
            "nobody has answered on both sets yet; invite participants on the page of hardpan replicate serve"
        )
    notes = [
        f"participant {name} has answered {sum(seen.values())} of {total} questions"
        + ("" if name in both else ", on one set only, and is left out")
        for name, seen in sides.items()
        if sum(seen.values()) < total
    ]
    table = human_table([row for row in answers if row["participant"] in both], confidence=confidence, seed=seed)
    return replace(table, notes=tuple(notes))


def experiment_section(found: Humans) -> Section:
    """The page's section: Table 3 and what it says."""
    rows = tuple(
        zip(
            (row.name for row in found.rows),
            numbers.aligned((row.original for row in found.rows), scale=100),
            numbers.aligned((row.new for row in found.rows), scale=100),
            (round(100 * row.gap, 1) for row in found.rows),
            strict=True,
        )
    )
    sentences = (
        f"{len(found.rows)} people named the class of the hardest images of both sets, not knowing which set an "
        f"image comes from. The average gap, original less new, is {numbers.signed(found.mean_gap)}; "
        f"{found.better_on_original} did better on the original images, {found.better_on_new} on the new ones.",
    )
    columns = ("participant", "original, %", "new, %", "gap, points")
    table = Table("Accuracy of people, with Clopper–Pearson intervals", columns, rows)
    return Section("People on the hardest images", sentences, tables=(table,), warnings=found.notes)


def _classes(project: Project) -> dict[str, dict[str, str]]:
    """Id to class name: the original test set in the order of the data, the new set in that of its index."""
    from hardpan.replicate.database.images import stored_images
    from hardpan.replicate.tasks import CONTROL_SPLIT

    names = [item.name for item in project.classes]
    rows = stored_images(project, "original", split=CONTROL_SPLIT) or stored_images(project, "original")
    rows.sort(key=lambda row: row.row)
    return {
        "original": {row.id: names[row.class_index] for row in rows},
        "new": {image.id: image.class_name for image in current_sample(project).images},
    }


_Easy = tuple[dict[str, dict[str, float]], tuple[str, ...], tuple[str, ...]]


def _by_predictions(
    project: Project, paths: Sequence[str | os.PathLike[str]], classes: Mapping[str, Mapping[str, str]]
) -> _Easy:
    from pathlib import Path

    from hardpan.replicate.database.votes import add_event
    from hardpan.replicate.model_answers import right_by_model

    add_event(project, "owner", "opened-accuracies", file=", ".join(Path(path).name for path in paths))
    right = right_by_model(paths, classes["original"], classes["new"], [item.name for item in project.classes])
    wanted = {**classes["original"], **classes["new"]}
    whole = sorted(model for model, answers in right.items() if all(name in answers for name in wanted))
    if not whole:
        model = max(right, key=lambda name: len(right[name]), default="")
        missing = [name for name in wanted if name not in right.get(model, {})]
        raise InputError(
            f"no model has predictions for every image of both sets; {model or 'the file'} lacks {len(missing):,} "
            f"of {len(wanted):,}, such as {missing[0]!r}"
        )
    partial = sorted(set(right) - set(whole))
    notes = (
        (f"left out, because some images have no prediction of theirs: {', '.join(partial)}",) if partial else ()
    )
    easy = {
        side: {name: float(sum(right[model][name] for model in whole)) for name in names}
        for side, names in classes.items()
    }
    return easy, tuple(whole), notes


def _by_votes(project: Project) -> _Easy:
    from hardpan.replicate.quality import annotation_quality, frequency_table

    names = [item.name for item in project.classes]
    table = frequency_table(annotation_quality(project).frequencies, "positive", names)
    original = dict(zip(table.ids.tolist(), table.frequencies.tolist(), strict=True))
    if not original:
        raise InputError("no original has votes: give --predictions, or annotate first")
    note = f"by selection frequency, out of the {len(original):,} originals that were annotated"
    return (
        {"original": original, "new": {image.id: image.frequency for image in current_sample(project).images}},
        (),
        (note,),
    )


def _short(chosen: Sequence[str], classes: Mapping[str, str], per_class: int | None) -> str:
    if per_class is None:
        return ""
    counts = Counter(classes[name] for name in chosen)
    return ", ".join(sorted({name for name in classes.values() if counts[name] < per_class}))
