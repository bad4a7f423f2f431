"""The human-accuracy experiment: the images of its questions, and the result (Recht et al., Table 3)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hardpan import files, tables
from hardpan.arguments import real_number, whole_number
from hardpan.errors import InputError
from hardpan.files import record
from hardpan.predictions.predictions import Predictions
from hardpan.replicate import database
from hardpan.replicate.folder import ProjectFolder, hash_project_rows
from hardpan.replicate.project_sample import current_project_sample
from hardpan.replicate.quality import annotation_quality, selection_frequency_table
from hardpan.replicate.tasks import keep_blinded_originals, test_originals
from hardpan.report.base import Report

if TYPE_CHECKING:
    from hardpan.testbed.followups import Humans

FRACTION = 0.05


@record
class HumanExperiment(Report):
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
        partial_models: models that were not counted, because some image has no prediction of theirs.
        per_class: requested images of each class and set; None: a fraction or a count of each set.
        short_classes: classes of the set ("original", "new") that have fewer.
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
    partial_models: tuple[str, ...] = ()
    per_class: int | None = None
    short_classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@record
class ExperimentResults(Report):
    """Accuracies of everybody who has answered on both sets.

    Attributes:
        humans: the accuracies and their gap.
        questions: how many questions there are.
        answered: participant to the number of questions answered.
        left_out: participants who have answered on one set only.
    """

    humans: Humans
    questions: int
    answered: Mapping[str, int]
    left_out: tuple[str, ...]


def begin_experiment(
    project: ProjectFolder,
    predictions: Sequence[str | os.PathLike[str]] = (),
    *,
    fraction: float = FRACTION,
    per_class: int | None = None,
    seed: int = 0,
) -> HumanExperiment:
    """Choose the hardest images of the original test set and of the frozen new set, and ask people about them.

    With predictions, the images that the fewest models get right; without, those that the fewest annotators
    selected. Equally hard images are chosen between by ``seed``. The same call again changes nothing.

    Args:
        project: a project whose set is frozen.
        predictions: table with id and one column per model, or store of predictions; opening it is logged.
        fraction: fraction of each set to take, hardest first, rounded up.
        per_class: number of images per class and set, instead of a fraction.
        seed: of ties.

    Source: Recht et al., appendix B.2.5 and Table 3.
    """
    if not project.frozen:
        raise InputError(
            f"the experiment asks about the frozen set; first run: hardpan replicate assemble {project.root}"
        )
    classes = _class_names_by_id(project)
    easy, models, partial = (
        _easiness_by_predictions(project, predictions, classes) if predictions else _easiness_by_votes(project)
    )
    original, new = (
        hardest_images(easy[side], classes[side], fraction=fraction, per_class=per_class, seed=seed)
        for side in ("original", "new")
    )
    questions = {"original": original, "new": new}
    short = {side: _classes_with_few_images(ids, classes[side], per_class) for side, ids in questions.items()}
    experiment = HumanExperiment(
        original,
        new,
        len(easy["original"]),
        len(easy["new"]),
        "predictions" if predictions else "selection frequency",
        models,
        max(easy["original"][name] for name in original),
        max(easy["new"][name] for name in new),
        seed,
        partial,
        per_class,
        {side: names for side, names in short.items() if names},
    )
    keep_blinded_originals(project, set(original))
    database.start_experiment(project, original, new)
    project.record_step(
        "experiment",
        parameters={"by": experiment.by, "models": list(models), "fraction": fraction, "per_class": per_class},
        seed=seed,
        outputs={"original": hash_project_rows(original), "new": hash_project_rows(new)},
    )
    return experiment


def hardest_images(
    easiness: Mapping[str, float],
    classes: Mapping[str, str],
    *,
    fraction: float = FRACTION,
    per_class: int | None = None,
    seed: int = 0,
) -> tuple[str, ...]:
    """The ids with the lowest easiness, lowest first, ties in an order drawn by ``seed``.

    Args:
        easiness: id to models right, or to selection frequency.
        classes: id to class name.
        fraction: proportion of all, rounded up.
        per_class: images of each class, instead of a fraction.
        seed: of ties.

    Example:
        >>> hardest_images({"a": 3, "b": 0, "c": 1}, {"a": "x", "b": "x", "c": "y"}, per_class=1)
        ('b', 'c')
    """
    real_number("fraction", fraction, "(0, 1]")
    names = sorted(easiness)
    tie = np.random.default_rng(seed).permutation(len(names))
    order = [names[k] for k in np.lexsort((tie, np.array([easiness[name] for name in names])))]
    if per_class is None:
        return tuple(order[: int(np.ceil(fraction * len(order) - 1e-9))])
    whole_number("per_class", per_class, 1)
    seen: Counter[str] = Counter()
    hardest = []
    for name in order:
        seen[classes[name]] += 1
        if seen[classes[name]] <= per_class:
            hardest.append(name)
    return tuple(hardest)


def experiment_results(project: ProjectFolder, *, seed: int = 0) -> ExperimentResults:
    """Table 3: accuracies on the original and the new images of everybody who has answered on both.

    Who has answered some of the questions counts with those.
    """
    from hardpan.testbed import human_table

    total = database.question_count(project)
    if not total:
        raise InputError(f"no experiment has begun; start one with: hardpan replicate experiment {project.root}")
    answers = database.human_responses(project)
    sides: dict[str, Counter[str]] = {}
    for row in answers:
        sides.setdefault(row["participant"], Counter())[row["set"]] += 1
    both = {name for name, seen in sides.items() if len(seen) == 2}
    if not both:
        raise InputError(
            "nobody has answered on both sets yet; invite participants on the page of hardpan replicate serve"
        )
    table = human_table([row for row in answers if row["participant"] in both], seed=seed)
    answered = {name: sum(seen.values()) for name, seen in sides.items()}
    return ExperimentResults(table, total, answered, tuple(name for name in sides if name not in both))


def _class_names_by_id(project: ProjectFolder) -> dict[str, dict[str, str]]:
    """Id to class name: the original test set in the order of the data, the new set in that of its index."""
    names = project.class_names
    rows = sorted(test_originals(project), key=lambda row: row.row)
    return {
        "original": {row.id: names[row.class_index] for row in rows},
        "new": {image.id: image.class_name for image in current_project_sample(project).images},
    }


_Easy = tuple[dict[str, dict[str, float]], tuple[str, ...], tuple[str, ...]]


def _easiness_by_predictions(
    project: ProjectFolder, paths: Sequence[str | os.PathLike[str]], classes: Mapping[str, Mapping[str, str]]
) -> _Easy:
    database.add_event(project, "owner", "opened-accuracies", file=", ".join(Path(path).name for path in paths))
    images = {**classes["original"], **classes["new"]}
    right = experiment_right_by_model(paths, images, project.class_names)
    whole = sorted(model for model, answers in right.items() if all(name in answers for name in images))
    if not whole:
        model = max(right, key=lambda name: len(right[name]), default="")
        missing = [name for name in images if name not in right.get(model, {})]
        raise InputError(
            f"no model has predictions for every image of both sets; {model or 'the file'} lacks {len(missing):,} "
            f"of {len(images):,}, such as {missing[0]!r}"
        )
    easy = {
        side: {name: float(sum(right[model][name] for model in whole)) for name in names}
        for side, names in classes.items()
    }
    return easy, tuple(whole), tuple(sorted(set(right) - set(whole)))


def _easiness_by_votes(project: ProjectFolder) -> _Easy:
    names = project.class_names
    table = selection_frequency_table(annotation_quality(project).frequencies, "positive", names)
    original = dict(zip(table.ids.tolist(), table.frequencies.tolist(), strict=True))
    if not original:
        raise InputError("no original has votes: give --predictions, or annotate first")
    note = f"by selection frequency, out of the {len(original):,} originals that were annotated"
    return (
        {
            "original": original,
            "new": {image.id: image.frequency for image in current_project_sample(project).images},
        },
        (),
        (note,),
    )


def _classes_with_few_images(
    ids: Sequence[str], classes: Mapping[str, str], per_class: int | None
) -> tuple[str, ...]:
    if per_class is None:
        return ()
    counts = Counter(classes[name] for name in ids)
    return tuple(sorted({name for name in classes.values() if counts[name] < per_class}))


Right = dict[str, dict[str, bool]]
_NOT_MODELS = ("id", "label", "labels", "target", "set", "split", "class")


def experiment_right_by_model(
    paths: Sequence[str | os.PathLike[str]], truth: Mapping[str, str], class_names: Sequence[str]
) -> Right:
    """Model name to (image id to whether the model is right).

    Args:
        paths: tables with id and one column per model (or id, model, prediction) of class names or numbers, or
            stores of predictions with the images' ids.
        truth: image id to class name.
        class_names: in the order of class numbers.
    """
    results: Right = {}
    for path in paths:
        source = files.as_path("predictions", path)
        read = _right_from_table if tables.is_table_file(source) else _right_from_store
        for model, answers in read(source, truth, class_names).items():
            results.setdefault(model, {}).update(answers)
    return results


def _right_from_store(path: Path, truth: Mapping[str, str], class_names: Sequence[str]) -> Right:
    """Every seed is a model, named after the store's model or folder."""
    predictions = Predictions.open(path)
    outcomes = predictions.outcomes()
    ids = outcomes.items.tolist()
    known = [row for row, name in enumerate(ids) if name in truth]
    if not known:
        raise InputError(
            f": {path} holds none of the project's images; its ids must be those of the images",
            argument="predictions",
        )
    prefix = "" if predictions.named else f"{predictions.config.get('model') or path.name} "
    return {
        f"{prefix}{model}": {ids[row]: bool(outcomes.scores[k, row]) for row in known}
        for k, model in enumerate(outcomes.models)
    }


