"""What learning curves say, and their charts."""

from __future__ import annotations

from hardpan import report
from hardpan.learning_curves import LearningCurve
from hardpan.pages import formatting
from hardpan.pages.field_views import view
from hardpan.pages.sections import Chart, Section, Table, View, fields_of
from hardpan.report import Provenance
from hardpan.tables import columns_of


@view.register
def _learning_curve_view(curve: LearningCurve) -> View:
    best = min(curve.points, key=lambda point: point.excess.value)
    headline = (
        f"The lowest possible error on these data is {formatting.percent(curve.floor.value)}. {best.model} with "
        f"{best.n:,} examples is closest: {formatting.plain(best.excess, scale=100, unit='points')} above it."
    )
    sentences = tuple(
        f"{law.model}: with ten times the data, {100 * 10**-law.exponent.value:.0f} % "
        f"({100 * 10**-law.exponent.high:.0f}–{100 * 10**-law.exponent.low:.0f} %) of the excess error remains."
        for law in curve.laws
    )
    excesses = [(p.model, p.n, formatting.plain(p.excess, scale=100, unit="points")) for p in curve.points]
    chart = Chart(
        "lines",
        "Error above the exact Bayes error against training examples",
        tuple({"series": p.model, "x": p.n, **fields_of(p.excess, "y")} for p in curve.points),
        "; ".join(f"{model} at {n:,}: {excess}" for model, n, excess in excesses),
        {"x_title": "training examples", "y_title": "error above the Bayes error", "log_x": True, "log": True},
    )
    rows = [
        (model, n, p.error, excess, p.epochs) for (model, n, excess), p in zip(excesses, curve.points, strict=True)
    ]
    laws = [(law.model, formatting.plain(law.exponent), law.amplitude, law.r2) for law in curve.laws]
    tables = [
        Table("Trainings", ("architecture", "examples", "error", "above the Bayes error", "epochs"), tuple(rows))
    ]
    if laws:
        tables.append(
            Table("Power laws, excess = a·n⁻ᵇ", ("architecture", "exponent b", "amplitude a", "R²"), tuple(laws))
        )
    section = Section(
        "Learning curves", sentences, {"Bayes error": curve.floor}, (chart,), tuple(tables), key="curves"
    )
    provenance = Provenance(
        seed=curve.config.seed,
        versions=report.versions_of("numpy", "torch"),
        hashes={"Flow, sha256": curve.flow_sha256},
    )
    frame = columns_of(curve.points, "model", "n", "error.value", "excess.value", "excess.stderr")
    return View(f"Learning curves on {curve.flow}", headline, (section,), provenance=provenance, columns=frame)
