"""Ranks, scores and their errors: closed forms, statsmodels, planted orders, coverage in small simulations."""

import itertools

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import special
from scipy.stats import binom, binomtest, fisher_exact, norm, t, ttest_1samp
from statsmodels.stats.multitest import multipletests

from hardpan import Outcomes
from hardpan.errors import InputError
from hardpan.files import from_json, to_json
from hardpan.leaderboard import compare, items, rank, ranking, summarize
from hardpan.leaderboard.item_groups import ItemGroups
from hardpan.leaderboard.pairs import all_pairs
from hardpan.stats import mcnemar, unpaired_shares
from hardpan.stats.hypothesis_tests import smallest_difference_by_t
from hardpan.stats.intervals import bootstrap_t_limits

COLUMNS = [
    *("model", "score", "stderr", "stderr_clustered", "low", "high"),
    *("rank_low", "rank_high", "tier", "items"),
]


@pytest.fixture(scope="module")
def clustered():
    rng = np.random.default_rng(1)
    sizes = rng.integers(3, 30, 40)
    group = np.repeat(np.arange(40), sizes)
    logit = np.linspace(-0.5, 1.5, 6)[:, None] + rng.normal(0, 1, 40)[group] + rng.normal(0, 0.5, group.size)
    return (rng.random(logit.shape) < 1 / (1 + np.exp(-logit))).astype(float), group


def clustered_oracle(values, group):
    fit = sm.OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": group}, use_t=True)
    return float(fit.bse[0])


def test_standard_errors_are_those_of_statsmodels(clustered):
    scores, group = clustered
    board = rank(Outcomes.from_arrays(scores, groups=group), group="group")
    for name, naive, error in zip(board.models, board.stderr, board.stderr_clustered, strict=True):
        values = scores[int(name.split("-")[1])]
        assert error == pytest.approx(clustered_oracle(values, group), rel=1e-10)
        assert naive == pytest.approx(values.std(ddof=1) / np.sqrt(values.size), rel=1e-12)


def test_frame_has_the_documented_columns(clustered):
    scores, group = clustered
    outcomes = Outcomes.from_arrays(scores, groups={"passage": group, "x": group % 2})
    frame = rank(outcomes, "passage").to_frame("pandas")
    assert list(frame.columns) == COLUMNS
    assert frame.score.is_monotonic_decreasing
    assert (frame.low < frame.score).all()
    assert (frame.score < frame.high).all()
    assert (frame["items"] == scores.shape[1]).all()


def test_all_pairs_are_the_paired_tests_one_by_one(clustered):
    scores, group = clustered
    rng = np.random.default_rng(2)
    holes = np.where(rng.random(scores.shape) < 0.2, np.nan, scores)
    fractions = 0.7 * scores + 0.3 * rng.random(scores.shape)
    groups = ItemGroups("g", group, np.bincount(group).astype(float))
    for values, used in ((fractions, None), (holes + 0 * fractions, None), (fractions, groups), (holes, groups)):
        found = all_pairs(values, used, binary=False)
        for i, j in ((0, 1), (2, 5), (4, 3)):
            both = np.isfinite(values[i]) & np.isfinite(values[j])
            d = (values[i] - values[j])[both]
            assert found.shared[i, j] == both.sum()
            assert found.difference[i, j] == pytest.approx(d.mean(), abs=1e-12)
            if used is None:
                expected = d.std(ddof=1) / np.sqrt(d.size)
            else:
                codes = group[both]
                left = [d[codes != g].mean() for g in np.unique(codes)]
                expected = np.sqrt((len(left) - 1) / len(left) * np.sum((np.array(left) - d.mean()) ** 2))
            assert found.stderr[i, j] == pytest.approx(expected, rel=1e-9)


def test_missing_cells_change_nothing_where_none_is_missing(clustered):
    scores, group = clustered
    from hardpan.leaderboard.ranking import _adjusted_means, _complete_means

    groups = ItemGroups("g", group, np.bincount(group).astype(float))
    one, other = _complete_means(scores, groups), _adjusted_means(scores, np.isfinite(scores), groups)
    for name in ("score", "raw", "stderr", "clustered", "jackknife"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9)


