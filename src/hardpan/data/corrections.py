"""Corrected labels and tags of examples, as ``hardpan browse`` writes them to corrections.csv.

Every command that takes a dataset applies them: ``hardpan audit digits@audits/digits/corrections.csv``.
"""

from __future__ import annotations

import dataclasses
import os

import numpy as np

from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.safe_files import existing_file, few
from hardpan.tables import read_columns, stored_cell

EXCLUDE = "exclude"
"""Examples with this tag are left out."""


def apply_corrections(dataset: Dataset, path: str | os.PathLike[str]) -> Dataset:
    """Replace labels by those in the column ``corrected_label`` and leave out examples tagged "exclude".

    Args:
        dataset: labelled examples.
        path: a CSV with the columns ``id`` and ``corrected_label`` (empty: the label stays), and optionally
            ``tags`` (separated by semicolons).

    Example:
        >>> import pathlib
        >>> import tempfile
        >>> digits = Dataset.open("digits")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "corrections.csv"
        ...     _ = path.write_text(f"id,corrected_label,tags\\n{digits.ids[0]},7,\\n{digits.ids[1]},,exclude\\n")
        ...     corrected = apply_corrections(digits, path)
        >>> len(digits), int(digits.labels[0]), len(corrected), int(corrected.labels[0])
        (1797, 0, 1796, 7)
    """
    if dataset.labels is None:
        raise InputError(f"{dataset.name}: has no labels to correct; give a labelled dataset")
    file = existing_file(path, "corrections")
    columns = read_columns(file, text=True, empty=True)
    if not {"id", "corrected_label"} <= set(columns):
        raise InputError(
            f": {file} needs the columns id and corrected_label; got {few(columns)}", argument="corrections"
        )
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    numbers = {name: number for number, name in enumerate(dataset.class_names)}
    positions = {str(name): row for row, name in enumerate(dataset.ids)}
    labels, keep = dataset.labels.copy(), np.ones(len(dataset), dtype=bool)
    for row in rows:
        name, label = stored_cell(row["id"]), stored_cell(row["corrected_label"])
        if name not in positions:
            raise InputError(
                f": {file} names example {name!r}, which is not in {dataset.name}", argument="corrections"
            )
        if label and label not in numbers:
            some = ", ".join(dataset.class_names[:20])
            raise InputError(
                f": {file} has the label {label!r}; classes of {dataset.name}: {some}", argument="corrections"
            )
        if label:
            labels[positions[name]] = numbers[label]
        if EXCLUDE in stored_cell(row.get("tags", "")).split(";"):
            keep[positions[name]] = False
    corrected = dataclasses.replace(dataset, labels=labels)
    return corrected if keep.all() else corrected.select(np.flatnonzero(keep))
