"""The human-accuracy experiment: the images of its questions, and the result (Recht et al., Table 3)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hardpan import arguments
from hardpan.arguments import real_number
from hardpan.errors import InputError, few
from hardpan.files import record
from hardpan.predictions.predictions import Predictions
from hardpan.replicate import database
from hardpan.replicate.folder import ProjectFolder, hash_project_rows
from hardpan.replicate.project_sample import current_project_sample
from hardpan.replicate.quality import annotation_quality, quality_frequency_table
from hardpan.report import Report

if TYPE_CHECKING:
    from hardpan.testbed.humans import Humans

FRACTION = 0.05


@record(
    dropped=(
        *("partial_models", "short_classes", "original_total", "new_total"),
        *("original_edge", "new_edge", "per_class"),
    )
)
class HumanExperiment(Report):
    """The images that people are asked about.

    Attributes:
        original: ids of the hardest originals, hardest first.
        new: ids of the hardest new images, likewise.
        by: "predictions" or "selection frequency".
        models: names of the models that were counted; empty for selection frequencies.
        seed: of the choice between equally hard images.
    """

    HEADLINE = "{questions:counted question}; invite participants on the owner's page."

    original: tuple[str, ...]
    new: tuple[str, ...]
    by: str
    models: tuple[str, ...]
    seed: int

    @property
    def questions(self) -> int:
        """How many images people are asked about."""
        return len(self.original) + len(self.new)


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
    seed: int = 0,
) -> HumanExperiment:
    """Choose the hardest images of the original test set and of the frozen new set, and ask people about them.

    With predictions, the images that the fewest models get right; without, those that the fewest annotators
    selected. Equally hard images are chosen between by ``seed``. The same call again changes nothing.

    Args:
        project: a project whose set is frozen.
        predictions: stores or tables of predictions with ids, for ``Predictions.open``; opening them is logged.
        fraction: fraction of each set to take, hardest first, rounded up.
        seed: of ties.

    Source: Recht et al., appendix B.2.5 and Table 3.
    """
    if not project.frozen:
        raise InputError(
            f"the experiment asks about the frozen set; first run: hardpan replicate assemble {project.root}"
        )
    easy, models = _experiment_easiness(project, predictions)
    original, new = (
        hardest_experiment_images(easy[side], fraction=fraction, seed=seed) for side in ("original", "new")
    )
    by = "predictions" if predictions else "selection frequency"
    experiment = HumanExperiment(original, new, by, models, seed)
    database.keep_originals_blinded(project, set(original))
    database.choose_questions(project, original, new)
    project.record_step(
        "experiment",
        parameters={"by": experiment.by, "models": list(models), "fraction": fraction},
        seed=seed,
        outputs={"original": hash_project_rows(original), "new": hash_project_rows(new)},
    )
    return experiment


def hardest_experiment_images(
    easiness: Mapping[str, float], *, fraction: float = FRACTION, seed: int = 0
) -> tuple[str, ...]:
    """The ids with the lowest easiness, lowest first, ties in an order drawn by ``seed``.

    Args:
        easiness: id to models right, or to selection frequency.
        fraction: proportion of all, rounded up.
        seed: of ties.

    Example:
        >>> hardest_experiment_images({"a": 3, "b": 0, "c": 1}, fraction=0.5)
        ('b', 'c')
    """
    real_number("fraction", fraction, "(0, 1]")
    names = sorted(easiness)
    tie = np.random.default_rng(seed).permutation(len(names))
    order = [names[k] for k in np.lexsort((tie, np.array([easiness[name] for name in names])))]
    return tuple(order[: int(np.ceil(fraction * len(order) - 1e-9))])


def experiment_results(project: ProjectFolder) -> ExperimentResults:
    """Table 3: accuracies on the original and the new images of everybody who has answered on both.

    Who has answered some of the questions counts with those.
    """
    from hardpan.testbed import human_table

    total = database.question_count(project)
    if not total:
        raise InputError(f"no experiment has begun; start one with: hardpan replicate experiment {project.root}")
    answers = database.question_answers(project)
    sides: dict[str, Counter[str]] = {}
    for row in answers:
        sides.setdefault(row["participant"], Counter())[row["set"]] += 1
    both = {name for name, seen in sides.items() if len(seen) == 2}
    if not both:
        raise InputError(
            "nobody has answered on both sets yet; invite participants on the page of hardpan replicate serve"
        )
    table = human_table([row for row in answers if row["participant"] in both])
    answered = {name: sum(seen.values()) for name, seen in sides.items()}
    return ExperimentResults(table, total, answered, tuple(name for name in sides if name not in both))


def _experiment_easiness(
    project: ProjectFolder, predictions: Sequence[str | os.PathLike[str]]
) -> tuple[dict[str, dict[str, float]], tuple[str, ...]]:
    """Easiness by set and id, by the votes or by how many models are right; and the models that were counted."""
    names, sampled = project.class_names, current_project_sample(project).images
    if not predictions:
        table = quality_frequency_table(annotation_quality(project).frequencies, "positive", names)
        if not len(table):
            raise InputError("no original has votes: give --predictions, or annotate first")
        original = dict(zip(table.ids.tolist(), table.frequencies.tolist(), strict=True))
        return {"original": original, "new": {image.id: image.frequency for image in sampled}}, ()
    paths = ", ".join(Path(path).name for path in predictions)
    database.add_event(project, "owner", "opened-accuracies", file=paths)
    rows = sorted(database.originals_of_test_set(project), key=lambda row: row.row)
    originals = {row.id: names[row.class_index] for row in rows}
    images = originals | {image.id: image.class_name for image in sampled}
    right = right_answers_by_model(predictions, images, names)
    for model, answers in right.items():
        missing = [name for name in images if name not in answers]
        if missing:
            raise InputError(
                f": {model} has none for {len(missing):,} of the {len(images):,} images of both sets, such as "
                f"{missing[0]!r}",
                argument="predictions",
            )
    easy: dict[str, dict[str, float]] = {"original": {}, "new": {}}
    for name in images:
        models_right = sum(answers[name] for answers in right.values())
        easy["original" if name in originals else "new"][name] = float(models_right)
    return easy, tuple(sorted(right))


def right_answers_by_model(
    paths: Sequence[str | os.PathLike[str]], truth: Mapping[str, str], class_names: Sequence[str]
) -> dict[str, dict[str, bool]]:
    """Model name to (image id to whether the model is right); seeds without a name are named after their file.

    Args:
        paths: stores or tables of predictions with the images' ids.
        truth: image id to class name.
        class_names: in the order of class numbers.
    """
    results: dict[str, dict[str, bool]] = {}
    for path in paths:
        opened = Predictions.open(arguments.as_path("predictions", path))
        predictions = opened.align(list(truth))
        names, ids = predictions.class_names or tuple(class_names), predictions.ids.tolist()
        missing = sorted({truth[name] for name in ids} - set(names))
        if missing:
            raise InputError(f": {path} has no class {missing[0]!r}; it has {few(names)}", argument="predictions")
        outcomes = predictions.outcomes([names.index(truth[name]) for name in ids])
        prefix = "" if opened.named else f"{opened.config.get('model') or Path(path).name} "
        for model, right in zip(outcomes.models, outcomes.scores, strict=True):
            results.setdefault(f"{prefix}{model}", {}).update(zip(ids, map(bool, right), strict=True))
    return results
