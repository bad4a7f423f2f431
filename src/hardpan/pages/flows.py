"""What flows, synthetic benchmarks, judgements of classifiers and samples say, and their charts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hardpan import report
from hardpan.errors import counted
from hardpan.estimates import Estimate
from hardpan.flows.flow import FlowRecord
from hardpan.flows.judging import Judgement
from hardpan.flows.sampling import FlowSamples
from hardpan.flows.synthetic_benchmark import Benchmark
from hardpan.pages import formatting
from hardpan.pages.field_views import view
from hardpan.pages.flow_charts import flow_training_chart, flow_unsettled_warning, temperature_chart
from hardpan.pages.galleries import gallery_chart, gallery_thumbnails
from hardpan.pages.sections import Chart, Section, Table, Tile, View
from hardpan.report import Provenance

_PAPER = (
    "Theisen, Wang, Varshney, Xiong, Socher: Evaluating State-of-the-Art Classification Models Against Bayes "
    "Optimality (2021)"
)


@view.register
def _flow_view(result: FlowRecord) -> View:
    fitted, floors = result.fitted, result.floors
    data = fitted.get("dataset", "data")
    tiles = []
    headline = f"Flow of {data}."
    if floors:
        best = floors[int(fitted["best_epoch"]) - 1]
        value, stderr = float(best["bayes_error"]), float(best["bayes_error_stderr"])
        error = Estimate(value, stderr, max(value - 1.96 * stderr, 0.0), value + 1.96 * stderr)
        headline = (
            f"The Bayes error of this flow of {data} is {formatting.estimate(error)}; it is that of the data only "
            "if the flow describes the data."
        )
    for split in ("validation", "test"):
        if f"{split}_nll" in fitted:
            nll, bits = fitted[f"{split}_nll"], fitted[f"{split}_bits_per_dim"]
            tiles.append(Tile(f"{split.capitalize()} NLL", f"{nll:,.2f} nats ({bits:.3f} bits per dimension)"))
            tiles.append(Tile(f"{split.capitalize()} error", formatting.percent(fitted[f"{split}_error"])))
    if "best_epoch" in fitted:
        tiles.append(
            Tile("Best epoch", f"{fitted['best_epoch']} of {fitted['epochs']}, {fitted['seconds']:,.0f} s")
        )
    charts, warnings = flow_training_chart(floors), flow_unsettled_warning(floors)
    section = Section(
        "Fit",
        charts=charts,
        warnings=warnings,
        key="fit",
    )
    columns = {name: [row.get(name) for row in floors] for name in (floors[0] if floors else ())}
    sections = (section,) if charts or warnings else ()
    provenance = _flow_provenance(result.config.seed)
    return View(f"Flow of {data}", headline, sections, tiles=tuple(tiles), provenance=provenance, columns=columns)


@view.register
def _benchmark_view(result: Benchmark) -> View:
    tiles = [
        Tile("Bayes error", formatting.estimate(result.bayes_error), "known from the flow"),
        Tile(
            "Observed",
            formatting.estimate(result.observed),
            "error of the Bayes-optimal classifier on these examples",
        ),
        Tile("Temperature", f"{result.temperature:.4g}"),
    ]
    test = len(result.test) if len(result.split) else round(result.config.test_fraction * result.config.n)
    tiles.append(Tile("Examples", f"{result.config.n - test:,} for training, {test:,} for testing"))
    if result.rounding is not None:
        cost = formatting.plain(result.rounding, scale=100, unit="points")
        tiles.append(Tile("Cost of 8 bits", f"at most {cost}"))
    tiles.append(Tile("Data", result.data))
    headline = (
        f"Synthetic benchmark from {result.flow} with a Bayes error of "
        f"{formatting.percent(result.bayes_error.value)}."
    )
    provenance = _flow_provenance(result.config.seed, {"Flow, sha256": result.flow_sha256, **result.files})
    columns = {"id": result.ids, "label": result.labels, "split": result.split}
    return View("Synthetic benchmark", headline, tiles=tuple(tiles), provenance=provenance, columns=columns)


@view.register
def _judgement_view(result: Judgement) -> View:
    excess, off = (formatting.plain(item, 100, "points") for item in (result.excess, result.calibration))
    error, lowest, overall = (
        formatting.percent(value)
        for value in (result.expected_error.value, float(result.difficulty.mean()), result.floor.value)
    )
    headline = (
        f"{result.name} has an expected error of {error} on these test examples; the lowest possible is {lowest}: "
        f"{excess} could be gained."
    )
    sentences = (
        f"Over the whole distribution of the flow, the lowest possible error is {overall}.",
        f"Its probabilities are off by {off} on average over bins of confidence, and its log loss is "
        f"{formatting.plain(result.divergence, unit='nats')} above the lowest possible.",
    )
    estimates = {
        "Error (counted)": result.error,
        "Error (expected)": result.expected_error,
        "Bayes error (exact)": result.floor,
        "Error above the Bayes error": result.excess,
        "Calibration error": result.calibration,
        "Total variation of the posteriors": result.distance,
        "Labels that are not optimal": result.disagreement,
    }
    chart = Chart(
        "reliability",
        "True probability against stated confidence",
        tuple({"x": row["confidence"], "y": row["truth"], "count": row["examples"]} for row in result.reliability),
        "; ".join(f"confidence {r['confidence']:.2f}: true {r['truth']:.2f}" for r in result.reliability),
        {"x_title": "confidence of the classifier", "y_title": "true probability of its label"},
    )
    warnings: tuple[str, ...] = ()
    if result.inexact_by is not None:
        cost = formatting.plain(result.inexact_by, scale=100, unit="points")
        warnings = (
            f"The files have 8-bit images and the posteriors are those before rounding: the Bayes error of the "
            f"files is up to {cost} higher, and the error above it that much smaller.",
        )
    section = Section(
        "Against the true posteriors", sentences, estimates, (chart,), warnings=warnings, key="judgement"
    )
    provenance = Provenance(citations=(_PAPER,), versions=report.versions_of("numpy"), hashes=dict(result.hashes))
    columns = {"difficulty": result.difficulty, "excess": result.excess_by_example}
    return View(
        f"{result.name} compared with the true posteriors",
        headline,
        (section,),
        provenance=provenance,
        columns=columns,
    )


@view.register
def _samples_view(result: FlowSamples) -> View:
    pairs = list(zip(result.temperatures, result.errors, strict=True))
    percents = [formatting.percent(error.value, error.value / 50) for error in result.errors]
    ends = [f"{percent} at temperature {t:g}" for t, percent in zip(result.temperatures, percents, strict=True)]
    each = result.labels.shape[1]
    galleries: tuple[Chart, ...] = ()
    if len(result.images):  # a report that was read back has none
        tiles = [
            {"group": f"Temperature {t:g}: Bayes error {percent}", "temperature": f"{t:g}"}
            | {"class": result.class_names[k]}
            for t, percent, labels in zip(result.temperatures, percents, result.labels, strict=True)
            for k in labels
        ]
        white = float(max(1, result.grey_levels - 1))
        pictures = gallery_thumbnails(np.clip(np.concatenate(result.images), 0.0, white), 0.0, white)
        words = f"A grid of {each} samples for each temperature."
        nearest = int(np.argmin(np.abs(np.array(result.temperatures) - 1)))
        options = {"pick": "Temperature", "start": nearest}
        galleries = (gallery_chart("Samples by temperature", pictures, tiles, words, **options),)
    curve = temperature_chart(
        result.curve.temperatures, result.curve.estimates, "Bayes error against temperature", at_one="as fitted"
    )
    section = Section(
        "Samples",
        (
            f"Each grid has {each} samples of {len(result.class_names)} classes. The Bayes error of each "
            "temperature is exact: no classifier can have a lower error on examples drawn there.",
        ),
        tables=(Table("", ("temperature", "Bayes error"), tuple(pairs)),),
        key="samples",
    )
    provenance = _flow_provenance(result.seed, {"Flow, sha256": result.flow_sha256})
    headline = f"On these samples no classifier can have an expected error below {ends[0]}"
    headline += f", or below {ends[-1]}." if len(ends) > 1 else "."
    columns = {"temperature": list(result.temperatures), "bayes_error": [item.value for item in result.errors]}
    return View(
        f"Samples of {result.flow}",
        headline,
        (section,),
        provenance=provenance,
        columns=columns,
        hero=(*galleries, curve, *flow_training_chart(result.floors)),
        size=counted(len(result.class_names), "class", "classes"),
    )


def _flow_provenance(seed: int, hashes: Mapping[str, str] | None = None) -> Provenance:
    versions = report.versions_of("numpy", "torch")
    return Provenance(citations=(_PAPER,), seed=seed, versions=versions, hashes=hashes or {})
