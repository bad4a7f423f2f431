"""Assembly: the set as files with ids, a datasheet and the lineage."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hardpan
from hardpan import files, tables
from hardpan.arguments import clean_text
from hardpan.errors import InputError, few
from hardpan.execution import Progress
from hardpan.execution.mapping import no_progress
from hardpan.files import file_hash, record
from hardpan.replicate import database
from hardpan.replicate.documents import UNREVIEWED, DatasheetFacts, datasheet_text
from hardpan.replicate.duplicates import were_duplicates_found
from hardpan.replicate.examples import Pictures, Texts
from hardpan.replicate.folder import ProjectFolder, hash_project_rows
from hardpan.replicate.project_sample import current_project_sample, project_sample_problems
from hardpan.replicate.sampling import Sample
from hardpan.report import Report
from hardpan.tables import rows_to_columns

INDEX_COLUMNS = ("id", "class", "subclass", "frequency", "votes", "fill", "source", "date", "sha256")


@record
class Lineage:
    """What the frozen set is: its images, its files by hash, and the step that ends the log.

    Attributes:
        name: of the set.
        images: how many.
        per_class: images by class name.
        files: path under ``set/`` to sha256.
        sample: sha256 over the ids, in their order.
        log: sha256 of the last step before assembly.
        version: of hardpan.
    """

    name: str
    images: int
    per_class: dict[str, int]
    files: dict[str, str]
    sample: str
    log: str
    version: str


@record(kind="Assembled")
class AssembledSet(Report):
    """What :func:`assemble` returns.

    Attributes:
        folder: of the set.
        lineage: its images, files and hashes.
        unreviewed_pairs: possible near-duplicates that nobody has reviewed.
        without_final_review: images that nobody looked at in the final review.
        sample: what was assembled; None if the set was frozen before (not in the JSON).
    """

    folder: str
    lineage: Lineage
    unreviewed_pairs: int = 0
    without_final_review: int = 0
    sample: Sample | None = field(default=None, repr=False, metadata=files.TRANSIENT)


def assemble(
    project: ProjectFolder,
    *,
    author: str = "",
    license_: str = "",
    unreviewed_ok: bool = False,
    progress: Progress = no_progress,
) -> AssembledSet:
    """Write the set to ``PROJECT/set`` and freeze it; the same call again changes nothing.

    Args:
        project: a project with a sample that has no empty place.
        author: who publishes the set, for the datasheet.
        license_: licence of the set, for the datasheet, such as CC-BY-4.0.
        unreviewed_ok: accept possible near-duplicates that were not reviewed; the datasheet lists them.
        progress: called with the step and the fraction done.
    """
    target = project.root / "set"
    settings = {"author": author, "license": license_, "unreviewed_ok": unreviewed_ok}
    if project.frozen:
        result = AssembledSet(str(target), files.load(target / "lineage.json"))
        if not project.steps("assemble"):  # stopped just after the files
            _record_assembly(project, result.lineage, settings)
        return result
    progress("checking the sample", 0.0)
    sample = current_project_sample(project)
    waiting = database.undecided_pairs(project)
    _check_sample(project, sample, waiting, unreviewed_ok)
    unseen = len(database.undecided_images(project, "final-review"))
    fresh = project.root / ".set"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    progress("writing the files", 0.3)
    _write_assembled_examples(fresh, project, sample)
    if waiting:
        rows = [(p.image_id, p.other_id, p.other_split, round(p.ssim, 4), round(p.l2, 3)) for p in waiting]
        columns = rows_to_columns(("id", "other", "other_split", "ssim", "l2"), rows)
        if isinstance(project.kind, Texts):
            columns = {"similarity" if name == "ssim" else name: columns[name] for name in list(columns)[:4]}
        files.write_text(fresh / UNREVIEWED, tables.csv_text(columns))
    facts = DatasheetFacts(project, sample, clean_text(author), clean_text(license_), unseen, waiting)
    files.write_text(fresh / "DATASHEET.md", datasheet_text(facts))
    progress("describing and hashing them", 0.8)
    hashes = _assembled_file_hashes(fresh)
    sizes = {name: (fresh / name).stat().st_size for name in hashes}
    files.write_text(fresh / "croissant.json", files.json_text(facts.croissant(hashes, sizes)) + "\n")
    lineage = Lineage(
        project.config.name,
        len(sample.images),
        facts.per_class,
        _assembled_file_hashes(fresh),
        hash_project_rows(sample.ids),
        project.last_step_hash(),
        hardpan.__version__,
    )
    files.save(lineage, fresh / "lineage.json")
    shutil.rmtree(target, ignore_errors=True)
    fresh.replace(target)  # whole or not at all: without lineage.json it is not frozen
    files.sync_folder(project.root)
    _record_assembly(project, lineage, settings)
    return AssembledSet(str(target), lineage, len(waiting), unseen, sample)


def _assembled_arrays(project: ProjectFolder, sample: Sample) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Texts, or pixels in the size of the originals, and class numbers, in the order of the sample."""
    x = project.kind.stacked(project.example(image.id, None) for image in sample.images)
    return x, np.array([project.config.class_index(image.class_name) for image in sample.images], dtype=np.int64)


