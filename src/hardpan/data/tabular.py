"""Tables to a dataset: CSV, JSON and Parquet files, data frames, Hugging Face datasets.

Which column is what: the label, the id, the split and the text are found by their names
(:data:`hardpan.tables.ROLES`), or given; group and time are given, and are kept as metadata. Every other column is
a feature, unless ``features`` names them or there is one column ``features`` of lists. The row index that pandas
writes is never a feature.

Texts are :attr:`Dataset.texts`. A column is found to be the text by its name, if most of its values differ; where
nothing else in the table is a feature, all columns of sentences are texts. Several are joined as ``NAME: VALUE``.

One encoding: numbers stay; a missing number becomes the median of its column, and a column ``NAME is missing`` says
where; text becomes one column of 0 and 1 per value (``NAME=VALUE``; the 30 most common values, then
``NAME=(other)``), a missing text being a value of its own. :attr:`Dataset.table` keeps the columns before
encoding. Text with nearly as many values as filled cells and other types are not features; they stay in the
metadata, and a warning names them. In text, too, ``?``, ``NA``, ``-`` and their like are missing (not ``None``,
which is a value of many tables); text that has only numbers besides is numbers. A date becomes its year, month,
weekday (Monday is 0) and hour, as far as they differ: not its number of days, which numbers the rows. Rows without
a label are left out. A warning says each of these.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hardpan import arguments
from hardpan.data.arrays import array_column_warnings, as_array, checked_x, number_labels, split_of_array
from hardpan.data.dataset import (
    SPLIT_WORDS,
    SPLITS,
    Dataset,
    DataWarning,
    TableFeatures,
    content_ids,
    numbered_content_ids,
)
from hardpan.data.images import decoded_images, looks_like_image
from hardpan.errors import InputError, few
from hardpan.files import check_memory, check_reading_memory, folder_entries, suffix_of
from hardpan.tables import (
    MISSING_WORDS,
    ROLES,
    Notes,
    TableBlocks,
    cells_of,
    find_columns,
    given_columns,
    index_columns,
    is_large,
    is_table_file,
    named_column,
    plain_name,
    read_table,
    table_columns_by_role,
)

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")
VECTOR = "features"
FOUND_ROLES, KEPT_ROLES = ("label", "id", "split"), ("group", "time")
SENTENCE = 3.0  # words that the values of a column have on average, from which it is taken for text
LETTERS = 30  # the same in letters, for languages without spaces
MOST_LEVELS = 30
MOST_UNUSED_TEXT = 2**29  # bytes of a column of text that is kept in the metadata without being named
MISSING, OTHER = "(missing)", "(other)"
_PLAIN_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")
_NUMBER_LIKE = re.compile(r"[-+]?[$€£]? ?\d[\d.,' ]* ?[%$€£]?")


@dataclass(frozen=True, slots=True)
class DataOptions:
    """How a dataset is read, as the arguments of :meth:`Dataset.open` say; all but the last four are of tables."""

    label: str | int | None = None
    id: str | int | None = None
    text: str | int | Sequence[str | int] | None = None
    group: str | int | None = None
    columns: Mapping[str, Any] | None = None
    features: Sequence[str | int] | None = None
    drop: Sequence[str | int] = ()
    class_names: Any = None
    resize: int | None = None
    name: str | None = None
    encoder: Any = None
    sample: int | Callable[[int, int], int | None] | None = None

    def given_columns(self) -> dict[str, Any]:
        """The names of columns that were given, by role."""
        columns = table_columns_by_role(self.columns, label=self.label, id=self.id, group=self.group)
        columns.pop("text", None)
        return columns

    def given_texts(self) -> tuple[str | int, ...]:
        """The columns that were given as texts."""
        columns = self.columns if isinstance(self.columns, Mapping) else {}
        texts = self.text if self.text is not None else columns.get("text")
        if texts is None:
            return ()
        return (texts,) if isinstance(texts, (str, int)) else tuple(texts)


def read_dataset_table(path: Path, **options: Any) -> Dataset:
    """Read a table file, or a folder of them; ``options`` are fields of :class:`DataOptions`."""
    settings = DataOptions(**options)
    named = settings.given_columns()
    as_text = {
        plain_name(str(name))
        for name in ("id", named.get("id"), named.get("group"), *settings.given_texts())
        if name is not None
    }

    def is_text(column: str) -> bool:
        return plain_name(column) in as_text

    files = table_files_by_split(path) if path.is_dir() else {"": [path]}
    read_notes: Notes = []
    large = settings.sample is not None
    tables = {
        split: [
            file if large and is_large(file) else read_table(file, text=is_text, notes=read_notes)
            for file in listed
        ]
        for split, listed in files.items()
    }
    return from_tables(
        tables,
        settings,
        notes=[DataWarning(*note) for note in dict.fromkeys(read_notes)],
        where=f"{path}: ",
        name=path.resolve().name if path.is_dir() else path.name.removesuffix(".gz").rpartition(".")[0],
        source=path.resolve().name,
        is_text=is_text,
    )


def table_files_by_split(folder: Path) -> dict[str, list[Path]]:
    """Files such as train.csv and test-00000-of-00002.parquet by split."""
    by_split: dict[str, list[Path]] = {}
    listed = [item for item in folder_entries(folder) if item.is_file() and is_table_file(item)]
    for file in listed:
        word = file.name.lower().replace("_", "-").partition("-")[0].partition(".")[0]
        if word in SPLIT_WORDS and suffix_of(file) not in (".json", ".txt"):
            by_split.setdefault(SPLIT_WORDS[word], []).append(file)
    if not by_split and (folder / "data").is_dir() and not listed:  # the layout of a Hugging Face repository
        return table_files_by_split(folder / "data")
    scored = scored_table_splits(by_split)
    return {split: scored[split] for split in SPLITS if split in scored}


def scored_table_splits(by_split: Mapping[str, T]) -> Mapping[str, T]:
    """Without a test set, the labelled validation set is what models are scored on."""
    if "test" in by_split:
        return by_split
    return {"test" if split == "validation" else split: item for split, item in by_split.items()}


def from_tables(
    tables: Mapping[str, Sequence[Any]],
    options: DataOptions,
    *,
    split: NDArray[np.str_] | None = None,
    notes: Sequence[DataWarning] = (),
    where: str = "",
    name: str = "table",
    source: str = "table",
    is_text: Callable[[str], bool] = lambda name: False,
) -> Dataset:
    """A dataset of the tables of each split, or of one table under ""; ``split`` if it is in no column.

    Args:
        tables: Arrow tables, and files that are read block by block.
        options: how they are read.
        split: of each row.
        notes: warnings of the reading.
        where: before names in messages.
        name: of the dataset.
        source: of the dataset.
        is_text: picks columns of CSV files that stay as they are written.
    """
    import pyarrow
    from pyarrow import compute, types

    from hardpan.data.large_tables import sampled_dataset

    blocks = TableBlocks.open(tables, is_text, where=where)
    if split is None and (drawn := sampled_dataset(blocks, options, notes, where, name, source)) is not None:
        return drawn
    table = pyarrow.concat_tables(blocks.read())
    rows = np.concatenate([np.arange(count) for count in blocks.rows.values()])
    official = np.repeat(np.array(list(blocks.rows)), list(blocks.rows.values())) if len(blocks.rows) > 1 else None
    if table.num_rows == 0:
        raise InputError(f"{where}the table has no rows")
    meaning, noted = column_meanings(table, options, where)
    notes = [*notes, *noted]
    roles = meaning.roles
    if "label" in roles:
        filled, noted = labelled_rows(table, roles["label"])
        if noted:
            table, rows, notes = table.filter(filled), rows[filled], [*notes, *noted]
            official = None if official is None else official[filled]
    split = official if split is None else split
    labels: NDArray[np.int64] | None = None
    names: tuple[str, ...] = tuple(options.class_names or ())
    noticed: tuple[DataWarning, ...] = ()
    if "label" in roles:
        labels, names, noticed = labels_of_column(table, roles["label"], options, where)
    else:
        message = f"no column is the label (the table has {few(table.column_names)}): name one with label (--label)"
        notes.append(DataWarning(message, "no_label"))
    if "split" in roles:
        if split is None:
            split = np.array(SPLITS)[split_of_column(table, roles["split"], where)]
        elif "split" in options.given_columns():
            raise InputError(f": {where}split does not apply if each split has its own file", argument="columns")
    metadata: dict[str, NDArray[Any]] = {
        role: _kept_column(table, role, roles[role], where) for role in KEPT_ROLES if role in roles
    }
    table, noted = _with_missing_words(table, meaning)
    table, meaning, dates = _with_date_parts(table, meaning)
    notes += [*noted, *dates]
    texts = _joined_texts(table, meaning.texts, where)
    if texts is not None and not meaning.features:
        features = _Features(np.zeros((table.num_rows, 0)), (), list(meaning.others), [])
    else:
        features = _feature_matrix(table, meaning, where, options.resize)
    if (used_rows := features.rows) is not None:
        table, rows = table.take(used_rows), rows[used_rows]
        labels = None if labels is None else labels[used_rows]
        split = None if split is None else split[used_rows]
        metadata = {role: values[used_rows] for role, values in metadata.items()}
    n = table.num_rows
    x, native = features.x, features.native
    if texts is not None and x.ndim > 2:
        raise InputError(f": {where}has images and texts; name one of them with features", argument="text")
    notes += _text_notes(table, meaning)
    for column in (*features.unused, *(name for item in dates for name in item.columns)):
        cells = table.column(column)
        if column_kind(cells.type) == "text" and _fixed_width_bytes(cells) > MOST_UNUSED_TEXT:
            continue  # nobody asked for it
        with suppress(InputError):  # of a type that is neither numbers nor text
            metadata[column] = _column_values(table, column, where)
    if "id" in roles:
        values, noted = _ids_by_split(_column_values(table, roles["id"], where, required=True), split, roles["id"])
        ids = arguments.ids(f"{where}{roles['id']}", values, n)
        notes += noted
    else:
        ids = content_ids(x, texts) if native is None else _ids_of_table_rows(native, texts)
    for column in map(table.column, meaning.features):
        if types.is_struct(column.type) and column.type.get_field_index("path") >= 0:
            paths = compute.struct_field(column, "path").to_pylist()
            metadata |= {"path": np.array([path or "" for path in paths], dtype=np.str_)} if any(paths) else {}
    metadata = {**features.sizes, **metadata, "row": rows}
    return Dataset(
        name=options.name or name,
        x=x,
        ids=ids,
        labels=labels,
        class_names=names,
        split=split,
        metadata=metadata,
        source=source,
        feature_names=features.names,
        warnings=(
            *notes,
            *noticed,
            *features.notes,
            *array_column_warnings(*((native.values, native.names) if native else (x, features.names))),
        ),
        table=native,
        texts=texts,
    )


def _ids_by_split(
    values: NDArray[Any], split: NDArray[np.str_] | None, column: str
) -> tuple[NDArray[Any], list[DataWarning]]:
    """Ids that are unique only within each split get its name in front, such as ``test/0``."""
    if split is None or len(split) != len(values) or len(values) == (distinct := len(np.unique(values))):
        return values, []
    together = np.array([f"{part}/{value}" for part, value in zip(split, values, strict=True)])
    if len(np.unique(together)) < len(together):
        return values, []
    message = (
        f"{len(values) - distinct:,} values of {column} occur in several splits, so rows are called "
        f"SPLIT/{column}; if they name the same things, these are on both sides"
    )
    return together, [DataWarning(message, "ids_by_split", (column,))]


def labelled_rows(table: pyarrow.Table, label: str) -> tuple[NDArray[np.bool_], list[DataWarning]]:
    """Which rows have a label, and a warning where some, but not all, have none."""
    filled = _filled_cells(table.column(label))
    if filled.all() or not filled.any():
        return filled, []
    message = f"{int((~filled).sum()):,} of {len(filled):,} rows have no {label} and are left out"
    return filled, [DataWarning(message, "no_label_rows", (label,))]


def _distinct_cells(table: pyarrow.Table, name: str, where: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The different values of a column without gaps, and which of them each row has."""
    import pyarrow

    column = table.column(name)
    _refuse_empty_cells(column, f"{where}{name}", "drop such rows")
    if column_kind(column.type) not in ("number", "text"):
        return _column_values(table, name, where), np.arange(len(column))
    encoded = pyarrow.concat_arrays(column.chunks).dictionary_encode()
    values = _column_values(pyarrow.table({name: encoded.dictionary}), name, where)
    return values, np.asarray(encoded.indices).astype(np.int64)


