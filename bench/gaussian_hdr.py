"""Importance sampling against Holmes–Diaconis–Ross integration at equal accuracy, in K − 1 dimensions and in all d.

The paper integrates in all d dimensions. ``hdr`` here is this package's own, with wrong decisions integrated
directly, priors, and chains that carry only the values of the constraints.
"""

from __future__ import annotations

import signal
from typing import Any

import numpy as np

from bench import _truth, harness

LIMIT = 150  # seconds for one estimate; a row that passes it says so
CASES = ((784, 0.3, 1e-2), (3072, 0.3, 1e-2), (784, 0.1, 0.05), (3072, 0.1, 0.05))
AUTHORS = (
    "the authors' released code, measured elsewhere on one core and not run here: 121 s and 2.8 GB for K = 10, "
    "d = 3072, τ = 0.3"
)


def prepare(dimension: int, temperature: float, rtol: float, seconds: float) -> dict[str, Any]:
    _truth.warm_up()
    means = _truth.unit_means(10, dimension)
    return {"means": means, "temperature": temperature, "rtol": rtol, "seconds": seconds}


def importance(given: dict[str, Any]) -> dict[str, Any]:
    return _solve(given, "importance")


def hdr_reduced(given: dict[str, Any]) -> dict[str, Any]:
    return _solve(given, "hdr")


def hdr_in_all_dimensions(given: dict[str, Any]) -> dict[str, Any]:
    from hardpan.bayes.gaussians.shared_covariance import SharedClasses

    means, n_classes = given["means"], len(given["means"])
    centred = (means - means.mean(axis=0)) / given["temperature"]
    priors = np.full(n_classes, -np.log(n_classes))
    return _solve(given, "hdr", SharedClasses(centred, priors, np.arange(n_classes), n_classes))


def _solve(given: dict[str, Any], method: str, problem: Any = None) -> dict[str, Any]:
    """Estimate within the time limit; memory is measured also where the limit came first."""
    from hardpan.bayes.gaussians.methods import solve_classes
    from hardpan.bayes.gaussians.shared_covariance import shared_classes

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, given["seconds"])
    try:
        if problem is None:
            problem = shared_classes(given["means"], None, None).at(given["temperature"])
        e = solve_classes(problem, method, rtol=given["rtol"], seed=0, max_draws=2**27)
    except TimeoutError:
        return {"finished": False}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {"finished": True, "value": e.value, "share": e.stderr / e.value, "draws": e.n}


def at_equal_stderr(group: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Beside the ratio as run, the ratio of seconds × stderr²: methods stop below rtol, not at it."""
    costs = [row["seconds"] * row["relative stderr"] ** 2 if row["finished"] else None for row in group]
    return [
        row | {"seconds × stderr² ×": None if cost is None else cost / costs[0]}
        for row, cost in zip(group, costs, strict=True)
    ]


def run() -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for dimension, temperature, rtol in CASES:
        group = []
        for name, work in (
            ("importance", importance),
            ("hdr, K − 1 dimensions", hdr_reduced),
            ("hdr, all d dimensions", hdr_in_all_dimensions),
        ):
            # importance takes milliseconds: its median of three; the others run once.
            repeats = 3 if work is importance else 1
            m = harness.isolated(
                prepare, work, repeats=repeats,
                dimension=dimension, temperature=temperature, rtol=rtol, seconds=LIMIT,
            )  # fmt: skip
            group.append(
                {
                    "d": dimension,
                    "τ": temperature,
                    "rtol": rtol,
                    "method": name,
                    "error": m.output.get("value"),
                    "relative stderr": m.output.get("share"),
                    "draws": m.output.get("draws"),
                    "seconds": m.median,
                    # A page is the least that can be measured.
                    "extra MB": max(m.extra_megabytes or 0.0, 0.004),
                    "finished": m.output["finished"],
                }
            )
        rows += at_equal_stderr(harness.ratios(group, group[0], ["seconds", "extra MB"]))
    notes = [
        "ten random unit means, equal priors; both methods stop at the first round of draws with relative standard "
        "error ≤ rtol, and rtol is the same for all three",
        "rtol is 0.05 at τ = 0.1, where hdr needs some 40 nested regions for each of 90 pairs",
        "seconds × stderr² ×: the ratio if every method ended with the same standard error, at the rate n^(−1/2)",
        f"an estimate that is not finished after {LIMIT} s is stopped: its time and ratio are lower bounds",
        AUTHORS,
    ]
    return harness.table("importance against hdr, K = 10", rows, seed=0, notes=notes)
