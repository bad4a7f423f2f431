"""Flows that come with hardpan: small ones of MNIST and Fashion-MNIST, at most 2 MB each.

Each folder holds ``weights.safetensors`` (half precision) and ``flow.json`` with its settings, how the fit went,
its likelihoods and its floors. ``hardpan.flows.load("fashion-mnist")`` reads one. They were fitted on a GPU by
``reproductions/flow_device.py train DATA --compact``; a larger flow describes its data better (docs/results).
"""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent


def names() -> tuple[str, ...]:
    """The flows that come along.

    Example:
        >>> names()
        ('fashion-mnist', 'mnist')
    """
    return tuple(sorted(path.parent.name for path in _HERE.glob("*/flow.json")))


def folder(name: str) -> Path | None:
    """The folder of a flow that comes along, or None."""
    return _HERE / name if name in names() else None
