"""A selection of examples as the manifest that other commands take."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def manifest(ids: Sequence[str], how: Mapping[str, Any], title: str) -> str:
    """Write a subset's manifest."""
    return json.dumps({"ids": list(ids), "how": dict(how), "title": title})
