"""Datasets by name, from files and folders, and from objects in memory; subsets and corrections of them.

To add a file format, write a module that says whether a path has it (cheap: a name, a few bytes) and reads it, add
its line to ``FORMATS`` (the first that recognises a path reads it) and a sample to tests/data/samples.py. To add a
published dataset, add its files with their sums to ``downloads.SOURCES``. PyTorch, Hugging Face and scikit-learn
are not imported here.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import arguments, files
from hardpan.data import arrays, cifar, idx, images, tabular, texts
from hardpan.data.arrays import (
    X_NAMES,
    Y_NAMES,
    as_array,
    from_arrays,
    from_mapping,
    npz_array_meaning,
    number_labels,
)
from hardpan.data.dataset import SPLIT_WORDS, Dataset, DataWarning
from hardpan.data.downloads import SOURCES, read_published
from hardpan.data.images import images_channels_last
from hardpan.data.tabular import DataOptions, from_tables, scored_table_splits
from hardpan.errors import InputError, counted, few, reason
from hardpan.execution import Progress
from hardpan.files import check_reading_memory, existing_file, read_text
from hardpan.tables import (
    Notes,
    column_role_names,
    is_frame,
    is_table_file,
    plain_name,
    read_columns,
    read_table,
    stored_cell,
)

BUNDLED = ("digits",)
SEPARATOR = "@"
EXCLUDE = "exclude"  # examples with this tag are left out
MOST_STREAMED = 100_000  # rows that are read of a stream, whose length is not known
_CHECK_EVERY = 1024


@dataclass(frozen=True, slots=True)
class Format:
    """A file format: whether a path has it, its reader, and the options of :meth:`Dataset.open` that this takes."""

    recognises: Callable[[Path], bool]
    read: Callable[..., Dataset]
    options: tuple[str, ...] = ()


COLUMN_OPTIONS = ("label", "id", "text", "group", "columns", "features", "drop")
FORMATS = {
    "npz": Format(arrays.is_array_file, arrays.read_array_file, ("class_names",)),
    "IDX": Format(idx.is_idx, idx.read_idx, ("class_names",)),
    "CIFAR": Format(cifar.is_cifar, cifar.read_cifar),
    "table (CSV, TSV, JSON, JSONL, Parquet, Arrow, Excel)": Format(
        lambda path: bool(tabular.table_files_by_split(path)) if path.is_dir() else is_table_file(path),
        tabular.read_dataset_table,
        (*COLUMN_OPTIONS, "class_names", "resize", "sample"),
    ),
    "text folder": Format(texts.is_text_folder, texts.read_text_folder),
    "image folder": Format(Path.is_dir, images.read_image_folder, ("resize",)),
}


def names() -> tuple[str, ...]:
    """Datasets that :meth:`Dataset.open` knows by name: bundled, then downloaded."""
    return (*BUNDLED, *SOURCES)


def formats() -> tuple[str, ...]:
    """File formats that :meth:`Dataset.open` reads."""
    return tuple(FORMATS)


def open_dataset(
    source: Any,
    options: DataOptions,
    mirror: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """See :meth:`Dataset.open`."""
    options = dataclasses.replace(
        options,
        class_names=_open_class_names(options.class_names),
        features=None if options.features is None else _option_columns("features", options.features),
        drop=_option_columns("drop", options.drop),
    )
    if isinstance(source, Dataset):
        _refuse_options(options, "a Dataset", ("class_names",))
        dataset = source if options.class_names is None else _with_classes(source, options.class_names)
    elif isinstance(source, (str, os.PathLike)):
        dataset = _open_path(os.fspath(source), options, mirror, cache)
    else:
        dataset = _open_object(source, options)
    dataset = dataset if options.name is None else dataclasses.replace(dataset, name=str(options.name))
    if options.encoder is None:
        return dataset
    return dataset.encoded(options.encoder, cache=cache, progress=progress)


def _open_path(
    source: Any, options: DataOptions, mirror: str | None, cache: str | os.PathLike[str] | None
) -> Dataset:
    data, manifest = parse_data_source(source)
    if manifest:
        whole = _open_path(data, options, mirror, cache)
        is_corrections = Path(manifest).suffix.lower() == ".csv"
        rows = None if is_corrections else open_subset_rows(manifest, whole.ids)
        changed = open_corrected(whole, manifest) if is_corrections else whole.select(rows)
        return dataclasses.replace(changed, name=f"{whole.name}{SEPARATOR}{Path(manifest).stem}")
    if source in names():
        _refuse_options(options, f"{source}, which is no table", ("class_names",))
        dataset = _open_digits() if source in BUNDLED else _with_rows(read_published(source, mirror, cache))
        return dataset if options.class_names is None else _with_classes(dataset, options.class_names)
    path = Path(source)
    if not source or not os.path.exists(source):  # False also for a name that is too long
        short = source if len(source) <= 200 else source[:197] + "..."
        if "://" in source:
            raise InputError(f"dataset {short!r} is a URL; download the file and give its path")
        if path.suffix or os.sep in source:
            raise InputError(
                f"dataset {short!r}: no such file or folder; give a path that exists, or a name such as digits"
            )
        close = difflib.get_close_matches(source, names(), 1)
        hint = f"did you mean {close[0]}? Names" if close else "names"
        raise InputError(
            f"dataset {short!r} is neither a name nor an existing file or folder; {hint}: {', '.join(names())}"
        )
    if not (path.is_dir() or path.is_file()):
        raise InputError(f"{path}: is neither a file nor a folder, but a pipe or a device; give a file or folder")
    for kind, reader in FORMATS.items():
        if reader.recognises(path):
            _refuse_options(options, f"{path}, which is read as {kind}", (*reader.options, "class_names"))
            dataset = _with_rows(reader.read(path, **{name: getattr(options, name) for name in reader.options}))
            if options.class_names is not None and "class_names" not in reader.options:
                dataset = _with_classes(dataset, options.class_names)
            return dataset
    remedy = next((text for endings, text in _REMEDIES.items() if path.suffix.lower() in endings), "")
    raise InputError(f"{path}: unsupported format; supported: {', '.join(FORMATS)}{remedy}")


_REMEDIES = {
    (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".ckpt"): "; pickled files are never loaded: save arrays with "
    "numpy.savez, a frame as Parquet",
    (".zip", ".tar", ".gz", ".tgz", ".7z", ".rar"): "; unpack it, and give the folder",
    (".mat", ".h5", ".hdf5", ".safetensors", ".tfrecord"): "; save the arrays with numpy.savez",
    (".txt", ".data", ".dat", ".arff"): "; save a table as .csv, with a header row",
    (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"): "; give the folder of the class folders",
}


def _refuse_options(options: DataOptions, what: str, taken: Sequence[str] = ()) -> None:
    """Refuse options that the source has no use for, rather than ignore them."""
    for field in dataclasses.fields(DataOptions):
        if field.name not in (*taken, "name", "encoder", "sample") and getattr(options, field.name) not in (
            None,
            (),
            {},
        ):
            raise InputError(f"does not apply to {what}; leave it out", argument=field.name)


def _open_object(source: Any, options: DataOptions) -> Dataset:
    class_names, name = options.class_names, options.name or "arrays"
    splits = list(source.values()) if isinstance(source, Mapping) else [source]
    if splits and all(_is_dataset_of("datasets", split) for split in splits):
        return from_huggingface(source, options)
    read_notes: Notes = []
    if tables := _tables_by_split(source, read_notes):
        kind = type(source[0] if isinstance(source, (tuple, list)) else source)
        library, notes = kind.__module__.partition(".")[0], [DataWarning(*note) for note in read_notes]
        return from_tables(tables, options, notes=notes, name="frame", source=f"{library} {kind.__name__}")
    _refuse_options(options, f"a {type(source).__name__}", ("class_names",))
    if _is_dataset_of("torch.utils.data", source):
        return from_torch(source, class_names=class_names, name=options.name)
    if isinstance(source, Mapping):
        if "data" in source and "target" in source:
            return from_bunch(source, class_names, options.name)
        known = {str(key): value for key, value in source.items()}
        return from_mapping(known, list(known), class_names=class_names, name=name)
    if isinstance(source, tuple) and len(source) in (2, 4):
        if len(source) == 2 and all(
            isinstance(pair, (tuple, list)) and len(pair) == 2 and all(hasattr(array, "shape") for array in pair)
            for pair in source
        ):
            source = (*source[0], *source[1])
        if len(source) == 4 and np.ndim(source[1]) > 1 and np.ndim(source[2]) == 1:
            raise InputError(
                "must be (x_train, y_train, x_test, y_test); the second array has "
                f"{np.ndim(source[1])} axes and the third one: train_test_split returns them in another order",
                argument="dataset",
            )
        x, y, x_test, y_test = [*source, None, None][:4]
        return from_arrays(x, y, x_test=x_test, y_test=y_test, class_names=class_names, name=name)
    if isinstance(source, np.ndarray) or hasattr(source, "__array__"):
        return from_arrays(source, class_names=class_names, name=name)
    raise InputError(
        "must be a name, a path, a Dataset, a data frame, (x, y), (x_train, y_train, x_test, y_test), or a "
        f"dataset of PyTorch, Hugging Face or scikit-learn; got {type(source).__name__}",
        argument="dataset",
    )


def _is_columns(source: Any) -> bool:
    """Whether an object in memory is rows or columns of a table; arrays of examples by name are not."""
    if isinstance(source, list):
        return bool(source) and all(isinstance(row, Mapping) for row in source)
    if not isinstance(source, Mapping) or not source:
        return is_frame(source) and not isinstance(source, np.ndarray)
    if any((npz_array_meaning(str(key)) or ("", ""))[1] == "x" for key in source):
        return False
    return all(
        bool(values) and all(np.isscalar(value) or value is None for value in values)
        if isinstance(values, (list, tuple))
        else getattr(values, "ndim", 0) == 1
        for values in source.values()
    )


def _is_dataset_of(library: str, value: Any) -> bool:
    """Whether an object is a dataset or loader of a library that is not imported here."""
    return any(f"{kind.__module__}.".startswith(f"{library}.") for kind in type(value).__mro__)


def _tables_by_split(source: Any, notes: Notes) -> dict[str, list[Any]]:
    """The Arrow tables of an object in memory by split: one, or those of train and test; empty if there is none."""
    if _is_columns(source):
        return {"": [read_table(source, notes=notes)]}
    if isinstance(source, tuple) and len(source) == 2 and all(map(is_frame, source)):
        train, test = (read_table(frame, notes=notes) for frame in source)
        if set(train.column_names) == set(test.column_names):
            return {"train": [train], "test": [test]}
    return {}


def from_bunch(bunch: Mapping[str, Any], class_names: Sequence[str] | None, name: str | None) -> Dataset:
    """A scikit-learn Bunch; its images if it has them."""
    x = bunch["images"] if "images" in bunch else bunch["data"]
    target_names = bunch.get("target_names")
    if class_names is None and target_names is not None:
        listed = np.asarray(target_names).astype(np.str_)
        class_names = listed.tolist() if listed.ndim == 1 and len(listed) > 1 else None
    if is_frame(x):
        return from_arrays(x, bunch["target"], class_names=class_names, name=name or "bunch")
    columns = bunch.get("feature_names")
    named = columns is not None and np.ndim(x) == 2 and len(columns) == np.shape(x)[1]
    return from_arrays(
        x,
        bunch["target"],
        class_names=class_names,
        feature_names=columns if named else None,
        name=name or "bunch",
        source="scikit-learn",
    )


def from_torch(
    dataset: Any, test: Any = None, *, class_names: Sequence[str] | None = None, name: str | None = None
) -> Dataset:
    """See :meth:`Dataset.from_torch`."""
    # Of a loader its dataset; a Subset, which has a dataset too, stays.
    source, test = (
        split.dataset if hasattr(split, "batch_size") and hasattr(split, "dataset") else split
        for split in (dataset, test)
    )
    notes: list[DataWarning] = []
    x, y = _torch_arrays("dataset", source, notes)
    x_test, y_test = (None, None) if test is None else _torch_arrays("test", test, notes)
    named = source
    while class_names is None and named is not None:  # a Subset has the classes of what it was taken from
        class_names = getattr(named, "classes", None)
        named = getattr(named, "dataset", None)
    opened = from_arrays(
        x,
        y,
        x_test=x_test,
        y_test=y_test,
        class_names=None if class_names is None else [str(item) for item in class_names],
        name=name or type(source).__name__,
        source="PyTorch",
    )
    return dataclasses.replace(opened, warnings=(*notes, *opened.warnings))


def _streamed_warning(rows: int) -> DataWarning:
    return DataWarning(f"a stream: the first {rows:,} rows were read; save it for an audit of all", "streamed")


def _torch_items(what: str, dataset: Any) -> Iterator[Any]:
    """The items of a map-style dataset, or of a stream."""
    by_number = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    if not by_number and not hasattr(dataset, "__iter__"):
        raise InputError(f"must have items by number or in a row; got {type(dataset).__name__}", argument=what)
    items = map(dataset.__getitem__, range(len(dataset))) if by_number else iter(dataset)
    for row in itertools.count():
        try:
            item = next(items)
        except StopIteration:
            return
        except Exception as error:  # whatever a user's dataset raises
            raise InputError(
                f"{what}: item {row} cannot be read ({type(error).__name__}: {reason(error)})"
            ) from error
        yield item


def _example_and_label(what: str, item: Any, row: int) -> tuple[Any, Any]:
    """x and label of an item: a pair, or a mapping with one key for each such as "image" and "label"."""
    if isinstance(item, Mapping):
        named = [
            [key for key in item if str(key).lower() in names] for names in ((*X_NAMES, "pixel_values"), Y_NAMES)
        ]
        if [len(keys) for keys in named] == [1, 1]:
            return item[named[0][0]], item[named[1][0]]
        raise InputError(
            f"{what}: a mapping must have one of the keys {few((*X_NAMES, 'pixel_values'))} and one of "
            f"{few(Y_NAMES)}; item {row} has {few(item)}"
        )
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        size = f" of {len(item)}" if hasattr(item, "__len__") else ""
        raise InputError(
            f"{what}: every item must be (x, label) or a mapping; item {row} is a {type(item).__name__}{size}"
        )
    return item[0], item[1]


def _torch_arrays(what: str, dataset: Any, notes: list[DataWarning]) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Examples and labels of a dataset, channels last: all of a map-style one, the first of a stream."""
    tensors = getattr(dataset, "tensors", None)
    if isinstance(tensors, tuple) and 1 <= len(tensors) <= 2:
        arrays = [as_array(what, item) for item in tensors]
        return images_channels_last(what, arrays[0])[0], arrays[1] if len(arrays) > 1 else None
    xs: list[NDArray[Any]] = []
    ys: list[Any] = []
    length = len(dataset) if hasattr(dataset, "__len__") else 0
    for row, item in enumerate(_torch_items(what, dataset)):
        if not length and row == MOST_STREAMED:
            notes.append(_streamed_warning(row))
            break
        example, answer = _example_and_label(what, item, row)
        label = as_array(f"{what}: label of item {row}", answer)
        if label.size != 1:
            raise InputError(f"{what}: label of item {row} must be one class; got shape {label.shape}")
        xs.append(as_array(f"{what}: x of item {row}", example))
        ys.append(label.item())
        if xs[-1].shape != xs[0].shape:
            raise InputError(
                f"{what}: examples must have one shape; item 0 has {xs[0].shape} and item {row} {xs[-1].shape}: "
                "add a transform that resizes them"
            )
        if row % _CHECK_EVERY == 0:
            check_reading_memory(what, xs[0].nbytes * (length or row + 1))
    if not xs:
        raise InputError("must not be empty", argument=what)
    return images_channels_last(what, np.stack(xs))[0], as_array(f"{what}: labels", ys)


