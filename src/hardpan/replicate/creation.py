"""Beginning a project: the original data, the classes, the database, the secrets."""

from __future__ import annotations

import csv
import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import files
from hardpan.data.dataset import Dataset, content_ids, content_of
from hardpan.errors import InputError
from hardpan.replicate.project import Project, ProjectConfig, TargetClass, new_secrets, open_project, write_secrets
from hardpan.replicate.steps import hash_rows, record_step

KEYWORD_COLUMNS = ("keyword", "sub_class", "subclass")


def create_project(
    path: str | os.PathLike[str],
    original: str | os.PathLike[str] | Dataset,
    classes: str | os.PathLike[str] | Sequence[TargetClass] | None = None,
    *,
    name: str = "",
    database_url: str = "",
    **settings: Any,
) -> tuple[Project, str]:
    """Make a project, or open the one that the same call made before.

    Args:
        path: a new folder.
        original: the data whose test set is rebuilt: a name, file or folder for ``Dataset.open``, or a dataset.
        classes: a CSV file (class, definition, link, nearby) or the classes themselves; else the dataset's names.
        name: what to call the new test set.
        database_url: address of a PostgreSQL database of its own; else SQLite in the project's folder.
        settings: further fields of :class:`ProjectConfig` (grid, workers_per_image, ...).

    Returns:
        The project and the owner's token, which is shown once: "" where the project was there already.
    """
    root = Path(path)
    dataset = original if isinstance(original, Dataset) else Dataset.open(original)
    pixels = as_pictures(dataset)
    if dataset.labels is None:
        raise InputError(f"{dataset.name} has no labels; the original set needs them")
    config = ProjectConfig(
        name=name or f"{dataset.name}-new",
        original=dataset.source or dataset.name,
        original_hash=_hash(dataset, pixels),
        classes=_classes(classes, dataset),
        shape=tuple(int(size) for size in pixels.shape[1:]),
        **settings,
    )
    _check(config)
    if (root / "project.json").exists():
        return _same_project(root, config, database_url), ""
    if root.exists() and any(root.iterdir()) and not (root / "local.json").exists():
        raise InputError(f"{root} holds other files; give a new folder for the project")
    new = not root.exists()
    (root / "original").mkdir(parents=True, exist_ok=True)
    local, token = new_secrets(database_url)
    write_secrets(root, local)
    project = Project(root, config, local)
    np.save(root / "original" / "x.npy", pixels)
    try:
        _store_originals(project, dataset, pixels)
    except BaseException as error:
        project.close()  # nobody else will
        if new and isinstance(error, InputError):  # such as a database that cannot be reached: as if never begun
            shutil.rmtree(root)
        raise
    record_step(
        project,
        "init",
        inputs={"original": config.original_hash},
        parameters=asdict(config),
        seed=config.seed,
        outputs={"originals": len(dataset)},
    )
    files.save(config, root / "project.json")  # last: what has no settings is no project
    return project, token


def read_classes(path: str | os.PathLike[str]) -> tuple[TargetClass, ...]:
    """Read classes from a CSV file with columns class, definition, link and nearby (names with ; between them)."""
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read ({error}); give a CSV file with a column 'class'") from error
    if not rows or not (rows[0].get("class") or "").strip():
        raise InputError(f"{path}: needs a column 'class' and a row a class; definition, link, nearby are optional")
    return tuple(
        TargetClass(
            (row.get("class") or "").strip(),
            (row.get("definition") or "").strip(),
            (row.get("link") or "").strip(),
            tuple(part.strip() for part in (row.get("nearby") or "").split(";") if part.strip()),
        )
        for row in rows
    )


