"""Tables larger than memory: a random sample of the rows as a dataset, and what every row says.

Of every row its label, its split and a key of its features are kept: 17 bytes, whatever the number of columns. Rows
with equal features have equal keys; of N rows two others have one key with a probability of N²/2⁶⁵ (7 in 10 million
at 5 million rows). Cells are equal as in :func:`hardpan.bayes.floors.repeats.equal_inputs`; dates by all of their
digits.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hardpan.arguments import whole_number
from hardpan.data import tabular
from hardpan.data.arrays import array_column_warnings
from hardpan.data.dataset import SPLITS, AllRows, Dataset, DataWarning
from hardpan.errors import few
from hardpan.tables import MISSING_WORDS, TableBlocks

if TYPE_CHECKING:
    import pyarrow

Keys = NDArray[np.uint64]
LEAST_OF_SPLIT = 0.2  # of the sample, of every split that has so many rows
MOST_COLUMN_BYTES = 1 << 30  # of columns that are looked at as a whole
OF_SAMPLE, OF_ALL = ("missing_word",), ("constant", "missing_code", "identifier")  # codes of warnings
_FACTORS = tuple(np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9))
_MISSING = np.float64(np.nan).reshape(1).view(np.uint64)[0]


def sampled_dataset(
    blocks: TableBlocks,
    options: tabular.DataOptions,
    notes: Sequence[DataWarning],
    where: str,
    name: str,
    source: str,
) -> Dataset | None:
    """A random sample of a table with :attr:`Dataset.all_rows`; None where ``options`` want the whole table.

    Every split is sampled at random, the smaller ones at a higher rate.
    """
    import pyarrow

    total, wanted = sum(blocks.rows.values()), options.sample
    wanted = wanted(total, len(blocks.schema.names)) if callable(wanted) else wanted
    if wanted is not None:
        whole_number("sample", wanted, 1)
    if wanted is None or wanted >= total or not total:
        return None
    first = next(blocks.read())
    roles = tabular.column_meanings(first, options, where)[0].roles
    roles = {role: column for role, column in roles.items() if role in ("label", "split")}
    known = pyarrow.concat_tables(blocks.read(list(roles.values()))) if roles else None
    rows = np.concatenate([np.arange(count) for count in blocks.rows.values()])
    parts = np.repeat([SPLITS.index(part) if part else 0 for part in blocks.rows], list(blocks.rows.values()))
    split, labels, said = (parts.astype(np.int8) if len(blocks.rows) > 1 else None), None, list(notes)
    filled, class_names = np.ones(total, dtype=bool), tuple(options.class_names or ())
    if known is not None and "label" in roles:
        filled, noted = tabular.labelled_rows(known, roles["label"])
        known = known.filter(filled) if noted else known
        labels, class_names, noticed = tabular.labels_of_column(known, roles["label"], options, where)
        said += [*noted, *noticed]
    if known is not None and "split" in roles and split is None:
        split = tabular.split_of_column(known, roles["split"], where)
    elif split is not None:
        split = split[filled]
    kept = np.flatnonzero(filled)
    positions = _drawn_positions(len(kept), split, wanted)
    sample = _taken(blocks, kept[positions])
    inner = dataclasses.replace(options, sample=None, class_names=class_names or None)
    official = None if split is None else np.array(SPLITS)[split[positions]]
    columns = {role: column for role, column in inner.given_columns().items() if role != "split"}
    given = {role: column for role, column in columns.items() if role not in ("label", "id", "group")}
    dataset = tabular.from_tables(
        {"": [sample if official is None or "split" not in roles else sample.drop_columns(roles["split"])]},
        dataclasses.replace(inner, columns=given),
        split=official,
        where=where,
        name=name,
        source=source,
    )
    used = tabular.feature_cells(sample, options, where)
    keys, missing, facts = _facts_of_blocks(blocks, used, dataset, kept)
    codes = (*OF_ALL, "no_label_rows", "renumbered_labels", "similar_classes")
    drawn = f"a random sample of {len(positions):,} of {len(kept):,} rows was read"
    said += [
        dataclasses.replace(item, message=f"{item.message} (of the sample)") if item.code in OF_SAMPLE else item
        for item in dataset.warnings
        if item.code not in codes or not set(item.columns) <= set(used)
    ]
    if missing:
        listed = few([f"{column} ({count:,} of {total:,} rows)" for column, count in missing.items()])
        said.append(DataWarning(f"missing cells: {listed}", "missing_cells", tuple(missing)))
    return dataclasses.replace(
        dataset,
        labels=None if labels is None else labels[positions],
        class_names=class_names,
        metadata={**dataset.metadata, "row": rows[kept[positions]]},
        warnings=(*said, *facts, DataWarning(drawn, "sampled")),
        all_rows=AllRows(labels, split, keys, rows[kept], positions),
    )


def _drawn_positions(total: int, split: NDArray[np.int8] | None, wanted: int) -> NDArray[np.int64]:
    """Rows drawn at random from every split in proportion to its rows, but a fifth of the sample at least."""
    rng = np.random.default_rng([0, 88])
    drawn = []
    for part in [None] if split is None else np.unique(split).tolist():
        members = total if part is None else int((split == part).sum())
        count = max(wanted * members / total, LEAST_OF_SPLIT * wanted if part is not None else 0)
        chosen = np.sort(rng.choice(members, min(members, round(count)), replace=False, shuffle=False))
        drawn.append(chosen if part is None else np.flatnonzero(split == part)[chosen])
    return np.sort(np.concatenate(drawn))


def _taken(blocks: TableBlocks, rows: NDArray[np.int64]) -> pyarrow.Table:
    """Some rows of the table, which are in rising order."""
    import pyarrow

    taken, start = [], 0
    for block in blocks.read():
        inside = rows[slice(*np.searchsorted(rows, (start, start + block.num_rows)))]
        taken.append(block.take(inside - start))
        start += block.num_rows
    return pyarrow.concat_tables(taken).combine_chunks()


def _facts_of_blocks(
    blocks: TableBlocks, used: Sequence[str], dataset: Dataset, kept: NDArray[np.int64]
) -> tuple[Keys, dict[str, int], tuple[DataWarning, ...]]:
    """The key of every row, the missing cells of every column, and what columns of all rows say.

    What is constant or differs in every row does so in a sample, too: only columns of which the sample says so are
    looked at.
    """
    total = sum(blocks.rows.values())
    doubtful = [column for item in dataset.warnings if item.code in OF_ALL for column in item.columns]
    doubtful = [column for column in dict.fromkeys(doubtful) if column in used]
    doubtful = doubtful[: max(1, MOST_COLUMN_BYTES // (8 * total))]
    columns = {column: np.empty(total) for column in doubtful}
    keys, missing, start = np.empty(total, dtype=np.uint64), dict.fromkeys(used, 0), 0
    for block in blocks.read(used):
        rows = slice(start, start + block.num_rows)
        keys[rows] = 0
        for column in used:
            for cells in cell_keys(block.column(column)):
                keys[rows] = _mixed(keys[rows], cells)
                missing[column] += int((cells == _MISSING).sum())
                if column in columns:
                    columns[column][rows] = cells.view(np.float64)
        start += block.num_rows
    facts = [array_column_warnings(values[kept, None], (column,)) for column, values in columns.items()]
    return keys[kept], {name: count for name, count in missing.items() if count}, tuple(sum(facts, ()))


def _mixed(keys: Keys, cells: Keys) -> Keys:
    """Keys of rows with one more cell: a bijection of the cell for every key."""
    mixed = (keys ^ cells) * _FACTORS[0]
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _FACTORS[1]
    return np.asarray(mixed ^ (mixed >> np.uint64(32)))


def cell_keys(column: pyarrow.ChunkedArray) -> Iterator[Keys]:
    """The cells of a column as (n,) keys, of lists one for each number: equal for equal cells, in any block.

    Example:
        >>> import pyarrow
        >>> a, b, c, d = next(cell_keys(pyarrow.chunked_array([[0.0, -0.0, None, float("nan")]])))
        >>> bool(a == b), bool(c == d), bool(a == c)
        (True, True, False)
    """
    import pyarrow
    from pyarrow import compute

    kind = tabular.column_kind(column.type)
    if kind == "list":
        for values in tabular.features_of_lists(column, "").T:
            yield from cell_keys(pyarrow.chunked_array([values]))
    elif kind == "number":
        whole = np.asarray(column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False))
        cells = (np.where(np.isnan(whole), np.nan, whole) + 0.0).view(np.uint64)
        if pyarrow.types.is_int64(column.type) and np.abs(whole).max(initial=0.0) >= 2.0**53:
            exact = np.asarray(compute.fill_null(column, 0)).astype(np.int64)
            rounded = np.nan_to_num(whole).clip(-(2.0**63), 2.0**63 - 1024).astype(np.int64)
            cells = cells ^ (exact - rounded).astype(np.uint64)  # 0 where a float has the number
        yield cells
    else:
        texts = column if kind == "text" else column.cast(pyarrow.string())
        encoded = texts.combine_chunks().dictionary_encode()
        levels = [_MISSING if _is_gap(text) else _text_key(text) for text in encoded.dictionary.to_pylist()]
        number = compute.fill_null(encoded.indices, len(levels)).to_numpy(zero_copy_only=False)
        yield np.array([*levels, _MISSING], dtype=np.uint64)[number]


def _is_gap(text: str | None) -> bool:
    return not text or (text in MISSING_WORDS and text != "None")


def _text_key(text: str) -> np.uint64:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little") & 0x7FEFFFFFFFFFFFFF)  # a finite number as a float, too
