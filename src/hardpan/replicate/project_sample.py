"""The sample of a project: drawn, compared with the originals, drawn again where people removed images.

It is kept as ``sample.json`` and frozen by assembly.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from hardpan import files
from hardpan.arguments import one_of
from hardpan.errors import InputError
from hardpan.replicate import database
from hardpan.replicate.folder import ProjectFolder, ProjectStep, hash_project_rows
from hardpan.replicate.quality import quality_frequency_table, selection_frequencies, worker_quality
from hardpan.replicate.sampling import (
    MIN_VOTES,
    UNKNOWN_VOTES,
    AnnotatedImages,
    Sample,
    sample,
    sample_again,
)

SOURCES = ("votes", "selection")


def draw_project_sample(
    project: ProjectFolder,
    strategy: str = "matched",
    *,
    per_class: int = 10,
    threshold: float = 0.7,
    seed: int = 0,
    min_votes: int = MIN_VOTES,
    source: str = "votes",
    without_flagged: bool = False,
) -> Sample:
    """Draw the sample of a project; keyword quotas, where there are any, take the place of ``per_class``.

    Args:
        project: an open project that is not frozen.
        strategy: "matched", "threshold" or "top".
        per_class: images of each class.
        threshold: smallest frequency for "threshold".
        seed: of the draws.
        min_votes: fewest votes that an image needs.
        source: "votes" (grid tasks), or "selection" (by the first selector and the second reviewer).
        without_flagged: leave out the votes of workers who fail the controls.
    """
    project.check_open()
    one_of("source", source, SOURCES)
    first, second = (database.decision_verdicts(project, step) for step in ("first-selection", "second-review"))
    selected = [name for name, v in first.items() if v == "select" and second.get(name) == "keep"]
    settings = {
        "strategy": strategy if source == "votes" else "threshold",
        "per_class": per_class,
        "threshold": threshold if source == "votes" else 0.0,
        "min_votes": min_votes,
        "source": source,
        "without_flagged": without_flagged,
        "votes_counted": len(database.all_votes(project)),
        "excluded_workers": sorted(database.excluded_workers(project)),
        "exclude": sorted(database.removed_by_decisions(project)),
        "selected": sorted(selected) if source == "selection" else [],
    }
    try:
        result = replay_project_sample(project, settings, seed)
    except InputError as error:
        if without_flagged and source == "votes":
            replacements = f"request replacements with: hardpan replicate tasks {project.root} --top-up"
            raise InputError(f"{error}; flagged workers are left out, so {replacements}") from error
        raise
    result = replace(result, without_flagged=without_flagged and source == "votes")
    database.store_sample_images(project, result.images)
    files.save(result, project.root / "sample.json")
    project.record_step("sample", parameters=settings, seed=seed, outputs=_project_sample_outputs(result))
    return result


def replay_project_sample(project: ProjectFolder, settings: Any, seed: int) -> Sample:
    """The sample that the settings of a step give, from the votes that were there."""
    candidates, originals = project_sample_tables(project, settings)
    quotas = {
        (project.classes[c].name, word): count
        for (c, word), count in database.stored_keyword_quotas(project).items()
    }
    if settings["strategy"] == "matched" and not len(originals):
        raise InputError("no original has votes yet; annotate first, or use the strategy 'threshold' or 'top'")
    if not len(candidates):
        raise InputError("no candidate can be drawn: there are no votes (or no selections) yet")
    return sample(
        candidates,
        settings["strategy"],
        settings["per_class"],
        originals,
        settings["threshold"],
        seed,
        min_votes=settings["min_votes"],
        quotas=quotas or None,
        exclude=settings["exclude"],
    )


def project_sample_tables(project: ProjectFolder, settings: Any) -> tuple[AnnotatedImages, AnnotatedImages]:
    """Candidates and originals as :func:`sample` takes them, from the votes that were there at the step."""
    names = project.class_names
    rows = [row for row in database.stored_images(project, "candidate") if row.split != "aside"]
    words = {row.id: row.keyword or "" for row in rows}
    if settings["source"] == "selection":
        picked = set(settings["selected"])
        selected = [row for row in rows if row.id in picked and row.class_index is not None]
        empty = np.zeros(0, dtype=np.str_)
        return AnnotatedImages(
            np.array([row.id for row in selected], dtype=np.str_),
            np.array([names[row.class_index] for row in selected], dtype=np.str_),
            np.ones(len(selected)),
            np.full(len(selected), UNKNOWN_VOTES),
            np.array([words[row.id] for row in selected], dtype=np.str_),
        ), AnnotatedImages(empty, empty, np.zeros(0), np.zeros(0, dtype=np.int64), empty)
    excluded = set(settings.get("excluded_workers", ()))  # as they were when the sample was drawn
    votes = [v for v in database.all_votes(project)[: settings["votes_counted"]] if v.worker_id not in excluded]
    flagged = {item.worker_id for item in worker_quality(votes) if item.flagged}
    frequencies, unflagged = selection_frequencies(votes, flagged), bool(settings["without_flagged"])
    candidates = quality_frequency_table(frequencies, "candidate", names, words, unflagged=unflagged)
    # An image may have votes for a class that is not (or no longer) its own.
    owners = {row.id: names[row.class_index] for row in rows if row.class_index is not None}
    mine = np.array(
        [owners.get(str(i)) == c for i, c in zip(candidates.ids, candidates.classes, strict=True)], bool
    )
    originals = quality_frequency_table(frequencies, "positive", names, unflagged=unflagged)
    return candidates.select(mine), originals


def current_project_sample(project: ProjectFolder) -> Sample:
    """The current sample, or an InputError."""
    path = project.root / "sample.json"
    if not path.exists():
        raise InputError(f"there is no sample yet; draw one with: hardpan replicate sample {project.root}")
    result = files.load(path)
    if not isinstance(result, Sample):
        raise InputError(f"{path} holds {type(result).__name__}, not a sample")
    return result


def draw_project_sample_again(project: ProjectFolder, removed: Collection[str]) -> Sample:
    """Replace removed images by others of the same sub-class and bin; one round, one step."""
    project.check_open()
    before = current_project_sample(project)
    round_number = 1 + len(project_sample_steps(project)[1])
    after = replay_project_sample_again(project, before, sorted(removed), round_number)
    known = set(before.ids)
    added = [image for image in after.images if image.id not in known]
    database.store_sample_images(project, added, removed, round_number=round_number)
    files.save(after, project.root / "sample.json")
    project.record_step(
        "resample",
        parameters={"round": round_number, "removed": sorted(removed)},
        seed=after.seed,
        outputs=_project_sample_outputs(after),
    )
    return after


def replay_project_sample_again(
    project: ProjectFolder, before: Sample, removed: list[str], round_number: int
) -> Sample:
    """What a round of drawing again gives; earlier rounds' removals are in the log of steps."""
    start, rounds = project_sample_steps(project)
    gone = set(start.parameters["exclude"])
    for step in rounds:
        if step.parameters["round"] < round_number:
            gone |= set(step.parameters["removed"])
    candidates = project_sample_tables(project, start.parameters)[0]
    return sample_again(before, candidates, removed, round_number=round_number, ever_removed=gone)


