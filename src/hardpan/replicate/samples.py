"""Sampling inside a project: from its votes or its selector's choices, kept as a file, frozen by assembly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hardpan import files
from hardpan.arguments import one_of
from hardpan.errors import InputError
from hardpan.replicate.folder import ProjectFolder
from hardpan.replicate.quality import frequency_table, selection_frequencies, worker_quality
from hardpan.replicate.sampling import MIN_VOTES, UNKNOWN_VOTES, Annotated, Sample, sample, sample_again
from hardpan.replicate.steps import Step, hash_rows, read_steps, record_step

_TOP_UP = "flagged workers are left out, so request replacements with: hardpan replicate tasks {} --top-up"
SOURCES = ("votes", "selection")


def draw_sample(
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
    from hardpan.replicate.database.decisions import begin_sample
    from hardpan.replicate.database.people import excluded_workers
    from hardpan.replicate.database.votes import all_votes

    project.check_open()
    one_of("source", source, SOURCES)
    settings = {
        "strategy": strategy if source == "votes" else "threshold",
        "per_class": per_class,
        "threshold": threshold if source == "votes" else 0.0,
        "min_votes": min_votes,
        "source": source,
        "without_flagged": without_flagged,
        "votes_counted": len(all_votes(project)),
        "excluded_workers": sorted(excluded_workers(project)),
        "exclude": sorted(removed_so_far(project)),
        "selected": sorted(_selected(project)) if source == "selection" else [],
    }
    try:
        result = replay_sample(project, settings, seed)
    except InputError as error:
        if without_flagged and source == "votes":
            raise InputError(f"{error}; {_TOP_UP.format(project.root)}") from error
        raise
    result = replace(result, without_flagged=without_flagged and source == "votes")
    begin_sample(project, result.images)
    files.save(result, project.root / "sample.json")
    record_step(project, "sample", parameters=settings, seed=seed, outputs=_outputs(result))
    return result


def replay_sample(project: ProjectFolder, settings: Any, seed: int) -> Sample:
    """The sample that the settings of a step give, from the votes that were there."""
    candidates, originals = tables(project, settings)
    quotas = _quotas(project)
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


def tables(project: ProjectFolder, settings: Any) -> tuple[Annotated, Annotated]:
    """Candidates and originals as :func:`sample` takes them, from the votes that were there at the step."""
    from hardpan.replicate.database.images import stored_images
    from hardpan.replicate.database.votes import all_votes

    names = [item.name for item in project.classes]
    rows = [row for row in stored_images(project, "candidate") if row.split != "aside"]
    words = {row.id: row.keyword or "" for row in rows}
    if settings["source"] == "selection":
        picked = set(settings["selected"])
        selected = [row for row in rows if row.id in picked and row.class_index is not None]
        empty = np.zeros(0, dtype=np.str_)
        return Annotated(
            np.array([row.id for row in selected], dtype=np.str_),
            np.array([names[row.class_index] for row in selected], dtype=np.str_),
            np.ones(len(selected)),
            np.full(len(selected), UNKNOWN_VOTES),
            np.array([words[row.id] for row in selected], dtype=np.str_),
        ), Annotated(empty, empty, np.zeros(0), np.zeros(0, dtype=np.int64), empty)
    excluded = set(settings.get("excluded_workers", ()))  # as they were when the sample was drawn
    votes = [v for v in all_votes(project)[: settings["votes_counted"]] if v.worker_id not in excluded]
    flagged = {item.worker_id for item in worker_quality(votes) if item.flagged}
    frequencies = selection_frequencies(votes, flagged, probabilities=False)  # a draw uses counts alone
    without = bool(settings["without_flagged"])
    candidates = frequency_table(frequencies, "candidate", names, words, without_flagged=without)
    # An image may have votes for a class that is not (or no longer) its own.
    owners = {row.id: names[row.class_index] for row in rows if row.class_index is not None}
    mine = np.array(
        [owners.get(str(i)) == c for i, c in zip(candidates.ids, candidates.classes, strict=True)], bool
    )
    return candidates.select(mine), frequency_table(frequencies, "positive", names, without_flagged=without)


def current_sample(project: ProjectFolder) -> Sample:
    """The current sample, or an InputError."""
    path = project.root / "sample.json"
    if not path.exists():
        raise InputError(f"there is no sample yet; draw one with: hardpan replicate sample {project.root}")
    result = files.load(path)
    if not isinstance(result, Sample):
        raise InputError(f"{path} holds {type(result).__name__}, not a sample")
    return result


def draw_again(project: ProjectFolder, removed: dict[str, str]) -> Sample:
    """Replace removed images (id to reason) by others of the same sub-class and bin; one round, one step."""
    from hardpan.replicate.database.decisions import change_sample

    project.check_open()
    before = current_sample(project)
    round_number = 1 + len(sample_steps(project)[1])
    after = replay_again(project, before, sorted(removed), round_number)
    fresh = set(after.ids) - set(before.ids)
    change_sample(project, removed, [image for image in after.images if image.id in fresh], round_number)
    files.save(after, project.root / "sample.json")
    record_step(
        project,
        "resample",
        parameters={"round": round_number, "removed": sorted(removed)},
        seed=after.seed,
        outputs=_outputs(after),
    )
    return after


def replay_again(project: ProjectFolder, before: Sample, removed: list[str], round_number: int) -> Sample:
    """What a round of drawing again gives; earlier rounds' removals are in the log of steps."""
    start, rounds = sample_steps(project)
    gone = set(start.parameters["exclude"])
    for step in rounds:
        if step.parameters["round"] < round_number:
            gone |= set(step.parameters["removed"])
    candidates = tables(project, start.parameters)[0]
    return sample_again(before, candidates, removed, round_number=round_number, ever_removed=gone)


