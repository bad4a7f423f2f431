"""Confusion scores as a part of a report: sentences, pictures, galleries and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hardpan import numbers
from hardpan.confusion import pictures
from hardpan.confusion.answers import Signals
from hardpan.confusion.banding import FEWEST_ERRORS, Bands, bands
from hardpan.confusion.galleries import class_name, gallery, groups_by_class
from hardpan.confusion.mislabelled import Suspect, suspects
from hardpan.confusion.scoring import Scores
from hardpan.confusion.subsets import Subset
from hardpan.confusion.uncertainty import Stability, stability
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.files import versions_of
from hardpan.report.sections import Chart, Provenance, Section, Table

MOST_SUSPECTS = 24
MOST_ROWS = 40
QUANTILE = 0.9


def section(
    scores: Scores,
    signals: Signals | None = None,
    dataset: Dataset | None = None,
    *,
    part: str = "all",
    subset: Subset | None = None,
    title: str = "Which examples are hard?",
    confidence: float = 0.95,
) -> Section:
    """The section of a page: distribution, error by band, errors in the hardest tenth, and galleries.

    Args:
        scores: confusion scores.
        signals: of the same predictions, for errors, answers and doubts of labels.
        dataset: the examples, for thumbnails; joined by id.
        part: of the split that errors and galleries are of: "test", "all", ...; distributions show every part.
        subset: a hard subset, to be mentioned.
        title: of the section.
        confidence: level of the intervals.
    """
    if signals is not None and not np.array_equal(signals.ids, scores.ids):
        raise InputError("signals and scores must be of the same examples in the same order")
    scores = scores.in_bits()
    rows = part_rows(scores, part)
    shown = scores.rows(rows)
    wrong = None if signals is None or signals.correct_seeds is None else ~signals.correct_seeds[:, rows]
    start = float(np.quantile(shown.values, QUANTILE))
    if subset is not None:
        start = subset.threshold * math.log2(subset.base)
    charts: list[Chart] = [_threshold(shown, wrong, start)]
    if scores.split is not None and len(np.unique(scores.split)) > 1:
        groups = {str(name): scores.values[scores.split == name] for name in np.unique(scores.split)}
        charts.insert(0, pictures.distribution(groups, scores.largest))
    sentences, tables, estimates = [], [], {}
    if wrong is not None:
        found = bands(shown, ~wrong, confidence=confidence)
        sentences += list(band_sentences(found, _whose(scores, part)))
        charts.append(pictures.error_by_band({part if part != "all" else "error": found}))
        tables.append(band_table(found))
        estimates = {"error": found.error, "share of the errors in the most confusing tenth": found.hardest_tenth}
    sentences.append(_spread(shown))
    if scores.stderr is not None:
        sentences.append(stability_sentence(stability(shown)))
    if subset is not None:
        sentences.append(f"Hard subset: {subset_sentence(subset)}")
    charts += galleries(shown, None if signals is None else signals.rows(rows), dataset)
    tables += _lists(shown, None if signals is None else signals.rows(rows))
    return Section(title, tuple(sentences), estimates, tuple(charts), tuple(tables), _warnings(scores))


def part_rows(scores: Scores, part: str) -> NDArray[np.int64]:
    """Row numbers of one part of the split, or of "all"."""
    if part == "all":
        return np.arange(len(scores))
    scores.part(part)  # refuses a part that is not there
    return np.flatnonzero(np.asarray(scores.split) == part)


def _whose(scores: Scores, part: str) -> str:
    """Which examples an error is of: one that counts training examples is no test error, and must say so."""
    if part != "all":
        return f" of the {part} part"
    trained = scores.split is not None and "train" in scores.split
    return " (training examples among them)" if trained else ""


def band_sentences(found: Bands, whose: str = "") -> tuple[str, ...]:
    """What bands say, in two sentences."""
    tenth = found.hardest_tenth
    first = f"The error is {numbers.estimate(found.error)} on {numbers.counted(found.examples, 'example')}{whose}"
    if tenth.n >= FEWEST_ERRORS:
        first += f"; {numbers.estimate(tenth)} of the errors sit in the most confusing tenth of them"
    return (
        f"{first}.",
        f"Pearson's ρ between score and error is {numbers.plain(found.rho)} by band and "
        f"{numbers.plain(found.by_example)} by example.",
    )


def band_table(found: Bands, name: str = "") -> Table:
    """A row a band, from the first to the last that has examples."""
    used = [band for band in found.bands if band.examples]
    first, last = used[0].low, used[-1].high
    rows = tuple(
        (f"{band.low:g} to {band.high:g}", band.examples, numbers.estimate(band.error) if band.error else None)
        for band in found.bands
        if band.low >= first and band.high <= last
    )
    title = f"Error by band of the confusion score{', ' + name if name else ''} ({found.error.method})"
    return Table(title, ("score, bits", "examples", "error"), rows)


def subset_sentence(found: Subset) -> str:
    """What a subset holds, in words."""
    kind = "least" if found.easiest else "most"
    whose = " of each class" if found.balanced else ""
    way = "down" if found.easiest else "up"
    return (
        f"{len(found):,} of {found.examples:,} examples, the {kind} confusing{whose} ({found.rule} "
        f"{found.value:g}): scores from {found.threshold * math.log2(found.base):.3g} bits {way}."
    )


def stability_sentence(found: Stability) -> str:
    """How sure scores and ranking are."""
    text = f"A score has a standard error of {found.mean_stderr:.3f} bits on average (scores spread by "
    text += f"{found.spread:.3f})"
    if found.tau is not None and math.isfinite(found.tau.value):
        text += (
            f"; without any one seed the ranking keeps Kendall's τ of at least {found.tau.value:.3f}, and "
            f"{100 * min(found.overlap):.0f} % of the hardest tenth stays"
        )
    return f"{text}."


def galleries(scores: Scores, signals: Signals | None, dataset: Dataset | None, each: int = 8) -> list[Chart]:
    """Hardest and easiest of each class, labels in doubt, and examples that no seed gets right."""
    if dataset is None:
        return []
    predicted = None if signals is None else signals.predicted
    found = [
        gallery(name, groups_by_class(scores, each=each, easiest=easiest), scores, dataset, predicted=predicted)
        for name, easiest in (("Most confusing of each class", False), ("Least confusing of each class", True))
    ]
    if signals is not None and signals.labels is not None:
        doubted = suspects(signals, MOST_SUSPECTS)
        groups: Mapping[str, NDArray[np.int64]] = {"label in doubt": np.array([item.row for item in doubted], int)}
        found.append(gallery("Most probably mislabelled", groups, scores, dataset, predicted=predicted))
        missed = no_seed_right(scores, signals)
        title = f"No seed right at the last epoch: {numbers.counted(len(missed), 'example')}"
        title += f", the {MOST_SUSPECTS} most confusing" if len(missed) > MOST_SUSPECTS else ""
        groups = {"all wrong": missed[:MOST_SUSPECTS]}
        found.append(gallery(title, groups, scores, dataset, predicted=predicted))
    return [item for item in found if item is not None]


def no_seed_right(scores: Scores, signals: Signals) -> NDArray[np.int64]:
    """Row numbers of the examples that every seed gets wrong at the last epoch, most confusing first."""
    rows = np.flatnonzero(~signals.correct("seeds").any(axis=0))
    return rows[np.argsort(-scores.values[rows], kind="stable")]


def suspect_table(found: Sequence[Suspect], scores: Scores) -> Table:
    """Labels in doubt, most doubtful first."""
    rows = tuple(
        (
            item.id,
            class_name(scores, item.label),
            class_name(scores, item.suggested),
            round(item.label_probability, 3),
            round(item.suggested_probability, 3),
        )
        for item in found
    )
    columns = ("example", "label", "suggested", "mean p(label)", "mean p(suggested)")
    return Table("Most probably mislabelled: reasons to look, not verdicts", columns, rows)


def provenance(
    command: str, hashes: Mapping[str, str] | None = None, seed: int = 0, method: Sequence[str] = ()
) -> Provenance:
    """How a page about confusion scores was made."""
    return Provenance(
        method=(
            "The confusion score of an example is s(x) = 1/T Σₜ H(1/M Σᵢ fₜ⁽ⁱ⁾(x)): probabilities are averaged "
            "over the M seeds, their entropy is taken in bits, and averaged over the T epochs. It needs no labels.",
            "Standard errors of scores are from the jackknife over seeds (over epochs, the circular block "
            "bootstrap). Errors by band have Clopper–Pearson intervals; correlations have bootstrap ones.",
            *method,
        ),
        citations=(
            "Albiero, Mehta, Evtimov, Bell, Sagun, Markosyan: Confusing Large Models by Confusing Small Models "
            "(2023)",
            "Simsek, Hall, Sagun: Understanding out-of-distribution accuracies through quantifying difficulty of "
            "test samples (2022)",
            "Northcutt, Jiang, Chuang: Confident learning (2021)",
        ),
        command=command,
        seed=seed,
        versions=versions_of("numpy"),
        hashes=dict(hashes or {}),
    )


def _threshold(shown: Scores, wrong: NDArray[np.bool_] | None, start: float) -> Chart:
    mean = None if wrong is None else wrong.mean(axis=0)
    return pictures.threshold(shown.values, mean, shown.largest, start)


def _spread(scores: Scores) -> str:
    middle, upper = np.quantile(scores.values, [0.5, QUANTILE])
    return (
        f"{numbers.counted(len(scores), 'example')} scored by {numbers.counted(len(scores.seeds), 'seed')} over "
        f"{numbers.counted(len(scores.epochs), 'epoch')}: half score below {middle:.3g} bits, nine tenths below "
        f"{upper:.3g}, of {scores.largest:.3g} possible."
    )


def _lists(scores: Scores, signals: Signals | None) -> list[Table]:
    order = np.argsort(-scores.values, kind="stable")[:MOST_ROWS]
    columns = ["example", "score, bits"]
    cells: list[list[object]] = [scores.ids[order].tolist(), np.round(scores.values[order], 4).tolist()]
    if scores.stderr is not None:
        columns.append("standard error")
        cells.append(np.round(scores.stderr[order], 4).tolist())
    if scores.labels is not None:
        columns.append("label")
        cells.append([class_name(scores, int(label)) for label in scores.labels[order]])
    if signals is not None:
        columns.append("ensemble says")
        cells.append([class_name(scores, int(label)) for label in signals.predicted[order]])
    rows = tuple(zip(*cells, strict=True))
    title = f"The {len(order)} most confusing examples" if len(order) < len(scores) else "All examples, by score"
    tables = [Table(title, tuple(columns), rows)]
    if signals is not None and signals.labels is not None:
        doubted = suspects(signals, MOST_SUSPECTS)
        if doubted:
            tables.append(suspect_table(doubted, scores))
    return tables


def _warnings(scores: Scores) -> tuple[str, ...]:
    found = []
    if len(scores.seeds) < 2:
        found.append("One seed only: the score cannot see where seeds disagree, and has no error over seeds.")
    if len(scores.epochs) < 5:
        found.append(
            f"{numbers.counted(len(scores.epochs), 'epoch')} only: the paper finds scores unsteady with few epochs."
        )
    return tuple(found)
