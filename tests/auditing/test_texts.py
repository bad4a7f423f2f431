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
        assert caught.value.argument == "encoder"


def kinds_of(report):
    return {item.kind: item for item in report.problems}


def test_copies_of_training_texts_in_an_official_test_set_are_a_claim():
    rng = np.random.default_rng(5)
    words = [a + b + c for a in "bdgkmnprst" for b in "aeiou" for c in ("ln", "mi", "rt", "s")]
    texts = [" ".join(rng.choice(words, 12)) for _ in range(500)]
    labels = np.arange(500) % 2
    for row in range(400, 470):  # copies with a word changed, or with words before
        edited = texts[row - 400].split()
        edited[int(rng.integers(12))] = "zzz"
        texts[row] = " ".join(edited) if row % 2 else f"well then {texts[row - 400]}"
        labels[row] = labels[row - 400]
    data = Dataset.from_arrays(texts, labels, split=["train"] * 400 + ["test"] * 100)
    found = kinds_of(auditing.audit(data, ensemble="none"))["near-copies"]
    assert found.p_value < 1e-6
    assert found.count.value == 70
    assert set(found.rows) == set(range(400, 470))
    done = found.details["alterations"]
    assert (done["one word changed"], done["words added or cut at the beginning"]) == (35, 35)
    assert all(hits == of for hits, of in found.details["sensitivity"].values())


def test_facts_about_planted_texts():
    texts, labels, _ = news(300, seed=3)
    for row in range(300):
        if row < 10:
            texts[row] = ""
        elif row < 20:
            texts[row] = texts[row].replace("talked", "talkÃ©d")
        elif row < 120:
            texts[row] = f"Read this text and name its subject: {texts[row]} ({labels[row]})"
    found = kinds_of(auditing.audit(Dataset.open((texts, labels)), ensemble="none"))
    assert found["text-quality"].details["counts"] == {"empty": 10, "damaged": 10}
    assert found["templates"].details["words"] == "Read this text and name its subject:"
    assert found["templates"].count.value == 100
    assert set(range(20, 120)) <= set(found["label-words"].rows)
    assert {item.severity for item in found.values()} == {"note"}
    assert all(item.title and item.advice for item in found.values())


def test_another_language_in_test_is_a_shift():
    texts, labels, _ = news(600, seed=4)
    german = {"talked": "sprach", "about": "über", "in the": "in der", "with": "mit"}
    for row in range(450, 600):
        for word, other in german.items():
            texts[row] = texts[row].replace(word, other)
    data = Dataset.from_arrays(texts, labels, split=["train"] * 400 + ["test"] * 200)
    found = kinds_of(auditing.audit(data, ensemble="none"))["shift"]
    assert found.p_value < 1e-6
    assert "the word “über”" in {item["column"] for item in found.details["columns"]["columns"]}


def test_a_word_that_gives_the_label_away_is_listed():
    rng = np.random.default_rng(6)
    words = [a + b for a in "bdgkmnprst" for b in ("ana", "elo", "imi", "oku")]
    labels = rng.integers(0, 2, 400)
    texts = [" ".join([*rng.choice(words, 9), "indeed" if label else "truly"]) for label in labels]
    found = kinds_of(auditing.audit(Dataset.open((texts, labels)), budget=8.0))["leak-feature"]
    assert {"the word “indeed”", "the word “truly”"} & set(found.details["columns"])
