"""Sentences with a stated confidence, checked apart: how often what the function behind a sentence says is false.

Ten kinds of data with a known truth, 200 draws each. A draw yields, by sentence, the probability with which it may
be false and whether it was true.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import expit, ndtr, softmax

from bench import harness

DRAWS = max(20, round(200 * float(os.environ.get("BENCH_SCALE", "1"))))
SEED = 500_000  # the first one; no other topic uses these
MAY = 0.05  # probability with which a sentence at 95 % may be false
POWER = 0.80
LEVEL = 0.05  # of the test over sentences, Holm
Said = Iterator[tuple[str, float, bool]]


def inside(item: Any, truth: float) -> bool:
    return bool(item.low <= truth <= item.high)


def classifiers(rng: np.random.Generator, seed: int) -> Said:
    """Six classifiers alike on 400 test rows; none can err less often than they do."""
    from hardpan import stats
    from hardpan.bayes.floors.entries import HELD_OUT, Entry, weigh
    from hardpan.bayes.floors.error_estimates import error_of_best_classifier, held_out_error

    n, error = 400, 0.08
    wrong = (ndtr(np.sqrt(0.5) * (rng.normal(size=(6, n)) + rng.normal(size=n))) < error).sum(axis=1)
    best = error_of_best_classifier(stats.share(int(wrong.min()), n), 6)
    yield "The best model has x % error (a–b %)", MAY, inside(best, error)
    entries = [
        Entry(str(k), "classifier", held_out_error(int(count), n, method="made up"), HELD_OUT)
        for k, count in enumerate(wrong)
    ]
    bracket = weigh(entries, n_classes=2)[1]
    yield "The lowest possible error is at most x %", MAY, bracket.high >= error


def two_models(rng: np.random.Generator, seed: int) -> Said:
    """Two models whose errors differ by what the sentence on the test set's size names; 400 rows, 8 % error."""
    from hardpan import stats

    n, e = 400, 0.08
    least = stats.smallest_difference(0.0, n)
    most = stats.smallest_difference(lambda x: 2 * e * (1 - e) + x * (1 - 2 * e), n)
    for name, only_worse, only_better in (
        ("if errors are nested", least, 0.0),
        ("if errors are independent", (e + most) * (1 - e), e * (1 - e - most)),
    ):
        counts = rng.multinomial(n, [only_worse, only_better, 1 - only_worse - only_better])
        found = stats.mcnemar(counts[0], counts[1]) <= MAY
        yield f"One comparison of two models finds differences of x points, {name}", 1 - POWER, bool(found)


