"""Planted problems are found, and clean data raise no alarm."""

import dataclasses

import numpy as np
import pytest

from hardpan import Dataset, auditing
from hardpan.auditing.evidence import Nearest, Trial
from hardpan.auditing.labels import Suspects, planted_labels, suspect_labels, trial_of
from hardpan.auditing.near_copies import near_copies
from hardpan.bayes.floors.neighbours import k_nearest

BARE = {"ensemble": "none", "flow": "none"}  # nothing is trained


def table(seed=0, n=400, d=5):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, (x[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int), rng


def kinds(x, y, split=None, **options):
    data = Dataset.from_arrays(x, y, split=split, ids=np.arange(len(x)).astype(str))
    report = auditing.audit(data, **BARE, **options)
    return {(problem.kind, problem.of): problem for problem in report.problems}, report


def halves(n):
    return np.repeat(["train", "test"], [n - n // 4, n // 4])


def test_clean_data_have_only_the_size_of_the_test_set_and_what_was_not_measured():
    x, y, _ = table()
    found, report = kinds(x, y)
    assert {kind for kind, _ in found} <= {"small-test", "fresh"}
    assert not any(problem.breaks for problem in report.problems)


@pytest.mark.parametrize(("copied", "broken"), [(20, False), (100, True)])
def test_copies_of_training_examples(copied, broken):
    x, y, _ = table()
    x[300 : 300 + copied], y[300 : 300 + copied] = x[:copied], y[:copied]
    found, report = kinds(x, y, halves(400))
    problem = found["test-copies", "test"]
    assert problem.count.value == copied
    assert problem.severity == "high"
    assert problem.breaks == broken
    assert problem.rows == tuple(range(300, 300 + copied))
    assert ("broken" in report.headline) == broken
    assert report.failing(["test-copies"])
    assert not report.failing(["labels"])


def test_near_copies_conflicting_labels_and_duplicates():
    x, y, rng = table()
    x[300:310] = x[:10] + 1e-4 * rng.normal(size=(10, 5))
    x[100:110], y[100:110] = x[110:120], 1 - y[110:120]
    x[350:355], y[350:355] = x[360:365], y[360:365]
    found, _ = kinds(x, y, halves(400))
    assert found["near-copies", "test"].count.value >= 8  # validation has the others
    assert found["conflicting-labels", "all"].count.value == 20
    assert found["duplicates", "train"].count.value >= 7
    assert found["duplicates", "test"].count.value == 5


def test_rows_of_a_discrete_table_are_no_copies():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (500, 3)).astype(float)
    found, report = kinds(x, (x.sum(axis=1) > 3).astype(int))
    assert not {"test-copies", "duplicates", "near-copies"} & {kind for kind, _ in found}
    assert "broken" not in report.headline


def test_classes_that_are_missing_or_rare():
    x, y, rng = table(n=800)
    y[: len(y) // 2] = rng.integers(0, 2, 400)
    y = np.where(np.arange(800) >= 790, 2, y)
    found, report = kinds(x, y, np.repeat(["train", "test"], [700, 100]))
    assert found["missing-classes", "train"].details["classes"] == ("2",)
    assert report.headline.startswith(f"{report.dataset} is broken")
    assert report.problems[0].kind == "missing-classes"
    if ("labels", "test") in found:
        assert not set(range(790, 800)) & set(found["labels", "test"].rows)
    assert found["imbalance", "all"].details["ratio"] > 30


def test_an_index_that_predicts_the_label_breaks_a_benchmark():
    x, _, rng = table()
    y = np.repeat([0, 1], 200)
    index = np.arange(400.0)[:, None]
    found, report = kinds(np.concatenate([x, index], axis=1), y)
    assert found["index-feature", "all"].breaks
    assert "broken" in report.headline
    shuffled = rng.permutation(400.0 * np.arange(400) / 400)[:, None]
    found, report = kinds(np.concatenate([x, shuffled], axis=1), table()[1])
    assert not found["index-feature", "all"].breaks


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_feature_that_is_the_label(noise):
    x, y, rng = table()
    x[:, 3] = 3 * y + noise * rng.normal(size=400)
    assert kinds(x, y)[0]["leak-feature", "all"].details["columns"] == ("3",)


def test_a_feature_that_decides_the_label_is_no_leak():
    x, _, _ = table()
    assert ("leak-feature", "all") not in kinds(x, (x[:, 2] > 0).astype(int))[0]


def test_a_constant_column_and_one_class():
    x, y, _ = table()
    x[:, 1] = 7.0
    assert ("constant-columns", "all") in kinds(x, y)[0]
    found, report = kinds(x, np.zeros(400, dtype=int))
    assert found["one-class", "all"].breaks
    assert report.floor is None
    assert "broken" in report.headline


def test_permuted_class_columns_of_predictions():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 3)), rng.integers(0, 3, 400)
    probs = 0.8 * np.eye(3)[y] + 0.2 / 3
    found, _ = kinds(x, y, predictions={"forest": probs[:, [1, 2, 0]]})
    assert found["permuted-classes", "test"].details["model"] == "forest"
    assert ("permuted-classes", "test") not in kinds(x, y, predictions={"forest": probs})[0]


def test_labels_that_predictions_doubt_are_listed_with_votes_as_precision(tmp_path):
    x, _, rng = table(n=2000)
    clean = (x[:, 0] > 0).astype(int)
    flipped = rng.choice(2000, 100, replace=False)
    wrong = clean.copy()
    wrong[flipped] = 1 - wrong[flipped]
    probs = 0.96 * np.eye(2)[clean] + 0.02
    data = Dataset.from_arrays(x, wrong)
    votes = (10 * np.eye(2)[clean]).astype(int)
    np.savez(tmp_path / "votes.npz", votes=votes)
    report = auditing.audit(
        data,
        **BARE,
        predictions={"m": probs, "again": probs},
        held_out=True,
        votes=str(tmp_path / "votes.npz"),
        out=tmp_path / "out",
    )
    (problem,) = [item for item in report.problems if item.kind == "labels"]
    test = data.splits().test
    assert set(problem.rows) == set(flipped) & set(test.tolist())
    assert problem.count.low < 100 * len(test) / 2000 < problem.count.high
    assert problem.details["precision"].value == 1.0
    assert report.budget.labels.value == report.budget.total.value > 0
    lines = (tmp_path / "out" / "problems" / "labels.csv").read_text().splitlines()
    assert lines[0] == "row,id,split,label,suggested,probability"
    assert len(lines) == 1 + len(problem.rows)


def test_close_neighbours_in_few_dimensions_are_no_near_copies():
    rng = np.random.default_rng(0)
    for d in (1, 2, 3, 8):
        x = rng.normal(size=(1500, d))
        assert ("near-copies", "test") not in kinds(x, (x[:, 0] > 0).astype(int))[0]


def test_suspects_are_those_of_confident_learning():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([1.0, 1.0, 1.0], 300)
    labels = rng.integers(0, 3, 300)
    found = suspect_labels(probs, labels, np.arange(300))
    typical = np.array([probs[labels == c, c].mean() for c in range(3)])
    sure = [np.quantile(probs[(labels == c) & (probs.argmax(axis=1) == c), c], 0.2) for c in range(3)]
    expected = set()
    for row in range(300):
        other = max((c for c in range(3) if c != labels[row]), key=lambda c: probs[row, c])
        if (
            probs[row, other] >= max(typical[other], 0.5, sure[other])
            and probs[row, other] > probs[row, labels[row]]
        ):
            expected.add(row)
    assert set(found.rows.tolist()) == expected
    lead = probs[found.rows, found.suggested] - probs[found.rows, labels[found.rows]]
    assert (np.diff(lead) <= 1e-12).all()


def _sure_model(rng, n=3000, k=3, error=0.0):
    """Probabilities of a model that is right except where it is unsure, and the true classes."""
    truth = rng.integers(0, k, n)
    top = rng.uniform(0.5, 1.0, n)
    decided = np.where(rng.random(n) < error * (2 * (1 - top)) ** 3, (truth + 1) % k, truth)
    probs = np.repeat((1 - top)[:, None] / (k - 1), k, axis=1)
    probs[np.arange(n), decided] = top
    return probs, truth


def test_random_flips_are_told_from_errors_of_the_models():
    rng = np.random.default_rng(3)
    probs, truth = _sure_model(rng, error=0.5)
    assert (probs.argmax(axis=1) != truth).mean() > 0.1
    clean = suspect_labels(probs, truth, np.arange(len(truth)))
    assert len(clean.rows)
    assert not clean.telling
    flipped = np.where(rng.random(len(truth)) < 0.1, (truth + rng.integers(1, 3, len(truth))) % 3, truth)
    found = suspect_labels(probs, flipped, np.arange(len(truth)))
    wrong = float((flipped[found.rows] != truth[found.rows]).mean())
    expected = found.precision(0.99)
    assert found.telling
    assert expected.low <= wrong <= expected.high


def test_a_trial_with_known_labels_bounds_the_precision_of_suspects():
    rows = np.arange(200)
    shared = {"searched": 2000, "error": 0.1, "guessing": 0.5, "sure_errors": 66, "sure": 667}
    half = Suspects(rows, rows, rows, **shared, trial=Trial(200, 150, round(0.05 * 1800), 1800))
    expected = half.precision(0.95)
    assert expected.value == pytest.approx(0.5)
    assert 0.3 < expected.low < expected.value < expected.high == 1.0
    assert half.telling
    as_many = dataclasses.replace(half, trial=Trial(200, 150, 180, 1800))
    assert as_many.precision(0.95).low == 0.0
    assert not as_many.telling


@pytest.mark.parametrize("trial", [Trial(200, 9, 5, 1800, error=0.1), Trial(200, 150, 5, 1800, error=0.6)])
def test_a_trial_that_finds_little_or_has_worse_models_says_nothing(trial):
    rows = np.arange(200)
    found = Suspects(rows, rows, rows, 2000, error=0.1, guessing=0.9, sure_errors=66, sure=667, trial=trial)
    assert found.precision(0.95) is None
    assert not found.telling
    as_good = dataclasses.replace(found, trial=dataclasses.replace(trial, recovered=150, error=0.1))
    assert as_good.telling


def test_errors_that_vanish_where_models_are_surest_are_not_wrong_labels():
    rng = np.random.default_rng(5)
    n, k = 6000, 5
    truth = rng.integers(0, k, n)
    logits = rng.normal(size=(n, k)) * 1.5 + 2.2 * np.eye(k)[truth] * rng.uniform(0, 2, (n, 1))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    weak = suspect_labels(probs, truth, np.arange(n))  # right labels, models that err on many
    third = np.argsort(-probs.max(axis=1))[: n // 3]
    assert weak.sure_errors / weak.sure < 0.7 * (probs.argmax(axis=1) != truth)[third].mean()
    flipped = np.where(rng.random(n) < 0.1, (truth + rng.integers(1, k, n)) % k, truth)
    noisy = suspect_labels(probs, flipped, np.arange(n))
    assert 0.08 < noisy.sure_errors / noisy.sure < 0.18  # random mistakes stay


def test_a_trial_recovers_planted_flips_and_counts_the_other_suspects():
    truth = np.arange(1000) % 2
    planted, flipped = planted_labels(np.eye(2)[truth], 0.1, seed=3)
    assert np.array_equal(planted != truth, flipped)
    probs = np.where(np.eye(2, dtype=bool)[truth], 0.9, 0.1)
    probs[:6] = probs[:6, ::-1]  # six errors of the models
    trial = trial_of(probs, planted, flipped, 0.1)
    assert trial.flips + trial.clean == 1000
    assert trial.recovered == flipped[6:].sum()
    assert trial.false == (~flipped[:6]).sum()


def test_models_that_guess_cannot_doubt_labels():
    rng = np.random.default_rng(4)
    probs, labels = rng.dirichlet([0.3, 0.3], 1000), rng.integers(0, 2, 1000)
    assert not suspect_labels(probs, labels, np.arange(1000)).telling


def test_turned_and_mirrored_images_are_near_copies():
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 255, (240, 6, 6), dtype=np.uint8), np.arange(240) % 2
    for row, turn in enumerate((np.rot90, np.fliplr, np.flipud, np.transpose)):
        x[200 + row] = turn(x[row])
    found, _ = kinds(x, y, np.repeat(["train", "test"], [200, 40]))
    assert set(found["near-copies", "test"].rows) == {200, 201, 202, 203}


@pytest.mark.parametrize(
    ("features", "copies", "noise", "recall"),
    [
        (5, 15, 0.1, 0.8),
        (5, 15, 0.5, 0.0),
        (10, 60, 0.45, 0.6),
        (30, 15, 0.35, 0.9),
        (30, 15, 0.65, 0.9),
        (100, 15, 0.8, 0.9),
    ],
)
def test_noise_up_to_which_copies_are_found_by_dimension(features, copies, noise, recall):
    rng = np.random.default_rng([features, 5])
    x = rng.normal(size=(1300, features))
    train, test = x[:1000], x[1000:]
    usual = np.median(k_nearest(train, test, 1)[1])
    away = rng.normal(size=(copies, features))
    test[:copies] = train[:copies] + noise * usual * away / np.linalg.norm(away, axis=1, keepdims=True)
    at, distances = k_nearest(train, test, 2)
    own = k_nearest(train, None, 2)[1]
    found = near_copies(Nearest(np.arange(300), distances, at[:, 0], own), np.zeros(300, dtype=bool))
    assert np.isin(np.arange(copies), found).mean() >= recall
    assert (found >= copies).sum() <= 3
    clean = np.arange(copies, 300)
    none = Nearest(clean, distances[clean], at[clean, 0], own)
    assert not len(near_copies(none, np.zeros(len(clean), dtype=bool)))
    if not recall:
        assert not len(found)


def test_groups_of_different_spread_are_no_near_copies():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(1500, 6)) * np.where(rng.random(1500) < 0.5, 1, 0.1)[:, None]
    assert ("near-copies", "test") not in kinds(x, (x[:, 0] > 0).astype(int))[0]


