"""Names of architectures as people write them, and the one that is recorded; torch is not needed to tell."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

# A family's name alone means the size of it that suits small images.
_ALIASES = {"vit": "vit-small", "regnet-y": "regnet-y-400mf", "wide-resnet": "wide-resnet-28-10"}


def canonical_name(name: str) -> str:
    """Give the name under which an architecture is known and recorded; a ``module:factory`` stays as it is.

    Example:
        >>> [canonical_name(name) for name in ("vit", "ResNet18", "random features", "my_nets:small")]
        ['vit-small', 'resnet18', 'random-features', 'my_nets:small']
    """
    name = name.strip()
    if ":" in name:
        return name
    plain = re.sub(r"[\s_]+", "-", name.lower())
    plain = re.sub("^regnety(?=-|$)", "regnet-y", plain)
    return _ALIASES.get(plain, plain)


def nearest_name(name: str, known: Sequence[str]) -> str | None:
    """Give the known name that is most like an unknown one, or None where none is.

    Example:
        >>> nearest_name("resnet-18", ("resnet18", "resnet34", "mlp")), nearest_name("gpt", ("resnet18", "mlp"))
        ('resnet18', None)
    """
    found = difflib.get_close_matches(canonical_name(name), known, n=1)
    return found[0] if found else None
