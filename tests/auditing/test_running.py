import json
from types import SimpleNamespace

import numpy as np
import pytest

from hardpan import Dataset, Predictions, auditing, files, stats
from hardpan.auditing import training
from hardpan.auditing.report import view
from hardpan.auditing.running import _learning, _power_law, of_the_best, seconds
from hardpan.auditing.training import Budget
from hardpan.errors import InputError

BARE = {"ensemble": "none", "flow": "none"}


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Digits with networks of two epochs and the bundled flow, and its folder."""
    folder = tmp_path_factory.mktemp("audit")
    return auditing.audit("digits", seeds=2, ensemble_epochs=3, budget=60.0, out=folder), folder


def test_the_audit_of_digits_has_everything(digits):
    report, folder = digits
    assert {path.name for path in folder.iterdir()} >= {
        "index.html",
        "report.json",
        "config.json",
        "examples.parquet",
        "problems",
    }
    keys = {section.key for section in report.sections()}
    assert {"hard", "models", "floor", "copies", "classes", "dial", "run"} <= keys
    assert report.measures["bracket"].low == 0
    assert 0 < report.measures["best_error"].value < report.measures["bracket"].high < 0.05
    assert report.measures["headroom"].high <= report.measures["bracket"].high
    parts = report.budget
    assert (parts.model, parts.total.value) == (report.floor.best.name, report.measures["best_error"].value)
    assert parts.labels.value + parts.agreed.value + parts.rest.value == pytest.approx(parts.total.value)
    assert report.verdicts["flow_floor"].status != "not refuted"
    assert {step.name for step in report.steps} >= {"networks", "linear model", "out-of-fold", "learning curve"}


@pytest.mark.parametrize(
    ("errors", "best", "shown"),
    [((0.4, 0.3, 0.2), 0.15, True), ((0.2, 0.3, 0.6), 0.5, False), ((0.9, 0.8, 0.7), 0.01, False)],
    ids=["falling", "rising", "far above the best model"],
)
def test_a_learning_curve_needs_finished_training(errors, best, shown):
    n = 1000

    def wrong(error):
        return np.arange(n) < error * n

    labels = np.zeros(n, dtype=np.int64)
    evidence = SimpleNamespace(
        correct_by_size={size: ~wrong(error) for size, error in zip((100, 200, 400), errors, strict=True)},
        config=SimpleNamespace(confidence=0.95, seed=0),
        inputs=SimpleNamespace(test=np.arange(n)),
        labels=labels,
        test_probs=lambda: {"best": np.eye(2)[wrong(best).astype(int)]},
        curve_model="quick",
        notes=[],
    )
    curve = _learning(evidence)
    assert (curve is not None) == shown == (not evidence.notes)
    if curve is not None:
        assert curve.exponent.low > 0
        assert curve.at_double.value < errors[-1]


def test_the_frame_and_the_folder_have_every_example(digits, tmp_path):
    report, folder = digits
    frame, data = report.to_frame("pandas"), Dataset.open("digits")
    assert frame["id"].tolist() == data.ids.tolist()
    assert frame["row"].tolist() == list(range(len(data)))
    assert frame["label"].tolist() == [data.class_names[c] for c in data.labels]
    models = [name for name in frame if name.startswith("correct: ")]
    assert len(models) > 1  # the explorer puts two of them side by side
    assert all(frame.loc[frame["part"] == "test", name].notna().sum() > 300 for name in models)
    report.save(tmp_path)
    assert (tmp_path / "examples.parquet").read_bytes() == (folder / "examples.parquet").read_bytes()
    assert repr(report) == f"Audit({report.headline})"


def test_the_report_is_read_back_with_stable_keys(digits):
    report, folder = digits
    data = json.loads((folder / "report.json").read_text())
    assert files.from_json(data) == report
    assert {"bracket", "best_error"} <= set(data["measures"])
    assert {"low", "high"} <= set(data["measures"]["bracket"])
    for problem in data["problems"]:
        assert {"kind", "severity", "count", "rows", "advice"} <= set(problem)
    assert files.from_json(data).headline == report.headline


def test_what_was_trained_is_read_back_by_the_same_audit(digits):
    report, folder = digits
    saved = {path: path.read_bytes() for path in (folder / "work").rglob("*.npz")}
    again = auditing.audit("digits", seeds=2, ensemble_epochs=3, budget=60.0, out=folder)
    assert {path: path.read_bytes() for path in (folder / "work").rglob("*.npz")} == saved
    assert again.measures["best_error"] == report.measures["best_error"]


def test_nothing_is_trained_where_nothing_is_requested():
    first, second = (auditing.audit("digits", **BARE) for _ in range(2))
    assert first == second
    assert first.learning is None
    names = {entry.name for entry in first.floor.entries if entry.role == "classifier"}
    assert names == {"1-NN", "3-NN", "LDA", "QDA"} or names == {"1-NN", "LDA", "QDA"}


@pytest.mark.soak  # test_verdicts audits planted problems at every run
def test_a_decision_stump_is_not_called_impossible():
    """Label = sign of one of 40 features: an audit once claimed at least 2.8 % error where a stump makes none."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 40))
    report = auditing.audit((x, (x[:, 7] > 0).astype(int)), budget=15.0, seeds=1, flow="none")
    bracket = report.measures["bracket"]
    assert bracket.low == 0
    assert bracket.high < 0.03
    assert report.floor.best.name == "boosted trees"
    assert "labels" not in {problem.kind for problem in report.problems}


