"""Examples that differ from the rest: dark, bright, flat or blurred images, odd sizes, and rows far from others."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from hardpan.auditing.evidence import Evidence
from hardpan.bayes.floors.error_estimates import Floats, Labels

LIMIT = 4.0  # deviations from the median, from which on a value is unusual
FLAT = 0.01  # of the range of the pixels: largest deviation in an image that is nearly of one colour
NEIGHBOURS = 5
SCANNED = 1e8  # pixels that are scanned, however late it is
SEARCH_SHARE = 0.05  # of the budget that the search of rows far from others may take
FEWEST = 20  # examples
MOST_LISTED = 200  # rows whose properties are kept
_IMAGES_AT_ONCE = 1024
_LEAST = 1e-6  # of a number whose logarithm is taken
SIDES = {  # what a property of images is called where it is unusually small, and unusually large
    "brightness": ("dark", "bright"),
    "contrast": ("low contrast", ""),
    "sharpness": ("blurred", ""),
    "size": ("small", "large"),
    "width to height": ("narrow", "wide"),
}


def robust_scores(values: Floats) -> Floats:
    """How many deviations each value is above the median, with that of normal values: (q₉₅ − q₅) / 3.29.

    Up to 5 % of values on either side change nothing, however far they are. Where 90 % are equal, the mean distance
    from the median takes the place of the deviation; NaN stays.

    Example:
        >>> robust_scores(np.array([*range(41), 1000.0]))[[0, 40, 41]].round(1).tolist()
        [-1.8, 1.7, 87.3]
    """
    away = values - np.nanmedian(values)
    low, high = np.nanquantile(away, (0.05, 0.95)).tolist()
    deviation = (high - low) / 3.29 or float(np.nanmean(np.abs(away)))
    return np.asarray(away / deviation if deviation > 0 else away)


def image_properties(x: NDArray[Any]) -> dict[str, Floats]:
    """Of each image the mean and the deviation of its levels of grey, and its sharpness, each (N,).

    Levels are fractions of the range of all pixels. Sharpness is the deviation of the Laplacian by that of the
    levels; NaN for images of one colour.

    Args:
        x: (N, H, W) or (N, H, W, C) numbers.

    Source: Pech-Pacheco et al., Diatom autofocusing in brightfield microscopy (2000), for the Laplacian.

    Example:
        >>> board = np.indices((8, 8)).sum(axis=0) % 2
        >>> {name: float(values[0].round(2)) for name, values in image_properties(board[None]).items()}
        {'brightness': 0.5, 'contrast': 0.5, 'sharpness': 8.0}
    """
    low, high = (0.0, 255.0) if x.dtype == np.uint8 and x.max() > 64 else (float(x.min()), float(x.max()))
    values = np.full((3, len(x)), np.nan)
    for start in range(0, len(x), _IMAGES_AT_ONCE):
        grey = (np.asarray(x[start : start + _IMAGES_AT_ONCE], dtype=np.float32) - low) / max(high - low, 1e-12)
        grey = grey.mean(axis=3) if grey.ndim == 4 else grey
        level, contrast = grey.mean(axis=(1, 2)), grey.std(axis=(1, 2))
        values[:2, start : start + len(grey)] = level, contrast
        if min(grey.shape[1:]) > 2:
            around = grey[:, :-2, 1:-1] + grey[:, 2:, 1:-1] + grey[:, 1:-1, :-2] + grey[:, 1:-1, 2:]
            edges = (around - 4 * grey[:, 1:-1, 1:-1]).std(axis=(1, 2))
            sharp = np.where(contrast > FLAT, edges / np.maximum(contrast, FLAT), np.nan)
            values[2, start : start + len(grey)] = sharp
    return dict(zip(("brightness", "contrast", "sharpness"), values, strict=True))


def unusual_images(x: NDArray[Any], sizes: Floats | None = None) -> dict[str, tuple[Labels, Floats]]:
    """Rows of unusual images and their scores by what they are: "one colour", "dark", "blurred", ...

    Of brightness the logarithm of b / (1 − b) is compared, of the others the logarithm. An image is listed from
    :data:`LIMIT` deviations on, once: images of one colour are not called dark or bright as well.

    Args:
        x: (N, H, W) or (N, H, W, C) numbers.
        sizes: (N, 2) width and height of the files, where they differ.

    Example:
        >>> images = np.random.default_rng(0).integers(0, 256, (50, 8, 8)).astype(np.uint8)
        >>> images[3], images[4] = 200, images[4] // 16
        >>> {name: rows.tolist() for name, (rows, _) in unusual_images(images).items()}
        {'one colour': [3], 'dark': [4], 'low contrast': [4]}
    """
    values = image_properties(x)
    brightness = values["brightness"].clip(_LEAST, 1 - _LEAST)
    flat = values["contrast"] <= FLAT
    logs = {name: np.log(np.maximum(column, _LEAST)) for name, column in values.items()}
    logs["brightness"] = np.log(brightness / (1 - brightness))
    logs = {name: np.where(flat, np.nan, column) for name, column in logs.items()}
    if sizes is not None:
        width, height = np.log(np.maximum(sizes, 1.0)).T
        logs |= {"size": width + height, "width to height": width - height}
    unusual = {"one colour": (np.flatnonzero(flat), np.full(int(flat.sum()), np.inf))} if flat.any() else {}
    for name, column in logs.items():
        if not np.isfinite(column).any():
            continue
        scores = np.nan_to_num(robust_scores(column))
        for word, sign in zip(SIDES[name], (-1, 1), strict=True):
            rows = np.flatnonzero(sign * scores > LIMIT) if word else flat[:0].astype(np.int64)
            if len(rows):
                unusual[word] = rows, np.abs(scores[rows])
    return unusual


def far_rows(evidence: Evidence) -> tuple[Labels, Floats, int] | None:
    """Rows far from all others, the farthest first, their mean distances to the five nearest, and rows searched.

    Of equal rows one is searched. Far is a mean distance whose logarithm is :data:`LIMIT` deviations above
    the median or more. None where there are too few rows.
    """
    inputs, split = evidence.inputs, evidence.modelled
    if inputs is None:
        return None
    from hardpan.neighbors.exact import (  # compiled loops, imported when they are first needed
        affordable_pairs,
        nearest,
    )

    x, rows = inputs.table.scaled, np.sort(np.concatenate([split.train, split.validation, split.test]))
    rows = np.setdiff1d(rows, inputs.equal.repeats(rows))
    most = math.isqrt(affordable_pairs(x, SEARCH_SHARE * evidence.config.budget))
    if len(rows) > most:
        rows = np.sort(np.random.default_rng([evidence.config.seed, 15]).choice(rows, most, replace=False))
    if len(rows) < FEWEST or not x.shape[1]:
        return None
    searched = np.ascontiguousarray(x[rows], dtype=np.uint8 if x.dtype == np.uint8 else np.float64)
    away = nearest(searched, searched, NEIGHBOURS, same=True)[0].mean(axis=1)
    away /= math.sqrt(inputs.table.directions) if inputs.table.directions == x.shape[1] else 1.0
    scores = robust_scores(np.log(np.maximum(away, _LEAST)))
    order = np.argsort(-away, kind="stable")
    order = order[scores[order] > LIMIT]
    return rows[order], away[order], len(rows)


def unusual_facts(evidence: Evidence) -> Iterator[tuple[str, Labels, int, dict[str, Any]]]:
    """Kind, rows, how many were searched, and details of the notes "image-quality" and "outliers".

    ``expected`` is how many of so many values of a normal distribution would be beyond the limit, on one side.
    """
    metadata, beyond = evidence.dataset.metadata, float(ndtr(-LIMIT))
    x = evidence.dataset.x
    if evidence.is_images and len(x) >= FEWEST and not (x.size > SCANNED and evidence.is_late("image-quality")):
        sizes = None
        if {"width", "height"} <= metadata.keys():
            sizes = np.column_stack([metadata[name] for name in ("width", "height")]).astype(np.float64)
        unusual = unusual_images(x, sizes)
        if unusual:
            rows = np.concatenate([item for item, _ in unusual.values()])
            words = np.repeat(list(unusual), [len(item) for item, _ in unusual.values()])
            order = np.argsort(-np.concatenate([scores for _, scores in unusual.values()]), kind="stable")
            first = np.sort(np.unique(rows[order], return_index=True)[1])  # of an image its most unusual property
            details = {
                "counts": {word: len(item) for word, (item, _) in unusual.items()},
                "words": tuple(words[order][first][:MOST_LISTED].tolist()),
                "expected": beyond * len(x),
            }
            yield "image-quality", rows[order][first], len(x), details
    far = None if evidence.is_late("outliers") else far_rows(evidence)
    if far is not None and len(far[0]):
        rows, away, searched = far
        details = {"distances": tuple(away[:MOST_LISTED].tolist()), "expected": beyond * searched}
        yield "outliers", rows, searched, details
