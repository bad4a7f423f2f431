"""The human-accuracy experiment: the images of its questions, and the result (Recht et al., Table 3)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardpan import tables
from hardpan.arguments import real_number, whole_number
from hardpan.errors import InputError
from hardpan.files import record
from hardpan.replicate.folder import ProjectFolder
from hardpan.replicate.samples import current_sample
from hardpan.replicate.steps import hash_rows, record_step
from hardpan.replicate.tasks import CONTROL_SPLIT, keep_blinded_originals
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
    count: int | None = None,
    seed: int = 0,
) -> HumanExperiment:
    """Choose the hardest images of the original test set and of the frozen new set, and ask people about them.

    With predictions, the images that the fewest models get right; without, those that the fewest annotators
    selected. Equally hard images are chosen between by ``seed``. The same call again changes nothing.

    Args:
        project: a project whose set is frozen.
        predictions: table with id and one column per model, store, or testbed file; opening it is logged.
        fraction: fraction of each set to take, hardest first, rounded up.
        per_class: number of images per class and set, instead of a fraction.
        count: number of images per set, instead of a fraction.
        seed: of ties.

    Source: Recht et al., appendix B.2.5 and Table 3.
    """
    from hardpan.replicate.database.experiment import start_experiment

    if not project.frozen:
        raise InputError(
            f"the experiment asks about the frozen set; first run: hardpan replicate assemble {project.root}"
        )
    classes = _classes(project)
    easy, models, partial = _by_predictions(project, predictions, classes) if predictions else _by_votes(project)
    sides = [
        hardest_images(
            easy[side], {name: classes[side][name] for name in easy[side]}, fraction, per_class, count, seed
        )
        for side in ("original", "new")
    ]
    short = {
        side: _short(ids, classes[side], per_class) for side, ids in zip(("original", "new"), sides, strict=True)
    }
    experiment = HumanExperiment(
        sides[0],
        sides[1],
        len(easy["original"]),
        len(easy["new"]),
        "predictions" if predictions else "selection frequency",
        models,
        max(easy["original"][name] for name in sides[0]),
        max(easy["new"][name] for name in sides[1]),
        seed,
        partial,
        per_class,
        {side: names for side, names in short.items() if names},
    )
    keep_blinded_originals(project, set(experiment.original))
    start_experiment(project, experiment.original, experiment.new)
    settings = {
        "by": experiment.by,
        "models": list(models),
        "fraction": fraction,
        "per_class": per_class,
        "count": count,
    }
    outputs = {"original": hash_rows(experiment.original), "new": hash_rows(experiment.new)}
    record_step(project, "experiment", parameters=settings, seed=seed, outputs=outputs)
    return experiment


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
        fraction: proportion of all, rounded up.
        per_class: images of each class, instead of a fraction.
        count: images in all, instead of a fraction.
        seed: of ties.

    Example:
        >>> hardest_images({"a": 3, "b": 0, "c": 1}, {"a": "x", "b": "x", "c": "y"}, per_class=1)
        ('b', 'c')
    """
    if per_class is not None and count is not None:
        raise InputError(f"give per_class or count, not both; got {per_class} and {count}")
    real_number("fraction", fraction, "(0, 1]")
    for name, value in (("per_class", per_class), ("count", count)):
        if value is not None:
            whole_number(name, value, 1)
    names = sorted(easiness)
    tie = np.random.default_rng(seed).permutation(len(names))
    order = [names[k] for k in np.lexsort((tie, np.array([easiness[name] for name in names])))]
    if per_class is not None:
        seen: Counter[str] = Counter()
        hardest = []
        for name in order:
            seen[classes[name]] += 1
            if seen[classes[name]] <= per_class:
                hardest.append(name)
        return tuple(hardest)
    size = count if count is not None else int(np.ceil(fraction * len(order) - 1e-9))
    if size > len(order):
        raise InputError(
            f"must be at most {len(order):,}, the images to choose from; got {size:,}", argument="count"
        )
    return tuple(order[:size])


def experiment_results(project: ProjectFolder, *, confidence: float = 0.95, seed: int = 0) -> ExperimentResults:
    """Table 3: accuracies on the original and the new images of everybody who has answered on both.

    Who has answered some of the questions counts with those.
    """
    from hardpan.replicate.database.experiment import human_responses, question_count
    from hardpan.testbed import human_table

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
    table = human_table([row for row in answers if row["participant"] in both], confidence=confidence, seed=seed)
    answered = {name: sum(seen.values()) for name, seen in sides.items()}
    return ExperimentResults(table, total, answered, tuple(name for name in sides if name not in both))


def _classes(project: ProjectFolder) -> dict[str, dict[str, str]]:
    """Id to class name: the original test set in the order of the data, the new set in that of its index."""
    from hardpan.replicate.database.images import stored_images

    names = [item.name for item in project.classes]
    rows = stored_images(project, "original", split=CONTROL_SPLIT) or stored_images(project, "original")
    rows.sort(key=lambda row: row.row)
    return {
        "original": {row.id: names[row.class_index] for row in rows},
        "new": {image.id: image.class_name for image in current_sample(project).images},
    }


_Easy = tuple[dict[str, dict[str, float]], tuple[str, ...], tuple[str, ...]]


