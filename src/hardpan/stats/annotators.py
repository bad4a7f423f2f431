"""Annotators who disagree: consensus labels, the quality of each annotator, and agreement.

``answers`` is (n, A): the class number that annotator a gave example i, −1 where there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from hardpan import arguments
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.stats.intervals import share

ALPHA_RESAMPLES = 1000
MAJORITY, DAWID_SKENE, CROWDLAB = "majority", "Dawid–Skene", "CROWDLAB"
_STEPS, _TOLERANCE = 200, 1e-6
_LEAST = 1e-10  # of a probability whose logarithm is taken
_LEAST_WEIGHT = 1e-6

Floats = NDArray[np.float64]


@record(eq=False)
class Consensus:
    """What one method makes of annotators' answers.

    Attributes:
        method: its name.
        posterior: (n, K) probabilities of the classes; the largest is the confidence in the consensus label.
        quality: (A,) how often the annotator is right, by the method; NaN where it cannot say.
        held_back: how often it predicts one answer per example that it did not see, of examples with three answers
            or more; None where there is no such example.
    """

    method: str
    posterior: Floats
    quality: Floats
    held_back: Estimate | None = None

    @property
    def labels(self) -> NDArray[np.int64]:
        """(n,) consensus labels; of equal probabilities the first class."""
        return np.asarray(self.posterior.argmax(axis=1), dtype=np.int64)

    @property
    def confidence(self) -> Floats:
        """(n,) probability of the consensus label."""
        return np.asarray(self.posterior.max(axis=1))


def consensus(
    answers: ArrayLike, *, n_classes: int | None = None, probs: ArrayLike | None = None, seed: int = 0
) -> tuple[Consensus, ...]:
    """Consensus labels by majority, by Dawid and Skene and, with a model's probabilities, by CROWDLAB.

    - Majority: the proportions of the answers; quality is how often an annotator agrees with the majority of the
      others (ties split).
    - Dawid–Skene: P(k | answers of i) ∝ π_k Π_a θ_a[k, y_ia], with π and each annotator's confusion matrix θ_a by
      maximum likelihood (EM from the majority, extrapolated by SQUAREM until no probability changes by 1e-6);
      quality is Σ_k π_k θ_a[k, k].
    - CROWDLAB: the weighted mean of the model's probabilities and of one vector per answer, which has P, how often
      annotators agree with the majority, for the answer and (1 − P)/(K − 1) for each other class. The weight of an
      annotator is 1 − (1 − s_a)/(1 − m), with s_a the agreement with other annotators and m that of the most
      frequent class with the majority; that of the model is the same of its agreement, times √(answers per
      example).

    Each is also fitted without one answer per example with three or more, and compared with these answers.

    Args:
        answers: (n, A) class numbers, −1 where annotator a did not answer.
        n_classes: K; by default the largest answer + 1.
        probs: (n, K) probabilities by a model that did not see these labels.
        seed: of the answers that are held back.

    Source: Dawid and Skene (1979), Maximum likelihood estimation of observer error-rates using the EM algorithm;
    Varadhan and Roland (2008), Simple and globally convergent methods for accelerating the convergence of any EM
    algorithm; Goh, Tkachenko and Mueller (2022), CROWDLAB.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.integers(0, 3, 500)
        >>> right = rng.random((500, 5)) < [0.9, 0.9, 0.5, 0.5, 0.5]
        >>> answers = np.where(right, truth[:, None], rng.integers(0, 3, (500, 5)))
        >>> [(item.method, float(np.mean(item.labels == truth))) for item in consensus(answers)]
        [('majority', 0.976), ('Dawid–Skene', 0.984)]
    """
    votes = np.asarray(answers)
    if votes.ndim != 2 or votes.dtype.kind not in "iu" or not votes.size or votes.max(initial=-1) < 0:
        raise InputError(
            f"must be class numbers of shape (examples, annotators), -1 where there is none; got {votes.dtype} of "
            f"shape {votes.shape}",
            argument="answers",
        )
    k = max(2, int(votes.max()) + 1) if n_classes is None else n_classes
    if votes.min() < -1 or votes.max() >= k:
        wrong = int(votes.max() if votes.max() >= k else votes.min())
        raise InputError(f"must be -1 or class numbers below {k}; got {wrong}", argument="answers")
    methods: dict[str, Callable[[NDArray[Any]], tuple[Floats, Floats]]] = {
        MAJORITY: lambda kept: _majority(kept, k),
        DAWID_SKENE: lambda kept: _dawid_skene(kept, k),
    }
    if probs is not None:
        predicted = arguments.probabilities("probs", np.asarray(probs))
        if predicted.shape != (len(votes), k):
            raise InputError(f"must have shape {(len(votes), k)}; got {predicted.shape}", argument="probs")
        methods[CROWDLAB] = lambda kept: _crowdlab(kept, k, predicted)
    kept, rows, left_out = _hold_back(votes, seed)
    results = []
    for name, method in methods.items():
        posterior, quality = method(votes)
        held_back = None
        if len(rows):
            predicts = method(kept)[0].argmax(axis=1)[rows] == left_out
            held_back = share(int(predicts.sum()), len(rows))
        results.append(Consensus(name, posterior, quality, held_back))
    return tuple(results)


def _hold_back(given: NDArray[Any], seed: int) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[Any]]:
    """The answers without one of each example with three or more, these examples, and the answers taken out."""
    rows = np.flatnonzero((given >= 0).sum(axis=1) >= 3)
    order = np.random.default_rng([seed, 0]).random((len(rows), given.shape[1]))
    who = np.where(given[rows] >= 0, order, -1.0).argmax(axis=1)
    remaining = given.copy()
    remaining[rows, who] = -1
    return remaining, rows, given[rows, who]


def count_answers(answers: NDArray[Any], n_classes: int) -> Floats:
    """(n, K) how many annotators gave each class."""
    rows, who = np.nonzero(answers >= 0)
    flat = np.bincount(rows * n_classes + answers[rows, who], minlength=len(answers) * n_classes)
    return flat.reshape(len(answers), n_classes).astype(np.float64)


def _majority(answers: NDArray[Any], k: int) -> tuple[Floats, Floats]:
    counts = count_answers(answers, k)
    totals = counts.sum(axis=1, keepdims=True)
    posterior = np.where(totals > 0, counts / np.maximum(totals, 1), 1 / k)
    rows, who = np.nonzero((answers >= 0) & (totals >= 2))
    own = answers[rows, who]
    others = counts[rows]
    others[np.arange(len(rows)), own] -= 1
    leading = others == others.max(axis=1, keepdims=True)
    agrees = leading[np.arange(len(rows)), own] / leading.sum(axis=1)
    return posterior, _mean_by_annotator(agrees, who, answers.shape[1])


def _mean_by_annotator(values: Floats, who: NDArray[Any], annotators: int) -> Floats:
    sums, counts = (np.bincount(who, weights, minlength=annotators) for weights in (values, None))
    return np.asarray(np.where(counts > 0, sums / np.maximum(counts, 1), np.nan), dtype=np.float64)


def _dawid_skene(answers: NDArray[Any], k: int) -> tuple[Floats, Floats]:
    n, annotators = answers.shape
    rows, who = np.nonzero(answers >= 0)
    cells = who * k + answers[rows, who]
    gave = sparse.csr_array((np.ones(len(rows)), (cells, rows)), shape=(annotators * k, n))
    given_by = sparse.csr_array(gave.T)

    def step(posterior: Floats) -> tuple[Floats, float, Floats]:
        """The next posterior, the log-likelihood before it, and Σ_k π_k θ_a[k, k] of each annotator."""
        prior = posterior.mean(axis=0)
        counts = (gave @ posterior).reshape(annotators, k, k)  # annotator, answer, class
        confusion = counts / np.maximum(counts.sum(axis=1, keepdims=True), _LEAST)
        logs = given_by @ np.log(confusion.reshape(-1, k) + _LEAST) + np.log(prior + _LEAST)
        largest = logs.max(axis=1, keepdims=True)
        powers = np.exp(logs - largest)
        sums = powers.sum(axis=1, keepdims=True)
        return powers / sums, float((largest + np.log(sums)).sum()), np.einsum("akk,k->a", confusion, prior)

    posterior = _majority(answers, k)[0]
    for _ in range(_STEPS):
        first, _, _ = step(posterior)
        second, reached, quality = step(first)
        if np.abs(second - first).max() < _TOLERANCE:
            break
        change = first - posterior
        curve = second - first - change
        length = np.sqrt((change**2).sum() / max(float((curve**2).sum()), _LEAST))
        posterior = second
        if length > 1:  # an extrapolation, taken where it is as likely
            ahead = np.maximum(first + (2 * length - 1) * change + length**2 * curve, 0.0)
            ahead, likely, _ = step(ahead / ahead.sum(axis=1, keepdims=True))
            posterior = ahead if likely >= reached else second
    return second, np.where((answers >= 0).any(axis=0), quality, np.nan)


def _crowdlab(answers: NDArray[Any], k: int, probs: Floats) -> tuple[Floats, Floats]:
    n, annotators = answers.shape
    counts = count_answers(answers, k)
    totals = counts.sum(axis=1)
    agreed = (counts + 0.5 * probs).argmax(axis=1)  # of tied classes the one that the model prefers
    several = totals >= 2
    if not several.any():
        return probs, np.full(annotators, np.nan)
    rows, who = np.nonzero(answers >= 0)
    own = answers[rows, who]
    agreement = float((counts[several, agreed[several]] / totals[several]).mean())
    shared = several[rows]
    with_others, others = (
        np.bincount(who[shared], weights[shared], minlength=annotators)
        for weights in (counts[rows, own] - 1, totals[rows] - 1)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        pairs = np.where(others > 0, with_others / others, with_others.sum() / others.sum())
    frequent = int(counts.sum(axis=0).argmax())
    guessing = max(float((agreed[several] != frequent).mean()), _LEAST_WEIGHT)

    def weight_of(right: Any) -> Any:
        return np.maximum(1 - (1 - right) / guessing, _LEAST_WEIGHT)

    annotator_weight = weight_of(pairs)
    model_weight = float(weight_of((probs.argmax(axis=1) == agreed)[several].mean()) * np.sqrt(totals.mean()))
    of_class = np.bincount(rows * k + own, annotator_weight[who], minlength=n * k).reshape(n, k)
    of_example = of_class.sum(axis=1, keepdims=True)
    posterior = model_weight * probs + agreement * of_class + (1 - agreement) / (k - 1) * (of_example - of_class)
    posterior /= model_weight + of_example
    rated = _mean_by_annotator(posterior[rows, own], who, annotators)
    majority = _mean_by_annotator((own == posterior.argmax(axis=1)[rows])[shared] * 1.0, who[shared], annotators)
    trust = model_weight / (model_weight + float(annotator_weight[who].sum()) / n)
    return posterior, np.where(np.isnan(majority), rated, trust * rated + (1 - trust) * majority)


def krippendorff_alpha(counts: NDArray[np.int64]) -> Estimate:
    """Krippendorff's α for categories without order: 1 − observed / expected disagreement.

    With n_uc ratings of unit u in category c, m_u their sum, n the sum over units with m_u ≥ 2:
    observed = (1/n) Σ_u Σ_{c≠d} n_uc n_ud / (m_u − 1), expected = Σ_{c≠d} n_c n_d / (n (n − 1)).

    Args:
        counts: (units, categories), how many raters put each unit into each category.

    Returns:
        α with a 95 % percentile interval over bootstrap samples of units; NaN where every rating is the same.

    Source: Krippendorff, "Computing Krippendorff's alpha-reliability" (2011).

    Example:
        >>> krippendorff_alpha(np.array([[2, 0], [0, 2], [2, 0], [0, 2]])).value
        1.0
    """
    counts = counts[counts.sum(axis=1) >= 2]
    sizes = counts.sum(axis=1)
    disagreements = (sizes**2 - (counts**2).sum(axis=1)) / (sizes - 1.0)
    value = float(_alpha_values(disagreements.sum(), counts.sum(axis=0)[None])[0])
    rng = np.random.default_rng([0, 0])
    draws = np.empty(ALPHA_RESAMPLES)
    for start in range(0, ALPHA_RESAMPLES, 100):
        weights = rng.multinomial(len(counts), np.full(len(counts), 1 / len(counts)), size=100)
        draws[start : start + 100] = _alpha_values(weights @ disagreements, weights @ counts)
    good = draws[np.isfinite(draws)]
    known = len(good) > 1
    low, high = np.quantile(good, [0.025, 0.975]).tolist() if known else (np.nan, np.nan)
    method = f"Krippendorff α, {ALPHA_RESAMPLES:,} bootstrap samples of units"
    return Estimate(
        value, float(good.std(ddof=1)) if known else np.nan, low, high, method=method, n=len(counts), seed=0
    )


def _alpha_values(disagreement: Any, totals: NDArray[Any]) -> NDArray[np.float64]:
    n = totals.sum(axis=1)
    expected = (n**2 - (totals**2).sum(axis=1)) / np.maximum(n - 1.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(expected > 0, 1.0 - disagreement / expected, np.nan), dtype=np.float64)
