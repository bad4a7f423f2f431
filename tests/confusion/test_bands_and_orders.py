"""Error by band, correlations, subsets, transfer and ablation: closed forms, outside oracles, planted answers."""

import json
import reprlib

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from tests.confusion.planted import random_probs

from hardpan import confusion, files, stats
from hardpan.confusion.banding import default_edges, mean_error, round_edges
from hardpan.confusion.orders import dominated, pair_sums
from hardpan.confusion.shown_models import ablation_section
from hardpan.errors import InputError
from hardpan.estimates import Interval


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
    found = mean_error(wrong, models, n, 0.9)
    assert found.value == pytest.approx(wrong / (models * n))
    assert found.stderr == pytest.approx(np.sqrt(found.value * (1 - found.value) / n))
    ends = [scipy_stats.binomtest(k, n).proportion_ci(0.9) for k in (wrong // models, -(-wrong // models))]
    assert (found.low, found.high) == pytest.approx((ends[0].low, ends[1].high))


@given(st.floats(1e-3, 50), st.integers(5, 100))
def test_round_edges_reach_the_top_in_equal_steps_and_no_more_than_allowed(top, most):
    edges = round_edges(top, most)
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


@pytest.mark.parametrize(
    ("edges", "said"), [([0, 0], "rising"), ([0.2, 1], "enclose"), ([0, np.nan, 1], "rising"), ([1], "rising")]
)
def test_bad_edges(edges, said):
    with pytest.raises(InputError, match=said):
        confusion.bands([0.1, 0.5], [True, False], edges)


_NUMBERS = st.floats() | st.integers() | st.booleans() | st.none() | st.text(max_size=3) | st.complex_numbers()
_ANYTHING = (
    _NUMBERS
    | st.lists(_NUMBERS, max_size=4)
    | st.lists(st.floats(-1, 2, width=16), max_size=4).map(np.asarray)
    | st.lists(st.lists(st.floats(0, 1), max_size=2), max_size=3)
    | st.dictionaries(st.text(max_size=1), st.floats(), max_size=2)
)


@given(_ANYTHING)
@example(0)
@example("x")
@example(["0", "1"])
@example(np.array([0j, 1]))
@example([0, 10**400])
@example([-1e308, 1e308])
def test_edges_are_taken_or_refused_by_name_with_their_value(edges):
    try:
        found = confusion.bands([0.1, 0.5], [True, False], edges)
    except InputError as refused:
        words = str(refused)
        assert words.startswith(("edges must be at least two rising numbers, such as ", "edges must enclose all"))
        assert "; got " in words
        if isinstance(edges, str | int):
            assert words.endswith(reprlib.repr(edges))
    else:
        limits = default_edges([0.1, 0.5]) if edges is None else np.asarray(edges, dtype=np.float64)
        assert [found.bands[0].low, *(band.high for band in found.bands)] == limits.tolist()
        assert sum(band.examples for band in found.bands) == 2


def test_bad_answers():
    with pytest.raises(InputError, match="correct must"):
        confusion.bands([0.1, 0.5], [True])
    with pytest.raises(InputError, match="right"):
        confusion.bands([0.1, 0.5], [1, 2])


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=40))
def test_kendall_is_scipys_with_any_ties(pairs):
    a, b = np.array(pairs, dtype=float).T
    sign_a, sign_b = np.sign(a[:, None] - a), np.sign(b[:, None] - b)
    sums = pair_sums(a, b)
    assert np.array_equal(sums[:, 0], (sign_a * sign_b).sum(axis=1))
    assert np.array_equal(sums[:, 1:], np.stack([abs(sign_a).sum(axis=1), abs(sign_b).sum(axis=1)], axis=1))
    if len(set(a)) > 1 and len(set(b)) > 1:
        assert confusion.kendall(a, b).value == pytest.approx(scipy_stats.kendalltau(a, b).statistic)
    else:
        assert np.isnan(confusion.kendall(a, b).value)


@given(st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), min_size=1, max_size=60))
def test_dominated_counts_what_is_smaller_in_both(pairs):
    a, b = np.array(pairs).T
    assert np.array_equal(dominated(a, b), ((a < a[:, None]) & (b < b[:, None])).sum(axis=1))


def test_kendalls_interval_is_that_of_the_jackknife():
    rng = np.random.default_rng(0)
    a = rng.normal(size=400)
    b = a + rng.normal(size=400)
    ours, slow = confusion.kendall(a, b), stats.kendall_tau(a, b)
    assert ours.value == pytest.approx(slow.value)
    assert ours.stderr == pytest.approx(slow.stderr, rel=0.08)


