"""Planted problems are found, and clean data raise no alarm."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from hardpan import Dataset, auditing, stats
from hardpan.auditing.problems import (
    ALPHA,
    BenchmarkProblem,
    _small_test_problems,
    settle_claims,
)
from hardpan.errors import InputError
from hardpan.estimates import Estimate

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
    assert {kind for kind, _ in found} <= {"small-test", "fresh", "leak-feature", "near-copies"}
    assert all(item.severity == "note" for item in report.problems if item.kind in ("leak-feature", "near-copies"))
    assert not any(problem.breaks for problem in report.problems)


def claim(p_value, effect=None, severity="high"):
    estimate = None if effect is None else Estimate(effect, 0.0, effect, effect)
    return BenchmarkProblem("test-copies", severity, p_value=p_value, effect=estimate)


def test_all_claims_of_an_audit_are_false_together_with_probability_alpha():
    rng = np.random.default_rng(0)
    draws = [settle_claims([claim(p) for p in rng.random(12)], None) for _ in range(1000)]
    false = sum(problems[0].severity != "note" for problems in draws)
    assert stats.clopper_pearson(false, 1000, 0.998)[0] <= ALPHA


def test_claims_are_ordered_by_effect_and_demoted_without_one():
    error = Estimate(0.1, 0.01, 0.08, 0.12)
    facts = [BenchmarkProblem("duplicates", "note"), BenchmarkProblem("one-class", "high", breaks=True)]
    claims = [claim(1e-6, 0.03), claim(1e-6, -0.06), claim(1e-6, 0.01), claim(0.5, 0.4)]
    claims.append(dataclasses.replace(claim(1e-6, -0.05), kind="shift"))
    settled = settle_claims([*facts, *claims], error)
    assert [(item.severity, item.effect and item.effect.value) for item in settled] == [
        *(("high", None), ("high", -0.05), ("high", 0.03)),
        *(
            ("note", 0.4),
            ("note", -0.06),
            ("note", 0.01),
            ("note", None),
        ),  # copies by which nobody gains claim nothing
    ]


def test_near_copies_conflicting_labels_and_duplicates():
    x, y, rng = table()
    x[300:310] = x[:10] + 1e-4 * rng.normal(size=(10, 5))
    x[100:110], y[100:110] = x[110:120], 1 - y[110:120]
    x[350:355], y[350:355] = x[360:365], y[360:365]
    found, _ = kinds(x, y, halves(400))
    assert set(found["near-copies", "test"].rows) >= set(range(300, 310))
    assert found["conflicting-labels", "all"].count.value == 20
    assert found["duplicates", "train"].count.value == 10
    assert found["duplicates", "test"].count.value == 5


def test_repeats_are_counted_in_the_files_that_the_user_has():
    x, y, _ = table()
    x[100:150], y[100:150] = x[50:100], y[50:100]
    found, report = kinds(x, y, halves(400))
    parts = report.evidence.parts
    assert set(parts["validation"]) & set(range(50, 150))
    assert found["duplicates", "train"].rows == tuple(range(100, 150))
    found, report = kinds(x, y)
    assert found["duplicates", "all"].rows == tuple(range(100, 150))


def test_repeats_of_a_discrete_table_are_facts():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (500, 3)).astype(float)
    found, report = kinds(x, (x.sum(axis=1) > 3).astype(int))
    alarms = {kind for (kind, _), item in found.items() if item.severity != "note"}
    assert not {"test-copies", "duplicates", "near-copies", "missing-classes", "conflicting-labels"} & alarms
    assert "broken" not in report.headline


def test_classes_that_are_missing_or_rare():
    x, y, rng = table(n=800)
    y[: len(y) // 2] = rng.integers(0, 2, 400)
    y = np.where(np.arange(800) >= 790, 2, y)
    found, report = kinds(x, y, np.repeat(["train", "test"], [700, 100]))
    assert found["missing-classes", "train"].details["classes"] == ("2",)
    assert report.headline.startswith(f"{report.dataset} is broken")
    assert report.problems[0].kind == "missing-classes"
    if ("labels", "all") in found:
        assert not set(range(790, 800)) & set(found["labels", "all"].rows)
    assert found["imbalance", "all"].details["ratio"] > 30


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


def doubted(tmp_path, **options):
    """An audit of 2,000 labels, 100 of them flipped, with predictions that know the right ones; its folder."""
    x, _, rng = table(n=2000)
    clean = (x[:, 0] > 0).astype(int)
    flipped = rng.choice(2000, 100, replace=False)
    wrong = np.where(np.isin(np.arange(2000), flipped), 1 - clean, clean)
    probs = np.where(np.eye(2, dtype=bool)[clean], 0.97, 0.03) + 0.02 * rng.random((2000, 1)) * [1, -1]
    data = Dataset.from_arrays(x, wrong)
    out = tmp_path / "out"
    models = {"m": probs, "again": probs}
    report = auditing.audit(data, **BARE, predictions=models, held_out=True, out=out, **options)
    return report, data, set(flipped) & set(data.splits().test.tolist()), out


def test_labels_that_differ_from_predictions_are_a_note_in_the_order_of_their_probability(tmp_path):
    report, data, flipped, out = doubted(tmp_path)
    (problem,) = [item for item in report.problems if item.kind == "labels"]
    assert problem.severity == "note"
    assert not report.failing(["labels"])
    assert not report.failing(["any"]) or all(item.kind != "labels" for item in report.failing(["any"]))
    assert set(problem.rows) == flipped
    assert problem.count.low == problem.count.value == problem.count.high == len(flipped)
    lines = (out / "problems" / "labels.csv").read_text().splitlines()
    assert lines[0] == "row,id,split,label,suggested,probability"
    assert len(lines) == 1 + len(flipped)
    assert np.diff([float(line.split(",")[-1]) for line in lines[1:]]).min() >= 0
    again = auditing.label_issues(out)
    assert again.row.tolist() == list(problem.rows)
    assert len(again.ranked.row) == len(data.splits().test)


def test_labels_that_annotators_outvote_are_a_problem(tmp_path):
    votes = (10 * np.eye(2)[(table(n=2000)[0][:, 0] > 0).astype(int)]).astype(int)
    np.savez(tmp_path / "votes.npz", votes=votes)
    report, _, flipped, _ = doubted(tmp_path, votes=str(tmp_path / "votes.npz"))
    (problem,) = report.failing(["labels"])
    assert flipped < set(problem.rows)
    assert problem.count.value == len(problem.rows) == 100
    assert [item.severity for item in report.problems if item.kind == "labels"] == ["medium", "note"]
    assert report.budget.labels.value == report.budget.total.value > 0


def test_a_review_makes_wrong_labels_a_problem(tmp_path):
    report, data, flipped, out = doubted(tmp_path)
    issues = auditing.label_issues(out)
    review = issues.sample(200, seed=3)
    for position, row in enumerate(review.row):
        if row in flipped:
            review.judge(position, "wrong", str(1 - data.labels[row]))
        else:
            review.judge(position, "right")
    review.save(out / "review.csv")
    report, *_ = doubted(tmp_path)
    (problem,) = report.failing(["labels"])
    assert problem.count.low <= len(flipped) <= problem.count.high
    assert problem.details["test_error"].low == 0.0  # the predictions are right
    assert problem.effect.value == pytest.approx(-len(flipped) / len(data.splits().test))
    assert issues.count(out / "review.csv").wrong == problem.count
    others = (out / "review.csv").read_text().replace(",0,", ",other,").replace(",1,", ",other,")
    (out / "review.csv").write_text(others)
    with pytest.raises(InputError, match="review"):
        doubted(tmp_path)


def test_turned_and_mirrored_images_are_near_copies():
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 255, (240, 6, 6), dtype=np.uint8), np.arange(240) % 2
    for row, turn in enumerate((np.rot90, np.fliplr, np.flipud, np.transpose)):
        x[200 + row] = turn(x[row])
    found, _ = kinds(x, y, np.repeat(["train", "test"], [200, 40]))
    assert set(found["near-copies", "test"].rows) == {200, 201, 202, 203}


def test_a_row_index_that_the_reader_left_out_is_listed(tmp_path):
    rng = np.random.default_rng(7)
    lines = [f"{i},{a:.4f},{b:.4f},{int(a > b)}" for i, (a, b) in enumerate(rng.normal(size=(60, 2)))]
    (tmp_path / "t.csv").write_text("Unnamed: 0,a,b,y\n" + "\n".join(lines))
    report = auditing.audit(tmp_path / "t.csv", label="y", ensemble="none", flow="none")
    (item,) = [problem for problem in report.problems if problem.kind == "index-feature"]
    assert (item.severity, item.details["columns"]) == ("note", ("Unnamed: 0",))
    assert "broken" not in report.headline


def test_a_stated_noise_rate_that_models_refute_is_said_beside_the_best_error():
    x = table(n=600)[0]
    data = Dataset.from_arrays(x, (x[:, 0] > 0).astype(int))
    wrong, right = (auditing.audit(data, **BARE, label_noise=rate) for rate in (0.4, 0.001))
    assert "Stated label noise" in wrong.view().lede[0]
    assert wrong.measures["bracket"].low == 0
    assert "Stated label noise" not in right.view().lede[0]


def test_a_class_is_called_worst_only_where_its_error_is_separate():
    from hardpan.bayes.floors.inputs import prepare_floor_inputs
    from hardpan.pages.auditing.sections import _class_stands_out

    rng, labels = np.random.default_rng(0), np.repeat(np.arange(10), 100)
    x = rng.normal(size=(2000, 2))
    inputs = prepare_floor_inputs(Dataset.from_arrays(x[:1000], labels, x_test=x[1000:], y_test=labels))

    def called(rates):
        wrong = rng.random(1000) < np.asarray(rates)[labels]
        return _class_stands_out(inputs, wrong, int(np.bincount(labels, wrong).argmax()), 0.95)

    assert sum(called(np.full(10, 0.2)) for _ in range(200)) <= 10
    assert not _class_stands_out(inputs, np.arange(1000) == 350, 3, 0.95)  # a single error
    assert called(np.where(np.arange(10) == 3, 0.6, 0.1))


@pytest.mark.parametrize(("n", "error"), [(150, 0.2), (900, 0.05)])
def test_the_stated_differences_are_found_in_four_of_five_draws(n, error):
    """Two models with independent and with nested errors, drawn again; McNemar's exact test."""
    evidence = SimpleNamespace(split=SimpleNamespace(test=np.arange(n)), inputs=None)
    (problem,) = _small_test_problems(evidence, stats.share(round(n * error), n))
    assert problem.severity == "note"
    rng = np.random.default_rng(n)
    x = problem.details["independent"]
    first, second = rng.random((4000, n)) < error, rng.random((4000, n)) < error + x
    p = stats.mcnemar((first & ~second).sum(axis=1), (second & ~first).sum(axis=1))
    assert np.mean(p <= 0.05) == pytest.approx(0.8, abs=0.025)
    apart = rng.binomial(n, problem.details["nested"], 4000)
    assert np.mean(stats.mcnemar(0 * apart, apart) <= 0.05) == pytest.approx(0.8, abs=0.025)
    low, high = problem.details["needed"]
    discordant = error * (1 - 0.9 * error) + 0.9 * error * (1 - error)  # one errs a tenth less often than the other
    assert low < stats.mcnemar_sample_size(0.1 * error, discordant) < high
    assert not list(_small_test_problems(evidence, stats.share(0, n)))
