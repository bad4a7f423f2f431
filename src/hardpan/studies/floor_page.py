"""A floor as a part of a page: sentences, chart, table, and what limits the claims."""

from __future__ import annotations

import math

from hardpan import numbers
from hardpan.bayes.floors import Entry, Floor
from hardpan.bayes.floors.crossings import in_sentences
from hardpan.report.figures import floor_chart
from hardpan.report.sections import Chart, Section, Table, Tile

METHOD = (
    "The floor, or Bayes error, is the error of the best classifier that can exist: E = 1 − ∫ maxₖ πₖ pₖ(x) dx, "
    "with πₖ the share of class k and pₖ its density. No amount of training gets below it on data of this kind.",
    "The floor lies below the error of any classifier. So the smallest upper limit of a classifier's held-out "
    "error (Clopper and Pearson, corrected for the number of classifiers by Bonferroni) is a ceiling that assumes "
    "nothing of the data's form, and an estimate of the floor above it is refuted, whatever produced it. "
    "Calibrated plug-ins, the mean of 1 − max posterior, estimate the error of their own decisions: they are "
    "ceilings too, as far as the calibration holds.",
    "No lower bound is free of assumptions: that neighbours share a posterior (the nearest-neighbour bound "
    "(K−1)/K · (1 − √(1 − K/(K−1) · e)), and the spanning tree's, with e its share of edges between classes), that "
    "the classes are Gaussian, that a flow is the data, that labels are drawn as votes are. A model whose own "
    "decisions err more or less often than it promises is not the data; its number is marked as unfounded. The "
    "Gaussian model is allowed the error of its own fit, which refits to data of such a model measure; limits and "
    "tests together speak falsely at most as often as the stated level allows.",
    "A lower end or estimate whose interval lies above that of a ceiling contradicts it: one of two assumptions is "
    "false, no error of a classifier says which, and both are marked as disputed.",
)
CITATIONS = (
    "Cover and Hart, “Nearest neighbor pattern classification”, 1967.",
    "Clopper and Pearson, “The use of confidence or fiducial limits illustrated in the case of the binomial”, "
    "1934.",
    "Sekeh, Oselio and Hero, “Learning to bound the multi-class Bayes error”, 2020.",
    "Kailath, “The divergence and Bhattacharyya distance measures in signal selection”, 1967.",
    "Ledoit and Wolf, “A well-conditioned estimator for large-dimensional covariance matrices”, 2004.",
    "Guo, Pleiss, Sun and Weinberger, “On calibration of modern neural networks”, 2017.",
    "Ishida, Yamane, Charoenphakdee, Niu and Sugiyama, “Is the performance of my deep network too good to be "
    "true?”, 2023.",
    "Theisen, Wang, Varshney, Xiong and Socher, “Evaluating State-of-the-Art Classification Models Against Bayes "
    "Optimality”, 2021.",
)
PLUG_IN_OF = " plug-in of "
FEW_EXAMPLES = 5  # one in so many is too coarse: 44 in 100 is not nearly one in 2
_ROLES = {"estimate": "estimate", "lower": "lower end", "upper": "ceiling", "classifier": "classifier"}


def floor_section(
    floor: Floor, charts: tuple[Chart, ...] = (), title: str = "The floor", warnings: tuple[str, ...] = ()
) -> Section:
    """Give a floor as a section: the verdict, the chart, a table with every reason, and warnings.

    Args:
        floor: what :func:`hardpan.bayes.floor` found.
        charts: further charts beside it.
        warnings: what else limits the claims.
    """
    hidden = _crowding(floor)
    rows = [
        {
            "name": entry.name,
            "value": entry.estimate.value,
            "low": entry.estimate.low,
            "high": entry.estimate.high,
            "role": _colour(entry),
            "status": "" if entry.role == "classifier" else entry.status,
            "reason": entry.reason,
            "classifier": entry.role == "classifier",
        }
        for entry in floor.entries
        if entry.name not in hidden
    ]
    chart = floor_chart(rows, high=floor.high, sentence=floor.sentence)
    return Section(
        title,
        _sentences(floor),
        estimates={entry.name: entry.estimate for entry in floor.entries},
        charts=(chart, *charts),
        tables=(_table(floor),),
        warnings=(*warnings, *floor.notes, *(f"Left out: {reason}" for reason in floor.left_out)),
    )


