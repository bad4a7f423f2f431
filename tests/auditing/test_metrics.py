"""The best model beside guessing, and metrics of a rare class."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import average_precision_score, balanced_accuracy_score, roc_auc_score

from hardpan import Dataset, auditing, stats
from hardpan.stats.classification import auroc, average_precision, balanced_error, paired_gain

BARE = {"ensemble": "none", "flow": "none"}


@pytest.mark.parametrize("ties", [False, True])
def test_values_are_those_of_scikit_learn(ties):
    rng = np.random.default_rng(0)
    y = rng.random(300) < 0.1
    score = rng.normal(size=300) + y
    score = np.round(score) if ties else score
    group = np.arange(300) // 3
    for by in (None, group):
        assert auroc(y, score, group=by).value == pytest.approx(roc_auc_score(y, score))
        assert average_precision(y, score, group=by).value == pytest.approx(average_precision_score(y, score))
        found = balanced_error(y.astype(int), (score > 0).astype(int), group=by)
        assert found.value == pytest.approx(1 - balanced_accuracy_score(y, score > 0))


@pytest.mark.parametrize(("positive", "negative", "shift"), [(10, 200, 1.0), (20, 1000, 3.0), (40, 60, 0.0)])
def test_intervals_of_the_auroc_cover_as_stated(positive, negative, shift):
    rng = np.random.default_rng(1)
    y, area = np.arange(positive + negative) < positive, norm.cdf(shift / np.sqrt(2))
    draws = [auroc(y, rng.normal(size=len(y)) + shift * y) for _ in range(200)]
    covered = sum(item.low <= area <= item.high for item in draws)
    assert stats.clopper_pearson(covered, 200, 0.998)[1] >= 0.95


def test_groups_widen_the_intervals_and_perfect_scores_have_one():
    rng = np.random.default_rng(2)
    y = np.repeat(rng.random(60) < 0.3, 5)
    score = np.repeat(rng.normal(size=60), 5) + y
    group = np.repeat(np.arange(60), 5)
    for metric in (auroc, average_precision):
        single, grouped = metric(y, score), metric(y, score, group=group)
        assert grouped.high - grouped.low > single.high - single.low
        best = metric(y, y.astype(float))
        assert best.value == best.high == 1
        assert best.low < 0.99


def test_the_gain_over_guessing_is_paired():
    first, second = np.arange(100) < 30, np.arange(100) < 20
    gain = paired_gain(first, second)
    assert gain.value == pytest.approx(0.1)
    assert gain.low > 0
    assert paired_gain(first, second, np.arange(100) // 50).low < 0


def rare_table(seed, n=2000, signal=0.0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.05).astype(int)
    return rng.normal(size=(n, 4)) + signal * y[:, None], y


def test_a_model_that_always_answers_the_frequent_class_is_called_no_better_than_guessing():
    x, y = rare_table(0)
    probs = np.column_stack([0.9 - (p := 0.2 * np.random.default_rng(3).random(len(y))), 0.1 + p])
    data = Dataset.from_arrays(x, np.array(["no", "yes"])[y])
    report = auditing.audit(data, predictions={"noise": probs}, held_out=True, **BARE)
    assert "better than guessing" in report.headline
    assert "“no”" in report.headline
    metrics = report.metrics
    assert (metrics.guess, metrics.rare) == ("no", "yes")
    assert metrics.gain.low <= 0
    assert metrics.auroc.low < 0.5 < metrics.auroc.high
    again = auditing.running.files.from_json(auditing.running.json.loads(report.to_json()))
    assert again.metrics == metrics


def test_metrics_are_of_the_test_rows_and_only_where_a_class_is_rare():
    x, y = rare_table(1, signal=2.0)
    probs = np.column_stack([1 - (p := 1 / (1 + np.exp(-2 * x.sum(axis=1) + 12))), p])
    report = auditing.audit(Dataset.from_arrays(x, y), predictions={"sum": probs}, held_out=True, **BARE)
    test, metrics = report.evidence.inputs.test, report.metrics
    model = report.evidence.probs[metrics.model]
    assert metrics.auroc.value == pytest.approx(roc_auc_score(y[test], model[:, 1]))
    assert metrics.recall.value == pytest.approx((model[y[test] == 1].argmax(axis=1) == 1).mean())
    assert metrics.guessing.value == pytest.approx((y[test] == 1).mean())
    assert metrics.gain.low > 0
    assert "AUROC" in " ".join(report.view().lede)
    even = auditing.audit(Dataset.from_arrays(x, (x[:, 0] > 1).astype(int)), **BARE)
    assert even.metrics.rare == ""
    assert even.metrics.gain is None or even.metrics.gain.value > 0
