"""Options that say how DATA is read: the same in every command that takes a dataset."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hardpan.cli.options import Flags

if TYPE_CHECKING:
    from hardpan.data import Dataset

DATA_HELP = "A dataset: name (digits, mnist, ...), file or folder."


@dataclass(frozen=True, slots=True)
class DataFlags:
    """How a dataset is read; a command gets these options by :func:`hardpan.cli.decorators.spread`.

    Attributes:
        label: table: column with the labels.
        id: table: column with the ids of the examples.
        text: table: column with the texts; can be repeated.
        group: table: column with groups; it is not used as a feature.
        columns: table: column with a role, such as split=part; can be repeated.
        features: table: use only these columns.
        drop: table: ignore these columns.
        class_names: class names, or a text file with one name per line.
        resize: images: resize to this width and height in pixels.
        name: name of the dataset in the report.
    """

    label: str | None = None
    id: str | None = None
    text: tuple[str, ...] = ()
    group: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    resize: int | None = None
    name: str | None = None

    def options(self) -> dict[str, Any]:
        """The options that were set, as arguments of ``Dataset.open``."""
        names = [item.name for item in dataclasses.fields(self)]
        options = {name: value for name in names if (value := getattr(self, name)) not in (None, (), {})}
        if len(self.class_names) == 1 and Path(self.class_names[0]).exists():
            options["class_names"] = self.class_names[0]
        return options

    def open(self, source: str) -> Dataset:
        """The dataset, read as the options say."""
        from hardpan.data import Dataset

        return Dataset.open(source, **self.options())

    def optional(self, source: str) -> Dataset | None:
        """The dataset; None if none is named."""
        return self.open(source) if source else None

    def apply(self, source: str) -> str | Dataset:
        """The source itself where no option is set (workers read it again by its name), else the opened dataset."""
        return self.open(source) if self.options() else source


DATA_FLAGS = DataFlags()
Reading = Annotated[
    DataFlags, Flags(only=("label", "id", "text", "group", "columns"), names={"columns": "--column"})
]
