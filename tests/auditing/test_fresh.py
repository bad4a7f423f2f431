"""The drop on fresh data: a difference of two accuracies with its interval; classes are joined by name."""

import shlex
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binomtest

import hardpan
from hardpan import Dataset, Predictions
from hardpan.auditing import networks
from hardpan.auditing.evidence import AuditConfig
from hardpan.auditing.fresh import _fresh_drop, _fresh_labels, find_fresh_scores
from hardpan.encoders import open_encoder
from hardpan.errors import InputError
from hardpan.tables import write_table


def test_a_drop_is_its_formula():
    first, second = binomtest(190, 200).proportion_ci(0.9), binomtest(60, 80).proportion_ci(0.9)
    found = _fresh_drop(0.95, 200, 0.75, 80, 0.9)
    assert found.value == pytest.approx(0.2)
    assert found.stderr == pytest.approx((0.95 * 0.05 / 200 + 0.75 * 0.25 / 80) ** 0.5)
    assert found.low == pytest.approx(0.2 - ((0.95 - first.low) ** 2 + (second.high - 0.75) ** 2) ** 0.5)
    assert found.high == pytest.approx(0.2 + ((first.high - 0.95) ** 2 + (0.75 - second.low) ** 2) ** 0.5)


def test_a_mean_over_seeds_between_two_counts_has_the_wider_interval():
    between = _fresh_drop(0.955, 100, 0.5, 100, 0.95)  # 95.5 of 100
    low, high = (binomtest(k, 100).proportion_ci() for k in (95, 96))
    half = binomtest(50, 100).proportion_ci()
    assert between.low == pytest.approx(0.455 - ((0.955 - low.low) ** 2 + (half.high - 0.5) ** 2) ** 0.5)
    assert between.high == pytest.approx(0.455 + ((high.high - 0.955) ** 2 + (0.5 - half.low) ** 2) ** 0.5)


def test_the_drop_is_that_of_networks_with_planted_answers(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    original, test, rows = labelled(np.arange(60) % 3), np.arange(40, 60), rng.permutation(60)[::-1]
    wrong = [np.isin(np.arange(60), test[:k]) for k in (2, 6)]  # of the 20 test examples of each network
    answers = np.array([(original.labels + off)[rows] % 3 for off in wrong])
    np.savez(tmp_path / "fresh.npz", x=rng.normal(size=(30, 2)), y=np.arange(30) % 3)
    on_fresh = np.array([(np.arange(30) + (np.arange(30) < k)) % 3 for k in (9, 15)])
    network = SimpleNamespace(
        weights=("a", "b"), rows=rows, predictions=Predictions.from_arrays(np.eye(3)[answers][:, None])
    )
    evidence = SimpleNamespace(
        config=AuditConfig(new_test=str(tmp_path / "fresh.npz")),
        encoder=None,
        dataset=original,
        labels=original.labels,
        modelled=SimpleNamespace(test=test),
        models=[SimpleNamespace(weights=()), network],
    )
    monkeypatch.setattr(networks, "network_predictor", lambda _, number: lambda x: np.eye(3)[on_fresh[number]])
    found = find_fresh_scores(evidence)
    assert (found.before, found.after, found.size) == ((0.9, 0.7), (0.7, 0.5), 30)
    assert (found.drop.value, found.drop.n) == (pytest.approx(0.2), 50)


def labelled(labels, width=2):
    return Dataset.from_arrays(np.random.default_rng(0).normal(size=(len(labels), width)), labels)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["cat", "dog", "owl"], [0, 1, 2]),
        (["owl", "cat", "owl"], [2, 0, 2]),  # a fresh set without dogs
        (["dog", "owl", "owl"], [1, 2, 2]),
        ([0, 1, 2], [0, 1, 2]),
    ],
)
def test_classes_of_a_fresh_set_are_those_of_the_same_name(labels, expected):
    original = SimpleNamespace(dataset=labelled(["cat", "dog", "owl", "owl"]))
    assert _fresh_labels(labelled(labels), original).tolist() == expected


@pytest.mark.parametrize(
    ("fresh", "named"),
    [
        (labelled(["cat", "toad", "cat"]), "toad"),
        (labelled([0, 1, 2, 3]), "classes"),
        (labelled(["cat", "dog", "owl"], width=3), "shape"),
        (Dataset.from_arrays(np.zeros((3, 2)) + np.arange(3)[:, None]), "labels"),
    ],
)
def test_a_fresh_set_that_does_not_fit_is_refused(fresh, named):
    original = SimpleNamespace(dataset=labelled(["cat", "dog", "owl", "owl"]))
    with pytest.raises(InputError, match=rf"new_test.*{named}"):
        _fresh_labels(fresh, original)


def questions(path, count, seed, wrong):
    """Texts of three topics, of which a proportion has the label of the next topic."""
    rng = np.random.default_rng(seed)
    words = [["invoice", "refund", "payment"], ["parcel", "courier", "tracking"], ["login", "password", "account"]]
    topic = rng.integers(0, 3, count)
    texts = [f"question {k} about {rng.choice(words[c])} and {rng.choice(words[c])}" for k, c in enumerate(topic)]
    labels = (topic + (np.arange(count) < wrong * count)) % 3
    return write_table(path, {"text": texts, "label": [f"topic {c}" for c in labels]})


def test_models_of_texts_are_run_on_a_second_set(tmp_path):
    first, second = questions(tmp_path / "a.csv", 400, 0, 0.0), questions(tmp_path / "b.csv", 200, 1, 0.25)
    audit = hardpan.audit(first, new_test=str(second), seeds=2, flow="none", budget=5)
    fresh = audit.evidence.fresh
    assert fresh.before == (1.0, 1.0)
    assert fresh.after == (0.75, 0.75)
    assert fresh.drop.low < 0.25 < fresh.drop.high


def lengths(texts):
    """Counts of letters, enough to tell the topics apart."""
    return [[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]


def test_a_second_set_is_encoded_as_the_first_one(tmp_path):
    first, second = questions(tmp_path / "a.csv", 400, 0, 0.0), questions(tmp_path / "b.csv", 200, 1, 0.25)
    encoder = open_encoder(lengths, batch=16)
    audit = hardpan.audit(first, new_test=str(second), encoder=encoder, seeds=1, ensemble_epochs=40, flow="none")
    assert audit.evidence.fresh.drop.value == pytest.approx(0.25, abs=0.05)


def test_the_command_of_an_audit_opens_the_encoder_as_it_was(tmp_path):
    first = questions(tmp_path / "a.csv", 300, 0, 0.0)
    encoder = open_encoder(f"{__name__}:lengths", batch=16)
    audit = hardpan.audit(str(first), encoder=encoder, ensemble="none", flow="none", seed=3)
    words = shlex.split(audit.origin.command)
    assert words[:3] == ["hardpan", "audit", str(first)]
    assert words[words.index("--encoder") + 1] == f"{__name__}:lengths"
    assert "encoder_batch=16" in words
    in_python = AuditConfig().command("", encoder.options)
    assert in_python.endswith(f"encoder=hardpan.encoders.open_encoder('{__name__}:lengths', batch=16))")
