"""Objects of a wrong type are refused by the name of the argument, never by an error of the standard library."""

import numpy as np
import pytest

import hardpan as hp
from hardpan.auditing import read_audit
from hardpan.errors import InputError

LABELS = np.arange(1000) % 2
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
    "predictions.export": ("source", lambda value: hp.predictions.export(value, "out.npz")),
    "predictions.import_file": ("path", lambda value: hp.predictions.import_file(value, "out")),
    "predictions.verify": ("path", hp.predictions.verify),
    "predictions.open_scores": ("path", hp.predictions.open_scores),
    "Project.create": ("path", lambda value: hp.replicate.Project.create(value, "digits")),
    "Project.open": ("path", hp.replicate.Project.open),
    "ledger.create": ("folder", lambda value: hp.ledger.create(value, LABELS, bytes(32))),
    "ledger.create, key": ("key", lambda value: hp.ledger.create("book", LABELS, value)),
    "ledger.open": ("folder", hp.ledger.open),
    "testbed.compare": ("source", hp.testbed.compare),
    "leaderboard.rank": ("outcomes", hp.leaderboard.rank),
    "read_audit": ("path", read_audit),
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
