"""What could explain a drop? Near-duplicates, class balance, sub-classes, selection frequency, image attributes,
errors that models share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.arguments import real_number, whole_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.outcomes import Outcomes
from hardpan.report.base import Report
from hardpan.stats import normal, share
from hardpan.stats.agreement import kappa_from_table

Booleans = NDArray[np.bool_]
_GREY = np.array([0.299, 0.587, 0.114])
FREQUENCY_EDGES = (0.2, 0.4, 0.6, 0.8)
_GAP = 2  # pixels between images


@record
class DuplicateCorrection:
    """One model's accuracy with and without the near-duplicates of the original test set.

    Attributes:
        accuracy: on the whole original set.
        without: on the examples that are not near-duplicates of training data.
        on_duplicates: on the near-duplicates.
        explained: ``accuracy − without``: how much of a drop the duplicates can explain.
        drop: ``accuracy`` less the accuracy on the new set; NaN where that is unknown.
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
class Slice:
    """Accuracy of one model on the examples that share a property, with its exact interval."""

    model: str
    group: str
    accuracy: Estimate


@record
class Balanced:
    """Accuracy if every class counted the same, beside the plain one."""

    model: str
    accuracy: Estimate
    balanced: Estimate


@record
class Duplicates(Report):
    """What :func:`without_duplicates` returns: one row per model."""

    rows: tuple[DuplicateCorrection, ...]
    duplicates: int
    examples: int


@record
class ClassBalance(Report):
    """What :func:`class_balanced` returns: one row per model."""

    rows: tuple[Balanced, ...]


@record
class Breakdown(Report):
    """Accuracies by model and group of examples, and the property that groups them."""

    by: str
    rows: tuple[Slice, ...]


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
    real_number("duplicates", duplicates, "[0, 1)")
    real_number("on_duplicates", on_duplicates, "[0, 1]")
    value = (accuracy - duplicates * on_duplicates) / (1 - duplicates)
    if not 0 <= accuracy <= 1 or not -1e-9 <= value <= 1 + 1e-9:
        raise InputError(
            f"accuracy {accuracy} does not fit {duplicates:g} duplicates of accuracy {on_duplicates:g}: "
            f"the rest would have {value:.3f}"
        )
    return min(max(value, 0.0), 1.0)


def without_duplicates(
    outcomes: Any, duplicate: ArrayLike, new_accuracy: ArrayLike | None = None, confidence: float = 0.95
) -> Duplicates:
    """Accuracies without near-duplicates, and how much of each model's drop they can explain.

    Args:
        outcomes: right or wrong on the original set: outcomes, or what :meth:`hardpan.Outcomes.open` opens.
        duplicate: (N,) True for near-duplicates of training examples.
        new_accuracy: (M,) accuracies on the new set, for the drop.
        confidence: level of the intervals.

    Source: the replication paper, appendix B.2.2.

    Example:
        >>> right = Outcomes.from_arrays([[1, 1, 1, 0]])
        >>> row = without_duplicates(right, [True, False, False, False], [0.5]).rows[0]
        >>> round(row.explained, 3), round(row.drop, 3), round(row.left, 3)
        (0.083, 0.25, 0.167)
    """
    models, answers = _answers(outcomes)
    marked = _flags(duplicate, answers.shape[1])
    if marked.all():
        raise InputError("duplicate marks every example; nothing is left to correct by")
    fresh = np.full(len(models), np.nan) if new_accuracy is None else np.asarray(new_accuracy, dtype=np.float64)
    if fresh.shape != (len(models),):
        raise InputError(
            f"must be ({len(models)},), one for each model; got shape {fresh.shape}", argument="new_accuracy"
        )
    rows = []
    for name, row, new in zip(models, answers, fresh.tolist(), strict=True):
        whole, rest = _share(row, confidence), _share(row[~marked], confidence)
        explained, drop, left = whole.value - rest.value, whole.value - new, rest.value - new
        rows.append(DuplicateCorrection(name, whole, rest, _share(row[marked], confidence), explained, drop, left))
    return Duplicates(tuple(rows), int(marked.sum()), len(marked))


