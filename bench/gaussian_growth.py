"""How time and memory of importance sampling grow with the number of classes and with the dimension, at a fixed
number of draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench import _truth, harness

DRAWS = 2**14
CLASSES = (10, 30, 100, 300, 1000)
DIMENSIONS = (100, 1000, 10_000, 100_000)
FIXED_CLASSES, FIXED_DIMENSION = 100, 3072
REDUCTION = "of it reduction to K − 1 dimensions"


def prepare(classes: int, dimension: int) -> Any:
    _truth.warm_up()
    return _truth.unit_means(classes, dimension)


def whole(means: Any) -> dict[str, Any]:
    from hardpan import bayes

    # An rtol that is never reached: every call makes the same number of draws.
    e = bayes.gaussian(means, temperature=0.3, method="importance", rtol=1e-9, max_draws=DRAWS)
    return {"draws": e.n}


def reduction(means: Any) -> None:
    from hardpan.bayes.gaussians.shared_covariance import shared_classes

    shared_classes(means, None, None)


def run() -> list[dict[str, Any]]:
    return [
        growth("K", [(k, FIXED_DIMENSION) for k in CLASSES], bound=2.2),
        # Linear, and 0.2 for the noise of a single step and for an input that outgrows the caches on the way.
        growth("d", [(FIXED_CLASSES, d) for d in DIMENSIONS], bound=1.2),
    ]


def growth(axis: str, sizes: Sequence[tuple[int, int]], bound: float) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for classes, dimension in sizes:
        m = harness.isolated(prepare, whole, repeats=3, classes=classes, dimension=dimension)
        r = harness.isolated(prepare, reduction, repeats=7, classes=classes, dimension=dimension)
        rows.append(
            {
                "K": classes,
                "d": dimension,
                "draws": m.output["draws"],
                "seconds": m.median,
                REDUCTION: r.best,
                "extra MB": max(m.extra_megabytes or 0.0, 0.004),
            }
        )
    along = [row[axis] for row in rows]
    fitted: list[dict[str, Any]] = []
    for name, part in ((f"exponent in {axis}", slice(None)), (f"exponent in {axis}, last step", slice(-2, None))):
        slopes = {
            column: harness.exponent(along[part], [row[column] for row in rows][part])
            for column in ("seconds", REDUCTION, "extra MB")
        }
        # Only the reduction looks at all d dimensions; the draws after it would hide how it grows.
        largest = max(slopes.values()) if axis == "d" else max(slopes["seconds"], slopes["extra MB"])
        fitted.append({"fit": name, **slopes, **harness.against(largest, at_most=bound)})
    what = "the number of classes" if axis == "K" else "the dimension"
    notes = [
        f"{DRAWS:,} draws, τ = 0.3, random unit means; median of three calls, of the reduction the best of seven",
        "small sizes are mostly fixed cost, which flattens the fit: the last step shows the slope at the largest",
        "in d the requirement is for the largest of the three exponents, in K for the whole call",
        "memory is beyond the input",
    ]
    columns = ["fit", "K", "d", "draws", *slopes, "must", "met"]
    return harness.table(f"Growth with {what}", [*rows, *fitted], columns=columns, seed=0, notes=notes)
