"""Audits of texts: what is found in planted ones, and what is said of honest ones."""

import numpy as np
import pytest

from hardpan import Dataset, auditing, bayes
from hardpan.errors import InputError

PLACES = ["kitchen", "garden", "library", "office", "cellar", "attic", "street", "market", "harbour", "station"]
PEOPLE = ["Anna", "the postman", "my uncle", "a child", "the baker", "our teacher", "a stranger", "the captain"]
TOPICS = {
    "weather": ["rain", "storm", "sunshine", "frost", "fog"],
    "food": ["bread", "soup", "cheese", "apples", "pepper"],
    "music": ["drums", "a song", "the piano", "an opera", "trumpets"],
}


def news(n, seed=0, noise=0.05):
    """Sentences about three topics; of a few the label is another one."""
    rng = np.random.default_rng(seed)
    names = list(TOPICS)
    topic = rng.integers(0, 3, n)
    texts = [
        f"{rng.choice(PEOPLE)} talked about {rng.choice(TOPICS[names[k]])} in the {rng.choice(PLACES)} "
        f"with {rng.choice(PEOPLE)} at {rng.integers(1, 13)}:{rng.integers(0, 60):02}"
        for k in topic
    ]
    flipped = rng.random(n) < noise
    labels = np.where(flipped, (topic + 1) % 3, topic)
    return texts, np.array(names)[labels], flipped


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """An honest random split of sentences, some labels of which are wrong."""
    texts, labels, flipped = news(900)
    folder = tmp_path_factory.mktemp("texts")
    split = ["train"] * 600 + ["test"] * 300
    data = Dataset.from_arrays(texts, labels, split=split, name="news")
    return auditing.audit(data, out=folder, budget=20.0), folder, flipped


def test_an_audit_of_texts_finds_the_noise_and_claims_nothing(audited):
    report, _, flipped = audited
    assert report.measures["best_error"].low < flipped[600:].mean() < report.measures["best_error"].high + 0.02
    assert [item.kind for item in report.problems if item.severity != "note"] == []
    listed = report.evidence.issues.row
    assert flipped[listed[: flipped.sum()]].mean() > 0.9
    assert {step.name for step in report.steps} == {"linear model", "text models", "out-of-fold", "learning curve"}


def test_other_columns_are_used_beside_the_texts():
    texts, _, _ = news(400, seed=1)
    rng = np.random.default_rng(2)
    level = rng.normal(size=400)
    table = {"text": texts, "level": level, "label": np.where(level > 0, "high", "low")}
    report = auditing.audit({name: list(column) for name, column in table.items()}, budget=12.0)
    assert report.measures["best_error"].value < 0.1
    assert "boosted trees" in {step.name for step in report.steps}


def test_the_floor_of_texts_has_models_and_neighbours():
    texts, labels, _ = news(400)
    found = bayes.floor(Dataset.open((texts, labels)))
    assert found.low == 0.0
    assert found.best_error.value < 0.2
    assert {"linear model", "1-NN"} <= {entry.name for entry in found.entries}


def test_what_needs_vectors_refuses_texts():
    texts, labels, _ = news(60)
    data = Dataset.open((texts, labels))
    for refused in (lambda: auditing.audit(data, flow="auto"), data.features):
        with pytest.raises(InputError) as caught:
            refused()
        assert caught.value.argument == "dataset"