def project_sample_problems(project: ProjectFolder) -> list[str]:
    """Draw the sample, if there is one, again from votes, quotas, decisions and seeds; name what does not fit."""
    if not (project.root / "sample.json").exists():
        return []
    start, rounds = project_sample_steps(project)
    result = replay_project_sample(project, start.parameters, start.seed)
    problems = []
    if hash_project_rows(result.ids) != start.outputs["ids"]:
        problems.append("the votes and the seed give another sample")
    for step in rounds:
        result = replay_project_sample_again(
            project, result, list(step.parameters["removed"]), step.parameters["round"]
        )
        if hash_project_rows(result.ids) != step.outputs["ids"]:
            problems.append(f"round {step.parameters['round']} gives another sample")
    if result.ids != current_project_sample(project).ids:
        problems.append("sample.json holds other images than the steps give")
    return problems


def project_sample_steps(project: ProjectFolder) -> tuple[ProjectStep, list[ProjectStep]]:
    """The step that drew the current sample, and the rounds after it."""
    steps = project.steps()
    last = max((number for number, step in enumerate(steps) if step.name == "sample"), default=None)
    if last is None:
        raise InputError("the log of steps has no sample")
    return steps[last], [step for step in steps[last:] if step.name == "resample"]


def _project_sample_outputs(result: Sample) -> dict[str, Any]:
    return {
        "images": len(result.images),
        "ids": hash_project_rows(result.ids),
        "fills": len(result.fills),
        "missing": sum(item.missing for item in result.shortfalls),
        "average_frequency": result.average_frequency.value,
    }