def test_a_row_index_that_the_reader_left_out_is_listed(tmp_path):
    rng = np.random.default_rng(7)
    lines = [f"{i},{a:.4f},{b:.4f},{int(a > b)}" for i, (a, b) in enumerate(rng.normal(size=(60, 2)))]
    (tmp_path / "t.csv").write_text("Unnamed: 0,a,b,y\n" + "\n".join(lines))
    report = auditing.audit(tmp_path / "t.csv", label="y", ensemble="none", flow="none")
    (item,) = [problem for problem in report.problems if problem.kind == "index-feature"]
    assert (item.severity, item.details["columns"]) == ("low", ("Unnamed: 0",))
    assert "broken" not in report.headline


def test_a_stated_noise_rate_that_models_refute_is_said_in_the_headline():
    x = table(n=600)[0]
    data = Dataset.from_arrays(x, (x[:, 0] > 0).astype(int))
    wrong, right = (auditing.audit(data, **BARE, label_noise=rate) for rate in (0.4, 0.001))
    assert "refutes the stated noise rate (40.0 %)" in wrong.headline
    assert wrong.measures["bracket"].low == 0
    assert "refutes" not in right.headline


def test_a_class_is_called_worst_only_where_its_error_is_separate():
    from hardpan.pages.auditing.sections import _class_stands_out

    sizes, rng = np.full(10, 100.0), np.random.default_rng(0)
    alike = [rng.binomial(100, 0.2, 10).astype(float) for _ in range(200)]
    assert sum(_class_stands_out(wrong, sizes, int(wrong.argmax()), 0.95) for wrong in alike) <= 10
    assert not _class_stands_out(np.eye(10)[3], sizes, 3, 0.95)  # a single error
    assert _class_stands_out(np.where(np.arange(10) == 3, 60.0, 10.0), sizes, 3, 0.95)
