"""What the commands return: small records with the numbers, without a row an example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hardpan import stats
from hardpan.confusion.ablation import Ablation
from hardpan.confusion.answers import Signals
from hardpan.confusion.banding import Bands, bands
from hardpan.confusion.foretelling import Predictors
from hardpan.confusion.models import ConfusedModels
from hardpan.confusion.scoring import Scores
from hardpan.confusion.shown import no_seed_right, part_rows
from hardpan.confusion.transfers import TargetErrors, Transfer
from hardpan.confusion.uncertainty import Stability, stability
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.stats.intervals import check_confidence

HARDEST = 20
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)


@record
@dataclass(frozen=True, slots=True)
class ConfusionConfig:
    """Settings of the confusion commands, saved with every result.

    Attributes:
        epochs: "all", every k-th, or a list.
        seeds: numbers of the seeds; all where empty.
        base: of the logarithm.
        part: of the split that errors are of.
        of: whose errors: the mean of the "seeds" or the "ensemble".
        edges: of the bands; round ones where empty.
        confidence: level of the intervals.
        seed: of the bootstrap.
        data: the dataset that pictures come from.
        subset: a manifest that the examples were restricted to.
    """

    epochs: str | int | tuple[int, ...] = "all"
    seeds: tuple[int, ...] = ()
    base: float = 2.0
    part: str = "all"
    of: str = "seeds"
    edges: tuple[float, ...] = ()
    confidence: float = 0.95
    seed: int = 0
    data: str = ""
    subset: str = ""

    def __post_init__(self) -> None:
        check_confidence(self.confidence)  # before the work: with a wrong one it would end in a refusal


@record
@dataclass(frozen=True, slots=True)
class ScoreReport:
    """Confusion scores in numbers.

    Attributes:
        source: what was scored.
        part: of the split that the numbers are of.
        examples: how many.
        seeds: numbers of the seeds.
        epochs: numbers of the epochs.
        base: of the logarithm.
        largest: the largest score there can be.
        mean: mean score, with a normal interval over examples.
        quantiles: of the scores, by level.
        hardest: ids and scores of the most confusing examples.
        stability: of scores and ranking; None without standard errors.
        bands: error by band; None without labels.
        no_seed_right: share of the examples that every seed gets wrong at the last epoch; None without labels.
        sha256: of ids and scores.
    """

    source: str
    part: str
    examples: int
    seeds: tuple[int, ...]
    epochs: tuple[int, ...]
    base: float
    largest: float
    mean: Estimate
    quantiles: Mapping[str, float]
    hardest: tuple[tuple[str, float], ...]
    stability: Stability | None
    bands: Bands | None
    no_seed_right: Estimate | None
    sha256: str


@record
@dataclass(frozen=True, slots=True)
class BandsReport:
    """Error by band for each part of the split."""

    source: str
    parts: Mapping[str, Bands]
    of: str


@record
@dataclass(frozen=True, slots=True)
class TransferReport:
    """All pairs of models, and the errors of each by band of the first one's scores."""

    models: tuple[str, ...]
    pairs: tuple[Transfer, ...]
    targets: TargetErrors | None


@record
@dataclass(frozen=True, slots=True)
class AblationReport:
    """An ablation and what was ablated."""

    source: str
    ablation: Ablation


@record
@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """The table of predictors, and, with several models, confusion against accuracy."""

    source: str
    predictors: Predictors
    models: ConfusedModels | None


def score_report(
    scores: Scores, signals: Signals | None = None, *, part: str = "all", confidence: float = 0.95
) -> ScoreReport:
    """Sum scores up.

    Example:
        >>> import numpy as np
        >>> from hardpan import confusion
        >>> probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 4, 30))
        >>> score_report(confusion.scores(probs)).examples
        30
    """
    rows = part_rows(scores, part)
    shown = scores.rows(rows)
    values = shown.values
    order = np.argsort(-values, kind="stable")[:HARDEST]
    known = signals is not None and signals.correct_seeds is not None
    found = bands(shown, signals.correct("seeds")[:, rows], confidence=confidence) if known and signals else None
    missed = None
    if known and signals:
        never = int(np.count_nonzero(np.isin(no_seed_right(scores, signals), rows)))
        missed = stats.share(never, len(rows), confidence)
    return ScoreReport(
        source=scores.source,
        part=part,
        examples=len(shown),
        seeds=scores.seeds,
        epochs=scores.epochs,
        base=scores.base,
        largest=scores.largest,
        mean=stats.mean(values, confidence, least=0.0),
        quantiles={f"{level:g}": float(np.quantile(values, level)) for level in QUANTILES},
        hardest=tuple((str(shown.ids[row]), float(values[row])) for row in order),
        stability=None if shown.stderr is None else stability(shown),
        bands=found,
        no_seed_right=missed,
        sha256=scores.sha256,
    )
