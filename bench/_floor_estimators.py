"""The estimators that the topic ``floor`` measures on sets whose floor is known, and how to add one.

An estimator is a function ``(x_train, y_train, x_test, y_test)`` that gives an
:class:`~hardpan.estimates.Estimate`, or several by name. It may also take, by keyword, any of ``x_validation``,
``y_validation``, ``n_classes``, ``votes`` (counts for the test examples), ``posterior`` (exact, of the test
examples), ``seed`` and ``confidence``. Name yours as ``module:function`` in BENCH_ESTIMATORS; its attribute
``roles`` (a mapping of name to "estimate", "lower" or "upper") says what its numbers claim to be, "estimate" if
there is none. Here, register it with :func:`floor_estimator`.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.bayes.floors import neighbour_bounds, plug_in, vote_floor
from hardpan.errors import InputError
from hardpan.estimates import Estimate

Array = NDArray[Any]
Function = Callable[..., Estimate | Mapping[str, Estimate]]


@dataclass(frozen=True, slots=True)
class FloorEstimator:
    """An estimator: its name, the function, and what each of its numbers claims to be."""

    name: str
    function: Function
    roles: Mapping[str, str]

    def __call__(self, **inputs: Any) -> dict[str, Estimate]:
        """Call the function with those inputs that it takes; a single estimate has the name ""."""
        taken = inspect.signature(self.function).parameters
        everything = any(item.kind is item.VAR_KEYWORD for item in taken.values())
        selected = {key: value for key, value in inputs.items() if everything or key in taken}
        result = self.function(**selected)
        several = dict(result) if isinstance(result, Mapping) else {"": result}
        for item in several.values():
            if not isinstance(item, Estimate):
                raise TypeError(f"{self.name} gave a {type(item).__name__}, not an Estimate")
        return several


ESTIMATORS: dict[str, FloorEstimator] = {}
"""Estimators by name."""


def floor_estimator(name: str, **roles: str) -> Callable[[Function], Function]:
    """Register an estimator; ``roles`` says what its numbers are, a single estimate of the floor by default."""

    def add(function: Function) -> Function:
        ESTIMATORS[name] = FloorEstimator(name, function, roles or {"": "estimate"})
        return function

    return add


def find_estimator(name: str) -> FloorEstimator:
    """The estimator of that name, or the function ``module:function`` on the import path."""
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise InputError(
            f"must be one of {', '.join(ESTIMATORS)} or module:function; got {name!r}", argument="estimator"
        )
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f": {name}: cannot be imported ({error}); is it on the import path?", argument="estimator"
        ) from error
    if not callable(function):
        raise InputError(f": {name}: is a {type(function).__name__}; give a function", argument="estimator")
    return FloorEstimator(name, function, getattr(function, "roles", {"": "estimate"}))


@floor_estimator("neighbours", lower="lower", upper="upper")
def _neighbours(
    x_train: Array,
    y_train: Array,
    x_test: Array,
    y_test: Array,
    *,
    x_validation: Array,
    y_validation: Array,
    n_classes: int,
    confidence: float,
) -> dict[str, Estimate]:
    """Cover and Hart's bound from one neighbour, and the error of k neighbours."""
    result = neighbour_bounds(
        x_train,
        y_train,
        x_test,
        y_test,
        n_classes=n_classes,
        confidence=confidence,
        k=None,
        validation=(x_validation, y_validation),
    )
    return {"lower": result.lower, "upper": result.upper}


@floor_estimator("network", raw="estimate")
def _network(
    x_train: Array,
    y_train: Array,
    x_test: Array,
    *,
    n_classes: int,
    confidence: float,
    seed: int,
) -> dict[str, Estimate]:
    """The plug-in of a small network."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    mean, scale = x_train.mean(axis=0), x_train.std(axis=0)
    scale[scale == 0] = 1.0
    model = MLPClassifier((64,), max_iter=60, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit((x_train - mean) / scale, y_train)

    def probabilities(x: Array) -> Array:
        result = np.zeros((len(x), n_classes))
        result[:, model.classes_] = model.predict_proba((x - mean) / scale)
        return result

    return {"raw": plug_in(probabilities(x_test), confidence=confidence)}


@floor_estimator("votes", **{"left one out": "upper", "uncorrected": "lower"})
def _votes(*, votes: Array, confidence: float) -> dict[str, Estimate]:
    """Votes: the uncorrected estimate and the leave-one-vote-out error."""
    result = vote_floor(votes, confidence=confidence)
    return {"left one out": result.left_out, "uncorrected": result.uncorrected}


@floor_estimator("soft-labels")
def _soft_labels(*, posterior: Array, confidence: float) -> Estimate:
    """Exact soft labels of the test examples: what perfect annotators would give."""
    return plug_in(posterior, confidence=confidence)