def test_who_lacks_hard_items_gains_nothing():
    rng = np.random.default_rng(3)
    ease = rng.uniform(0.05, 0.95, 600)
    scores = (rng.random((8, 600)) < np.clip(ease + np.linspace(0.15, -0.15, 8)[:, None], 0, 1)).astype(float)
    scores[7, ease < 0.6] = np.nan  # the weakest answers only the easy half: its raw mean is high
    board = rank(Outcomes.from_arrays(scores))
    row = board.models.index("model-7")
    assert (board.raw_score > board.raw_score[row]).sum() <= 2
    assert row >= 4  # on easy items the models differ less
    assert board.items[row] == np.isfinite(scores[7]).sum()


@pytest.mark.parametrize("skill", [2.5, 0.0, -2.0])
def test_scores_of_models_that_lack_the_hardest_items(skill):
    # An additive fit is 5 points off near 0 and 1, where differences between models shrink.
    rng = np.random.default_rng(12)
    ease = rng.normal(size=6000)
    p = 1 / (1 + np.exp(-(np.array([skill, 1.0, 0.7, 0.4, 0.1, -0.2, -0.5])[:, None] + ease)))
    scores = (rng.random(p.shape) < p).astype(float)
    scores[0, ease < np.quantile(ease, 0.3)] = np.nan
    board = rank(Outcomes.from_arrays(scores))
    row = board.models.index("model-0")
    assert board.score[row] == pytest.approx(p[0].mean(), abs=4 * board.stderr[row])
    assert board.stderr[row] < 0.01
    assert abs(board.raw_score[row] - p[0].mean()) > 5 * board.stderr[row]


@pytest.mark.parametrize("models", [8, 40])
def test_scores_of_models_that_lack_the_steepest_items(models):
    # Between items that discriminate little and much, a weak model falls by more than the others do on average.
    rng = np.random.default_rng(13)
    slope = np.where(np.arange(4000) < 1200, 3.0, 0.7)
    p = 1 / (1 + np.exp(-(slope * np.linspace(-1.2, 1.4, models)[:, None] + rng.normal(size=4000))))
    scores = (rng.random(p.shape) < p).astype(float)
    complete = rank(Outcomes.from_arrays(scores))
    for model in (0, models - 1):
        gaps = scores.copy()
        gaps[model, :1200] = np.nan
        board = rank(Outcomes.from_arrays(gaps))
        row = board.models.index(f"model-{model}")
        assert board.low[row] < p[model].mean() < board.high[row]
        before = complete.stderr[complete.models.index(f"model-{model}")]
        assert before < board.stderr[row] < 4 * before


def test_a_model_that_is_right_on_few_items_has_a_wide_interval():
    scores = (np.random.default_rng(14).random((3, 500)) < [[0.9], [0.8], [0.7]]).astype(float)
    scores[0, 12:], scores[0, :12] = np.nan, 1
    board = rank(Outcomes.from_arrays(scores))
    row = board.models.index("model-0")
    assert board.low[row] < 0.85  # of 12 items 12 right is compatible with 74 %
    assert board.high[row] == pytest.approx(1.0, abs=0.01)


def test_a_model_with_items_of_one_group_has_no_clustered_interval(clustered):
    scores, group = clustered
    holes = scores.copy()
    holes[0, group != group[0]] = np.nan
    board = rank(Outcomes.from_arrays(holes, groups=group), group="group")
    row = board.models.index("model-0")
    assert (board.low[row], board.high[row]) == (0.0, 1.0)
    assert (board.high - board.low).min() < 0.5


def test_a_single_item_gives_an_exact_interval():
    board = rank(Outcomes.from_arrays([[1.0], [0.0], [np.nan]]))
    assert board.low[:2] == pytest.approx([0.025, 0.0])
    assert board.high[:2] == pytest.approx([1.0, 0.975])
    assert board.rank_high.tolist() == [3, 3, 3]
    assert rank(Outcomes.from_arrays([[0.4]])).high.tolist() == [1.0]


def test_too_little_overlap_gives_a_wide_rank_set():
    rng = np.random.default_rng(4)
    scores = (rng.random((4, 400)) < [[0.9], [0.7], [0.5], [0.3]]).astype(float)
    scores[3, 3:] = np.nan
    board = rank(Outcomes.from_arrays(scores))
    row = board.models.index("model-3")
    assert (board.rank_low[row], board.rank_high[row]) == (1, 4)
    assert board.few_shared == 3
    assert board.rank_high[board.models.index("model-0")] <= 2