def _by_predictions(
    project: ProjectFolder, paths: Sequence[str | os.PathLike[str]], classes: Mapping[str, Mapping[str, str]]
) -> _Easy:
    from pathlib import Path

    from hardpan.replicate.database.votes import add_event

    add_event(project, "owner", "opened-accuracies", file=", ".join(Path(path).name for path in paths))
    right = right_by_model(paths, classes["original"], classes["new"], [item.name for item in project.classes])
    images = {**classes["original"], **classes["new"]}
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


def _by_votes(project: ProjectFolder) -> _Easy:
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


def _short(ids: Sequence[str], classes: Mapping[str, str], per_class: int | None) -> tuple[str, ...]:
    if per_class is None:
        return ()
    counts = Counter(classes[name] for name in ids)
    return tuple(sorted({name for name in classes.values() if counts[name] < per_class}))


Right = dict[str, dict[str, bool]]
_NOT_MODELS = ("id", "label", "labels", "target", "set", "split", "class")


def right_by_model(
    paths: Sequence[str | os.PathLike[str]],
    original: Mapping[str, str],
    new: Mapping[str, str],
    class_names: Sequence[str],
) -> Right:
    """Model name to (image id to whether the model is right), for images of both sets.

    Args:
        paths: tables with id and one column per model (or id, model, prediction) of class names or numbers;
            stores of predictions with the images' ids; or one or two files that ``testbed.two_sets`` opens, whose
            rows are those of the original test set and of the new set, in their order.
        original: image id to class name, in the order of the original test set.
        new: the same of the new set.
        class_names: in the order of class numbers.
    """
    sources = [Path(path) for path in paths]
    truth = {**original, **new}
    results: Right = {}
    for source in sources:
        if not source.exists():
            raise InputError(f"{source}: no such file or folder of predictions")
        if (source / "zarr.json").is_file():
            _merge(results, _of_store(source, truth))
            continue
        columns = tables.read_columns(source, text=True) if tables.is_table_file(source) else {}
        if "id" not in columns:
            return _in_order(sources, list(original), list(new))
        _merge(results, of_table(columns, truth, class_names, str(source)))
    return results


def _merge(results: Right, more: Right) -> None:
    for model, answers in more.items():
        results.setdefault(model, {}).update(answers)


def _of_store(path: Path, truth: Mapping[str, str]) -> Right:
    from hardpan.testbed.sets import store_outcomes

    outcomes = store_outcomes(path)
    ids = outcomes.items.tolist()
    known = [row for row, name in enumerate(ids) if name in truth]
    results: Right = {
        model: {ids[row]: bool(outcomes.scores[k, row]) for row in known} for k, model in enumerate(outcomes.models)
    }
    if not any(results.values()):
        raise InputError(f"{path}: holds none of the project's images; its ids must be those of the images")
    return results


def of_table(
    columns: Mapping[str, Sequence[Any]], truth: Mapping[str, str], class_names: Sequence[str], where: str
) -> Right:
    """The same from the columns of one table: id and one column per model, or id, model and prediction."""
    ids = [str(name) for name in columns["id"]]
    results: Right = {}
    if "model" in columns and "prediction" in columns:
        predicted = _as_names(columns["prediction"], class_names, where)
        for name, model, answer in zip(ids, columns["model"], predicted, strict=True):
            if name in truth:
                results.setdefault(str(model), {})[name] = answer == truth[name]
        return results
    for model in columns:
        if model not in _NOT_MODELS:
            predicted = _as_names(columns[model], class_names, f"{where}, {model}")
            results[model] = {n: answer == truth[n] for n, answer in zip(ids, predicted, strict=True) if n in truth}
    if not results:
        raise InputError(f"{where}: needs, beside id, a column of predicted class names for each model")
    return results


def _as_names(values: Sequence[Any], class_names: Sequence[str], where: str) -> list[str]:
    """Predictions as class names: they are names, or else all numbers of classes."""
    predicted, known = [str(value) for value in values], set(class_names)
    if known.issuperset(predicted):
        return predicted
    if all(text.isdigit() and int(text) < len(class_names) for text in predicted):
        return [class_names[int(text)] for text in predicted]
    unknown = next(text for text in predicted if text not in known)
    raise InputError(f"{where}: {unknown!r} is not a class; predictions must be class names, or numbers from 0")


def _in_order(paths: Sequence[Path], original: Sequence[str], new: Sequence[str]) -> Right:
    from hardpan.testbed import two_sets

    sets = two_sets(*paths)
    first, second = sets.original.scores, sets.new.scores
    if first is None or second is None:
        raise InputError(f"{paths[0]}: has counts; the hardest images need predictions image by image")
    for side, ids, matrix in (("original", original, first), ("new", new, second)):
        if matrix.shape[1] != len(ids):
            raise InputError(
                f"{paths[0]}: predictions for {matrix.shape[1]:,} images of the {side} set, which has {len(ids):,}"
                "; give a table with a column id, or the rows in the order of the set"
            )
    right = np.concatenate([first, second], axis=1) == 1.0
    names = [*original, *new]
    return {model: dict(zip(names, right[k].tolist(), strict=True)) for k, model in enumerate(sets.models)}
