"""Candidates that need nothing but features and labels: neighbours, spanning tree, Gaussian models.

To add an estimator, write a function from :class:`Examples` to candidates and add its line to ``FROM_FEATURES``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.bayes.floors import neighbours, overlap, tree
from hardpan.bayes.floors.candidates import Candidate, Check
from hardpan.bayes.floors.fitted import SharedGaussian, fit_shared
from hardpan.bayes.floors.inputs import Labels, as_classes, as_features, as_labels
from hardpan.bayes.floors.means import held_out_error
from hardpan.bayes.floors.refits import FitError, fit_error
from hardpan.bayes.floors.weighing import HELD_OUT, own_decisions_check
from hardpan.bayes.floors.wording import percent
from hardpan.bayes.gaussians.methods import gaussian
from hardpan.errors import InputError
from hardpan.estimates import Estimate

MOST_CLASSES = 2000
MOST_COVARIANCE_ROWS = 8192
GAUSSIAN = "the classes are Gaussian with one covariance"
AS_FITTED = "the classes are the Gaussians that were fitted"
NEIGHBOURS_SHARE = "neighbours share a posterior"
# Apart, because a tree of fewer examples is further from its limit: it must not raise the neighbours' lower end.
TREE_NEIGHBOURS_SHARE = "neighbours in the spanning tree share a posterior"
INTEGRAL_ALONE = (
    "The interval is that of the integral alone; it says nothing of how well the model fits these data."
)


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Features and labels in parts: the test part only judges, the validation part may choose.

    Attributes:
        x_train: (n, d) features; images are flattened.
        y_train: (n,) class numbers.
        x_test: (m, d).
        y_test: (m,).
        x_validation: (v, d), or None.
        y_validation: (v,), or None.
        n_classes: K; by default one more than the highest label.
    """

    x_train: NDArray[Any]
    y_train: Labels
    x_test: NDArray[Any]
    y_test: Labels
    x_validation: NDArray[Any] | None = None
    y_validation: Labels | None = None
    n_classes: int = 0

    def __post_init__(self) -> None:
        """Check every part at the door."""
        for part in ("train", "test", "validation"):
            x, y = getattr(self, f"x_{part}"), getattr(self, f"y_{part}")
            if x is None and y is None and part == "validation":
                continue
            rows = as_features(f"x_{part}", x)
            object.__setattr__(self, f"x_{part}", rows)
            object.__setattr__(self, f"y_{part}", as_labels(f"y_{part}", y, len(rows)))
        widths = {x.shape[1] for x in (self.x_train, self.x_test, self.x_validation) if x is not None}
        if len(widths) > 1:
            raise InputError(f"all parts must have the same features; got widths {sorted(widths)}")
        k = as_classes(self.n_classes or None, self.y_train, self.y_test, self.y_validation)
        object.__setattr__(self, "n_classes", k)

    @property
    def validation(self) -> tuple[NDArray[Any], Labels] | None:
        """The validation part, or None where there is none."""
        if self.x_validation is None or self.y_validation is None:
            return None
        return self.x_validation, self.y_validation


def from_neighbours(examples: Examples, confidence: float, seed: int) -> list[Candidate]:
    """The nearest neighbour's error and bound, and the error of k neighbours (:mod:`.neighbours`)."""
    found = neighbours.bracket(
        examples.x_train,
        examples.y_train,
        examples.x_test,
        examples.y_test,
        n_classes=examples.n_classes,
        confidence=confidence,
        k=None,
        validation=examples.validation,
    )
    given = [
        Candidate("Nearest-neighbour bound", "lower", found.lower, NEIGHBOURS_SHARE),
        Candidate("Nearest neighbour", "classifier", found.error, HELD_OUT),
    ]
    if found.k > 1:
        given.append(Candidate(f"{found.k} nearest neighbours", "classifier", found.upper, HELD_OUT))
    if found.k_lower is not None:
        given.append(Candidate(f"Bound of {found.k} neighbours", "lower", found.k_lower, NEIGHBOURS_SHARE))
    return given


