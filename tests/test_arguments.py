"""Objects of a wrong type are refused by the name of the argument, never by an error of the standard library."""

import numpy as np
import pytest

import hardpan as hp
from hardpan.auditing import compare, read_audit
from hardpan.errors import InputError

LABELS = np.arange(1000) % 2
PREDICTIONS = hp.Predictions.from_arrays(np.full((20, 2), 0.5), labels=LABELS[:20])
SCORES = hp.confusion.scores(PREDICTIONS)
CALLS = {
    "Dataset.open": ("dataset", hp.Dataset.open),
    "Predictions.open": ("source", hp.Predictions.open),
    "Outcomes.open": ("source", hp.Outcomes.open),
    "confusion.scores": ("probs", hp.confusion.scores),
    "confusion.load_scores": ("path", hp.confusion.load_scores),
    "confusion.transfer": ("scores", lambda value: hp.confusion.transfer(value, value)),
    "confusion.bands": ("scores", lambda value: hp.confusion.bands(value, value)),
    "predictions.merge": ("paths", lambda value: hp.predictions.merge(value, "out")),
    "predictions.merge, out": ("out", lambda value: hp.predictions.merge(["a", "b"], value)),
    "predictions.export": ("predictions", lambda value: hp.predictions.export(value, "out.npz")),
    "predictions.import_file": ("path", lambda value: hp.predictions.import_file(value, "out")),
    "predictions.check": ("path", hp.predictions.check),
    "Project.create": ("path", lambda value: hp.replicate.Project.create(value, "digits")),
    "Project.open": ("path", hp.replicate.Project.open),
    "ledger.create": ("folder", lambda value: hp.ledger.create(value, LABELS, bytes(32))),
    "ledger.create, key": ("key", lambda value: hp.ledger.create("book", LABELS, value)),
    "ledger.open": ("folder", hp.ledger.open),
    "testbed.compare": ("source", hp.testbed.compare),
    "leaderboard.rank": ("outcomes", hp.leaderboard.rank),
    "look": ("source", hp.look),
    "read_audit": ("path", read_audit),
    "audit": ("dataset", hp.audit),
    "auditing.compare": ("audits", lambda value: compare([value, value])),
    "bayes.floor": ("dataset", hp.bayes.floor),
    "bayes.floor, predictions": ("predictions", lambda value: hp.bayes.floor("digits", predictions=[value])),
    "bayes.floor, votes": ("votes", lambda value: hp.bayes.floor(None, votes=value)),
    "flows.load": ("flow", hp.flows.load),
    "flows.fit": ("dataset", hp.flows.fit),
    "flows.read_benchmark": ("folder", hp.flows.read_benchmark),
    "training.train": ("dataset", lambda value: hp.training.train(value, out="out")),
    "training.train, out": ("out", lambda value: hp.training.train("digits", out=value)),
    "training.load_model": ("model", hp.training.load_model),
    "training.predict": ("model", lambda value: hp.training.predict(value, "digits")),
    "confusion.subset": ("scores", lambda value: hp.confusion.subset(value, fraction=0.1)),
    "confusion.summarize": ("scores", hp.confusion.summarize),
    "confusion.stability": ("scores", hp.confusion.stability),
    "confusion.load_subset": ("path", hp.confusion.load_subset),
    "confusion.label_issues": ("predictions", hp.confusion.label_issues),
    "confusion.signals": ("probs", hp.confusion.signals),
    "confusion.ablate": ("probs", hp.confusion.ablate),
    "confusion.compare_scores": ("probs", hp.confusion.compare_scores),
    "Scores.save": ("folder", SCORES.save),
    "gate": ("baseline", lambda value: hp.gate(value, PREDICTIONS)),
    "leaderboard.compare": ("outcomes", lambda value: hp.leaderboard.compare(value, "a", "b")),
    "leaderboard.items": ("outcomes", hp.leaderboard.items),
    **{
        f"leaderboard.{name}": ("outcomes", getattr(hp.leaderboard, name))
        for name in ("suite", "runs", "judge", "amounts")
    },
    "leaderboard.battles": ("source", hp.leaderboard.battles),
    "leaderboard.shorten": ("outcomes", lambda value: hp.leaderboard.shorten(value, items=10)),
    "leaderboard.suspect_keys": ("outcomes", hp.leaderboard.suspect_keys),
    "leaderboard.inflation": ("outcomes", lambda value: hp.leaderboard.inflation(value, value)),
    "leaderboard.summarize": ("outcomes", hp.leaderboard.summarize),
    "testbed.two_sets": ("source", hp.testbed.two_sets),
    "testbed.decompose": ("source", hp.testbed.decompose),
    "testbed.pairs": ("source", hp.testbed.pairs),
    "testbed.hardest_of": ("source", hp.testbed.hardest_of),
    "predictions.export, path": ("path", lambda value: hp.predictions.export(PREDICTIONS, value)),
    "predictions.import_file, out": ("out", lambda value: hp.predictions.import_file("a.npz", value)),
    "Predictions.create": ("path", lambda value: hp.Predictions.create(value, ids=["a"], n_classes=2)),
    "Predictions.align": ("to", PREDICTIONS.align),
    "Recorder": ("path", lambda value: hp.Recorder(value, ids=["a"], n_classes=2)),
    "replicate.sample": ("candidates", hp.replicate.sample),
    "replicate.near_duplicates": ("queries", hp.replicate.near_duplicates),
}


@pytest.mark.parametrize("value", [None, 3, object(), b"file"], ids=["none", "number", "object", "bytes"])
@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_type_is_refused_by_name(name, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argument, call = CALLS[name]
    with pytest.raises(InputError, match=argument):
        call(value)
    assert list(tmp_path.iterdir()) == []


def test_leaderboards_take_what_outcomes_open(tmp_path):
    pandas = pytest.importorskip("pandas")
    scores = (np.random.default_rng(0).random((5, 80)) < 0.7).astype(float)
    frame = pandas.DataFrame(scores.T, columns=list("abcde")).assign(item=[f"i{k}" for k in range(80)])
    frame.to_csv(tmp_path / "scores.csv", index=False)
    expected = hp.leaderboard.rank(hp.Outcomes.from_arrays(scores, models=list("abcde"))).score
    for source in (tmp_path / "scores.csv", frame, scores):
        assert np.array_equal(hp.leaderboard.rank(source).score, expected)
