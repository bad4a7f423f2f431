"""The base of every result that people look at."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from hardpan import files, tables
from hardpan.files import Content
from hardpan.report import generic
from hardpan.report.sections import Provenance, Section, View

if TYPE_CHECKING:
    from rich.console import RenderableType


__all__ = ["Report", "View"]


class Report:
    """A result with a headline, sections, a page, a notebook view, a terminal view, a frame and JSON.

    A subclass is a frozen dataclass of numbers without sentences, registered with :func:`hardpan.files.record`.
    What it says is made from its fields and its ``HEADLINE`` (:mod:`hardpan.report.generic`). A module of
    :mod:`hardpan.pages` named like the package of the class may register another view with charts and prose; it is
    imported when it is first needed. A view is made once per result.

    Attributes:
        HEADLINE: the main finding as a template that the fields fill (:func:`hardpan.report.generic.fill`).
    """

    __slots__ = ("_view",)
    HEADLINE: ClassVar[str] = ""
    _view: View

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__repr__" not in cls.__dict__:  # a dataclass keeps the one that it finds
            cls.__repr__ = Report.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.headline})"

    def view(self) -> View:
        """What the result says and shows."""
        try:
            return self._view
        except AttributeError:
            made: View = _view_function(type(self).__module__)(self)
            object.__setattr__(self, "_view", made)  # the record is frozen; its view is no field
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
            extra: further files by name (:func:`hardpan.files.write_together`).

        Returns:
            The path of the page.
        """
        target = files.as_path("folder", folder)
        contents: dict[str, Content] = {**self.view().downloads, **(extra or {})}
        contents["index.html"] = self.to_html(command=command, date=_today())
        config = getattr(self, "config", None)
        if config is not None:
            contents["config.json"] = files.dumps(files.to_json(config)) + "\n"
        files.write_together(target, contents | {"report.json": self.to_json() + "\n"})
        return target / "index.html"

    def _repr_html_(self) -> str:
        from hardpan.report.writer import first_screen

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


def _view_function(module: str) -> Callable[[Any], View]:
    """``view`` of the module of :mod:`hardpan.pages` with the name of the innermost package of ``module``."""
    package = module.rpartition(".")[0].rpartition(".")[2]
    name = f"hardpan.pages.{package or 'none'}"
    try:
        return cast(Callable[[Any], View], importlib.import_module(name).view)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return generic.view
