"""Accessibility of pages by axe-core (scripts/axe installs it)."""

import functools
import os
from pathlib import Path

import pytest

FILE = "node_modules/axe-core/axe.min.js"


@functools.cache
def _source():
    root = Path(__file__).resolve().parents[2]
    path = root / os.environ.get("VENV", ".venv") / "axe" / FILE
    if not path.is_file():
        pytest.skip("axe-core is not installed: sh scripts/axe (needs npm)")
    return path.read_text(encoding="utf-8")


def violations(page):
    """Rules of WCAG 2.1 A and AA and of good practice that a page breaks: (rule, what, the first element)."""
    page.evaluate(_source())
    broken = page.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((result) => result.violations)")
    return [
        (item["id"], item["help"], item["nodes"][0]["html"][:200], item["nodes"][0]["target"]) for item in broken
    ]
