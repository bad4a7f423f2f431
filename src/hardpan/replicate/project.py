"""A project: building a new test set in the same way as an existing one, from candidates to a frozen set."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import arguments, files, tables
from hardpan.arguments import clean_text, real_number, whole_number
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError, MissingExtra, few
from hardpan.execution import Progress
from hardpan.execution.mapping import no_progress
from hardpan.files import record
from hardpan.replicate import (
    assembly,
    database,
    duplicates,
    experiment,
    folder,
    pool,
    project_sample,
    quality,
    task_planning,
)
from hardpan.replicate.folder import ProjectConfig, ProjectFolder, TargetClass, hash_project_rows
from hardpan.replicate.quality import AnnotationQuality
from hardpan.report import Report

DATABASE_VARIABLE = "HARDPAN_DATABASE_URL"
KEYWORD_COLUMNS = ("keyword", "sub_class", "subclass")


@files.record
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
        quality: workers on the controls, agreement and average frequencies; None before there are votes.
        votes_imported: votes that this call imported, and ``votes_known`` that had been imported before.
        votes_known: see votes_imported.
    """

    HEADLINE = "{name}. Next: {next}"

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
    quality: AnnotationQuality | None = None
    votes_imported: int = 0
    votes_known: int = 0


@record(kind="Verified")
class VerifiedProject(Report):
    """What :meth:`Project.verify` found: the number of problems of every check, and each problem."""

    ok: bool
    checks: Mapping[str, int]
    problems: tuple[str, ...]


