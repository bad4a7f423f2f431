"""Options that say how DATA is read: the same in every command that takes a dataset."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from hardpan.data import Dataset

DATA_HELP = "A dataset: name (digits, mnist, ...), file or folder."
_OPTIONS = ("label", "features", "drop", "id", "split_column", "group", "class_names", "resize", "name")


def _option(flag: str, text: str, metavar: str | None = "COLUMN") -> Any:
    return typer.Option(flag, metavar=metavar, help=text, rich_help_panel="How DATA is read")


@dataclass(frozen=True, slots=True)
class DataFlags:
    """How a dataset is read; a command gets these options by :func:`hardpan.cli.options.spread`."""

    label: Annotated[str | None, _option("--label", "Table: column with the labels.")] = None
    features: Annotated[
        list[str] | None,
        _option("--features", "Table: use only these columns, separated by commas; can be repeated."),
    ] = None
    drop: Annotated[
        list[str] | None, _option("--drop", "Table: ignore these columns, separated by commas; can be repeated.")
    ] = None
    id: Annotated[str | None, _option("--id", "Table: column with the ids of the examples.")] = None
    split_column: Annotated[
        str | None, _option("--split-column", "Table: column with the split (train, validation, test).")
    ] = None
    class_names: Annotated[
        str | None,
        _option(
            "--class-names", "Class names, separated by commas, or a text file with one name per line.", "NAMES"
        ),
    ] = None
    resize: Annotated[int | None, _option("--resize", "Images: resize to this width and height.", "PIXELS")] = None
    name: Annotated[str | None, _option("--name", "Name of the dataset in the report.", "NAME")] = None

    def options(self) -> dict[str, Any]:
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
            if name == "split_column":
                name, value = "columns", {"split": value}
            options[name] = value
        return options

    def open(self, source: str, **more: Any) -> Dataset:
        """The dataset, read as the options say."""
        from hardpan.data import Dataset

        return Dataset.open(source, **self.options() | more)

    def apply(self, source: str) -> str | Dataset:
        """The source itself where no option is set (workers read it again by its name), else the opened dataset."""
        return self.open(source) if self.options() else source

    def other(self, source: str | None) -> str | Dataset | None:
        """A second dataset that is read like the first, under its own name."""
        return None if source is None else dataclasses.replace(self, name=None).apply(source)


@dataclass(frozen=True, slots=True)
class GroupedDataFlags(DataFlags):
    """The same, and a column of groups."""

    group: Annotated[str | None, _option("--group", "Table: column with groups; it is not used as a feature.")] = (
        None
    )


DATA_FLAGS = DataFlags()
GROUPED_DATA_FLAGS = GroupedDataFlags()