def _crowding(floor: Floor) -> set[str]:
    """Plug-ins that the chart leaves to the table: those of all models but the best two, where there are more."""
    models = sorted(
        (entry for entry in floor.entries if entry.role == "classifier"), key=lambda entry: entry.estimate.value
    )
    owners = [item.name for item in models if any(e.name.endswith(PLUG_IN_OF + item.name) for e in floor.entries)]
    return {e.name for name in owners[2:] for e in floor.entries if e.name.endswith(PLUG_IN_OF + name)}


def best_classifier(floor: Floor) -> Entry:
    """The classifier with the lowest held-out error."""
    return min((e for e in floor.entries if e.role == "classifier"), key=lambda entry: entry.estimate.value)


def floor_headline(name: str, floor: Floor) -> str:
    """The one sentence to take away."""
    most, made = numbers.limit(floor.high), numbers.estimate(best_classifier(floor).estimate)
    return f"On {name} the lowest possible error is at most {most}; the best classifier here gets {made} wrong."


def floor_tiles(floor: Floor) -> tuple[Tile, ...]:
    """The bracket, the best classifier, and how many estimates are left."""
    best = best_classifier(floor)
    claims = [entry for entry in floor.entries if entry.role in ("estimate", "lower")]
    standing = sum(entry.status == "stands" for entry in claims)
    doubted = sum(entry.status == "unfounded" for entry in claims)
    disputed = sum(entry.status == "disputed" for entry in claims)
    made = numbers.estimate(best.estimate)
    lower = (
        f"The lower end assumes that {floor.low_assumption}." if floor.low_from else "Nothing bounds it from below."
    )
    bracket = (
        numbers.percent_range(floor.low, floor.high) if floor.low_from else f"at most {numbers.limit(floor.high)}"
    )
    return (
        Tile("Floor", bracket, f"The upper end is the limit of {floor.high_from}. {lower}"),
        Tile("Best classifier here", made.partition(" (")[0], f"{best.name} on the test part: {made}."),
        Tile(
            "Estimates that stand",
            f"{standing} of {len(claims)}",
            f"{len(floor.refuted)} refuted by a classifier, {doubted} contradicted by their own errors"
            + (f", {disputed} by a ceiling." if disputed else "."),
        ),
    )


def _colour(entry: Entry) -> str:
    if entry.status in ("refuted", "unfounded"):
        return "refuted"
    return "ceiling" if entry.role in ("upper", "classifier") else "floor"


def _sentences(floor: Floor) -> tuple[str, ...]:
    level = f"{100 * floor.confidence:g} %"
    classifiers = numbers.counted(floor.n_classifiers, "classifier")
    said = [
        floor.sentence,
        f"So the best classifier that can exist is wrong on at most {_in_examples(floor.high)} (confidence "
        f"{level}, {classifiers} on one test part).",
    ]
    return (*said, *in_sentences(floor.crossings), *(item.sentence for item in floor.differences))


def _in_examples(share: float) -> str:
    """A share in whole examples, rounded up.

    Example:
        >>> _in_examples(0.0271), _in_examples(0.432)
        ('one in 36 examples', '44 in 100 examples')
    """
    whole = math.floor(1 / max(share, 1e-12))
    return f"one in {whole:,} examples" if whole >= FEW_EXAMPLES else f"{math.ceil(100 * share)} in 100 examples"


def _table(floor: Floor) -> Table:
    rows = tuple(
        (
            entry.name,
            _ROLES[entry.role],
            numbers.estimate(entry.estimate),
            entry.status,
            entry.against or None,
            entry.assumption,
        )
        for entry in floor.entries
    )
    return Table("Verdict", ("estimate", "what it is", "value", "verdict", "against it", "what it assumes"), rows)
