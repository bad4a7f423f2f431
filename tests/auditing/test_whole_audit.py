"""Audits that train what they need, and audits of given predictions, flows and votes."""

import dataclasses
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from hardpan import auditing, confusion, files
from hardpan.auditing import evidence, examples, planning
from hardpan.data.dataset import Dataset, content_ids
from hardpan.errors import InputError
from hardpan.predictions import Predictions

QUICK = {
    "ensemble": "linear",
    "ensemble_epochs": 3,
    "seeds": 2,
    "flow_epochs": 1,
    "flow_rows": 300,
    "device": "cpu",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An audit of digits with everything, few epochs."""
    folder = tmp_path_factory.mktemp("audits") / "digits"
    plans = []
    made = auditing.audit("digits", out=folder, on_plan=plans.append, **QUICK)
    return folder, made, plans[0]


def test_every_question_has_its_part(whole):
    _, made, plan = whole
    titles = [section.title for section in made.sections]
    assert titles == ["The floor", "Which examples are hard?", "Data quality", "What is in it"]
    assert {"flow_floor", "bits", "best_error", "headroom", "tail_share", "mean_confusion"} <= set(made.measures)
    assert plan.ensemble == "linear"
    assert (plan.ensemble_epochs, plan.flow_epochs, plan.flow_rows) == (3, 1, 300)
    assert made.provenance.command == (
        "hardpan audit digits --seed 0 --flow-epochs 1 --flow-rows 300 --ensemble linear --ensemble-epochs 3 "
        "--seeds 2"
    )
    # A flow of one epoch is not the data: its floor must not be believed.
    verdicts = {row[0]: row[3] for row in made.sections[0].tables[0].rows}
    verdict = made.verdicts["flow_floor"]
    assert verdicts["Exact error of small flow"] == verdict.status
    assert verdict.status in ("refuted", "unfounded")
    (line,) = (line for line in made.findings if line.startswith("Floor by the flow"))
    assert line.endswith(verdict.reason)
    assert any(verdict.reason in sentence for sentence in made.sections[0].sentences)
    assert len(made.findings) >= 6
    assert made.next_steps


def test_every_example_is_joined(whole):
    folder, made, _ = whole
    table = pq.read_table(folder / "examples.parquet")
    data = Dataset.open("digits")
    parts = data.splits()
    assert table.num_rows == len(data)
    assert table["id"].to_pylist() == data.ids.tolist()
    columns = set(table.column_names)
    assert {
        "confusion",
        "confusion_stderr",
        "predicted",
        "floor_posterior",
        "duplicate",
        "correct: linear",
    } <= columns
    wrong = np.array([not value for value in table["correct: linear"].to_pylist()])[parts.test].mean()
    shown = made.sections[0].estimates["linear"].value
    assert wrong == pytest.approx(shown)
    scores = np.array(table["confusion"].to_pylist())
    again = confusion.scores(Predictions.open(next(iter((folder / "work").iterdir())) / "predictions"))
    assert scores == pytest.approx(again.values, abs=1e-6)
    hard = confusion.load_subset(folder / "hard-subset.json")
    test_ids = data.ids[parts.test]
    order = np.argsort(-scores[parts.test], kind="stable")[: len(hard)]
    assert set(hard.ids) == set(test_ids[order])


def test_an_audit_that_was_stopped_goes_on_and_ends_the_same(whole, tmp_path):
    _, made, _ = whole

    def stop(step, fraction):
        if step == "scoring the examples":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        auditing.audit("digits", out=tmp_path / "digits", progress=stop, **QUICK)
    assert not (tmp_path / "digits" / "report.json").exists()
    told = []
    resumed = auditing.audit(
        "digits", out=tmp_path / "digits", progress=lambda step, fraction: told.append(step), **QUICK
    )
    assert not any("epoch" in step for step in told), "something was trained again"
    assert resumed.headline == made.headline
    for name, item in made.measures.items():  # two fits of a flow in one process may differ in their last bits
        assert resumed.measures[name].value == pytest.approx(item.value, rel=1e-4)
    assert files.load(tmp_path / "digits" / "report.json") == resumed
    assert auditing.audit("digits", out=tmp_path / "digits", **QUICK) == resumed


def test_given_predictions_are_used_and_nothing_is_trained(whole, tmp_path):
    folder, made, _ = whole
    held = next(iter((folder / "work").iterdir())) / "predictions"
    plans = []
    given = auditing.audit("digits", predictions=(str(held),), flow="none", on_plan=plans.append)
    assert plans[0].ensemble == ""
    ours, theirs = made.sections[0].estimates["linear"], given.sections[0].estimates["predictions"]
    assert ours.value == theirs.value
    assert given.measures["tail_share"] == made.measures["tail_share"]
    test = Dataset.open("digits").splits().test
    probs = np.mean([Predictions.open(held).read(seed, 3)[test].astype(np.float64) for seed in (0, 1)], axis=0)
    np.save(tmp_path / "net.npy", probs)
    with pytest.raises(InputError, match="has no ids; give --by-order if its 359 rows are in the order of"):
        auditing.audit("digits", predictions=(str(tmp_path / "net.npy"),), flow="none")
    ordered = auditing.audit("digits", predictions=(str(tmp_path / "net.npy"),), by_order=True, flow="none")
    assert ordered.sections[0].estimates["net"].value == ours.value
    in_memory = auditing.audit("digits", predictions={"net": probs}, flow="none")
    assert in_memory.measures == ordered.measures
    assert in_memory.provenance.command == ""
    assert auditing.audit("digits", predictions=held, flow="none").measures == given.measures


def test_predictions_of_something_else_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", probs=np.full((3, 10), 0.1), ids=np.array(["a", "b", "c"]))
    with pytest.raises(InputError, match=r"3 of its 3 ids are not of digits, such as 'a'"):
        auditing.audit("digits", predictions=(str(tmp_path / "other.npz"),), flow="none")
    np.savez(tmp_path / "few.npz", probs=np.full((3, 4), 0.25), ids=np.array(["a", "b", "c"]))
    with pytest.raises(InputError, match="holds 4 classes, and digits has 10"):
        auditing.audit("digits", predictions=(str(tmp_path / "few.npz"),), flow="none")


@pytest.mark.parametrize("errors", [0, 2, 9, 40])
def test_a_share_of_few_errors_is_not_told(tmp_path, errors):
    labels = np.arange(1797) % 10  # as many rows as digits, of few features: nothing here looks at them
    x = np.random.default_rng(0).normal(size=(1797, 2)) + 4 * np.stack([labels // 3, labels % 3], axis=1)
    data = Dataset("grid", x, content_ids(x), labels, tuple("abcdefghij"))
    test = data.splits().test
    said = data.labels.copy()
    said[test[:errors]] = (said[test[:errors]] + 1) % 10
    probs = np.full((len(data), 10), 0.01)
    probs[np.arange(len(data)), said] = 0.91
    probs[test[:errors]] = 0.6 * np.eye(10)[said[test[:errors]]] + 0.04
    np.savez(tmp_path / "net.npz", probs=probs, ids=data.ids)
    made = auditing.audit(data, predictions=(str(tmp_path / "net.npz"),), flow="none")
    tile = next(tile for tile in made.tiles if tile.title == "Errors in the confusing tenth")
    told = " ".join((*made.lede, *made.findings, *made.sections[1].sentences))
    if errors < 10:
        assert tile.value == "too few errors to say"
        assert f"Net makes {errors or 'no'} errors on the test part: too few to say" in told
        assert "100 %" not in told
    else:
        assert tile.value == "90 %"  # the 36 most confusing of 359 are all errors: 36 of 40
        assert "90 % (76–97 %) of the errors of net sit in the most confusing tenth" in told


def test_votes_join_the_floor(tmp_path):
    data = Dataset.open("digits")
    rng = np.random.default_rng(0)
    votes = np.zeros((50, 10), dtype=int)
    for row in range(50):
        votes[row] = rng.multinomial(20, 0.9 * np.eye(10)[data.labels[row]] + 0.01)
    np.savez(tmp_path / "votes.npz", votes=votes, ids=data.ids[:50])
    made = auditing.audit(
        "digits", ensemble="none", flow="none", votes=str(tmp_path / "votes.npz"), out=tmp_path / "out"
    )
    assert made.sections[0].estimates["Corrected votes"].value == pytest.approx(0.09, abs=0.04)
    shares = examples.read(tmp_path / "out").table["selection_frequency"].to_numpy()
    assert shares[:50] == pytest.approx(votes[np.arange(50), data.labels[:50]] / 20)
    assert np.isnan(shares[50:]).all()
    np.savez(tmp_path / "bad.npz", votes=votes[:, :3], ids=data.ids[:50])
    with pytest.raises(InputError, match=r"votes of shape \(n, 10\)"):
        auditing.audit("digits", ensemble="none", flow="none", votes=str(tmp_path / "bad.npz"))


def test_a_fresh_test_set_that_is_harder_shows_its_drop(tmp_path):
    data = Dataset.open("digits")
    test = data.splits().test
    noise = np.random.default_rng(0).normal(0, 5, (len(test), 8, 8))
    harder = np.clip(data.x[test] + noise, 0, 16).astype(data.x.dtype)
    np.savez(tmp_path / "fresh.npz", x=harder, y=data.labels[test], class_names=np.array(data.class_names))
    made = auditing.audit("digits", **{**QUICK, "flow": "none"}, new_test=str(tmp_path / "fresh.npz"))
    drop = made.measures["drop"]
    assert drop.low > 0.02
    assert "Will the score hold?" in [section.title for section in made.sections]
    same = tmp_path / "same.npz"
    np.savez(same, x=data.x[test], y=data.labels[test], class_names=np.array(data.class_names))
    again = auditing.audit("digits", **{**QUICK, "flow": "none"}, new_test=str(same))
    assert again.measures["drop"].value == pytest.approx(0.0, abs=1e-9)


def test_the_same_split_everywhere():
    gathered = evidence.gather(Dataset.open("digits"), auditing.AuditConfig(seed=3))
    whole = planning.reduced(gathered.dataset, gathered, len(gathered.split.train))
    parts = whole.splits()
    for name in ("train", "validation", "test"):
        assert np.array_equal(getattr(parts, name), getattr(gathered.split, name))
    small = planning.reduced(gathered.dataset, gathered, 100)
    counts = np.bincount(small.labels[small.split == "train"], minlength=10)
    assert counts.sum() == 100
    assert counts.min() >= 1


def test_feature_vectors_get_an_audit_too():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    x = rng.normal(size=(400, 4)) + 2 * np.eye(3, 4)[labels]
    data = Dataset("blobs", x, content_ids(x), labels, ("a", "b", "c"))
    made = auditing.audit(data, **{**QUICK, "flow_rows": 200})
    assert "flow_floor" in made.measures
    assert json.loads(made.to_json())["dataset"] == "blobs"


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"budget": 0.0}, "budget"), ({"seeds": 0}, "seeds"), ({"flow_epochs": -1}, "flow_epochs")],
)
def test_settings_are_checked(changes, words):
    with pytest.raises(InputError, match=words):
        dataclasses.replace(auditing.AuditConfig(), **changes)


def test_predictions_of_a_model_that_was_trained_on_the_test_part_are_refused(tmp_path):
    data = Dataset.open("digits")
    probs = 0.9 * np.eye(10)[data.labels] + 0.01
    parts = np.where(np.arange(len(data)) % 5 == 0, "test", "train")  # another split than the audit's
    np.savez(tmp_path / "other.npz", probs=probs, ids=data.ids, labels=data.labels, split=parts)
    with pytest.raises(InputError, match=r"was trained on .* examples of the audit's test part"):
        auditing.audit("digits", predictions=(str(tmp_path / "other.npz"),), flow="none")


@pytest.mark.parametrize("row", [1e-6, 1e-4, 3e-4, 1e-3])
@pytest.mark.parametrize("budget", [60.0, 180.0])
def test_the_rows_that_a_plan_gives_an_ensemble_fit_the_budget(row, budget):
    n = 70_000
    x = np.arange(float(n))[:, None]
    ids = np.array([f"{number:016x}" for number in range(n)])
    parts = np.repeat(["train", "validation", "test"], [54_000, 6_000, 10_000])
    data = Dataset("large", x, ids, np.arange(n) % 2, ("a", "b"), parts)
    gathered = evidence.gather(data, auditing.AuditConfig(budget=budget))
    speed = planning._Speed(gathered, row)
    rows = speed.rows_for(planning.ENOUGH_EPOCHS)
    assert 0 <= rows <= 54_000
    if rows:
        assert speed.seconds(rows, planning.ENOUGH_EPOCHS) <= planning.ENSEMBLE_SHARE * budget + 1e-6
        assert speed.epochs_with(rows) >= planning.ENOUGH_EPOCHS
    if 0 < rows < 54_000:
        assert speed.seconds(rows + 100, planning.ENOUGH_EPOCHS) > planning.ENSEMBLE_SHARE * budget


def test_an_ensemble_on_a_part_of_the_training_rows_says_so(tmp_path):
    made = auditing.audit("digits", out=tmp_path / "d", **{**QUICK, "flow": "none"}, ensemble_rows=300)
    assert "trained here on 300 of 1,078 training examples" in made.sections[1].sentences[0]
    assert "--ensemble-rows 300" in made.provenance.command
    table = examples.read(tmp_path / "d").table
    known = np.isfinite(table["confusion"].to_numpy())
    part = np.array(table["part"].to_pylist())
    assert known[part == "test"].all()
    assert known[part == "train"].sum() == 300
