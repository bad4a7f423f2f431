"""The pages of the confusion commands: a section in, three files out."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardpan import confusion, files
from hardpan.confusion.reports import ConfusionConfig
from hardpan.report.sections import Section


def write_page(
    out: Path,
    part: Section,
    title: str,
    report: Any,
    config: ConfusionConfig,
    *,
    hashes: Mapping[str, str] | None = None,
    method: Sequence[str] = (),
) -> Path:
    """Write ``index.html``, ``config.json`` and ``report.json``; gives the page's path."""
    # Imported here because drawing takes longer to load than most commands take to run.
    import dataclasses

    from hardpan import report as reports
    from hardpan.report.files import write_together

    html = reports.page(
        [dataclasses.replace(part, sentences=part.sentences[1:])],
        title=title,
        headline=part.sentences[0],
        provenance=confusion.provenance(shlex.join(["hardpan", *sys.argv[1:]]), hashes, config.seed, method),
    )
    contents = {
        "index.html": html,
        "config.json": files.dumps(files.to_json(config)) + "\n",
        "report.json": files.dumps(files.to_json(report)) + "\n",
    }
    write_together(out, contents)
    return out / "index.html"
