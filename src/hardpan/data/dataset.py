"""The dataset that every command and function takes: examples, ids, labels, class names and split."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import arguments
from hardpan.arguments import clean_column, clean_names, clean_text, one_of, whole_number
from hardpan.errors import InputError, counted
from hardpan.execution import Progress
from hardpan.files import array_hash, record
from hardpan.tables import is_frame, read_table

SPLITS = ("train", "validation", "test")
SPLIT_WORDS = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
}
VALIDATION_FRACTION = 0.1
FRACTIONS = (0.6, 0.2, 0.2)
LARGEST_PIXELS = 64  # a side, up to which models are trained on pixels
RARE_CLASS = 0.05  # a random split has every class in proportion where the rarest is rarer
_REPEAT = re.compile(r"([0-9a-f]{16})-[1-9][0-9]*")
_HASHED_BYTES = 2**30  # larger data is identified by a sample of its rows
_HASHED_AT_ONCE = 8192  # rows


@record
class DataWarning:
    """Something about a dataset that its user should know before trusting a number computed from it.

    Attributes:
        message: one sentence, with the remedy.
        code: what was noticed: "index_column", "identifier", "constant", "channels_first", "renumbered_labels",
            "unused_column", "undecoded_text", "resized", "missing_code", "similar_classes", ...
        columns: the columns concerned, where the data has columns.
    """

    message: str
    code: str
    columns: tuple[str, ...] = ()


@record(eq=False)
class TableFeatures:
    """The feature columns of a table before they were encoded, for models that take categories and gaps natively.

    Attributes:
        values: (N, d) float64; a category is its number, NaN is a missing value.
        names: the d columns.
        categorical: (d,) booleans.
        levels: for each column its categories by number; empty for numbers.
    """

    values: NDArray[np.float64]
    names: tuple[str, ...]
    categorical: NDArray[np.bool_]
    levels: tuple[tuple[str, ...], ...]


@record(eq=False)
class AllRows:
    """What is known of all M labelled rows of a table of which a dataset is a random sample.

    Attributes:
        labels: (M,) class numbers, None without a label.
        split: (M,) number in :data:`SPLITS`, None without an official split.
        keys: (M,) numbers that rows with equal features share.
        row: (M,) 0-based row in the file.
        sampled: (N,) which of them the dataset has, in its order.
    """

    labels: NDArray[np.int64] | None
    split: NDArray[np.int8] | None
    keys: NDArray[np.uint64]
    row: NDArray[np.int64]
    sampled: NDArray[np.int64]

    def corrected(self, labels: NDArray[np.int64], keep: NDArray[np.bool_]) -> AllRows:
        """The same with other labels of the N sampled rows, and without those that are not kept."""
        kept, own = np.ones(len(self.keys), dtype=bool), None if self.labels is None else self.labels.copy()
        kept[self.sampled[~keep]] = False
        if own is not None:
            own[self.sampled] = labels
        return AllRows(
            None if own is None else own[kept],
            None if self.split is None else self.split[kept],
            self.keys[kept],
            self.row[kept],
            (np.cumsum(kept) - 1)[self.sampled[keep]],
        )


@record(eq=False)
class Split:
    """Row numbers of train, validation and test, which do not overlap, and how they were chosen."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]
    method: str
    seed: int


