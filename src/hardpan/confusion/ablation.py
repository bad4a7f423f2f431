"""How many seeds and epochs a confusion score needs: the same scores from fewer of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.confusion.banding import MOST_BANDS, Bands, bands, round_band_edges
from hardpan.confusion.difficulty_signals import difficulty_signal_columns
from hardpan.confusion.row_tasks import Floats
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.files import record
from hardpan.predictions import Predictions
from hardpan.predictions.opening import open_selected
from hardpan.stats import kendall_tau, pearson

CELLS = 80
FRACTIONS = (0.05, 0.1, 0.2, 0.33, 1.0)  # of 100 epochs: the paper's 5, 10, 20, 33 and 100


@record(eq=False)
class Variant:
    """The scores from some seeds and epochs.

    Attributes:
        seeds: how many.
        epochs: the epochs that were used.
        mean: mean score.
        deviation: standard deviation of the scores over examples.
        counts: examples by cell of the histogram.
        tau: Kendall's τ with the scores from all seeds and epochs.
        rho: Pearson's ρ with them.
        bands: error of the target model by band, or None.
    """

    seeds: int
    epochs: tuple[int, ...]
    mean: float
    deviation: float
    counts: NDArray[np.int64]
    tau: Estimate
    rho: Estimate
    bands: Bands | None


@record(eq=False)
class Ablation:
    """All variants, fewest seeds and epochs first; ``edges`` are the limits of the histograms' cells."""

    variants: tuple[Variant, ...]
    edges: NDArray[np.float64]
    examples: int
    target: str


def ablate(
    probs: Any,
    *,
    fractions: Sequence[float] = FRACTIONS,
    seeds: Sequence[int] | None = None,
    correct: ArrayLike | None = None,
    target: str = "",
    progress: Progress | None = None,
) -> Ablation:
    """Score with fewer epochs and seeds.

    Args:
        probs: as for :func:`hardpan.confusion.scores`.
        fractions: of the epochs, evenly spaced and beginning with the first; equal numbers of epochs are used once.
        seeds: numbers of first seeds; by default 1 and all.
        correct: (N,) or (M, N) right or wrong of a target model, for its error by band.
        target: name of that model.
        progress: called with a step and the fraction done.

    Source: Albiero et al. (2023), section 3.3, Figures 5 and 6.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> probs = rng.dirichlet(np.ones(4), size=(3, 20, 50))
        >>> found = ablate(probs)
        >>> [(variant.seeds, len(variant.epochs)) for variant in found.variants][:5]
        [(1, 1), (1, 2), (1, 4), (1, 7), (1, 20)]
    """
    source = open_selected(probs)
    plan = ablation_plan(source, fractions, seeds)
    columns = difficulty_signal_columns(source, plan=plan, progress=progress)
    return plan.compare(columns["fewer"], n_classes=source.n_classes, correct=correct, target=target)


@dataclass(frozen=True, slots=True)
class AblationPlan:
    """Numbers of first seeds and sets of epochs to score with; ``positions`` are those of the epochs."""

    seeds: tuple[int, ...]
    epochs: tuple[tuple[int, ...], ...]
    positions: tuple[tuple[int, ...], ...]

    def compare(self, values: Floats, **options: Any) -> Ablation:
        """Compare scores (seeds, epochs, N) with the last of them."""
        variants = {
            (size, epochs): values[i, j]
            for i, size in enumerate(self.seeds)
            for j, epochs in enumerate(self.epochs)
        }
        return compare_variants(variants, **options)


def ablation_plan(
    predictions: Predictions, fractions: Sequence[float] = FRACTIONS, seeds: Sequence[int] | None = None
) -> AblationPlan:
    """What to score with: fractions of the epochs, evenly spaced, and numbers of first seeds (1 and all)."""
    if not len(fractions) or not all(0 < fraction <= 1 for fraction in fractions):
        raise InputError(f"must be numbers in 0 < f ≤ 1; got {list(fractions)}", argument="fractions")
    available, known = len(predictions.seeds), predictions.epochs
    sizes = {1, available} if seeds is None else {int(size) for size in seeds}
    if not sizes or min(sizes) < 1 or max(sizes) > available:
        raise InputError(f"must be numbers of seeds in 1..{available}; got {list(seeds or ())}", argument="seeds")
    counts = sorted({max(1, round(fraction * len(known))) for fraction in fractions})
    epochs = tuple(evenly_spaced(known, count) for count in counts)
    positions = tuple(tuple(known.index(epoch) for epoch in some) for some in epochs)
    return AblationPlan(tuple(sorted(sizes)), epochs, positions)


def compare_variants(
    values: Mapping[tuple[int, tuple[int, ...]], Floats],
    *,
    n_classes: int,
    correct: ArrayLike | None = None,
    target: str = "",
) -> Ablation:
    """Compare score vectors in bits, by (number of seeds, epochs), with the last of them."""
    whole = list(values.values())[-1]
    top = max(math.log2(n_classes), *(float(item.max()) for item in values.values()))
    edges = round_band_edges(top, CELLS)
    limits = round_band_edges(top, MOST_BANDS)
    variants = tuple(
        Variant(
            seeds=size,
            epochs=epochs,
            mean=float(item.mean()),
            deviation=float(item.std()),
            counts=np.histogram(item, edges)[0].astype(np.int64),
            tau=kendall_tau(item, whole, resample=True),
            rho=pearson(item, whole),
            bands=None if correct is None else bands(item, correct, limits.tolist()),
        )
        for (size, epochs), item in values.items()
    )
    return Ablation(variants, edges, len(whole), target)


def evenly_spaced(available: Sequence[int], count: int) -> tuple[int, ...]:
    """This many of the epochs, evenly spaced, beginning with the first, as in the paper's ablation.

    Example:
        >>> evenly_spaced(range(100), 5), evenly_spaced(range(7), 3)
        ((0, 20, 40, 60, 80), (0, 2, 4))
    """
    return tuple(available[i * len(available) // count] for i in range(count))
