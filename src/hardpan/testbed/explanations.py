"""Everything that could explain a drop, as far as the inputs allow: one result, one page.

A new explanation is a function that returns a report, one line of :data:`EXPLANATIONS` that says which inputs it
needs, and its view in :mod:`hardpan.pages.testbed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from hardpan import tables
from hardpan.arguments import one_of
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.files import record
from hardpan.report.base import Report
from hardpan.safe_files import few
from hardpan.testbed import followups, gaps
from hardpan.testbed.discrimination import discriminate
from hardpan.testbed.sets import Side, TwoSets, two_sets
from hardpan.testbed.skill_scale import one_scale


@record
class ExplainConfig:
    """The choices of :func:`explain`, saved with its result.

    Attributes:
        only: explanations to compute; default: all that the inputs allow.
        by: column of the examples to break accuracy down by; or brightness, contrast, grey or size of images.
        test_set: test set that is balanced, broken down and searched for shared errors: "original" or "new".
        bins: number of quantile bins for columns of numbers.
        fraction: fraction of each set that counts as hardest.
        hardest_only: count only the answers of people on the hardest examples.
        frequencies: mean selection frequency by the name of a new set.
        classifier: classifier that tries to distinguish the sets: "logistic" or "lda".
        test: its significance test: "split" or "permutation".
        permutations: number of permutations, for "permutation".
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
    frequencies: Mapping[str, float] = field(default_factory=dict)
    classifier: str = "logistic"
    test: str = "split"
    permutations: int = 200
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
class Inputs:
    """What :func:`explain` was given: each input that an explanation needs is an attribute, None if missing."""

    config: ExplainConfig
    sets: TwoSets | None = None
    examples: Mapping[str, list[Any]] | None = None
    original_data: Dataset | None = None
    new_data: Dataset | None = None
    new_sets: Any = None
    responses: Any = None
    splits: Any = None

    @property
    def level_and_seed(self) -> dict[str, Any]:
        """The settings that most explanations share."""
        return {"confidence": self.config.confidence, "seed": self.config.seed}

    @cached_property
    def scores(self) -> Any:
        """The two sets where they are known to be right or wrong example by example."""
        sets = self.sets
        return sets if sets and sets.evidence == "examples" and sets.original.binary and sets.new.binary else None

    @cached_property
    def outcomes(self) -> Any:
        """Right or wrong on the test set of the config."""
        return None if self.scores is None else self.scores.outcomes(self.config.test_set)

    @property
    def duplicate(self) -> Any:
        """1 for near-duplicates among the examples of the original set."""
        values = self._column("duplicate", "original")
        return None if values is None else np.array([float(value) for value in values])

    @property
    def label(self) -> Any:
        """The classes of the examples of the test set."""
        values = self._column("label", self.config.test_set)
        return None if values is None else np.array([str(value) for value in values])

    @property
    def groups(self) -> Any:
        """What the config breaks accuracies down by, one value per example of the test set."""
        by, dataset = self.config.by, getattr(self, f"{self.config.test_set}_data")
        if by in followups.IMAGE_ATTRIBUTES and dataset is not None:
            return followups.image_attributes(dataset.x)[by]
        values = self._column(by, self.config.test_set) if by else None
        return None if values is None else np.asarray(values)

    @property
    def datasets(self) -> Any:
        """The examples of both sets."""
        return None if self.original_data is None or self.new_data is None else (self.original_data, self.new_data)

    def _column(self, name: str, test_set: str) -> list[Any] | None:
        """A column of the examples in the order of a set: by id where both have ids, else by position."""
        if self.examples is None or self.scores is None:
            return None
        if name not in self.examples:
            if name == self.config.by:
                raise InputError(f"must be among {few(list(self.examples))}; got {name!r}", argument="by")
            return None
        side: Side = getattr(self.scores, test_set)
        names, values = [] if side.items is None else side.items.tolist(), self.examples[name]
        row = {str(item): number for number, item in enumerate(self.examples.get("id", ()))}
        if names and all(item in row for item in names):
            return [values[row[item]] for item in names]
        if any(item in row for item in names) or len(values) != len(names):
            raise InputError(
                f"must have a row per example of the {test_set} set, {len(names):,}, or their ids; got "
                f"{len(values):,} rows",
                argument="examples",
            )
        return values


@dataclass(frozen=True, slots=True)
class Explanation:
    """How an explanation is computed, and the attributes of :class:`Inputs` that it needs."""

    needs: tuple[str, ...]
    compute: Callable[[Inputs], Report]


NEEDS = {
    "sets": "scores on two test sets",
    "scores": "right or wrong by example on two test sets",
    "duplicate": "examples with a column duplicate",
    "label": "examples with a column label",
    "groups": "by, a column of examples, or a property of the images",
    "datasets": "original_data and new_data",
    "new_sets": "new_sets",
    "responses": "responses of people",
    "splits": "splits",
}


