"""Floors that lie above ceilings: two claims that cannot both be true, whatever classifiers do.

A lower end and an estimate say that the error is at least something, an upper end that it is at most something. No
held-out error can settle a pair of them whose order is wrong, because both may lie below every classifier's limit:
what it tells is that one of their assumptions is false.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hardpan.bayes.floors.candidates import Crossing, Entry
from hardpan.bayes.floors.wording import MOST_NAMED, joined, lower_first, percent

FLOORS = ("estimate", "lower")
CEILING = "upper"


def crossed_pairs(entries: Sequence[Entry]) -> tuple[Crossing, ...]:
    """Pairs of a standing floor and a standing ceiling whose values are in the wrong order, contradictions first.

    A pair contradicts itself where the floor's interval lies above the ceiling's: floor.low > ceiling.high. Where
    the intervals meet, chance can have done it.

    Args:
        entries: weighed against the classifiers and their own checks; what these refute is in no pair.

    Example:
        >>> from hardpan.records import Estimate
        >>> at_least = Entry("bound", "lower", Estimate(0.06, 0.0, 0.058, 0.1), "A holds", "stands", "", "")
        >>> at_most = Entry("cap", "upper", Estimate(0.05, 0.0, 0.04, 0.055), "B holds", "stands", "", "")
        >>> crossed_pairs([at_least, at_most])[0].sentence
        'Bound and cap contradict each other: at least 5.8 % if A holds, at most 5.5 % if B holds; one is not true.'
    """
    standing = [entry for entry in entries if entry.status == "stands"]
    found = (
        _crossing(floor, ceiling)
        for floor in standing
        if floor.role in FLOORS
        for ceiling in standing
        if ceiling.role == CEILING and floor.estimate.value > ceiling.estimate.value
    )
    return tuple(sorted(found, key=lambda item: not item.contradiction))


def disputed(entries: Sequence[Entry], found: Sequence[Crossing]) -> tuple[Entry, ...]:
    """The entries, with those that a contradiction doubts marked: neither end of it can be relied on."""
    against: dict[str, list[Crossing]] = {}
    for item in found:
        if item.contradiction:
            against.setdefault(item.floor, []).append(item)
            against.setdefault(item.ceiling, []).append(item)
    return tuple(_doubted(entry, against[entry.name]) if entry.name in against else entry for entry in entries)


def in_verdict(found: Sequence[Crossing]) -> str:
    """The contradictions as the end of the verdict's sentence; empty where there is none."""
    pairs = [
        f"{lower_first(item.floor)} (at least {percent(item.at_least)}) and {lower_first(item.ceiling)} "
        f"(at most {percent(item.at_most)})"
        for item in found
        if item.contradiction
    ]
    if len(pairs) < 2:
        return f"; not both can be true: {pairs[0]}" if pairs else ""
    more = f"; and {len(pairs) - MOST_NAMED} more pairs" if len(pairs) > MOST_NAMED else ""
    return f"; of each of these pairs, not both can be true: {'; '.join(pairs[:MOST_NAMED])}{more}"


def in_sentences(found: Sequence[Crossing]) -> tuple[str, ...]:
    """What a page says of crossings: each of a few contradictions, and the rest in one sentence each."""
    sentences = [item.sentence for item in found if item.contradiction]
    if len(sentences) > MOST_NAMED:
        more = len(sentences) - MOST_NAMED
        sentences = [*sentences[:MOST_NAMED], f"{more} more such pairs: see what is against each in the table."]
    mild = [
        f"{lower_first(item.floor)} with {lower_first(item.ceiling)}" for item in found if not item.contradiction
    ]
    if len(mild) == 1:
        sentences += [item.sentence for item in found if not item.contradiction]
    elif mild:
        sentences.append(f"Values cross while their intervals meet, which is no contradiction: {joined(mild)}.")
    return tuple(sentences)


def _crossing(floor: Entry, ceiling: Entry) -> Crossing:
    at_least, at_most = floor.estimate.low, ceiling.estimate.high
    names = f"{floor.name[0].upper()}{floor.name[1:]} and {lower_first(ceiling.name)}"
    if not at_least > at_most:
        values = f"{percent(floor.estimate.value)} is above {percent(ceiling.estimate.value)}"
        sentence = f"{names} cross, but their intervals meet ({values}): that is no contradiction."
        return Crossing(floor.name, ceiling.name, at_least, at_most, False, sentence)
    said = f"{names} contradict each other: at least {percent(at_least)} if {floor.assumption}, at most "
    if floor.assumption == ceiling.assumption:
        sentence = f"{said}{percent(at_most)} if the same; so it is not true."
    else:
        sentence = f"{said}{percent(at_most)} if {ceiling.assumption}; one is not true."
    return Crossing(floor.name, ceiling.name, at_least, at_most, True, sentence)


def _doubted(entry: Entry, found: Sequence[Crossing]) -> Entry:
    floor = entry.role in FLOORS
    others = [item.ceiling if floor else item.floor for item in found]
    ends = [f"{name} ({'at most' if floor else 'at least'} " for name in map(lower_first, others)]
    told = joined(
        [
            f"{end}{percent(item.at_most if floor else item.at_least)})"
            for end, item in zip(ends, found, strict=True)
        ]
    )
    own = f"at least {percent(entry.estimate.low)}" if floor else f"at most {percent(entry.estimate.high)}"
    reason = f"Disputed: it says {own} if {entry.assumption}, against {told}; not all of these can be true."
    return replace(entry, status="disputed", against=", ".join(others), reason=reason)
