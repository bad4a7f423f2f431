"""What could explain a drop? Near-duplicates, class balance, sub-classes, selection frequency, image attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.stats import normal, share

Booleans = NDArray[np.bool_]
_GREY = np.array([0.299, 0.587, 0.114])
FREQUENCY_EDGES = (0.2, 0.4, 0.6, 0.8)


@record
@dataclass(frozen=True, slots=True)
class DuplicateCorrection:
    """One model's accuracy with and without the near-duplicates of the original test set.

    Attributes:
        accuracy: on the whole original set.
        without: on the examples that are not near-duplicates of training data.
        on_duplicates: on the near-duplicates.
        explained: ``accuracy − without``: how much of a drop the duplicates can explain.
        drop: ``accuracy`` less the accuracy on the new set; NaN where that was not given.
        left: the drop that remains, ``without`` less the accuracy on the new set.
    """

    model: str
    accuracy: Estimate
    without: Estimate
    on_duplicates: Estimate
    explained: float
    drop: float
    left: float


@record
@dataclass(frozen=True, slots=True)
class Slice:
    """Accuracy of one model on the examples that share a property, with its exact interval."""

    model: str
    part: str
    accuracy: Estimate


@record
@dataclass(frozen=True, slots=True)
class Balanced:
    """Accuracy if every class counted the same, beside the plain one."""

    model: str
    accuracy: Estimate
    balanced: Estimate


def true_accuracy(accuracy: float, duplicates: float, on_duplicates: float = 1.0) -> float:
    """Solve acc = (1 − d) acc_true + d acc_nd for the accuracy on examples that are not near-duplicates.

    Args:
        accuracy: on the whole set.
        duplicates: fraction d of near-duplicates.
        on_duplicates: accuracy on them, 1 for the largest correction.

    Source: the replication paper, appendix B.2.2.

    Example:
        >>> round(true_accuracy(0.93, 0.08), 3)
        0.924
    """
    if not 0 <= duplicates < 1:
        raise InputError(f"duplicates must be a fraction in [0, 1); got {duplicates}")
    if not 0 <= on_duplicates <= 1:
        raise InputError(f"on_duplicates must be an accuracy in 0..1; got {on_duplicates}")
    value = (accuracy - duplicates * on_duplicates) / (1 - duplicates)
    if not 0 <= accuracy <= 1 or not -1e-9 <= value <= 1 + 1e-9:
        raise InputError(
            f"accuracy {accuracy} does not fit {duplicates:g} duplicates of accuracy {on_duplicates:g}: "
            f"the rest would have {value:.3f}"
        )
    return min(max(value, 0.0), 1.0)


def without_duplicates(
    models: Sequence[str],
    right: ArrayLike,
    duplicate: ArrayLike,
    new_accuracy: ArrayLike | None = None,
    confidence: float = 0.95,
) -> tuple[DuplicateCorrection, ...]:
    """Accuracies without near-duplicates, and how much of each model's drop they can explain.

    Args:
        models: (M,) names.
        right: (M, N) on the original set.
        duplicate: (N,) True for near-duplicates of training examples.
        new_accuracy: (M,) accuracies on the new set, for the drop.

    Source: the replication paper, appendix B.2.2.

    Example:
        >>> found = without_duplicates(["m"], [[1, 1, 1, 0]], [True, False, False, False], [0.5])[0]
        >>> round(found.explained, 3), round(found.drop, 3), round(found.left, 3)
        (0.083, 0.25, 0.167)
    """
    answers = check_right(models, right)
    marked = _flags("duplicate", duplicate, answers.shape[1])
    if marked.all():
        raise InputError("duplicate marks every example; nothing is left to correct by")
    fresh = np.full(len(models), np.nan) if new_accuracy is None else np.asarray(new_accuracy, dtype=np.float64)
    if fresh.shape != (len(models),):
        raise InputError(f"new_accuracy must be ({len(models)},), one for each model; got shape {fresh.shape}")
    rows = []
    for name, row, new in zip(models, answers, fresh, strict=True):
        whole, rest = _share(row, confidence), _share(row[~marked], confidence)
        known = _share(row[marked], confidence)
        rows.append(
            DuplicateCorrection(
                name,
                whole,
                rest,
                known,
                whole.value - rest.value,
                whole.value - float(new),
                rest.value - float(new),
            )
        )
    return tuple(rows)


def class_balanced(
    models: Sequence[str], right: ArrayLike, labels: ArrayLike, confidence: float = 0.95
) -> tuple[Balanced, ...]:
    """Accuracies with every class weighted alike: the mean of the accuracies by class.

    Standard error sqrt(Σ_c p_c (1 − p_c) / n_c) / C, normal interval; p_c is taken as (k + ½)/(n + 1) in the error
    alone, so that a class that is always right still counts with some.

    Example:
        >>> class_balanced(["m"], [[1, 1, 1, 0]], [0, 0, 0, 1])[0].balanced.value
        0.5
    """
    answers = check_right(models, right)
    classes, codes = np.unique(_labels("labels", labels, answers.shape[1]), return_inverse=True)
    sizes = np.bincount(codes)
    rows = []
    for name, row in zip(models, answers, strict=True):
        hits = np.bincount(codes, weights=row)
        value = float((hits / sizes).mean())
        smooth = (hits + 0.5) / (sizes + 1)
        error = float(np.sqrt((smooth * (1 - smooth) / sizes).sum()) / len(classes))
        method = f"mean over {len(classes)} classes, normal interval"
        balanced = normal(value, error, len(row), confidence, least=0.0, most=1.0, method=method)
        rows.append(Balanced(name, _share(row, confidence), balanced))
    return tuple(rows)


def by_part(
    models: Sequence[str], right: ArrayLike, parts: ArrayLike, confidence: float = 0.95
) -> tuple[Slice, ...]:
    """Accuracy of every model on every sub-class (or source, or any other name), with exact intervals.

    Example:
        >>> [(s.part, s.accuracy.value) for s in by_part(["m"], [[1, 1, 0]], ["cat", "cat", "dog"])]
        [('cat', 1.0), ('dog', 0.0)]
    """
    answers = check_right(models, right)
    names, codes = np.unique(_labels("parts", parts, answers.shape[1]).astype(np.str_), return_inverse=True)
    return tuple(
        Slice(model, str(part), _share(row[codes == code], confidence))
        for model, row in zip(models, answers, strict=True)
        for code, part in enumerate(names)
    )


def by_frequency(
    models: Sequence[str],
    right: ArrayLike,
    frequency: ArrayLike,
    edges: Sequence[float] = FREQUENCY_EDGES,
    confidence: float = 0.95,
) -> tuple[Slice, ...]:
    """Accuracy of every model by bin of the images' selection frequency, as in the paper's Figure 15.

    Bins are closed below and open above, [0, .2), [.2, .4), …, the last closed at 1; empty bins are left out.

    Example:
        >>> [s.part for s in by_frequency(["m"], [[1, 0, 1]], [0.1, 0.2, 1.0])]
        ['[0, 0.2)', '[0.2, 0.4)', '[0.8, 1]']
    """
    answers = check_right(models, right)
    values = _numbers("frequency", frequency, answers.shape[1])
    if values.min() < 0 or values.max() > 1:
        raise InputError(f"frequency must lie in 0..1; got {values.min():g} to {values.max():g}")
    return _by_bin(models, answers, values, (0.0, *edges, 1.0), confidence)


def by_attribute(
    models: Sequence[str], right: ArrayLike, attribute: ArrayLike, bins: int = 5, confidence: float = 0.95
) -> tuple[Slice, ...]:
    """Accuracy of every model by quantile bin of an attribute such as brightness; see :func:`image_attributes`."""
    answers = check_right(models, right)
    values = _numbers("attribute", attribute, answers.shape[1])
    if bins < 1:
        raise InputError(f"bins must be at least 1; got {bins}")
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)))
    if len(edges) == 1:
        edges = np.array([edges[0], edges[0]])
    return _by_bin(models, answers, values, tuple(float(e) for e in edges), confidence)


def image_attributes(images: ArrayLike | Sequence[ArrayLike]) -> dict[str, NDArray[np.float64]]:
    """Brightness, contrast, greyness and size of images, in 0..1 but for the size.

    Brightness is the mean of the grey value, contrast its standard deviation, grey 1 − the mean distance between
    the largest and smallest colour channel, size the number of pixels.

    Args:
        images: (N, H, W) or (N, H, W, 3), or a list of images of different sizes; uint8, or floats in 0..1.

    Example:
        >>> {k: v.tolist() for k, v in image_attributes(np.full((1, 2, 2, 3), 255, np.uint8)).items()}
        {'brightness': [1.0], 'contrast': [0.0], 'grey': [1.0], 'size': [4.0]}
    """
    rows = []
    for number, image in enumerate(images):  # type: ignore[arg-type]
        pixels: NDArray[Any] = np.asarray(image)
        if pixels.ndim == 2:
            pixels = pixels[:, :, None]
        if pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4) or pixels.size == 0:
            raise InputError(
                f"images must be (H, W), (H, W, 1) or (H, W, 3); image {number} has shape {np.shape(image)}"
            )
        values = pixels[:, :, :3].astype(np.float64) / (255.0 if pixels.dtype == np.uint8 else 1.0)
        if values.min() < 0 or values.max() > 1:
            raise InputError(f"images must be uint8 or floats in 0..1; image {number} goes to {values.max():g}")
        light = values @ _GREY if values.shape[2] == 3 else values[:, :, 0]
        colour = float((values.max(axis=2) - values.min(axis=2)).mean())
        rows.append((float(light.mean()), float(light.std()), 1.0 - colour, float(light.size)))
    if not rows:
        raise InputError("images is empty; give at least one")
    return dict(zip(("brightness", "contrast", "grey", "size"), np.array(rows).round(12).T, strict=True))


def _by_bin(
    models: Sequence[str],
    answers: Booleans,
    values: NDArray[np.float64],
    edges: tuple[float, ...],
    confidence: float,
) -> tuple[Slice, ...]:
    last = len(edges) - 2
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, last)
    names = [f"[{edges[i]:g}, {edges[i + 1]:g}{']' if i == last else ')'}" for i in range(last + 1)]
    return tuple(
        Slice(model, names[i], _share(row[place == i], confidence))
        for model, row in zip(models, answers, strict=True)
        for i in range(last + 1)
        if (place == i).any()
    )


def _share(right: Booleans, confidence: float) -> Estimate:
    n = len(right)
    if n == 0:
        return Estimate(np.nan, np.nan, 0.0, 1.0, confidence, "no examples", 0)
    return share(int(right.sum()), n, confidence)


def check_right(models: Sequence[str], right: ArrayLike) -> Booleans:
    """Give right and wrong as booleans, a row a model, or refuse them."""
    array: NDArray[Any] = np.asarray(right)
    if array.ndim != 2 or array.shape[0] != len(models) or array.shape[1] == 0:
        raise InputError(f"right must be ({len(models)}, N), a row a model; got shape {array.shape}")
    if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
        raise InputError("right must hold 0 and 1 alone; compare predictions with labels first")
    return array.astype(bool)


def _flags(name: str, values: ArrayLike, size: int) -> Booleans:
    array = _labels(name, values, size)
    if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
        raise InputError(f"{name} must hold 0 and 1 alone; got {array.dtype}")
    return array.astype(bool)


def _numbers(name: str, values: ArrayLike, size: int) -> NDArray[np.float64]:
    array = _labels(name, values, size)
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise InputError(f"{name} must hold finite numbers, one for each example")
    return array.astype(np.float64)


def _labels(name: str, values: ArrayLike, size: int) -> NDArray[Any]:
    array: NDArray[Any] = np.asarray(values)
    if array.shape != (size,):
        raise InputError(f"{name} must be ({size},), one for each example; got shape {array.shape}")
    return array