@record(eq=False, repr=False)
class Dataset:
    """Examples with ids, and what is known of them.

    Attributes:
        name: what to call the dataset.
        x: images (N, H, W) or (N, H, W, C), or feature vectors (N, d); always finite numbers. Beside ``texts`` the
            other columns, d = 0 where there are none.
        ids: (N,) strings, each once.
        labels: (N,) class numbers in 0..C-1, or None.
        class_names: the C names.
        split: (N,) "train", "test" or "validation" where the dataset has an official split, else None.
        metadata: further columns of length N. ``row`` is the 0-based row in the file (in its split, where each
            split has a file or array of its own), ``path`` the file of an image, ``group`` the group.
        source: where it came from.
        feature_names: the d names of the columns of ``x``, where they have names.
        warnings: what its user should know, see :class:`DataWarning`.
        table: the feature columns before encoding, where there were categories or missing values, else None.
        texts: (N,) Python strings where the examples are texts, else None.
        vectors: (N, d) of an encoder, on which models are trained instead of ``x``; None without an encoder.
        encoder: its name.
        all_rows: what is known of the rows of which these are a sample, else None.

    Example:
        >>> import hardpan
        >>> digits = hardpan.Dataset.open("digits")
        >>> digits
        Dataset('digits': 1,797 images of 8 × 8 (uint8), 10 classes)
        >>> digits.select(split="test")
        Dataset('digits': 359 images of 8 × 8 (uint8), 10 classes)
    """

    name: str
    x: NDArray[Any]
    ids: NDArray[np.str_]
    labels: NDArray[np.int64] | None = None
    class_names: tuple[str, ...] = ()
    split: NDArray[np.str_] | None = None
    metadata: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    source: str = ""
    feature_names: tuple[str, ...] = ()
    warnings: tuple[DataWarning, ...] = ()
    table: TableFeatures | None = None
    texts: NDArray[Any] | None = None
    vectors: NDArray[np.float32] | None = None
    encoder: str = ""
    all_rows: AllRows | None = None

    def __post_init__(self) -> None:
        """Check the labels; clean the texts that reach charts, pages and tables."""
        if self.labels is not None and len(self.labels):
            labels = arguments.labels(f"{self.name}: labels", self.labels, len(self.x), self.n_classes)
            object.__setattr__(self, "labels", labels)
        if self.texts is not None:
            texts = np.empty(len(self.texts), dtype=object)  # a fixed width would be that of the longest text
            texts[:] = [clean_text(str(text), lines=True) for text in self.texts]
            object.__setattr__(self, "texts", texts)
        for field_name in ("class_names", "feature_names"):
            object.__setattr__(self, field_name, clean_names(field_name, getattr(self, field_name)))
        columns = zip(clean_names("metadata", tuple(self.metadata)), self.metadata.values(), strict=True)
        object.__setattr__(self, "metadata", {name: clean_column(np.asarray(values)) for name, values in columns})
        for field_name in ("name", "source"):
            object.__setattr__(self, field_name, clean_text(str(getattr(self, field_name))))

    @classmethod
    def open(
        cls,
        source: Any,
        *,
        label: str | int | None = None,
        id: str | int | None = None,
        text: str | int | Sequence[str | int] | None = None,
        group: str | int | None = None,
        columns: Mapping[str, str | int] | None = None,
        features: Sequence[str | int] | None = None,
        drop: Sequence[str | int] = (),
        class_names: Sequence[str] | str | os.PathLike[str] | None = None,
        resize: int | None = None,
        name: str | None = None,
        encoder: Any = None,
        sample: int | Callable[[int, int], int | None] | None = None,
        mirror: str | None = None,
        cache: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> Dataset:
        """Open a dataset: by name, from a file or folder, or from an object that has one.

        A name wins over a file of the same name in the working folder; write ``./digits`` for the file. After
        either, ``@hard.json`` selects the examples of a subset and ``@corrections.csv`` corrects labels
        (:func:`hardpan.data.opening.open_corrected`). How columns become features:
        :mod:`hardpan.data.tabular`.

        Args:
            source: one of :func:`hardpan.data.names`; the path of a file or folder in one of
                :func:`hardpan.data.formats`; a pandas, polars or pyarrow frame; ``(x, y)`` or
                ``(x_train, y_train, x_test, y_test)``; an array, or a mapping of arrays with the keys of an npz
                file; a dataset of PyTorch or Hugging Face; a scikit-learn Bunch; a Dataset.
            label: of a table, the column of classes; by default label, or the only one of labels, target, targets,
                class and y_true, or y.
            id: of a table, the column of ids; by default id. Without ids, a hash of the content.
            text: of a table, the columns of texts, joined with their names where there are several; by default
                text, texts, sentence, document, body or content, or, where nothing else is a feature, all columns
                of sentences.
            group: of a table, a column to keep as ``metadata["group"]``, and not as a feature.
            columns: of a table, columns by role: label, id, text, group, ``split`` (train, validation and test; by
                default split), ``time`` (kept as ``metadata["time"]``; without a split,
                earlier rows are for training and later ones for testing).
            features: of a table, the columns to use; by default all that have no other purpose.
            drop: of a table, columns to leave out.
            class_names: the C names in the order of the class numbers, or a text file with one name per line.
            resize: of images, make all of them this many pixels wide and high.
            name: what to call the dataset; by default the name of the file.
            encoder: what turns images or texts into vectors, on which models are trained then
                (:func:`hardpan.encoders.open_encoder`): module:function, a folder or name of a model, an ONNX file.
            sample: of a table with more rows, read this many at random; what concerns every row is in ``all_rows``,
                and tables larger than memory are read block by block. In Python also a function of the numbers of
                rows and columns.
            mirror: for names that are downloaded, an address with ``NAME/FILE`` under it; else ``HARDPAN_MIRROR``,
                else the publisher's address.
            cache: the folder that keeps downloads as ``NAME/FILE``, and vectors; else ``HARDPAN_CACHE``, else the
                user's cache folder.
            progress: of the encoder, called with the current step and the fraction of the work that is done.

        Example:
            >>> Dataset.open("digits").class_names
            ('0', '1', '2', '3', '4', '5', '6', '7', '8', '9')
            >>> Dataset.open(([[0.0], [1.0], [2.0]], ["no", "yes", "no"]))
            Dataset('arrays': 3 vectors of 1 number (float64), 2 classes)
        """
        from hardpan.data.opening import open_dataset
        from hardpan.data.tabular import DataOptions

        options = DataOptions(
            label, id, text, group, columns, features, drop, class_names, resize, name, encoder, sample
        )
        return open_dataset(source, options, mirror, cache, progress)

    @classmethod
    def from_arrays(
        cls,
        x: ArrayLike,
        y: ArrayLike | None = None,
        *,
        x_test: ArrayLike | None = None,
        y_test: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        class_names: Sequence[str] | None = None,
        split: ArrayLike | None = None,
        metadata: Mapping[str, ArrayLike] | None = None,
        feature_names: Sequence[str] | None = None,
        name: str = "arrays",
    ) -> Dataset:
        """A dataset of arrays.

        Args:
            x: images (N, H, W) or (N, H, W, C), vectors (N, d), or N texts. Images with channels first are
                transposed.
            y: (N,) labels: class numbers 0..C-1, or text. Other whole numbers are taken as names of classes.
            x_test: the official test set, if ``x`` is the training set.
            y_test: its labels.
            ids: one for each row of ``x``, then of ``x_test``; by default a hash of the content.
            class_names: by default the text of the labels in alphabetical order.
            split: "train", "validation" or "test" for each row; not together with ``x_test``.
            metadata: further columns, rows of ``x`` first.
            feature_names: of the columns of ``x``, if it has columns.
            name: what to call the dataset.

        Example:
            >>> Dataset.from_arrays(np.eye(4), ["cat", "dog", "cat", "dog"]).class_names
            ('cat', 'dog')
        """
        from hardpan.data.arrays import from_arrays

        return from_arrays(
            x,
            y,
            x_test=x_test,
            y_test=y_test,
            ids=ids,
            class_names=class_names,
            split=split,
            metadata=metadata,
            feature_names=feature_names,
            name=name,
        )

    @classmethod
    def from_frame(cls, frame: Any, label: str | int | None = None, **options: Any) -> Dataset:
        """A dataset of a pandas, polars or pyarrow frame; options as for :meth:`open`.

        Example:
            >>> import pyarrow
            >>> frame = pyarrow.table({"age": [31, 54, None], "smoker": ["no", "yes", "no"], "ill": [0, 1, 0]})
            >>> Dataset.from_frame(frame, label="ill").feature_names
            ('age', 'age is missing', 'smoker=no', 'smoker=yes')
        """
        return cls.open(frame if is_frame(frame) else read_table(frame), label=label, **options)

    @classmethod
    def from_torch(
        cls, dataset: Any, test: Any = None, *, class_names: Sequence[str] | None = None, name: str | None = None
    ) -> Dataset:
        """A dataset of a PyTorch dataset whose items are (x, label) or mappings; images may have channels first.

        Args:
            dataset: with a length and items by number, or a loader of one; of a stream the first 100,000 items. A
                mapping has one key such as ``image`` or ``pixel_values``, and one such as ``label``.
            test: the official test set, if ``dataset`` is the training set.
            class_names: by default the attribute ``classes`` of the dataset.
            name: what to call the dataset.
        """
        from hardpan.data.opening import from_torch

        return from_torch(dataset, test, class_names=class_names, name=name)

    @classmethod
    def from_huggingface(cls, dataset: Any, label: str | None = None, **options: Any) -> Dataset:
        """A dataset of a Hugging Face dataset, or of one per split; options as for :meth:`open`.

        Of a streamed one the first 100,000 rows of each split are read.
        """
        return cls.open(dataset, label=label, **options)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(self.class_names)

    def place(self, row: int) -> str:
        """Where an example is in its source: the file of an image, else its row, with the official split.

        Example:
            >>> Dataset.open("digits").place(7)
            'row 7'
        """
        path = str(self.metadata["path"][row]) if "path" in self.metadata else ""
        number = int(self.metadata["row"][row]) if "row" in self.metadata else row
        return path or (f"row {number}" if self.split is None else f"{self.split[row]} row {number}")

    def require_labels(self) -> NDArray[np.int64]:
        """The labels; a dataset without labels is refused with what would give it some."""
        if self.labels is None:
            hint = next(
                (item.message for item in self.warnings if item.code == "no_label"), "give y, or a label column"
            )
            raise InputError(f"{self.name}: has no labels; {hint}")
        return self.labels

    @property
    def is_images(self) -> bool:
        """Whether the examples are images, with or without channels, rather than feature vectors."""
        return self.x.ndim > 2

    @property
    def is_texts(self) -> bool:
        """Whether the examples are texts, with or without other columns."""
        return self.texts is not None

    @property
    def noun(self) -> str:
        """What one example is called: "image", "text" or "example"."""
        return "image" if self.is_images else "text" if self.is_texts else "example"

    @property
    def model_inputs(self) -> NDArray[Any]:
        """What a model of the user takes: texts where there is nothing else, else ``x``."""
        return self.x if self.texts is None or self.x.shape[1] else self.texts

    def require_vectors(self, use: str) -> NDArray[Any]:
        """What models are trained on; texts without an encoder are refused."""
        if self.is_texts and self.vectors is None:
            raise InputError(
                f": {use} needs images or vectors, and {self.name} has texts; name an encoder of texts",
                argument="encoder",
            )
        return self.inputs

    def content_hash(self) -> str:
        """Sha256 of all examples."""
        if self.texts is None:
            return array_hash(self.x)
        digest = hashlib.sha256(array_hash(self.x).encode() if self.x.size else b"")
        for text in self.texts:
            digest.update(hashlib.sha256(text.encode()).digest())
        return digest.hexdigest()

    @property
    def inputs(self) -> NDArray[Any]:
        """What models are trained on: the vectors of the encoder, without one ``x``."""
        return self.x if self.vectors is None else self.vectors

    def encoded(
        self, encoder: Any, *, cache: str | os.PathLike[str] | None = None, progress: Progress | None = None
    ) -> Dataset:
        """The same examples with the vectors of an encoder; arguments as for :meth:`open`.

        Example:
            >>> digits = Dataset.open("digits")
            >>> digits.encoded(lambda images: images.mean(axis=2)).inputs.shape
            (1797, 8)
        """
        from hardpan import encoders
        from hardpan.data.downloads import cache_folder

        if not self.is_images and self.texts is None:
            raise InputError(
                f"encodes images and texts; {self.name} has feature columns: leave it out", argument="encoder"
            )
        opened, examples = encoders.open_encoder(encoder), self.x if self.texts is None else self.texts
        vectors = encoders.encode(examples, opened, cache=cache_folder(cache), progress=progress)
        return dataclasses.replace(self, vectors=vectors, encoder=opened.name)

    def with_descriptors(self, progress: Progress | None = None) -> Dataset:
        """Photographs without an encoder with descriptors as vectors; other datasets as they are.

        A small network on their pixels errs more in the time of an audit (bench/modalities.py, table photographs).
        """
        from hardpan import encoders

        if not self.is_images or self.vectors is not None or min(self.x.shape[1:3]) <= LARGEST_PIXELS:
            return self
        vectors = encoders.encode(self.x, encoders.DESCRIPTORS, progress=progress)
        return dataclasses.replace(self, vectors=vectors, encoder=encoders.DESCRIPTORS)

    def features(self) -> NDArray[np.float64]:
        """Every example as a flat vector of float64, shape (N, d)."""
        return self.require_vectors("this").reshape(len(self.x), -1).astype(np.float64)

    def select(self, rows: Any = None, *, split: str | None = None, seed: int = 0) -> Dataset:
        """Some of the examples.

        Args:
            rows: row numbers, a mask of N booleans, ids, or a :class:`~hardpan.confusion.Subset`; the result has
                the order of ``rows``.
            split: "train", "validation" or "test" of :meth:`splits` instead of ``rows``.
            seed: of :meth:`splits`.

        Example:
            >>> digits = Dataset.open("digits")
            >>> [len(digits.select(rows)) for rows in ([5, 3], digits.labels == 3, digits.ids[:2])]
            [2, 183, 2]
        """
        if (rows is None) == (split is None):
            raise InputError("select needs either rows or split; got " + ("neither" if rows is None else "both"))
        if split is not None:
            one_of("split", split, SPLITS)
            index: NDArray[np.int64] = getattr(self.splits(seed), split)
        else:
            index = row_numbers(rows, self)
        table = self.table
        if table is not None:
            table = dataclasses.replace(table, values=table.values[index])
        return dataclasses.replace(
            self,
            x=self.x[index],
            ids=self.ids[index],
            labels=None if self.labels is None else self.labels[index],
            split=None if self.split is None else self.split[index],
            metadata={name: column[index] for name, column in self.metadata.items()},
            table=table,
            texts=None if self.texts is None else self.texts[index],
            vectors=None if self.vectors is None else self.vectors[index],
            all_rows=None,
        )

    def align(self, other: Any, *, by_order: bool = False) -> Dataset:
        """The examples in the order of others.

        Args:
            other: ids, or anything with ``ids`` (a dataset, predictions); every one of them must be here.
            by_order: join by position instead: the rows stay and take the other's ids. Both need the same length.

        Example:
            >>> digits = Dataset.open("digits")
            >>> digits.align(digits.ids[[4, 2]]).labels.tolist()
            [4, 2]
        """
        ids = np.asarray(getattr(other, "ids", other))
        if by_order:
            if ids.shape != (len(self),):
                raise InputError(
                    f"by_order joins rows by position: the dataset has {len(self):,} rows and the other "
                    f"{len(ids):,}; select the same rows first, or join by id"
                )
            return dataclasses.replace(self, ids=ids.astype(np.str_))
        return self.select(ids.astype(np.str_))

    def times(self) -> NDArray[np.float64] | None:
        """The column ``metadata["time"]`` as numbers, -inf where it is empty; None without two different times.

        Example:
            >>> Dataset.from_arrays(np.eye(3), metadata={"time": ["2021-05-01", "2020-01-01", ""]}).times()
            array([1.6198272e+09, 1.5778368e+09,          -inf])
        """
        column = self.metadata.get("time")
        if column is None:
            return None
        text = np.array([str(value).strip() for value in column])
        known = ~np.isin(text, ["", "nan", "NaT", "None"])
        times = np.full(len(text), -np.inf)
        try:
            times[known] = text[known].astype(np.float64)
        except ValueError:
            plain = [
                date.replace(" ", "T", 1).removesuffix("Z").removesuffix("+00:00") for date in text[known].tolist()
            ]
            try:
                times[known] = np.array(plain, dtype="datetime64[us]").astype(np.int64) / 1e6
            except ValueError as error:
                raise InputError(
                    f": the time {text[known][0]!r} is not understood ({error}); give numbers, or dates such as "
                    "2024-05-31 or 2024-05-31 23:59:00",
                    argument="columns",
                ) from error
        return times if len(np.unique(times)) > 1 else None

    def splits(self, seed: int = 0, *, together: ArrayLike | None = None) -> Split:
        """Row numbers of train, validation and test: the one split that everything uses.

        An official test set stays the test set, and 10 % of train become validation, unless the dataset names its
        own validation examples. A dataset without a split is cut 60/20/20: by ``metadata["time"]`` where there are
        times, earlier rows for training and later ones for testing; else examples are ranked by sha256 of
        "seed:id" and cut at the exact fractions, so the order of the rows does not matter; exact repeats (ids that
        end in "-2", "-3") are one example here, so that no copy of a training example is in the test set. Each has
        the same probability to be a test example, however often it is repeated. Where the rarest class has less
        than 5 % of the rows, every class is cut at these fractions; repeats and groups stay together, in the
        stratum of their rarest class.

        Args:
            seed: another seed chooses other examples (never other official test examples).
            together: (N,) group of each example, in place of exact repeats: groups are ranked by their smallest id.

        Example:
            >>> split = Dataset.open("digits").splits(seed=1)
            >>> len(split.train), len(split.validation), len(split.test)
            (1078, 360, 359)
        """
        seed = whole_number("seed", seed)
        rows = np.arange(len(self))
        names = _group_names(self.ids, None if together is None else np.asarray(together))
        times = self.times() if self.split is None else None
        if times is not None:
            train, validation, test = _cut_by_time(times, names, seed)
            method = "60/20/20 by time: train earlier, test later"
        elif self.split is None:
            strata = self._strata()
            train, validation, test = _cut_by_hash(names, rows, seed, FRACTIONS, strata)
            method = "60/20/20 by hash of (id, seed)" + ("" if strata is None else ", each class in proportion")
        elif (self.split == "validation").any():
            train, validation, test = (rows[self.split == name] for name in SPLITS)
            method = "official train, validation and test sets"
        else:
            test = rows[self.split == "test"]
            fractions = (1 - VALIDATION_FRACTION, VALIDATION_FRACTION)
            train, validation = _cut_by_hash(names, rows[self.split != "test"], seed, fractions)
            method = "official test set; validation is 10 % of train by hash of (id, seed)"
        return Split(train, validation, test, method, seed)

    def _strata(self) -> NDArray[np.int64] | None:
        """The class of each row by its rank from the rarest on, where one is rare."""
        if self.labels is None or not len(self.labels):
            return None
        count = np.bincount(self.labels, minlength=self.n_classes)
        used = count[count > 0]
        if len(used) < 2 or used.min() >= RARE_CLASS * len(self.labels):
            return None
        rank = np.empty(len(count), dtype=np.int64)
        rank[np.argsort(np.where(count > 0, count, len(self.labels) + 1), kind="stable")] = np.arange(len(count))
        return rank[self.labels]

    def __repr__(self) -> str:
        shape = self.x.shape[1:]
        kind, each = (
            ("image", " × ".join(map(str, shape))) if self.is_images else ("vector", counted(shape[0], "number"))
        )
        known = "no labels" if self.labels is None else counted(self.n_classes, "class", "classes")
        counts = {} if self.split is None else {name: int((self.split == name).sum()) for name in SPLITS}
        parts = " + ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        size = f"{counted(len(self), kind)} of {each} ({self.x.dtype})"
        if self.is_texts:
            size = counted(len(self), "text") + (f" and {counted(shape[0], 'number')} each" if shape[0] else "")
        encoded = f"encoded by {self.encoder}" if self.encoder else ""
        return f"Dataset({self.name!r}: {', '.join(filter(None, (size, known, parts, encoded)))})"


def row_numbers(rows: Any, examples: Any) -> NDArray[np.int64]:
    """Row numbers of some examples.

    Args:
        rows: row numbers, a mask, ids, or a :class:`~hardpan.confusion.Subset`.
        examples: what they are rows of: has a length and ``ids``.
    """
    if callable(getattr(rows, "rows", None)):  # a Subset, which checks that every id is there
        return np.sort(np.asarray(rows.rows(examples.ids), dtype=np.int64))
    index, n = np.asarray(rows), len(examples)
    if index.ndim != 1:
        raise InputError(f"must be one-dimensional; got shape {index.shape}", argument="rows")
    if index.dtype.kind == "b":
        if len(index) != n:
            raise InputError(f"must be a mask of {n:,} booleans; got {len(index):,}", argument="rows")
        return np.flatnonzero(index)
    if index.dtype.kind in "US":
        return rows_of(examples.ids, index.astype(np.str_))
    if index.size == 0:
        return np.empty(0, dtype=np.int64)
    if index.dtype.kind not in "iu":
        raise InputError(f"must be row numbers, a mask, ids or a Subset; got {index.dtype}", argument="rows")
    if index.min() < 0 or index.max() >= n:
        raise InputError(f"must be between 0 and {n - 1}; got {index.min()} to {index.max()}", argument="rows")
    return index.astype(np.int64)


def rows_of(ids: NDArray[np.str_], selected: NDArray[np.str_]) -> NDArray[np.int64]:
    """Row numbers of the wanted ids; one that is missing is refused.

    Example:
        >>> rows_of(np.array(["a", "b", "c"]), np.array(["c", "a"])).tolist()
        [2, 0]
    """
    order = np.argsort(ids)
    at = np.searchsorted(ids, selected, sorter=order)
    rows = order[np.minimum(at, len(ids) - 1)] if len(ids) else np.zeros(len(selected), dtype=np.int64)
    missing = np.ones(len(selected), dtype=bool) if not len(ids) else ids[rows] != selected
    if missing.any():
        first = str(selected[int(np.argmax(missing))])
        raise InputError(
            f": {int(missing.sum()):,} of {len(selected):,} are not in the dataset, such as {first!r}; give ids "
            "of this dataset, or join by_order if both have the same rows",
            argument="ids",
        )
    return rows.astype(np.int64)


def content_ids(x: NDArray[Any], texts: NDArray[Any] | None = None) -> NDArray[np.str_]:
    """Name every example by its content, the same on every machine and in every order.

    The id is the first 16 hexadecimal digits of sha256 over dtype, shape and bytes of ``x[i]``, or over the text in
    UTF-8 and, where there are other columns, their bytes; the second example with the same content gets "-2", the
    third "-3".

    Args:
        x: examples along the first axis, shape (N, ...).
        texts: (N,) strings where the examples are texts.

    Returns:
        (N,) strings, each once.

    Example:
        >>> content_ids(np.array([[1.0], [2.0], [1.0]])).tolist()
        ['f12f1de45222225a', '377e1c566a8c4e6b', 'f12f1de45222225a-2']
    """
    if texts is not None:
        contents = [text.encode("utf-8", "surrogatepass") for text in texts]
        if x.shape[1]:
            rows = np.ascontiguousarray(x, dtype="<f8")
            contents = [text + b"\0" + row.tobytes() for text, row in zip(contents, rows, strict=True)]
        return numbered_content_ids([hashlib.sha256(content).hexdigest()[:16] for content in contents])
    little = x.dtype.newbyteorder("<")
    start = hashlib.sha256(f"{little.str}{x.shape[1:]}".encode())
    hashes = []
    for first in range(0, len(x), _HASHED_AT_ONCE):
        rows = np.ascontiguousarray(x[first : first + _HASHED_AT_ONCE], dtype=little)
        data = rows.reshape(-1).view(np.uint8)
        for row in data.reshape(len(rows), len(data) // len(rows)):
            digest = start.copy()
            digest.update(row.data)
            hashes.append(digest.hexdigest()[:16])
    return numbered_content_ids(hashes)


def numbered_content_ids(hashes: Sequence[str]) -> NDArray[np.str_]:
    """Ids of hashes: the second example with the same hash gets "-2"."""
    seen: Counter[str] = Counter()
    ids = []
    for name in hashes:
        seen[name] += 1
        ids.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return np.array(ids, dtype=np.str_)


def content_of(name: str) -> str:
    """The id of the first example with the same content: removes "-2", "-3" from content ids, nothing else.

    Example:
        >>> content_of("00112233aabbccdd-3"), content_of("photo-3")
        ('00112233aabbccdd', 'photo-3')
    """
    repeat = _REPEAT.fullmatch(name)
    return repeat[1] if repeat else name


def _cut_by_time(times: NDArray[np.float64], names: NDArray[np.str_], seed: int) -> list[NDArray[np.int64]]:
    """Train, validation and test by rising time, equal times together."""
    rows = np.arange(len(times))
    late = _latest(times, FRACTIONS[2])
    rest = rows[~late]
    validation = FRACTIONS[1] / (FRACTIONS[0] + FRACTIONS[1])
    if len(np.unique(times[rest])) > 1:
        middle = _latest(times[rest], validation)
        return [rest[~middle], rest[middle], rows[late]]
    return [*_cut_by_hash(names, rest, seed, (1 - validation, validation)), rows[late]]


def _latest(times: NDArray[np.float64], fraction: float) -> NDArray[np.bool_]:
    """The latest rows, as near to this fraction of them as equal times allow; at least one, and not all."""
    edge = np.sort(times)[round((1 - fraction) * len(times)) - 1]
    cuts = [cut for cut in (times > edge, times >= edge) if cut.any() and not cut.all()]
    return min(cuts, key=lambda cut: abs(float(cut.mean()) - fraction))


def _group_names(ids: NDArray[np.str_], group: NDArray[Any] | None) -> NDArray[np.str_]:
    """The smallest id of each row's group; without groups, the content of each row."""
    if group is None:
        return np.array([content_of(str(name)) for name in ids], dtype=np.str_)
    if group.shape != ids.shape:
        raise InputError(f"must have a group for each of {len(ids):,} rows; got {group.shape}", argument="together")
    order = np.argsort(ids, kind="stable")
    _, first, number = np.unique(group[order], return_index=True, return_inverse=True)
    names = np.empty_like(ids)
    names[order] = ids[order][first][number.ravel()]
    return names


def _cut_by_hash(
    names: NDArray[np.str_],
    rows: NDArray[np.int64],
    seed: int,
    fractions: Sequence[float],
    strata: NDArray[np.int64] | None = None,
) -> list[NDArray[np.int64]]:
    """Cut ``rows`` at the fractions of their distinct names, in the order of the hashes of these.

    With ``strata``, names are in the order of their smallest stratum, then of their hashes, and the k-th goes where
    a fraction of the first k is reached anew: of every stratum each part gets its proportion, up to one name.
    """
    distinct, group = np.unique(names[rows], return_inverse=True)
    group = group.ravel()
    digests = [hashlib.sha256(f"{seed}:{name}".encode()).digest() for name in distinct.tolist()]
    rank = np.empty(len(distinct), dtype=np.int64)
    rank[sorted(range(len(distinct)), key=digests.__getitem__)] = np.arange(len(distinct))
    # Cut by groups, not by rows: else a large group, which is likely to span an edge, would seldom be in test.
    edges = np.round(np.cumsum(fractions) * len(distinct)).astype(int)
    split_number = np.searchsorted(edges[:-1], rank, side="right")
    if strata is not None:
        own = np.full(len(distinct), strata.max() + 1)
        np.minimum.at(own, group, strata[rows])
        order = np.lexsort([rank, own])
        start = int.from_bytes(hashlib.sha256(f"{seed}:strata".encode()).digest()[:6], "big") / 2**48
        split_number[order] = _parts_in_proportion(own[order], fractions, start)
    return [np.sort(rows[split_number[group] == k]) for k in range(len(fractions))]


def _parts_in_proportion(strata: NDArray[np.int64], fractions: Sequence[float], start: float) -> NDArray[np.int64]:
    """The part of each of n names in the order of their strata; ``start`` in [0, 1) decides how halves are rounded.

    Part k of a stratum that ends at the c-th name has ⌊F_k c + start⌋ − ⌊F_k b + start⌋ names up to it, with b the
    end of the stratum before, F_k the fraction of the parts up to k: its proportion on average over ``start``.

    Example:
        >>> _parts_in_proportion(np.repeat([0, 1], [5, 10]), (0.6, 0.2, 0.2), 0.0).tolist()
        [0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2]
    """
    ends = np.flatnonzero(np.append(np.diff(strata) != 0, True)) + 1
    split_number, before = np.empty(len(strata), dtype=np.int64), 0
    for end in ends.tolist():
        edges = [
            int(np.floor(f * end + start + 1e-9)) - int(np.floor(f * before + start + 1e-9))
            for f in np.cumsum(fractions)[:-1]
        ]
        split_number[before:end] = np.searchsorted(edges, np.arange(end - before), side="right")
        before = end
    return split_number


def dataset_hash(x: NDArray[Any], limit: int = _HASHED_BYTES) -> str:
    """Hash of the examples, so that a run does not resume with changed ones under the same ids.

    Up to ``limit`` bytes every value counts; of larger arrays, evenly spaced rows of that size, and the shape.

    Example:
        >>> x = np.arange(12.0).reshape(6, 2)
        >>> dataset_hash(x) == array_hash(x), dataset_hash(x, limit=48) == dataset_hash(x)
        (True, False)
    """
    if x.nbytes <= limit:
        return array_hash(x)
    sample = array_hash(x[:: -(-x.nbytes // limit)])
    return array_hash(np.array([sample, str(x.shape)]))
