"""Which versions computed a report."""

from __future__ import annotations

import importlib.metadata
import platform

import hardpan


def versions_of(*packages: str) -> dict[str, str]:
    """Versions of hardpan, Python and the packages that computed something, for :class:`Provenance`.

    Example:
        >>> list(versions_of("numpy"))
        ['hardpan', 'Python', 'numpy']
    """
    own = {"hardpan": hardpan.__version__, "Python": platform.python_version()}
    return own | {name: importlib.metadata.version(name) for name in packages}
