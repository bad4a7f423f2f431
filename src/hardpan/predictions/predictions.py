"""``Predictions``: class probabilities of seeds × epochs × examples × classes, in memory or on disk."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.arguments import one_of
from hardpan.data.dataset import SPLITS, Dataset, Split, row_numbers
from hardpan.data.opening import SEPARATOR, data_source_name, open_subset_rows
from hardpan.errors import InputError, counted, few
from hardpan.predictions.checks import ROW_ID, common_epochs

if TYPE_CHECKING:
    from hardpan.outcomes import Outcomes
    from hardpan.predictions.arrays import ArrayReader
    from hardpan.predictions.store import Store

PathLike = str | os.PathLike[str]
_CLASS_CHECK_ROWS = 20_000
_MOST_DIFFERING = 0.1  # of the labels that predictions and dataset both know; beyond it they are of other data


class Predictions:
    """Class probabilities of M seeds × T epochs × N examples × C classes, with the ids of the examples.

    :meth:`open`, :meth:`create` and the ``from_*`` methods make one. It is read one (seed, epoch) at a time, whole
    or a range of rows, so that it may be larger than memory.

    Attributes:
        reader: the store or array that the numbers are read from.
        where: path or name, for messages.
        class_names: the C names; empty if unknown.
        n_classes: number of classes.
        dtype: type of the numbers that :meth:`read` returns.
        block: rows stored together: ranges that begin at a multiple of it are read fastest.
        config: the configuration that made the predictions.
        versions: of the software that wrote them.
        outputs: what the source contains: "probabilities", "logits", "labels" or "unnormalized" probabilities.
        relabelled: number of examples whose own label is another than that of the dataset they were aligned to.

    Example:
        >>> p = Predictions.from_arrays(np.array([[0.25, 0.75], [1.0, 0.0]]), labels=[1, 0])
        >>> p
        Predictions('probs': 1 seed × 1 epoch × 2 examples × 2 classes (float64))
        >>> p.read(seed=0, epoch=0, start=1).tolist()
        [[1.0, 0.0]]
    """

    @classmethod
    def open(
        cls,
        source: Any,
        *,
        labels: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        class_names: Sequence[str] = (),
        outputs: str = "auto",
        normalize: bool = False,
        columns: Mapping[str, str] | None = None,
    ) -> Predictions:
        """Open predictions: a store, a file, an array, a data frame, or predictions that are open already.

        Args:
            source: path of a store (folder or fsspec address), an npz or npy file, a table (CSV, JSONL, Parquet);
                ``@hard.json`` after a path keeps only the examples of a subset. Or an array as in
                :meth:`from_arrays`, a pandas, polars or pyarrow table, or ``Predictions``.
            labels: (N,) class numbers or names, in place of those in a file.
            ids: (N,) ids, likewise.
            class_names: the C names, likewise.
            outputs: "probabilities", "logits", "labels" (hard predictions), or "auto", which looks at the numbers.
            normalize: divide every row by its sum, for rounded rows or percentages.
            columns: names of the columns of a table by role ("id", "label", "split", "model", "seed", "epoch"),
                where they are not found by their names.

        An npz file contains ``probabilities`` (or ``probs``, ``logits``, ``predictions``) with four, three or two
        axes, and may contain ``ids``, ``labels``, ``split``, ``class_names``, ``seeds``, ``epochs`` and ``models``.
        """
        from hardpan.predictions import opening

        stated = {"labels": labels, "ids": ids, "class_names": tuple(class_names) or None, "roles": columns}
        return opening.open_any(
            source, outputs, normalize, {name: value for name, value in stated.items() if value is not None}
        )

    @classmethod
    def create(
        cls,
        path: PathLike,
        *,
        ids: ArrayLike,
        n_classes: int,
        labels: ArrayLike | None = None,
        class_names: Sequence[str] = (),
        split: ArrayLike | None = None,
        config: Mapping[str, Any] | None = None,
        dtype: str = "float16",
        block: int | None = None,
    ) -> Predictions:
        """Create an empty store; an existing one is refused.

        Args:
            path: a new folder, or an fsspec address such as ``s3://bucket/run``.
            ids: (N,) ids of the examples, each once.
            n_classes: number of classes.
            labels: (N,) class numbers 0..C-1, if known.
            class_names: the C names, if known.
            split: (N,) "train", "validation" or "test", if known.
            config: JSON values that describe what makes the predictions.
            dtype: "float16" or "float32".
            block: rows per shard; by default as many as fill 4 to 16 MiB.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     p = Predictions.create(folder + "/run", ids=["a", "b"], n_classes=2)
            ...     p.write(0, 1, np.array([[0.25, 0.75], [1.0, 0.0]]))
            ...     Predictions.open(folder + "/run").read(seed=0, epoch=1).tolist()
            [[0.25, 0.75], [1.0, 0.0]]
        """
        from hardpan.predictions.store import begin_store

        store = begin_store(
            path,
            ids=ids,
            n_classes=n_classes,
            labels=labels,
            class_names=class_names,
            split=split,
            config=config,
            dtype=dtype,
            block=block,
            resume=False,
        )
        return cls(store)

    @classmethod
    def from_outcomes(cls, outcomes: Outcomes) -> Predictions:
        """Probabilities of the choices of multiple-choice items, from logs that have their log-probabilities.

        Each model is a "seed" with one epoch, each choice a class: p_c = exp(l_c) / Σ exp(l). Items whose right
        choice is unknown, or that a model lacks, are left out.

        Args:
            outcomes: from logs of lm-evaluation-harness (:meth:`hardpan.Outcomes.open`).

        Example:
            >>> from hardpan.outcomes import Choices, Outcomes
            >>> choices = Choices(np.log(np.array([[[0.1, 0.3], [0.2, 0.2]]], dtype=np.float32)), np.array([1, -1]))
            >>> outcomes = Outcomes(np.array([[1.0, 0.0]]), ("a",), np.array(["q1", "q2"]), choices=choices)
            >>> Predictions.from_outcomes(outcomes).to_array().round(2).tolist()
            [[[[0.25, 0.75]]]]
        """
        choices = outcomes.choices
        if choices is None:
            raise InputError(
                "outcomes has no log-probabilities of choices; expected logs of a multiple-choice task of "
                "lm-evaluation-harness, written with --log_samples"
            )
        probs = choices.probabilities()
        keep = (choices.right >= 0) & np.isfinite(probs).all(axis=(0, 2))
        if not keep.any():
            raise InputError("outcomes has no item with a known right choice that every model answered")
        return cls.from_arrays(
            probs[:, keep],
            labels=choices.right[keep],
            ids=outcomes.items[keep],
            models=outcomes.models,
            outputs="probabilities",
            name=outcomes.source or "outcomes",
        )

    @classmethod
    def from_arrays(
        cls,
        probs: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        class_names: Sequence[str] = (),
        split: ArrayLike | None = None,
        models: Sequence[str] | None = None,
        outputs: str = "auto",
        normalize: bool = False,
        seeds: Sequence[int] | None = None,
        epochs: Sequence[int] | None = None,
        held_out: bool = False,
        name: str = "probs",
    ) -> Predictions:
        """Predictions of an array, read-only and without a copy.

        Args:
            probs: four axes are (seeds, epochs, examples, classes), three (epochs, examples, classes), or, with
                ``models``, (models, examples, classes), two (examples, classes); float16, float32 or float64.
                Integers or text, (examples,) or (models, examples), are hard predictions.
            labels: (N,) class numbers, or names of classes.
            ids: (N,) ids; by default "row-0000000", ....
            class_names: the C names.
            split: (N,) "train", "validation" or "test".
            models: names of the models along the first axis.
            outputs: "probabilities", "logits", "labels", or "auto", which looks at the first rows.
            normalize: divide every row by its sum.
            seeds: numbers of the seeds; by default 0, 1, ....
            epochs: numbers of the epochs; by default 0, 1, ....
            held_out: no model was trained or tuned on any of these examples.
            name: what to call the array in messages.

        Example:
            >>> forest, linear = np.array([[0.2, 0.8], [0.9, 0.1]]), np.array([[0.4, 0.6], [0.3, 0.7]])
            >>> p = Predictions.from_arrays([forest, linear], models=["forest", "linear"], labels=[1, 0])
            >>> p.models, p.outcomes().scores.tolist()
            (('forest', 'linear'), [[1.0, 1.0], [1.0, 0.0]])
        """
        from hardpan.predictions.arrays import array_predictions

        return array_predictions(
            probs,
            where=name,
            ids=ids,
            labels=labels,
            class_names=class_names,
            split=split,
            models=models,
            outputs=outputs,
            normalize=normalize,
            seeds=seeds,
            epochs=epochs,
            config={"held_out": True} if held_out else {},
        )

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        dataset: Dataset,
        *,
        folds: int = 0,
        group: ArrayLike | None = None,
        held_out: bool = False,
        name: str = "",
        seed: int = 0,
    ) -> Predictions:
        """Predictions of a fitted scikit-learn estimator, of a function, or of ``"module:function"``.

        Args:
            model: has ``predict_proba`` or ``predict``; or a function of the examples that returns probabilities
                (N, C) or class numbers (N,); or the import path of either.
            dataset: the examples to predict.
            folds: with k ≥ 2 the estimator is cloned, refitted and applied by stratified k-fold cross-validation,
                so that every prediction is of a model that has not seen the example. 0 applies the model as it is.
            group: (N,) group of each example: every group is in one fold; by default the dataset's own groups.
            held_out: the model was not trained or tuned on any of these examples. Without it, and without
                ``folds``, an audit shows the model as one that may have seen them.
            name: of the model.
            seed: of the folds.

        Example:
            >>> from sklearn.naive_bayes import GaussianNB
            >>> digits = Dataset.open("digits")
            >>> model = GaussianNB(var_smoothing=0.01).fit(digits.features(), digits.labels)
            >>> seen = Predictions.from_estimator(model, digits)
            >>> unseen = Predictions.from_estimator(model, digits, folds=5)
            >>> [p.held_out for p in (seen, unseen)]
            [False, True]
            >>> bool(seen.outcomes().scores.mean() > unseen.outcomes().scores.mean() > 0.8)
            True
        """
        from hardpan.predictions.models import estimator_predictions

        return estimator_predictions(model, dataset, folds, group, held_out, name, seed)

    @classmethod
    def from_torch(
        cls, module: Any, loader: Any, *, class_names: Sequence[str] = (), held_out: bool = False, device: str = ""
    ) -> Predictions:
        """Predictions of a PyTorch module for the batches of a loader that does not shuffle.

        Args:
            module: returns logits or probabilities (n, C); it is put into evaluation mode meanwhile.
            loader: yields inputs, (inputs, labels) or (inputs, labels, ...) in a fixed order.
            class_names: the C names.
            held_out: the module was not trained or tuned on any of these examples.
            device: where to run; by default where the module's parameters are.
        """
        from hardpan.predictions.models import torch_predictions

        return torch_predictions(module, loader, class_names, held_out, device)

    def __init__(self, reader: ArrayReader | Store) -> None:
        self.reader, self.where, self.class_names = reader, reader.where, reader.class_names
        self.n_classes, self.dtype, self.block = reader.n_classes, reader.dtype, reader.block
        self.config, self.versions, self.outputs = reader.config, reader.versions, reader.outputs
        self.relabelled = 0
        self._read_only = False
        self._rows: NDArray[np.int64] | None = None  # of the reader, in the order of the examples
        self._dataset_rows: NDArray[np.int64] | None = None
        self._classes: NDArray[np.int64] | None = None  # of the reader, in the order of the classes
        self._seeds: tuple[int, ...] | None = None
        self._epochs: tuple[int, ...] | None = None
        self._columns: dict[str, Any] = {}  # in place of those of the reader

    def __len__(self) -> int:
        return len(self.reader) if self._rows is None else len(self._rows)

    def _column(self, name: str) -> Any:
        if name in self._columns:
            return self._columns[name]
        values = self.reader.column(name)
        return values if values is None or self._rows is None else values[self._rows]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds with at least one complete epoch, in order, or those that were selected."""
        return self.reader.seeds if self._seeds is None else self._seeds

    def epochs_of(self, seed: int) -> tuple[int, ...]:
        """The complete epochs of one seed, in order."""
        if seed not in self.seeds:
            return ()
        return self.reader.epochs_of(seed) if self._epochs is None else self._epochs

    @property
    def ids(self) -> NDArray[np.str_]:
        """Ids of the examples, shape (N,)."""
        ids: NDArray[np.str_] = self._column("ids")
        return ids

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """Class numbers, shape (N,), or None."""
        labels: NDArray[np.int64] | None = self._column("labels")
        return labels

    @property
    def split(self) -> NDArray[np.str_] | None:
        """ "train", "validation" or "test" of each example, shape (N,), or None."""
        split: NDArray[np.str_] | None = self._column("split")
        return split

    @property
    def epochs(self) -> tuple[int, ...]:
        """The epochs that every seed has, in order, or those that were selected."""
        if self._epochs is not None:
            return self._epochs
        return common_epochs({seed: self.epochs_of(seed) for seed in self.seeds})

    @property
    def models(self) -> tuple[str, ...]:
        """A name for each seed: that of a named model, or "seed 0", "seed 1", ...."""
        names = self.reader.model_names()
        return tuple(names.get(seed, f"seed {seed}") for seed in self.seeds)

    @property
    def named(self) -> bool:
        """Whether the seeds are different models with names, and not repeats of one training."""
        return bool(self.reader.model_names())

    @property
    def held_out(self) -> bool:
        """Whether it was stated that no model was trained or tuned on these examples."""
        return bool(self.config.get("held_out", False))

    @property
    def held_out_rows(self) -> NDArray[np.bool_]:
        """(N,) whether an example was held out: all if stated, else those outside of the training split."""
        if self.held_out:
            return np.ones(len(self), dtype=bool)
        return np.zeros(len(self), dtype=bool) if self.split is None else np.asarray(self.split != "train")

    @property
    def rows(self) -> NDArray[np.int64]:
        """(N,) row of each example in the dataset that these predictions were aligned to; before that, its own."""
        known = self._rows if self._dataset_rows is None else self._dataset_rows
        return np.arange(len(self)) if known is None else known

    @property
    def whole(self) -> bool:
        """Whether the rows and classes are those of :attr:`reader`, in its order."""
        return self._rows is None and self._classes is None

    @property
    def address(self) -> str:
        """Where another process can read the same rows; "" if it cannot."""
        return self.reader.address if self.whole else ""

    @property
    def array(self) -> NDArray[Any] | None:
        """The probabilities (seeds, epochs, examples, classes), where nothing has to be read or converted."""
        array = self.reader.array if self.whole else None
        if array is not None:
            all_seeds = self.reader.seeds
            all_epochs = self.reader.epochs_of(all_seeds[0])
            for axis, (used, known) in enumerate(((self.seeds, all_seeds), (self.epochs, all_epochs))):
                if used != known:
                    array = np.take(array, [known.index(number) for number in used], axis=axis)
        return array

    @property
    def has_ids(self) -> bool:
        """Whether the examples have ids of their own, and not only row numbers."""
        return not all(ROW_ID.fullmatch(str(name)) for name in self.ids[:3])

    def committed(self, seed: int, epoch: int) -> bool:
        """Whether the predictions of this seed and epoch are complete."""
        selected = self._seeds is None or seed in self._seeds, self._epochs is None or epoch in self._epochs
        return all(selected) and self.reader.committed(seed, epoch)

    def read(self, seed: int, epoch: int, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Probabilities of rows start..stop of one seed and epoch, shape (stop − start, C), as stored."""
        end = len(self) if stop is None else stop
        if not 0 <= start <= end <= len(self):
            raise InputError(f"{self.where}: rows {start}..{end} are not within 0..{len(self)}")
        if not self.committed(seed, epoch):
            known = ", ".join(map(str, self.epochs_of(seed))) or "none"
            raise InputError(f"{self.where}: seed {seed} has no epoch {epoch}; its epochs: {known}")
        if self._rows is None:
            probs = self.reader.read_rows(seed, epoch, start, end)
        else:
            rows = self._rows[start:end]
            probs, blocks = np.empty((len(rows), self.n_classes), dtype=self.dtype), rows // self.block
            for block in np.unique(blocks).tolist():  # each block is read once
                here = blocks == block
                first, last = int(rows[here].min()), int(rows[here].max())
                probs[here] = self.reader.read_rows(seed, epoch, first, last + 1)[rows[here] - first]
        return probs if self._classes is None else probs[:, self._classes]

    def write(self, seed: int, epoch: int, probs: ArrayLike, start: int = 0) -> None:
        """Record rows start.. of one seed and epoch in a store, and commit the shards that they fill.

        Args:
            seed: number of the training run, 0 or more.
            epoch: number of the epoch, 0 or more.
            probs: probabilities, shape (n, C); rounded to the type of the store.
            start: the first row: a multiple of ``block``, and the rows end at another or at the last example.

        What is committed already is not written again: the same numbers are accepted, others are refused.
        """
        from hardpan.predictions.store import Store

        if self._read_only or not isinstance(self.reader, Store):
            raise InputError(f"{self.where}: is read-only; create a store with hardpan.Predictions.create")
        self.reader.write(seed, epoch, probs, start)

    def blocks(self) -> Iterator[tuple[int, int]]:
        """The ranges (start, stop) of rows that are stored together, in order."""
        for start in range(0, len(self), self.block):
            yield start, min(start + self.block, len(self))

    def to_array(
        self, seeds: Sequence[int] | None = None, epochs: Sequence[int] | None = None, *, rows: Any = slice(None)
    ) -> NDArray[Any]:
        """Everything in memory, shape (seeds, epochs, examples, classes); for small sets."""
        runs = self.seeds if seeds is None else tuple(seeds)
        common = self.epochs if epochs is None else tuple(epochs)
        return np.stack([np.stack([self.read(seed, epoch)[rows] for epoch in common]) for seed in runs])

    def final_probs(self, seed: int | None = None) -> NDArray[np.float64]:
        """Probabilities (N, C) at the last epoch that every seed has: of one seed, or the mean over seeds."""
        epoch = self.last_epoch()
        if seed is not None:
            return self.read(seed, epoch).astype(np.float64)
        total = np.zeros((len(self), self.n_classes))
        for each in self.seeds:
            total += self.read(each, epoch)
        return total / len(self.seeds)

    def last_epoch(self) -> int:
        """The last epoch that every seed has."""
        if not self.epochs:
            raise InputError(f"{self.where}: no epoch is complete for every seed; finish the recording first")
        return self.epochs[-1]

    def by_model(self) -> dict[str, Predictions]:
        """One ``Predictions`` per named model; all seeds together, under their short name, if none is named."""
        if not self.named:
            return {data_source_name(self.where): self}
        seeds: dict[str, list[int]] = {}
        for seed, model in zip(self.seeds, self.models, strict=True):
            seeds.setdefault(model, []).append(seed)
        return {model: self.select(seeds=numbers) for model, numbers in seeds.items()}

    def select(
        self,
        rows: Any = None,
        *,
        split: str | None = None,
        seeds: Sequence[int] | None = None,
        epochs: Sequence[int] | None = None,
    ) -> Predictions:
        """Some of the examples, seeds and epochs, read-only.

        Args:
            rows: row numbers, a mask of N booleans, ids, a :class:`~hardpan.confusion.Subset` or the path of one.
            split: "train", "validation" or "test" instead of ``rows``.
            seeds: numbers of the seeds to keep, in this order.
            epochs: numbers of the epochs to keep, in this order.

        Example:
            >>> p = Predictions.from_arrays(np.array([[0.25, 0.75], [1.0, 0.0]]), ids=["a", "b"])
            >>> p.select([1]).ids.tolist()
            ['b']
        """
        if rows is not None and split is not None:
            raise InputError("select needs rows or split; got both")
        numbers, mark = None, ""
        if split is not None:
            one_of("split", split, SPLITS)
            if self.split is None or split not in self.split:
                known = "no split" if self.split is None else f"only {', '.join(np.unique(self.split))}"
                raise InputError(f": {self.where} has no {split} examples ({known})", argument="split")
            numbers = np.flatnonzero(self.split == split)
        elif isinstance(rows, (str, os.PathLike)):
            numbers, mark = open_subset_rows(os.fspath(rows), self.ids), f"{SEPARATOR}{os.fspath(rows)}"
        elif rows is not None:
            numbers = row_numbers(rows, self)
        some_seeds = None if seeds is None else self._each_once("seeds", seeds, self.seeds)
        result = self._selected(numbers)
        if epochs is not None:
            common = (
                self.epochs
                if some_seeds is None
                else common_epochs({seed: self.epochs_of(seed) for seed in some_seeds})
            )
            result._epochs = self._each_once("epochs", epochs, common)
        result._seeds = self._seeds if some_seeds is None else some_seeds
        result.where += mark
        return result

    def _each_once(self, what: str, values: Sequence[int], known: Sequence[int]) -> tuple[int, ...]:
        """Selected numbers of seeds or epochs, each of them known and named once."""
        numbers = np.atleast_1d(np.asarray(values))
        if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iu":
            raise InputError(f"must be whole numbers such as [0, 1, 2]; got {values!r}", argument=what)
        result = tuple(numbers.tolist())
        absent = next((number for number in result if number not in known), None)
        if absent is not None:
            listed = ", ".join(map(str, known)) or "none"
            raise InputError(f": {self.where} has no {what[:-1]} {absent}; it has {listed}", argument=what)
        if len(set(result)) < len(result):
            raise InputError(f"must name each number once; got {', '.join(map(str, result))}", argument=what)
        return result

    def with_columns(self, **columns: Any) -> Predictions:
        """The same predictions with other ids, labels or split, given as checked columns."""
        result = self._selected(None)
        result._columns |= columns
        return result

    def _selected(self, rows: NDArray[np.int64] | None) -> Predictions:
        """A read-only copy with some of the examples, all if None."""
        result = copy.copy(self)
        result._read_only, result._columns = True, dict(self._columns)
        result._epochs = None if self._epochs is None else tuple(sorted(self._epochs))
        if rows is not None:
            result._rows = rows if self._rows is None else self._rows[rows]
            result._dataset_rows = None if self._dataset_rows is None else self._dataset_rows[rows]
            result._columns = {
                name: None if values is None else values[rows] for name, values in self._columns.items()
            }
        return result

    def align(
        self, to: Dataset | ArrayLike, *, by_order: bool = False, split: Split | None = None, check: bool = True
    ) -> Predictions:
        """Join predictions to a dataset: its examples that are predicted, in its order, with its labels and split.

        Classes are joined by name, whatever the order of their columns; where either side has only numbers, by
        position. Examples are joined by id. Either the predictions cover every example of the dataset, or every
        predicted example is one of the dataset's; two sets that only overlap are refused. :attr:`rows` of the
        result are the row numbers in the dataset.

        Args:
            to: the dataset, or ids.
            by_order: join by position, because there are no ids: the rows are all examples of the dataset in its
                order, or all of its test examples.
            split: which examples are the test examples; by default ``dataset.splits()``.
            check: refuse predictions whose class columns look permuted or shifted against the labels.

        Example:
            >>> p = Predictions.from_arrays(np.array([[0.25, 0.75], [1.0, 0.0]]), ids=["a", "b"])
            >>> aligned = p.align(["b", "c", "a"])
            >>> aligned.ids.tolist(), aligned.rows.tolist()
            (['b', 'a'], [0, 2])
        """
        dataset = to if isinstance(to, Dataset) else None
        ids = np.asarray(to.ids if isinstance(to, Dataset) else to, dtype=np.str_)
        if ids.ndim != 1:
            raise InputError(f"must be a hardpan.Dataset or ids; got {type(to).__name__}", argument="to")
        name, classes = ("the given ids", 0) if dataset is None else (dataset.name, len(dataset.class_names))
        if classes and classes != self.n_classes:
            raise InputError(
                f"{self.where}: predicts {self.n_classes} classes, but {name} has {classes}; give predictions of "
                "this dataset, with its classes numbered from 0"
            )
        order = None if dataset is None else self._class_order(dataset)
        if not by_order:
            mine, theirs = self._by_id(ids, name)
        else:  # the test examples are looked for only where the rows are not all examples
            complete = dataset is None or len(self) == len(ids)
            test = None if complete or dataset is None else np.asarray((split or dataset.splits()).test)
            mine, theirs = self._by_order(ids, test)
        identical = len(mine) == len(self) and bool((mine == np.arange(len(mine))).all())
        labels = None if self.labels is None else self.labels[mine]
        mixed = None if self.split is None else self.split[mine]
        class_names = self.class_names
        if order is not None:
            assert dataset is not None
            class_names = dataset.class_names
            labels = None if labels is None else np.argsort(order)[labels]
        relabelled = 0
        if dataset is not None:
            labels, relabelled = self._joined_labels(dataset, labels, theirs, by_order)
            if mixed is None and dataset.split is not None:
                mixed = dataset.split[theirs]
            if not class_names and classes == self.n_classes:
                class_names = dataset.class_names
        view = self._selected(None if identical else mine).with_columns(ids=ids[theirs], labels=labels, split=mixed)
        view.class_names, view.relabelled, view._dataset_rows = class_names, relabelled, theirs
        if order is not None:
            view._classes = order if self._classes is None else self._classes[order]
        if check and labels is not None:
            view.check_classes()
        return view

    def _class_order(self, dataset: Dataset) -> NDArray[np.int64] | None:
        """The columns of the classes in the dataset's order; None where they are in it, or have only numbers."""
        mine, theirs = self.class_names, dataset.class_names
        if not mine or not theirs or mine == theirs:
            return None
        if set(mine) == set(theirs):
            return np.array([mine.index(name) for name in theirs])
        if any(all(name.lstrip("-").isdigit() for name in names) for names in (mine, theirs)):
            return None
        raise InputError(
            f"{self.where}: has the classes {few(mine)}, but {dataset.name} has {few(theirs)}; give every column "
            "the name of its class, or call them p0, p1, ... in the order of the dataset's classes"
        )

    def check_classes(self, answers: NDArray[np.int64] | None = None) -> None:
        """Refuse predictions whose classes look permuted, shifted or of another numbering than the labels.

        The predicted class of (a sample of) the examples at the last epoch is compared with the labels.

        Args:
            answers: (seeds, N) the predicted classes, where they are known; otherwise they are read.
        """
        labels = self.labels
        if labels is None or not self.epochs:
            return
        rows = np.arange(len(self))
        if len(self) > _CLASS_CHECK_ROWS:
            rows = np.sort(np.random.default_rng([0, len(self)]).permutation(len(self))[:_CLASS_CHECK_ROWS])
        models = self.models if self.named else self.models[:1]
        if answers is None:
            sample, epoch = self.select(rows), self.epochs[-1]
            guesses = [sample.read(seed, epoch).argmax(axis=1) for seed in self.seeds[: len(models)]]
        else:
            guesses = list(answers[: len(models), rows])
        from hardpan.outcomes.classes import check_predicted_classes

        for model, guess in zip(models, guesses, strict=True):
            try:
                check_predicted_classes(model, guess, labels[rows])
            except InputError as error:
                raise InputError(f"{self.where}: {error} (check=False, --set class_check=false)") from error

    def outcomes(self, labels: ArrayLike | None = None) -> Outcomes:
        """Right (1) or wrong (0) of every model or seed on every example, at the last epoch that all seeds have.

        Args:
            labels: (N,) class numbers; by default those of the predictions.

        Example:
            >>> Predictions.from_arrays(np.array([[0.25, 0.75], [1.0, 0.0]])).outcomes([1, 1]).scores.tolist()
            [[1.0, 0.0]]
        """
        from hardpan.outcomes import Outcomes

        truth = self.labels if labels is None else np.asarray(labels)
        if truth is None:
            raise InputError(f"{self.where}: has no labels; give labels, or align it with a dataset that has them")
        if truth.shape != (len(self),) or truth.dtype.kind not in "iu":
            raise InputError(
                f"must be {len(self):,} class numbers; got {truth.dtype} of {truth.shape}", argument="labels"
            )
        epoch = self.last_epoch()
        # Numbers of at least 0 have the order of their bits, and whole numbers are compared many at once.
        bits = np.int16 if self.dtype == np.float16 else self.dtype
        spans = tuple(self.blocks())
        rows = [[self.read(seed, epoch, *span).view(bits).argmax(axis=1) for span in spans] for seed in self.seeds]
        guesses = np.stack([np.concatenate(row) for row in rows])
        names = np.array(self.class_names or [str(label) for label in range(self.n_classes)])
        result = Outcomes.from_arrays(
            (guesses == truth).astype(np.float64),
            models=self.models,
            items=self.ids.tolist(),
            groups={} if self.split is None else {"split": self.split.tolist()},
            answers=names[guesses],
            key=names[truth].tolist(),
        )
        notes: tuple[str, ...] = ()
        if len(self.epochs) > 1 and len(self.seeds) == 1:
            notes = (
                f"One model with {len(self.epochs):,} epochs; epoch {epoch} is scored. "
                "Several models instead of epochs: name them by models=.",
            )
        elif len(self.epochs) > 1:
            notes = (f"Epoch {epoch} is scored.",)
        return dataclasses.replace(result, source=self.where, notes=notes)

    def _by_id(self, ids: NDArray[np.str_], name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if np.array_equal(self.ids, ids):
            return np.arange(len(ids)), np.arange(len(ids))
        order = np.argsort(self.ids, kind="stable")
        at = np.clip(np.searchsorted(self.ids, ids, sorter=order), 0, len(order) - 1)
        rows = order[at]
        known = np.asarray(self.ids[rows] == ids)
        absent, unknown = len(ids) - int(known.sum()), len(self) - int(known.sum())
        if not self.has_ids and unknown:
            raise InputError(
                f"{self.where}: has no ids; pass by_order=True (--set by_order=true) if its {len(self):,} rows "
                f"are in the order of {name}, or of its test examples"
            )
        if absent and unknown:
            example = self.ids[np.isin(self.ids, ids, invert=True)][0]
            raise InputError(
                f"{self.where}: {unknown:,} of its {len(self):,} ids are not in {name} (first {str(example)!r}), "
                f"and {absent:,} of {len(ids):,} examples of {name} have no prediction; give predictions of this "
                "dataset"
            )
        return rows[known].astype(np.int64), np.flatnonzero(known)

    def _by_order(
        self, ids: NDArray[np.str_], test: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        n = len(self)
        if n == len(ids):
            theirs = np.arange(n)
        elif test is not None and n == len(test):
            theirs = test
        else:
            expected = f"{len(ids):,}" if test is None else f"{len(ids):,} (all examples) or {len(test):,} (test)"
            raise InputError(f"{self.where}: has {n:,} rows; by_order (--set by_order=true) needs {expected}")
        if not np.array_equal(self.ids, ids[theirs]) and np.isin(self.ids, ids).all():
            raise InputError(
                f"{self.where}: has the dataset's ids, in another order; leave out by_order (--set by_order=true): "
                "rows with ids are joined by id"
            )
        return np.arange(n), theirs

    def _joined_labels(
        self, dataset: Dataset, labels: NDArray[np.int64] | None, rows: NDArray[np.int64], by_order: bool
    ) -> tuple[NDArray[np.int64] | None, int]:
        """The dataset's labels, and how many differ; few may, and none where examples are joined by position."""
        if dataset.labels is None:
            return labels, 0
        known: NDArray[np.int64] = dataset.labels[rows]
        differing = 0 if labels is None else int(np.count_nonzero(labels != known))
        if differing > (0 if by_order else _MOST_DIFFERING * len(known)):
            raise InputError(
                f"{self.where}: its labels differ from those of {dataset.name} for {differing:,} of {len(known):,} "
                "examples; give the dataset that was predicted, with its classes numbered alike"
                + (" and its rows in the same order" if by_order else "")
            )
        return known, differing

    def __repr__(self) -> str:
        who = counted(len(self.models), "model") if self.named else counted(len(self.seeds), "seed")
        sizes = (who, counted(len(self.epochs), "epoch"), counted(len(self), "example"))
        classes = counted(self.n_classes, "class", "classes")
        return f"Predictions({self.where!r}: {' × '.join(sizes)} × {classes} ({self.dtype}))"
