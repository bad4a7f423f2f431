"""N-grams: against scikit-learn's own TF-IDF, and directions against exact cosines."""

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from hardpan.encoders.ngrams import KINDS, dense_directions, fit_ngrams

TEXTS = ["a red car stops", "the red bus", "blue bus, red car", "no cars here", "a red car stopped"] * 3


def test_similarities_are_those_of_scikit_learn():
    ngrams, values = fit_ngrams(TEXTS)
    assert ngrams.words == len(ngrams.columns["words"]) < values.shape[1]
    for kind, block in zip(KINDS, (values[:, : ngrams.words], values[:, ngrams.words :]), strict=True):
        ours = (block @ block.T).toarray()
        theirs = TfidfVectorizer(sublinear_tf=True, **KINDS[kind]).fit_transform(TEXTS)
        np.testing.assert_allclose(ours, (theirs @ theirs.T).toarray(), atol=1e-5)
    np.testing.assert_allclose(ngrams.transform(TEXTS[2:4]).toarray(), values[2:4].toarray(), atol=1e-6)


def test_all_directions_together_keep_the_cosines():
    _, values = fit_ngrams(TEXTS)
    dense = dense_directions(values, 5)
    exact = (values @ values.T).toarray() / 2  # two kinds, each of length 1
    np.testing.assert_allclose(dense @ dense.T, exact, atol=1e-3)


def test_texts_without_any_ngram_are_zero():
    _, values = fit_ngrams(["", "", "!"])
    assert not dense_directions(values).any()
