"""Predictors of errors against scikit-learn, signals against their definitions, doubts against planted labels."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy.special import entr
from sklearn.metrics import average_precision_score, roc_auc_score
from tests.confusion.planted import planted_wrong, random_probs, trained_on_digits

from hardpan import confusion
from hardpan.confusion.difficulty_signals import NEED_LABELS
from hardpan.confusion.error_prediction import predictors
from hardpan.confusion.transfers import confused_models
from hardpan.errors import InputError
from hardpan.predictions import Predictions


def table(ties: bool):
    rng = np.random.default_rng(0)
    wrong = rng.random(300) < 0.3
    score = wrong + rng.normal(size=300)
    score = np.round(score) if ties else score
    return score, wrong


@pytest.mark.parametrize("ties", [False, True])
def test_measures_are_scikit_learns(ties):
    score, wrong = table(ties)
    row = predictors({"s": score}, ~wrong, resamples=100).rows[0]
    assert row.auroc.value == pytest.approx(roc_auc_score(wrong, score))
    assert row.aupr.value == pytest.approx(average_precision_score(wrong, score))
    assert row.by_example.value == pytest.approx(np.corrcoef(score, wrong)[0, 1])
    for item in (row.by_example, row.auroc, row.aupr, row.aurc):
        assert item.low <= item.value <= item.high
        assert item.n == 300


@pytest.mark.parametrize("n", [300, 287, 13])
def test_the_correlation_by_band_is_that_of_twenty_equally_full_bands(n):
    score, wrong = (column[:n] for column in table(False))
    row = predictors({"s": score}, ~wrong, resamples=100).rows[0]
    ends = np.linspace(0, n, min(20, n) + 1).round().astype(int)
    bands = [np.argsort(-score)[a:b] for a, b in itertools.pairwise(ends)]
    means = np.array([(score[band].mean(), wrong[band].mean()) for band in bands])
    assert row.by_band.value == pytest.approx(np.corrcoef(means.T)[0, 1])
    assert row.by_band.low <= row.by_band.value <= row.by_band.high
    again = predictors({"s": 5 + 100 * score}, ~wrong, resamples=100).rows[0]
    assert (again.by_band.low, again.by_band.high) == pytest.approx((row.by_band.low, row.by_band.high))


def test_area_under_risk_and_coverage_is_its_definition():
    score, wrong = table(False)
    found = predictors({"s": score}, ~wrong, resamples=100)
    order = np.argsort(score)
    risk = np.cumsum(wrong[order]) / np.arange(1, 301)
    assert found.rows[0].aurc.value == pytest.approx(risk.mean())
    perfect = predictors({"s": wrong + 0.5 * np.linspace(0, 1, 300)}, ~wrong, resamples=100)
    assert perfect.rows[0].aurc.value == pytest.approx(perfect.best_aurc)
    assert perfect.rows[0].auroc.value == 1.0
    assert found.chance_aurc == pytest.approx(wrong.mean())


def test_the_bootstrap_of_auroc_has_its_known_spread():
    rng = np.random.default_rng(1)
    wrong = rng.random(2000) < 0.3
    score = 1.2 * wrong + rng.normal(size=2000)
    row = predictors({"s": score}, ~wrong, resamples=400).rows[0]
    # Hanley and McNeil's formula for normal scores.
    a, bad, good = row.auroc.value, wrong.sum(), (~wrong).sum()
    q1, q2 = a / (2 - a), 2 * a**2 / (1 + a)
    known = np.sqrt((a * (1 - a) + (bad - 1) * (q1 - a**2) + (good - 1) * (q2 - a**2)) / (bad * good))
    assert row.auroc.stderr == pytest.approx(known, rel=0.15)


def test_a_lead_is_told_from_the_same_resamples():
    score, wrong = table(False)
    found = predictors({"ours": score, "twin": 2 * score + 1, "noise": np.arange(300) % 17}, ~wrong)
    twin = found.row("twin")
    assert (twin.auroc_lead.value, twin.auroc_lead.low, twin.auroc_lead.high) == (0.0, 0.0, 0.0)
    assert found.row("noise").auroc_lead.low > 0


@pytest.mark.parametrize(
    ("columns", "correct", "said"),
    [
        ({}, [True], "difficulties"),
        ({"s": [0.1, 0.2]}, [True, True], "correct"),
        ({"s": [0.1, np.inf]}, [True, False], "difficulties"),
        ({"s": [0.1, 0.2]}, [[True, False], [True, False]], "correct"),
    ],
)
def test_bad_tables(columns, correct, said):
    with pytest.raises(InputError, match=said):
        predictors(columns, correct)


def test_signals_are_their_definitions():
    probs = random_probs(3, 5, 40, 6)
    labels = np.random.default_rng(0).integers(0, 6, 40)
    found = confusion.signals(probs, labels=labels)
    d = found.difficulties
    last, mean = probs[:, -1], probs[:, -1].mean(axis=0)
    bits = entr(probs).sum(axis=-1) / np.log(2)
    assert np.allclose(d["confusion score"], confusion.scores(probs).values)
    assert np.allclose(d["single-model entropy"], bits[0, -1])
    assert np.allclose(d["max-probability"], 1 - last[0].max(axis=-1), atol=1e-6)
    ordered = np.sort(last[0], axis=-1)
    assert np.allclose(d["margin"], 1 - (ordered[:, -1] - ordered[:, -2]), atol=1e-6)
    assert np.allclose(d["mutual information"], entr(mean).sum(-1) / np.log(2) - bits[:, -1].mean(axis=0))
    assert np.allclose(d["disagreement"], (last.argmax(-1) != mean.argmax(-1)).mean(axis=0))
    own = np.take_along_axis(probs, labels[None, None, :, None], axis=-1)[..., 0]
    others = probs.copy()
    np.put_along_axis(others, np.broadcast_to(labels[None, None, :, None], (3, 5, 40, 1)), 0, axis=-1)
    assert np.allclose(d["AUM"], -(np.log(own) - np.log(others.max(-1))).mean(axis=(0, 1)), atol=1e-4)
    assert np.allclose(d["cartography confidence"], 1 - own.mean(axis=(0, 1)), atol=1e-6)
    assert np.allclose(d["cartography variability"], own.std(axis=1).mean(axis=0), atol=1e-5)
    right = probs.argmax(-1) == labels
    lost = (right[:, :-1] & ~right[:, 1:]).sum(axis=1).astype(float)
    lost[~right.any(axis=1)] = 5
    assert np.allclose(d["forgetting"], lost.mean(axis=0))
    assert np.array_equal(found.correct("seeds"), right[:, -1])
    assert np.array_equal(found.correct(), mean.argmax(-1) == labels)
    unlabelled = confusion.signals(probs)
    assert not set(NEED_LABELS) & set(unlabelled.difficulties)
    with pytest.raises(InputError) as caught:
        unlabelled.correct()
    assert caught.value.argument == "labels"
    with pytest.raises(InputError) as caught:
        found.correct("nobody")
    assert caught.value.argument == "of"


def test_planted_wrong_labels_are_listed_first():
    data, labels, _, probs = trained_on_digits()
    found = confusion.signals(probs, labels=labels, ids=data.ids)
    planted = set(planted_wrong().tolist())
    issues = confusion.label_issues(found)
    first = issues.row[: len(planted)].tolist()
    assert len(planted & set(first)) >= 0.5 * len(planted)  # chance would give less than one
    mean = probs.mean(axis=(0, 1))
    own = mean[np.arange(len(labels)), labels]
    assert set(issues.row.tolist()) == set(np.flatnonzero(mean.max(axis=1) > own).tolist())
    assert np.array_equal(issues.suggested, mean[issues.row].argmax(axis=1))
    assert (np.diff(issues.probability) >= 0).all()
    assert len(issues) == len(issues.to_frame("pyarrow"))
    same = confusion.label_issues(probs, labels)
    assert np.array_equal(same.row, issues.row)
    mirrored = data.select(np.arange(len(data))[::-1])  # joined by id, not by position
    shown = confusion.label_issues(found, dataset=mirrored)
    (gallery,) = shown.sections()[0].charts
    assert [row["id"] for row in gallery.rows] == issues.id[: len(gallery.rows)].tolist()
    assert [row["row"] for row in gallery.rows] == issues.row[: len(gallery.rows)].tolist()
    assert [int(row["suggested"]) for row in gallery.rows] == issues.suggested[: len(gallery.rows)].tolist()
    assert issues.sections()[0].charts == ()
    with pytest.raises(InputError) as caught:
        confusion.label_issues(confusion.signals(probs))
    assert caught.value.argument == "labels"


def test_labels_that_models_were_trained_on_are_not_listed():
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(3), 60), rng.integers(0, 3, 60)
    split = np.where(np.arange(60) % 3, "train", "test")
    stated = {
        held_out: confusion.label_issues(
            Predictions.from_arrays(probs, labels=labels, split=split, held_out=held_out)
        )
        for held_out in (False, True)
    }
    assert (stated[False].examples, set(stated[False].split)) == (20, {"test"})
    assert (stated[True].examples, set(stated[True].split)) == (60, {"test", "train"})
    report = confusion.score_report(Predictions.from_arrays(probs, labels=labels, split=split))
    assert report.issues.row.tolist() == stated[False].row.tolist()


def test_on_real_data_confusing_examples_are_the_ones_that_go_wrong():
    _, labels, split, probs = trained_on_digits()
    test = split == "test"
    scores = confusion.scores(probs[:, :, test], labels=labels[test])
    told = confusion.signals(probs[:, :, test], labels=labels[test])
    found = confusion.bands(scores, told.correct("seeds"))
    assert found.rho.value > 0.7
    assert found.hardest_tenth.low > 0.1  # more than its share
    table = predictors(told, told.correct())
    assert table.row("confusion score").auroc.low > 0.6
    assert dataclasses.asdict(table.row("confusion score"))["auroc_lead"]["value"] == 0.0


def test_confused_models_correlate_as_planted():
    rng = np.random.default_rng(0)
    scores = {f"m{i}": np.abs(rng.normal(0.5 + 0.3 * i, 0.1, 400)) for i in range(4)}
    right = {name: rng.random(400) > values / 3 for name, values in scores.items()}
    found = confused_models(scores, right)
    assert [model.name for model in found.models] == ["m0", "m1", "m2", "m3"]
    for model in found.models:
        mean, accuracy = model.mean_confusion, model.accuracy
        assert (mean.value, accuracy.value) == pytest.approx((scores[model.name].mean(), right[model.name].mean()))
        reach = 1.959964 * scores[model.name].std(ddof=1) / np.sqrt(400)
        assert (mean.low, mean.high) == pytest.approx((mean.value - reach, mean.value + reach))
        assert accuracy.low < accuracy.value < accuracy.high
    assert found.rho.value < -0.95
    assert found.rho.low <= found.rho.value <= found.rho.high < 0
    with pytest.raises(InputError) as caught:
        confused_models({"a": [0.1]}, {"b": [True]})
    assert caught.value.argument == ("scores", "correct")