class Project(ProjectFolder):
    """A project on disk; :meth:`create` makes one, :meth:`open` opens it.

    Every method runs in one transaction of its own, is safe from many threads and processes at once, and may be
    called again after an interruption.

    Example:
        >>> import tempfile
        >>> from hardpan.replicate import simulate
        >>> project = simulate.demo_project(tempfile.mkdtemp() + "/new-digits", workers_per_image=2)
        >>> project.status().candidates, project.status().tasks > 0
        (797, True)
        >>> project.close()
    """

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        original: str | os.PathLike[str] | Dataset,
        classes: str | os.PathLike[str] | Sequence[TargetClass] | None = None,
        *,
        name: str = "",
        database_url: str = "",
        **settings: Any,
    ) -> Project:
        """Make a project, or open the one that the same call made before.

        Args:
            path: a new folder.
            original: the data whose test set is rebuilt: a name, file or folder for ``Dataset.open``, or a dataset.
            classes: a CSV file (class, definition, link, nearby) or the classes themselves; default: the dataset's
                names.
            name: name of the new test set.
            database_url: address of a PostgreSQL database of its own; default: SQLite in the project's folder.
            settings: further fields of :class:`ProjectConfig` (grid, workers_per_image, ...).
        """
        root = arguments.as_path("path", path)
        dataset = original if isinstance(original, Dataset) else Dataset.open(original)
        originals = project_originals(dataset)
        if dataset.labels is None:
            raise InputError(f"{dataset.name} has no labels; the original set needs them")
        split = [] if dataset.split is None else dataset.split.tolist()
        config = ProjectConfig(
            name=clean_text(name) or f"{dataset.name}-new",
            original=dataset.source or dataset.name,
            original_hash=_hash_project_originals(originals, dataset.labels.tolist(), dataset.ids.tolist(), split),
            classes=_project_classes(classes, dataset),
            shape=tuple(int(size) for size in originals.shape[1:]),
            **settings,
        )
        _check_project_config(config)
        if (root / "project.json").exists():
            project = cls.open(root, database_url=database_url)
            if files.to_json(project.config) != files.to_json(config):
                raise InputError(
                    f"{root} is a project with other settings; give a new folder, or the same settings"
                )
            return project
        if root.exists() and any(root.iterdir()) and not (root / "local.json").exists():
            raise InputError(f"{root} holds other files; give a new folder for the project")
        new = not root.exists()
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        (root / "original").mkdir(exist_ok=True)
        local = folder.new_project_secrets(database_url)
        folder.write_project_secrets(root, local)
        project = cls(root, config, local)
        project.kind.write_originals(root / "original" / project.kind.originals, originals)
        try:
            _store_project_originals(project, dataset, originals)
        except BaseException as error:
            project.close()
            if new and isinstance(error, InputError):  # such as a database that cannot be reached
                shutil.rmtree(root)
            raise
        project.record_step(
            "init",
            inputs={"original": config.original_hash},
            parameters=asdict(config),
            seed=config.seed,
            outputs={"originals": len(dataset)},
        )
        files.save(config, root / "project.json")  # last: a folder without settings is no project
        return project

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, database_url: str = "") -> Project:
        """Open a project.

        Args:
            path: the project's folder.
            database_url: address of another database than the one it was made with; default:
                ``HARDPAN_DATABASE_URL``.
        """
        root = arguments.as_path("path", path)
        if not (root / "project.json").is_file():
            raise InputError(
                f"{root} is not a project; create one with: hardpan replicate init {root} --original DATA"
            )
        config = files.load(root / "project.json")
        if not isinstance(config, ProjectConfig):
            raise InputError(
                f"{root / 'project.json'} holds {type(config).__name__}, not the settings of a project"
            )
        local = folder.read_project_secrets(root)
        address = database_url or os.environ.get(DATABASE_VARIABLE, "")
        return cls(root, config, local | ({"database_url": address} if address else {}))

    # The pool and the tasks
    add_candidates = pool.add_candidates
    make_tasks = task_planning.make_tasks

    # Votes
    import_votes = quality.import_votes
    quality = quality.annotation_quality

    # The sample
    sample = project_sample.draw_project_sample
    current_sample = project_sample.current_project_sample
    find_duplicates = duplicates.find_duplicates

    # The set
    assemble = assembly.assemble
    begin_experiment = experiment.begin_experiment
    experiment_results = experiment.experiment_results

    def status(
        self,
        *,
        import_votes: str | os.PathLike[str] | None = None,
        export_votes: str | os.PathLike[str] | None = None,
        frequencies: str | os.PathLike[str] | None = None,
    ) -> ProjectStatus:
        """The state of the project, its votes and the next command.

        Args:
            import_votes: add the votes of this CSV or Parquet file, with columns image_id, class, worker, selected.
            export_votes: write every vote to this .csv or .parquet file.
            frequencies: write the selection frequency of every image to this .csv or .parquet file.
        """
        new, known = (0, 0) if import_votes is None else self.import_votes(import_votes)
        if export_votes is not None:
            tables.write_table(export_votes, quality.annotation_vote_columns(self))
        if frequencies is not None:
            tables.write_table(frequencies, self.quality().frequency_columns(self.class_names))
        counts, covered = database.count_images(self), database.task_coverage(self)
        votes, workers = database.vote_totals(self)
        images = missing = 0
        compared = False
        if (self.root / "sample.json").exists():
            sample = self.current_sample()
            images, missing = len(sample.images), sum(item.missing for item in sample.shortfalls)
            removed = database.removed_by_decisions(self) & set(sample.ids)
            compared = duplicates.were_duplicates_found(self, sample) and not removed
        status = ProjectStatus(
            self.config.name,
            len(self.classes),
            counts.get("original", 0),
            counts.get("candidate", 0),
            sum(item.short > 0 for item in database.keyword_states(self)),
            sum(row.tasks for row in covered),
            sum(row.complete for row in covered),
            votes,
            workers,
            images,
            missing,
            len(database.undecided_pairs(self)),
            len(database.undecided_images(self, "final-review")),
            self.frozen,
            len(self.steps()),
            "",
            self.quality() if votes else None,
            new,
            known,
        )
        return replace(status, next=_next_project_command(status, self.root, compared))

    def verify(self, *, progress: Progress = no_progress) -> VerifiedProject:
        """Check every link of the lineage by doing it again; nothing is changed."""
        check_functions: tuple[tuple[str, Callable[[ProjectFolder], list[str]]], ...] = (
            ("log of steps", _project_log_problems),
            ("original data", _project_original_problems),
            ("pool", pool.pool_problems),
            ("keyword quotas", pool.keyword_quota_problems),
            ("tasks", task_planning.planned_task_problems),
            ("sample", project_sample.project_sample_problems),
            ("assembled files", assembly.assembled_set_problems),
        )
        checks, problems = {}, []
        for number, (name, check) in enumerate(check_functions):
            progress(f"checking the {name}", number / len(check_functions))
            try:
                result = check(self)
            except InputError as error:
                result = [str(error)]
            checks[name] = len(result)
            problems += [f"{name}: {text}" for text in result]
        return VerifiedProject(not problems, checks, tuple(problems))

    def serve(
        self,
        *,
        port: int = 8000,
        host: str = "127.0.0.1",
        workers_expected: int = 100,
        address: str = "",
        trusted_proxy: str = "",
        new_owner_link: bool = False,
        json: bool = False,
    ) -> None:
        """Serve the annotation, review and owner's pages until Ctrl-C; prints the links to enter.

        Args:
            port: port to listen on; 0 takes any free port.
            host: address to listen on; 0.0.0.0 accepts other machines.
            workers_expected: number of annotators that the printed invitation admits.
            address: public address of the server, if a proxy is in front, such as https://label.example.org.
            trusted_proxy: IP address of that proxy; X-Forwarded-For is accepted only from it; default: from none.
            new_owner_link: make and print a new owner's link; the old one becomes invalid.
            json: print address and links as JSON on stdout, and nothing else.
        """
        try:
            from hardpan.web.annotation import serve
        except ModuleNotFoundError as error:
            raise MissingExtra(str(error.name), "web") from None
        whole_number("workers_expected", workers_expected, 1)
        serve(self, port, host, workers_expected, address, trusted_proxy, new_owner_link, json)


def _next_project_command(status: ProjectStatus, folder: Path, compared: bool) -> str:
    command = f"hardpan replicate {{}} {folder}"
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


