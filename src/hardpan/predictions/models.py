"""Predictions of models for the examples of a dataset: scikit-learn estimators, functions, PyTorch modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.data.dataset import Dataset
from hardpan.encoders import DESCRIPTORS
from hardpan.errors import InputError, few, reason
from hardpan.lazy import imported
from hardpan.predictions.arrays import array_predictions
from hardpan.predictions.predictions import Predictions


def estimator_predictions(
    model: Any, dataset: Dataset, folds: int, group: ArrayLike | None, held_out: bool, name: str, seed: int
) -> Predictions:
    """Predictions of an estimator or function; see :meth:`hardpan.Predictions.from_estimator`."""
    if not isinstance(dataset, Dataset):
        raise InputError(f"must be a hardpan.Dataset; got {type(dataset).__name__}", argument="dataset")
    if isinstance(model, str):
        name = name or model
        model = imported("model", model)
    called = getattr(model, "__name__", "") or type(model).__name__
    name = name or ("model" if called in ("<lambda>", "function") else str(called))
    if isinstance(folds, bool) or not isinstance(folds, (int, np.integer)) or folds < 0 or folds == 1:
        raise InputError(f"must be 0 or at least 2; got {folds!r}", argument="folds")
    config: dict[str, Any] = {"model": name} | ({"folds": int(folds)} if folds else {})
    config |= {"held_out": True} if held_out or folds else {}
    if folds:
        answers = _refitted_model_answers(model, dataset, int(folds), group, seed)
    else:
        answers = _model_answers(model, dataset, _examples_for(model, dataset))
    if answers.ndim == 1:
        answers = np.eye(max(dataset.n_classes, 2), dtype=np.float32)[answers]
    return array_predictions(
        answers,
        where=name,
        ids=dataset.ids,
        labels=dataset.labels,
        class_names=dataset.class_names,
        split=dataset.split,
        config=config,
    )


def _examples_for(model: Any, dataset: Dataset) -> NDArray[Any]:
    """The vectors of a dataset for estimators, unless one was fitted to other features; else its examples."""
    named = dataset.vectors is not None and dataset.encoder != DESCRIPTORS
    width = dataset.inputs.shape[1] if named else None
    of_vectors = hasattr(model, "fit") and getattr(model, "n_features_in_", width) == width is not None
    return dataset.inputs if of_vectors else dataset.model_inputs


def _model_inputs(model: Any, dataset: Dataset, x: NDArray[Any]) -> NDArray[Any]:
    """The examples as the estimator expects them: flat where it was fitted on flat ones."""
    width = getattr(model, "n_features_in_", None)
    flat = int(np.prod(x.shape[1:]))
    if x.ndim > 2 and (width == flat or (width is None and hasattr(model, "fit"))):
        return x.reshape(len(x), -1)
    if width is not None and x.ndim == 2 and width != x.shape[1]:
        raise InputError(f"model expects {width} features, but {dataset.name} has {x.shape[1]}")
    return x


def _model_answers(model: Any, dataset: Dataset, x: NDArray[Any], refitted: bool = False) -> NDArray[Any]:
    """Probabilities (n, C), or class numbers (n,) of a model that returns only those.

    A model that was ``refitted`` here knows classes by number, one of the user's by the labels it was fitted to.
    """
    answer: Callable[[Any], Any] | None = getattr(model, "predict_proba", None) or getattr(model, "predict", None)
    if answer is None and callable(model):
        answer = model
    if answer is None:
        raise InputError(
            f"must have predict_proba or predict, or be a function; got {type(model).__name__}", argument="model"
        )
    try:
        answers = np.asarray(answer(_model_inputs(model, dataset, x)))
    except InputError:
        raise
    except Exception as error:  # any model, any error
        raise InputError(f"model failed on {dataset.name}: {type(error).__name__}: {reason(error)}") from error
    if len(answers) != len(x) or answers.ndim not in (1, 2):
        raise InputError(
            f"must return {len(x):,} rows of probabilities or classes; got shape {answers.shape}", argument="model"
        )
    classes = getattr(model, "classes_", None)
    if answers.ndim == 1:
        return _model_class_numbers(answers, dataset, refitted)
    if classes is None or answers.shape[1] != len(classes):
        return answers
    # Columns are in the order of classes_, which may lack some of the dataset's classes.
    whole = np.zeros((len(answers), max(dataset.n_classes, 2)), dtype=answers.dtype)
    whole[:, _model_class_numbers(np.asarray(classes), dataset, refitted)] = answers
    return whole


def _model_class_numbers(values: NDArray[Any], dataset: Dataset, refitted: bool) -> NDArray[np.int64]:
    plain = not refitted and all(name.lstrip("-").isdigit() for name in dataset.class_names)
    if values.dtype.kind == "b" or (plain and values.dtype.kind in "iuf"):
        # Labels such as 1, 2, 3 are names of classes here, whose numbers are 0, 1, 2.
        values = (values if values.dtype.kind == "b" else values.astype(np.int64)).astype(np.str_)
    if values.dtype.kind in "UO":
        number = {name: index for index, name in enumerate(dataset.class_names)}
        unknown = next((value for value in values.tolist() if str(value) not in number), None)
        if unknown is not None:
            raise InputError(
                f"model predicts {str(unknown)!r}, which is not a class of {dataset.name}: "
                f"{few(dataset.class_names)}"
            )
        return np.array([number[str(value)] for value in values.tolist()], dtype=np.int64)
    numbers = values.astype(np.int64)
    if (numbers != values).any() or numbers.min() < 0 or numbers.max() >= max(dataset.n_classes, 2):
        raise InputError(f"model predicts classes outside of 0..{dataset.n_classes - 1} of {dataset.name}")
    return numbers


def _refitted_model_answers(
    model: Any, dataset: Dataset, folds: int, group: ArrayLike | None, seed: int
) -> NDArray[Any]:
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    labels = dataset.require_labels()
    if not hasattr(model, "fit"):
        raise InputError(f"folds needs an estimator with fit; got {type(model).__name__}")
    groups_of = dataset.metadata.get("group") if group is None else np.asarray(group)
    groups = np.arange(len(dataset)) if groups_of is None else np.unique(groups_of, return_inverse=True)[1].ravel()
    smallest = int(np.bincount(labels).min())
    grouped = int(groups.max()) + 1 < len(groups)
    if grouped:
        smallest = min(len(np.unique(groups[labels == label])) for label in np.unique(labels))
    if smallest < folds:
        raise InputError(
            f"must be at most {smallest}, the {'groups' if grouped else 'size'} of the smallest class; got {folds}",
            argument="folds",
        )
    x = _model_inputs(model, dataset, _examples_for(model, dataset))
    result: NDArray[Any] | None = None
    cut = (StratifiedGroupKFold if grouped else StratifiedKFold)(folds, shuffle=True, random_state=seed)
    for train, test in cut.split(np.zeros(len(dataset)), labels, groups if grouped else None):
        fresh = clone(model)
        try:
            fresh.fit(x[train], labels[train])
        except Exception as error:  # any estimator, any error
            raise InputError(f"model cannot be fitted to {dataset.name}: {reason(error)}") from error
        answers = _model_answers(fresh, dataset, x[test], refitted=True)
        if result is None:
            result = np.empty((len(dataset), *answers.shape[1:]), dtype=answers.dtype)
        result[test] = answers
    assert result is not None
    return result


def torch_predictions(
    module: Any, loader: Any, class_names: Sequence[str], held_out: bool, device: str
) -> Predictions:
    """Predictions of a module; see :meth:`hardpan.Predictions.from_torch`."""
    import torch

    from hardpan.predictions.tensors import tensor_as_array

    if not isinstance(module, torch.nn.Module):
        raise InputError(f"must be a torch.nn.Module; got {type(module).__name__}", argument="module")
    if isinstance(getattr(loader, "sampler", None), torch.utils.data.RandomSampler):
        raise InputError(
            "must not shuffle, or rows could not be joined to examples; pass shuffle=False", argument="loader"
        )
    if not hasattr(loader, "__iter__") or isinstance(loader, torch.utils.data.Dataset):
        raise InputError(
            f"must give batches, as torch.utils.data.DataLoader(dataset, batch_size=256) does; got "
            f"{type(loader).__name__}",
            argument="loader",
        )
    parameter = next(iter(module.parameters()), None)
    where = device or (parameter.device if parameter is not None else "cpu")
    outputs, labels, training = [], [], module.training
    module.eval()
    try:
        with torch.no_grad():
            for batch in loader:
                parts = batch if isinstance(batch, (tuple, list)) else (batch,)
                answers = module(parts[0].to(where))
                if not isinstance(answers, torch.Tensor):
                    raise InputError(
                        f"must return one tensor of logits or probabilities; got {type(answers).__name__}",
                        argument="module",
                    )
                outputs.append(tensor_as_array(answers))
                if len(parts) > 1:
                    labels.append(tensor_as_array(parts[1]))
    except InputError:
        raise
    except Exception as error:  # any module, any error
        raise InputError(f"module failed on a batch: {type(error).__name__}: {reason(error)}") from error
    finally:
        module.train(training)
    if not outputs:
        raise InputError("must give at least one batch; got none", argument="loader")
    return array_predictions(
        np.concatenate(outputs),
        where=type(module).__name__,
        labels=np.concatenate(labels) if labels else None,
        class_names=class_names,
        config={"held_out": True} if held_out else {},
    )