def as_pictures(dataset: Dataset) -> NDArray[np.uint8]:
    """Images of a dataset as 8-bit pixels: as they are, or, where no byte is above 127, scaled up to 255.

    Example:
        >>> as_pictures(Dataset.open("digits")).max()
        np.uint8(255)
    """
    x = dataset.x
    if x.ndim not in (3, 4) or (x.ndim == 4 and x.shape[-1] not in (1, 3)):
        raise InputError(f"{dataset.name} holds arrays of shape {x.shape[1:]}; a test set of images is needed")
    x = x[..., 0] if x.ndim == 4 and x.shape[-1] == 1 else x
    if x.dtype == np.uint8 and x.max() >= 128:
        return np.ascontiguousarray(x)
    if float(x.min()) < 0:
        raise InputError(f"{dataset.name} has negative pixels; give images with values from 0 up")
    return np.asarray(np.round(x * (255.0 / max(float(x.max()), 1e-12))), dtype=np.uint8)


def _store_originals(project: Project, dataset: Dataset, pixels: NDArray[np.uint8]) -> None:
    from hardpan.replicate.database.images import add_images, stored_images

    keyword = next((dataset.metadata[name] for name in KEYWORD_COLUMNS if name in dataset.metadata), None)
    labels = dataset.labels
    assert labels is not None
    height, width = pixels.shape[1:3]
    rows = [
        {
            "id": str(dataset.ids[row]),
            "kind": "original",
            "content": content_of(str(content)),
            "class_index": int(labels[row]),
            "keyword": None if keyword is None else str(keyword[row]),
            "source": dataset.name,
            "split": "" if dataset.split is None else str(dataset.split[row]),
            "row": row,
            "width": width,
            "height": height,
        }
        for row, content in enumerate(content_ids(pixels))
    ]
    present = stored_images(project, "original")
    if present and {item.id for item in present} != {str(row["id"]) for row in rows}:
        raise InputError("the database holds another project already; give an empty one")
    add_images(project, rows)


def _same_project(root: Path, config: ProjectConfig, database_url: str) -> Project:
    project = open_project(root, database_url=database_url)
    if files.to_json(project.config) != files.to_json(config):
        raise InputError(f"{root} is a project with other settings; give a new folder, or the same settings")
    return project


def _classes(
    classes: str | os.PathLike[str] | Sequence[TargetClass] | None, dataset: Dataset
) -> tuple[TargetClass, ...]:
    if classes is None:
        return tuple(TargetClass(name) for name in dataset.class_names)
    given = read_classes(classes) if isinstance(classes, (str, os.PathLike)) else tuple(classes)
    names = [item.name for item in given]
    if sorted(names) != sorted(dataset.class_names):
        strange = sorted(set(names) ^ set(dataset.class_names)) or names
        raise InputError(
            f"classes must be those of {dataset.name}, each once ({', '.join(dataset.class_names[:12])}); "
            f"see {strange[0]!r}"
        )
    by_name = {item.name: item for item in given}
    for item in given:
        for other in item.nearby:
            if other not in by_name or other == item.name:
                raise InputError(f"class {item.name!r}: nearby {other!r} is not another class of the list")
    return tuple(replace(by_name[name]) for name in dataset.class_names)


def _check(config: ProjectConfig) -> None:
    for key in ("grid", "positives", "negatives", "workers_per_image", "originals_per_class"):
        value = getattr(config, key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{key} must be a whole number of at least 1; got {value!r}")
    if config.positives + config.negatives >= config.grid:
        raise InputError(
            f"grid must be larger than positives + negatives ({config.positives + config.negatives}); "
            f"got {config.grid}"
        )
    if not 0 < config.lease_seconds < math.inf:
        raise InputError(f"lease_seconds must be a finite number above 0; got {config.lease_seconds!r}")
    if len(config.classes) < 2:
        raise InputError("a project needs at least two classes: negative controls come from another one")


def _hash(dataset: Dataset, pixels: NDArray[np.uint8]) -> str:
    labels = dataset.labels if dataset.labels is not None else np.zeros(0)
    split = [] if dataset.split is None else dataset.split.tolist()
    return hash_rows([files.array_hash(pixels), labels.tolist(), dataset.ids.tolist(), split])
