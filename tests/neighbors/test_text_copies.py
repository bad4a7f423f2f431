"""Altered copies of texts: planted edits are found, other sentences are not."""

import numpy as np
import pytest

from hardpan.neighbors.text_copies import altered_texts, match_texts, normalised_text, text_alteration

WORDS = [a + b for a in "bdfgklmnprst" for b in ("ana", "elo", "imi", "oku", "ura", "aste")]


def sentences(n, seed=0, least=7, most=16):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(least, most))) for _ in range(n)]


def test_normalised_texts_ignore_case_spaces_marks_and_encoding():
    assert normalised_text("Caf\u00e9,  now") == normalised_text("CAFE\u0301 now!")
    assert normalised_text("ﬁne") == normalised_text("fine")
    assert normalised_text("now") != normalised_text("not")


@pytest.mark.parametrize("name", ["case and marks", "one word changed", "words before", "words after", "words cut"])
def test_planted_edits_are_found_and_named(name):
    texts = sentences(300)
    edited = altered_texts(texts[:100], seed=1)[name]
    found = match_texts(edited, texts)
    assert found.accepted[:, 0].all()
    assert found.references[:, 0].tolist() == list(range(100))
    expected = {
        "case and marks": {"case, spaces or marks"},
        "one word changed": {"one word changed"},
        "words before": {"words added or cut at the beginning"},
    }.get(name, {"words added or cut at the end"})
    assert {text_alteration(a, b) for a, b in zip(edited, texts[:100], strict=True)} == expected


def test_other_sentences_are_no_copies():
    assert not match_texts(sentences(200, seed=3), sentences(400, seed=4)).accepted.any()


def test_texts_without_spaces_are_compared_by_letters():
    first = "今天天气很好我们去公园散步"
    found = match_texts([first.replace("好", "冷")], ["完全不同的一句话在这里", first])
    assert (found.references[0, 0], found.accepted[0, 0]) == (1, True)


def test_a_text_equal_to_a_reference_has_similarity_one():
    texts = sentences(5)
    found = match_texts([texts[2], "", "two words"], texts)
    assert (found.references[0, 0], found.similarity[0, 0]) == (2, 1.0)
    assert not found.accepted[1:].any()
