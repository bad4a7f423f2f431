"""Datasets of texts from every source, and what they are refused for."""

import numpy as np
import pyarrow
import pytest

from hardpan import Dataset
from hardpan.data.texts import text_properties, word_columns
from hardpan.errors import InputError
from hardpan.tables import write_table

SUBJECTS = ["The cat", "A dog", "My neighbour", "Their old car", "Nobody here", "The committee"]
VERBS = {"calm": ["sleeps", "rests", "waits"], "busy": ["runs", "works", "hurries"]}


def sentences(n=60, seed=0):
    """Sentences whose verb says the class; most differ."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(list(VERBS), n)
    texts = [
        f"{rng.choice(SUBJECTS)} {rng.choice(VERBS[label])} near house {rng.integers(0, 10_000)} today."
        for label in labels
    ]
    return texts, labels.tolist()


def test_a_column_of_texts_is_found_in_every_kind_of_table(tmp_path):
    texts, labels = sentences()
    table = {"review": texts, "label": labels}
    direct = Dataset.open((texts, labels))
    for name in ("t.csv", "t.jsonl", "t.parquet"):
        path = tmp_path / name
        write_table(path, table)
        dataset = Dataset.open(path)
        assert dataset.texts.tolist() == texts
        assert dataset.x.shape == (60, 0)
        assert dataset.ids.tolist() == direct.ids.tolist()
        assert dataset.class_names == ("busy", "calm")
    frame = Dataset.from_frame(pyarrow.table(table))
    assert frame.content_hash() == direct.content_hash()
    assert frame.select([2, 0]).texts.tolist() == [texts[2], texts[0]]
    assert frame.align(frame.ids[[5, 1]]).texts.tolist() == [texts[5], texts[1]]


def test_a_folder_of_text_files_by_class_and_split(tmp_path):
    texts, labels = sentences(24)
    for number, (text, label) in enumerate(zip(texts, labels, strict=True)):
        folder = tmp_path / "set" / ("test" if number >= 16 else "train") / label
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:02}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "set" / "train" / "busy" / "99.txt").write_bytes(b"caf\xe9 runs")
    dataset = Dataset.open(tmp_path / "set")
    assert sorted(dataset.texts.tolist()) == sorted([*texts, "caf\ufffd runs"])
    assert (dataset.split == "test").sum() == 8
    assert [note.code for note in dataset.warnings] == ["undecoded_text"]
    for row in range(len(dataset)):
        assert dataset.class_names[dataset.labels[row]] == dataset.metadata["path"][row].split("/")[1]


def test_named_columns_are_joined_and_others_stay_features():
    texts, labels = sentences()
    table = pyarrow.table(
        {"title": [text[:9] for text in texts], "story": texts, "stars": range(60), "shop": ["a", "b"] * 30,
         "kind": labels}
    )  # fmt: skip
    dataset = Dataset.open(table, label="kind", text=["title", "story"])
    assert dataset.texts[3] == f"title: {texts[3][:9]}\nstory: {texts[3]}"
    assert dataset.feature_names == ("stars", "shop=a", "shop=b")
    unnamed = Dataset.open(table, label="kind")
    assert not unnamed.is_texts
    assert any("--text story" in note.message for note in unnamed.warnings)
    for wrong in ("absent", "kind", "stars"):
        with pytest.raises(InputError) as caught:
            Dataset.open(table, label="kind", text=wrong)
        assert caught.value.argument == "text"


def test_categories_and_identifiers_are_no_texts():
    labels = [0, 1] * 30
    codes = {"text": ["red", "blue", "green"] * 20, "label": labels}
    assert not Dataset.open(pyarrow.table(codes)).is_texts
    with pytest.raises(InputError):
        Dataset.open(pyarrow.table({"key": [f"k{n}" for n in range(60)], "label": labels}))


def test_equal_texts_have_one_content_and_stay_on_one_side():
    texts, labels = sentences(100)
    texts[50:] = texts[:50]
    dataset = Dataset.open((texts, labels[:50] * 2))
    assert dataset.ids[60] == f"{dataset.ids[10]}-2"
    split = dataset.splits()
    assert not set(dataset.texts[split.train]) & set(dataset.texts[split.test])


def test_vectors_are_required_in_one_sentence():
    texts, labels = sentences()
    with pytest.raises(InputError) as caught:
        Dataset.open((texts, labels)).require_vectors("a flow")
    assert caught.value.argument == "encoder"


def test_properties_are_those_counted_by_hand():
    texts = np.array(["Ab 12!?", "", "да Да", "x\ny"], dtype=object)
    values, names = text_properties(texts)
    row = dict(zip(names, values[0].tolist(), strict=True))
    assert row["the number of characters"] == 7
    assert row["the number of words"] == 2
    assert row["the proportion of capital letters"] == 1 / 7
    assert row["the proportion of digits"] == 2 / 7
    assert row["the proportion of punctuation"] == 2 / 7
    assert row["the number of question marks"] == 1
    by_name = dict(zip(names, values.T.tolist(), strict=True))
    assert by_name["the proportion of Cyrillic letters"] == [0, 0, 4 / 5, 0]
    assert by_name["the number of line breaks"] == [0, 0, 0, 1]
    assert values[1].tolist() == [0.0] * len(names)
    present, words = word_columns(np.array(["да Нет", "ДА", ""], dtype=object), 1)
    assert words == ("the word “да”",)
    assert present.ravel().tolist() == [1, 1, 0]
