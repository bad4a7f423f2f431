"""Weights on disk: safetensors, never a pickle."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from hardpan.errors import InputError, MissingExtra
from hardpan.files import write_bytes


def save_weights(model: nn.Module, path: str | Path) -> None:
    """Write parameters and buffers of a model as a safetensors file, whole or not at all.

    Example:
        >>> import tempfile
        >>> from hardpan.training import classifiers
        >>> model = classifiers.build("linear", input_shape=(4,), n_classes=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_weights(model, f"{folder}/w.safetensors")
        ...     same = classifiers.build("linear", input_shape=(4,), n_classes=3, seed=1)
        ...     load_weights(same, f"{folder}/w.safetensors")
        >>> all(torch.equal(a, b) for a, b in zip(model.parameters(), same.parameters()))
        True
    """
    try:
        from safetensors.torch import save
    except ImportError as error:
        raise MissingExtra("safetensors", "torch") from error
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    write_bytes(Path(path), save(tensors))


def load_weights(model: nn.Module, path: str | Path) -> None:
    """Put the weights of a safetensors file into a model of the same build."""
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load
    except ImportError as error:
        raise MissingExtra("safetensors", "torch") from error
    try:
        tensors = load(Path(path).read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except SafetensorError as error:
        raise InputError(f"{path}: not a safetensors file, or cut short ({error})") from error
    with torch.no_grad():
        try:
            model.load_state_dict(tensors)
        except RuntimeError as error:
            reason = " ".join(str(error).split())[:300]
            raise InputError(f"{path}: these are weights of another model ({reason})") from error
