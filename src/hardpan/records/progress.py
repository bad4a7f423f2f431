"""How far a piece of work is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, float], None]
"""Called with the step that begins and the fraction of the work that is done, 0 to 1."""
