"""The state of a project, and the next command."""

from __future__ import annotations

from dataclasses import replace

from hardpan.errors import InputError
from hardpan.files import record
from hardpan.replicate.folder import ProjectFolder
from hardpan.replicate.samples import current_sample
from hardpan.replicate.steps import hash_rows, read_steps
from hardpan.report.base import Report


@record
class ProjectStatus(Report):
    """Counts of everything, and the next command.

    Attributes:
        name: of the project.
        classes: how many.
        originals: images of the original data.
        candidates: images in the pool.
        keywords_short: keywords whose selections do not reach their quota.
        tasks: grid tasks, of which ``tasks_complete`` have all their workers.
        tasks_complete: see tasks.
        votes: counted.
        workers: who voted.
        sample: images in the sample, of which ``sample_missing`` places are empty.
        sample_missing: see sample.
        pairs_waiting: possible near-duplicates to review.
        reviews_waiting: images without a final review.
        frozen: whether the set is assembled.
        steps: how many are in the log.
        next: what to do next, in words or as a command.
    """

    name: str
    classes: int
    originals: int
    candidates: int
    keywords_short: int
    tasks: int
    tasks_complete: int
    votes: int
    workers: int
    sample: int
    sample_missing: int
    pairs_waiting: int
    reviews_waiting: int
    frozen: bool
    steps: int
    next: str


def project_status(project: ProjectFolder) -> ProjectStatus:
    """The state of a project."""
    from hardpan.replicate.database.decisions import duplicate_queue, final_review_queue, keywords
    from hardpan.replicate.database.images import count_images
    from hardpan.replicate.database.votes import coverage, vote_totals

    counts, covered = count_images(project), coverage(project)
    votes, workers = vote_totals(project)
    images = missing = 0
    compared = False
    steps = read_steps(project)
    try:
        sample = current_sample(project)
        images, missing = len(sample.images), sum(item.missing for item in sample.shortfalls)
        searches = [step for step in steps if step.name == "duplicates"]
        compared = bool(searches) and searches[-1].outputs["images"] == hash_rows(sample.ids)
    except InputError:
        pass
    status = ProjectStatus(
        project.config.name,
        len(project.classes),
        counts.get("original", 0),
        counts.get("candidate", 0),
        sum(item.short > 0 for item in keywords(project)),
        sum(row.tasks for row in covered),
        sum(row.complete for row in covered),
        votes,
        workers,
        images,
        missing,
        len(duplicate_queue(project, most=10**9)),
        len(final_review_queue(project, most=10**9)),
        project.frozen,
        len(steps),
        "",
    )
    return replace(status, next=_next(project, status, compared))


def _next(project: ProjectFolder, status: ProjectStatus, compared: bool) -> str:
    command = f"hardpan replicate {{}} {project.root}"
    if status.frozen:
        return command.format("verify")
    if not status.candidates:
        return command.format("add") + " SOURCE"
    if not status.tasks and not status.sample:
        return command.format("tasks")
    if status.tasks_complete < status.tasks and not status.sample:
        return f"{status.tasks - status.tasks_complete} tasks are open: " + command.format("serve")
    if not status.sample or status.sample_missing:
        return command.format("sample")
    if not compared:
        return command.format("duplicates")
    if status.pairs_waiting:
        return f"{status.pairs_waiting} pairs wait for review: " + command.format("serve")
    return command.format("assemble")
