"""How low can the error go: estimates of the floor, weighed against the errors that classifiers make."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from hardpan import bayes
from hardpan.audit.evidence import Evidence, Finding
from hardpan.bayes.floors import fitted, neighbours, verdict
from hardpan.errors import InputError
from hardpan.records import Chart, Estimate, Section, Table, Tile
from hardpan.report import numbers
from hardpan.report.dial import dial

MOST_CLASSES = 2000
MOST_COVARIANCE_ROWS = 8192
CURVE_RTOL = 1e-2  # finer than the line of the chart is thick
SMALL_TEST = 1000
MISFIT = 1.25  # the fit and the test part are samples: a smaller difference is not worth a warning

GAUSSIAN = "Gaussian model"
NEIGHBOUR_BOUND = "Nearest-neighbour bound"
GAUSSIAN_CLASSIFIER = "Gaussian classifier"
NEIGHBOUR = "Nearest neighbour"

INTEGRAL_ALONE = (
    "The interval of the Gaussian model is that of its integral alone; it says nothing of how well the model fits "
    "these data."
)
OWN_FEATURES = (
    "Both estimates of the floor look at the features as they are; of images, at single pixels. A classifier that "
    "learns features of its own may err far less, and then they are wrong."
)
METHOD = (
    "The floor, or Bayes error, is the error of the best classifier that can exist: E = 1 − ∫ maxₖ πₖ pₖ(x) "
    "dx, with πₖ the share of class k and pₖ its density. No amount of training gets below it on data of this "
    "kind.",
    "The Gaussian model gives every class its own mean and all classes one covariance, estimated inside the "
    "classes of the training part and shrunk towards a sphere (Ledoit and Wolf). The Bayes error of that "
    "model is computed to the stated accuracy; it is the floor of the model, and the floor of the data only "
    "as far as the model fits. Temperature τ multiplies the covariance by τ²: it turns the difficulty of the "
    "model up and down.",
    "The error e of the nearest neighbour on the test part gives a bracket: the floor lies below e, because "
    "no classifier is better than the best, and with unlimited training data above (K−1)/K · (1 − √(1 − "
    "K/(K−1) · e)) (Cover and Hart). An estimate of the floor above the upper limit of any classifier's error "
    "is refuted; the limits are Clopper and Pearson's, corrected for the number of classifiers (Bonferroni).",
)
CITATIONS = (
    "Cover and Hart, “Nearest neighbor pattern classification”, 1967.",
    "Clopper and Pearson, “The use of confidence or fiducial limits illustrated in the case of the binomial”, "
    "1934.",
    "Ledoit and Wolf, “A well-conditioned estimator for large-dimensional covariance matrices”, 2004.",
    "Theisen, Wang, Varshney, Xiong and Socher, “Evaluating State-of-the-Art Classification Models Against "
    "Bayes Optimality”, 2021.",
)


@dataclass(frozen=True, slots=True)
class GaussianFloor:
    """The Gaussian model's floor, its classifier's held-out error, and the floor at other temperatures."""

    error: Estimate
    classifier: Estimate
    curve: Chart


@dataclass(frozen=True, slots=True)
class Measured:
    """Estimates of the floor and held-out errors of classifiers by name, the curve, and what limits the claims."""

    floors: dict[str, Estimate]
    classifiers: dict[str, Estimate]
    curves: tuple[Chart, ...]
    warnings: tuple[str, ...]


def find(evidence: Evidence) -> Finding:
    """Estimate the floor in two ways, weigh both against held-out errors, and say what is left."""
    measured = measure(evidence)
    floors, classifiers = measured.floors, measured.classifiers
    weighed = verdict.weigh(
        floors, classifiers, n_classes=evidence.dataset.n_classes, confidence=evidence.config.confidence
    )
    best = min(classifiers, key=lambda name: classifiers[name].value)
    section = Section(
        "The floor",
        _sentences(weighed, best, classifiers[best]),
        estimates={f"{name} (floor)": item for name, item in floors.items()}
        | {f"{name} (held-out error)": item for name, item in classifiers.items()},
        charts=(intervals(weighed, classifiers), *measured.curves),
        tables=(_table(weighed),),
        warnings=measured.warnings,
    )
    most = numbers.percent(weighed.high, weighed.high / 20)
    made = numbers.estimate(classifiers[best])
    tiles = {
        "floor": Tile(
            "Floor",
            f"at most {most}",
            f"The lowest possible error; the limit of {weighed.high_from}. Only an assumption gives a lower end.",
        ),
        "best": Tile("Best classifier here", made.partition(" (")[0], f"{best} on the test part: {made}."),
    }
    headline = (
        f"On {evidence.dataset.name} the lowest possible error is at most {most}, as far as simple classifiers "
        f"show; the best of them gets {made} wrong."
    )
    return Finding(section, tiles, headline, (weighed.sentence,), METHOD, CITATIONS)


def measure(evidence: Evidence) -> Measured:
    """Take every measurement of this part; a Gaussian model that cannot be fitted is left out, with the reason."""
    split, labels = evidence.split, evidence.labels
    bracket = neighbours.bracket(
        evidence.features[split.train],
        labels[split.train],
        evidence.features[split.test],
        labels[split.test],
        n_classes=evidence.dataset.n_classes,
        confidence=evidence.config.confidence,
    )
    floors, classifiers = {NEIGHBOUR_BOUND: bracket.lower}, {NEIGHBOUR: bracket.error}
    warnings = [
        OWN_FEATURES,
        f"The nearest-neighbour bound assumes {bracket.lower_assumption}.",
    ]
    if len(split.test) < SMALL_TEST:
        warnings.append(f"The test part has only {len(split.test):,} examples, so all intervals here are wide.")
    try:
        gaussian = gaussian_floor(evidence)
    except InputError as reason:
        warnings.append(f"There is no Gaussian model of this dataset: {reason}.")
        return Measured(floors, classifiers, (), tuple(warnings))
    warnings += [INTEGRAL_ALONE, *_misfit(gaussian)]
    return Measured(
        {GAUSSIAN: gaussian.error} | floors,
        {GAUSSIAN_CLASSIFIER: gaussian.classifier} | classifiers,
        (gaussian.curve,),
        tuple(warnings),
    )


def _misfit(gaussian: GaussianFloor) -> list[str]:
    """Say so where the model's classifier does worse than the model promises: then the model is not the data."""
    promised, made = gaussian.error, gaussian.classifier
    if made.low <= MISFIT * promised.value:
        return []
    return [
        f"The Gaussian model promises its own classifier {numbers.percent(promised.value, promised.value / 20)} "
        f"of errors; on the test part it makes {numbers.estimate(made)}. So the model does not describe these data "
        "well, and its floor deserves little trust, refuted or not."
    ]