def _check_sample(
    project: ProjectFolder, sample: Sample, waiting: Sequence[database.UndecidedPair], unreviewed_ok: bool
) -> None:
    """Refuse a sample that lacks images, cannot be replayed, or was not compared with the originals."""
    missing = sum(item.missing for item in sample.shortfalls)
    if missing or not sample.images:
        classes = few(sorted({item.class_name for item in sample.shortfalls}))
        raise InputError(
            f"the sample lacks {missing} {project.kind.noun}s (of {classes}); add candidates or votes, sample again"
        )
    changed = project_sample_problems(project)
    if changed:
        raise InputError(
            f"the sample cannot be replayed ({changed[0]}), as after other quotas of keywords were made; draw it "
            f"again with: hardpan replicate sample {project.root}"
        )
    if not were_duplicates_found(project, sample):
        raise InputError(
            f"the sample has not been compared with the originals; run: hardpan replicate duplicates {project.root}"
        )
    if waiting and not unreviewed_ok:
        raise InputError(
            f"{len(waiting):,} pairs of possible near-duplicates wait for review (similarity of at most "
            f"{waiting[0].ssim:.2f}); review them with: hardpan replicate serve {project.root}, or give "
            "--unreviewed-ok to freeze the set with them listed"
        )


def _write_assembled_examples(folder: Path, project: ProjectFolder, sample: Sample) -> None:
    """Images as data.npz and as files by class, or texts as data.parquet, and index.csv."""
    names = project.class_names
    x, y = _assembled_arrays(project, sample)
    if isinstance(project.kind, Texts):
        columns = {"id": list(sample.ids), "text": x.tolist(), "label": [names[label] for label in y]}
        tables.write_table(folder / "data.parquet", columns)
    else:
        np.savez_compressed(folder / "data.npz", x=x, y=y, ids=np.array(sample.ids), class_names=np.array(names))
    known = {row.id: row for row in database.stored_images(project, "candidate")}
    rows = []
    for image, example, label in zip(sample.images, x, y.tolist(), strict=True):
        if isinstance(project.kind, Pictures):
            class_folder = folder / "images" / _class_folder_name(label, names[label])
            class_folder.mkdir(parents=True, exist_ok=True)
            project.kind.write(class_folder / f"{image.id}.png", example)
        row: Any = known[image.id]
        votes = "" if image.votes < 0 else image.votes
        values = (image.id, image.class_name, image.subclass, image.frequency, votes, image.fill)
        rows.append((*values, row.source, row.date or "", project.kind.digest(example)))
    files.write_text(folder / "index.csv", tables.csv_text(rows_to_columns(INDEX_COLUMNS, rows)))


def _class_folder_name(number: int, name: str) -> str:
    """A class name as a folder: what could lead elsewhere or is not allowed somewhere becomes an underscore."""
    plain = "".join(c if c.isalnum() or c in "-_ " else "_" for c in name).strip() or "class"
    return f"{number:04d} {plain[:80]}"


def _assembled_file_hashes(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): file_hash(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def _record_assembly(project: ProjectFolder, lineage: Lineage, settings: Mapping[str, Any]) -> None:
    project.record_step(
        "assemble",
        parameters=settings,
        outputs={"lineage": file_hash(project.root / "set" / "lineage.json"), "images": lineage.images},
    )
    database.add_event(project, "owner", "assembled", images=lineage.images, sample=lineage.sample)


def assembled_set_problems(project: ProjectFolder) -> list[str]:
    """Compare the frozen set, if there is one, with its lineage, the sample and the log; name what does not fit."""
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
    sample = current_project_sample(project)
    if hash_project_rows(sample.ids) != lineage.sample:
        problems.append(f"the frozen set holds other {project.kind.noun}s than the sample")
    if not problems:
        x, y = _assembled_arrays(project, sample)
        if isinstance(project.kind, Texts):
            columns = tables.read_columns(folder / "data.parquet")
            same = columns["text"] == x.tolist() and columns["label"] == [project.class_names[label] for label in y]
        else:
            with np.load(folder / "data.npz", allow_pickle=False) as stored:
                same = np.array_equal(stored["x"], x) and np.array_equal(stored["y"], y)
        if not same:
            problems.append(f"the {project.kind.noun}s differ from those of the pool")
    made = project.steps("assemble")
    if not made:
        problems.append(
            "the log has no step 'assemble', as after a stop just behind the files; write it with: "
            f"hardpan replicate assemble {project.root}"
        )
    elif made[-1].outputs["lineage"] != file_hash(folder / "lineage.json"):
        problems.append("lineage.json is not the one that the log of steps names")
    return problems