def from_huggingface(dataset: Any, options: DataOptions) -> Dataset:
    """See :meth:`Dataset.from_huggingface`."""
    parts = dict(dataset) if isinstance(dataset, Mapping) else {"": dataset}
    if not parts:
        raise InputError("must have at least one split", argument="dataset")
    for split, content in parts.items():
        if not all(hasattr(content, name) for name in ("with_format", "features")):
            raise InputError(
                f"must be a dataset of Hugging Face, or one per split; got {type(content).__name__}",
                argument="dataset",
            )
        if split and split not in SPLIT_WORDS:
            raise InputError(
                f": split {split!r} must be train, validation or test; it has {few(parts)}: "
                "give those you want, such as {'train': ..., 'test': ...}",
                argument="dataset",
            )
    first = next(iter(parts.values()))
    features = first.features or {}  # of a stream they may not be known
    if options.class_names is None:
        named = {column: item.names for column, item in features.items() if hasattr(item, "names")}
        label = options.given_columns().get("label")
        if (
            label is None
            and len(named) == 1
            and not any(plain_name(name) in column_role_names("label") for name in features)
        ):
            label = next(iter(named))  # the only column of classes
            options = dataclasses.replace(options, label=label)
        listed = next((named[name] for name in (label, "label", "labels") if name in named), None)
        options = dataclasses.replace(options, class_names=listed)
    notes: list[DataWarning] = []
    tables = {SPLIT_WORDS.get(split, ""): _huggingface_tables(content, notes) for split, content in parts.items()}
    name = getattr(first.info, "dataset_name", None) or "huggingface"
    return from_tables(scored_table_splits(tables), options, notes=notes, name=name, source="Hugging Face")


