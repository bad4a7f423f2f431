"""Texts that are an altered copy of another one: a word changed, words added or cut at either end, marks or case.

Candidates are references that share the rarest words and pairs of words of a text; each pair is then aligned by its
words. Of languages without spaces every letter counts as a word.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

ALIKE = 0.8  # of the words of the shorter text, in order, that a copy has
SHORTEST = 4  # words that both must have in common
LONGEST_RATIO = 2.5  # words of the longer text for each of the shorter one
RAREST = 20  # words and pairs of words of a text that are looked up, the rarest first,
LOOKED_UP = 20_000  # until this many references have one of them
CANDIDATES = 4  # that are aligned
AT_ONCE = 500
LONGEST = 2000  # words that are aligned
BUCKETS = 2**20
AROUND = 6  # words beside a difference that are shown
SEARCHES_PER_SECOND = 1500.0  # texts on one core
_MARKS = re.compile(r"[^\w]+")
UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff"
WORD = rf"[{UNSPACED}]|[^\W{UNSPACED}]+"  # or a letter of a script without spaces
_TOKENS = re.compile(WORD)


def normalised_text(text: str) -> str:
    """A text without case, spaces and marks, its letters in one encoding; marks alone stay.

    Example:
        >>> normalised_text("  It\u2019s  FINE!") == normalised_text("it's fine")
        True
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    return _MARKS.sub(" ", plain).strip() or " ".join(plain.split())


def text_tokens(text: str) -> list[str]:
    """The words of a text without case and marks; of scripts without spaces its letters.

    Example:
        >>> text_tokens("Two WORDS, \u6f22\u5b57")
        ['two', 'words', '\u6f22', '\u5b57']
    """
    return _TOKENS.findall(normalised_text(text))


@dataclass(frozen=True, slots=True, eq=False)
class TextCopies:
    """The references that are most like each text.

    Attributes:
        references: (m, k) positions of references.
        similarity: (m, k) proportion of the words of the longer text that both have, in order; 0 where the pair was
            not aligned.
        accepted: (m, k) whether the pair is a copy.
    """

    references: NDArray[np.int64]
    similarity: NDArray[np.float64]
    accepted: NDArray[np.bool_]


def match_texts(texts: Sequence[str], references: Sequence[str]) -> TextCopies:
    """Find for each text the references that are altered copies of it.

    A pair is a copy if the shorter text has at least 80 % of its words, and at least four, in the same order in the
    longer one, which has at most 2.5 times as many.

    Example:
        >>> found = match_texts(["please set the alarm for six"], ["set an alarm for six", "what is the time"])
        >>> int(found.references[0, 0]), bool(found.accepted[0, 0]), round(float(found.similarity[0, 0]), 2)
        (0, True, 0.67)
    """
    from scipy import sparse

    own, theirs = [text_tokens(text)[:LONGEST] for text in texts], [text_tokens(t)[:LONGEST] for t in references]
    known = _pairs_and_words(theirs)
    frequency = np.bincount(known.indices, minlength=BUCKETS)
    rarity = np.where(frequency > 0, np.log((1 + len(theirs)) / np.maximum(frequency, 1)), 0).astype(np.float32)
    columns = known.T.tocsr()
    k = min(CANDIDATES, len(theirs))
    best, similarity = np.zeros((len(own), k), dtype=np.int64), np.zeros((len(own), k))
    accepted = np.zeros((len(own), k), dtype=bool)
    counts = [Counter(words) for words in theirs]
    for start in range(0, len(own), AT_ONCE):
        block = _pairs_and_words(own[start : start + AT_ONCE])
        block.data = rarity[block.indices]
        shared = sparse.csr_array(_rarest(block, frequency) @ columns)
        for row in range(shared.shape[0]):
            span = slice(shared.indptr[row], shared.indptr[row + 1])
            columns_of_row, score = shared.indices[span], shared.data[span]
            at = start + row
            first = columns_of_row[np.lexsort((columns_of_row, -score))[:k]]
            mine = Counter(own[at])
            for candidate, reference in enumerate(first.tolist()):
                best[at, candidate] = reference
                similarity[at, candidate], accepted[at, candidate] = _aligned(
                    own[at], theirs[reference], mine, counts[reference]
                )
            order = np.lexsort((-similarity[at], ~accepted[at]))
            best[at], similarity[at], accepted[at] = best[at, order], similarity[at, order], accepted[at, order]
    return TextCopies(best, similarity, accepted)