def test_many_examples_need_no_resamples():
    rng = np.random.default_rng(1)
    a = rng.normal(size=60_000)
    b = a + rng.normal(size=60_000)
    for measure in (confusion.kendall, confusion.pearson):
        few, many = measure(a[:15_000], b[:15_000]), measure(a, b)
        assert "bootstrap" in few.method
        assert "jackknife" in many.method
        assert many.stderr == pytest.approx(few.stderr / 2, rel=0.12)
        assert many.low < many.value < many.high


def test_transfer_of_a_model_to_itself_and_to_a_calmer_one():
    s = confusion.scores(random_probs(2, 3, 200, 5))
    itself = confusion.transfer(s, s)
    assert itself.tau.value == pytest.approx(1)
    assert itself.below.n == 0
    assert itself.counts.sum() == 200
    assert np.array_equal(itself.counts, np.diag(np.diag(itself.counts)))
    calmer = confusion.transfer(s.values, 0.5 * s.values)
    assert calmer.below.value == 1.0
    assert calmer.below.low > 0.95


def test_the_histogram_of_a_transfer_is_numpys():
    rng = np.random.default_rng(0)
    a = rng.uniform(0, 3, 400)
    b = np.clip(a + rng.normal(0, 0.4, 400), 0, 3)
    a[0] = b[1] = 3.0  # on the last edge
    found = confusion.transfer(a, b, names=("small", "large"), cells=12)
    assert (found.first, found.second, found.examples) == ("small", "large", 400)
    assert np.array_equal(found.counts, np.histogram2d(a, b, bins=(found.edges, found.edges))[0])
    assert found.counts[0].sum() == (a < found.edges[1]).sum()  # the first index is the first model's
    assert found.below.value == pytest.approx((b < a).sum() / (b != a).sum())


def test_transfer_joins_by_id():
    names = [f"e{i}" for i in range(50)]
    s = confusion.scores(random_probs(1, 2, 50, 4), ids=names)
    order = np.random.default_rng(0).permutation(50)[:40]
    found = confusion.transfer(s, s.rows(order))
    assert found.examples == 40
    assert found.tau.value == pytest.approx(1)
    other = confusion.scores(random_probs(1, 2, 50, 4), ids=[f"x{i}" for i in range(50)])
    with pytest.raises(InputError, match="share no example id"):
        confusion.transfer(s, other)
    with pytest.raises(InputError, match="no ids of their own"):
        confusion.transfer(confusion.scores(random_probs(1, 1, 5, 3)), confusion.scores(random_probs(1, 1, 6, 3)))


def test_targets_are_sorted_by_error_and_share_the_bands():
    s = np.linspace(0, 2, 300)
    rng = np.random.default_rng(0)
    right = {"weak": rng.random(300) > s / 2, "strong": rng.random(300) > s / 5}
    found = confusion.target_errors(s, right, scored_by="small")
    assert list(found.targets) == ["strong", "weak"]
    assert found.targets["weak"].rho.value > 0.9


def test_confused_models_correlate_as_planted():
    rng = np.random.default_rng(0)
    scores = {f"m{i}": np.abs(rng.normal(0.5 + 0.3 * i, 0.1, 400)) for i in range(4)}
    right = {name: rng.random(400) > values / 3 for name, values in scores.items()}
    found = confusion.confused_models(scores, right)
    assert [model.name for model in found.models] == ["m0", "m1", "m2", "m3"]
    assert found.rho.value < -0.95
    assert found.rho.low <= found.rho.value <= found.rho.high < 0
    with pytest.raises(InputError, match="same models"):
        confusion.confused_models({"a": [0.1]}, {"b": [True]})


def test_ablation_of_everything_is_everything():
    probs = random_probs(3, 20, 60, 4, dtype=np.float16)
    found = confusion.ablate(probs, correct=np.arange(60) % 3 > 0, block=7)
    last = found.variants[-1]
    assert (last.seeds, len(last.epochs)) == (3, 20)
    assert last.tau.value == pytest.approx(1)
    assert last.mean == pytest.approx(confusion.scores(probs).values.mean())
    one = next(item for item in found.variants if item.seeds == 1 and len(item.epochs) == 4)
    direct = confusion.scores(probs, seeds=[0], epochs=[0, 5, 10, 15]).values
    assert one.epochs == (0, 5, 10, 15)
    assert one.mean == pytest.approx(direct.mean())
    assert all(item.counts.sum() == 60 for item in found.variants)
    with pytest.raises(InputError, match="fractions"):
        confusion.ablate(probs, fractions=[0.0])
    with pytest.raises(InputError, match="seeds must"):
        confusion.ablate(probs, seeds=[4])