def gaussian_floor(evidence: Evidence) -> GaussianFloor:
    """Fit the Gaussian model on train; give its floor, its curve and the test error of its classifier."""
    config, train, test = evidence.config, evidence.split.train, evidence.split.test
    x, labels = evidence.features, evidence.labels
    n_classes = len(np.unique(labels[train]))
    if n_classes > MOST_CLASSES:
        raise InputError(f"it is computed for at most {MOST_CLASSES:,} classes; got {n_classes:,}")
    if min(x.shape[1], len(train)) > MOST_COVARIANCE_ROWS:
        raise InputError(f"its covariance has at most {MOST_COVARIANCE_ROWS:,} rows; got {x.shape[1]:,} features")
    model = fitted.fit_shared(x[train], labels[train])
    error = bayes.gaussian(model.means, model.cov, model.priors, rtol=config.rtol, seed=config.seed)
    error = replace(error, method=f"Bayes error of the model fitted on train ({error.method})")
    wrong = int((model.decide(x[test]) != labels[test]).sum())
    classifier = verdict.held_out_error(
        wrong,
        len(test),
        method=f"plug-in classifier of the Gaussian model, {model.n:,} training examples, "
        f"shrinkage {model.shrinkage:.2g}",
        confidence=config.confidence,
    )
    return GaussianFloor(error, classifier, _curve(model, evidence))


def _curve(model: fitted.SharedGaussian, evidence: Evidence) -> Chart:
    config = evidence.config
    found = bayes.gaussian_curve(
        model.means,
        model.cov,
        model.priors,
        temperatures=config.temperatures,
        rtol=max(config.rtol, CURVE_RTOL),
        seed=config.seed,
    )
    title = "The dial: Bayes error of the Gaussian model against temperature"
    return dial(found.temperatures, found.estimates, title, at_one="as fitted")


def intervals(weighed: verdict.Verdict, classifiers: dict[str, Estimate]) -> Chart:
    """Every estimate of the floor and every classifier on one error axis, with the bracket that is left."""
    rows = [
        {
            "name": item.floor,
            "value": item.estimate.value,
            "low": item.estimate.low,
            "high": item.estimate.high,
            "role": "refuted" if item.refuted else "floor",
            "reason": item.sentence,
        }
        for item in weighed.weighings
    ]
    rows += [
        {
            "name": name,
            "value": item.value,
            "low": item.low,
            "high": item.high,
            "role": "ceiling",
            "reason": "The floor lies below the upper end of this interval.",
        }
        for name, item in classifiers.items()
    ]
    wide = _wide(
        [item.estimate.value for item in weighed.weighings] + [item.value for item in classifiers.values()]
    )
    told = "; ".join(f"{row['name']} {numbers.percent(float(str(row['value'])))}" for row in rows)
    return Chart(
        "intervals",
        "Estimates of the floor, and the errors that classifiers make",
        tuple(rows),
        f"{told}. The floor is at most {numbers.percent(weighed.high, weighed.high / 20)}. {weighed.sentence}",
        {
            "x_title": "error",
            "log": wide,
            # From 0: no evidence bounds the floor from below, only assumptions do.
            "bracket": (0.0, weighed.high),
        },
    )


def _wide(values: list[float]) -> bool:
    """Whether the numbers span so much that a linear axis would press the small ones together."""
    positive = [value for value in values if value > 0]
    return bool(positive) and bool(max(positive) > 30 * min(positive))


def _sentences(weighed: verdict.Verdict, best: str, error: Estimate) -> tuple[str, ...]:
    level = f"{100 * weighed.confidence:g} %"
    lower = "No evidence bounds the floor from below; that takes an assumption."
    if weighed.low_from:
        left = numbers.percent_range(weighed.low, weighed.high)
        lower += f" With that of the estimate “{weighed.low_from}” it lies at {left}."
    share = math.floor(1 / max(weighed.high, 1e-12))
    return (
        f"{best} gets {numbers.estimate(error)} of the test part wrong. The best classifier that can exist "
        f"gets at most {numbers.percent(weighed.high, weighed.high / 20)} wrong (confidence {level}): one in "
        f"{share:,} examples or fewer.",
        lower,
        *(item.sentence for item in weighed.weighings),
    )


def _table(weighed: verdict.Verdict) -> Table:
    rows = tuple(
        (
            item.floor,
            numbers.estimate(item.estimate),
            "refuted" if item.refuted else "stands",
            item.refuted_by or None,
            numbers.percent(item.limit, item.limit / 20),
        )
        for item in weighed.weighings
    )
    return Table("Verdict", ("estimate of the floor", "value", "verdict", "refuted by", "limit"), rows)