def _huggingface_tables(content: Any, notes: list[DataWarning]) -> list[Any]:
    """The Arrow tables of a dataset: one of all rows, or those of the first rows of a stream."""
    if hasattr(content, "__len__"):
        return [content.with_format("arrow")[:]]
    tables, rows = list[Any](), 0
    for batch in content.with_format("arrow").iter(batch_size=_CHECK_EVERY):
        table = read_table(batch)
        tables.append(table.slice(0, MOST_STREAMED - rows))
        rows += tables[-1].num_rows
        check_reading_memory("dataset", sum(item.nbytes for item in tables))
        if tables[-1].num_rows < table.num_rows:
            notes.append(_streamed_warning(rows))
            break
    if not rows:
        raise InputError("must not be empty", argument="dataset")
    return tables


def _option_columns(argument: str, names: Any) -> tuple[str, ...]:
    """Column names from one name, or from a sequence of them."""
    if isinstance(names, str):
        return (names,)
    try:
        listed = tuple(names)
    except TypeError as error:
        raise InputError(f"must be names of columns; got {names!r}", argument=argument) from error
    if not all(isinstance(name, (str, int, tuple)) for name in listed):
        raise InputError(f"must be names of columns; got {listed!r}", argument=argument)
    return listed


def _open_digits() -> Dataset:
    """scikit-learn's handwritten digits (Alpaydin and Kaynak 1998): 1,797 images of 8 × 8 grey levels 0..16."""
    from sklearn.datasets import load_digits  # here, because scikit-learn takes a second to import

    bunch = load_digits()
    return from_mapping(
        {"x": bunch.images.astype(np.uint8), "y": bunch.target},
        ("x", "y"),
        name="digits",
        source="scikit-learn load_digits: the test set of UCI's Optical Recognition of Handwritten Digits",
    )