def class_balanced(outcomes: Any, labels: ArrayLike, confidence: float = 0.95) -> ClassBalance:
    """Accuracies with every class weighted alike: the mean of the accuracies by class.

    Standard error sqrt(Σ_c p_c (1 − p_c) / n_c) / C, normal interval; p_c is taken as (k + ½)/(n + 1) in the error
    alone, so that a class that is always right still counts with some.

    Example:
        >>> class_balanced(Outcomes.from_arrays([[1, 1, 1, 0]]), [0, 0, 0, 1]).rows[0].balanced.value
        0.5
    """
    models, answers = _answers(outcomes)
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
    return ClassBalance(tuple(rows))


def by_label(outcomes: Any, labels: ArrayLike, confidence: float = 0.95, *, by: str = "label") -> Breakdown:
    """Accuracy of every model on every sub-class (or source, or any other label), with exact intervals.

    Example:
        >>> right = Outcomes.from_arrays([[1, 1, 0]])
        >>> [(s.group, s.accuracy.value) for s in by_label(right, ["cat", "cat", "dog"]).rows]
        [('cat', 1.0), ('dog', 0.0)]
    """
    models, answers = _answers(outcomes)
    names, codes = np.unique(_labels("labels", labels, answers.shape[1]).astype(np.str_), return_inverse=True)
    return Breakdown(by, _slices(models, answers, codes, names.tolist(), confidence))


def by_frequency(
    outcomes: Any, frequency: ArrayLike, edges: Sequence[float] = FREQUENCY_EDGES, confidence: float = 0.95
) -> Breakdown:
    """Accuracy of every model by bin of the images' selection frequency, as in the paper's Figure 15.

    Bins are closed below and open above, [0, .2), [.2, .4), …, the last closed at 1; empty bins are left out.

    Example:
        >>> [s.group for s in by_frequency(Outcomes.from_arrays([[1, 0, 1]]), [0.1, 0.2, 1.0]).rows]
        ['[0, 0.2)', '[0.2, 0.4)', '[0.8, 1]']
    """
    models, answers = _answers(outcomes)
    values = _numbers("frequency", frequency, answers.shape[1])
    if values.min() < 0 or values.max() > 1:
        raise InputError(f"must lie in 0..1; got {values.min():g} to {values.max():g}", argument="frequency")
    return Breakdown("frequency", _by_bin(models, answers, values, (0.0, *edges, 1.0), confidence))


def by_attribute(
    outcomes: Any, attribute: ArrayLike, bins: int = 5, confidence: float = 0.95, *, by: str = "attribute"
) -> Breakdown:
    """Accuracy of every model by quantile bin of an attribute such as brightness; see :func:`image_attributes`."""
    models, answers = _answers(outcomes)
    values = _numbers("attribute", attribute, answers.shape[1])
    whole_number("bins", bins, 1)
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)))
    if len(edges) == 1:
        edges = np.array([edges[0], edges[0]])
    return Breakdown(by, _by_bin(models, answers, values, tuple(float(e) for e in edges), confidence))


def breakdown(
    outcomes: Any, values: Sequence[Any], by: str, *, bins: int = 5, confidence: float = 0.95
) -> Breakdown:
    """Accuracy by the values of a column: selection frequencies in fixed bins, other numbers in quantile bins."""
    try:
        numbers = np.array([float(value) for value in values])
    except (TypeError, ValueError):
        return by_label(outcomes, np.array([str(value) for value in values]), confidence, by=by)
    if by in ("frequency", "selection_frequency"):
        return by_frequency(outcomes, numbers, confidence=confidence)
    if len(np.unique(numbers)) <= max(bins, 20):
        return by_label(outcomes, numbers.astype(np.str_), confidence, by=by)
    return by_attribute(outcomes, numbers, bins, confidence, by=by)


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
                f"must be (H, W), (H, W, 1) or (H, W, 3); image {number} has shape {np.shape(image)}",
                argument="images",
            )
        values = pixels[:, :, :3].astype(np.float64) / (255.0 if pixels.dtype == np.uint8 else 1.0)
        if values.min() < 0 or values.max() > 1:
            raise InputError(
                f"must be uint8 or floats in 0..1; image {number} goes to {values.max():g}", argument="images"
            )
        light = values @ _GREY if values.shape[2] == 3 else values[:, :, 0]
        colour = float((values.max(axis=2) - values.min(axis=2)).mean())
        rows.append((float(light.mean()), float(light.std()), 1.0 - colour, float(light.size)))
    if not rows:
        raise InputError("images is empty; give at least one")
    return dict(zip(("brightness", "contrast", "grey", "size"), np.array(rows).round(12).T, strict=True))


