"""What Bayes errors of Gaussian classes say: along temperatures, in detail, and as the temperature of an error."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardpan import files, formatting
from hardpan.bayes.gaussians.detail import GaussianDetail
from hardpan.bayes.gaussians.temperature import Curve, Temperatures
from hardpan.report.base import View
from hardpan.report.figures import dial
from hardpan.report.generic import view
from hardpan.report.sections import Provenance, Section, Table

METHOD = "E = ∫ (Σ_k π_k p_k − max_k π_k p_k), the error of the best possible classifier."
CITATION = "Theisen et al. 2021, Evaluating State-of-the-Art Classification Models Against Bayes Optimality"


@view.register
def _curve(curve: Curve) -> View:
    pairs = list(zip(curve.temperatures, curve.estimates, strict=True))
    rows = tuple((t, formatting.estimate(e), e.log10, e.method, e.n) for t, e in pairs)
    line = curve.line or curve
    chart = dial(line.temperatures, line.estimates, "Bayes error against temperature", "as passed")
    size = f"{curve.n_classes:,} Gaussian classes in {curve.dimension:,} dimensions; "
    section = Section(
        "Bayes error against temperature",
        (f"{size if curve.n_classes else ''}the temperature multiplies every covariance by τ².",),
        charts=(chart,) if len(line.temperatures) > 1 else (),
        tables=(Table("", ("temperature", "Bayes error", "log10", "method", "draws"), rows),),
        warnings=tuple(dict.fromkeys(note for e in curve.estimates for note in e.notes)),
        key="temperature",
    )
    ends = [f"{formatting.estimate(e)} at temperature {t:g}" for t, e in pairs]
    headline = f"No classifier can have an expected error below {ends[0]}"
    return View(
        "Bayes error of Gaussian classes",
        headline + (f", or below {ends[-1]}." if len(ends) > 1 else "."),
        (section,),
        provenance=_provenance(f"Method: {curve.method}. {METHOD}", curve.seed, curve.hashes),
        columns={
            "temperature": list(curve.temperatures),
            **{name: [getattr(e, name) for e in curve.estimates] for name in ("value", "stderr", "low", "high")},
            "log10": [e.log10 for e in curve.estimates],
        },
    )


@view.register
def _temperatures(result: Temperatures) -> View:
    listed = formatting.listed([f"{value:.6g}" for value in result.temperatures])
    noun = "temperature" if len(result.temperatures) == 1 else "temperatures"
    headline = f"The Bayes error is {formatting.percent(result.error)} at {noun} {listed}."
    return View("Temperature of a Bayes error", headline, columns={"temperature": list(result.temperatures)})


@view.register
def _detail(result: GaussianDetail) -> View:
    rows, classes = [], range(len(result.class_error))
    for k in classes:
        error = _percent(result.class_error[k], result.class_error_stderr[k])
        others = np.where(np.arange(len(classes)) == k, -1.0, np.nan_to_num(result.confusion[k], nan=-1.0))
        other = int(np.argmax(others))
        taken = None
        if others[other] > 0:
            taken = f"{other} ({_percent(others[other], result.confusion_stderr[k, other])})"
        rows.append((k, error, taken, k + 1, _percent(result.top_k[k], result.top_k_stderr[k])))
    columns = ("class", "error", "most often confused with", "k", "top-k error")
    section = Section(
        "Errors by class, and top-k errors",
        tables=(Table("", columns, tuple(rows)),),
        key="classes",
    )
    return View(
        "The Bayes classifier of Gaussian classes",
        f"The Bayes error is {formatting.estimate(result.error)}; its slope in the temperature, dE/dτ, is "
        f"{formatting.plain(result.slope)}.",
        (section,),
        provenance=_provenance(METHOD, result.seed),
        columns={
            "class": list(classes),
            "error": result.class_error.tolist(),
            "error_stderr": result.class_error_stderr.tolist(),
            "top_k": result.top_k.tolist(),
            "top_k_stderr": result.top_k_stderr.tolist(),
        },
    )


def _provenance(method: str, seed: int, hashes: Any = None) -> Provenance:
    versions = files.versions_of("numpy", "scipy")
    return Provenance((method,), (CITATION,), seed=seed, versions=versions, hashes=hashes or {})


def _percent(value: float, stderr: float) -> str:
    return formatting.percent(float(value), 2 * float(stderr))
