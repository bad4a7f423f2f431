"""Bundled flows: small ones of public datasets, at most 4 MB each.

Each folder has ``weights.safetensors`` (half precision), ``flow.json`` with its settings, the description of its
fit, its likelihoods and Bayes errors, and a model card with samples, ``card.md``.
``hardpan.flows.load("fashion-mnist")`` reads one; ``reproductions/flow_cards.py`` writes such a folder. Those of
MNIST, Fashion-MNIST and CIFAR-10 were fitted by ``reproductions/flow_device.py train DATA --compact``; a larger
flow describes its data better (docs/results).
"""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent


def bundled_flow_names() -> tuple[str, ...]:
    """Names of the bundled flows.

    Example:
        >>> "mnist" in bundled_flow_names()
        True
    """
    return tuple(sorted(path.parent.name for path in _HERE.glob("*/flow.json")))


def bundled_flow_folder(name: str) -> Path | None:
    """The folder of a bundled flow, or None."""
    return _HERE / name if name in bundled_flow_names() else None