def _by_bin(
    models: Sequence[str], answers: Booleans, values: NDArray[np.float64], edges: Sequence[float], confidence: float
) -> tuple[Slice, ...]:
    last = len(edges) - 2
    bin_of = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, last)
    names = [f"[{edges[i]:g}, {edges[i + 1]:g}{']' if i == last else ')'}" for i in range(last + 1)]
    return _slices(models, answers, bin_of, names, confidence)


def _slices(
    models: Sequence[str], answers: Booleans, codes: NDArray[np.int64], names: Sequence[str], confidence: float
) -> tuple[Slice, ...]:
    """Accuracies by model and group, ``codes`` being the groups' numbers; groups without examples are left out."""
    groups = [(str(name), codes == code) for code, name in enumerate(names)]
    return tuple(
        Slice(model, name, _share(row[members], confidence))
        for model, row in zip(models, answers, strict=True)
        for name, members in groups
        if members.any()
    )


def _share(right: Booleans, confidence: float) -> Estimate:
    return share(int(right.sum()), len(right), confidence)


def _answers(outcomes: Any) -> tuple[tuple[str, ...], Booleans]:
    """Names of the models, and right or wrong, (M, N)."""
    opened = Outcomes.open(outcomes)
    if opened.totals is not None:
        raise InputError("must be right or wrong example by example; got counts", argument="outcomes")
    scores = opened.item_scores()
    if not np.isin(scores, (0, 1)).all():
        raise InputError("must be 0 and 1 alone, without missing cells", argument="outcomes")
    return opened.models, scores == 1.0


def _flags(values: ArrayLike, size: int) -> Booleans:
    array = _labels("duplicate", values, size)
    if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
        raise InputError(f"must hold 0 and 1 alone; got {array.dtype}", argument="duplicate")
    return array.astype(bool)


def _numbers(name: str, values: ArrayLike, size: int) -> NDArray[np.float64]:
    array = _labels(name, values, size)
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise InputError("must hold finite numbers, one for each example", argument=name)
    return array.astype(np.float64)


def _labels(name: str, values: ArrayLike, size: int) -> NDArray[Any]:
    array: NDArray[Any] = np.asarray(values)
    if array.shape != (size,):
        raise InputError(f"must be ({size},), one for each example; got shape {array.shape}", argument=name)
    return array


@record
class SharedErrors:
    """How often two models err on the same examples.

    Attributes:
        both: examples that both get wrong.
        expected: how many that would be if their errors were independent.
        kappa: Cohen's κ between right and wrong of the two: 0 as if independent, 1 the same examples.
        same_answer: proportion of the common errors with the same wrong answer; NaN without answers.
    """

    first: str
    second: str
    both: int
    expected: float
    kappa: Estimate
    same_answer: float


@record
class CommonErrors(Report):
    """What :func:`shared_errors` returns.

    Attributes:
        rows: one per pair of models, highest κ first.
        never_right: ids of the examples that no model gets right.
        never_right_rows: their row numbers.
        examples: size of the test set.
    """

    rows: tuple[SharedErrors, ...]
    never_right: tuple[str, ...]
    never_right_rows: tuple[int, ...]
    examples: int


