"""Texts as vectors without a model: TF-IDF of word and character n-grams, and a few dense directions of them.

N-grams are hashed, so that any language is read and no vocabulary is kept: words and pairs of words (of scripts
without spaces letters and pairs of letters); 3 and 4 characters within words. Columns are those that at least two
texts have, the most frequent first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardpan.neighbors.text_copies import WORD

if TYPE_CHECKING:
    from scipy.sparse import csr_array

KINDS: dict[str, dict[str, Any]] = {
    "words": {"analyzer": "word", "ngram_range": (1, 2), "token_pattern": WORD},
    "characters": {"analyzer": "char_wb", "ngram_range": (3, 4)},
}
BUCKETS = 2**20  # of the hash
MOST_COLUMNS = 2**17  # of a kind
LEAST_TEXTS = 2  # that have an n-gram whose column is kept
AT_ONCE = 20_000  # texts
LETTERS = 1e7  # of all texts that become n-grams of characters: of long texts the beginning
LEAST_LETTERS = 200
LONGEST = 20_000  # letters of a text whose words count
FITTED = 20_000  # texts whose directions are searched
DIRECTIONS = 100


@dataclass(frozen=True, slots=True, eq=False)
class NGrams:
    """Which n-grams are columns, and how much each weighs.

    Attributes:
        columns: by kind, the buckets that are kept, in rising order.
        weights: by kind, log((1 + n)/(1 + df)) + 1 of each column, for df of n texts that have it.
        letters: of a text that become n-grams of characters.
    """

    columns: dict[str, NDArray[np.int64]]
    weights: dict[str, NDArray[np.float32]]
    letters: int

    def transform(self, texts: Sequence[str]) -> csr_array:
        """TF-IDF (n, columns) of texts: 1 + log of the count times the weight, each kind of length 1."""
        from scipy import sparse

        blocks = [sparse.hstack(list(self._kinds(batch)), format="csr") for batch in _parts(texts)]
        return sparse.csr_array(sparse.vstack(blocks, format="csr"))

    def _kinds(self, texts: Sequence[str]) -> Iterator[csr_array]:
        for kind, columns in self.columns.items():
            yield _weighted(_hashed(texts, kind, self.letters)[:, columns], self.weights[kind])

    @property
    def words(self) -> int:
        """How many columns are words and pairs of them; the first ones."""
        return len(self.columns["words"])


def fit_ngrams(texts: Sequence[str]) -> tuple[NGrams, csr_array]:
    """Choose and weigh n-grams by all texts, whatever their split and label, and transform them.

    Args:
        texts: N strings.

    Returns:
        The n-grams, and the TF-IDF of all texts, (N, columns) in float32.

    Source: Salton and Buckley, Term-weighting approaches in automatic text retrieval (1988).

    Example:
        >>> ngrams, values = fit_ngrams(["a red car", "a red bus", "blue bus"])
        >>> again = ngrams.transform(["a red car"])
        >>> values.shape[0], ngrams.words, bool(np.allclose(again.toarray(), values[:1].toarray()))
        (3, 4, True)
    """
    from scipy import sparse

    n = len(texts)
    letters = max(LEAST_LETTERS, int(LETTERS / max(1, n)))
    columns, weights = {}, {}
    counts = {kind: [_hashed(part, kind, letters) for part in _parts(texts)] for kind in KINDS}
    for kind, blocks in counts.items():
        frequency = np.zeros(BUCKETS, dtype=np.int64)
        for block in blocks:
            frequency += np.bincount(block.indices, minlength=BUCKETS)
        kept = np.argsort(-frequency, kind="stable")[:MOST_COLUMNS]
        columns[kind] = np.sort(kept[frequency[kept] >= min(LEAST_TEXTS, n)])
        weights[kind] = (np.log((1 + n) / (1 + frequency[columns[kind]])) + 1).astype(np.float32)
    values = []
    while counts["words"]:  # one part after another, so that counts and values are never whole in memory together
        part = [_weighted(blocks.pop(0)[:, columns[kind]], weights[kind]) for kind, blocks in counts.items()]
        values.append(sparse.csr_array(sparse.hstack(part, format="csr")))
    return NGrams(columns, weights, letters), sparse.csr_array(sparse.vstack(values, format="csr"))


def _parts(texts: Sequence[str]) -> list[Sequence[str]]:
    return [texts[start : start + AT_ONCE] for start in range(0, max(1, len(texts)), AT_ONCE)]


def _hashed(texts: Sequence[str], kind: str, letters: int) -> csr_array:
    """1 + log of the counts of hashed n-grams, in float32."""
    from scipy.sparse import csr_array
    from sklearn.feature_extraction.text import HashingVectorizer

    hasher = HashingVectorizer(n_features=BUCKETS, alternate_sign=False, norm=None, dtype=np.float32, **KINDS[kind])
    most = letters if kind == "characters" else LONGEST
    counts = csr_array(hasher.transform([text[:most] for text in texts]))
    counts.data = np.log(counts.data) + 1
    return counts


def _weighted(counts: csr_array, weights: NDArray[np.float32]) -> csr_array:
    from scipy.sparse import csr_array
    from sklearn.preprocessing import normalize

    counts.data *= weights[counts.indices]
    return csr_array(normalize(counts, copy=False)) if counts.shape[1] else counts


def dense_directions(values: csr_array, directions: int = DIRECTIONS, seed: int = 0) -> NDArray[np.float32]:
    """Vectors (N, k) of unit length whose products approximate the cosines of sparse rows; zero for empty rows.

    The k right singular vectors are those of a sample of the rows; which rows are train or test does not matter.

    Args:
        values: (N, d) rows.
        directions: k, at most d and N less 1.
        seed: of the sample and of the search.

    Source: Deerwester et al., Indexing by latent semantic analysis (1990).

    Example:
        >>> values = fit_ngrams(["a red car", "a red bus", "blue bus", "green bus"])[1]
        >>> dense_directions(values, 2).shape
        (4, 2)
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    n, d = values.shape
    k = min(directions, n - 1, d - 1)
    if k < 1:
        return np.zeros((n, 1), dtype=np.float32) if not d else normalize(values.toarray()[:, :1])
    rng = np.random.default_rng([seed, 31])
    some = np.sort(rng.permutation(n)[:FITTED])
    model = TruncatedSVD(k, n_iter=3, random_state=seed % 2**31).fit(values[some])
    return np.asarray(normalize(model.transform(values)), dtype=np.float32)
