"""The base of every result that people look at; :mod:`hardpan.pages` makes what they see."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import importlib.metadata
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import hardpan
from hardpan import arguments, files, tables
from hardpan.files import Content, record
from hardpan.files.records import HEADER

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hardpan.pages.sections import Section, View


__all__ = ["Provenance", "Report"]


@record
class Provenance:
    """How a report was computed: enough for a stranger to compute it again.

    Attributes:
        method: paragraphs of plain words and formulas.
        citations: the papers it rests on.
        command: the command that computes the report again.
        seed: the seed of everything random in it.
        versions: name and version of what computed it.
        hashes: what was read, and its sha256.
        warnings: what limits the claims of the whole report.
    """

    method: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()
    command: str = ""
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Report:
    """A result with a headline, sections, a page, a notebook view, a terminal view, a frame and JSON.

    A subclass is a frozen dataclass of numbers without sentences, registered with :func:`hardpan.files.record`.
    What it says is made from its fields and its ``HEADLINE`` (:mod:`hardpan.pages.field_views`). A module of
    :mod:`hardpan.pages` named like the package of the class may register another view with charts and prose; it is
    imported when it is first needed. A view is made once per result.

    Attributes:
        HEADLINE: the main finding as a template (:func:`hardpan.pages.field_views.fill_fields`).
        PAGE: the file that :meth:`save` writes for people; another one is among the downloads of the view.
    """

    __slots__ = ("_view",)
    HEADLINE: ClassVar[str] = ""
    PAGE: ClassVar[str] = "index.html"
    _view: View

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
        plain = Provenance(command=command, versions=versions_of())
        view = self.view()
        from hardpan.pages.html_page import view_page  # imports the drawing library, when a page is first written

        made = view.provenance or plain
        made = dataclasses.replace(made, command=made.command or command, versions=made.versions or plain.versions)
        return view_page(dataclasses.replace(view, provenance=made), date=date)

    def to_json(self) -> str:
        """The result as JSON text; :func:`hardpan.files.from_json` reads it back."""
        return files.json_text(self)

    def to_metrics(self) -> dict[str, float]:
        """Its numbers by name, for trackers of experiments; an estimate has three: its value and its ends.

        Names of inner records and mappings are joined by dots; lists, texts and settings are left out.

        Example:
            >>> from hardpan.leaderboard import rank
            >>> numbers = rank([[1, 1, 0, 1], [0, 1, 0, 0]]).to_metrics()
            >>> all(isinstance(value, float) for value in numbers.values())
            True
        """
        return dict(_numbers_of("", {**files.to_json(self), "config": None}))

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
        """Write the page, report.json and config.json (where there are settings), all or none.

        A file of such a name that hardpan did not write is refused.

        Args:
            folder: where to; created if missing.
            command: the command that makes the report again, for the page.
            extra: further files by name (:func:`hardpan.files.write_together`).

        Returns:
            The path of the page.
        """
        target, record = arguments.as_path("folder", folder), self.to_json() + "\n"
        # SOURCE_DATE_EPOCH (seconds) fixes the day for builds that have to be equal to the byte.
        seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
        date = datetime.datetime.fromtimestamp(seconds, datetime.UTC).date().isoformat()
        contents: dict[str, Content] = {**self.view().downloads, **(extra or {})}
        if self.PAGE not in contents:
            contents["index.html"] = self.to_html(command=command, date=date)
        config = getattr(self, "config", None)
        if config is not None:
            contents["config.json"] = files.json_text(config) + "\n"
        files.refuse_foreign_files(target, [*contents, "report.json"])
        files.write_together(target, contents | {"report.json": record})
        return target / self.PAGE

    def _repr_html_(self) -> str:
        from hardpan.pages.html_page import first_screen

        return first_screen(self.view())

    def __rich__(self) -> RenderableType:
        from hardpan.pages.terminal import render

        return render(self.view())


def _numbers_of(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """The numbers in JSON values by the names of their fields."""
    if isinstance(value, (int, float)):
        yield name, float(value)
    elif isinstance(value, Mapping) and value.get("kind") in ("Estimate", "Interval"):
        for field_name, ending in (("value", ""), ("low", "_low"), ("high", "_high")):
            if value.get(field_name) is not None:
                yield name + ending, float(value[field_name])
    elif isinstance(value, Mapping) and value.get("kind") != "array":
        for key, item in value.items():
            if key not in HEADER:
                # Trackers allow few other characters.
                word = re.sub(r"[^\w. /-]", "_", str(key))
                yield from _numbers_of(f"{name}.{word}" if name else word, item)


def _view_function(module: str) -> Callable[[Any], View]:
    """``view`` of the module of :mod:`hardpan.pages` with the name of its innermost package, or its own."""
    package, _, own_name = module.rpartition(".")
    name = f"hardpan.pages.{own_name if package == 'hardpan' else package.rpartition('.')[2] or 'none'}"
    try:
        return cast("Callable[[Any], View]", importlib.import_module(name).view)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        from hardpan.pages import field_views

        return field_views.view


def versions_of(*packages: str) -> dict[str, str]:
    """Versions of hardpan, Python and the packages that computed something, for :class:`Provenance`.

    Example:
        >>> list(versions_of("numpy"))
        ['hardpan', 'Python', 'numpy']
    """
    own = {"hardpan": hardpan.__version__, "Python": platform.python_version()}
    return own | {name: importlib.metadata.version(name) for name in packages}
