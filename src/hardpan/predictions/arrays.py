"""Predictions in arrays, and in npy and npz files: mapped where the file allows it, never unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.arguments import clean_text
from hardpan.errors import InputError, few
from hardpan.files import npz_header, read_npy, read_npz
from hardpan.predictions.checks import (
    Columns,
    by_name,
    check_logits,
    check_rows,
    checked_columns,
    checked_seeds_or_epochs,
    detect,
    normalized,
    softmax,
)
from hardpan.predictions.layout import default_block
from hardpan.predictions.predictions import Predictions


class ArrayReader:
    """Predictions in an array (seeds, epochs, examples, classes), or class numbers (seeds, epochs, examples).

    ``outputs`` is what the array contains: "probabilities", "logits", "labels" or "unnormalized" probabilities.
    """

    address = ""  # another process cannot open it

    def __init__(
        self,
        where: str,
        array: NDArray[Any],
        outputs: str,
        columns: Columns,
        *,
        n_classes: int,
        seeds: tuple[int, ...],
        epochs: tuple[int, ...],
        models: tuple[str, ...] = (),
        pairs: frozenset[tuple[int, int]] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.where, self._values, self.outputs, self._columns = where, array, outputs, columns
        self._seeds, self._epochs, self._models = seeds, epochs, models
        self._pairs = pairs
        self.class_names, self.n_classes = columns.class_names, n_classes
        self.dtype = array.dtype if outputs == "probabilities" else np.dtype(np.float32)
        self.block = default_block(len(self), n_classes, self.dtype.itemsize)
        self.config = dict(config or {})
        self.versions: Mapping[str, str] = {}

    @property
    def array(self) -> NDArray[Any] | None:
        """The probabilities themselves, (seeds, epochs, examples, classes), where nothing has to be converted."""
        in_order = self._seeds == tuple(sorted(self._seeds)) and self._epochs == tuple(sorted(self._epochs))
        return self._values if self.outputs == "probabilities" and self._pairs is None and in_order else None

    def column(self, name: str) -> Any:
        """Ids, labels or split, shape (N,), or None."""
        return getattr(self._columns, name)

    def __len__(self) -> int:
        return int(self._values.shape[2])

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds, in order."""
        return tuple(sorted(self._seeds))

    def model_names(self) -> Mapping[int, str]:
        """Names of the seeds, where they have any."""
        return dict(zip(self._seeds, self._models, strict=True)) if self._models else {}

    def epochs_of(self, seed: int) -> tuple[int, ...]:
        """The epochs of a seed, in order."""
        if seed not in self._seeds:
            return ()
        return tuple(epoch for epoch in sorted(self._epochs) if self._pairs is None or (seed, epoch) in self._pairs)

    def committed(self, seed: int, epoch: int) -> bool:
        """Whether the array has this seed and epoch."""
        return epoch in self.epochs_of(seed)

    def read_rows(self, seed: int, epoch: int, start: int, stop: int) -> NDArray[Any]:
        """Probabilities of rows start..stop, checked or converted."""
        rows = np.ascontiguousarray(self._values[self._seeds.index(seed), self._epochs.index(epoch), start:stop])
        what = f"{self.where}: seed {seed} epoch {epoch}"

        def name(row: int) -> str:
            return str(self._columns.ids[start + row])

        if self.outputs == "labels":
            one_hot: NDArray[np.bool_] = rows[:, None] == np.arange(self.n_classes)
            return one_hot.astype(np.float32)
        if self.outputs == "unnormalized":
            return normalized(what, rows, name)
        if self.outputs == "logits":
            check_logits(what, rows, name)
            return softmax(rows)
        check_rows(what, rows, name)
        return rows


PROBABILITIES = ("probabilities", "probs", "proba", "y_proba", "predict_proba", "p", "arr_0")
LOGITS = ("logits",)
LABELS = ("predictions", "predicted", "y_pred", "preds")
COLUMNS = {
    "ids": ("ids", "id"),
    "labels": ("labels", "label", "y", "y_true", "targets", "target"),
    "split": ("split",),
    "class_names": ("class_names", "classes"),
    "seeds": ("seeds",),
    "epochs": ("epochs",),
    "models": ("models", "model_names"),
}
_LISTED = ("class_names", "seeds", "epochs", "models")
_SAMPLE = 4096
MOST_CLASSES = 10_000_000  # a row of probabilities of this many has 40 MB
_BINARY = "; of one probability p per example give numpy.column_stack([1 - p, p])"


