"""Error by band: exact intervals, SciPy's correlations, definitions."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from tests.confusion.planted import random_probs

from hardpan import confusion, stats
from hardpan.confusion.banding import band_limits, mean_band_error, round_band_edges
from hardpan.confusion.transfers import target_errors_by_band
from hardpan.errors import InputError
from hardpan.pages.confusion_charts import error_by_band_chart

_NUMBERS = st.floats() | st.integers() | st.booleans() | st.none() | st.text(max_size=3) | st.complex_numbers()
_ANYTHING = (
    _NUMBERS
    | st.lists(_NUMBERS, max_size=4)
    | st.lists(st.floats(-1, 2, width=16), max_size=4).map(np.asarray)
    | st.lists(st.lists(st.floats(0, 1), max_size=2), max_size=3)
    | st.dictionaries(st.text(max_size=1), st.floats(), max_size=2)
)


def test_bands_count_every_example_once_with_exact_intervals():
    rng = np.random.default_rng(0)
    s = rng.uniform(0, 3, 500)
    right = rng.random(500) > s / 4
    found = confusion.bands(s, right, edges=[0, 1, 2, 3])
    assert [band.examples for band in found.bands] == [int(((s >= a) & (s < a + 1)).sum()) for a in range(3)]
    for band, low in zip(found.bands, range(3), strict=True):
        mask = (s >= low) & (s < low + 1)
        ends = stats.clopper_pearson(int((~right[mask]).sum()), int(mask.sum()))
        assert (band.error.low, band.error.high) == pytest.approx([float(end) for end in ends])
        assert band.mean_score == pytest.approx(s[mask].mean())
    expected = scipy_stats.pearsonr([b.mean_score for b in found.bands], [b.error.value for b in found.bands])
    assert found.rho.value == pytest.approx(expected.statistic)
    assert found.rho.low < found.rho.value < found.rho.high
    assert found.by_example.value == pytest.approx(scipy_stats.pearsonr(s, ~right).statistic)
    assert found.by_example.low < found.by_example.value < found.by_example.high


def test_default_bands_reach_from_zero_to_the_largest_score():
    scores = confusion.scores(random_probs(2, 2, 50, 10))
    found = confusion.bands(scores, np.arange(50) % 2 == 0)
    assert found.bands[0].low == 0
    assert found.bands[-1].high >= np.log2(10)
    assert sum(band.examples for band in found.bands) == 50
    assert any(band.examples == 0 and band.error is None for band in found.bands)


def test_several_models_are_no_more_evidence_than_one():
    s = np.linspace(0, 1, 40)
    one = np.arange(40) % 4 > 0
    alone = confusion.bands(s, one, edges=[0, 0.5, 1])
    same = confusion.bands(s, np.stack([one] * 5), edges=[0, 0.5, 1])
    for a, b in zip(alone.bands, same.bands, strict=True):
        assert (a.error.value, a.error.low, a.error.high) == pytest.approx(
            (b.error.value, b.error.low, b.error.high)
        )
    mixed = confusion.bands(s, np.stack([one, np.ones(40, bool)]), edges=[0, 1])
    assert mixed.error.value == pytest.approx(0.125)
    assert mixed.error.low < 0.125 < mixed.error.high


def test_errors_in_the_hardest_tenth():
    s = np.arange(100.0)
    right = np.ones(100, bool)
    right[92:] = False  # 8 errors in the hardest tenth
    right[:2] = False  # and 2 among the easiest
    found = confusion.bands(s, right).hardest_tenth
    assert found.value == 0.8
    assert found.low < 0.8 < found.high
    tied = confusion.bands(np.zeros(100), right).hardest_tenth
    assert tied.value == pytest.approx(0.1)  # equal scores: a tenth of the errors


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(2, 40), st.integers(0, 2**32 - 1))
def test_the_hardest_tenth_is_its_definition(models, n, seed):
    rng = np.random.default_rng(seed)
    s, right = rng.integers(0, 5, n) / 4, rng.random((models, n)) < 0.6
    found = confusion.bands(s, right, confidence=0.9).hardest_tenth
    wrong = (~right).sum(axis=0)
    if not wrong.any():
        assert (found.low, found.high, found.n) == (0, 1, 0)
        assert np.isnan(found.value)
        return
    # Of equal scores each is as likely to be among the hardest: an example counts with the share of its kind.
    size = max(1, round(0.1 * n))
    chance = np.array([np.clip((size - (s > v).sum()) / (s == v).sum(), 0, 1) for v in s])
    assert found.value == pytest.approx((chance * wrong).sum() / wrong.sum())
    errors = max(1, round(wrong.sum() / models))
    least, most = np.floor(found.value * errors), np.ceil(found.value * errors - 1e-9)
    assert found.low == pytest.approx(scipy_stats.binomtest(int(least), errors).proportion_ci(0.9).low)
    assert found.high == pytest.approx(scipy_stats.binomtest(int(most), errors).proportion_ci(0.9).high)
    assert found.stderr == pytest.approx(np.sqrt(found.value * (1 - found.value) / errors))


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 6), st.integers(1, 50), st.data())
def test_the_mean_error_of_models_has_the_interval_of_one_rounded_outwards(models, n, data):
    wrong = data.draw(st.integers(0, models * n))
    found = mean_band_error(wrong, models, n, 0.9)
    assert found.value == pytest.approx(wrong / (models * n))
    assert found.stderr == pytest.approx(np.sqrt(found.value * (1 - found.value) / n))
    ends = [scipy_stats.binomtest(k, n).proportion_ci(0.9) for k in (wrong // models, -(-wrong // models))]
    assert (found.low, found.high) == pytest.approx((ends[0].low, ends[1].high))


@given(st.floats(1e-3, 50), st.integers(5, 100))
def test_round_edges_reach_the_top_in_equal_steps_and_no_more_than_allowed(top, most):
    edges = round_band_edges(top, most)
    steps = np.diff(edges)
    assert edges[0] == 0
    assert edges[-1] >= top - 1e-9
    assert edges[-2] < max(top, 0.01)
    assert len(steps) <= most + 1
    assert steps == pytest.approx(np.full(len(steps), steps[0]), abs=1e-9)
    narrower = [
        width for width in (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0) if width < steps[0] - 1e-9
    ]
    assert all(max(top, 0.01) / width > most for width in narrower)


@pytest.mark.parametrize("edges", [[0, 0], [0.2, 1], [0, np.nan, 1], [1]])
def test_bad_edges(edges):
    with pytest.raises(InputError) as caught:
        confusion.bands([0.1, 0.5], [True, False], edges)
    assert caught.value.argument == "edges"


@given(_ANYTHING)
@example(0)
@example("x")
@example(["0", "1"])
@example(np.array([0j, 1]))
@example([0, 10**400])
@example([-1e308, 1e308])
def test_edges_are_taken_or_refused_by_name_with_their_value(edges):
    refusal = ""
    try:
        found = confusion.bands([0.1, 0.5], [True, False], edges)
    except InputError as error:
        refusal = str(error)
    if refusal:
        assert refusal.startswith("edges must")
    else:
        limits = band_limits(np.array([0.1, 0.5]), edges, 0.0)
        assert [found.bands[0].low, *(band.high for band in found.bands)] == limits.tolist()
        assert sum(band.examples for band in found.bands) == 2


def test_bad_answers():
    with pytest.raises(InputError) as caught:
        confusion.bands([0.1, 0.5], [True])
    assert caught.value.argument == "correct"
    with pytest.raises(InputError, match="correct"):
        confusion.bands([0.1, 0.5], [1, 2])


def test_targets_are_sorted_by_error_and_share_the_bands():
    s = np.linspace(0, 2, 300)
    rng = np.random.default_rng(0)
    right = {"weak": rng.random(300) > s / 2, "strong": rng.random(300) > s / 5}
    found = target_errors_by_band(s, right, scored_by="small")
    assert list(found.targets) == ["strong", "weak"]
    assert found.targets["weak"].rho.value > 0.9


def test_a_chart_says_how_many_bands_it_does_not_draw():
    s = np.repeat([0.5, 1.5, 2.5], [20, 3, 10])
    result = confusion.bands(s, np.arange(33) % 2 == 0, edges=[0, 1, 2, 3, 4])
    chart = error_by_band_chart({"test": result})
    assert [row["count"] for row in chart.rows] == [20, 10]
    assert chart.options["note"].startswith("1 band ")
    whole = confusion.bands(np.repeat([0.5, 1.5], 20), np.arange(40) % 2 == 0, edges=[0, 1, 2])
    assert "note" not in error_by_band_chart({"test": whole}).options