def test_models_without_common_items_are_reported():
    scores = np.full((4, 200), np.nan)
    scores[:2, :100] = np.random.default_rng(0).integers(0, 2, (2, 100))
    scores[2:, 100:] = np.random.default_rng(1).integers(0, 2, (2, 100))
    board = rank(Outcomes.from_arrays(scores))
    assert board.unconnected
    assert board.few_shared == 4
    for row, name in enumerate(board.models):  # nothing tells what a model would score on the items of others
        own = scores[int(name.split("-")[1])]
        alone = rank(Outcomes.from_arrays(own[None, np.isfinite(own)]))
        assert board.score[row] == board.raw_score[row] == alone.score[0]
        assert (board.low[row], board.high[row]) == (alone.low[0], alone.high[0])


def test_a_model_without_scores_is_last_and_unknown():
    scores = np.random.default_rng(0).integers(0, 2, (3, 60)).astype(float)
    scores[1] = np.nan
    board = rank(Outcomes.from_arrays(scores))
    assert board.models[-1] == "model-1"
    assert np.isnan(board.score[-1])
    assert (board.low[-1], board.high[-1], board.rank_low[-1], board.rank_high[-1]) == (0, 1, 1, 3)
    assert board.headline


def test_one_model_has_a_score_and_no_pairs():
    board = rank(Outcomes.from_arrays(np.ones((1, 50))))
    assert (board.rank_low[0], board.rank_high[0], board.tier[0]) == (1, 1, 1)
    assert board.low[0] < 1
    assert board.headline


def test_holm_is_that_of_statsmodels(clustered):
    scores, _ = clustered
    board = rank(Outcomes.from_arrays(scores))
    upper = np.triu_indices(6, 1)
    p = all_pairs(scores[[int(m.split("-")[1]) for m in board.models]], None, binary=True).p_value[upper]
    np.testing.assert_allclose(board.pairs.p_holm[upper], multipletests(p, method="holm")[1], rtol=1e-12)


def test_equal_differences_are_not_separated():
    scores = np.tile(np.random.default_rng(0).random(50) * 0.5, (3, 1))
    scores[0] += 0.2
    board = rank(Outcomes.from_arrays(scores))
    assert board.rank_low.tolist() == [1, 1, 1]
    assert board.tier.tolist() == [1, 1, 1]


def test_repeats_are_separated_from_items():
    rng = np.random.default_rng(5)
    ease = rng.beta(2, 2, 4000)
    scores = (rng.random((2, 4000, 5)) < ease[:, None]).astype(float)
    board = rank(Outcomes.from_arrays(scores))
    np.testing.assert_allclose(board.within_variance, np.mean(ease * (1 - ease)), rtol=0.05)
    np.testing.assert_allclose(board.between_variance, ease.var(), rtol=0.1)
    total = board.between_variance / 4000 + board.within_variance / 20000
    np.testing.assert_allclose(board.stderr, np.sqrt(total), rtol=1e-6)


def test_smallest_difference_of_two_models():
    rng = np.random.default_rng(6)
    scores = (rng.random((2, 2000)) < [[0.8], [0.7]]).astype(float)
    board = rank(Outcomes.from_arrays(scores))
    error = (scores[0] - scores[1]).std(ddof=1) / np.sqrt(2000)
    assert board.smallest_difference == pytest.approx((1.959964 + 0.8416212) * error, rel=0.05)
    assert board.smallest_difference_ranked == board.smallest_difference
    assert board.items_needed == pytest.approx(2000 * (board.smallest_difference / board.lead.value) ** 2, rel=0.01)


@pytest.mark.parametrize("cluster", [False, True])
def test_items_needed_for_the_lead_among_all_pairs(cluster):
    """n ((q(1 − α/2P) + q(0.8)) SE / lead)² with P pairs; q of Student's t with G − 1 degrees for G groups."""
    rng = np.random.default_rng(6)
    scores = (rng.random((3, 300)) < [[0.5], [0.8], [0.7]]).astype(float)
    board = rank(
        Outcomes.from_arrays(scores, groups=np.repeat(np.arange(20), 15)), group="group" if cluster else ""
    )
    error = (scores[1] - scores[2]).std(ddof=1) / np.sqrt(300)
    if cluster:
        sums = (scores[1] - scores[2] - board.lead.value).reshape(20, 15).sum(axis=1)
        error = np.sqrt(20 / 19 * (sums**2).sum()) / 300
    law = t(19) if cluster else norm
    reach = (law.ppf(1 - 0.05 / 6) + law.ppf(0.8)) * error
    assert board.lead.value == pytest.approx(scores[1].mean() - scores[2].mean())
    assert board.items_needed == pytest.approx(300 * (reach / board.lead.value) ** 2, rel=0.05)