def sample_problems(project: ProjectFolder) -> list[str]:
    """Draw the sample again from votes, quotas, decisions and seeds, and say what does not fit."""
    start, rounds = sample_steps(project)
    result = replay_sample(project, start.parameters, start.seed)
    problems = []
    if hash_rows(result.ids) != start.outputs["ids"]:
        problems.append("the votes and the seed give another sample")
    for step in rounds:
        result = replay_again(project, result, list(step.parameters["removed"]), step.parameters["round"])
        if hash_rows(result.ids) != step.outputs["ids"]:
            problems.append(f"round {step.parameters['round']} gives another sample")
    if result.ids != current_sample(project).ids:
        problems.append("sample.json holds other images than the steps give")
    return problems


def sample_steps(project: ProjectFolder) -> tuple[Step, list[Step]]:
    """The step that drew the current sample, and the rounds after it."""
    steps = read_steps(project)
    last = max((number for number, step in enumerate(steps) if step.name == "sample"), default=None)
    if last is None:
        raise InputError("the log of steps has no sample")
    return steps[last], [step for step in steps[last:] if step.name == "resample"]


def removed_so_far(project: ProjectFolder) -> set[str]:
    """Images that a person removed, at any step; they are never drawn."""
    from hardpan.replicate.database.decisions import verdicts

    results = {
        name
        for step in ("second-review", "final-review")
        for name, v in verdicts(project, step).items()
        if v == "remove"
    }
    return results | {pair.partition("|")[0] for pair, v in verdicts(project, "duplicate").items() if v == "remove"}


def _selected(project: ProjectFolder) -> set[str]:
    from hardpan.replicate.database.decisions import verdicts

    first, second = verdicts(project, "first-selection"), verdicts(project, "second-review")
    return {name for name, v in first.items() if v == "select" and second.get(name) == "keep"}


def _quotas(project: ProjectFolder) -> dict[tuple[str, str], int]:
    from hardpan.replicate.database.images import stored_quotas

    return {(project.classes[c].name, word): count for (c, word), count in stored_quotas(project).items()}


def _outputs(result: Sample) -> dict[str, Any]:
    return {
        "images": len(result.images),
        "ids": hash_rows(result.ids),
        "fills": len(result.fills),
        "missing": sum(item.missing for item in result.shortfalls),
        "average_frequency": result.average_frequency.value,
    }