def from_tree(examples: Examples, confidence: float, seed: int) -> list[Candidate]:
    """The Henze–Penrose bounds by the minimal spanning tree of the training part (:mod:`.tree`)."""
    found = tree.henze_penrose(
        examples.x_train, examples.y_train, n_classes=examples.n_classes, confidence=confidence, seed=seed
    )
    return [
        Candidate("Lower spanning-tree bound", "lower", found.lower, TREE_NEIGHBOURS_SHARE),
        Candidate("Upper spanning-tree bound", "upper", found.upper, TREE_NEIGHBOURS_SHARE),
    ]


def from_gaussian(examples: Examples, confidence: float, seed: int) -> list[Candidate]:
    """The exact Bayes error of Gaussian classes with one shrunk covariance, and its classifier (:mod:`.fitted`)."""
    n_classes = len(np.unique(examples.y_train))
    width = examples.x_train.shape[1]
    if n_classes > MOST_CLASSES:
        raise InputError(f"it is computed for at most {MOST_CLASSES:,} classes; got {n_classes:,}")
    if min(width, len(examples.x_train)) > MOST_COVARIANCE_ROWS:
        raise InputError(f"its covariance has at most {MOST_COVARIANCE_ROWS:,} rows; got {width:,} features")
    model = fit_shared(examples.x_train, examples.y_train)
    wrong, n = int((model.decide(examples.x_test) != examples.y_test).sum()), len(examples.y_test)
    made = held_out_error(
        wrong,
        n,
        method=f"decisions of the Gaussian model, {model.n:,} training examples, shrinkage {model.shrinkage:.2g}",
        confidence=confidence,
    )
    found, error = gaussian_floor(model, confidence=confidence, seed=seed)
    if error is None:
        check = own_decisions_check(found, made)
    else:
        expected = f"if it were right, its own decisions would err on {percent(float(error.made.mean()))}"
        check = Check(error.p_value(wrong, n), f"{expected}, and they do on {percent(made.value)}")
    return [
        Candidate("Gaussian model", "estimate", found, GAUSSIAN if error else AS_FITTED, check),
        Candidate("Gaussian classifier", "classifier", made, HELD_OUT),
    ]


def gaussian_floor(
    model: SharedGaussian, *, confidence: float = 0.95, seed: int = 0
) -> tuple[Estimate, FitError | None]:
    """The Bayes error of fitted Gaussian classes: corrected for the error of the fit, or of the integral alone.

    Returns:
        The estimate, and what the error of the fit does, or None where refits would take too long: the estimate is
        then that of the very model that was fitted, and says so.
    """
    exact = gaussian(model.means, model.cov, model.priors, seed=seed)
    found = fit_error(model, exact, confidence=confidence, seed=seed)
    if found is not None:
        return found.error, found
    method = f"Bayes error of the model fitted on train ({exact.method})"
    return dataclasses.replace(exact, method=method, notes=(*exact.notes, INTEGRAL_ALONE)), None


def from_overlap(examples: Examples, confidence: float, seed: int) -> list[Candidate]:
    """Bhattacharyya's bounds, one Gaussian a class, and that model's classifier (:mod:`.overlap`)."""
    found = overlap.bhattacharyya(
        examples.x_train,
        examples.y_train,
        x_test=examples.x_test,
        y_test=examples.y_test,
        confidence=confidence,
    )
    assert found.classifier is not None
    made, most = found.classifier, found.upper
    # Under the assumption the errors made are at least E and E at most the upper bound: only an excess speaks.
    p_value = own_decisions_check(most, made).p_value if made.value > most.value else 1.0
    sentence = (
        f"it promises at most {percent(most.value)} of errors, and its own decisions make {percent(made.value)}"
    )
    check = Check(p_value, sentence)
    return [
        Candidate("Lower Bhattacharyya bound", "lower", found.lower, overlap.ASSUMPTION, check),
        Candidate("Upper Bhattacharyya bound", "upper", found.upper, overlap.ASSUMPTION, check),
        Candidate("One Gaussian a class", "classifier", made, HELD_OUT),
    ]


FROM_FEATURES: dict[str, Callable[[Examples, float, int], list[Candidate]]] = {
    "neighbours": from_neighbours,
    "tree": from_tree,
    "gaussian": from_gaussian,
    "bhattacharyya": from_overlap,
}
"""Estimators that need only features and labels, by name."""