def array_predictions(
    probs: ArrayLike,
    *,
    where: str = "probs",
    outputs: str = "auto",
    normalize: bool = False,
    models: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    epochs: Sequence[int] | None = None,
    config: Mapping[str, Any] | None = None,
    pairs: frozenset[tuple[int, int]] | None = None,
    roles: Mapping[str, str] | None = None,
    **columns: Any,
) -> Predictions:
    """Predictions of an array; see :meth:`hardpan.Predictions.from_arrays`."""
    if roles:
        raise InputError(f"are names of columns of a table; {where} has none", argument="columns")
    array = _plain_array(where, probs)
    if outputs in ("auto", "probabilities") and _is_one_hot(array):
        array = array.astype(np.float32)
    kind = "unnormalized" if normalize else "probabilities"
    if array.dtype.kind in "iubUO" or outputs == "labels":
        array, classes, class_names = _hard_prediction_array(where, array, columns)
        kind, columns, epochs = "labels", columns | {"class_names": class_names}, None
    else:
        array = _probability_array(where, array, named=models is not None)
        classes = array.shape[3]
    n_seeds, n_epochs, n = array.shape[:3]
    named = [] if models is None else [models] if isinstance(models, str) else models
    names = tuple(clean_text(str(name)) for name in named)
    if models is not None and (len(names) != n_seeds or len(set(names)) != n_seeds):
        raise InputError(
            f"{where}: models must be {n_seeds} different names, as the first axis has; got {few(names)}"
        )
    checked = checked_columns(where, n, classes, **columns)
    if kind == "probabilities":
        kind = detect(where, np.asarray(array[0, 0, :_SAMPLE]), outputs)
    reader = ArrayReader(
        where,
        array,
        kind,
        checked,
        n_classes=classes,
        seeds=checked_seeds_or_epochs(f"{where}: seeds", seeds, n_seeds),
        epochs=checked_seeds_or_epochs(f"{where}: epochs", epochs, n_epochs),
        models=names,
        pairs=pairs,
        config=config,
    )
    return Predictions(reader)


def _is_one_hot(array: NDArray[Any]) -> bool:
    """Whether whole numbers (examples, classes) are 1 in one column of each row, and else 0."""
    if array.dtype.kind not in "iub" or array.ndim != 2 or min(array.shape) < 2:
        return False
    return bool(array.min() >= 0 and array.max() == 1 and (array.sum(axis=1) == 1).all())


def _plain_array(where: str, probs: Any) -> NDArray[Any]:
    if isinstance(probs, np.ma.MaskedArray):
        raise InputError(f"{where} must not be a masked array; leave out what is masked, and give a plain array")
    if hasattr(probs, "detach"):  # a tensor
        probs = probs.detach().cpu()
        probs = (probs.float() if str(probs.dtype) == "torch.bfloat16" else probs).numpy()
    if isinstance(probs, np.ndarray) and not isinstance(probs, np.matrix):
        array: NDArray[Any] = probs  # a mapped file stays one
    else:
        try:
            array = np.asarray(probs)
        except ValueError as error:
            raise InputError(f"{where} must be an array of numbers; got rows of different lengths") from error
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    elif array.dtype.kind == "f" and not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array


def _hard_prediction_array(
    where: str, array: NDArray[Any], columns: dict[str, Any]
) -> tuple[NDArray[np.int64], int, tuple[str, ...]]:
    """Class numbers (models, 1, examples) of hard predictions, how many classes there are, and their names."""
    if array.ndim not in (1, 2) or 0 in array.shape:
        raise InputError(
            f"{where}: hard predictions must be (examples,) or (models, examples); got {array.dtype} of shape "
            f"{array.shape}"
        )
    names = tuple(str(name) for name in columns.get("class_names", ()))
    truth = None if columns.get("labels") is None else np.asarray(columns["labels"])
    if array.dtype.kind in "UO" and not names and truth is not None and truth.dtype.kind in "UO":
        names = tuple(np.unique(np.concatenate([array.reshape(-1).astype(str), truth.astype(str)])).tolist())
    if array.dtype.kind == "f" and (array == np.round(array)).all():
        array = array.astype(np.int64)
    numbers = by_name(where, array, names)
    if numbers.dtype.kind not in "iub" or numbers.min() < 0:
        raise InputError(f"{where}: hard predictions must be class numbers of at least 0; got {array.dtype}")
    numbered = None if truth is None else by_name(f"{where}: labels", truth, names)
    highest = max(int(item.max()) for item in (numbers, numbered) if item is not None and item.size)
    classes = len(names) or max(highest + 1, 2)
    if classes > MOST_CLASSES:
        raise InputError(f"{where}: has class number {highest}, more than the {MOST_CLASSES:,} classes that fit")
    if highest >= classes:
        raise InputError(f"{where}: predictions and labels must be within 0..{classes - 1}; got {highest}")
    return np.atleast_2d(numbers).astype(np.int64)[:, None], classes, names