def _pairs_and_words(tokens: Sequence[Sequence[str]]) -> csr_array:
    """(n, buckets) which hashed words and pairs of words each list has."""
    from scipy.sparse import csr_array
    from sklearn.feature_extraction import FeatureHasher

    features = ({*words, *(f"{a} {b}" for a, b in itertools.pairwise(words))} for words in tokens)
    hasher = FeatureHasher(BUCKETS, input_type="string", alternate_sign=False, dtype=np.float32)
    hashed = csr_array(hasher.transform(list(map(list, features))))
    hashed.data = np.ones_like(hashed.data)
    return hashed


def _rarest(values: csr_array, frequency: NDArray[np.int64]) -> csr_array:
    """The same rows with their largest entries only: a few, and of columns that are not too frequent."""
    from scipy.sparse import csr_array

    keep = np.zeros(len(values.data), dtype=bool)
    for row in range(values.shape[0]):
        span = np.arange(values.indptr[row], values.indptr[row + 1])
        first = span[np.argsort(-values.data[span], kind="stable")[:RAREST]]
        keep[first[np.cumsum(frequency[values.indices[first]]) <= LOOKED_UP]] = True
    keep &= values.data > 0
    rows = np.repeat(np.arange(values.shape[0]), np.diff(values.indptr))[keep]
    return csr_array((values.data[keep], (rows, values.indices[keep])), shape=values.shape)


def _aligned(a: list[str], b: list[str], in_a: Mapping[str, int], in_b: Mapping[str, int]) -> tuple[float, bool]:
    """Similarity of two lists of words, and whether they are copies."""
    short, long = sorted((len(a), len(b)))
    if short < SHORTEST or long > LONGEST_RATIO * short:
        return 0.0, False
    if sum(min(count, in_b.get(word, 0)) for word, count in in_a.items()) < ALIKE * short:
        return 0.0, False
    shared = sum(block.size for block in SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks())
    return shared / long, shared >= max(SHORTEST, ALIKE * short)


def text_alteration(text: str, reference: str) -> str:
    """What was changed between two texts.

    Example:
        >>> text_alteration("Set an alarm!", "set an alarm"), text_alteration("please set an alarm", "set an alarm")
        ('case, spaces or marks', 'words added or cut at the beginning')
    """
    a, b = text_tokens(text), text_tokens(reference)
    codes = [code for code in SequenceMatcher(None, a, b, autojunk=False).get_opcodes() if code[0] != "equal"]
    if not codes:
        return "case, spaces or marks"
    changed = max(max(i2 - i1, j2 - j1) for _, i1, i2, j1, j2 in codes)
    at_start = [i1 == 0 or j1 == 0 for _, i1, _, j1, _ in codes]
    at_end = [i2 == len(a) and j2 == len(b) for _, _, i2, _, j2 in codes]
    moved = all(kind != "replace" for kind, *_ in codes)
    if moved and all(first or last for first, last in zip(at_start, at_end, strict=True)):
        places = " and ".join(
            [*(["the beginning"] if any(at_start) else []), *(["the end"] if any(at_end) else [])]
        )
        return f"words added or cut at {places}"
    return "one word changed" if len(codes) == 1 and changed == 1 else "several words changed"


def marked_difference(text: str, other: str) -> str:
    """The words of the second text, where it differs from the first in brackets, with a few words around them.

    Example:
        >>> marked_difference("please set an alarm", "set the alarm now")
        '[please →] set [an → the] alarm [→ now]'
    """
    a, b = text.split()[:LONGEST], other.split()[:LONGEST]
    words: list[str] = []
    codes = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    for number, (kind, i1, i2, j1, j2) in enumerate(codes):
        if kind != "equal":
            words.append(f"[{' '.join([*a[i1:i2], '→', *b[j1:j2]])}]")
            continue
        before, after = AROUND if number else 0, AROUND if number < len(codes) - 1 else 0
        if j2 - j1 <= before + after + 1:
            words += b[j1:j2]
        else:
            words += [*b[j1 : j1 + before], "…", *b[j2 - after : j2]]
    return " ".join(words)


def altered_texts(texts: Sequence[str], seed: int = 0) -> dict[str, list[str]]:
    """Texts altered in every way that is searched for, by what was done; of texts with at least six words.

    Example:
        >>> altered_texts(["one two three four five six"])["words cut"]
        ['one two three four']
    """
    rng = np.random.default_rng([seed, 91])
    edits: dict[str, list[str]] = {
        name: [] for name in ("case and marks", "one word changed", "words before", "words after", "words cut")
    }
    for text in texts:
        words = text.split()
        other = list(words)
        other[int(rng.integers(len(words)))] = "something"
        for name, edited in (
            ("case and marks", text.upper() + " !"),
            ("one word changed", " ".join(other)),
            ("words before", "well then " + text),
            ("words after", text + " thank you"),
            ("words cut", " ".join(words[: max(4, round(0.6 * len(words)))])),
        ):
            edits[name].append(edited)
    return edits
