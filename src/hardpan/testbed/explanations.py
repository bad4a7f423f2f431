"""Everything that could explain a drop, as far as the inputs allow: one result, one page.

A new explanation is a function that returns a report, one line of :data:`EXPLANATIONS` that says which inputs it
needs, and its view in :mod:`hardpan.pages.testbed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from hardpan import tables
from hardpan.arguments import one_of
from hardpan.errors import InputError, few
from hardpan.files import record
from hardpan.report import Report
from hardpan.testbed.decomposition import decompose
from hardpan.testbed.humans import human_table
from hardpan.testbed.sets import TwoSets, two_sets
from hardpan.testbed.subset_accuracies import (
    accuracies_without_duplicates,
    accuracy_breakdown,
    class_balanced_accuracies,
    hardest_of,
)


@record(dropped=("frequencies",))
class ExplainConfig:
    """The choices of :func:`explain`, saved with its result.

    Attributes:
        only: explanations to compute; default: all that the inputs allow.
        by: column of the examples to break accuracy down by.
        test_set: test set that is balanced and broken down: "original" or "new".
        bins: number of quantile bins for columns of numbers.
        fraction: fraction of each set that counts as hardest.
        hardest_only: count only the answers of people on the hardest examples.
        bootstrap: number of bootstrap resamples for the intervals of lines.
        confidence: level of every interval.
        seed: of everything random.
    """

    only: tuple[str, ...] = ()
    by: str = ""
    test_set: str = "new"
    bins: int = 5
    fraction: float = 0.05
    hardest_only: bool = False
    bootstrap: int = 100_000
    confidence: float = 0.95
    seed: int = 0


@record
class Explanations(Report):
    """What :func:`explain` returns.

    Attributes:
        results: the result of each explanation, by its name.
        skipped: explanations whose inputs are there but do not suffice, by name, with the reason.
        config: the settings.
    """

    results: Mapping[str, Any]
    skipped: Mapping[str, str]
    config: ExplainConfig


@dataclass(frozen=True, eq=False)
class ExplanationInputs:
    """What :func:`explain` was given: each input that an explanation needs is an attribute, None if missing."""

    config: ExplainConfig
    sets: TwoSets | None = None
    examples: Mapping[str, list[Any]] | None = None
    responses: Any = None

    @property
    def scores(self) -> Any:
        """The two sets where they are known to be right or wrong example by example."""
        sets = self.sets
        return sets if sets and sets.evidence == "examples" and sets.original.binary and sets.new.binary else None

    @property
    def outcomes(self) -> Any:
        """Right or wrong on the test set of the config."""
        return None if self.scores is None else self.scores.outcomes(self.config.test_set)

    @property
    def duplicate(self) -> Any:
        """1 for near-duplicates among the examples of the original set."""
        return self._column("duplicate", "original", float)

    @property
    def label(self) -> Any:
        """The classes of the examples of the test set."""
        return self._column("label", self.config.test_set, str)

    @property
    def groups(self) -> Any:
        """What the config breaks accuracies down by, one value per example of the test set."""
        return self._column(self.config.by, self.config.test_set) if self.config.by else None

    def _column(self, name: str, test_set: str, kind: Callable[[Any], Any] = lambda value: value) -> Any:
        """A column of the examples in the order of a set: by id where both have ids, else by position."""
        if self.examples is None or self.scores is None:
            return None
        if name not in self.examples:
            if name == self.config.by:
                raise InputError(f"must be among {few(list(self.examples))}; got {name!r}", argument="by")
            return None
        names, values = getattr(self.scores, test_set).items.tolist(), self.examples[name]
        row = {str(item): number for number, item in enumerate(self.examples.get("id", ()))}
        if all(item in row for item in names):
            values = [values[row[item]] for item in names]
        elif any(item in row for item in names) or len(values) != len(names):
            raise InputError(
                f"must have a row per example of the {test_set} set, {len(names):,}, or their ids; got "
                f"{len(values):,} rows",
                argument="examples",
            )
        return np.array(list(map(kind, values)))


NEEDS = {
    "sets": "scores on two test sets",
    "scores": "right or wrong by example on two test sets",
    "duplicate": "examples with a column duplicate",
    "label": "examples with a column label",
    "groups": "by, a column of examples",
    "responses": "responses of people",
}


class Explanation(NamedTuple):
    """The attributes of :class:`ExplanationInputs` that an explanation needs, and how it is computed."""

    needs: tuple[str, ...]
    compute: Callable[[ExplanationInputs, ExplainConfig], Report]


EXPLANATIONS = {
    "decompose": Explanation(
        ("sets",),
        lambda it, c: decompose(it.sets, bootstrap=c.bootstrap, confidence=c.confidence, seed=c.seed),
    ),
    "duplicates": Explanation(
        ("scores", "duplicate"),
        lambda it, c: accuracies_without_duplicates(
            it.scores.outcomes("original"), it.duplicate, it.scores.new.accuracy, c.confidence
        ),
    ),
    "balanced": Explanation(
        ("scores", "label"), lambda it, c: class_balanced_accuracies(it.outcomes, it.label, c.confidence)
    ),
    "breakdown": Explanation(
        ("scores", "groups"),
        lambda it, c: accuracy_breakdown(it.outcomes, it.groups, c.by, bins=c.bins, confidence=c.confidence),
    ),
    "hardest": Explanation(("scores",), lambda it, c: hardest_of(it.scores, fraction=c.fraction)),
    "humans": Explanation(
        ("responses",),
        lambda it, c: human_table(
            it.responses,
            only=hardest_of(it.scores, fraction=c.fraction) if c.hardest_only else None,
            confidence=c.confidence,
        ),
    ),
}


def explain(
    original: Any = None,
    new: Any = None,
    *,
    examples: Any = None,
    responses: Any = None,
    config: ExplainConfig | None = None,
    **changes: Any,
) -> Explanations:
    """What could explain that models score lower on a new test set: all explanations that the inputs allow.

    Args:
        original: scores on the original set, as for :func:`compare`; without ``new``, a file with both sets.
        new: the same on the new set.
        examples: table with a row per example, in order or with ``id``: columns ``duplicate``, ``label``, others.
        responses: answers of people, as for :func:`human_table`.
        config: the settings; further keyword arguments replace its fields (``only=("decompose",)``).

    Example:
        >>> from hardpan.testbed import simulate
        >>> pair = simulate([0.0, 1.0, 2.0, 3.0], examples=(300, 200))
        >>> result = explain(*pair, only=("decompose", "hardest"), bootstrap=200)
        >>> list(result.results), result.results["decompose"].beyond_chance
        (['decompose', 'hardest'], 2)
    """
    settings = replace(config or ExplainConfig(), **changes)
    one_of("test_set", settings.test_set, ("original", "new"))
    for name in settings.only:
        one_of("only", name, EXPLANATIONS)
    inputs = ExplanationInputs(
        settings,
        None if original is None else two_sets(original, new),
        None if examples is None else tables.read_columns(examples, name="examples"),
        responses,
    )
    results, skipped = {}, {}
    for name in settings.only or EXPLANATIONS:
        missing = [NEEDS[need] for need in EXPLANATIONS[name].needs if getattr(inputs, need) is None]
        if missing and settings.only:
            raise InputError(f"{name} needs {' and '.join(missing)}", argument="only")
        if not missing:
            try:
                results[name] = EXPLANATIONS[name].compute(inputs, settings)
            except InputError as error:
                if settings.only:
                    raise
                skipped[name] = str(error)
    if not results:
        raise InputError(
            f"nothing to explain; give at least one of: {', '.join(dict.fromkeys(NEEDS.values()))}"
            + "".join(f"; {name}: {reason}" for name, reason in skipped.items())
        )
    return Explanations(results, skipped, settings)
