"""The paired difference of two models."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize_scalar
from scipy.stats import binom
from statsmodels.stats.contingency_tables import mcnemar

from hardpan import Outcomes
from hardpan.errors import InputError
from hardpan.leaderboard import compare
from hardpan.leaderboard.pairs import _binary_pair_difference
from hardpan.stats.intervals import tango_limits


def outcomes(seed=0, n=400, p=(0.8, 0.7), **more):
    rng = np.random.default_rng(seed)
    return Outcomes.from_arrays((rng.random((2, n)) < np.array(p)[:, None]).astype(float), ["a", "b"], **more)


@pytest.mark.parametrize(("n", "p"), [(30, (0.8, 0.6)), (400, (0.8, 0.7)), (400, (0.99, 0.98))])
def test_mcnemar_is_that_of_statsmodels(n, p):
    data = outcomes(1, n, p)
    a, b = data.scores.astype(bool)
    table = [[(a & b).sum(), (a & ~b).sum()], [(~a & b).sum(), (~a & ~b).sum()]]
    result = compare(data, "a", "b")
    assert result.mcnemar == pytest.approx(mcnemar(table, exact=True).pvalue, rel=1e-10)
    assert (result.only_first, result.only_second) == (table[0][1], table[1][0])
    assert result.difference.value == pytest.approx(a.mean() - b.mean())


def test_clustered_error_is_that_of_statsmodels():
    group = np.repeat(np.arange(25), 16)
    data = outcomes(2, 400, groups=group)
    d = data.scores[0] - data.scores[1]
    fit = sm.OLS(d, np.ones(400)).fit(cov_type="cluster", cov_kwds={"groups": group}, use_t=True)
    result = compare(data, "a", "b", group="group")
    assert result.stderr_clustered == pytest.approx(fit.bse[0], rel=1e-10)
    # groups of one size: the jackknife is the clustered error, and the interval is the t interval
    assert result.difference.low == pytest.approx(fit.conf_int()[0][0], rel=1e-9)
    assert result.p_value == pytest.approx(fit.pvalues[0], rel=1e-8)


def test_order_of_the_models_only_turns_the_sign():
    data = outcomes(3, 100)
    one, other = compare(data, "a", "b"), compare(data, "b", "a")
    assert one.difference.low == pytest.approx(-other.difference.high, abs=1e-9)
    assert one.p_value == other.p_value


@pytest.mark.parametrize(("b", "c", "n"), [(12, 2, 53), (5, 5, 20), (0, 0, 10), (3, 0, 10), (0, 7, 40)])
def test_tango_ends_have_the_score_of_the_quantile(b, c, n):
    def score(delta):
        def negative(q):
            parts = ((b, q + delta), (c, q), (n - b - c, 1 - 2 * q - delta))
            return -sum(k * np.log(p) for k, p in parts if k)

        span = (max(0.0, -delta) + 1e-12, (1 - delta) / 2 - 1e-12)
        q = minimize_scalar(negative, bounds=span, method="bounded", options={"xatol": 1e-13}).x
        return (b - c - n * delta) / np.sqrt(n * (2 * q + delta - delta**2))

    low, high = tango_limits(b, c, n)
    assert score(low) == pytest.approx(1.959964, abs=1e-5)
    assert score(high) == pytest.approx(-1.959964, abs=1e-5)


@pytest.mark.parametrize(("n", "p"), [(10, 0.1), (80, 0.3)])
def test_the_interval_excludes_no_difference_exactly_where_mcnemar_does(n, p):
    """So compare, rank of two models and the gate agree, and a gate fails in at most 2.5 % of equal pairs."""
    alarm = 0.0
    for apart in range(n + 1):
        for ahead in range(apart + 1) if binom.pmf(apart, n, p) > 1e-6 else ():
            d = np.r_[np.ones(ahead), -np.ones(apart - ahead), np.zeros(n - apart)]
            interval, p_value = _binary_pair_difference(d, 0.95)
            assert (interval.low > 0 or interval.high < 0) == (p_value <= 0.05)
            alarm += (interval.low > 0) * binom.pmf(apart, n, p) * binom.pmf(ahead, apart, 0.5)
    assert alarm <= 0.025


@pytest.mark.parametrize("kind", ["few items", "fractions", "groups"])
def test_interval_covers_the_true_difference(kind):
    rng = np.random.default_rng(9)
    hits = 0
    trials = 80 if kind == "fractions" else 300
    for i in range(trials):
        if kind == "few items":
            ease = rng.beta(1, 1, 40)
            p = np.clip(np.stack([ease + 0.1, ease]), 0, 1)
            truth = 0.095  # E[min(u + 0.1, 1)] − E[u] = 0.1 − 0.1²/2
            data = Outcomes.from_arrays((rng.random((2, 40)) < p).astype(float))
            result = compare(data, 0, 1)
        elif kind == "fractions":
            truth = 0.8 / 1.8 - 0.5 / 1.5
            data = Outcomes.from_arrays(np.stack([rng.beta(0.8, 1.0, 50), rng.beta(0.5, 1.0, 50)]))
            result = compare(data, 0, 1, seed=i)
        else:
            group = np.repeat(np.arange(30), 8)
            effect = (0.1 + 0.4 * (rng.random(30) - 0.5))[group]
            truth = 0.1
            data = Outcomes.from_arrays(
                (rng.random((2, 240)) < [0.5 + effect, 0.5 + 0 * effect]).astype(float), groups=group
            )
            result = compare(data, 0, 1, group="group")
        hits += result.difference.low <= truth <= result.difference.high
    assert hits >= {80: 69, 300: 272}[trials]  # the lower end of the 99.9 % region of 95 %


def test_only_shared_items_count():
    scores = np.array([[1, 1, 0, np.nan, 1, 1], [0, 1, 0, 1, np.nan, 0.5]])
    result = compare(Outcomes.from_arrays(scores), 0, 1)
    assert (result.items, result.missing) == (4, 2)
    assert result.difference.value == pytest.approx(1.5 / 4)
    assert result.differing.tolist() == ["item-0", "item-5"]
    assert list(result.to_frame("pandas").columns) == ["item", "score_first", "score_second", "difference"]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [(("a", "c"), "c"), (("a", "a"), "second"), ((0, 5), "5")],
)
def test_wrong_models_are_named(arguments, name):
    with pytest.raises(InputError, match=name):
        compare(outcomes(), *arguments)