def test_the_budget_shares_what_earlier_steps_leave():
    budget = Budget(10.0, {"a": 1.0, "b": 1.0})
    assert budget.planned == {"a": 5.0, "b": 5.0}
    assert budget.allot("a") == pytest.approx(5.0, abs=0.5)
    assert budget.allot("b") == pytest.approx(10.0, abs=0.5)


def test_a_power_law_is_found():
    sizes = np.array([100, 200, 400, 800])
    slope, double = _power_law(np.log(sizes), 2.0 * sizes**-0.5, 10_000)
    assert slope == pytest.approx(0.5)
    assert double == pytest.approx(2.0 * 1600**-0.5)


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"budget": -1.0}, "budget"),
        ({"budget": "soon"}, "budget"),
        ({"confidence": 2.0}, "confidence"),
        ({"ensemble": "resnet"}, "ensemble"),
        ({"seeds": 0}, "seeds"),
        ({"label_noise": 1.0}, "label_noise"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_bad_settings_are_named(settings, argument):
    with pytest.raises(InputError, match=argument):
        auditing.audit("digits", **BARE | settings)


def test_bad_data_are_refused():
    x = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.raises(InputError, match="labels"):
        auditing.audit(Dataset.from_arrays(x), **BARE)
    with pytest.raises(InputError, match="5 examples"):
        auditing.audit((x[:5], np.arange(5) % 2), **BARE)
    with pytest.raises(InputError, match="rows"):
        auditing.audit((x, np.arange(40) % 2), **BARE, predictions={"m": np.full((7, 2), 0.5)})


def test_seconds():
    assert [seconds(text) for text in ("90s", "3m", "0.5h", "45")] == [90.0, 180.0, 1800.0, 45.0]


def test_a_model_that_may_have_memorised_the_test_examples_decides_nothing():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    data = Dataset.from_arrays(rng.normal(size=(400, 3)) + y[:, None], y)
    without = auditing.audit(data, **BARE)
    seen = auditing.audit(data, **BARE, predictions={"m": np.eye(2)[y]})
    for name in ("bracket", "best_error", "headroom"):
        assert seen.measures[name] == without.measures[name]
    assert [entry.name for entry in seen.floor.seen] == ["m"]
    assert seen.budget is None
    assert "--held-out" in str(view(seen).lede)
    stated = auditing.audit(data, **BARE, predictions={"m": np.eye(2)[y]}, held_out=True)
    assert stated.measures["best_error"].value == 0
    assert stated.measures["bracket"].high < without.measures["bracket"].high
    with pytest.raises(InputError, match="held_out"):
        auditing.audit(data, **BARE, held_out="yes")


def test_the_error_budget_is_about_the_best_model_of_the_headline():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    radius = np.where(y == 0, rng.uniform(0, 1.1, 600), rng.uniform(1, 2, 600))  # no line separates rings
    angle = rng.uniform(0, 2 * np.pi, 600)
    data = Dataset.from_arrays(np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y)
    linear = Predictions.from_arrays(np.eye(2)[(data.x[:, 0] > 0).astype(int)], held_out=True)
    report = auditing.audit(data, **BARE, predictions={"linear": linear})
    assert report.floor.best.name in ("1-NN", "3-NN", "5-NN", "9-NN", "17-NN", "QDA")
    parts = report.budget
    assert (parts.model, parts.total.value) == (report.floor.best.name, report.floor.best.estimate.value)
    assert parts.labels.value + parts.agreed.value + parts.rest.value == pytest.approx(parts.total.value)


def test_steps_are_left_out_where_earlier_ones_took_far_too_long(monkeypatch):
    monkeypatch.setattr(training, "OVERRUN", -1e6)
    monkeypatch.setattr(training, "OVERRUN_SECONDS", -1e6)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    report = auditing.audit(
        Dataset.from_arrays(x, (x[:, 0] > 0).astype(int)), budget=1.0, seeds=1, ensemble_epochs=1, flow="none"
    )
    skipped = {step.name for step in report.steps if step.skipped == "no-time"}
    assert skipped == {"out-of-fold", "learning curve"}
    assert len(report.notes) >= 2
    assert report.learning is None


def test_the_error_of_the_best_of_six_covers_the_chosen_one():
    rng, true, n = np.random.default_rng(0), 0.1, 400
    alone, chosen = 0, 0
    for _ in range(400):
        error = stats.share(int(rng.binomial(n, true, 6).min()), n)
        assert of_the_best(error, 1) == error
        corrected = of_the_best(error, 6)
        assert corrected.value == error.value
        alone += error.low <= true <= error.high
        chosen += corrected.low <= true <= corrected.high
    assert alone / 400 < 0.9
    assert chosen / 400 >= 0.91  # the lower limit of the 99.9 % region of 95 %
