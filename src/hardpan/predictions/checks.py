"""Checks of rows of probabilities or logits, ids, labels, split, class names, seeds and epochs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import arguments
from hardpan.arguments import clean_text, sum_tolerance
from hardpan.data.dataset import SPLITS
from hardpan.errors import InputError, few

_NUMBERS_AT_ONCE = 2**16  # fits into the cache of a core


class ClassNamesNeeded(InputError):
    """Predictions or labels are text, and the classes have no names yet."""


Outputs = Literal["probabilities", "logits"]
OUTPUTS = ("auto", "probabilities", "logits")
LARGEST = 2**31 - 1  # of a seed's or an epoch's number
ROW_ID = re.compile(r"row-\d{7,}")  # ids that are row numbers (row_ids)
_LISTED = 5
ROUNDED = 0.05  # how far a sum may be from 1 where rounding to few decimals explains it


def check_rows(
    what: str, rows: NDArray[Any], name: Callable[[int], str], made_of: Outputs = "probabilities", remedy: str = ""
) -> None:
    """Refuse rows (n, C) that are not probabilities; ``name(i)`` is the id of row i.

    With ``made_of="logits"`` the rows are a softmax, and the message is about the logits. ``remedy`` replaces the
    advice where neither logits nor fewer rows are accepted.
    """
    good = are_probabilities(rows)
    if good.all():
        return
    bad = np.flatnonzero(~good)
    if made_of == "logits":
        raise InputError(_refused_logits(what, bad, name))
    first = np.asarray(rows[bad[0]], dtype=np.float64)
    advice = "leave them out, or pass outputs='logits' (--set outputs=logits) if they are logits"
    if np.isnan(first).any():
        reason, advice = "contains NaN", "leave them out"
    elif first.min() < 0:
        reason = f"contains {first.min():.4g}"
    else:
        reason = f"sums to {first.sum():.6g}"
        if abs(first.sum() - 1) <= ROUNDED:
            reason, advice = (
                f"{reason}: rounded?",
                "pass normalize=True (--set normalize=true) to divide rows by their sums",
            )
    raise InputError(
        f"{what}: {len(bad):,} of {len(rows):,} rows are not probabilities (the first {reason}): "
        f"{_listed_ids(bad, name)}; {remedy or advice}"
    )


def _listed_ids(bad: NDArray[np.int64], name: Callable[[int], str]) -> str:
    more = f" and {len(bad) - _LISTED:,} more" if len(bad) > _LISTED else ""
    return ", ".join(name(int(row)) for row in bad[:_LISTED]) + more


def normalized(what: str, rows: NDArray[Any], name: Callable[[int], str]) -> NDArray[np.float32]:
    """Rows (n, C) divided by their sums; they must be finite, not negative and not all 0.

    Example:
        >>> normalized("p", np.array([[33.3, 66.6]]), str).astype(float).round(2).tolist()
        [[0.33, 0.67]]
    """
    wide = np.asarray(rows, dtype=np.float64)
    total = wide.sum(axis=1)
    bad = np.flatnonzero(~(np.isfinite(total) & (total > 0) & (wide.min(axis=1) >= 0)))
    if len(bad):
        raise InputError(
            f"{what}: {_listed_ids(bad, name)} cannot be normalized: NaN, negative or all 0; leave them out"
        )
    return np.asarray(wide / total[:, None], dtype=np.float32)


def softmax(logits: NDArray[Any]) -> NDArray[np.float32]:
    """Probabilities of logits along the last axis, p_c = exp(z_c) / Σ exp(z), in float32.

    Example:
        >>> softmax(np.array([[0.0, np.log(3.0)], [1000.0, 1000.0]])).round(6).tolist()
        [[0.25, 0.75], [0.5, 0.5]]
    """
    # The largest is subtracted before rounding to float32: two logits near 1e5 differ in float64 only.
    wide = np.asarray(logits)
    # An infinite logit gives a row of NaN, which is refused by id.
    with np.errstate(invalid="ignore", over="ignore"):
        shifted = (wide - wide.max(axis=-1, keepdims=True)).astype(np.float32)
    powers = np.exp(shifted)
    result: NDArray[np.float32] = powers / powers.sum(axis=-1, keepdims=True)
    return result


def check_logits(what: str, rows: NDArray[Any], name: Callable[[int], str]) -> None:
    """Refuse logits (n, C) that give no probabilities, by the ids of their rows.

    A logit of −∞ rules a class out (a masked class): its probability is 0. A row of nothing else is refused.
    """
    bad = np.flatnonzero(~_give_probabilities(rows))
    if len(bad):
        raise InputError(_refused_logits(what, bad, name))


def _give_probabilities(logits: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether the softmax of each row (n, C) exists: the largest logit is NaN, ∞ or −∞ where it does not."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.isfinite(logits.max(axis=1)))


def _refused_logits(what: str, bad: NDArray[np.int64], name: Callable[[int], str]) -> str:
    return f"{what}: logits of {_listed_ids(bad, name)} contain NaN or +inf, or only -inf; leave those examples out"


def detect(what: str, rows: NDArray[Any], outputs: str = "auto") -> Outputs:
    """Whether rows (n, C) are probabilities or logits: as stated, or as most of the rows look.

    A few rows that are not probabilities do not make the others logits; they are refused later, by id.

    Example:
        >>> detect("p", np.array([[0.5, 0.5], [0.1, 0.9]])), detect("z", np.array([[2.0, -1.0]]))
        ('probabilities', 'logits')
    """
    arguments.one_of("outputs", outputs, OUTPUTS)
    if outputs != "auto":
        return "logits" if outputs == "logits" else "probabilities"
    if 2 * np.count_nonzero(are_probabilities(rows)) >= len(rows):
        return "probabilities"
    usable = rows[_give_probabilities(rows)]
    if not len(usable):
        raise InputError(f"{what}: every row contains NaN or +inf, or only -inf; give finite numbers")
    total = _shared_probability_sum(usable)
    if total is not None:
        raise InputError(
            f"{what}: rows are not negative and all sum to about {total:.6g}; import them with normalize=True "
            "(--set normalize=true), or outputs='logits' (--set outputs=logits) if they are logits"
        )
    if usable.min() < 0 or usable.max() > 1:
        return "logits"
    raise InputError(
        f"{what}: rows are within 0..1 but do not sum to 1: probabilities of independent classes, or logits? "
        "import them with outputs='logits' (--set outputs=logits), or normalize=True "
        "(--set normalize=true)"
    )


def _shared_probability_sum(rows: NDArray[Any]) -> float | None:
    """The sum that all rows (n, C) share, where none is negative: percentages, votes, rounded probabilities."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums = rows.sum(axis=1, dtype=np.float64)
        middle = float(np.median(sums))
    if len(rows) < 2 or rows.min() < 0 or middle < 1 - ROUNDED or not np.isfinite(sums).all():
        return None
    allowed = ROUNDED if middle <= 1 + ROUNDED else 0.01 * middle
    return None if np.abs(sums - middle).max() > allowed else middle


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Checked columns of N examples, and the names of C classes."""

    ids: NDArray[np.str_]
    labels: NDArray[np.int64] | None
    split: NDArray[np.str_] | None
    class_names: tuple[str, ...]


def checked_columns(
    where: str,
    n: int,
    classes: int,
    *,
    ids: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    class_names: Sequence[str] = (),
    split: ArrayLike | None = None,
) -> Columns:
    """Check all columns of n examples."""
    names = tuple(clean_text(str(name)) for name in class_names)
    if names and (len(names) != classes or len(set(names)) != classes):
        raise InputError(f"{where}: class_names must be {classes} different names; got {len(set(names))}")
    known = row_ids(n) if ids is None else arguments.ids(f"{where}: ids", ids, n)
    numbered = None
    if labels is not None:
        what = f"{where}: labels"
        numbered = arguments.labels(what, by_name(what, np.asarray(labels), names), n, classes)
    if split is not None:
        split = np.asarray(split)
        split = split.astype(np.str_) if split.dtype.kind in "OT" else split
        if split.dtype.kind != "U" or split.shape != (n,) or not set(np.unique(split).tolist()) <= set(SPLITS):
            raise InputError(
                f"must be one of {', '.join(SPLITS)} for each of {n} examples", argument=f"{where}: split"
            )
    return Columns(known, numbered, split, names)


def row_ids(n: int) -> NDArray[np.str_]:
    """Ids of rows whose content is not known; they join other data only by order.

    Example:
        >>> row_ids(2).tolist()
        ['row-0000000', 'row-0000001']
    """
    return np.array([f"row-{row:07d}" for row in range(n)], dtype=np.str_)


def by_name(what: str, labels: NDArray[Any], class_names: Sequence[str]) -> NDArray[Any]:
    """Class numbers of labels that are class names; numbers, also as text, stay what they are.

    Example:
        >>> by_name("labels", np.array(["cat", "ant"]), ("ant", "cat")).tolist()
        [1, 0]
    """
    if labels.dtype.kind not in "UO":
        return labels
    texts = labels.astype(np.str_)
    unknown = sorted(set(np.unique(texts).tolist()) - set(class_names))
    if not unknown:
        number = {name: index for index, name in enumerate(class_names)}
        return np.array([number[name] for name in texts.reshape(-1).tolist()], dtype=np.int64).reshape(labels.shape)
    if all(text.isdecimal() for text in unknown):
        return texts.astype(np.int64)
    if class_names:
        raise InputError(f"{what}: {unknown[0]!r} is not one of the class names {few(class_names)}")
    raise ClassNamesNeeded(
        f"{what}: are text ({few(unknown)}); give class_names (--set class_names=...) in the order of the columns"
    )


def checked_seeds_or_epochs(what: str, numbers: Sequence[int] | None, n: int) -> tuple[int, ...]:
    """Numbers of n seeds or epochs: those wanted, each once, or 0, 1, ....

    Example:
        >>> checked_seeds_or_epochs("seeds", None, 3), checked_seeds_or_epochs("seeds", [7, 8], 2)
        ((0, 1, 2), (7, 8))
    """
    if numbers is None:
        return tuple(range(n))
    values = tuple(arguments.whole_numbers(what, numbers, n).tolist())
    if len(set(values)) != n or max(values) > LARGEST:
        raise InputError(f"must be {n} different numbers from 0 to {LARGEST}; got {few(values)}", argument=what)
    return values


def common_epochs(epochs_of: Mapping[int, Iterable[int]]) -> tuple[int, ...]:
    """The epochs that every seed has, in order.

    Example:
        >>> common_epochs({0: (1, 2), 1: (2,)})
        (2,)
    """
    return tuple(sorted(set.intersection(*map(set, epochs_of.values())))) if epochs_of else ()


def are_probabilities(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each row (n, C) is a probability vector: finite, not negative, its sum 1 within float16.

    Example:
        >>> are_probabilities(np.array([[0.25, 0.75], [0.5, 0.6], [-0.1, 1.1], [np.nan, 1.0]])).tolist()
        [True, False, False, False]
    """
    good = np.empty(len(rows), dtype=bool)
    at_once = max(1, _NUMBERS_AT_ONCE // max(rows.shape[1], 1))
    for start in range(0, len(rows), at_once):
        block = rows[start : start + at_once]
        block = block.astype(np.float32) if block.dtype == np.float16 else block
        with np.errstate(invalid="ignore", over="ignore"):
            # NaN fails both comparisons; float32 adds 10⁴ numbers to within a tenth of the tolerance.
            total = block.sum(axis=1, dtype=np.float32 if block.dtype.itemsize <= 4 else np.float64)
            near = np.abs(total - 1.0) <= sum_tolerance(rows.shape[1])
            good[start : start + len(block)] = near & (block.min(axis=1) >= 0)
    return good