@pytest.mark.parametrize(
    "kind",
    [pytest.param("plain", marks=pytest.mark.soak), pytest.param("missing", marks=pytest.mark.soak), "clustered"],
)
def test_rank_sets_contain_the_true_ranks(kind):
    rng = np.random.default_rng(7)
    truth = np.array([0.7, 0.7, 0.66, 0.6, 0.58])
    low_rank = 1 + (truth[None] > truth[:, None]).sum(axis=1)
    high_rank = (truth[None] >= truth[:, None]).sum(axis=1)
    hits = 0
    for _ in range(200):
        if kind == "clustered":
            group = np.repeat(np.arange(40), 10)
            shift = 0.25 * (rng.random(40) - 0.5)[group] + 0.3 * (rng.random((5, 40)) - 0.5)[:, group]
            scores = (rng.random((5, 400)) < truth[:, None] + shift).astype(float)
            board = rank(Outcomes.from_arrays(scores, groups=group), group="group")
        else:
            scores = (rng.random((5, 400)) < truth[:, None]).astype(float)
            if kind == "missing":
                scores[rng.random(scores.shape) < 0.3] = np.nan
            board = rank(Outcomes.from_arrays(scores))
        rows = [int(name.split("-")[1]) for name in board.models]
        hits += bool(np.all((board.rank_low <= low_rank[rows]) & (high_rank[rows] <= board.rank_high)))
    assert hits >= 178  # below the 99.9 % region of 95 % with probability 0.0005


def test_bootstrap_t_covers_a_skewed_mean():
    rng = np.random.default_rng(8)
    hits = 0
    for _ in range(300):
        low, high, _ = bootstrap_t_limits(rng.beta(0.4, 2.0, (1, 40)), 0.95, resamples=500)
        hits += low[0] <= 0.4 / 2.4 <= high[0]
    assert hits >= 272


def test_result_survives_json(clustered):
    scores, group = clustered
    board = rank(Outcomes.from_arrays(scores, groups=group))
    again = from_json(to_json(board))
    np.testing.assert_array_equal(again.score, board.score)
    assert again.headline == board.headline
    assert board.headline.split(" (")[0] in board.to_html()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [({"group": "task"}, "group"), ({"group": 3.5}, "group")],
)
def test_wrong_arguments_are_named(arguments, name):
    with pytest.raises(InputError, match=name):
        rank(Outcomes.from_arrays(np.eye(3)), **arguments)


def test_a_confidence_in_percent_is_refused():
    with pytest.raises(InputError, match="confidence"):
        rank(Outcomes.from_arrays(np.eye(3)), confidence=95)


def test_counts_are_compared_as_independent_samples():
    right, total = [180, 150, 90], [200, 210, 200]
    rows = [{"model": m, "correct": r, "total": n} for m, r, n in zip("abc", right, total, strict=True)]
    board = rank(rows)
    assert (board.unpaired, board.models, board.tier.tolist()) == (True, ("a", "b", "c"), [1, 2, 3])
    expected = [binomtest(r, n).proportion_ci(0.95, "exact") for r, n in zip(right, total, strict=True)]
    np.testing.assert_allclose(np.c_[board.low, board.high], expected)
    p = [2 * min(fisher_exact([[180, 20], [150, 60]], side)[1] for side in ("less", "greater"))]
    assert unpaired_shares(180, 200, 150, 210) == pytest.approx(p[0])
    assert board.pairs.p_holm[0, 1] == pytest.approx(p[0])  # the largest of the three
    equal = rank([{"model": m, "accuracy": 0.9, "n": 10} for m in "ab"])
    assert (equal.separated, equal.rank_high.tolist()) == (0, [2, 2])
    for bad in ([{"model": "a", "accuracy": 0.9}], [{**row, "set": s} for row in rows for s in "xy"]):
        with pytest.raises(InputError) as raised:
            rank(bad)
        assert raised.value.argument == "outcomes"
    with pytest.raises(InputError):
        items(Outcomes.open(rows))