def labels_of_column(
    table: pyarrow.Table, name: str, options: DataOptions, where: str
) -> tuple[NDArray[np.int64], tuple[str, ...], tuple[DataWarning, ...]]:
    """Class numbers of a column, the names of the classes, and warnings."""
    listed = options.class_names or _schema_names(table, name)
    values, number = _distinct_cells(table, name, where)
    known = arguments.class_names(f"{where}class_names", listed)
    labels, names, noticed = number_labels(f"{where}{name}", values, known, where, len(number))
    assert labels is not None
    return labels[number], names, noticed


def split_of_column(table: pyarrow.Table, name: str, where: str) -> NDArray[np.int8]:
    """The number in :data:`SPLITS` of each row that a column names."""
    values, number = _distinct_cells(table, name, where)
    words = split_of_array(f"{where}{name}", values, len(values)).tolist()
    return np.array([SPLITS.index(word) for word in words], dtype=np.int8)[number]


def _joined_texts(table: pyarrow.Table, names: Sequence[str], where: str) -> NDArray[Any] | None:
    """(N,) texts; those of several columns one below the other, each after the name of its column."""
    if not names:
        return None
    columns = [
        ["" if value is None else str(value) for value in cells_of(table.column(name), f"{where}{name}")]
        for name in names
    ]
    texts = np.empty(table.num_rows, dtype=object)
    if len(names) == 1:
        texts[:] = columns[0]
    else:
        rows = zip(*columns, strict=True)
        texts[:] = ["\n".join(f"{name}: {cell}" for name, cell in zip(names, row, strict=True)) for row in rows]
    return texts


