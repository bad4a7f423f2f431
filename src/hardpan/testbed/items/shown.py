"""Item analysis in one go: a record with what a person asks first, and its section of a page."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardpan import numbers
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.report.sections import Chart, Section, Table
from hardpan.testbed.items.fit import ItemFit, ItemModel, fit_items
from hardpan.testbed.items.reading import Matrix
from hardpan.testbed.items.scales import Cohort, ShorterTest, cohorts, fewest_items, information_curve, kr20

_SHOWN = 10


@record
@dataclass(frozen=True, slots=True, eq=False)
class ItemSummary:
    """What an item analysis says, without the 60,000 rows of the examples.

    Attributes:
        skills: a row a model, best first: name, skill, standard error, accuracy, best and worst rank.
        hardest: the hardest examples: id, difficulty, standard error.
        curve: rows of skill and the test's information there.
    """

    model: str
    models: int
    examples: int
    difficulty_mean: Estimate
    difficulty_spread: Estimate
    discrimination_spread: Estimate
    reliability: Estimate | None
    cohorts: tuple[Cohort, ...]
    random_examples: int
    chosen_examples: int
    share: float
    skills: tuple[tuple[str, float, float, float, int, int], ...]
    hardest: tuple[tuple[str, float, float], ...]
    curve: tuple[tuple[float, float], ...]
    log_likelihood: float
    converged: bool
    method: str
    warnings: tuple[str, ...] = ()


def analyse(matrix: Matrix, model: ItemModel = "rasch", *, seed: int = 0) -> tuple[ItemFit, ItemSummary]:
    """Fit the scale and derive the rest of it; what needs complete answers is left out where some are missing."""
    fit = fit_items(matrix.right, model, seed=seed)
    right = np.asarray(matrix.right, dtype=np.float64)
    complete = not np.isnan(right).any()
    accuracy = np.nanmean(right, axis=1)
    warnings = list(fit.warnings)
    dead: tuple[Cohort, ...] = ()
    shorter: ShorterTest | None = None
    reliability: Estimate | None = None
    if complete and len(set(accuracy.tolist())) > 1:
        reliability, dead = kr20(right), cohorts(right)
        shorter = fewest_items(right, fit, seed=seed)
    else:
        warnings.append("some answers are missing, or all models equal: no reliability, cohorts or shorter test")
    low = shorter.low if shorter else np.ones(len(accuracy), dtype=np.int64)
    high = shorter.high if shorter else np.full(len(accuracy), len(accuracy))
    order, hard = np.argsort(-fit.skills, kind="stable"), np.argsort(-fit.difficulty, kind="stable")[:_SHOWN]
    grid, information = information_curve(fit)
    return fit, ItemSummary(
        model=fit.model,
        models=len(fit.skills),
        examples=len(fit.difficulty),
        difficulty_mean=fit.difficulty_mean,
        difficulty_spread=fit.difficulty_spread,
        discrimination_spread=fit.discrimination_spread,
        reliability=reliability,
        cohorts=dead,
        random_examples=shorter.random if shorter else 0,
        chosen_examples=shorter.chosen if shorter else 0,
        share=shorter.share if shorter else 0.95,
        skills=tuple(
            (
                matrix.models[i],
                float(fit.skills[i]),
                float(fit.skill_stderr[i]),
                float(accuracy[i]),
                int(low[i]),
                int(high[i]),
            )
            for i in order
        ),
        hardest=tuple((matrix.ids[i], float(fit.difficulty[i]), float(fit.difficulty_stderr[i])) for i in hard),
        curve=tuple(zip(grid.tolist(), information.tolist(), strict=True)),
        log_likelihood=fit.log_likelihood,
        converged=fit.converged,
        method=fit.method,
        warnings=tuple(warnings),
    )


def section(summary: ItemSummary) -> Section:
    """The section of a page: which examples still tell models apart, and how sure the ranking is."""
    places, heights = np.array(summary.curve).T
    top = float(np.interp(summary.skills[0][1], places, heights))
    sentences = [
        f"{summary.models:,} models and {summary.examples:,} examples on one scale: difficulties spread by "
        f"{numbers.plain(summary.difficulty_spread)} around {numbers.plain(summary.difficulty_mean)}, skills "
        "around 0.",
        f"At the best model's skill the test tells skills apart to ±{1 / np.sqrt(top):.3f} (one standard error).",
    ]
    if summary.cohorts:
        first = summary.cohorts[0]
        sentences.append(
            f"{first.telling:,} of {summary.examples:,} examples tell any of the best {first.size} models apart; "
            f"all of them get {first.all_right:,} right and {first.all_wrong:,} wrong."
        )
    if summary.random_examples:
        sentences.append(
            f"{summary.random_examples:,} examples drawn at random keep {100 * summary.share:.0f} % of the models "
            "within the rank intervals of the whole test."
        )
    chart = Chart(
        drawing="bars",
        title="Examples that tell the best models apart",
        rows=tuple({"name": f"best {c.size}", "value": c.telling / summary.examples} for c in summary.cohorts),
        description="Share of the examples that some of the best models get right and others wrong.",
        options={"x_title": "share of the examples"},
    )
    found = {"spread of difficulty, probit units": summary.difficulty_spread}
    if summary.reliability is not None:
        found["reliability (KR-20)"] = summary.reliability
    if summary.discrimination_spread.value > 0:
        found["spread of log discrimination"] = summary.discrimination_spread
    tables = (
        Table(
            "Skills",
            ("model", "skill", "standard error", "accuracy, %", "best rank", "worst rank"),
            tuple(
                (n, round(s, 3), round(e, 3), round(100 * a, 2), lo, hi) for n, s, e, a, lo, hi in summary.skills
            ),
        ),
        Table(
            "Examples that tell the best models apart",
            ("best models", "all right", "all wrong", "telling"),
            tuple((c.size, c.all_right, c.all_wrong, c.telling) for c in summary.cohorts),
        ),
        Table(
            "Where the test tells skills apart",
            ("skill", "information", "standard error"),
            tuple(
                (round(x, 2), round(i, 1), round(float(i**-0.5), 4) if i > 0 else None) for x, i in summary.curve
            ),
        ),
        Table("Hardest examples", ("example", "difficulty", "standard error"), summary.hardest),
        # Not among the section's estimates: those are shares, which a page writes in percent.
        Table(
            "The numbers",
            ("what", "value and 95 % interval", "how"),
            tuple((name, numbers.plain(item), item.method) for name, item in found.items()),
        ),
    )
    charts = (chart,) if summary.cohorts else ()
    return Section("Item analysis", tuple(sentences), charts=charts, tables=tables, warnings=summary.warnings)