def test_unpaired_tests_of_equal_shares_reject_at_most_as_often_as_stated():
    rng = np.random.default_rng(0)
    for n, share in ((20, 0.5), (60, 0.05), (9000, 0.4)):
        x, y = rng.binomial(n, share, (2, 4000))
        assert (unpaired_shares(x, n, y, n) <= 0.05).sum() <= binom.ppf(0.9999, 4000, 0.05)


def test_the_first_usable_group_column_is_taken(clustered):
    scores, group = clustered
    columns = {"id": np.arange(group.size), "task": ["one"] * group.size, "passage": group}
    board = rank(Outcomes.from_arrays(scores, groups=columns))
    assert board.cluster == "passage"
    assert rank(Outcomes.from_arrays(scores, groups=columns), group="").cluster == ""
    assert rank(Outcomes.from_arrays(scores, groups={"task": columns["task"]})).cluster == ""
    assert rank(Outcomes.from_arrays(scores, groups={"half": group % 2})).cluster == ""


def test_equal_models_are_not_separated_by_passages():
    """Three equal models on 20 passages of 12 items with an effect of model and passage; items alone alarm."""
    alarms = np.zeros(2)
    for seed in range(200):
        rng = np.random.default_rng([seed, 3])
        passage = np.repeat(np.arange(20), 12)
        p = special.expit(0.4 + 1.2 * rng.standard_normal((3, 20)))[:, passage]
        outcomes = Outcomes.from_arrays((rng.random(p.shape) < p).astype(float), groups={"passage": passage})
        alarms += [rank(outcomes, group=group).separated > 0 for group in (None, "")]
    assert alarms[0] <= 17  # 99 % region of 5 % of 200
    assert alarms[1] > 45


@pytest.mark.parametrize(("models", "items"), [(2, 300), (8, 500)])
def test_power_of_one_planned_test_and_of_the_ranking(models, items):
    """At the stated differences McNemar's test finds 80 %, alone and at Holm's first step."""
    rng = np.random.default_rng(models)
    ease = rng.normal(1.0, 1.5, items)
    skill = np.linspace(0.1, -0.1, models)[:, None]
    board = rank(Outcomes.from_arrays((rng.random((models, items)) < special.expit(ease + skill)).astype(float)))
    pairs = np.triu_indices(models, 1)
    squares = (board.pairs.stderr**2 * (items - 1) + board.pairs.difference**2)[pairs]
    discordant = np.median(squares)
    for difference, alpha in (
        (board.smallest_difference, 0.05),
        (board.smallest_difference_ranked, 0.05 / len(squares)),
    ):
        differ = rng.binomial(items, discordant, 20_000)
        first = rng.binomial(differ, (discordant + difference) / (2 * discordant))
        assert np.mean(mcnemar(first, differ - first) <= alpha) == pytest.approx(0.8, abs=0.015)


def test_power_of_a_t_test_over_groups():
    rng = np.random.default_rng(9)
    for degrees, alpha in ((4, 0.05), (19, 0.05 / 66)):
        values = smallest_difference_by_t(1 / np.sqrt(degrees + 1), degrees, alpha) + rng.standard_normal(
            (20_000, degrees + 1)
        )
        p = ttest_1samp(values, 0, axis=1).pvalue
        assert np.mean(p <= alpha) == pytest.approx(0.8, abs=0.015)


def test_all_right_is_separated_from_all_wrong_but_a_constant_fraction_is_not() -> None:
    board = rank(Outcomes.from_arrays([[1] * 20, [0] * 20]))
    assert board.rank_high.tolist() == [1, 2]
    board = rank(Outcomes.from_arrays([[0.6] * 20, [0.5] * 20]))
    assert board.rank_high.tolist() == [2, 2]


@pytest.mark.parametrize("lacked", [1, 4, 9])
def test_one_other_model_shows_the_shift_on_the_logit_scale_and_no_slope(lacked):
    scores = np.array([list("1111000001"), list("0110100000")], dtype=float)
    known = np.arange(10) < 10 - lacked
    scores[1, ~known] = np.nan

    def smoothed(values):
        return special.logit((values.sum() + 0.5) / (values.size + 1))

    own = scores[1, known]
    shift = smoothed(scores[0, ~known]) - smoothed(scores[0, known])
    expected = (own.sum() + lacked * special.expit(smoothed(own) + shift)) / 10
    board = rank(Outcomes.from_arrays(scores, models=["a", "b"]))
    assert board.score[board.models.index("b")] == pytest.approx(expected)


