"""How low can the error go: every estimate of the floor, weighed against the errors that classifiers make."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hardpan import bayes, numbers
from hardpan.auditing.evidence import Evidence, Finding, FlowEvidence
from hardpan.auditing.measures import limit_in_points
from hardpan.bayes.floors import Entry, Examples, Floor, fitted, overlap, told_apart
from hardpan.bayes.floors.from_features import (
    AS_FITTED,
    GAUSSIAN,
    MOST_CLASSES,
    MOST_COVARIANCE_ROWS,
    NEIGHBOURS_SHARE,
    TREE_NEIGHBOURS_SHARE,
)
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.flows.charts import TemperatureSamples, sample_gallery, training_chart, unsettled_warning
from hardpan.report.figures import dial
from hardpan.report.sections import Chart, Tile
from hardpan.studies import floor_page

CURVE_RTOL = 1e-2  # finer than the line of the chart is thick
LARGE_TRAIN = (
    20_000  # the spanning tree and the Bhattacharyya bounds are left to `hardpan floor estimate` from here on
)
QUICK = ("neighbours", "gaussian")
NEAR_THE_CEILING = 0.5  # of the ceiling
OF_FEATURES = (NEIGHBOURS_SHARE, TREE_NEIGHBOURS_SHARE, GAUSSIAN, AS_FITTED, overlap.ASSUMPTION)
MOST_NAMED = 4
_ZERO = re.compile(r"0(\.0+)?–")


def find(evidence: Evidence) -> Finding:
    """Put every estimate side by side, and say which survive."""
    floor = _floor(evidence)
    best = floor_page.best_classifier(floor)
    charts, curves = _dials(evidence)
    verdicts = _verdicts(evidence, floor)
    moving = unsettled_warning(evidence.flow.floors) if evidence.flow is not None else ""
    section = floor_page.floor_section(floor, charts, warnings=(moving,) if moving else ())
    section = dataclasses.replace(section, sentences=(*section.sentences, *_of_the_flow(verdicts)))
    made = numbers.estimate(best.estimate)
    tiles = {tile.title: tile for tile in floor_page.floor_tiles(floor)}
    headroom = _headroom(evidence, floor, best)
    found = {
        "floor": tiles["Floor"],
        "best": Tile("Best model", made.partition(" (")[0], f"{best.name} on the test part: {made}."),
        "headroom": Tile(
            "Headroom",
            f"at most {limit_in_points(headroom.high)}",
            _headroom_words(headroom, floor, best),
        ),
    }
    measures = {"bracket": _bracket(floor), "best_error": best.estimate, "headroom": headroom}
    measures |= {name: entry.estimate for name, entry in verdicts.items()}
    columns = {}
    if evidence.flow is not None:
        measures["bits"] = evidence.flow.bits
        columns = _columns(evidence.flow, evidence)
    if evidence.votes is not None:
        columns["selection_frequency"] = _share_of_votes(evidence.votes, evidence.labels)
    return Finding(
        section,
        found,
        headline=_headline(evidence, floor, best),
        lede=(_standing(floor),),
        method=floor_page.METHOD,
        citations=floor_page.CITATIONS,
        hashes={"Flow, sha256": evidence.flow.sha256} if evidence.flow is not None and evidence.flow.sha256 else {},
        measures=measures,
        verdicts=verdicts,
        curves=curves,
        columns=columns,
    )


def _floor(evidence: Evidence) -> Floor:
    split, labels, x = evidence.split, evidence.labels, evidence.features
    held = split.validation if len(split.validation) else None
    examples = Examples(
        x[split.train],
        labels[split.train],
        x[split.test],
        labels[split.test],
        None if held is None else x[held],
        None if held is None else labels[held],
        evidence.dataset.n_classes,
    )
    exact, predictions, validation, differences = {}, {}, {}, []
    flow = evidence.flow
    if flow is not None:
        exact[flow.name] = flow.error
        predictions[flow.name] = flow.posterior[split.test]
        if held is not None:
            validation[flow.name] = flow.posterior[held]
        real = evidence.dataset.x.reshape(len(labels), -1)[split.test]
        differences.append(told_apart(real, flow.samples, model=flow.name, seed=evidence.config.seed))
    for model in evidence.models:
        if model.known(split.test):
            predictions[model.name] = model.probs[split.test]
            if held is not None and model.known(held):
                validation[model.name] = model.probs[held]
    votes = None
    if evidence.votes is not None:
        votes = evidence.votes[np.isfinite(evidence.votes).all(axis=1)]
    return bayes.floor(
        examples=examples,
        exact=exact,
        predictions=predictions,
        validation=validation,
        votes=votes,
        differences=differences,
        n_classes=evidence.dataset.n_classes,
        estimators=None if len(split.train) <= LARGE_TRAIN else QUICK,
        calibrations=("temperature",),
        confidence=evidence.config.confidence,
        seed=evidence.config.seed,
        progress=evidence.progress,
    )


def _headline(evidence: Evidence, floor: Floor, best: Entry) -> str:
    made = numbers.estimate(best.estimate)
    low = _claimed_low(evidence, floor)
    bracket, most = numbers.percent_range(low, floor.high), f"at most {numbers.limit(floor.high)}"
    if low > 0 and not _ZERO.match(bracket):  # a lower end that is written as 0 says nothing
        most = f"{bracket}, its lower end resting on an assumption"
    return f"On {evidence.dataset.name} the lowest possible error is {most}; the best model here makes {made}."


def _verdicts(evidence: Evidence, floor: Floor) -> dict[str, Entry]:
    """The floors of whole models of the data among the measures, and how the weighing ended for them."""
    found = {}
    for entry in floor.entries:
        if evidence.flow is not None and entry.name == f"Exact error of {evidence.flow.name}":
            found["flow_floor"] = entry
        elif entry.name == "Gaussian model":
            found["gaussian_floor"] = entry
    return found


def _of_the_flow(verdicts: Mapping[str, Entry]) -> tuple[str, ...]:
    entry = verdicts.get("flow_floor")
    return () if entry is None else (f"The flow's own floor is {numbers.estimate(entry.estimate)}. {entry.reason}",)


def _standing(floor: Floor) -> str:
    """How the weighing ended, in one short sentence."""
    claims = [entry for entry in floor.entries if entry.role in ("estimate", "lower")]
    standing = [entry.name for entry in claims if entry.status == "stands"]
    named = standing if len(standing) <= MOST_NAMED else [*standing[: MOST_NAMED - 1], "others"]
    said = f"Of {len(claims)} estimates of the floor " + (
        f"{len(standing)} stand{'s' if len(standing) == 1 else ''}: {numbers.listed(named)}"
        if standing
        else "none stands"
    )
    against = [
        f"{count} {'is' if count == 1 else 'are'} {words}"
        for count, words in (
            (sum(entry.status == "refuted" for entry in claims), "refuted by a classifier that does better"),
            (sum(entry.status == "unfounded" for entry in claims), "contradicted by errors of the model itself"),
            (sum(entry.status == "disputed" for entry in claims), "contradicted by a ceiling"),
        )
        if count
    ]
    return f"{'; '.join([said, *against])}."


def _bracket(floor: Floor) -> Estimate:
    """The bracket as an estimate: its value is the upper end, which assumes nothing."""
    low = floor.low if floor.low_from else 0.0
    notes = (f"The lower end assumes that {floor.low_assumption}.",) if floor.low_from else ()
    return Estimate(
        floor.high, 0.0, low, floor.high, floor.confidence, f"upper limit of {floor.high_from}", notes=notes
    )


def _claimed_low(evidence: Evidence, floor: Floor) -> float:
    """The lower end that sentences build on, 0 where there is none.

    Bounds from single pixels that come near the ceiling are left to the chart and its table: networks that learn
    features have gone far below them on every set of natural images.
    """
    pixels = evidence.dataset.x.ndim > 2 and floor.low_assumption in OF_FEATURES
    if not floor.low_from or (pixels and floor.low >= NEAR_THE_CEILING * floor.high):
        return 0.0
    return floor.low


def _headroom(evidence: Evidence, floor: Floor, best: Entry) -> Estimate:
    """What is left to win: the best error above the floor's lower end, or all of it where none can be built on."""
    low = _claimed_low(evidence, floor)
    item = best.estimate
    return Estimate(
        max(0.0, item.value - low),
        item.stderr,
        max(0.0, item.low - floor.high),
        max(0.0, item.high - low),
        item.confidence,
        "error of the best model above the lower end of the floor",
        item.n,
        notes=(floor.low_assumption,) if low > 0 else (),
    )


