"""What Bayes errors of Gaussian classes say: along temperatures, at the temperature of an error, and by class."""

from __future__ import annotations

import numpy as np

from hardpan import report
from hardpan.bayes.gaussians.detail import GaussianDetail
from hardpan.bayes.gaussians.temperature import TemperatureCurve
from hardpan.pages import formatting
from hardpan.pages.field_views import view
from hardpan.pages.flow_charts import temperature_chart
from hardpan.pages.sections import Section, Table, View
from hardpan.report import Provenance

METHOD = "E = ∫ (Σ_k π_k p_k − max_k π_k p_k), the error of the best possible classifier."
CITATION = "Theisen et al. 2021, Evaluating State-of-the-Art Classification Models Against Bayes Optimality"


@view.register
def _curve(curve: TemperatureCurve) -> View:
    pairs = list(zip(curve.temperatures, curve.estimates, strict=True))
    rows = tuple((t, formatting.estimate(e), e.log10, e.method, e.n) for t, e in pairs)
    line = curve.line or curve
    chart = temperature_chart(line.temperatures, line.estimates, "Bayes error against temperature", "as passed")
    size = f"{curve.n_classes:,} Gaussian classes in {curve.dimension:,} dimensions; "
    section = Section(
        "Bayes error against temperature",
        (f"{size if curve.n_classes else ''}the temperature multiplies every covariance by τ².",),
        charts=(chart,) if len(line.temperatures) > 1 else (),
        tables=(Table("", ("temperature", "Bayes error", "log10", "method", "draws"), rows),),
        warnings=tuple(dict.fromkeys(note for e in curve.estimates for note in e.notes)),
        key="temperature",
    )
    return View(
        "Bayes error of Gaussian classes",
        _curve_headline(curve),
        (section, *([] if curve.detail is None else [_detail_section(curve.detail)])),
        provenance=Provenance(
            (f"Method: {curve.method}. {METHOD}",),
            (CITATION,),
            seed=curve.seed,
            versions=report.versions_of("numpy", "scipy"),
            hashes=curve.hashes,
        ),
        columns={
            "temperature": list(curve.temperatures),
            **{name: [getattr(e, name) for e in curve.estimates] for name in ("value", "stderr", "low", "high")},
            "log10": [e.log10 for e in curve.estimates],
        },
    )


def _curve_headline(curve: TemperatureCurve) -> str:
    if curve.target is not None:
        return f"The Bayes error is {formatting.percent(curve.target)} at temperature {curve.temperatures[0]:.6g}."
    pairs = list(zip(curve.temperatures, curve.estimates, strict=True))
    ends = [f"{formatting.estimate(e)} at temperature {t:g}" for t, e in pairs]
    headline = f"No classifier can have an expected error below {ends[0]}"
    return headline + (f", or below {ends[-1]}." if len(ends) > 1 else ".")


def _detail_section(detail: GaussianDetail) -> Section:
    rows, classes = [], np.arange(len(detail.class_error))
    for k in classes:
        others = np.where(classes == k, -1.0, np.nan_to_num(detail.confusion[k], nan=-1.0))
        other = int(np.argmax(others))
        confused = None
        if others[other] > 0:
            spread = 2 * float(detail.confusion_stderr[k, other])
            confused = f"{other} ({formatting.percent(float(others[other]), spread)})"
        error = formatting.percent(float(detail.class_error[k]), 2 * float(detail.class_error_stderr[k]))
        top = formatting.percent(float(detail.top_k[k]), 2 * float(detail.top_k_stderr[k]))
        rows.append((int(k), error, confused, int(k) + 1, top))
    columns = ("class", "error", "most often confused with", "k", "top-k error")
    return Section(
        "Errors by class, and top-k errors",
        (f"The slope of the Bayes error in the temperature, dE/dτ, is {formatting.plain(detail.slope)}.",),
        tables=(Table("", columns, tuple(rows)),),
        key="classes",
    )
