"""What the results of :mod:`hardpan.leaderboard` say and show."""

from __future__ import annotations

import importlib
from typing import Any

from hardpan.pages import field_views
from hardpan.pages.sections import View


def view(result: Any) -> View:
    """The view of a result; that of the gate, which runs in CI, is made without importing what the others need."""
    of_gate = type(result).__module__ == "hardpan.leaderboard.gating"
    importlib.import_module(f"{__name__}.{'gate' if of_gate else 'board'}")  # registers views
    return field_views.view(result)