def test_the_line_between_two_sets_of_items_and_its_derivatives(monkeypatch):
    monkeypatch.setattr(ranking, "NEAR", 1e9)  # derivatives do not follow the weights
    x = np.tile([0.4, -1.0, 0.2, 1.3, 2.0], (5, 1))
    y, noise, weight = 1.7 * x - 0.5, np.full((5, 5), 1e-9), 1 - np.eye(5)

    def line(x, y):
        return ranking._lacked_logits(x, y, noise, noise, weight)

    np.testing.assert_allclose(line(x, y).logit, y[0], atol=1e-6)
    np.testing.assert_allclose(line(x, y).slope, 1.7, atol=1e-6)
    y = y + np.array([0.1, -0.2, 0.3, 0.0, 0.2])
    made = line(x, y)
    for name, k in itertools.product(("x", "y"), range(1, 5)):
        step = np.zeros((5, 5))
        step[0, k] = 1e-5
        after = line(x + step, y) if name == "x" else line(x, y + step)
        before = line(x - step, y) if name == "x" else line(x, y - step)
        expected = (after.logit[0] - before.logit[0]) / 2e-5
        assert (made.by_has if name == "x" else made.by_lacks)[0, k] == pytest.approx(expected, abs=1e-5)
    few = ranking._lacked_logits(x, y, noise + 1e3, noise + 1e3, weight)
    np.testing.assert_allclose(few.slope, 1.0, atol=1e-3)  # nothing shows another slope than the prior's
    np.testing.assert_allclose(few.prior_error[0], 0.5 * abs(x[0, 0] - x[0, 1:].mean()), rtol=1e-3)


def test_a_model_without_scores_stays_on_the_board() -> None:
    scores = np.random.default_rng(0).integers(0, 2, (4, 40)).astype(float)
    scores[2] = np.nan
    board = rank(Outcomes.from_arrays(scores))
    assert board.models[-1] == "model-2"
    assert (board.rank_low[-1], board.rank_high[-1], board.items[-1]) == (1, 4, 0)
    assert summarize(Outcomes.from_arrays(scores)).to_html()


def test_a_few_items_detect_no_difference() -> None:
    assert "finds no difference reliably" in rank(Outcomes.from_arrays(np.eye(3))).headline
    few = rank(Outcomes.from_arrays(np.tile(np.eye(4), 2)[:, :7]))
    assert few.smallest_difference < 1
    assert few.smallest_difference_ranked == 1
    assert "this ranking of 4 finds none" in from_json(to_json(few)).headline


def test_the_headline_claims_no_tie_between_models_that_are_separated():
    """The first model has few items: nobody is separated from it, but the second is ahead of the third."""
    rng = np.random.default_rng(0)
    scores = np.full((4, 600), np.nan)
    scores[0, :12] = 1
    for row, share in ((1, 0.9), (2, 0.7), (3, 0.1)):
        scores[row] = rng.random(600) < share
    scores[1:3, :12] = [[1] * 10 + [0] * 2, [1] * 9 + [0] * 3]
    board = rank(Outcomes.from_arrays(scores, ["few", "second", "third", "last"]))
    assert board.models[0] == "few"
    assert (board.tier.tolist(), board.separated_at_top) == ([1, 1, 1, 2], 1)
    assert "few" in board.headline
    tied = rank(Outcomes.from_arrays(scores[1:3, :12]))
    assert tied.separated_at_top == 0


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_equal_scores_on_few_items_are_no_certainty(value):
    """All n items alike: hardly wider than Clopper–Pearson's limits at 0 and 1, and around other values."""
    scores = np.full((2, 20, 2), value)
    scores[1, 0, 0] = 1 - value if value != 0.5 else 1.0  # no array of one value
    board = rank(Outcomes.from_arrays(scores))
    row = board.models.index("model-0")
    width = 1 - 0.025 ** (1 / 20)
    assert (board.low[row], board.high[row]) == pytest.approx(
        (value * (1 - width), value * (1 - width) + width), abs=0.02
    )
    assert board.high[row] - board.low[row] >= width - 1e-6
    clustered = rank(Outcomes.from_arrays(scores, groups=np.arange(20) // 4), group="group")
    row = clustered.models.index("model-0")
    assert clustered.high[row] - clustered.low[row] == pytest.approx(1 - 0.025 ** (1 / 5))
    same = compare(Outcomes.from_arrays(np.full((2, 20), 0.3)), 0, 1).difference
    assert (same.low, same.high) == pytest.approx((-width, width))