def from_frames(parts: Sequence[tuple[str, Any, Any]], split: Any, options: Mapping[str, Any]) -> Dataset:
    """A dataset of data frames of features and labels apart from them."""
    tables: dict[str, list[Any]] = {}
    found: Notes = []
    label = "label"
    for key, frame, y in parts:
        table = read_table(frame, notes=found)
        what = f"y_{key}" if key else "y"
        mine: Any = getattr(frame, "index", None)
        theirs: Any = getattr(y, "index", None)
        differ = hasattr(mine, "equals") and hasattr(theirs, "equals") and not mine.equals(theirs)
        if differ and len(mine) == len(theirs) and mine.is_unique and set(mine) == set(theirs):
            raise InputError(f"{what} has the index of x in another order; give {what}.loc[x.index]")
        while label in table.column_names:
            label += "_"
        labels = arguments.column(what, as_array("y", y), table.num_rows)
        tables[key] = [table.append_column(label, [labels])]
        filled = _filled_cells(tables[key][0].column(label))
        if not filled.all():
            raise InputError(f"{what} has no label in row {int(np.argmin(filled))}; drop the rows without a label")
    n = sum(table.num_rows for listed in tables.values() for table in listed)
    official = None if split is None else split_of_array("split", as_array("split", split), n)
    if options.get("feature_names") is not None:
        raise InputError(
            "does not apply to a data frame, whose columns have names; leave it out", argument="feature_names"
        )
    settings = DataOptions(label=label, class_names=options.get("class_names"), name=options.get("name", "frame"))
    notes = [DataWarning(*note) for note in dict.fromkeys(found)]
    dataset, ids = from_tables(tables, settings, split=official, notes=notes, source="frame"), options.get("ids")
    metadata = {
        str(key): arguments.column(f"metadata[{key!r}]", np.asarray(values), n)
        for key, values in (options.get("metadata") or {}).items()
    }
    return replace(
        dataset,
        ids=dataset.ids if ids is None else arguments.ids("ids", as_array("ids", ids), n),
        metadata={**dataset.metadata, **metadata},
    )