def _probability_array(where: str, array: NDArray[Any], named: bool) -> NDArray[Any]:
    """Predictions with their four axes (seeds, epochs, examples, classes), or a refusal of the shape."""
    if array.ndim not in (2, 3, 4) or array.dtype.kind != "f" or array.dtype.itemsize > 8:
        raise InputError(
            f"{where} must be float16, float32 or float64 of shape (seeds, epochs, examples, classes), (epochs, "
            f"examples, classes) or (examples, classes); got {array.dtype} of shape {array.shape}"
            + (_BINARY if array.ndim == 1 else "")
        )
    if 0 in array.shape or array.shape[-1] < 2:
        raise InputError(f"{where} must have examples and at least 2 classes; got shape {array.shape}{_BINARY}")
    if named and array.ndim == 3:
        return array[:, None]
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def open_array_file(path: Path, outputs: str = "auto", normalize: bool = False, **columns: Any) -> Predictions:
    """Open an npy or npz file read-only; ``columns`` replace those in the file."""
    if path.suffix.lower() == ".npy":
        array = read_npy(path, mmap=True)
        return array_predictions(array, where=str(path), outputs=outputs, normalize=normalize, **columns)
    shapes = {name: shape for name, (shape, _) in npz_header(path).items()}
    keys = {column: next((name for name in names if name in shapes), "") for column, names in COLUMNS.items()}
    stored = read_npz(path, [name for name in keys.values() if name])
    known: dict[str, Any] = {column: stored[name] for column, name in keys.items() if name}
    known |= {name: tuple(np.atleast_1d(known[name]).tolist()) for name in _LISTED if name in known} | columns
    key = next((name for name in (*PROBABILITIES, *LOGITS, *LABELS) if name in shapes), None)
    if key is None:
        contents = few([f"{name} {shape}" for name, shape in shapes.items()])
        raise InputError(
            f"{path}: has no predictions under a known name; expected an array 'probabilities' (probs), 'logits' "
            f"or 'predictions', of several models with 'models'; it has {contents}"
        )
    mapped = _mapped_member(path, key)
    array = read_npz(path, [key])[key] if mapped is None else mapped
    if outputs == "auto" and key in LOGITS:
        outputs = "logits"
    return array_predictions(array, where=str(path), outputs=outputs, normalize=normalize, **known)


def _mapped_member(path: Path, key: str) -> NDArray[Any] | None:
    """Map an array of an npz file; None where it is compressed."""
    with zipfile.ZipFile(path) as archive:
        item = archive.getinfo(f"{key}.npy")
        if item.compress_type != zipfile.ZIP_STORED:
            return None
        with archive.open(item) as stream:
            version = np.lib.format.read_magic(stream)
            reader = {(1, 0): np.lib.format.read_array_header_1_0}.get(version, np.lib.format.read_array_header_2_0)
            shape, fortran, dtype = reader(stream)
            header = stream.tell()
        with path.open("rb") as file:
            # The lengths of the name and the extra field before the data are in the local header, bytes 26..30.
            file.seek(item.header_offset + 26)
            lengths = file.read(4)
        start = item.header_offset + 30 + int.from_bytes(lengths[:2], "little")
        start += int.from_bytes(lengths[2:], "little") + header
    if dtype.hasobject or item.file_size - header != int(np.prod(shape)) * dtype.itemsize:
        return None
    order: Any = "F" if fortran else "C"
    return np.memmap(path, dtype=dtype, mode="r", offset=start, shape=shape, order=order)
