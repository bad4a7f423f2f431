"""Rows of class probabilities: which rows are some, what float16 does to their sum, and logits made into them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError

Outputs = Literal["probabilities", "logits"]
OUTPUTS = ("auto", "probabilities", "logits")
_NAMED = 5
_NUMBERS_AT_ONCE = 2**16  # what fits into the cache of a core
_JUST_OVER_ONE = 0x3C01  # the bits of the first float16 after 1


def sum_tolerance(n_classes: int) -> float:
    """How far the sum of a row of C probabilities may be from 1: what rounding to float16 explains, twice.

    Rounding to float16 moves a number by at most 2⁻¹¹ of itself, or by 2⁻²⁵ where it is below 2⁻¹⁴; C of them
    together by 2⁻¹¹ + C·2⁻²⁵. It is taken twice, since the sum may have been off by as much before it was rounded.

    Example:
        >>> round(sum_tolerance(10), 6), round(sum_tolerance(1000), 6)
        (0.000977, 0.001036)
    """
    return 2.0**-10 + n_classes * 2.0**-24


def are_probabilities(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Say of each row (n, C) whether it is a probability: finite, not negative, its sum 1 within float16.

    Example:
        >>> are_probabilities(np.array([[0.25, 0.75], [0.5, 0.6], [-0.1, 1.1], [np.nan, 1.0]])).tolist()
        [True, False, False, False]
    """
    good = np.empty(len(rows), dtype=bool)
    at_once = max(1, _NUMBERS_AT_ONCE // max(rows.shape[1], 1))
    for start in range(0, len(rows), at_once):
        part = rows[start : start + at_once]
        good[start : start + len(part)] = _good_halves(part) if part.dtype == np.float16 else _good(part)
    return good


def _good(rows: NDArray[Any]) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore", over="ignore"):
        # NaN fails both comparisons; float32 adds 10⁴ numbers to within a tenth of the tolerance.
        total = rows.sum(axis=1, dtype=np.float32 if rows.dtype.itemsize <= 4 else np.float64)
        near = np.abs(total - 1.0) <= sum_tolerance(rows.shape[1])
        return np.asarray(near & (rows.min(axis=1) >= 0))


def _good_halves(rows: NDArray[np.float16]) -> NDArray[np.bool_]:
    """The same for float16, several times as fast: the bits of numbers from 0 on have the order of the numbers."""
    bits = np.ascontiguousarray(rows).view(np.uint16)
    largest = bits.max(axis=1)
    total = _wide(bits) @ np.ones(rows.shape[1], dtype=np.float32)
    good = np.abs(total - 1.0) <= sum_tolerance(rows.shape[1])
    unclear = np.flatnonzero(largest > _JUST_OVER_ONE)  # too large, negative, NaN, or -0, which is no fault
    if len(unclear):
        good[unclear] = _good(rows[unclear].astype(np.float32))
    return np.asarray(good)


def _wide(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """float32 from the bits of float16 numbers that are finite and not negative."""
    wide = bits.astype(np.uint32)
    np.left_shift(wide, 13, out=wide)
    wide += 112 << 23  # exponents of float16 count from 15, those of float32 from 127
    shifted = wide.view(np.float32)
    # Right as it is from 2⁻¹⁴ on. Below, float16 has no leading 1: there 2x − 2⁻¹⁴ is right, and it is the smaller.
    small = shifted * np.float32(2.0)
    small -= np.float32(2.0**-14)
    np.minimum(shifted, small, out=small)
    return small


def check_rows(
    what: str, rows: NDArray[Any], name: Callable[[int], str], given: Outputs = "probabilities", remedy: str = ""
) -> None:
    """Refuse rows (n, C) that are not probabilities, and give their ids: ``name(i)`` is the id of row i.

    With ``given="logits"`` the rows were made of logits, and what is wrong with them is said of those. ``remedy``
    is for a door that takes neither logits nor fewer rows.
    """
    good = are_probabilities(rows)
    if good.all():
        return
    bad = np.flatnonzero(~good)
    if given == "logits":
        raise InputError(_refused_logits(what, bad, name))
    first = np.asarray(rows[bad[0]], dtype=np.float64)
    advice = "leave them out, or say that they are logits"
    if np.isnan(first).any():
        reason, advice = "holds NaN", "leave them out"
    elif first.min() < 0:
        reason = f"holds {first.min():.4g}"
    else:
        reason = f"sums to {first.sum():.6g}"
    raise InputError(
        f"{what}: {len(bad):,} of {len(rows):,} rows are not probabilities (the first {reason}): "
        f"{_named(bad, name)}; {remedy or advice}"
    )


def _named(bad: NDArray[np.int64], name: Callable[[int], str]) -> str:
    more = f" and {len(bad) - _NAMED:,} more" if len(bad) > _NAMED else ""
    return ", ".join(name(int(row)) for row in bad[:_NAMED]) + more


def softmax(logits: NDArray[Any]) -> NDArray[np.float32]:
    """Probabilities of logits along the last axis, p_c = exp(z_c) / Σ exp(z), in float32.

    Example:
        >>> softmax(np.array([[0.0, np.log(3.0)], [1000.0, 1000.0]])).round(6).tolist()
        [[0.25, 0.75], [0.5, 0.5]]
    """
    # The largest is taken away before the numbers are made shorter: two logits near 1e5 differ in float64 only.
    wide = np.asarray(logits)
    with np.errstate(invalid="ignore"):  # an infinite logit gives a row of NaN, which is refused by id
        shifted = (wide - wide.max(axis=-1, keepdims=True)).astype(np.float32)
    powers = np.exp(shifted)
    result: NDArray[np.float32] = powers / powers.sum(axis=-1, keepdims=True)
    return result


def check_logits(what: str, rows: NDArray[Any], name: Callable[[int], str]) -> None:
    """Refuse logits (n, C) that give no probabilities, and give the ids of their rows.

    A logit of −∞ rules a class out (a masked class): its probability is 0. It may not be the only kind in a row.
    """
    bad = np.flatnonzero(~_give_probabilities(rows))
    if len(bad):
        raise InputError(_refused_logits(what, bad, name))


def _give_probabilities(logits: NDArray[Any]) -> NDArray[np.bool_]:
    """Say of each row (n, C) whether its softmax is one: the largest logit is NaN, ∞ or −∞ where it is not."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.isfinite(logits.max(axis=1)))


def _refused_logits(what: str, bad: NDArray[np.int64], name: Callable[[int], str]) -> str:
    return f"{what}: logits of {_named(bad, name)} hold NaN or +inf, or nothing but -inf; leave those examples out"


def detect(what: str, rows: NDArray[Any], said: str = "auto") -> Outputs:
    """Say whether rows (n, C) are probabilities or logits: what was said, or what most of the rows look like.

    A few rows that are not probabilities do not make the others logits; they are refused later, by id.

    Example:
        >>> detect("p", np.array([[0.5, 0.5], [0.1, 0.9]])), detect("z", np.array([[2.0, -1.0]]))
        ('probabilities', 'logits')
    """
    if said == "probabilities":
        return "probabilities"
    if said == "logits":
        return "logits"
    if said != "auto":
        raise InputError(f"outputs must be one of {', '.join(OUTPUTS)}; got {said!r}")
    if 2 * np.count_nonzero(are_probabilities(rows)) >= len(rows):
        return "probabilities"
    usable = rows[_give_probabilities(rows)]
    if not len(usable):
        raise InputError(f"{what}: every row holds NaN or +inf, or nothing but -inf; give finite numbers")
    total = _shared_sum(usable)
    if total is not None:
        raise InputError(
            f"{what}: rows are not negative and all sum to about {total:.6g}, as shares of {total:.6g} do; "
            f"divide them by it, or say that they are logits (outputs='logits')"
        )
    if usable.min() < 0 or usable.max() > 1:
        return "logits"
    raise InputError(
        f"{what}: rows are within 0..1 but do not sum to 1, so they may be probabilities of independent classes or "
        "logits; say which (outputs='logits' or outputs='probabilities')"
    )


def _shared_sum(rows: NDArray[Any]) -> float | None:
    """The sum that all rows (n, C) share, where none is negative and it is above 1: percents, counts of votes."""
    sums = rows.sum(axis=1, dtype=np.float64)
    middle = float(np.median(sums))
    if len(rows) < 2 or rows.min() < 0 or middle <= 1.01 or np.abs(sums - middle).max() > 0.01 * middle:
        return None
    return middle


def one_line(error: object) -> str:
    """A message of somebody else's, on one line and not too long."""
    text = " ".join(str(error).split())
    return text if len(text) <= 160 else text[:157] + "..."