def _discriminate(inputs: Inputs) -> Report:
    config = inputs.config
    original, new = inputs.datasets
    labelled = original.labels is not None and new.labels is not None
    return discriminate(
        original.x,
        new.x,
        original_labels=original.labels if labelled else None,
        new_labels=new.labels if labelled else None,
        classifier=config.classifier,  # type: ignore[arg-type]  # checked there
        test=config.test,  # type: ignore[arg-type]
        permutations=config.permutations,
        **inputs.level_and_seed,
    )


def _humans(inputs: Inputs) -> Report:
    fraction = inputs.config.fraction
    only = followups.hardest_of(inputs.scores, fraction=fraction) if inputs.config.hardest_only else None
    return followups.human_table(inputs.responses, only=only, **inputs.level_and_seed)


EXPLANATIONS: dict[str, Explanation] = {
    "decompose": Explanation(
        ("sets",), lambda it: gaps.decompose(it.sets, bootstrap=it.config.bootstrap, **it.level_and_seed)
    ),
    "scale": Explanation(
        ("scores",),
        lambda it: one_scale(
            it.scores.original.scores, it.scores.new.scores, models=it.scores.models, seed=it.config.seed
        ),
    ),
    "discriminate": Explanation(("datasets",), _discriminate),
    "duplicates": Explanation(
        ("scores", "duplicate"),
        lambda it: followups.without_duplicates(
            it.scores.outcomes("original"), it.duplicate, it.scores.new.accuracy, it.config.confidence
        ),
    ),
    "balanced": Explanation(
        ("scores", "label"), lambda it: followups.class_balanced(it.outcomes, it.label, it.config.confidence)
    ),
    "breakdown": Explanation(
        ("scores", "groups"),
        lambda it: followups.breakdown(
            it.outcomes, it.groups, it.config.by, bins=it.config.bins, confidence=it.config.confidence
        ),
    ),
    "shared-errors": Explanation(
        ("scores",), lambda it: followups.shared_errors(it.outcomes, it.config.confidence)
    ),
    "hardest": Explanation(("scores",), lambda it: followups.hardest_of(it.scores, fraction=it.config.fraction)),
    "humans": Explanation(("responses",), _humans),
    "strategies": Explanation(
        ("new_sets",),
        lambda it: gaps.strategies(it.new_sets, frequencies=it.config.frequencies, **it.level_and_seed),
    ),
    "crossval": Explanation(("splits",), lambda it: gaps.cross_validation(it.splits, it.config.confidence)),
}


def explain(
    original: Any = None,
    new: Any = None,
    *,
    examples: Any = None,
    original_data: Any = None,
    new_data: Any = None,
    new_sets: Mapping[str, Any] | None = None,
    responses: Any = None,
    splits: Any = None,
    config: ExplainConfig | None = None,
    **changes: Any,
) -> Explanations:
    """What could explain that models score lower on a new test set: all explanations that the inputs allow.

    Args:
        original: scores on the original set, as for :func:`compare`; without ``new``, a file with both sets.
        new: the same on the new set.
        examples: table with a row per example, in order or with ``id``: columns ``duplicate``, ``label``, others.
        original_data: the examples of the original set: a dataset, or what :meth:`hardpan.Dataset.open` opens.
        new_data: the same of the new set.
        new_sets: several new test sets by name, each a source as for :func:`compare`.
        responses: answers of people, as for :func:`human_table`.
        splits: accuracies on cross-validation splits, as for :func:`cross_validation`.
        config: the settings; further keyword arguments replace its fields (``only=("decompose",)``).

    Example:
        >>> from hardpan.testbed import simulate
        >>> pair = simulate([0.0, 1.0, 2.0, 3.0], examples=(300, 200))
        >>> result = explain(*pair, only=("decompose", "hardest"), bootstrap=200)
        >>> list(result.results), result.results["decompose"].beyond_chance
        (['decompose', 'hardest'], 3)
    """
    settings = replace(config or ExplainConfig(), **changes)
    one_of("test_set", settings.test_set, ("original", "new"))
    for name in settings.only:
        one_of("only", name, EXPLANATIONS)
    inputs = Inputs(
        settings,
        None if original is None else two_sets(original, new),
        None if examples is None else tables.read_columns(examples, name="examples"),
        _test_examples(original_data),
        _test_examples(new_data),
        new_sets,
        responses,
        splits,
    )
    results, skipped = {}, {}
    for name in settings.only or EXPLANATIONS:
        missing = [NEEDS[need] for need in EXPLANATIONS[name].needs if getattr(inputs, need) is None]
        if missing and settings.only:
            raise InputError(f"{name} needs {' and '.join(missing)}", argument="only")
        if not missing:
            try:
                results[name] = EXPLANATIONS[name].compute(inputs)
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


def _test_examples(source: Any) -> Dataset | None:
    """A dataset, of which the official test split where it has one."""
    if source is None:
        return None
    dataset = Dataset.open(source)
    return dataset if dataset.split is None else dataset.select(split="test")
