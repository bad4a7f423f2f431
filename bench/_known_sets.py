"""Sets whose floor is known exactly, to measure estimators of the floor on.

A source is a function ``source(n, floor, seed)`` that gives n examples, their labels, and the exact posterior of
each; add its line to ``SOURCES``. ``flow:NAME`` is a flow at the temperature that has this Bayes error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import bayes
from hardpan.errors import InputError

Floats = NDArray[np.float64]
_SOURCE_SEED = 20210607  # the problems are the same for everyone; only the draws from them have seeds


@dataclass(frozen=True, slots=True, eq=False)
class KnownSet:
    """Draws from a problem whose floor is known: features (n, d), labels (n,), posteriors (n, K)."""

    x: NDArray[Any]
    y: NDArray[np.int64]
    posterior: Floats


Source = Callable[[int, float, int], KnownSet]


def two_gaussians(n: int, floor: float, seed: int) -> KnownSet:
    """Two Gaussian classes in two dimensions."""
    return _draw(_means(2, 2), n, floor, seed)


def ten_gaussians(n: int, floor: float, seed: int) -> KnownSet:
    """Ten Gaussian classes with random means in twenty dimensions."""
    return _draw(_means(10, 20), n, floor, seed)


def warped(n: int, floor: float, seed: int) -> KnownSet:
    """The ten classes after a smooth invertible map: the same floor and posteriors, but no Gaussian classes."""
    known = _draw(_means(10, 20), n, floor, seed)
    rng = np.random.default_rng(_SOURCE_SEED)
    x = known.x / known.x.std()
    for _ in range(2):
        # A coupling layer: one half is scaled and moved by functions of the other, so the map can be undone.
        order = rng.permutation(x.shape[1])
        fixed, moved = x[:, order[:10]], x[:, order[10:]]
        scale, shift = (np.tanh(fixed @ rng.normal(size=(10, 10)) / 2) for _ in range(2))
        x = np.concatenate([fixed, moved * np.exp(scale) + shift], axis=1)
    return KnownSet(x, known.y, known.posterior)


SOURCES: dict[str, Source] = {
    "two-gaussians": two_gaussians,
    "ten-gaussians": ten_gaussians,
    "warped": warped,
}
"""Sources by name; ``flow:NAME`` is one, too."""


def find_source(name: str) -> Source:
    """The source of that name, or a flow's: ``flow:fashion-mnist``, ``flow:folder``."""
    if name.startswith("flow:"):
        return functools.partial(_from_flow, name.removeprefix("flow:"))
    if name not in SOURCES:
        raise InputError(f"must be one of {', '.join(SOURCES)} or flow:NAME; got {name!r}", argument="source")
    return SOURCES[name]


def _means(classes: int, dimensions: int) -> Floats:
    return np.random.default_rng(_SOURCE_SEED).normal(size=(classes, dimensions))


@functools.lru_cache(maxsize=256)
def _temperature(classes: int, dimensions: int, floor: float) -> float:
    return bayes.temperature_for(_means(classes, dimensions), error=floor)


def _draw(means: Floats, n: int, floor: float, seed: int) -> KnownSet:
    temperature = _temperature(*means.shape, floor)
    rng = np.random.default_rng([seed, n])
    y = rng.integers(0, len(means), n)
    x = means[y] + temperature * rng.normal(size=(n, means.shape[1]))
    return KnownSet(x, y, bayes.posterior(x, means, temperature=temperature))


@functools.lru_cache(maxsize=2)
def _flow(path: str) -> Any:
    from hardpan import flows

    return flows.load(path)


@functools.lru_cache(maxsize=64)
def _flow_temperature(path: str, floor: float) -> float:
    return float(_flow(path).temperature_for(floor))


_last_draw: dict[tuple[str, float, int], KnownSet] = {}
"""The last draw from a flow: a shorter draw of the same seed is the beginning of a longer one."""


def _from_flow(path: str, n: int, floor: float, seed: int) -> KnownSet:
    known = _last_draw.get((path, floor, seed))
    if known is None or len(known.y) < n:
        from hardpan.learning_curves import compressed_grey_values  # torch: only where a flow is needed

        flow = _flow(path)
        samples = flow.sample_with_posterior(n, temperature=_flow_temperature(path, floor), seed=seed)
        flat = compressed_grey_values(samples.x, flow.grey_levels).reshape(n, -1)
        known = KnownSet(
            flat, np.asarray(samples.y, dtype=np.int64), np.asarray(samples.posterior, dtype=np.float64)
        )
        _last_draw.clear()
        _last_draw[path, floor, seed] = known
    return KnownSet(known.x[:n], known.y[:n], known.posterior[:n])
