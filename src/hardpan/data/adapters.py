"""Datasets of other libraries: PyTorch, Hugging Face, scikit-learn. None of them is imported here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.data.arrays import SPLIT_WORDS, as_array, channels_last, from_arrays
from hardpan.data.dataset import Dataset
from hardpan.data.tabular import LABEL_NAMES, DataOptions, from_tables, scored_splits
from hardpan.errors import InputError
from hardpan.safe_files import check_memory, few, reason
from hardpan.tables import is_frame, plain_name

_CHECK_EVERY = 1024


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


def is_torch(value: Any) -> bool:
    """Whether an object is a PyTorch dataset or loader."""
    return any(kind.__module__.startswith("torch.utils.data") for kind in type(value).__mro__)


def is_huggingface(value: Any) -> bool:
    """Whether an object is a Dataset or DatasetDict of Hugging Face."""
    return any(kind.__module__.split(".")[0] == "datasets" for kind in type(value).__mro__)


def from_torch(
    dataset: Any, test: Any = None, *, class_names: Sequence[str] | None = None, name: str | None = None
) -> Dataset:
    """See :meth:`Dataset.from_torch`."""
    source = _unbatched(dataset)
    x, y = _torch_arrays("dataset", source)
    x_test, y_test = (None, None) if test is None else _torch_arrays("test", _unbatched(test))
    classes = class_names if class_names is not None else _classes(source)
    return from_arrays(
        x,
        y,
        x_test=x_test,
        y_test=y_test,
        class_names=None if classes is None else [str(item) for item in classes],
        name=name or type(source).__name__,
        source="PyTorch",
    )


def _unbatched(dataset: Any) -> Any:
    """The dataset of a loader; a Subset, which has a dataset too, stays."""
    return dataset.dataset if hasattr(dataset, "batch_size") and hasattr(dataset, "dataset") else dataset


def _classes(dataset: Any) -> Any:
    """The names of the classes, also of what a Subset was taken from."""
    while dataset is not None:
        if getattr(dataset, "classes", None) is not None:
            return dataset.classes
        dataset = getattr(dataset, "dataset", None)
    return None


def _torch_arrays(what: str, dataset: Any) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """All examples and labels of a map-style dataset, channels last."""
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise InputError(
            f"must have a length and items by number, as map-style datasets do; got {type(dataset).__name__}",
            argument=what,
        )
    tensors = getattr(dataset, "tensors", None)
    if isinstance(tensors, tuple) and 1 <= len(tensors) <= 2:
        arrays = [as_array(what, item) for item in tensors]
        return channels_last(what, arrays[0])[0], arrays[1] if len(arrays) > 1 else None
    xs: list[NDArray[Any]] = []
    ys: list[Any] = []
    for row in range(len(dataset)):
        try:
            item = dataset[row]
        except Exception as error:  # whatever a user's dataset raises
            raise InputError(
                f"{what}: item {row} cannot be read ({type(error).__name__}: {reason(error)})"
            ) from error
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            size = f" of {len(item)}" if hasattr(item, "__len__") else ""
            raise InputError(f"{what}: every item must be (x, label); item {row} is a {type(item).__name__}{size}")
        label = as_array(f"{what}: label of item {row}", item[1])
        if label.size != 1:
            raise InputError(f"{what}: label of item {row} must be one class; got shape {label.shape}")
        xs.append(as_array(f"{what}: x of item {row}", item[0]))
        ys.append(label.item())
        if xs[-1].shape != xs[0].shape:
            raise InputError(
                f"{what}: examples must have one shape; item 0 has {xs[0].shape} and item {row} {xs[-1].shape}: "
                "add a transform that resizes them"
            )
        if row % _CHECK_EVERY == 0:
            check_memory(what, xs[0].nbytes * len(dataset))
    if not xs:
        raise InputError("must not be empty", argument=what)
    return channels_last(what, np.stack(xs))[0], as_array(f"{what}: labels", ys)


def from_huggingface(dataset: Any, options: DataOptions) -> Dataset:
    """See :meth:`Dataset.from_huggingface`."""
    parts = dict(dataset) if isinstance(dataset, Mapping) else {"": dataset}
    if not parts:
        raise InputError("must have at least one split", argument="dataset")
    for split, content in parts.items():
        if not all(hasattr(content, name) for name in ("with_format", "features", "__len__")):
            raise InputError(
                f"must be a Dataset or DatasetDict of Hugging Face, not streamed; got {type(content).__name__}",
                argument="dataset",
            )
        if split and split not in SPLIT_WORDS:
            raise InputError(
                f": split {split!r} must be train, validation or test; it has {few(parts)}: "
                "give those you want, such as {'train': ..., 'test': ...}",
                argument="dataset",
            )
    first = next(iter(parts.values()))
    if options.class_names is None:
        named = {column: item.names for column, item in first.features.items() if hasattr(item, "names")}
        label = options.given_columns().get("label")
        if (
            label is None
            and len(named) == 1
            and not any(plain_name(name) in LABEL_NAMES for name in first.features)
        ):
            label = next(iter(named))  # the only column of classes
            options = replace(options, label=label)
        listed = next((named[name] for name in (label, "label", "labels") if name in named), None)
        options = replace(options, class_names=listed)
    tables = {SPLIT_WORDS.get(split, ""): [content.with_format("arrow")[:]] for split, content in parts.items()}
    name = getattr(first.info, "dataset_name", None) or "huggingface"
    return from_tables(scored_splits(tables), options, name=name, source="Hugging Face")
