"""Classifiers compared with true posteriors: exact excess error, calibration and difficulty."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import arguments, stats
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.flows.synthetic_benchmark import Benchmark
from hardpan.report import Report

BINS = 15


@record(eq=False, dropped=("brier",))
class Judgement(Report):
    """A classifier compared with the true posteriors of a synthetic test set.

    Attributes:
        error: proportion of wrong labels.
        expected_error: mean of 1 − p(ŷ | x): the same without the noise of the sampled labels.
        floor: the exact Bayes error.
        excess: mean of max p − p(ŷ | x): error above the Bayes error.
        calibration: mean over bins of |mean confidence − mean p(ŷ | x)|, weighted: the calibration error without
            label noise.
        distance: mean total variation ½ Σ_y |q(y) − p(y | x)| between predicted and true posterior.
        divergence: mean Kullback–Leibler divergence KL(p ‖ q) in nats: log loss above the lowest possible.
        disagreement: proportion of examples on which ŷ is not the Bayes-optimal label.
        inexact_by: for 8-bit files, by how much the true posterior of the files may differ (excess error at most).
        n: number of examples.
        name: of the classifier.
        hashes: sha256 of the flow and of the files of the benchmark.
        reliability: bins: confidence, p(ŷ | x), examples.
        difficulty: (N,) 1 − max p of each example: the lowest possible error there.
        excess_by_example: (N,) max p − p(ŷ | x).
    """

    error: Estimate
    expected_error: Estimate
    floor: Estimate
    excess: Estimate
    calibration: Estimate
    distance: Estimate
    divergence: Estimate
    disagreement: Estimate
    inexact_by: Estimate | None
    n: int
    name: str = "classifier"
    hashes: Mapping[str, str] = field(default_factory=dict)
    reliability: tuple[Mapping[str, float], ...] = ()
    difficulty: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    excess_by_example: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))


def judge(
    benchmark: Benchmark, probs: ArrayLike, *, name: str = "classifier", confidence: float = 0.95
) -> Judgement:
    """Compare a classifier's probabilities on the test set with the true ones.

    Args:
        benchmark: with N test examples of K classes.
        probs: (N, K) probabilities in the order of the test set, or (N,) predicted class numbers.
        name: of the classifier.
        confidence: level of all intervals.

    Returns:
        Numbers without label noise: their uncertainty is about which x were drawn, not which labels.

    Example:
        >>> import tempfile
        >>> from hardpan import Dataset, flows
        >>> flow = flows.fit(Dataset.open("digits"), flows.FlowConfig(preset="tiny", epochs=1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = flows.synthesize(flow, folder, temperature=0.7, n=400)
        >>> best = judge(made, made.posterior[made.test])
        >>> best.excess.value, best.divergence.value < 1e-12, best.disagreement.value
        (0.0, True, 0.0)
    """
    rows = benchmark.test
    truth, labels = benchmark.posterior[rows], benchmark.labels[rows]
    n, n_classes = truth.shape
    if np.ndim(probs) == 1:
        q = np.eye(n_classes)[arguments.labels("probs", probs, n, n_classes)]
    else:
        q = arguments.probabilities("probs", probs, n, n_classes)
    predicted = q.argmax(axis=1)
    right = truth[np.arange(n), predicted]
    best = truth.max(axis=1)
    wrong = int((predicted != labels).sum())
    p_log = np.where(truth > 0, np.log(np.where(truth > 0, truth, 1.0)), 0.0)
    with np.errstate(divide="ignore"):
        q_log = np.log(np.maximum(q, np.finfo(np.float64).tiny))
    confidences = q.max(axis=1)
    bins = [rows for rows in np.array_split(np.argsort(confidences, kind="stable"), BINS) if len(rows)]
    reliability = tuple(
        {
            "confidence": float(confidences[rows].mean()),
            "truth": float(right[rows].mean()),
            "examples": float(len(rows)),
        }
        for rows in bins
    )

    def mean(values: NDArray[np.float64], method: str) -> Estimate:
        return stats.mean(values, confidence, least=0.0, method=method)

    # Where bins are far from 0 the absolute value is smooth, and the error of the sum is that of signed gaps.
    gaps = confidences - right
    signed = np.concatenate([np.sign(gaps[rows].mean()) * gaps[rows] for rows in bins])
    calibration = dataclasses.replace(
        mean(signed, f"{len(bins)} bins of equal counts, true probabilities in place of labels"),
        value=sum(row["examples"] / n * abs(row["confidence"] - row["truth"]) for row in reliability),
    )
    return Judgement(
        error=stats.share(wrong, n, confidence, method="proportion of wrong labels, Clopper–Pearson"),
        expected_error=mean(1 - right, "mean of 1 − p(ŷ | x)"),
        floor=benchmark.bayes_error,
        excess=mean(best - right, "mean of max p − p(ŷ | x)"),
        calibration=calibration,
        distance=mean(0.5 * np.abs(q - truth).sum(axis=1), "mean of ½ Σ |q − p|"),
        divergence=mean(np.maximum((truth * (p_log - q_log)).sum(axis=1), 0.0), "mean of KL(p ‖ q), nats"),
        disagreement=mean((predicted != truth.argmax(axis=1)).astype(float), "proportion of suboptimal labels"),
        inexact_by=benchmark.rounding,
        n=n,
        name=name,
        hashes={"Flow, sha256": benchmark.flow_sha256, **benchmark.files},
        reliability=reliability,
        difficulty=1 - best,
        excess_by_example=best - right,
    )  # fmt: skip
