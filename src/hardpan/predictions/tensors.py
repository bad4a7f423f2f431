"""Torch tensors, on any device, as arrays and probabilities; torch is imported only where there are tensors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.errors import InputError
from hardpan.predictions.checks import Outputs, detect, softmax

if TYPE_CHECKING:
    from torch import Tensor

_SAMPLE = 256


class PendingTensor:
    """An array that may still be copied from a device to pinned memory, while the device continues."""

    def __init__(self, source: Tensor | NDArray[Any]) -> None:
        self._source: Tensor | NDArray[Any] = source  # a tensor is kept until it has been copied
        self._event: Any = None
        if is_tensor(source):
            import torch

            self._host = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
            self._host.copy_(source, non_blocking=True)
            cuda: Any = torch.cuda
            self._event = cuda.Event()
            self._event.record(cuda.current_stream(source.device))

    def arrived(self) -> bool:
        """Whether :meth:`wait` would return at once."""
        return self._event is None or bool(self._event.query())

    def wait(self) -> NDArray[Any]:
        """The array, when it is here."""
        if self._event is not None:
            self._event.synchronize()
            self._source, self._event = np.asarray(self._host.numpy()), None
        return np.asarray(self._source)


class TensorConverter:
    """Converts outputs of a model to probabilities of a store's type."""

    def __init__(self, outputs: str, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._outputs: Outputs | None = None if outputs == "auto" else detect("outputs", np.empty((0, 2)), outputs)

    @property
    def outputs(self) -> str:
        """What is recorded: "logits" or "probabilities"; "auto" until the first batch."""
        return self._outputs or "auto"

    def send(self, outputs: Tensor | NDArray[Any]) -> PendingTensor:
        """Convert outputs (n, C) to probabilities (n, C)."""
        if self._outputs is None:
            self._outputs = detect("outputs", tensor_as_array(outputs[:_SAMPLE]), "auto")
        if not is_tensor(outputs):
            array = tensor_as_array(outputs)
            probs = softmax(array) if self._outputs == "logits" else array
            return PendingTensor(probs.astype(self._dtype, copy=False))
        import torch

        with torch.no_grad():
            tensor = outputs.detach().float()
            if self._outputs == "logits":
                tensor = torch.softmax(tensor, dim=-1)
            tensor = tensor.to(torch.float16 if self._dtype == np.float16 else torch.float32)
        return PendingTensor(tensor if tensor.device.type == "cuda" else tensor.cpu().numpy())


def send_tensor_index(index: Tensor | ArrayLike, n: int) -> PendingTensor:
    """Row numbers (n,) of a batch; those on a GPU are copied asynchronously."""
    index = check_dense_tensor("index", index) if is_tensor(index) else np.asarray(index)
    shape = tuple(index.shape)
    if shape != (n,) or tensor_as_array(index[:0]).dtype.kind not in "iu":  # none of the numbers is looked at
        raise InputError(
            f"must be {n} integers, one per row of outputs; got {index.dtype} {shape}", argument="index"
        )
    if is_tensor(index) and index.device.type == "cuda":
        return PendingTensor(index.detach().long())
    return PendingTensor(tensor_as_array(index).astype(np.int64))


def is_tensor(value: object) -> TypeGuard[Tensor]:
    """Whether this is a torch tensor; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def check_dense_tensor(name: str, tensor: Tensor) -> Tensor:
    """The tensor; one that is sparse is refused."""
    import torch

    if tensor.layout != torch.strided:
        raise InputError(
            f"must be a dense tensor; got layout {tensor.layout}: give {name}.to_dense() (or padded rows)",
            argument=name,
        )
    return tensor


def tensor_as_array(value: Tensor | ArrayLike, name: str = "tensor") -> NDArray[Any]:
    """A tensor or array as an array here; ``name`` is how it is called where it is refused."""
    if is_tensor(value):
        tensor = check_dense_tensor(name, value).detach()
        return np.asarray((tensor.float() if tensor.is_floating_point() else tensor).cpu().numpy())
    return np.asarray(value)