def _with_rows(dataset: Dataset) -> Dataset:
    """Row numbers and warnings where the reader gave none."""
    if "row" in dataset.metadata:
        return dataset
    rows = np.arange(len(dataset))
    if dataset.split is not None:
        for name in np.unique(dataset.split):
            rows[dataset.split == name] = np.arange(int((dataset.split == name).sum()))
    return dataclasses.replace(dataset, metadata={**dataset.metadata, "row": rows})


def _open_class_names(names: Any) -> list[str] | None:
    """Class names from a sequence, text with commas, or a text file with one per line."""
    if names is None:
        return None
    if isinstance(names, str) and "," in names and not os.path.exists(names):
        return [name.strip() for name in names.split(",")]
    if isinstance(names, (str, os.PathLike)):
        return [line.strip() for line in read_text(names).split("\n") if line.strip()]
    if isinstance(names, Mapping) or not hasattr(names, "__iter__"):
        raise InputError(f"must be a sequence of text, or a file; got {names!r}", argument="class_names")
    return [str(name) for name in names]


def _with_classes(dataset: Dataset, class_names: Sequence[str]) -> Dataset:
    """The dataset with its classes named and numbered as listed."""
    if dataset.labels is None:
        return dataclasses.replace(dataset, class_names=tuple(class_names))
    class_names = arguments.class_names("class_names", class_names)
    present = dataset.class_names
    plain = all(name.lstrip("-").isdigit() for name in present)
    if not plain and len(class_names) == len(present):
        # Other names for the same classes, in the order of their numbers; a shared name must keep its place.
        shared = [name for name in class_names if name in present]
        if len(shared) < len(present) and all(list(class_names).index(n) == present.index(n) for n in shared):
            return dataclasses.replace(dataset, class_names=class_names)
    old: NDArray[Any] = np.array([int(name) for name in dataset.class_names] if plain else dataset.class_names)
    labels, listed, noticed = number_labels("labels", old[dataset.labels], class_names)
    return dataclasses.replace(dataset, labels=labels, class_names=listed, warnings=(*dataset.warnings, *noticed))


