"""The base of every result that people look at."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardpan import files, tables
from hardpan.report.files import Content, write_together
from hardpan.report.sections import Chart, Problem, Provenance, Section, Tile

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class View:
    """What a result says and shows: made by ``view(result)`` in a module of ``hardpan.pages``.

    Attributes:
        title: name of the page.
        headline: the one sentence to take away; it states a decision.
        sections: the rest, in order; the terminal shows the sentences and tables of the first ones.
        lede: a few sentences under the headline.
        tiles: numbers under the headline.
        provenance: how the result was computed.
        columns: what ``to_frame`` returns: equally long columns by name.
        name: what the report is about (the name of a dataset), first in the line above the headline.
        size: how large that is: "1,797 images, 10 classes".
        problems: worst first, beside the headline's picture.
        hero: the picture of the first screen: one chart, or two small ones.
        links: files beside the page and addresses, by the words of the link.
        terminal: the sections that a terminal shows under headline, problems and tiles; None for all of them.
        downloads: further files that ``save`` writes beside the page, by name.
    """

    title: str
    headline: str
    sections: tuple[Section, ...] = ()
    lede: tuple[str, ...] = ()
    tiles: tuple[Tile, ...] = ()
    provenance: Provenance | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    size: str = ""
    problems: tuple[Problem, ...] = ()
    hero: tuple[Chart, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    terminal: tuple[Section, ...] | None = None
    downloads: Mapping[str, Content] = field(default_factory=dict)


class Report:
    """A result with a headline, sections, a page, a notebook view, a terminal view, a frame and JSON.

    A subclass is a frozen dataclass of numbers without sentences, registered with :func:`hardpan.files.record`.
    A module of :mod:`hardpan.pages` has ``view(result) -> View``, dispatched by type
    (:func:`functools.singledispatch`); it is imported when it is first needed.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__repr__" not in cls.__dict__:  # a dataclass keeps the one that it finds
            cls.__repr__ = Report.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.headline})"

    def view(self) -> View:
        """What the result says and shows."""
        made: View = _page_module(type(self).__module__).view(self)
        return made

    @property
    def headline(self) -> str:
        """The main finding in one sentence."""
        return self.view().headline

    def sections(self) -> tuple[Section, ...]:
        """The sections of the report, in order."""
        return self.view().sections

    def provenance(self) -> Provenance | None:
        """How the result was computed."""
        return self.view().provenance

    def to_html(self, *, command: str = "", date: str = "") -> str:
        """The report as one self-contained HTML file.

        Args:
            command: the command that computes it again, for the line above the headline.
            date: the day it was computed, likewise.
        """
        from hardpan.report.writer import view_page  # the drawing library is imported when a page is first written

        view = self.view()
        provenance = view.provenance or Provenance()
        if command and not provenance.command:
            provenance = dataclasses.replace(provenance, command=command)
        return view_page(dataclasses.replace(view, provenance=provenance), date=date)

    def to_json(self) -> str:
        """The result as JSON text; :func:`hardpan.files.from_json` reads it back."""
        return files.dumps(files.to_json(self))

    def to_frame(self, kind: str | None = None) -> Any:
        """The numbers as a data frame: pandas if installed, else polars, else a pyarrow Table; ``kind`` chooses."""
        return tables.to_frame(self.view().columns, kind)

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        command: str = "",
        extra: Mapping[str, Content] | None = None,
    ) -> Path:
        """Write index.html, report.json and config.json (where there are settings), all or none.

        Args:
            folder: where to; created if missing.
            command: the command that makes the report again, for the page.
            extra: further files by name (:func:`hardpan.report.files.write_together`).

        Returns:
            The path of the page.
        """
        target = files.as_path("folder", folder)
        contents: dict[str, Content] = {**self.view().downloads, **(extra or {})}
        contents["index.html"] = self.to_html(command=command, date=_today())
        config = getattr(self, "config", None)
        if config is not None:
            contents["config.json"] = files.dumps(files.to_json(config)) + "\n"
        write_together(target, contents | {"report.json": self.to_json() + "\n"})
        return target / "index.html"

    def _repr_html_(self) -> str:
        from hardpan.report.notebook import first_screen

        return first_screen(self.view())

    def __rich__(self) -> RenderableType:
        from hardpan.report.terminal import render

        return render(self.view())


def _today() -> str:
    """The day in UTC; SOURCE_DATE_EPOCH (seconds) fixes it for builds that have to be equal to the byte."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    now = (
        datetime.datetime.fromtimestamp(int(seconds), datetime.UTC)
        if seconds
        else datetime.datetime.now(datetime.UTC)
    )
    return now.date().isoformat()


def _page_module(module: str) -> Any:
    """The module of :mod:`hardpan.pages` that is named like the innermost package of a result's module."""
    package = module.split(".")[-2]
    return importlib.import_module(f"hardpan.pages.{package}")