@dataclass(frozen=True, slots=True)
class _Meaning:
    """The column of each role, the feature columns, whether they were named, the columns left, those of texts."""

    roles: dict[str, str]
    features: tuple[str, ...]
    explicit: bool
    others: tuple[str, ...]
    texts: tuple[str, ...] = ()


def column_meanings(table: pyarrow.Table, options: DataOptions, where: str) -> tuple[_Meaning, list[DataWarning]]:
    """What the columns of a table are, and warnings."""
    present, origin = table.column_names, where.rstrip(": ") or "the table"
    named_roles, allowed = options.given_columns(), (*FOUND_ROLES, *KEPT_ROLES)
    named = [
        [named_column(present, name, argument, origin) for name in getattr(options, argument) or ()]
        for argument in ("features", "drop")
    ]
    features, drop = named[0], named[1]
    texts = [named_column(present, name, "text", origin) for name in options.given_texts()]
    taken = {*features, *drop} - set(given_columns(present, allowed, named_roles, origin).values())
    for name in texts:
        role = next(
            (
                role
                for role, column in given_columns(present, allowed, named_roles, origin).items()
                if column == name
            ),
            "",
        )
        if role or name in (*features, *drop) or not _is_text_column(table.column(name)):
            what = f"is given as {role}" if role else "is given for features or drop"
            what = what if role or name in (*features, *drop) else f"has {table.column(name).type}, not text"
            raise InputError(f": {where}column {name!r} {what}; name a column of texts", argument="text")
    free = [name for name in present if name not in taken and name not in texts]
    roles = find_columns(free, FOUND_ROLES, named_roles, exact=("id", "split"), only_given=KEPT_ROLES, where=origin)
    notes = []
    index = [name for name in index_columns(table) if name not in (*features, *roles.values())]
    if index:
        listed = few([name or "(no name)" for name in index])
        notes.append(DataWarning(f"dropped the row index: {listed}", "index_column", tuple(index)))
    used = {*roles.values(), *index, *drop, *texts}
    others = tuple(name for name in present if name not in used)
    rivals = [name for name in others if plain_name(name) in ("label", *ROLES["label"][0].split())]
    if rivals and "label" not in named_roles and options.features is None and VECTOR not in present:
        message = (
            f"{roles['label']!r} is taken as the label; {few(rivals)} may be one too, and is used as a feature: "
            "drop it, or name the label"
        )
        notes.append(DataWarning(message, "second_label", tuple(rivals)))
    clash = next((name for name in features if name in used), None)
    if clash is not None:
        raise InputError(
            f": {where}column {clash!r} is also the label, id, split, group or dropped", argument="features"
        )
    if not texts:
        texts = _text_columns(
            table, [name for name in others if name not in features], options.features is not None
        )
        others = tuple(name for name in others if name not in texts)
    if options.features is None:
        features = [VECTOR] if VECTOR in others else list(others)
        if texts:  # of a type that is no feature
            columns = ((name, table.column(name)) for name in features)
            features = [name for name, column in columns if _is_feature_column(column) or _is_dates(column)]
    rest = tuple(name for name in others if name not in features)
    return _Meaning(roles, tuple(features), options.features is not None, rest, tuple(texts)), notes


def _text_columns(table: pyarrow.Table, names: Sequence[str], explicit: bool) -> list[str]:
    """Columns of texts by their names; where nothing else is a feature, all columns of sentences."""
    free = [name for name in names if _is_text_column(table.column(name)) and not _is_category(table.column(name))]
    for words in ("text", ROLES["text"][0]):
        named = [name for name in free if plain_name(name) in words.split()]
        if named:
            return named
    if explicit or any(_is_feature_column(table.column(name)) for name in names):
        return []
    return [name for name in free if _looks_like_sentences(table.column(name))]


def _is_text_column(column: Any) -> bool:
    return column_kind(column.type) == "text"