def _project_log_problems(project: ProjectFolder) -> list[str]:
    steps = project.steps()
    return [] if steps and steps[0].name == "init" else ["it does not begin with init"]


def _project_original_problems(project: ProjectFolder) -> list[str]:
    rows = sorted(database.stored_images(project, "original"), key=lambda row: row.row)
    columns = [[row.class_index for row in rows], [row.id for row in rows], [row.split for row in rows]]
    digest = _hash_project_originals(project.originals, *columns)
    return [] if digest == project.config.original_hash else ["content, labels or ids differ from those of init"]


def _hash_project_originals(originals: NDArray[Any], labels: list[int], ids: list[str], split: list[str]) -> str:
    """Sha256 over the original data; ``split`` counts where an example has one."""
    content = originals.tolist() if originals.dtype == object else files.array_hash(np.asarray(originals))
    return hash_project_rows([content, labels, ids, split if any(split) else []])


def project_originals(dataset: Dataset) -> NDArray[Any]:
    """What people see of a dataset: texts, or 8-bit pixels; where no byte is above 127, scaled up to 255.

    Example:
        >>> project_originals(Dataset.open("digits")).max()
        np.uint8(255)
    """
    x = dataset.x
    if dataset.texts is not None:
        if x.shape[1]:
            raise InputError(
                f"{dataset.name} has columns beside the texts ({few(dataset.feature_names)}); people see the texts "
                "alone: leave these columns out of the table"
            )
        return np.array([text.strip() for text in dataset.texts], dtype=object)
    if x.ndim not in (3, 4) or (x.ndim == 4 and x.shape[-1] not in (1, 3)):
        raise InputError(f"{dataset.name} holds arrays of shape {x.shape[1:]}; images or texts are needed")
    x = x[..., 0] if x.ndim == 4 and x.shape[-1] == 1 else x
    if x.dtype == np.uint8 and x.max() >= 128:
        return np.ascontiguousarray(x)
    if float(x.min()) < 0:
        raise InputError(f"{dataset.name} has negative pixels; give images with values from 0 up")
    return np.asarray(np.round(x * (255.0 / max(float(x.max()), 1e-12))), dtype=np.uint8)


def _store_project_originals(project: ProjectFolder, dataset: Dataset, originals: NDArray[Any]) -> None:
    keyword = next((dataset.metadata[name] for name in KEYWORD_COLUMNS if name in dataset.metadata), None)
    labels = dataset.labels
    assert labels is not None
    height, width = originals.shape[1:3] or (0, 0)
    rows = [
        {
            "id": str(dataset.ids[row]),
            "kind": "original",
            "content": project.kind.digest(example)[:16],
            "class_index": int(labels[row]),
            "keyword": None if keyword is None else str(keyword[row]),
            "source": dataset.name,
            "split": "" if dataset.split is None else str(dataset.split[row]),
            "row": row,
            "width": width,
            "height": height,
        }
        for row, example in enumerate(originals)
    ]
    present = database.stored_images(project, "original")
    if present and {item.id for item in present} != {str(row["id"]) for row in rows}:
        raise InputError("the database holds another project already; give an empty one")
    database.add_images(project, rows)


def _project_classes(
    classes: str | os.PathLike[str] | Sequence[TargetClass] | None, dataset: Dataset
) -> tuple[TargetClass, ...]:
    if classes is None:
        return tuple(TargetClass(name) for name in dataset.class_names)
    listed = folder.read_project_classes(classes) if isinstance(classes, (str, os.PathLike)) else classes
    targets = [
        TargetClass(
            clean_text(item.name),
            clean_text(item.definition),
            clean_text(item.link),
            tuple(map(clean_text, item.nearby)),
        )
        for item in listed
    ]
    names = [item.name for item in targets]
    if sorted(names) != sorted(dataset.class_names):
        unmatched = sorted(set(names) ^ set(dataset.class_names)) or names
        raise InputError(
            f"must be those of {dataset.name}, each once ({', '.join(dataset.class_names[:12])}); "
            f"see {unmatched[0]!r}",
            argument="classes",
        )
    by_name = {item.name: item for item in targets}
    for item in targets:
        for other in item.nearby:
            if other not in by_name or other == item.name:
                raise InputError(f"class {item.name!r}: nearby {other!r} is not another class of the list")
    return tuple(by_name[name] for name in dataset.class_names)


def _check_project_config(config: ProjectConfig) -> None:
    for key in ("grid", "positives", "negatives", "workers_per_image", "originals_per_class"):
        whole_number(key, getattr(config, key), 1)
    if config.positives + config.negatives >= config.grid:
        raise InputError(
            f"must be larger than positives + negatives ({config.positives + config.negatives}); got {config.grid}",
            argument="grid",
        )
    real_number("lease_seconds", config.lease_seconds, "(0, inf)")
    if len(config.classes) < 2:
        raise InputError("a project needs at least two classes: negative controls come from another one")
