"""How many labels are wrong, from a random sample that a person reviews.

Probabilities cannot say it: errors of models and wrong labels look the same in them. The sample is stratified by
the rank of the labels, so that the estimate needs fewer answers than from a simple random sample; its interval
follows from the way the sample was drawn and from nothing else. The file of a review (``review.csv``) has one row
per drawn label, in random order, with its stratum and the stratum's size.
"""

from __future__ import annotations

import csv
import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardpan import arguments, files, tables
from hardpan.arguments import check_confidence, whole_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.report import Report
from hardpan.stats import clopper_pearson
from hardpan.stats.intervals import normal_quantile

if TYPE_CHECKING:
    from hardpan.confusion.label_noise import RankedLabels

FILE = "review.csv"
VERDICTS = ("right", "wrong", "ambiguous", "skipped")
EDGES = (0.005, 0.02, 0.05, 0.1, 0.2, 0.4)  # strata end at these proportions of the ranks
LEAST = 8  # reviews in a stratum
FEWEST_STRATIFIED = 150  # reviews; fewer are drawn without strata
PRIOR = (0.02, 0.98)  # limits of the rough proportion of wrong labels in a stratum, for the allocation
_NUMBERS = ("row", "stratum", "size")
_TEXTS = ("id", "split", "label", "predicted", "verdict", "right_class")