def _headroom_words(headroom: Estimate, floor: Floor, best: Entry) -> str:
    if headroom.notes:
        return f"From the error of {best.name} down to the floor, if {headroom.notes[0]}."
    why = "nothing bounds the floor from below"
    if floor.low_from:
        why = "a lower end that single pixels put so near the ceiling is not to be built on"
    return f"All of the error of {best.name}: {why}."


def _dials(evidence: Evidence) -> tuple[tuple[Chart, ...], dict[str, tuple[tuple[float, float], ...]]]:
    flow = evidence.flow
    if flow is not None:
        title = "The dial: Bayes error of the flow against temperature"
        charts = [dial(flow.temperatures, flow.curve_estimates, title, at_one="as fitted")]
        along = training_chart(flow.floors)
        if along is not None:
            charts.append(along)
        if flow.gallery:
            charts.append(_samples(flow, evidence))
        return tuple(charts), {"flow": flow.curve}
    try:
        curve = _gaussian_curve(evidence)
    except InputError:  # the floor's own warnings say why there is no Gaussian model
        return (), {}
    title = "The dial: Bayes error of the Gaussian model against temperature"
    points = tuple((t, item.value) for t, item in zip(curve.temperatures, curve.estimates, strict=True))
    return (dial(curve.temperatures, curve.estimates, title, at_one="as fitted"),), {"Gaussian model": points}