def _right_from_table(path: Path, truth: Mapping[str, str], class_names: Sequence[str]) -> Right:
    columns = tables.read_columns(path, text=True, required=("id",))
    ids, results = columns["id"], Right()
    if "model" in columns and "prediction" in columns:
        answers = _answered_class_names(columns["prediction"], class_names, path)
        for name, model, answer in zip(ids, columns["model"], answers, strict=True):
            if name in truth:
                results.setdefault(model, {})[name] = answer == truth[name]
        return results
    for model in (name for name in columns if name not in _NOT_MODELS):
        answers = _answered_class_names(columns[model], class_names, path)
        results[model] = {n: answer == truth[n] for n, answer in zip(ids, answers, strict=True) if n in truth}
    if not results:
        raise InputError(
            f": {path} needs, beside id, a column of predicted class names for each model", argument="predictions"
        )
    return results


def _answered_class_names(values: Sequence[str], class_names: Sequence[str], path: Path) -> list[str]:
    """Predictions as class names: they are names, or else all numbers of classes."""
    if set(class_names).issuperset(values):
        return list(values)
    if all(text.isdigit() and int(text) < len(class_names) for text in values):
        return [class_names[int(text)] for text in values]
    unknown = next(text for text in values if text not in class_names)
    raise InputError(
        f": {unknown!r} in {path} is not a class; predictions must be class names, or numbers from 0",
        argument="predictions",
    )
