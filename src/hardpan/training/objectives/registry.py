"""Objectives by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.errors import InputError
from hardpan.training.objectives import pairs, samplers
from hardpan.training.objectives.pairs import Objective, Total

_Rows = NDArray[np.int64]


def build(
    name: str,
    *,
    n_rows: int,
    groups: ArrayLike | None = None,
    total: Total | None = None,
    **options: Any,
) -> Objective:
    """An objective for n training rows, in groups 0..G−1 where it needs them.

    - ``erm``: mean loss over all rows.
    - ``groupdro``: the worst group's loss, by online weights. Options ``step`` (0.01), ``adjustment`` (0), and
      ``balanced`` (True): batches hold every group as often, as Algorithm 1 draws them.
    - ``reweight``: losses weighted by n / (G n_g).
    - ``upsample``: every group seen as often as any other.
    - ``subsample``: every group cut to the smallest. Option ``fresh`` (False): other rows in every epoch.

    Args:
        name: one of :func:`names`.
        n_rows: how many training rows there are.
        groups: (n,) the group number of each.
        total: sums a tensor over the processes that share a batch, for GroupDRO.
        options: as above.

    Example:
        >>> import torch
        >>> objective = build("groupdro", n_rows=4, groups=[0, 0, 0, 1], step=0.1)
        >>> state = objective.init(torch.device("cpu"))
        >>> loss, state = objective.update(state, torch.tensor([1.0, 2.0]), torch.tensor([0, 1]))
        >>> objective.length, float(loss) > 1.5
        (4, True)
    """
    make = _MAKERS.get(name)
    if make is None:
        raise InputError(f"objective must be one of {', '.join(_MAKERS)}; got {name!r}")
    if isinstance(n_rows, bool) or not isinstance(n_rows, (int, np.integer)) or n_rows < 1:
        raise InputError(f"n_rows must be a whole number of at least 1; got {n_rows!r}")
    known = list(inspect.signature(make).parameters)[1:]
    for option in options:
        if option not in known:
            offered = f"its options are {', '.join(known)}" if known else "it has none"
            raise InputError(f"objective {name} has no option {option!r}; {offered}")
    nobody = np.zeros(int(n_rows), dtype=np.int64)
    rows, sizes = (nobody, nobody[:1]) if name == "erm" else _checked(name, int(n_rows), groups)
    return make(_Given(rows, sizes, total), **options)


def names() -> tuple[str, ...]:
    """The names that :func:`build` knows."""
    return tuple(_MAKERS)


@dataclass(frozen=True, slots=True)
class _Given:
    """Group number of each row (n,), rows of each group (G,), and the sum over processes."""

    groups: _Rows
    sizes: _Rows
    total: Total | None

    def everything(self, seed: int, epoch: int) -> _Rows:
        return samplers.shuffled(len(self.groups), seed=seed, epoch=epoch)

    def upsampled(self, seed: int, epoch: int) -> _Rows:
        return samplers.upsampled(self.groups, seed=seed, epoch=epoch)


def _checked(name: str, n_rows: int, groups: ArrayLike | None) -> tuple[_Rows, _Rows]:
    if groups is None:
        raise InputError(f"objective {name} needs groups; give each training row's group number, or use erm")
    given = np.asarray(groups)
    sizes = pairs.checked_groups(given)
    if len(given) != n_rows:
        raise InputError(f"groups must be ({n_rows},), one for each training row; got shape {given.shape}")
    if len(sizes) < 2:
        raise InputError(f"objective {name} needs at least 2 groups; all rows are in group 0; use erm")
    return given.astype(np.int64), sizes


def _plain(given: _Given) -> Objective:
    return Objective(pairs.init_mean, pairs.update_mean, given.everything, len(given.groups))


def _groupdro(given: _Given, step: float = 0.01, adjustment: float = 0.0, balanced: bool = True) -> Objective:
    for name, value in (("step", step), ("adjustment", adjustment)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < np.inf:
            raise InputError(f"{name} of groupdro must be a number of at least 0; got {value!r}")
    if not isinstance(balanced, bool):
        raise InputError(f"balanced of groupdro must be True or False; got {balanced!r}")
    init = partial(pairs.init_robust, given.sizes)
    update = partial(pairs.update_robust, step=float(step), adjustment=float(adjustment), total=given.total)
    return Objective(init, update, given.upsampled if balanced else given.everything, len(given.groups))


def _reweight(given: _Given) -> Objective:
    init = partial(pairs.init_reweighted, given.sizes)
    return Objective(init, pairs.update_reweighted, given.everything, len(given.groups))


def _upsample(given: _Given) -> Objective:
    return Objective(pairs.init_mean, pairs.update_mean, given.upsampled, len(given.groups))


def _subsample(given: _Given, fresh: bool = False) -> Objective:
    if not isinstance(fresh, bool):
        raise InputError(f"fresh of subsample must be True or False; got {fresh!r}")

    def rows(seed: int, epoch: int) -> _Rows:
        return samplers.subsampled(given.groups, seed=seed, epoch=epoch, fresh=fresh)

    return Objective(pairs.init_mean, pairs.update_mean, rows, len(given.sizes) * int(given.sizes.min()))


_MAKERS: dict[str, Callable[..., Objective]] = {
    "erm": _plain,
    "groupdro": _groupdro,
    "reweight": _reweight,
    "upsample": _upsample,
    "subsample": _subsample,
}
