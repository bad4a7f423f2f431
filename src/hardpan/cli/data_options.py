"""Options that say how DATA is read: the same in every command that takes a dataset."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from hardpan.data import Dataset

_PANEL = "How DATA is read"
_OPTIONS = ("label", "features", "drop", "id", "split_column", "groups", "class_names", "resize", "name")
Label = Annotated[
    str | None,
    typer.Option("--label", metavar="COLUMN", help="Table: the column of classes.", rich_help_panel=_PANEL),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        "--features",
        metavar="COLUMN",
        help="Table: use only these columns, separated by commas; repeat it.",
        rich_help_panel=_PANEL,
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        "--drop",
        metavar="COLUMN",
        help="Table: leave these columns out, separated by commas; repeat it.",
        rich_help_panel=_PANEL,
    ),
]
Id = Annotated[
    str | None, typer.Option("--id", metavar="COLUMN", help="Table: the column of ids.", rich_help_panel=_PANEL)
]
SplitColumn = Annotated[
    str | None,
    typer.Option(
        "--split-column",
        metavar="COLUMN",
        help="Table: the column with train, validation and test.",
        rich_help_panel=_PANEL,
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        "--groups",
        metavar="COLUMN",
        help="Table: a column of groups, kept but not used as a feature.",
        rich_help_panel=_PANEL,
    ),
]
ClassNames = Annotated[
    str | None,
    typer.Option(
        "--class-names",
        metavar="NAMES",
        help="Names of the classes, separated by commas, or a text file with one per line.",
        rich_help_panel=_PANEL,
    ),
]
Resize = Annotated[
    int | None,
    typer.Option(
        "--resize", metavar="PIXELS", help="Images: make them this wide and high.", rich_help_panel=_PANEL
    ),
]
Name = Annotated[str | None, typer.Option("--name", help="What to call the dataset.", rich_help_panel=_PANEL)]


@dataclass(frozen=True, slots=True)
class DataFlags:
    """How a dataset is read; a command gets these options by :func:`hardpan.cli.options.spread`."""

    label: Label = None
    features: Features = None
    drop: Drop = None
    id: Id = None
    split_column: SplitColumn = None
    class_names: ClassNames = None
    resize: Resize = None
    name: Name = None

    def given(self) -> dict[str, Any]:
        """The options that were set, as arguments of ``Dataset.open``."""
        options: dict[str, Any] = {}
        for name in _OPTIONS:
            value = getattr(self, name, None)
            if value is None:
                continue
            if name in ("features", "drop"):
                value = tuple(column.strip() for text in value for column in text.split(","))
            elif name == "class_names" and "," not in value and not Path(value).exists():
                value = (value,)
            options[name] = value
        return options

    def open(self, source: str, **more: Any) -> Dataset:
        """The dataset, read as the options say."""
        from hardpan.data import Dataset

        return Dataset.open(source, **self.given() | more)

    def apply(self, source: str) -> str | Dataset:
        """The source itself where no option is set (workers read it again by its name), else the opened dataset."""
        return self.open(source) if self.given() else source

    def other(self, source: str | None) -> str | Dataset | None:
        """A second dataset that is read like the first, under its own name."""
        return None if source is None else dataclasses.replace(self, name=None).apply(source)


@dataclass(frozen=True, slots=True)
class GroupedDataFlags(DataFlags):
    """The same, and a column of groups."""

    groups: Groups = None


DATA_FLAGS = DataFlags()
GROUPED_DATA_FLAGS = GroupedDataFlags()
