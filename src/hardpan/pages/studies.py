"""What learning curves say, and their charts; the other studies have the view of their fields."""

from __future__ import annotations

from hardpan import files, formatting
from hardpan.report.base import View
from hardpan.report.generic import view
from hardpan.report.sections import Chart, Provenance, Section, Table, columns_of, fields_of
from hardpan.studies.learning_curve import LearningCurve


@view.register
def _learning_curve(curve: LearningCurve) -> View:
    floor = curve.floor.value
    best = min(curve.points, key=lambda point: point.excess.value)
    headline = (
        f"The lowest possible error on these data is {formatting.percent(floor)}. {best.model} with {best.n:,} "
        f"examples is closest: {formatting.plain(best.excess, scale=100, unit='points')} above it."
    )
    sentences = tuple(
        f"{law.model}: with ten times the data, {100 * 10**-law.exponent.value:.0f} % "
        f"({100 * 10**-law.exponent.high:.0f}–{100 * 10**-law.exponent.low:.0f} %) of the excess error remains."
        for law in curve.laws
    )
    excesses = [(p.model, p.n, formatting.plain(p.excess, scale=100, unit="points")) for p in curve.points]
    charts = (
        Chart(
            "lines",
            "Error above the exact Bayes error against training examples",
            tuple({"series": p.model, "x": p.n, **fields_of(p.excess, "y")} for p in curve.points),
            "; ".join(f"{model} at {n:,}: {excess}" for model, n, excess in excesses),
            {"x_title": "training examples", "y_title": "error above the Bayes error", "log_x": True, "log": True},
        ),
        Chart(
            "lines",
            "Error and Bayes error against training examples",
            tuple({"series": p.model, "x": p.n, "y": p.error.value} for p in curve.points)
            + tuple({"series": "Bayes error", "x": n, "y": floor} for n in sorted({p.n for p in curve.points})),
            f"Errors of every architecture over the Bayes error of {100 * floor:.3g} %.",
            {"x_title": "training examples", "y_title": "error", "log_x": True},
        ),
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
        "Learning curves", sentences, {"Bayes error": curve.floor}, charts, tuple(tables), key="curves"
    )
    provenance = Provenance(
        seed=curve.config.seed,
        versions=files.versions_of("numpy", "torch"),
        hashes={"Flow, sha256": curve.flow_sha256},
    )
    frame = columns_of(curve.points, "model", "n", "error.value", "excess.value", "excess.stderr")
    return View(f"Learning curves on {curve.flow}", headline, (section,), provenance=provenance, columns=frame)
