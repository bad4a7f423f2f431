"""A selection of examples as the manifest that other commands take."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hardpan import confusion, files


def manifest(ids: Sequence[str], how: Mapping[str, Any], title: str, examples: int) -> str:
    """Write a subset's manifest: what was selected, and by what filters, so that it can be selected again."""
    chosen = confusion.chosen_by_hand(ids, examples=examples, source=f"{title}: {json.dumps(how, sort_keys=True)}")
    return files.dumps(files.to_json(chosen)) + "\n"