def parse_data_source(text: str) -> tuple[str, str]:
    """Divide ``DATA@MANIFEST.json`` or ``DATA@CORRECTIONS.csv`` into both; without one the second is empty.

    Example:
        >>> parse_data_source("digits@hard.json"), parse_data_source("me@home/data.npz")
        (('digits', 'hard.json'), ('me@home/data.npz', ''))
    """
    at = [index for index in range(len(text) - 1, 0, -1) if text[index] == SEPARATOR]
    if not at or not text.endswith((".json", ".csv")) or os.path.exists(text):
        return text, ""
    # A path may contain the separator itself: after the right one comes a file.
    index = next((index for index in at if os.path.isfile(text[index + 1 :])), at[0])
    return text[:index], text[index + 1 :]


def data_source_name(text: str) -> str:
    """What to call a file, folder or address, with the subset if there is one.

    Example:
        >>> data_source_name("runs/resnet18@subsets/hard.json"), data_source_name("probs.npz")
        ('resnet18@hard', 'probs')
    """
    data, manifest = parse_data_source(text)
    stem = Path(data.rstrip("/")).stem or text
    return f"{stem}{SEPARATOR}{Path(manifest).stem}" if manifest else stem


def open_subset_rows(manifest: str, ids: ArrayLike) -> NDArray[np.int64]:
    """Row numbers, in rising order, of the examples of a subset; each must be among ``ids``."""
    subset: Any = files.load(manifest)
    if type(subset).__name__ != "Subset":
        raise InputError(
            f"{manifest}: is a {type(subset).__name__}, not a Subset; give what `hardpan confusion subset` wrote"
        )
    subset.check_whole(manifest)
    rows: NDArray[np.int64] = np.sort(subset.rows(ids))
    return rows