@dataclass(slots=True, eq=False)
class LabelReview:
    """Labels that were drawn for a review, in random order, and what the reviewer said of them.

    Attributes:
        id: (n,) ids.
        split: (n,) names of the splits.
        row: (n,) row numbers.
        label: (n,) names of the given classes.
        predicted: (n,) names of the predicted classes.
        stratum: (n,) number of the stratum.
        size: (n,) how many labels this stratum has.
        verdict: (n,) "right", "wrong", "ambiguous" or "skipped"; empty where nobody has judged.
        right_class: (n,) names of the right classes of wrong labels; empty where they are not known.
    """

    id: NDArray[np.str_]
    split: NDArray[np.str_]
    row: NDArray[np.int64]
    label: NDArray[np.str_]
    predicted: NDArray[np.str_]
    stratum: NDArray[np.int64]
    size: NDArray[np.int64]
    verdict: NDArray[np.object_]
    right_class: NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.id)

    @property
    def judged(self) -> int:
        """How many labels have a verdict, skipped ones included."""
        return int((self.verdict != "").sum())

    @property
    def complete(self) -> bool:
        """Whether every stratum has a verdict, as an estimate needs it."""
        return len(np.unique(self.stratum[self.verdict != ""])) == len(np.unique(self.stratum))

    def judge(self, position: int, verdict: str, right_class: str = "") -> None:
        """Set the verdict of a label; an empty one takes it back.

        Args:
            position: in this sample.
            verdict: one of :data:`VERDICTS`, or an empty text.
            right_class: name of the right class, if the label is wrong and the reviewer knows it.
        """
        if verdict not in ("", *VERDICTS):
            raise InputError(f"must be one of {', '.join(VERDICTS)}; got {verdict!r}", argument="verdict")
        if right_class and (verdict != "wrong" or right_class == self.label[position]):
            raise InputError(
                f": a class other than the label, for a wrong label; got {right_class!r} for {verdict!r}",
                argument="right_class",
            )
        self.verdict[position], self.right_class[position] = verdict, right_class

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sample and the verdicts to a CSV file, in one atomic step."""
        columns = {name: getattr(self, name).tolist() for name in self.__slots__}
        files.write_text(Path(path), tables.csv_text(columns))

    @classmethod
    def read(cls, path: Any) -> LabelReview:
        """Read the file of a review."""
        path = arguments.as_path("review", path)
        try:
            with path.open(encoding="utf-8", newline="") as stream:
                rows = [
                    {name: tables.stored_cell(cell or "") for name, cell in row.items() if name}
                    for row in csv.DictReader(stream)
                ]
            columns: dict[str, Any] = {name: np.array([int(row[name]) for row in rows]) for name in _NUMBERS}
            for name in _TEXTS:
                kind = object if name in ("verdict", "right_class") else np.str_
                columns[name] = np.array([row[name].strip() for row in rows], dtype=kind)
        except (OSError, UnicodeDecodeError, csv.Error, KeyError, ValueError) as error:
            raise InputError(f"{path}: is not the file of a review ({error})", argument="review") from error
        strange = sorted(set(columns["verdict"].tolist()) - {"", *VERDICTS})
        if not rows:
            raise InputError(f"{path}: has no rows", argument="review")
        if strange:
            raise InputError(
                f"{path}: verdicts must be {', '.join(VERDICTS)}; got {strange[0]!r}", argument="review"
            )
        return cls(**columns)


@record
class LabelCount(Report):
    """How many labels are wrong, as judged by the reviewer of a random sample.

    An ambiguous or skipped label counts as right in the value and in the lower limit, as wrong in the upper limit.

    Attributes:
        wrong: number of wrong labels among those that were ranked.
        precision: proportion of wrong labels on the list (prediction differs from label); None without a list.
        test_error: error of these predictions on the test rows, had the reviewer labelled all of them; None without
            test rows in the sample.
        stated_error: the same with the given labels.
        labels: number of labels that were ranked.
        judged: number of labels that the reviewer judged.
        drawn: number of labels in the sample.
        found: number of them that are wrong.
        ambiguous: number of them that are ambiguous or were skipped.
    """

    HEADLINE = "{found:,} of {judged:,} reviewed labels are wrong."

    wrong: Estimate
    precision: Estimate | None
    test_error: Estimate | None
    stated_error: float | None
    labels: int
    judged: int
    drawn: int
    found: int
    ambiguous: int


def draw_review(ranked: RankedLabels, class_names: Sequence[str], count: int, seed: int) -> LabelReview:
    """Draw ``count`` of the ranked labels at random, stratified by rank from 150 on.

    The strata end at 0.5, 2, 5, 10, 20, 40 and 100 % of the ranks and where the list ends, apart for test rows and
    the others. Each gets 8 reviews, the rest is in proportion to N_h √(p_h (1 − p_h)) (Neyman allocation), with
    p_h the mean of 1 − p(label), which only the width of the interval depends on.
    """
    count = min(whole_number("count", count, 1), len(ranked.row))
    stratum = strata_of(ranked) if count >= FEWEST_STRATIFIED else np.zeros(len(ranked.row), dtype=np.int64)
    sizes = np.bincount(stratum)
    doubt = np.clip(np.bincount(stratum, weights=1 - ranked.probability) / np.maximum(sizes, 1), *PRIOR)
    allocated = _review_allocation(sizes, sizes * np.sqrt(doubt * (1 - doubt)), count)
    rng = np.random.default_rng([seed, 93])
    at = np.concatenate(
        [rng.choice(np.flatnonzero(stratum == h), n, replace=False) for h, n in enumerate(allocated)]
    )
    at = rng.permutation(at)
    classes = int(max(ranked.label.max(initial=0), ranked.predicted.max(initial=0))) + 1
    names = np.array(list(class_names) or [str(c) for c in range(classes)])
    return LabelReview(
        id=ranked.id[at].astype(np.str_),
        split=ranked.split[at].astype(np.str_),
        row=ranked.row[at],
        label=names[ranked.label[at]],
        predicted=names[ranked.predicted[at]],
        stratum=stratum[at],
        size=sizes[stratum[at]],
        verdict=np.full(len(at), "", dtype=object),
        right_class=np.full(len(at), "", dtype=object),
    )


def strata_of(ranked: RankedLabels) -> NDArray[np.int64]:
    """(N,) number of the stratum of every ranked label."""
    stratum, number = np.zeros(len(ranked.row), dtype=np.int64), 0
    test = ranked.split == "test"
    for group in (np.flatnonzero(test), np.flatnonzero(~test)):
        listed, n = int((group < ranked.differing).sum()), len(group)
        ends = sorted({*(int(np.ceil(edge * n)) for edge in EDGES), listed, n})
        start = 0
        for end in ends:
            crowded = end - start < LEAST or (listed - end < LEAST if end < listed else n - end < LEAST)
            if end > start and (end in (listed, n) or not crowded):
                stratum[group[start:end]], number, start = number, number + 1, end
    return stratum


def _review_allocation(sizes: NDArray[np.int64], weights: NDArray[Any], count: int) -> NDArray[np.int64]:
    """So many of each stratum: at least ``LEAST``, the rest in proportion to the weights, none above its size."""
    counts = least = np.minimum(sizes, LEAST if len(sizes) > 1 else 0)
    for _ in range(count - int(least.sum())):  # one by one to the stratum that is furthest below its proportion
        behind = np.where(counts < sizes, weights / (counts - least + 1), -1.0)
        counts = counts + (np.arange(len(sizes)) == behind.argmax())
    return counts


def count_wrong(review: LabelReview, *, confidence: float = 0.95) -> LabelCount:
    """Estimate the number of wrong labels, the precision of the list and the corrected test error.

    With x_h of n_h judged labels wrong in a stratum of N_h, the estimate is Σ N_h x_h/n_h. Its variance is
    Σ N_h² p̃_h (1 − p̃_h)/(n_h − 1) · (1 − n_h/N_h) with p̃_h = (x_h + 1)/(n_h + 2). Its limits are normal (of a
    single stratum Clopper–Pearson), at least as many as were found wrong and at most as many as were not found
    right. An ambiguous label counts as right for the value and the lower limit and as wrong for the upper one.

    Args:
        review: a sample with verdicts; every stratum needs one.
        confidence: level of the intervals.

    Source: Cochran (1977), Sampling Techniques, chapter 5.

    Example:
        >>> from hardpan.confusion import label_issues
        >>> p = np.random.default_rng(0).dirichlet([1.0, 1.0], 1000)
        >>> review = label_issues(p, labels=np.zeros(1000, dtype=int)).sample(200, seed=0)
        >>> for i in range(200):
        ...     review.judge(i, "wrong" if review.predicted[i] == "1" else "right")
        >>> count = count_wrong(review)
        >>> bool(count.wrong.low <= (p[:, 1] > 0.5).sum() <= count.wrong.high), count.precision.value
        (True, 1.0)
    """
    check_confidence(confidence)
    if not review.complete:
        raise InputError(": some strata have no verdict yet; continue the review", argument="review")
    wrong, unknown = review.verdict == "wrong", np.isin(review.verdict, ("ambiguous", "skipped"))
    differs = review.label != review.predicted
    number = _domain_total(review, np.ones(len(review), dtype=bool), wrong, wrong, wrong | unknown, confidence)
    assert number is not None
    listed = _domain_total(review, differs, wrong, wrong, wrong | unknown, confidence)
    # With the reviewer's class as the label: an error that nobody knows counts as in the given labels.
    known = wrong & (review.right_class != "")
    unclear = unknown | (wrong & ~known & differs)
    error = np.where(known, review.right_class != review.predicted, differs | wrong)
    test = review.split == "test"
    corrected = _domain_total(review, test, error, error & ~unclear, error | unclear, confidence)
    stated = _domain_total(review, test, differs, differs, differs, confidence)
    return LabelCount(
        wrong=number[0],
        precision=None if listed is None else _proportion(*listed),
        test_error=None if corrected is None else _proportion(*corrected),
        stated_error=None if stated is None else stated[0].value / stated[1],
        labels=round(number[1]),
        judged=review.judged,
        drawn=len(review),
        found=int(wrong.sum()),
        ambiguous=int(unknown.sum()),
    )


def _domain_total(
    review: LabelReview,
    domain: NDArray[np.bool_],
    value: NDArray[np.bool_],
    least: NDArray[np.bool_],
    most: NDArray[np.bool_],
    confidence: float,
) -> tuple[Estimate, float] | None:
    """How many labels of a domain have a property, which lies between ``least`` and ``most``, and its size.

    None where no label of the domain was judged.
    """
    used = domain & (review.verdict != "")
    strata, at = np.unique(review.stratum[used], return_inverse=True)
    if not len(strata):
        return None
    judged = np.array([int(((review.verdict != "") & (review.stratum == h)).sum()) for h in strata])
    n = np.bincount(at)
    size = np.array([float(review.size[review.stratum == h][0]) for h in strata]) * n / judged
    middle, low, high = (np.bincount(at, weights=column[used]) for column in (value, least, most))

    def deviation(found: NDArray[Any]) -> float:
        smoothed = (found + 1) / (n + 2)
        variances = size**2 * smoothed * (1 - smoothed) / np.maximum(n - 1, 1) * np.maximum(0.0, 1 - n / size)
        return float(np.sqrt(variances.sum()))

    estimate = float((size * middle / n).sum())
    if len(strata) == 1:
        ends = [float(size[0] * clopper_pearson(x[0], n[0], confidence)[i]) for i, x in enumerate((low, high))]
    else:
        z = normal_quantile(confidence)
        ends = [float((size * x / n).sum() + sign * z * deviation(x)) for x, sign in ((low, -1), (high, 1))]
    least_total = min(max(ends[0], float(low.sum())), estimate)
    most_total = max(min(ends[1], float(size.sum() - (n - high).sum())), estimate)
    how = "random sample of labels, as judged by the reviewer"
    limits = (least_total, most_total, confidence, how, int(n.sum()))
    return Estimate(estimate, deviation(middle), *limits), float(size.sum())


def _proportion(total: Estimate, size: float) -> Estimate:
    low, high = total.low / size, min(1.0, total.high / size)
    return dataclasses.replace(total, value=total.value / size, stderr=total.stderr / size, low=low, high=high)