def _is_category(column: Any) -> bool:
    """Whether text repeats: with nearly as many values as filled cells it is no category."""
    levels, filled = len(set(column.unique().to_pylist()) - {None, ""}), int(_filled_cells(column).sum())
    return levels <= max(2, min(1000, filled // 2))


def _is_feature_column(column: Any) -> bool:
    """Whether a column is one of numbers, lists, images or categories."""
    kind = column_kind(column.type)
    return _is_pictures(column) or (kind != "other" and (kind != "text" or _is_category(column)))


def _is_dates(column: Any) -> bool:
    return _dates_of_column(column) is not None


def _looks_like_sentences(column: Any) -> bool:
    """Whether the values of a column have several words, or as many letters, on average."""
    some = [value for value in column.slice(0, 1000).to_pylist() if value]
    words, letters = (sum(map(measure, some)) / max(1, len(some)) for measure in (_word_count, len))
    return words >= SENTENCE or letters >= LETTERS


def _word_count(text: str) -> int:
    return len(text.split())


def _text_notes(table: pyarrow.Table, meaning: _Meaning) -> list[DataWarning]:
    """Warnings about text that looks like numbers, or like the name of a split."""
    numbers: dict[str, str] = {}
    splits = []
    for name in meaning.features:
        column = table.column(name)
        if column_kind(column.type) != "text":
            continue
        levels = [level for level in column.unique().to_pylist() if level]
        alike = [level for level in levels if _NUMBER_LIKE.fullmatch(level.strip())]
        if len(alike) >= 3 and 2 * len(alike) >= len(levels):
            numbers[name] = next((level for level in levels if not _PLAIN_NUMBER.fullmatch(level)), levels[0])
        elif {SPLIT_WORDS.get(level.strip().lower()) for level in levels} >= {"train", "test"}:
            splits.append(name)
    notes = []
    if numbers:
        listed = few([f"{name} (such as {value!r})" for name, value in numbers.items()])
        message = f"numbers read as text: {listed}; write them as 1234.5, and leave missing cells empty"
        notes.append(DataWarning(message, "numbers_as_text", tuple(numbers)))
    if splits and "split" not in meaning.roles:
        message = f"used as a feature, but looks like the split: {few(splits)}; name it with --column split="
        notes.append(DataWarning(message + splits[0], "split_column", tuple(splits)))
    return notes


def _schema_names(table: pyarrow.Table, label: str) -> list[str] | None:
    """Class names from the Hugging Face metadata of an Arrow schema."""
    try:
        content = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
        return [str(item) for item in content["info"]["features"][label]["names"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _column_values(table: pyarrow.Table, name: str, where: str, *, required: bool = False) -> NDArray[Any]:
    """A column of numbers or text as NumPy has it."""
    import pyarrow

    column = table.column(name)
    if required:
        _refuse_empty_cells(column, f"{where}{name}", "drop such rows")
    kind = column_kind(column.type)
    if kind == "number":
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if kind == "text":  # NumPy gives every text the room of the longest one
        check_memory(f"{where}{name}", _fixed_width_bytes(column), "shorten its longest texts, or drop it")
    if kind == "text" or any(
        check(column.type) for check in (pyarrow.types.is_date, pyarrow.types.is_timestamp, pyarrow.types.is_null)
    ):
        cells = cells_of(column, f"{where}{name}")
        return np.array(["" if value is None else str(value) for value in cells], dtype=np.str_)
    several = pyarrow.types.is_list(column.type) or pyarrow.types.is_large_list(column.type)
    remedy = (
        "an example has one label or id here; of several labels (multi-label) make a column of each, and " * several
    )
    raise InputError(f"{where}{name} must be numbers or text; got {column.type}: {remedy}name another column")


def _fixed_width_bytes(column: Any) -> int:
    from pyarrow import compute

    return 4 * len(column) * (compute.max(compute.utf8_length(column)).as_py() or 0)


def _filled_cells(column: Any) -> NDArray[np.bool_]:
    """Which cells of a column have a value: no gap, no NaN, no text of spaces."""
    from pyarrow import compute

    filled = ~np.asarray(column.is_null(nan_is_null=True))
    if column_kind(column.type) == "text":
        filled &= np.asarray(compute.fill_null(compute.not_equal(compute.utf8_trim_whitespace(column), ""), False))
    return filled


def _with_missing_words(table: pyarrow.Table, meaning: _Meaning) -> tuple[pyarrow.Table, list[DataWarning]]:
    """The table with gaps for words such as ``?`` in features of text, as numbers where nothing else is text."""
    import pyarrow
    from pyarrow import compute

    missing_words: list[str] = []
    columns: list[str] = []
    for name in meaning.features:
        column = table.column(name)
        if column_kind(column.type) != "text":
            continue
        levels = set(column.unique().to_pylist()) - {None}
        words = sorted(levels & (MISSING_WORDS - {"None"}))
        if not words:
            continue
        gap = compute.is_in(column, value_set=pyarrow.array(words, column.type))
        column = compute.if_else(gap, pyarrow.scalar(None, column.type), column)
        values = {level.strip() for level in levels.difference(words)} - {""}
        if values and all(map(_PLAIN_NUMBER.fullmatch, values)):
            texts = (text.strip() if text else "" for text in column.to_pylist())
            column = pyarrow.array([float(text) if text else None for text in texts])
        table = table.set_column(table.column_names.index(name), name, column)
        missing_words.append(f"{name} ({', '.join(map(repr, words))}: {compute.sum(gap).as_py():,} rows)")
        columns.append(name)
    message = f"counted as missing: {few(missing_words)}"
    return table, [DataWarning(message, "missing_word", tuple(columns))] if missing_words else []


_DATE_FORMATS = [
    day + time
    for day in ("%Y-%m-%d", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y")
    for time in ("", " %H:%M:%S", " %H:%M", "T%H:%M:%S")
]
_DATE_LIKE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]\d{1,2}:\d{2}(:\d{2})?)?")


def _dates_of_column(column: Any) -> tuple[NDArray[np.datetime64], list[str]] | None:
    """The seconds of a column of dates, NaT where missing, and the formats that read it; None of another column.

    Text is dates where one format reads every filled cell; of several that do, the first of ``_DATE_FORMATS``.
    """
    import pyarrow
    from pyarrow import compute, types

    fitting: list[str] = []
    if column_kind(column.type) == "text":
        filled = compute.if_else(pyarrow.array(_filled_cells(column)), column, None)
        texts = filled.drop_null().unique()
        if not len(texts) or not all(_DATE_LIKE.fullmatch(text.strip()) for text in texts[:100].to_pylist()):
            return None
        fitting = _DATE_FORMATS
        for some in (texts[:100], texts):
            parsed = {form: compute.strptime(some, format=form, unit="s", error_is_null=True) for form in fitting}
            fitting = [form for form in fitting if not parsed[form].null_count]
        if not fitting:
            return None
        column = compute.strptime(filled, format=fitting[0], unit="s")
    elif not (types.is_date(column.type) or types.is_timestamp(column.type)):
        return None
    if types.is_timestamp(column.type) and column.type.tz is not None:
        try:
            column = compute.local_timestamp(column)
        except pyarrow.ArrowInvalid as error:
            raise InputError(f"time zone {column.type.tz!r} is not known; save the dates in UTC") from error
    return np.asarray(column.to_numpy(zero_copy_only=False)).astype("datetime64[s]"), fitting


def _kept_column(table: pyarrow.Table, role: str, name: str, where: str) -> NDArray[Any]:
    """The column of groups or times; times that begin with the day or the month become 2024-05-31T00:00:00."""
    dates = _dates_of_column(table.column(name)) if role == "time" else None
    if dates is None or not dates[1] or dates[1][0].startswith("%Y"):
        return _column_values(table, name, where).astype(np.str_)
    if len(dates[1]) > 1:
        raise InputError(
            f": {where}{name} reads as day/month/year and as month/day/year, which are different orders; write "
            "dates as 2024-05-31",
            argument="columns",
        )
    return dates[0].astype(np.str_)


def _with_date_parts(table: pyarrow.Table, meaning: _Meaning) -> tuple[pyarrow.Table, _Meaning, list[DataWarning]]:
    """The table with the year, month, weekday and hour of each date among its features, as far as they differ."""
    import pyarrow

    features, dates, parts_of, either = list[str](), list[str](), list[str](), list[str]()
    for name in meaning.features:
        read = _dates_of_column(table.column(name))
        if read is None:
            features.append(name)
            continue
        moments, fitting = read
        either += [name] if len(fitting) > 1 else []
        gap, days = np.isnat(moments), moments.astype("datetime64[D]")
        months = days.astype("datetime64[M]").astype(np.int64)
        parts = {
            "year": months // 12 + 1970,
            "month": months % 12 + 1,
            "weekday": (days.astype(np.int64) + 3) % 7,  # 1970-01-01 was a Thursday
            "hour": (moments - days).astype(np.int64) // 3600,
        }
        for component, values in parts.items():
            column = f"{name} ({component})"
            if len(np.unique(values[~gap])) > 1 and column not in table.column_names:
                table = table.append_column(column, pyarrow.array(values.astype(np.float64), mask=gap))
                features.append(column)
                parts_of.append(column)
        dates.append(name)
    if not parts_of:
        return table, meaning, []
    message = f"dates are used by their parts: {few(parts_of)}; a split by time needs --column time={dates[0]}"
    if either:
        message += (
            f". Read as day/month/year, but month/day/year fits as well: {few(either)}; write them as 2024-05-31"
        )
    meaning = replace(meaning, features=tuple(features))
    return table, meaning, [DataWarning(message, "dates", tuple(dates))]


def _refuse_empty_cells(column: Any, where: str, remedy: str) -> None:
    if column.null_count:
        row = int(np.argmax(np.asarray(column.is_null())))
        raise InputError(f"{where} has no value in row {row}; {remedy}")


_CELL_KINDS = {
    "number": ("is_floating", "is_integer", "is_boolean", "is_decimal"),
    "text": ("is_string", "is_large_string", "is_string_view"),
    "list": ("is_list", "is_large_list", "is_fixed_size_list"),
}


def column_kind(kind: Any) -> str:
    """What the cells of an Arrow type are: "number", "text", "list" or "other"."""
    from pyarrow import types

    return next(
        (name for name, checks in _CELL_KINDS.items() if any(getattr(types, check)(kind) for check in checks)),
        "other",
    )


def feature_cells(table: pyarrow.Table, options: DataOptions, where: str) -> list[str]:
    """The columns of features and texts, in whose cells rows are compared."""
    meaning = column_meanings(table, options, where)[0]
    columns = ((name, table.column(name)) for name in meaning.features)
    used = [name for name, column in columns if meaning.explicit or _is_feature_column(column) or _is_dates(column)]
    return [*used, *meaning.texts]


@dataclass(frozen=True, slots=True)
class _Features:
    """x, its column names, columns that are no features, warnings, columns before encoding, rows of x, image sizes.

    ``rows`` are those of the table that could be read; None where all were.
    """

    x: NDArray[Any]
    names: tuple[str, ...]
    unused: list[str]
    notes: list[DataWarning]
    native: TableFeatures | None = None
    rows: NDArray[np.int64] | None = None
    sizes: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)


def _features_by_kind(table: pyarrow.Table, meaning: _Meaning, where: str) -> dict[str, list[str]]:
    """Feature columns by what their cells are; under "other" those that cannot be features."""
    by_kind: dict[str, list[str]] = {kind: [] for kind in (*_CELL_KINDS, "other")}
    for name in meaning.features:
        column = table.column(name)
        kind = column_kind(column.type)
        if kind == "text" and not meaning.explicit and not _is_category(column):
            kind = "other"
        if (kind == "other" and meaning.explicit) or (name == VECTOR and not meaning.explicit and kind != "list"):
            expected = "lists of numbers" if name == VECTOR else "numbers, text or lists of numbers"
            raise InputError(f"{where}{name} must be {expected}; got {column.type}: encode it, or drop it")
        by_kind[kind].append(name)
    if len(by_kind["other"]) == len(meaning.features):
        raise InputError(
            f"{where}the table has no features ({few(table.column_names)}); give columns of numbers or categories, "
            f"a column {VECTOR} of lists of numbers, or a column of texts with text (--text NAME)"
        )
    return by_kind


def _feature_matrix(table: pyarrow.Table, meaning: _Meaning, where: str, resize: int | None) -> _Features:
    pictures = [name for name in meaning.features if _is_pictures(table.column(name))]
    if pictures:
        return _image_features(table, meaning, pictures, where, resize)
    if resize is not None:
        raise InputError(f"is for images; {where or 'the table '}has no column of images", argument="resize")
    by_kind = _features_by_kind(table, meaning, where)
    numbers, texts, lists, unused = by_kind.values()
    rest, notes = [*meaning.others, *unused], []
    if unused:
        message = f"not used as features (long text, other types): {few(unused)}"
        sentences = [
            name
            for name in unused
            if _is_text_column(table.column(name)) and _looks_like_sentences(table.column(name))
        ]
        if sentences and not meaning.texts:
            message += f"; {sentences[0]} looks like text: use it with --text {sentences[0]}"
        notes.append(DataWarning(message, "unused_column", tuple(unused)))
    check_reading_memory(where.rstrip(": ") or "table", 8 * table.num_rows * (len(numbers) + len(texts)))
    vectors = [features_of_lists(table.column(name), f"{where}{name}") for name in lists]
    alone = len(lists) + len(numbers) + len(texts) == 1
    vector_names = [
        name if alone else f"{name}[{k}]"
        for name, matrix in zip(lists, vectors, strict=True)
        for k in range(matrix.shape[1])
    ]
    columns = {name: _number_column(table, name, where) for name in numbers}
    gaps = any(values.dtype.kind == "f" and np.isnan(values).any() for values in columns.values())
    if not texts and not gaps:
        # Only numbers: the common type, as the file has them.
        parts = [*vectors, *([np.column_stack(list(columns.values()))] if columns else [])]
        x = checked_x(f"{where}features", parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1))
        names = () if lists and not numbers and len(lists) == 1 else (*vector_names, *numbers)
        return _Features(x, names, rest, notes)
    ordered = [name for name in meaning.features if name in columns or name in texts]
    native = _unencoded_features(table, ordered, columns, where)
    if vectors:
        native = TableFeatures(
            np.concatenate([*vectors, native.values], axis=1),
            (*vector_names, *native.names),
            np.concatenate([np.zeros(len(vector_names), dtype=bool), native.categorical]),
            (*[()] * len(vector_names), *native.levels),
        )
    x, names = _encoded_columns(native)
    return _Features(checked_x(f"{where}features", x), names, rest, notes, native)


def _number_column(table: pyarrow.Table, name: str, where: str) -> NDArray[Any]:
    import pyarrow

    column = table.column(name)
    if pyarrow.types.is_decimal(column.type) or (pyarrow.types.is_boolean(column.type) and column.null_count):
        column = column.cast(pyarrow.float64())
    values = np.asarray(column.to_numpy(zero_copy_only=False))
    if values.dtype.kind == "O":
        values = values.astype(np.float64)
    if values.dtype.kind == "f" and np.isinf(values).any():
        row = int(np.argmax(np.isinf(values)))
        raise InputError(f"{where}{name} must be finite; row {row} has infinity: drop or fill such rows")
    return values


def _unencoded_features(
    table: pyarrow.Table, names: list[str], numbers: dict[str, NDArray[Any]], where: str
) -> TableFeatures:
    """The columns before encoding: numbers, and text as the numbers of its levels, NaN where missing."""
    values = np.empty((table.num_rows, len(names)), dtype=np.float64)
    levels: list[tuple[str, ...]] = []
    for index, name in enumerate(names):
        if name in numbers:
            values[:, index] = numbers[name]
            levels.append(())
            continue
        used, codes = np.unique(_column_values(table, name, where), return_inverse=True)
        has_gap = bool(used[0] == "")
        values[:, index] = np.where((codes == 0) & has_gap, np.nan, codes - has_gap)
        levels.append(tuple(used[int(has_gap) :].tolist()))
    return TableFeatures(values, tuple(names), np.array([name not in numbers for name in names]), tuple(levels))


def _encoded_columns(native: TableFeatures) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Numbers with gaps filled and marked, and one column of 0 and 1 per common level of a category."""
    columns: list[tuple[str, NDArray[Any]]] = []
    for index, name in enumerate(native.names):
        column = native.values[:, index]
        gap = np.isnan(column)
        missing = f"{name}={MISSING}"
        if not native.categorical[index]:
            known = column[~gap]
            columns.append((name, np.where(gap, np.median(known) if known.size else 0.0, column)))
            missing = f"{name} is missing"
        else:
            levels = native.levels[index]
            counts = np.bincount(column[~gap].astype(np.int64), minlength=len(levels))
            common = np.sort(np.argsort(-counts, kind="stable")[:MOST_LEVELS])
            columns += [(f"{name}={levels[level]}", column == level) for level in common.tolist()]
            if len(levels) > len(common):
                columns.append((f"{name}={OTHER}", ~gap & ~np.isin(column, common)))
        if gap.any():
            columns.append((missing, gap))
    names = tuple(name for name, _ in columns)
    return np.column_stack([values.astype(np.float64) for _, values in columns]), names


def _ids_of_table_rows(native: TableFeatures, texts: NDArray[Any] | None) -> NDArray[np.str_]:
    """Content ids of rows before encoding, so that an id does not depend on the other rows."""
    cells = [
        ["" if value != value else f"={levels[int(value)]}" if categorical else repr(value) for value in column]
        for column, levels, categorical in zip(
            native.values.T.tolist(), native.levels, native.categorical, strict=True
        )
    ]
    if texts is not None:
        cells.append(texts.tolist())
    rows = ("\x1f".join(row) for row in zip(*cells, strict=True))
    return numbered_content_ids([hashlib.sha256(row.encode()).hexdigest()[:16] for row in rows])


def features_of_lists(column: Any, where: str) -> NDArray[Any]:
    """Lists of one length as a matrix."""
    from pyarrow import compute

    if column_kind(column.type.value_type) != "number":
        raise InputError(f"{where} must be lists of numbers; got lists of {column.type.value_type}")
    _refuse_empty_cells(column, where, "drop or fill such rows")
    lengths = compute.list_value_length(column).to_numpy()
    if (lengths != lengths[0]).any():
        row = int(np.argmax(lengths != lengths[0]))
        raise InputError(
            f"{where} must have one length; row 0 has {int(lengths[0])} numbers and row {row} {int(lengths[row])}"
        )
    flat = compute.list_flatten(column)
    if flat.null_count:
        raise InputError(f"{where} has lists with missing numbers; drop or fill such rows")
    return checked_x(where, flat.to_numpy().reshape(len(column), -1) if len(flat) else np.empty((len(column), 0)))


def _is_pictures(column: Any) -> bool:
    """Whether a column is images: bytes of image files, or the bytes and path that Hugging Face datasets write."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_struct(kind):
        return bool(kind.get_field_index("bytes") >= 0)
    if pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind):
        first = next((value for value in column.slice(0, 100).to_pylist() if value is not None), None)
        return looks_like_image(first)
    return False


def _image_features(
    table: pyarrow.Table, meaning: _Meaning, pictures: list[str], where: str, resize: int | None
) -> _Features:
    import pyarrow
    from pyarrow import compute

    if len(pictures) > 1:
        raise InputError(f"{where}columns {few(pictures)} are all images; name one with features")
    column = table.column(pictures[0])
    if pyarrow.types.is_struct(column.type):
        column = compute.struct_field(column, "bytes")
    if column.null_count == len(column):
        _refuse_empty_cells(column, f"{where}{pictures[0]}", "save the images inside the file")
    cells = [b"" if cell is None else cell for cell in column.to_pylist()]
    x, rows, sizes, notes = decoded_images(cells, where.rstrip(": ") or "table", resize)
    rest = [name for name in (*meaning.features, *meaning.others) if name != pictures[0]]
    return _Features(x, (), rest, list(notes), rows=None if len(rows) == len(cells) else rows, sizes=sizes)