def shared_errors(outcomes: Any, confidence: float = 0.95) -> CommonErrors:
    """Common errors of every pair of models, with Cohen's κ and its large-sample interval.

    κ = (p_o − p_e)/(1 − p_e) with p_o the proportion of examples on which both are right or both wrong and p_e what
    it would be for independent models of the same accuracies; its variance is Fleiss, Cohen and Everitt's (1969).

    Args:
        outcomes: right or wrong: outcomes (with answers: also how often common errors agree), or what opens as
            such.
        confidence: level of the intervals.

    Example:
        >>> pair = shared_errors(Outcomes.from_arrays([[1, 1, 0, 0], [1, 1, 0, 0]])).rows[0]
        >>> pair.both, pair.expected, pair.kappa.value
        (2, 1.0, 1.0)
    """
    opened = Outcomes.open(outcomes)
    models, answers = _answers(opened)
    n = answers.shape[1]
    wrong = (~answers).astype(np.float32)
    both = np.rint(wrong @ wrong.T).astype(np.int64)
    errors = np.diag(both)
    same = np.full(both.shape, np.nan)
    if opened.answers is not None and opened.answers.ndim == 2:
        for i in range(len(models)):
            agree = ((opened.answers == opened.answers[i]) & ~answers & ~answers[i]).sum(axis=1)
            same[i] = np.where(both[i] > 0, agree / np.maximum(both[i], 1), np.nan)
    rows = []
    for i in range(len(models)):
        for j in range(i + 1, len(models)):
            shared, first, second = int(both[i, j]), int(errors[i]), int(errors[j])
            table = np.array([[n - first - second + shared, second - shared], [first - shared, shared]]) / n
            kappa = kappa_from_table(table, n, confidence)
            rows.append(SharedErrors(models[i], models[j], shared, first * second / n, kappa, float(same[i, j])))
    rows.sort(key=lambda pair: -float(np.nan_to_num(pair.kappa.value, nan=-2.0)))
    never = np.flatnonzero(~answers.any(axis=0))
    return CommonErrors(tuple(rows), tuple(opened.items[never].tolist()), tuple(never.tolist()), n)


def contact_sheet(images: ArrayLike, columns: int = 10, scale: int = 1) -> NDArray[np.uint8]:
    """Arrange images of one size in rows, with white gaps, as one RGB picture.

    Args:
        images: (n, H, W), (n, H, W, 1) or (n, H, W, 3); uint8, or floats in 0..1.
        columns: images per row.
        scale: whole factor by which small images are enlarged.

    Returns:
        (rows, columns, 3) pixels.

    Example:
        >>> contact_sheet(np.zeros((3, 4, 4)), columns=2).shape
        (14, 14, 3)
    """
    pixels: NDArray[Any] = np.asarray(images)
    if pixels.ndim == 3:
        pixels = pixels[:, :, :, None]
    if pixels.ndim != 4 or pixels.shape[3] not in (1, 3) or pixels.size == 0:
        raise InputError(
            f"must be (n, H, W), (n, H, W, 1) or (n, H, W, 3); got shape {np.shape(images)}", argument="images"
        )
    whole_number("columns", columns, 1)
    whole_number("scale", scale, 1)
    if pixels.dtype != np.uint8:
        if not np.isfinite(pixels).all() or pixels.min() < 0 or pixels.max() > 1:
            raise InputError("must be uint8, or floats in 0..1", argument="images")
        pixels = np.rint(pixels * 255).astype(np.uint8)
    pixels = np.broadcast_to(pixels, (*pixels.shape[:3], 3)).repeat(scale, axis=1).repeat(scale, axis=2)
    count, height, width, _ = pixels.shape
    columns = min(columns, count)
    rows = -(-count // columns)
    sheet = np.full((rows * (height + _GAP) + _GAP, columns * (width + _GAP) + _GAP, 3), 255, dtype=np.uint8)
    for i, image in enumerate(pixels):
        top, left = _GAP + i // columns * (height + _GAP), _GAP + i % columns * (width + _GAP)
        sheet[top : top + height, left : left + width] = image
    return sheet
