"""Facts about texts: empty, cut or damaged ones, words of the label, and beginnings and endings that many share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.auditing.evidence import Evidence
from hardpan.bayes.floors.error_estimates import Labels
from hardpan.neighbors.text_copies import text_tokens

FEWEST = 10  # texts of one length or with one beginning, from which that is stated
CUT = 0.01  # the same as a proportion of all texts
SHARED = 0.1  # of the texts that begin or end alike
WORDS = 5  # that they have in common
LEAST_LETTERS = 3  # of a word of a class name
_MISREAD = re.compile("[\u00c2\u00c3\u00e2\u00f0][\u0080-\u00ff\u0152-\u2122]+")
_MARKUP = re.compile(r"<(br|p|div|span|a|b|i)\b[^<>]*/?>|&(amp|lt|gt|quot|nbsp|#\d+);", re.IGNORECASE)


def is_damaged(text: str) -> bool:
    """Whether a text has U+FFFD, or letters in UTF-8 that were read in another encoding.

    Example:
        >>> is_damaged("caf\u00c3\u00a9"), is_damaged("caf\ufffd"), is_damaged("\u00c3O caf\u00e9")
        (True, True, False)
    """
    if "\ufffd" in text:
        return True
    for match in _MISREAD.finditer(text):
        for encoding in ("cp1252", "latin-1"):
            try:
                match[0].encode(encoding).decode("utf-8")
            except UnicodeError:
                continue
            return True
    return False


def quality_facts(texts: NDArray[Any]) -> dict[str, tuple[Labels, dict[str, Any]]]:
    """Rows and details by what they are: "empty", "damaged", "markup" or "cut".

    Texts count as cut where at least ten, and 1 % of all, have exactly the largest length.

    Example:
        >>> found = quality_facts(np.array(["a text", "", "x" * 40] + ["a b &amp; c"], dtype=object))
        >>> {kind: rows.tolist() for kind, (rows, _) in found.items()}
        {'empty': [1], 'markup': [3]}
    """
    length = np.array([len(text) for text in texts])
    facts: dict[str, tuple[Labels, dict[str, Any]]] = {
        "empty": (np.array([not text_tokens(text) for text in texts]), {}),
        "damaged": (np.array([is_damaged(text) for text in texts]), {}),
        "markup": (np.array([bool(_MARKUP.search(text)) for text in texts]), {}),
    }
    cut = length == length.max()
    if cut.sum() >= max(FEWEST, CUT * len(texts)) and length.max() > 2 * np.median(length):
        facts["cut"] = (cut, {"length": int(length.max())})
    return {kind: (np.flatnonzero(rows), details) for kind, (rows, details) in facts.items() if rows.any()}


def label_word_facts(texts: NDArray[Any], labels: Labels, class_names: tuple[str, ...]) -> dict[str, Any] | None:
    """How many texts have all words of the name of their class, and how many would if labels were independent.

    With q_c the proportion of texts that have the name of class c, and n_c its examples, that is Σ n_c q_c.

    Returns:
        Details with the rows; None where names are numbers, or fewer than twice as many as expected have theirs.

    Example:
        >>> texts = np.array(["a red bus", "the red car", "one green bus", "some green car"], dtype=object)
        >>> found = label_word_facts(texts, np.array([0, 0, 1, 1]), ("red", "green"))
        >>> found["count"], found["expected"]
        (4, 2.0)
    """
    names = [text_tokens(re.sub(r"[_\\-]+", " ", name)) for name in class_names]
    usable = [bool(words) and any(len(w) >= LEAST_LETTERS and not w.isdigit() for w in words) for words in names]
    if not any(usable):
        return None
    classes_of: dict[str, list[int]] = {}
    for c, words in enumerate(names):
        if usable[c]:
            classes_of.setdefault(max(words, key=len), []).append(c)
    has_own, having = np.zeros(len(texts), dtype=bool), np.zeros(len(class_names))
    for row, text in enumerate(texts):
        own = set(text_tokens(text))
        for word in own & classes_of.keys():
            for c in classes_of[word]:
                if own.issuperset(names[c]):
                    having[c] += 1
                    has_own[row] |= bool(labels[row] == c)
    count = int(has_own.sum())
    expected = float(np.bincount(labels, minlength=len(class_names)) @ having / len(texts))
    if count < max(2, 2 * expected):
        return None
    rows, k = np.flatnonzero(has_own), len(class_names)
    share = np.bincount(labels[rows], minlength=k) / np.maximum(1, np.bincount(labels, minlength=k))
    first = np.argsort(-share, kind="stable")[:3]
    classes = tuple((class_names[c], float(share[c])) for c in first if share[c] > 0)
    return {"count": count, "expected": expected, "rows": rows, "classes": classes}


def template_facts(texts: NDArray[Any]) -> dict[str, dict[str, Any]]:
    """The longest beginning and ending that at least a tenth of the texts share, of five words or more.

    Example:
        >>> texts = [f"Answer the question below in French: number {k}" for k in range(20)]
        >>> found = template_facts(np.array(texts, dtype=object))
        >>> found["beginning"]["words"], len(found["beginning"]["rows"]), list(found)
        ('Answer the question below in French: number', 20, ['beginning'])
    """
    split = [text.split() for text in texts]
    templates = {}
    for end, words in (("beginning", split), ("ending", [list(reversed(words)) for words in split])):
        long = [row for row, item in enumerate(words) if len(item) > WORDS]
        counts = Counter(tuple(words[row][:WORDS]) for row in long)
        if not counts:
            continue
        first, count = max(counts.items(), key=lambda item: (item[1], item[0]))
        if count < max(FEWEST, SHARED * len(texts)):
            continue
        rows = [row for row in long if tuple(words[row][:WORDS]) == first]
        shared = WORDS
        while all(len(words[row]) > shared for row in rows) and len({words[row][shared] for row in rows}) == 1:
            shared += 1
        template = words[rows[0]][:shared]
        templates[end] = {
            "words": " ".join(template if end == "beginning" else reversed(template)),
            "rows": np.array(rows),
        }
    return templates


def text_facts(evidence: Evidence) -> Iterator[tuple[str, Labels, int, dict[str, Any]]]:
    """Kind, rows, rows searched, and details of the notes "text-quality", "label-words" and "templates"."""
    dataset = evidence.dataset
    if dataset.texts is None:
        return
    quality = quality_facts(dataset.texts)
    if quality:
        rows = np.unique(np.concatenate([item for item, _ in quality.values()]))
        counts = {kind: len(item) for kind, (item, _) in quality.items()}
        yield "text-quality", rows, len(dataset), {"counts": counts} | quality.get("cut", (rows, {}))[1]
    words = label_word_facts(dataset.texts, evidence.labels, dataset.class_names)
    if words is not None:
        yield "label-words", words.pop("rows"), len(dataset), words
    for end, item in template_facts(dataset.texts).items():
        rows = item["rows"]
        own = np.bincount(evidence.labels[rows], minlength=dataset.n_classes)
        share = own / np.maximum(1, np.bincount(evidence.labels, minlength=dataset.n_classes))
        most, least = int(share.argmax()), int(share.argmin())
        by_class = {dataset.class_names[c]: float(share[c]) for c in (most, least)}
        yield "templates", rows, len(dataset), {"place": end, "words": item["words"], "classes": by_class}