def open_corrected(dataset: Dataset, path: str | os.PathLike[str]) -> Dataset:
    """Replace labels by those in the column ``corrected_label`` and leave out examples tagged "exclude".

    ``hardpan browse`` writes such a file, and every command takes it: ``hardpan audit digits@corrections.csv``. The
    review of a random sample, ``review.csv``, and the list of an audit, ``problems/labels.csv``, are taken, too:
    without a column ``corrected_label`` labels become those of ``right_class``, or of ``suggested``, and then a
    warning of the dataset says how many.

    Args:
        dataset: labelled examples.
        path: a CSV with the columns ``id`` and ``corrected_label``, ``right_class`` or ``suggested`` (empty: the
            label stays), and optionally ``tags`` (separated by semicolons).

    Example:
        >>> import pathlib
        >>> import tempfile
        >>> digits = Dataset.open("digits")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "corrections.csv"
        ...     _ = path.write_text(f"id,corrected_label,tags\\n{digits.ids[0]},7,\\n{digits.ids[1]},,exclude\\n")
        ...     corrected = open_corrected(digits, path)
        >>> len(digits), int(digits.labels[0]), len(corrected), int(corrected.labels[0])
        (1797, 0, 1796, 7)
    """
    if dataset.labels is None:
        raise InputError(f"{dataset.name}: has no labels to correct; give a labelled dataset")
    file = existing_file(path, "corrections")
    columns = read_columns(file, text=True, empty=True)
    column = next((name for name in ("corrected_label", "right_class") if name in columns), "suggested")
    if not {"id", column} <= set(columns):
        raise InputError(
            f": {file} needs the columns id and corrected_label; got {few(columns)}", argument="corrections"
        )
    numbers = {name: number for number, name in enumerate(dataset.class_names)}
    positions = {str(name): row for row, name in enumerate(dataset.ids)}
    labels, keep = dataset.labels.copy(), np.ones(len(dataset), dtype=bool)
    tags = columns.get("tags", [""] * len(columns["id"]))
    for row in zip(columns["id"], columns[column], tags, strict=True):
        name, label, tag = map(stored_cell, row)
        if name not in positions:
            raise InputError(
                f": {file} names example {name!r}, which is not in {dataset.name}", argument="corrections"
            )
        if label and label not in numbers:
            some = ", ".join(dataset.class_names[:20])
            raise InputError(
                f": {file} has the label {label!r}; classes of {dataset.name}: {some}", argument="corrections"
            )
        if label:
            labels[positions[name]] = numbers[label]
        if EXCLUDE in tag.split(";"):
            keep[positions[name]] = False
    corrected = dataclasses.replace(dataset, labels=labels)
    replaced = int((labels != dataset.labels).sum())
    if column == "suggested" and replaced:
        message = (
            f"{counted(replaced, 'label')} replaced by suggestions of an audit; unless a person has checked them, "
            "a score on such labels favours the models that made them"
        )
        corrected = dataclasses.replace(
            corrected, warnings=(*corrected.warnings, DataWarning(message, "suggested"))
        )
    every = None if dataset.all_rows is None else dataset.all_rows.corrected(labels, keep)
    corrected = corrected if keep.all() else corrected.select(np.flatnonzero(keep))
    return dataclasses.replace(corrected, all_rows=every)