def test_few_epochs_peak_at_the_first_epochs_entropy_over_their_number():
    # The first epoch knows nothing, later ones all: k epochs give log2(C)/k, the paper's peaks at 2 and 1 bits.
    probs = np.zeros((2, 100, 3, 1000), dtype=np.float16)
    probs[:, 0] = 1 / 1000
    probs[:, 1:, :, 0] = 1
    found = confusion.ablate(probs, fractions=[0.05, 0.1], seeds=[2])
    assert [round(item.mean, 2) for item in found.variants] == [1.99, 1.0]


def subset_scores(n=60):
    return confusion.scores(random_probs(2, 3, n, 4), labels=np.arange(n) % 4, ids=[f"e{i}" for i in range(n)])


def test_subsets_hold_what_the_rule_says():
    s = subset_scores()
    hard = confusion.subset(s, quantile=0.9)
    assert set(hard.ids) == set(s.ids[np.argsort(-s.values)[:6]])
    assert np.all(np.diff(s.values[hard.rows(s.ids)]) <= 0)
    by_count = confusion.subset(s, count=6)
    assert by_count.ids.tolist() == hard.ids.tolist()
    cut = confusion.subset(s, threshold=1.0)
    assert set(cut.ids) == set(s.ids[s.values >= 1.0])
    assert cut.threshold >= 1.0
    easy = confusion.subset(s, quantile=0.9, easiest=True)
    assert set(easy.ids) == set(s.ids[np.argsort(s.values)[:6]])
    fair = confusion.subset(s, count=8, balanced=True)
    assert set(fair.per_class.values()) == {2}


def test_a_subset_does_not_depend_on_the_order_of_rows():
    s = confusion.scores(np.full((1, 1, 9, 2), 0.5), ids=list("ihgfedcba"))
    assert confusion.subset(s, count=3).ids.tolist() == ["a", "b", "c"]


def test_a_manifest_is_checked_on_use(tmp_path):
    s = subset_scores()
    path = confusion.subset(s, count=5).save(tmp_path / "hard.json")
    back = confusion.Subset.load(path)
    back.check(s)
    assert back.rows(s.ids[::-1]).tolist() == [59 - row for row in back.rows(s.ids)]
    with pytest.raises(InputError, match="cut from scores"):
        back.check(subset_scores(40))
    with pytest.raises(InputError, match="not among"):
        back.rows(["e1", "e2"])
    written = json.loads(path.read_text())
    written["ids"]["data"][0] = "e59x"
    path.write_text(json.dumps(written))
    with pytest.raises(InputError, match="was changed"):
        confusion.load_subset(path)
    written["version"] = 2
    path.write_text(json.dumps(written))
    with pytest.raises(InputError, match="version 2"):
        confusion.load_subset(path)
    files.save(Interval(0, 1), path)
    with pytest.raises(InputError, match="not a Subset"):
        confusion.load_subset(path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "exactly one"),
        ({"count": 3, "quantile": 0.5}, "exactly one"),
        ({"count": 0}, "at least 1"),
        ({"count": 61}, "at most"),
        ({"count": 7, "balanced": True}, "divide"),
        ({"threshold": 99.0}, "no score is at least"),
        ({"threshold": 1.0, "balanced": True}, "cannot be balanced"),
        ({"quantile": 1.0}, "quantile"),
    ],
)
def test_rules_that_make_no_subset(options, said):
    with pytest.raises(InputError, match=said):
        confusion.subset(subset_scores(), **options)


def test_every_kth_epoch_needs_as_many():
    probs = random_probs(1, 3, 20, 4)
    assert confusion.scores(probs, epochs=3).epochs == (0,)
    with pytest.raises(InputError, match="every 4th, and there are 3"):
        confusion.scores(probs, epochs=4)


def test_an_ablation_says_when_nothing_smaller_is_enough():
    alone = ablation_section(confusion.ablate(random_probs(1, 1, 40, 4)))
    assert "1 seed and 1 epoch give" in alone.sentences[0]
    assert "no fewer are enough" in alone.sentences[0]
    steady = np.repeat(random_probs(1, 1, 40, 4), 6, axis=1)
    assert "1 × 1 are enough" in ablation_section(confusion.ablate(steady)).sentences[0]
