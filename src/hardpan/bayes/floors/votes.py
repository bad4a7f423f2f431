"""Annotators' votes and soft labels: reading, consensus, and the floor if labels are drawn as annotators vote."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import pdtr

from hardpan import arguments, stats, tables
from hardpan.bayes.floors.entries import SOFT_LABELS, VOTES, AssumptionTest, Entry
from hardpan.bayes.floors.error_estimates import Floats, Labels, mean_error_estimate
from hardpan.bayes.floors.plugin import plug_in, plug_in_errors_test
from hardpan.errors import InputError, few
from hardpan.estimates import Estimate
from hardpan.files import TRANSIENT, check_reading_memory, read_arrays, record


@record(dropped=("point",))
class VoteFloor:
    """The Bayes error of labels that are drawn as votes are.

    Attributes:
        uncorrected: mean of 1 − largest proportion of votes; on average too low.
        left_out: how often a vote differs from the majority of the example's other votes; on average too high.
        n: examples with at least two votes; others do not count.
    """

    uncorrected: Estimate
    left_out: Estimate
    n: int

    @property
    def low(self) -> float:
        """Lower limit of the Bayes error."""
        return self.uncorrected.low

    @property
    def high(self) -> float:
        """Upper limit of the Bayes error."""
        return self.left_out.high


def vote_floor(votes: ArrayLike, *, confidence: float = 0.95) -> VoteFloor:
    """Bracket the Bayes error by how often annotators disagree.

    With m votes per example, the mean of 1 − max proportion is below the Bayes error on average (the largest of
    noisy proportions is too large). Set one vote aside: the majority of the other m − 1 (ties split) is a
    classifier, and how often it misses that vote estimates its error without bias, so on average above the Bayes
    error.

    Args:
        votes: (n, K) counts, examples × classes; numbers of votes may differ.
        confidence: level of the intervals.

    Source: Ishida et al., "Is the performance of my deep network too good to be true?" (2023), for the uncorrected
    estimate.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> posterior = rng.dirichlet([0.3, 0.3, 0.3], 5000)
        >>> truth = np.mean(1 - posterior.max(axis=1))
        >>> found = vote_floor(rng.multinomial(3, posterior))
        >>> bool(found.low < truth < found.high)
        True
    """
    counts = _vote_counts(votes)
    totals = counts.sum(axis=1)
    repeated = counts[totals >= 2]
    if len(repeated) < 2:
        raise InputError(
            "must have at least two examples with two votes each: one vote shows no disagreement", argument="votes"
        )
    uncorrected = mean_error_estimate(
        1.0 - repeated.max(axis=1) / repeated.sum(axis=1),
        method="mean of 1 − largest proportion of votes",
        confidence=confidence,
    )
    left_out = mean_error_estimate(
        _disagreement_with_other_votes(repeated),
        method="a vote against the majority of the example's other votes",
        confidence=confidence,
    )
    return VoteFloor(uncorrected, left_out, len(repeated))


def fewer_differences_p_value(votes: ArrayLike, labels: ArrayLike, floor: VoteFloor) -> tuple[float, float]:
    """How often labels differ from the majority vote, and the p-value of so few under labels drawn as votes are.

    A label that is drawn like one more vote differs from any function of the other votes at least as often as the
    Bayes error, which the uncorrected estimate does not exceed on average. Labels that are themselves a majority of
    votes, or were checked, differ more rarely: their Bayes error may be lower than that of votes.

    Args:
        votes: (n, K) counts.
        labels: (n,) class numbers.
        floor: of these votes; the lower limit of its uncorrected estimate is compared.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> posterior = rng.dirichlet([0.3, 0.3, 0.3], 2000)
        >>> votes = rng.multinomial(5, posterior)
        >>> labels = (posterior.cumsum(axis=1) < rng.random(2000)[:, None]).sum(axis=1)
        >>> found = vote_floor(votes)
        >>> [fewer_differences_p_value(votes, y, found)[1] > 0.01 for y in (labels, votes.argmax(axis=1))]
        [True, False]
    """
    counts, truth = _vote_counts(votes), np.asarray(labels)
    several = counts.sum(axis=1) >= 2
    made = int((counts[several].argmax(axis=1) != truth[several]).sum())
    return made / floor.n, float(pdtr(made, max(0.0, floor.uncorrected.low) * floor.n))


@dataclass(frozen=True, slots=True, eq=False)
class Annotations:
    """Votes or soft labels, one of them None.

    Attributes:
        votes: (n, K) counts.
        soft_labels: (n, K) probabilities.
        rows: (n,) rows of the dataset; None where there is none.
        answers: (n, A) class numbers by annotator, −1 where there is none; None where only counts are known.
        annotators: the A names.
        ids: (n,) names of the examples; empty where they have none.
        class_names: the K names; empty where they have none.
    """

    votes: Floats | None
    soft_labels: Floats | None
    rows: Labels | None = None
    answers: Labels | None = None
    annotators: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()


@record
class AnnotatorQuality:
    """An annotator: how many votes, and how often right by each method (:func:`hardpan.stats.consensus`).

    ``crowdlab`` is None where no model predicts the voted examples.
    """

    name: str
    votes: int
    majority: float | None
    dawid_skene: float | None
    crowdlab: float | None = None


@record(eq=False)
class VoteConsensus:
    """Consensus labels of votes whose annotators are known.

    Attributes:
        methods: share of held back answers that each method predicts, by its name; None where no example has three.
        method: the one whose labels are used: the first of those that predict most held back answers.
        annotators: each of them, the worst first.
        alpha: Krippendorff's α; None where no example has two votes.
        examples: with votes.
        votes: all of them.
        differing: labels of the dataset that differ from the consensus; None without a dataset.
        columns: one entry per example, the least confident first: id, label, corrected_label (the consensus, where
            it differs), confidence, votes, and the label by each method; not in the JSON.
    """

    methods: Mapping[str, Estimate | None]
    method: str
    annotators: tuple[AnnotatorQuality, ...]
    alpha: Estimate | None
    examples: int
    votes: int
    differing: int | None = None
    columns: Mapping[str, list[Any]] = field(default_factory=dict, metadata=TRANSIENT)


def vote_consensus(
    annotations: Annotations | None, labels: Labels | None = None, probs: Floats | None = None
) -> VoteConsensus | None:
    """Consensus labels by every method, the quality of annotators, and which examples need another vote.

    None where annotators are not known.

    Args:
        annotations: with answers by annotator.
        labels: (n,) labels of the dataset for the same examples, where there is one.
        probs: (n, K) predictions of these examples by models that did not see their labels.
    """
    if annotations is None or annotations.answers is None or annotations.votes is None:
        return None
    answers, counts = annotations.answers, annotations.votes
    k = counts.shape[1]
    by_method = {item.method: item for item in stats.consensus(answers, n_classes=k, probs=probs)}
    held_back = {name: item.held_back for name, item in by_method.items()}
    method = max(held_back, key=lambda name: -1.0 if (value := held_back[name]) is None else value.value)
    names = np.array(annotations.class_names or tuple(map(str, range(k))), dtype=object)
    ids = annotations.ids or tuple(map(str, range(len(answers))))
    order = np.argsort(by_method[method].confidence, kind="stable")
    consensus_labels = by_method[method].labels
    differs = np.ones(len(order), dtype=bool) if labels is None else consensus_labels != labels
    columns: dict[str, list[Any]] = {
        "id": [ids[row] for row in order],
        **({} if labels is None else {"label": names[labels[order]].tolist()}),
        "corrected_label": np.where(differs[order], names[consensus_labels[order]], "").tolist(),
        "confidence": [round(float(value), 4) for value in by_method[method].confidence[order]],
        "votes": [
            ", ".join(
                f"{int(counts[row, c])} {names[c]}"
                for c in np.argsort(-counts[row], kind="stable")
                if counts[row, c]
            )
            for row in order
        ],
    }
    columns |= {name: names[item.labels[order]].tolist() for name, item in by_method.items()}

    def quality(name: str, who: int) -> float | None:
        value = float(by_method[name].quality[who]) if name in by_method else np.nan
        return value if np.isfinite(value) else None

    annotators = [
        AnnotatorQuality(
            name,
            int((answers[:, who] >= 0).sum()),
            *(quality(each, who) for each in (stats.MAJORITY, stats.DAWID_SKENE, stats.CROWDLAB)),
        )
        for who, name in enumerate(annotations.annotators)
    ]
    sort_by = {stats.MAJORITY: "majority", stats.DAWID_SKENE: "dawid_skene", stats.CROWDLAB: "crowdlab"}[method]
    annotators.sort(key=lambda item: (getattr(item, sort_by) is None, getattr(item, sort_by) or 0.0))
    several = bool((counts.sum(axis=1) >= 2).any())
    return VoteConsensus(
        held_back,
        method,
        tuple(annotators),
        stats.krippendorff_alpha(counts.astype(np.int64)) if several else None,
        len(answers),
        int(counts.sum()),
        None if labels is None else int(differs.sum()),
        columns,
    )


def read_votes(
    source: Any,
    *,
    n_classes: int = 0,
    class_names: Sequence[str] = (),
    ids: NDArray[np.str_] | None = None,
    test: Labels | None = None,
) -> Annotations:
    """Read votes or soft labels from a table, npz (``votes`` or ``soft_labels``, and ``ids``), npy file or array.

    A table (CSV, JSONL, Parquet, ..., or a frame) is long, with columns for the example (``id``, ``example``), the
    annotator (``annotator``, ``worker``, ``rater``) and the label; or wide, with ``id`` and a column of counts per
    class, or a column of labels per annotator, empty where there is none. A wide table has counts if its columns
    are the classes, or if no dataset says the classes and all its cells are whole numbers.

    Rows are joined to a dataset by id, or by row number where the examples are numbered; without ids there must be
    one row for each example, or for each test example.

    Args:
        source: path of the file, frame, or array: whole numbers are votes, rows of sum 1 soft labels.
        n_classes: K of the dataset; 0 where there is none.
        class_names: those of the dataset.
        ids: (N,) ids of the dataset; None where there is none.
        test: rows of its test split.
    """
    is_path = isinstance(source, (str, os.PathLike))
    if tables.is_table_file(Path(source)) if is_path else _is_vote_table(source):
        annotations = _read_vote_table(source, tuple(class_names))
        rows = None
        if ids is not None:
            where = f": {os.fspath(source)}" if is_path else ""
            voted = np.array(annotations.ids) if annotations.ids else None
            rows = _voted_rows(where, len(annotations.votes), voted, ids, test)  # type: ignore[arg-type]
        return replace(
            annotations,
            rows=rows,
            ids=annotations.ids if rows is None or ids is None else tuple(ids[rows].tolist()),
        )
    path = os.fspath(source) if isinstance(source, (str, os.PathLike)) else ""
    arrays = read_arrays(path, ("votes", "soft_labels", "ids")) if path else {"": np.asarray(source)}
    table: NDArray[Any] | None = next((arrays[key] for key in ("votes", "soft_labels", "") if key in arrays), None)
    where = f": {path}" if path else ""
    if table is None:
        names = ", ".join(arrays) or "none"
        raise InputError(f"{where}: expected an array named votes or soft_labels; got {names}", argument="votes")
    if table.ndim != 2 or table.dtype.kind not in "biuf" or (n_classes and table.shape[1] != n_classes):
        expected = f"(examples, {n_classes})" if n_classes else "(examples, classes)"
        raise InputError(
            f"{where}: expected numbers of shape {expected}; got {table.shape} of {table.dtype}", argument="votes"
        )
    fractions = table.dtype.kind == "f" and bool(np.any(table % 1)) and np.allclose(table.sum(axis=1), 1, atol=1e-3)
    soft = "votes" not in arrays and ("soft_labels" in arrays or fractions)
    rows = None if ids is None else _voted_rows(where, len(table), arrays.get("ids"), ids, test)
    if soft:
        return Annotations(None, arguments.probabilities("soft_labels", table), rows)
    return Annotations(_vote_counts(table), None, rows)


def _is_vote_table(source: Any) -> bool:
    if isinstance(source, list):
        return bool(source) and all(isinstance(row, Mapping) for row in source)
    return isinstance(source, Mapping) or (tables.is_frame(source) and not isinstance(source, np.ndarray))


def _read_vote_table(source: Any, class_names: tuple[str, ...]) -> Annotations:
    """Votes of a long or wide table (:func:`read_votes`)."""
    where = f": {os.fspath(source)}" if isinstance(source, (str, os.PathLike)) else ""
    table = tables.read_table(source, name="votes", notes=[])
    table = table.drop_columns(tables.index_columns(table))
    roles = tables.find_columns(
        table.column_names, ("id", "annotator", "label"), where=where.lstrip(": ") or "votes"
    )
    cells = {name: _label_texts(table.column(name)) for name in table.column_names}
    ids = cells.pop(roles["id"]) if "id" in roles else None
    gap = next((row for row, value in enumerate(ids or ()) if not value), None)
    if gap is not None:
        raise InputError(
            f"{where}: row {gap} has no {roles['id']}; name the example of every row", argument="votes"
        )
    if "label" in roles and ids is not None and ("annotator" in roles or len(cells) == 1):
        return _long_votes(ids, cells.get(roles.get("annotator", "")), cells[roles["label"]], class_names, where)
    if not cells:
        raise InputError(f"{where}: has no columns of votes beside {roles['id']}", argument="votes")
    if ids is not None and len(set(ids)) < len(ids):
        again = next(name for row, name in enumerate(ids) if name in ids[:row])
        raise InputError(
            f"{where}: example {again!r} has several rows; give one row per example, or the columns "
            "example, annotator and label",
            argument="votes",
        )
    names, counted = tuple(cells), all(cell.isdecimal() for column in cells.values() for cell in column)
    if counted and (set(names) == set(class_names) or (not class_names and len(names) > 1)):
        order = class_names or names
        counts = np.array([[int(cell) for cell in cells[name]] for name in order], dtype=np.float64).T
        return Annotations(_vote_counts(counts), None, ids=tuple(ids or ()), class_names=order)
    classes, number = _numbered_classes({cell for column in cells.values() for cell in column}, class_names, where)
    answers = np.array([[number[cell] for cell in column] for column in cells.values()], dtype=np.int64).T
    return Annotations(
        stats.count_answers(answers, len(classes)), None, None, answers, names, tuple(ids or ()), classes
    )


def _long_votes(
    ids: list[str], who: list[str] | None, given: list[str], class_names: tuple[str, ...], where: str
) -> Annotations:
    """Votes of a table with a row per vote."""
    voted = [row for row, label in enumerate(given) if label]
    classes, number = _numbered_classes({given[row] for row in voted}, class_names, where)
    examples = list(dict.fromkeys(ids[row] for row in voted))
    at = {name: row for row, name in enumerate(examples)}
    rows = np.array([at[ids[row]] for row in voted], dtype=np.int64)
    label = np.array([number[given[row]] for row in voted], dtype=np.int64)
    if who is None:
        counts = np.zeros((len(examples), len(classes)))
        np.add.at(counts, (rows, label), 1)
        return Annotations(counts, None, ids=tuple(examples), class_names=classes)
    annotators = list(dict.fromkeys(who[row] for row in voted))
    column = {name: position for position, name in enumerate(annotators)}
    by = np.array([column[who[row]] for row in voted], dtype=np.int64)
    check_reading_memory("votes", 8 * len(examples) * len(annotators))
    answers = np.full((len(examples), len(annotators)), -1, dtype=np.int64)
    answers[rows, by] = label
    if int((answers >= 0).sum()) < len(voted):
        pairs = np.unique(np.column_stack([rows, by]), axis=0, return_counts=True)
        row, person = pairs[0][pairs[1] > 1][0]
        raise InputError(
            f"{where}: {annotators[person]!r} votes several times on example {examples[row]!r}; keep one vote",
            argument="votes",
        )
    counts = stats.count_answers(answers, len(classes))
    return Annotations(counts, None, None, answers, tuple(annotators), tuple(examples), classes)


def _label_texts(column: Any) -> list[str]:
    """The cells of a column as text: 3 for 3.0, as columns of numbers with gaps have it; empty where missing."""
    values = tables.cells_of(column, "votes")
    return [
        ""
        if value is None or value != value
        else str(int(value) if isinstance(value, float) and value == int(value) else value).strip()
        for value in values
    ]


def _numbered_classes(
    given: set[str], class_names: tuple[str, ...], where: str
) -> tuple[tuple[str, ...], dict[str, int]]:
    """The classes, and the number of each label as it is written; −1 of an empty cell."""
    known = class_names or tuple(sorted(given - {""}, key=lambda name: (not name.isdecimal(), len(name), name)))
    number = {str(position): position for position in range(len(known))} | {"": -1}
    number |= {name: position for position, name in enumerate(known)}
    unknown = sorted(given - set(number))
    if unknown:
        raise InputError(f"{where}: {unknown[0]!r} is no class; classes: {few(known)}", argument="votes")
    if len(known) < 2:
        raise InputError(f"{where}: all votes are for {few(known)}; two classes are needed", argument="votes")
    return known, number


def _voted_rows(
    where: str, n: int, vote_ids: NDArray[Any] | None, ids: NDArray[np.str_], test: Labels | None
) -> NDArray[np.int64]:
    """The rows of the dataset that n rows of votes belong to."""
    if vote_ids is not None:
        row_of = {str(item): row for row, item in enumerate(ids)}
        unknown = [str(item) for item in vote_ids.tolist() if str(item) not in row_of]
        if len(unknown) == len(vote_ids) == n and all(
            name.isdecimal() and int(name) < len(ids) for name in unknown
        ):
            return np.array([int(name) for name in unknown], dtype=np.int64)
        if unknown or len(vote_ids) != n:
            raise InputError(
                f"{where}: {len(unknown):,} of {len(vote_ids):,} ids are not in the dataset, such as "
                f"{(unknown or ['none'])[0]!r}; pass one row of votes per id of this dataset",
                argument="votes",
            )
        return np.array([row_of[str(item)] for item in vote_ids.tolist()], dtype=np.int64)
    if n == len(ids):
        return np.arange(n)
    if test is not None and n == len(test):
        return test
    expected = f"{len(ids):,} (all examples)" + ("" if test is None else f" or {len(test):,} (test examples)")
    raise InputError(f"{where}: has {n:,} rows and no ids; expected {expected}", argument="votes")


def _vote_counts(votes: ArrayLike) -> Floats:
    array: NDArray[Any] = np.asarray(votes)
    if array.ndim != 2 or array.shape[1] < 2 or not len(array):
        raise InputError(
            f"must be counts of shape (examples, classes); got shape {array.shape} of {array.dtype}",
            argument="votes",
        )
    return arguments.whole_numbers("votes", array).astype(np.float64)


def _disagreement_with_other_votes(counts: Floats) -> Floats:
    """For each example of two votes or more, how often a vote differs from the majority of the others."""
    largest = counts.max(axis=1)
    alone = (counts == largest[:, None]).sum(axis=1) == 1
    rivals = (counts == (largest - 1)[:, None]).sum(axis=1)
    # A vote agrees with the majority of the others only if its class leads alone; without that vote, the classes
    # one vote behind have caught up and share the majority with it.
    right = np.where(alone, largest / (1.0 + rivals), 0.0)
    return np.asarray(1.0 - right / counts.sum(axis=1))


def vote_entries(annotations: Annotations, labels: Labels | None, *, confidence: float) -> list[Entry]:
    """Bounds from votes or soft labels, compared with the labels of the dataset where there is one."""
    check = None
    truth = None if labels is None or annotations.rows is None else labels[annotations.rows]
    if annotations.votes is not None:
        result = vote_floor(annotations.votes, confidence=confidence)
        if truth is not None:
            differ, p_value = fewer_differences_p_value(annotations.votes, truth, result)
            check = AssumptionTest(p_value, result.uncorrected.value, differ)
        return [
            Entry("Votes, uncorrected", "lower", result.uncorrected, VOTES, check=check),
            Entry("Votes, one left out", "upper", result.left_out, VOTES, check=check),
        ]
    soft = annotations.soft_labels
    assert soft is not None
    if truth is not None:
        made, predicted, p_value = plug_in_errors_test(soft, truth)
        check = AssumptionTest(p_value, predicted / len(soft), made / len(soft))
    estimate = plug_in(soft, confidence=confidence, method="mean of 1 − largest soft label")
    return [Entry("Soft labels", "estimate", estimate, SOFT_LABELS, check=check)]
