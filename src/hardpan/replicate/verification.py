"""Replay a project's lineage: from pixels, votes and seeds to the frozen files, and say what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hardpan import files
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.files import file_hash, record
from hardpan.replicate.assembly import Lineage, arrays
from hardpan.replicate.folder import ProjectFolder
from hardpan.replicate.pool import picture_id
from hardpan.replicate.samples import current_sample, sample_problems
from hardpan.replicate.steps import hash_originals, hash_rows, read_steps
from hardpan.replicate.subclasses import keyword_quotas
from hardpan.replicate.tasks import control_originals, hash_plan, original_uses, plan_tasks
from hardpan.report.base import Report


@record
class Verified(Report):
    """What :func:`verify` found: the number of problems of every check, and each problem."""

    ok: bool
    checks: Mapping[str, int]
    problems: tuple[str, ...]


def verify(project: ProjectFolder, *, progress: Progress | None = None) -> Verified:
    """Check every link of the lineage by doing it again; nothing is changed."""
    check_functions: tuple[tuple[str, Callable[[ProjectFolder], list[str]]], ...] = (
        ("log of steps", _log),
        ("original data", _originals),
        ("pool", _pool),
        ("keyword quotas", _quotas),
        ("tasks", _tasks),
        ("sample", _sample),
        ("assembled files", _files),
    )
    checks, problems = {}, []
    for number, (name, check) in enumerate(check_functions):
        if progress is not None:
            progress(f"checking the {name}", number / len(check_functions))
        try:
            result = check(project)
        except InputError as error:
            result = [str(error)]
        checks[name] = len(result)
        problems += [f"{name}: {text}" for text in result]
    return Verified(not problems, checks, tuple(problems))


def _log(project: ProjectFolder) -> list[str]:
    steps = read_steps(project)
    if not steps or steps[0].name != "init":
        return ["it does not begin with init"]
    return []


def _originals(project: ProjectFolder) -> list[str]:
    from hardpan.replicate.database.images import stored_images

    rows = sorted(stored_images(project, "original"), key=lambda row: row.row)
    pixels = np.asarray(project.original_pixels)
    digest = hash_originals(
        pixels, [row.class_index for row in rows], [row.id for row in rows], [row.split for row in rows]
    )
    return [] if digest == project.config.original_hash else ["pixels, labels or ids differ from those of init"]


def _pool(project: ProjectFolder) -> list[str]:
    from hardpan.replicate.database.images import stored_images

    problems = []
    for row in stored_images(project, "candidate"):
        try:
            result = picture_id(project.pixels(row.id, None))
        except (OSError, InputError, SyntaxError, ValueError) as error:
            problems.append(f"{row.id} cannot be read ({error})")
            continue
        if result != row.id:
            problems.append(f"{row.id} holds another picture ({result})")
    return problems


def _quotas(project: ProjectFolder) -> list[str]:
    from collections import Counter

    from hardpan.replicate.database.images import stored_images, stored_quotas

    made = [step for step in read_steps(project) if step.name == "subclasses"]
    if not made:
        return []
    settings = made[-1].parameters
    counts = [Counter[str]() for _ in project.classes]
    for row in stored_images(project, "original"):
        if row.keyword is not None and row.class_index is not None:
            counts[row.class_index][row.keyword] += 1
    again = {
        (c, word): quota
        for c, count in enumerate(counts)
        for word, quota in keyword_quotas(count, settings["per_class"], settings["top"]).items()
    }
    return [] if again == stored_quotas(project) else ["quotas are not those that the originals' keywords give"]


def _tasks(project: ProjectFolder) -> list[str]:
    from hardpan.replicate.database.images import stored_tasks

    problems = []
    originals = control_originals(project)
    for step in read_steps(project):
        if step.name != "tasks":
            continue
        batch = step.parameters["batch"]
        stored = stored_tasks(project, batch)
        candidates: dict[int, list[str]] = {}
        for task in stored:
            members = [name for name, role in task.images if role == "candidate"]
            candidates.setdefault(task.class_index, []).extend(members)
        nearby = {int(c): list(order) for c, order in step.parameters["nearby"].items()}
        used = original_uses(project, batch) if step.parameters.get("uses_counted") else None
        planned = plan_tasks(candidates, originals, nearby, project.config, batch=batch, used=used)
        if not hash_plan(planned) == hash_plan(stored) == step.outputs["plan"]:
            problems.append(f"batch {batch} differs from what its seed gives")
    return problems


def _sample(project: ProjectFolder) -> list[str]:
    if not (project.root / "sample.json").exists():
        return []
    return sample_problems(project)


def _files(project: ProjectFolder) -> list[str]:
    if not project.frozen:
        return []
    folder = project.root / "set"
    lineage: Any = files.load(folder / "lineage.json")
    if not isinstance(lineage, Lineage):
        return ["lineage.json holds something else"]
    problems = []
    for name, digest in lineage.files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
            problems.append(f"{name} is not there")
        elif file_hash(path) != digest:
            problems.append(f"{name} was changed")
    sample = current_sample(project)
    if hash_rows(sample.ids) != lineage.sample:
        problems.append("the frozen set holds other images than the sample")
    if "data.npz" in lineage.files and not problems:
        x, y = arrays(project, sample)
        with np.load(folder / "data.npz", allow_pickle=False) as stored:
            same = np.array_equal(stored["x"], x) and np.array_equal(stored["y"], y)
        if not same:
            problems.append("data.npz holds other pixels than the pool")
    made = [step for step in read_steps(project) if step.name == "assemble"]
    if not made or made[-1].outputs["lineage"] != file_hash(folder / "lineage.json"):
        problems.append("lineage.json is not the one that the log of steps names")
    return problems
