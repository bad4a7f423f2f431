"""Trained models on disk: weights as safetensors, the rest as JSON that has their hash and is written last."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

import hardpan
from hardpan import engine
from hardpan.arguments import as_path
from hardpan.data.dataset import Dataset
from hardpan.engine import devices
from hardpan.errors import InputError
from hardpan.files import file_hash, write_bytes, write_text
from hardpan.lazy import is_import_name
from hardpan.training import classifiers
from hardpan.training.examples import Normalization, as_training_examples, examples_on
from hardpan.training.fitting import Evaluator

WEIGHTS, DESCRIPTION = "model.safetensors", "model.json"


@dataclass(frozen=True, slots=True)
class SavedModel:
    """A trained model as its folder holds it.

    Attributes:
        model: in evaluation mode, on the CPU.
        normalization: what its inputs are normalised by.
        description: everything that is known of it: architecture, classes, settings, seed, history.
    """

    model: nn.Module
    normalization: Normalization
    description: Mapping[str, Any]


def save_model(
    folder: str | os.PathLike[str], model: nn.Module, statistics: Normalization, description: Mapping[str, Any]
) -> None:
    """Write a model into a folder: weights first, then the description that commits them."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
        write_bytes(folder / WEIGHTS, save(tensors))
        content = {
            "kind": "classifier",
            "schema": 1,
            "hardpan": hardpan.__version__,
            "sha256": file_hash(folder / WEIGHTS),
            **description,
            "mean": statistics.mean.tolist(),
            "scale": statistics.scale.tolist(),
        }
        write_text(folder / DESCRIPTION, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise InputError(
            f"{folder}: model cannot be written ({error.strerror or error}); make room and repeat the command"
        ) from error


def describe_model(folder: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The JSON of a model, if weights of its hash are beside it; else None."""
    folder = as_path("model", folder)
    try:
        result = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        if result["kind"] != "classifier" or result["sha256"] != file_hash(folder / WEIGHTS):
            return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return dict(result)


def load_model(folder: str | os.PathLike[str], *, model: str | None = None) -> SavedModel:
    """Read a model that ``hardpan train`` wrote; its weights are checked against their hash.

    Args:
        folder: of one seed.
        model: the architecture, if it is your own ``module:factory``: a file never decides what is imported.
    """
    result = describe_model(folder)
    if result is None:
        raise InputError(
            f"{os.fspath(folder)}: has no complete model ({DESCRIPTION} and {WEIGHTS} of its hash); pass the "
            "folder of one seed that hardpan train wrote"
        )
    if model is None and is_import_name(str(result.get("model"))):
        raise InputError(
            f"must be given for {os.fspath(folder)}: the architecture is not hardpan's; if you trust its code, "
            f"use load_model(folder, model={result['model']!r})",
            argument="model",
        )
    try:
        network = classifiers.build(
            result["model"] if model is None else model,
            input_shape=tuple(result["input_shape"]),
            n_classes=result["n_classes"],
            seed=result["seed"],
            **result.get("model_options", {}),
        )
        mean, scale = (np.array(result[name], dtype=np.float32) for name in ("mean", "scale"))
        network.load_state_dict(load_file(Path(folder) / WEIGHTS))
    except (KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(
            f"{os.fspath(folder)}: {DESCRIPTION} and {WEIGHTS} are damaged or of another model "
            f"({type(error).__name__}: {reason}); train the model again"
        ) from error
    return SavedModel(network.eval(), Normalization(mean, scale), result)


def predict(
    model: str | os.PathLike[str] | SavedModel,
    data: str | os.PathLike[str] | Dataset | NDArray[Any],
    *,
    device: str = "auto",
    precision: str = "float32",
    batch: int = 0,
) -> NDArray[np.float32]:
    """A trained model's probabilities of examples.

    Args:
        model: the folder of one seed that ``hardpan train`` wrote, or what :func:`load_model` gave.
        data: a name or path for ``Dataset.open``, a dataset, or an array like those it was trained on.
        device: where to compute.
        precision: ``float32``, ``tf32`` or ``bf16``.
        batch: examples at a time; 0: a default of the device.

    Returns:
        (N, C) float32.
    """
    result = model if isinstance(model, SavedModel) else load_model(model)
    if isinstance(data, (str, os.PathLike)):
        data = Dataset.open(data)
    x = as_training_examples(
        data.require_vectors("a network") if isinstance(data, Dataset) else np.asarray(data), "data"
    )
    target = engine.pick_device(device)
    examples = examples_on(x, result.normalization, target)
    input_shape, n_classes = tuple(result.description["input_shape"]), int(result.description["n_classes"])
    if examples.input_shape != input_shape:
        raise InputError(
            f"must hold examples of shape {input_shape} (channels first), as the model was trained on; "
            f"got {examples.input_shape}",
            argument="data",
        )
    precision = devices.choose_precision(precision, target)
    with torch.no_grad(), devices.matrix_precision(precision, target):
        network = examples.with_model(result.model)
        return Evaluator(network, examples, n_classes=n_classes, precision=precision, batch=batch)()