def discrete(rng: np.random.Generator, seed: int, nested: bool) -> Said:
    """750 + 250 rows of few values, drawn alike, so that many test rows equal a training row by chance."""
    from hardpan.auditing.problems import ALPHA

    n = 1000
    if nested:
        region = rng.integers(0, 6, n)
        town = 4 * region + rng.integers(0, 4, n)
        x = np.column_stack([region, town, 3 * town + rng.integers(0, 3, n)]).astype(float)
        y = (rng.random(n) < 0.3 + 0.06 * region).astype(int)
    else:
        factor = rng.normal(size=(n, 1))
        x = np.clip(np.rint(3 + 1.1 * (0.8 * factor + 0.6 * rng.normal(size=(n, 6)))), 1, 5)
        y = (factor[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)
    copies, near, shift = claims(x, y, 750, seed)
    yield "So some test rows are copies of training rows", ALPHA, copies > ALPHA
    yield "So some test rows are nearly copies of training rows", ALPHA, near > ALPHA
    yield "The test rows are not drawn like the training rows", ALPHA, shift > ALPHA


def likert(rng: np.random.Generator, seed: int) -> Said:
    """750 + 250 answers to six correlated items from 1 to 5, drawn alike."""
    yield from discrete(rng, seed, nested=False)


def nested(rng: np.random.Generator, seed: int) -> Said:
    """750 + 250 rows with region, town and street, drawn alike."""
    yield from discrete(rng, seed, nested=True)


def clustered_rows(rng: np.random.Generator, seed: int) -> Said:
    """Numbers around 40 centres, 750 + 250 rows drawn alike."""
    from hardpan.auditing.problems import ALPHA

    centre = rng.integers(0, 40, 1000)
    x = 2 * rng.normal(size=(40, 4))[centre] + 0.3 * rng.normal(size=(1000, 4))
    y = (centre % 2) ^ (rng.random(1000) < 0.1)
    copies, near, shift = claims(x, y.astype(int), 750, seed)
    yield "So some test rows are copies of training rows", ALPHA, copies > ALPHA
    yield "So some test rows are nearly copies of training rows", ALPHA, near > ALPHA
    yield "The test rows are not drawn like the training rows", ALPHA, shift > ALPHA


def claims(x: Any, y: Any, train: int, seed: int) -> tuple[float, float, float]:
    """P-values of the claims of copies, near-copies and shift of an official test set; 1 where there is none."""
    from hardpan import Dataset
    from hardpan.auditing.copies import copies_across_split
    from hardpan.auditing.evidence import Nearest
    from hardpan.auditing.near_copies import near_copies
    from hardpan.auditing.shift import shift_parts
    from hardpan.bayes.floors.inputs import Columns, split_inputs
    from hardpan.bayes.floors.neighbours import k_nearest

    n = len(x)
    split, rows = np.where(np.arange(n) < train, "train", "test"), np.arange(n)
    inputs = split_inputs(Dataset.from_arrays(x, y, split=split, ids=rows.astype(str)), y, seed)
    copied = copies_across_split(inputs, seed)
    group = inputs.equal.group
    first = rows[:train][np.unique(group[:train], return_index=True)[1]]
    (own, own_away), (new, new_away) = (
        k_nearest(x[first], x[asked], min(9, len(first))) for asked in (rows[:train], rows[train:])
    )
    nearest = Nearest(rows[train:], new_away, first[new], Nearest(rows[:train], own_away, first[own]))
    near = near_copies(nearest, group, y, rows[:train], np.isin(group[train:], group[:train]), seed)
    columns = Columns(x, tuple(map(str, range(x.shape[1]))), np.zeros(x.shape[1], dtype=bool))
    parts = shift_parts(columns, y, rows >= train, rows, 2, seed)
    shifted = min((len(parts) * part.p_value for part in parts if part.large), default=1.0)
    return 1.0 if copied is None else copied.p_value, 1.0 if near.p_value is None else near.p_value, shifted


def board(rng: np.random.Generator, seed: int) -> Said:
    """Twelve models of equal skill in pairs on 400 items; and a new model that scores 96 % on 40 of them."""
    from hardpan import Outcomes, leaderboard, stats

    n, skill = 400, np.repeat(np.linspace(-0.5, 1.0, 6), 2)
    ease = rng.normal(size=n)
    p = expit(skill[:, None] + ease)
    outcomes = Outcomes.from_arrays((rng.random(p.shape) < p).astype(float))
    ranking = leaderboard.rank(outcomes)
    order = np.array([int(name.split("-")[1]) for name in ranking.models])
    low = 1 + (skill[None] > skill[order][:, None]).sum(axis=1)
    high = (skill[None] >= skill[order][:, None]).sum(axis=1)
    held = (ranking.rank_low <= low) & (high <= ranking.rank_high)
    yield "Ranks a–b, all models together", MAY, bool(held.all())
    # A pair like the best two, whose true difference is the stated one.
    one, other = rng.random((2, 200_000)) < expit(skill[-1] + rng.normal(size=200_000))
    apart = float((one != other).mean())
    for words, stated, level in (
        ("One planned comparison of two models finds x points", ranking.smallest_difference, MAY),
        ("This ranking of 12 needs x points", ranking.smallest_difference_ranked, MAY / 66),
    ):
        chances = [(max(apart, stated) + stated) / 2, (max(apart, stated) - stated) / 2]
        counts = rng.multinomial(n, [*chances, 1 - sum(chances)])
        yield words, 1 - POWER, bool(stats.mcnemar(counts[0], counts[1]) <= level)
    short = leaderboard.shorten(outcomes, 40, seed=seed)
    top = (rng.random(n) < expit(4.6 + ease)).astype(float)
    yield (
        "Score on all items of a model that answers 96 % right, from 40",
        MAY,
        inside(short.estimate(top[short.rows]), float(top.mean())),
    )


def passages(rng: np.random.Generator, seed: int) -> Said:
    """Eight models of one skill on 50 passages of 8 questions, with effects of model and passage."""
    from hardpan import Outcomes, leaderboard

    group = np.repeat(np.arange(50), 8)
    shared, own = rng.normal(size=50), 0.8 * rng.normal(size=(8, 50))
    p = expit(0.5 + (shared + own)[:, group])
    scores = (rng.random(p.shape) < p).astype(float)
    ranking = leaderboard.rank(Outcomes.from_arrays(scores, groups=group))
    yield (
        "Ranks a–b, all models together, by passage",
        MAY,
        bool(((ranking.rank_low == 1) & (ranking.rank_high == 8)).all()),
    )
    truth = float(expit(0.5 + np.sqrt(1.64) * np.random.default_rng(0).normal(size=1_000_000)).mean())
    row = ranking.models.index("model-1")
    yield "Score x % (a–b %), by passage", MAY, bool(ranking.low[row] <= truth <= ranking.high[row])


def judged_scores(rng: np.random.Generator, seed: int) -> Said:
    """Scores of a judge on 50 items, mostly 0: a mean of 0.03."""
    from hardpan import Outcomes, leaderboard

    scores = np.where(rng.random((3, 50)) < 0.08, rng.beta(1.5, 2.5, (3, 50)), 0.0)
    ranking = leaderboard.rank(Outcomes.from_arrays(scores))
    truth = 0.08 * 1.5 / 4
    row = ranking.models.index("model-0")
    yield "Score x % (a–b %), mostly zeros", MAY, bool(ranking.low[row] <= truth <= ranking.high[row])


def two_test_sets(rng: np.random.Generator, seed: int) -> Said:
    """Some of many models on 2,000 and 1,000 examples; and ten models without a drop on 300 and 10,000."""
    from hardpan import testbed
    from hardpan.stats.intervals import mean
    from hardpan.testbed.decomposition import gap_parts

    skills = rng.uniform(0.5, 2.5, 613)
    lost = 0.3 + 0.15 * rng.normal(size=len(skills))  # on the new set; models differ in it
    hard = rng.normal(size=3_000)
    gaps = np.array(
        [
            (ndtr(s - hard[:2_000]) > rng.random(2_000)).mean()
            - (ndtr(s - d - hard[2_000:]) > rng.random(1_000)).mean()
            for s, d in zip(skills, lost, strict=True)
        ]
    )
    truth = float(gaps[13:].mean())
    for known in (gaps[:3], gaps[3:13]):
        over = mean(known, 0.95, least=-1.0, most=1.0, df=len(known) - 1)
        words = f"For other models on these two test sets it is a to b points, from {len(known)}"
        yield words, MAY, inside(over, truth)
    same = testbed.two_sets(
        *testbed.simulate(np.linspace(0.5, 2.5, 10), examples=(300, 10_000), mu=(0, 0), sigma=(1, 1), seed=seed)
    )
    yield "10 models lose x points on average (a–b)", MAY, inside(same.mean_gap(0.95), 0.0)
    beyond = sum(part.uniform_remainder.low > 0 for part in gap_parts(same, 0.95))
    yield "k of 10 models drop by more than chance", MAY, beyond == 0


def noisy_labels(rng: np.random.Generator, seed: int) -> Said:
    """Labels with noise: a review of 200 of 5,000, repeated inputs, and three votes per example."""
    from hardpan.bayes.floors.repeats import equal_inputs, repeat_floor
    from hardpan.bayes.floors.votes import vote_floor
    from hardpan.confusion.label_noise import LabelIssues, RankedLabels
    from hardpan.confusion.label_review import count_wrong

    n = 5_000
    true = rng.integers(0, 5, n)
    probs = softmax(2.5 * (2.5 * np.eye(5)[true] + rng.normal(size=(n, 5))), axis=1)
    labels = np.where(rng.random(n) < 0.08, (true + rng.integers(1, 5, n)) % 5, true)
    split, guess = np.where(np.arange(n) < n // 5, "test", "train"), probs.argmax(axis=1)
    wrong, rows = labels != true, np.arange(n)
    ranked = RankedLabels.of(rows, rows.astype(str), split, labels, guess, probs[rows, labels])
    review = LabelIssues.of(ranked).sample(200, seed=seed)
    for position, row in enumerate(review.row):
        review.judge(position, *(("wrong", str(true[row])) if wrong[row] else ("right",)))
    found = count_wrong(review)
    yield "About x labels are wrong (a–b), judged by a reviewer", MAY, inside(found.wrong, float(wrong.sum()))
    assert found.precision is not None
    assert found.test_error is not None
    truth = float(wrong[guess != labels].mean())
    yield "Of the labels that differ x % (a–b) are wrong", MAY, inside(found.precision, truth)
    truth = float((guess != true)[split == "test"].mean())
    yield "By the reviewer's labels x % error on the test set (a–b)", MAY, inside(found.test_error, truth)
    x = rng.integers(0, 400, (2_000, 1))
    y = (x[:, 0] % 3 + rng.integers(1, 3, 2_000) * (rng.random(2_000) < 0.2)) % 3
    bound = repeat_floor(equal_inputs(x), y, n_classes=3, seed=seed)
    assert bound is not None
    yield "The lowest possible error is at least x %, from repeated inputs", MAY / 2, bound.low <= 0.2
    posterior = rng.dirichlet([0.4, 0.4, 0.4], 600)
    floor = vote_floor(rng.multinomial(3, posterior))
    least = float(1 - posterior.max(axis=1).mean())
    yield "The lowest possible error is x to y %, from votes", MAY, floor.low <= least <= floor.high


KINDS: tuple[Callable[[np.random.Generator, int], Said], ...] = (
    classifiers,
    two_models,
    likert,
    nested,
    clustered_rows,
    board,
    passages,
    judged_scores,
    two_test_sets,
    noisy_labels,
)


def table() -> dict[str, Any]:
    """Every sentence of every kind: how often it was false, and whether that is more than stated."""
    from scipy.stats import binom

    from hardpan import stats

    counts: dict[tuple[str, str, float], list[int]] = {}
    for kind in KINDS:
        for seed in range(SEED, SEED + DRAWS):
            for sentence, may, true in kind(np.random.default_rng([seed, 7]), seed):
                counts.setdefault((sentence, (kind.__doc__ or "").split("\n")[0], may), []).append(int(not true))
    p_values = [float(binom.sf(sum(false) - 1, len(false), may)) for (_, _, may), false in counts.items()]
    rows = [
        {
            "sentence": sentence,
            "kind of data": kind,
            "draws": len(false),
            "may be false": round(may, 4),
            "was false": float(np.mean(false)),
            "p, Holm": float(p),
            **harness.against(float(p), at_least=LEVEL),
        }
        for ((sentence, kind, may), false), p in zip(counts.items(), stats.holm(p_values), strict=True)
    ]
    notes = [
        "functions, not audits; p: one-sided binomial test of more false sentences than stated, Holm over all rows",
        "sentences on power: false is a comparison that does not find a difference of the stated size",
        f"seeds {SEED} to {SEED + DRAWS - 1}; the gate has its own topic",
    ]
    return harness.table("Sentences with a stated confidence", rows, seed=SEED, notes=notes)
