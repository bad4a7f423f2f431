"""Shares and names as the sentences of the floor write them."""

from __future__ import annotations

from collections.abc import Sequence

from hardpan import numbers

_OUR_WORDS = (
    *("Nearest-neighbour", "Nearest", "Bound", "Lower", "Upper", "One", "Exact", "Soft", "Corrected"),
    *("Uncorrected", "Raw", "Temperature", "Vector", "Isotonic"),
)
MOST_NAMED = 4  # a sentence with more names than this is a list; the entries hold them all


def percent(value: float) -> str:
    """A share in percent with three digits, or as a power of ten below 0.001 %.

    Example:
        >>> percent(0.0246), percent(0.0), percent(3e-27)
        ('2.46 %', '0 %', '3.00 × 10⁻²⁷')
    """
    return f"{100 * value:.3g} %" if value == 0 or value >= 1e-5 else numbers.percent(value)


def lower_first(name: str) -> str:
    """A name inside a sentence: the first letter of ours is small, those that people gave stay as they are.

    Example:
        >>> lower_first("Upper Bhattacharyya bound"), lower_first("ResNet")
        ('upper Bhattacharyya bound', 'ResNet')
    """
    return name[0].lower() + name[1:] if name.partition(" ")[0] in _OUR_WORDS else name


def joined(names: Sequence[str]) -> str:
    """Names with commas, the first few of many.

    Example:
        >>> joined(["a"]), joined(["a", "b", "c"]), joined(list("abcdef"))
        ('a', 'a, b and c', 'a, b, c and 3 more')
    """
    shown = list(names)
    if len(shown) > MOST_NAMED:
        shown = [*shown[: MOST_NAMED - 1], f"{len(shown) - MOST_NAMED + 1} more"]
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]