def _gaussian_curve(evidence: Evidence) -> bayes.Curve:
    config, train, x = evidence.config, evidence.split.train, evidence.features
    if len(np.unique(evidence.labels[train])) > MOST_CLASSES or min(x.shape[1], len(train)) > MOST_COVARIANCE_ROWS:
        raise InputError("too large for a Gaussian model")
    model = fitted.fit_shared(x[train], evidence.labels[train])
    return bayes.gaussian_curve(
        model.means,
        model.cov,
        model.priors,
        temperatures=config.temperatures,
        rtol=max(config.rtol, CURVE_RTOL),
        seed=config.seed,
    )


def _samples(flow: FlowEvidence, evidence: Evidence) -> Chart:
    """What the dial means: samples at several temperatures, each with its exact Bayes error."""
    drawn = [
        TemperatureSamples(temperature, error, images, {"drawn by": [flow.name] * len(images)})
        for temperature, error, images in flow.gallery
    ]
    words = "; ".join(
        f"{len(drawn)} samples at temperature {t:g}, Bayes error {numbers.percent(error.value, error.value / 20)}"
        for t, error, drawn in flow.gallery
    )
    low, high = float(evidence.dataset.x.min()), float(evidence.dataset.x.max())
    return sample_gallery(drawn, low, high, "What the flow draws as the dial is turned", words)


def _columns(flow: FlowEvidence, evidence: Evidence) -> dict[str, NDArray[np.float64]]:
    rows = np.arange(len(evidence.labels))
    return {
        "floor_posterior": flow.posterior[rows, evidence.labels],
        "floor_difficulty": 1 - flow.posterior.max(axis=1),
    }


def _share_of_votes(votes: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Share of each example's votes that went to its label; NaN where nobody voted."""
    total = votes.sum(axis=1)
    chosen = votes[np.arange(len(labels)), labels]
    return np.where(total > 0, chosen / np.where(total > 0, total, 1.0), np.nan)
