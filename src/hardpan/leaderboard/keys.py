"""Answer keys that look wrong: items on which models agree on another answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import tables
from hardpan.errors import InputError
from hardpan.files import record
from hardpan.leaderboard.pairs import Floats
from hardpan.leaderboard.ranking import rank
from hardpan.outcomes import Outcomes
from hardpan.report import Report
from hardpan.stats import ranks

SHEET = 20  # items on a review sheet, at least
MOST_ANSWERS = 5
_DROPPED, _KEPT = ("yes", "true", "1", "x", "drop"), ("no", "false", "0")
FEWEST_MODELS = 4  # with fewer models an agreement on another answer says nothing


@record(eq=False)
class SuspectKeys(Report):
    """Items by how much models agree on another answer than the key, most suspicious first.

    Attributes:
        items: (N,) ids of the items with a key and answers.
        key: (N,) the keys.
        suggested: (N,) the most frequent other answer; "" where nobody gives another one.
        margin: (N,) share of models on ``suggested`` minus share on the key, −1 to 1.
        models: (N,) how many models answered.
        position: (N,) rank of suspicion; equal margins share the best rank, those with most answers first.
        answered: how many items were examined.
        unanswered: how many items have no key or no answer.
        effective_models: how many independent models the answers are worth, M²/1ᵀR1 with R the correlations of the
            models' errors.
        distinct: (N,) how many different answers were given.
        votes: for the first items (all with a positive margin, at least 20), the share of models per answer, at
            most the five most frequent.
        groups: for the same items, the columns of item groups, such as task.
        source: where the answers come from.
        questions: for the same items, the questions, where logs have them.
        notes: what the reader of the scores reported.
    """

    items: NDArray[np.str_]
    key: NDArray[np.str_]
    suggested: NDArray[np.str_]
    margin: Floats
    models: NDArray[np.int64]
    position: NDArray[np.int64]
    answered: int
    unanswered: int
    effective_models: float
    votes: tuple[Mapping[str, float], ...] = ()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    source: str = ""
    questions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    distinct: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def comparable(self) -> NDArray[np.bool_]:
        """(N,) whether answers can agree by more than chance: 4 or more models, and at most half as many answers.

        Answers in free text hardly repeat; those to a choice among a few options do.
        """
        distinct = self.distinct if len(self.distinct) else np.zeros_like(self.models)  # of an earlier file
        return np.asarray((self.models >= FEWEST_MODELS) & (2 * distinct <= self.models))

    @property
    def suspicious(self) -> int:
        """How many items with comparable answers have more models on another answer than on the key."""
        return int(((self.margin > 0) & self.comparable).sum())


@record(eq=False)
class CorrectedKeys(Report):
    """What new keys change: scores and ranks of the models before and after.

    Attributes:
        items: ids of the items whose key changed.
        old_key: their keys before.
        new_key: their keys after.
        models: names, in the order before.
        score_before: (M,).
        score_after: (M,).
        rank_before: (M,) place in the order of scores.
        rank_after: (M,).
        tier_before: (M,).
        tier_after: (M,).
        n_items: number of items of the test set.
        dropped: ids of the items that no longer count.
    """

    items: tuple[str, ...]
    old_key: tuple[str, ...]
    new_key: tuple[str, ...]
    models: tuple[str, ...]
    score_before: Floats
    score_after: Floats
    rank_before: NDArray[np.int64]
    rank_after: NDArray[np.int64]
    tier_before: NDArray[np.int64]
    tier_after: NDArray[np.int64]
    n_items: int
    dropped: tuple[str, ...] = ()


def suspect_keys(outcomes: object) -> SuspectKeys:
    """Items whose answer key looks wrong, by the margin of the most frequent other answer over the key.

    margin_i = (share of models on the most frequent other answer) − (share on the key). A model with several
    runs of an item spreads its vote over their answers. An answer that scored 1 counts for the key. The plain
    margin is used on purpose: weighting models by skill gained nothing on expert-checked keys. A high margin
    does not prove a wrong key: hard questions have attractive wrong answers.

    Args:
        outcomes: with ``answers`` and ``key``.

    Example:
        >>> answers = [["A", "B", "C"], ["A", "D", "C"], ["A", "D", "B"]]
        >>> scores = [[1, 1, 1], [1, 0, 1], [1, 0, 0]]
        >>> suspects = suspect_keys(Outcomes.from_arrays(scores, answers=answers, key=["A", "B", "C"]))
        >>> suspects.items[0], suspects.suggested[0], round(suspects.margin[0], 2)
        (np.str_('item-1'), np.str_('D'), np.float64(0.33))
    """
    outcomes = Outcomes.of_items(outcomes)
    answers, key = _answers_and_key(outcomes)
    # A right answer counts for the key however it is worded: "The answer is 4." is 4.
    right = outcomes.scores.reshape(answers.shape) == 1
    answers = np.where(right & (answers != ""), key[None, :, None], answers)
    n = answers.shape[1]
    rows: list[tuple[int, str, float, int, int]] = []
    shares: list[dict[str, float]] = []
    for i in range(n):
        said = answers[:, i]
        known = said != ""
        per_model = known.sum(axis=1)
        voters = int((per_model > 0).sum())
        if key[i] == "" or not voters:
            continue
        weights = np.repeat(1.0 / np.maximum(per_model, 1), known.shape[1]).reshape(known.shape)[known]
        labels, codes = np.unique(said[known], return_inverse=True)
        votes = np.bincount(codes, weights, len(labels)) / voters
        on_key = float(votes[labels == key[i]].sum())
        others = np.where(labels == key[i], -1.0, votes)
        best = int(np.argmax(others))
        other = str(labels[best]) if others[best] > 0 else ""
        rows.append((i, other, max(float(others[best]), 0.0) - on_key, voters, len(labels)))
        frequent = np.argsort(-votes, kind="stable")[:MOST_ANSWERS]
        shares.append({str(labels[k]): round(float(votes[k]), 6) for k in frequent})
    if not rows:
        raise InputError(
            ": no item has both a key and an answer; check the columns of answers and key", argument="outcomes"
        )
    index, suggested, margin, voted, distinct = (np.array(column) for column in zip(*rows, strict=True))
    margin = margin.round(12)
    order = np.lexsort((index, -voted, -margin))
    sorted_margin = margin[order]
    sheet = order[: max(int((margin > 0).sum()), min(SHEET, len(order)))]
    position = 1 + np.searchsorted(-sorted_margin, -sorted_margin, side="left")
    return SuspectKeys(
        items=outcomes.items[index[order]],
        key=key[index[order]],
        suggested=suggested[order],
        margin=sorted_margin,
        models=voted[order],
        position=position.astype(np.int64),
        answered=len(rows),
        unanswered=n - len(rows),
        distinct=distinct[order],
        effective_models=_independent_key_votes(outcomes.item_scores()),
        votes=tuple(shares[i] for i in sheet),
        groups={
            name: tuple(str(value) for value in np.asarray(values)[index[sheet]])
            for name, values in outcomes.groups.items()
        },
        source=outcomes.source,
        questions=() if outcomes.questions is None else tuple(outcomes.questions[i] for i in index[sheet]),
        notes=outcomes.notes,
    )


def correct_keys(outcomes: object, new_keys: Mapping[str, Any], dropped: Sequence[str] = ()) -> CorrectedKeys:
    """Score the models again with new keys on some items and without others, and say whether ranks move.

    Only the items named get new scores: 1 where a model's answer equals the new key, else 0.

    Args:
        outcomes: with ``answers`` and ``key``, unless items are dropped only.
        new_keys: the new key by item id, such as the verdicts of a review.
        dropped: ids of items that no longer count, such as those that the reference solution fails.

    Example:
        >>> answers = [["A", "B"], ["A", "D"], ["C", "D"]]
        >>> outcomes = Outcomes.from_arrays([[1, 1], [1, 0], [0, 0]], answers=answers, key=["A", "B"])
        >>> correct_keys(outcomes, {"item-1": "D"}).score_after.tolist()
        [0.5, 1.0, 0.5]
    """
    outcomes = Outcomes.of_items(outcomes)
    if new_keys or not len(dropped):
        answers, key = _answers_and_key(outcomes)
    else:  # keys do not matter
        answers, key = (
            np.zeros((outcomes.n_models, outcomes.n_items, 1), np.str_),
            np.zeros(outcomes.n_items, np.str_),
        )
    positions = {str(name): i for i, name in enumerate(outcomes.items)}
    for argument, names in (("new_keys", new_keys), ("dropped", dropped)):
        unknown = [str(name) for name in names if str(name) not in positions]
        if unknown:
            raise InputError(f": item {unknown[0]!r} is not among the {outcomes.n_items} items", argument=argument)
    remaining = np.ones(outcomes.n_items, dtype=np.bool_)
    remaining[[positions[str(name)] for name in dropped]] = False
    if not remaining.any():
        raise InputError("must leave some items", argument="dropped")
    reviewed = {positions[str(name)]: str(value) for name, value in new_keys.items()}
    changed = {i: value for i, value in reviewed.items() if key[i] != value}
    scores = outcomes.scores.reshape(*outcomes.scores.shape[:2], -1).copy()
    corrected = key.astype(object)
    for i, value in changed.items():
        known = np.isfinite(scores[:, i]) & (answers[:, i] != "")
        scores[:, i] = np.where(known, answers[:, i] == value, scores[:, i])
        corrected[i] = value
    after_outcomes = dataclasses.replace(
        outcomes, scores=scores.reshape(outcomes.scores.shape), key=corrected.astype(np.str_)
    )
    before, after = rank(outcomes), rank(after_outcomes.select(items=remaining))
    row = [after.models.index(name) for name in before.models]
    return CorrectedKeys(
        items=tuple(str(outcomes.items[i]) for i in changed),
        old_key=tuple(str(key[i]) for i in changed),
        new_key=tuple(changed.values()),
        models=before.models,
        score_before=before.score,
        score_after=after.score[row],
        rank_before=ranks(before.score.round(12)).astype(np.int64),
        rank_after=ranks(after.score.round(12)).astype(np.int64)[row],
        tier_before=before.tier,
        tier_after=after.tier[row],
        n_items=outcomes.n_items,
        dropped=tuple(map(str, dropped)),
    )


def read_errata(path: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """New keys by item, and items that no longer count, of a table with item and correct_key or drop."""
    columns = tables.read_columns(path, text=True, required=("item",))
    items = [tables.stored_cell(name) for name in columns["item"]]
    if not {"correct_key", "drop"} & columns.keys():
        raise InputError(f"{path}: has no column correct_key or drop; use the review sheet of --out")
    keys = [tables.stored_cell(key) for key in columns.get("correct_key", [""] * len(items))]
    words = [str(word).strip().lower() for word in columns.get("drop", [""] * len(items))]
    if other := sorted({*words} - {"", *_DROPPED, *_KEPT}):
        raise InputError(f"{path}: column drop must be yes, no or empty; got {other[0]!r}")
    dropped = tuple(item for item, word in zip(items, words, strict=True) if word in _DROPPED)
    return {item: key for item, key in zip(items, keys, strict=True) if key and item not in dropped}, dropped


def _answers_and_key(outcomes: Outcomes) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
    missing = [name for name in ("answers", "key") if getattr(outcomes, name) is None]
    if missing or outcomes.answers is None or outcomes.key is None:
        raise InputError(
            f"must have {' and '.join(missing)}; give logs with answers, or a table with columns answer and key",
            argument="outcomes",
        )
    return outcomes.answers.reshape(*outcomes.answers.shape[:2], -1), outcomes.key


def _independent_key_votes(scores: Floats) -> float:
    """M²/1ᵀR1 with R the correlations between models of their scores over the items."""
    complete = np.isfinite(scores).all(axis=0)
    filled = np.where(np.isfinite(scores), scores, np.nanmean(scores))
    used = scores[:, complete] if complete.sum() >= 10 else filled
    used = used[used.std(axis=1) > 0]
    if len(used) < 2:
        return float(len(scores))
    return float(len(used) ** 2 / np.corrcoef(used).sum())
