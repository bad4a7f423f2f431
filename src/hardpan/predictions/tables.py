"""A table of predictions into a store: one row for each seed, epoch and example, in any order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.dataset import row_ids
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.predictions.assembly import assembling
from hardpan.predictions.columns import LARGEST, by_name, common_epochs
from hardpan.predictions.columns import numbers as checked_numbers
from hardpan.predictions.making import begin
from hardpan.predictions.places import Place
from hardpan.predictions.recorded import RecordedPredictions
from hardpan.predictions.reports import Brought
from hardpan.predictions.rows import check_logits, check_rows, detect, softmax
from hardpan.predictions.table_files import (
    MEANINGS,
    Form,
    column,
    column_names,
    counted,
    form_of,
    row_count,
    values,
)


def import_table(
    path: Path,
    place: Place,
    *,
    outputs: str = "auto",
    dtype: str = "float16",
    block: int | None = None,
    progress: Progress | None = None,
    **given: Any,
) -> Brought:
    """Put a table of predictions into a store; see :func:`hardpan.predictions.copying.import_file`."""
    form = form_of(path, column_names(path))
    found = _Examples(path, form)
    first = next(values(path, form))
    kind = detect(str(path), first[:4096], form.outputs if outputs == "auto" else outputs)
    _check_values(path, form, kind, found)
    seeds, epochs = _renumbered("seeds", found.seeds, given), _renumbered("epochs", found.epochs, given)
    pairs = {(seed, epoch): (seeds[seed], epochs[epoch]) for seed, epoch in found.pairs}
    into = begin(
        place,
        ids=given.get("ids", found.ids),
        n_classes=first.shape[1],
        labels=given.get("labels", found.labels),
        class_names=given.get("class_names", form.class_names),
        split=given.get("split", found.split),
        config={"imported": path.name},
        dtype=dtype,
        block=block,
    )
    _write(path, form, kind, found, into, pairs, progress)
    return Brought(
        source=(str(path),),
        target=into.where,
        examples=len(into),
        classes=into.n_classes,
        seeds=tuple(sorted({seed for seed, _ in pairs.values()})),
        epochs=common_epochs(pairs.values()),
        outputs=kind,
        detected=outputs == "auto" and form.outputs == "auto",
    )


def _check_values(path: Path, form: Form, kind: str, found: _Examples) -> None:
    """Read all numbers once before a store is made: rows that are refused leave nothing behind."""
    check = check_logits if kind == "logits" else check_rows
    for start, numbers in counted(values(path, form)):
        names = found.ids[found.row_of[start : start + len(numbers)]]
        check(str(path), numbers, names.__getitem__)


def _write(
    path: Path,
    form: Form,
    kind: str,
    found: _Examples,
    into: RecordedPredictions,
    pairs: dict[tuple[int, int], tuple[int, int]],
    progress: Progress | None,
) -> None:
    todo = {pair for pair, wanted in pairs.items() if not into.committed(*wanted)}
    with assembling(into) as assembler:
        for start, numbers in counted(values(path, form)):
            if progress is not None:
                progress("writing rows", start / len(found.row_of))
            probs = (softmax(numbers) if kind == "logits" else numbers).astype(into.dtype)
            rows = slice(start, start + len(probs))
            for pair in sorted(found.pairs_within(rows) & todo):
                chosen = found.chosen(rows, pair)
                assembler.add(*pairs[pair], probs[chosen], found.row_of[rows][chosen])


class _Examples:
    """What the rows of a table are about: the examples in order of appearance, and where each row belongs."""

    def __init__(self, path: Path, form: Form) -> None:
        columns = {name: column(path, form, name) for name in MEANINGS}
        n = row_count(path, form)
        of_row = np.stack([_whole_numbers(path, name, columns[name], n) for name in ("seed", "epoch")], axis=1)
        both, pair_of = np.unique(of_row, axis=0, return_inverse=True)
        self._pair_of = pair_of.reshape(-1)
        self.pairs = [(int(seed), int(epoch)) for seed, epoch in both]
        self.ids, self.row_of, first = self._place_rows(columns["id"], n)
        self._check_once(path)
        labels = None if columns["label"] is None else by_name(columns["label"], form.class_names)
        self.labels = _per_example(path, "label", labels, self.row_of, first)
        self.split = _per_example(path, "split", columns["split"], self.row_of, first)

    @property
    def seeds(self) -> list[int]:
        return sorted({seed for seed, _ in self.pairs})

    @property
    def epochs(self) -> list[int]:
        return sorted({epoch for _, epoch in self.pairs})

    def pairs_within(self, rows: slice) -> set[tuple[int, int]]:
        return {self.pairs[number] for number in np.unique(self._pair_of[rows]).tolist()}

    def chosen(self, rows: slice, pair: tuple[int, int]) -> NDArray[np.bool_]:
        return np.asarray(self._pair_of[rows] == self.pairs.index(pair))

    def _check_once(self, path: Path) -> None:
        """Refuse a table in which an example comes twice for a seed and epoch, or not at all."""
        code = self._pair_of * len(self.ids) + self.row_of
        seen = np.zeros(len(self.pairs) * len(self.ids), dtype=bool)
        seen[code] = True
        if len(code) == len(seen) and seen.all():
            return
        found, counts = np.unique(code, return_counts=True)
        twice = bool((counts > 1).any())
        wrong = int(found[np.argmax(counts > 1)] if twice else np.argmin(seen))
        seed, epoch = self.pairs[wrong // len(self.ids)]
        name, how = self.ids[wrong % len(self.ids)], "twice" if twice else "not at all"
        raise InputError(
            f"{path}: {name} comes {how} for seed {seed} epoch {epoch}; give each id once for each seed and epoch"
        )

    def _place_rows(
        self, ids: NDArray[Any] | None, n: int
    ) -> tuple[NDArray[np.str_], NDArray[np.int64], NDArray[np.int64]]:
        """The ids, the example of each row, and the row where each example comes first."""
        if ids is None:
            # Without ids the rows of each seed and epoch stand for the examples in order.
            order = np.argsort(self._pair_of, kind="stable")
            counts = np.bincount(self._pair_of)
            row_of = np.empty(n, dtype=np.int64)
            row_of[order] = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
            return row_ids(int(counts.max())), row_of, order[: int(counts[0])]
        unique, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        return unique[order], place[inverse.reshape(-1)], first[order]


def _renumbered(what: str, found: list[int], given: dict[str, Any]) -> dict[int, int]:
    wanted = given.get(what)
    if wanted is None:
        return {number: number for number in found}
    return dict(zip(found, checked_numbers(what, wanted, len(found)), strict=True))


def _whole_numbers(path: Path, what: str, column: NDArray[Any] | None, n: int) -> NDArray[np.int64]:
    if column is None:
        return np.zeros(n, dtype=np.int64)
    try:
        found = column.astype(np.int64)
    except (ValueError, OverflowError) as error:
        wrong = next((text for text in column.tolist() if not str(text).strip().isdecimal()), column[0])
        raise InputError(f"{path}: {what} must hold whole numbers; got {str(wrong)!r}") from error
    if found.min() < 0 or found.max() > LARGEST:
        wrong = found.min() if found.min() < 0 else found.max()
        raise InputError(f"{path}: {what} must be from 0 to {LARGEST}; got {wrong}")
    return found


def _per_example(
    path: Path, what: str, column: NDArray[Any] | None, row_of: NDArray[np.int64], first: NDArray[np.int64]
) -> NDArray[Any] | None:
    """A column that says the same of an example in each of its rows."""
    if column is None:
        return None
    values = column[first] if what == "split" else _whole_numbers(path, what, column[first], len(first))
    every = column if what == "split" else _whole_numbers(path, what, column, len(column))
    if (values[row_of] != every).any():
        row = int(np.argmax(values[row_of] != every))
        raise InputError(f"{path}: {what} differs between rows of one example; see row {row}")
    return values
