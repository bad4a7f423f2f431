"""Outputs of a model on their way into a store: softmax where they are, then to the host without waiting."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.errors import InputError
from hardpan.predictions.rows import Outputs, detect, softmax
from hardpan.predictions.scores import entropy_bits

if TYPE_CHECKING:
    from torch import Tensor

_SAMPLE = 256
_NUMBERS_AT_ONCE = 2**16  # what fits into the cache of a core
_ONE, _HALF, _SMALLEST_NORMAL = 127 << 23, 126 << 23, 113 << 23  # bits of float32: 1, 0.5, 2⁻¹⁴


class Travelling(Protocol):
    """An array that may still be on its way from a device."""

    def arrived(self) -> bool:
        """Whether :meth:`wait` would return at once."""

    def wait(self) -> NDArray[Any]:
        """The array, when it is here."""


class Here:
    """An array that is here already."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array

    def arrived(self) -> bool:
        """It is."""
        return True

    def wait(self) -> NDArray[Any]:
        """The array."""
        return self._array


class FromDevice:
    """A copy to pinned memory: the device goes on with the next batch while the numbers travel."""

    def __init__(self, tensor: Tensor) -> None:
        import torch

        self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self._host.copy_(tensor, non_blocking=True)
        cuda: Any = torch.cuda
        self._event = cuda.Event()
        self._event.record(cuda.current_stream(tensor.device))
        self._source: Tensor | None = tensor  # kept until it has been copied

    def arrived(self) -> bool:
        """Whether the copy is complete."""
        return bool(self._event.query())

    def wait(self) -> NDArray[Any]:
        """The array, when it is here."""
        self._event.synchronize()
        self._source = None
        return np.asarray(self._host.numpy())


class Converter:
    """Makes probabilities of a store's type, or entropies of the mean over seeds, out of what a model gives."""

    def __init__(self, said: str, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._outputs: Outputs | None = None if said == "auto" else detect("outputs", np.empty((0, 2)), said)

    @property
    def outputs(self) -> str:
        """What is given: "logits" or "probabilities"; "auto" until the first batch."""
        return self._outputs or "auto"

    def send(self, outputs: Tensor | NDArray[Any], all_seeds: bool) -> Travelling:
        """Convert (n, C) to probabilities (n, C), or with ``all_seeds`` (M, n, C) to entropies (n,)."""
        if self._outputs is None:
            sample = outputs.reshape(-1, outputs.shape[-1])[:_SAMPLE]
            self._outputs = detect("outputs", as_array(sample), "auto")
        if not is_tensor(outputs):
            return Here(self._of_array(as_array(outputs), all_seeds))
        made = self._of_tensor(outputs, all_seeds)
        return FromDevice(made) if made.device.type == "cuda" else Here(made.cpu().numpy())

    def _of_array(self, outputs: NDArray[Any], all_seeds: bool) -> NDArray[Any]:
        probs = softmax(outputs) if self._outputs == "logits" else outputs
        if all_seeds:
            # In the order and with the rounding of confusion.scores in double precision: the same bits.
            mean = probs[0].astype(np.float64)
            for other in probs[1:]:
                mean += other
            mean *= 1.0 / len(probs)
            return entropy_bits(mean)
        if probs.dtype == np.float32 and self._dtype == np.float16:
            return halves(probs)
        return probs.astype(self._dtype, copy=False)

    def _of_tensor(self, outputs: Tensor, all_seeds: bool) -> Tensor:
        import torch

        with torch.no_grad():
            probs = outputs.detach().float()
            if self._outputs == "logits":
                probs = torch.softmax(probs, dim=-1)
            if all_seeds:
                mean = probs.mean(dim=0)
                # The smallest number has a finite logarithm, and times 0 it gives the 0 that is wanted.
                return -(mean * torch.log2(mean.clamp_min(torch.finfo(mean.dtype).tiny))).sum(dim=-1)
            return probs.to(torch.float16 if self._dtype == np.float16 else torch.float32)


def halves(rows: NDArray[np.float32]) -> NDArray[np.float16]:
    """Round rows (n, C) to float16: what ``astype`` gives, several times as fast for numbers within 0..1.

    Example:
        >>> halves(np.array([[0.1, 1e-7]], dtype=np.float32)).tolist()
        [[0.0999755859375, 1.1920928955078125e-07]]
    """
    rounded = np.empty(rows.shape, dtype=np.float16)
    at_once = max(1, _NUMBERS_AT_ONCE // max(rows.shape[1], 1))
    for start in range(0, len(rows), at_once):
        part = np.ascontiguousarray(rows[start : start + at_once])
        bits = part.view(np.uint32)
        into = rounded[start : start + at_once]
        if not part.size or bits.max() > _ONE:  # larger than 1, negative, or NaN
            into[:] = part
            continue
        # 13 bits are cut off after half of their last place was added, less one where the result would be odd.
        near = bits >> 13
        near &= 1
        near += bits
        near += 0xFFF
        near >>= 13
        near -= 112 << 10  # exponents of float32 count from 127, those of float16 from 15
        # Below 2⁻¹⁴ float16 counts in steps of 2⁻²⁴, and so does float32 from 0.5 to 1.
        small = (part + np.float32(0.5)).view(np.uint32)
        small -= _HALF
        np.copyto(near, small, where=bits < _SMALLEST_NORMAL)
        into.view(np.uint16)[:] = near
    return rounded


def send_index(index: Tensor | ArrayLike, n: int) -> Travelling:
    """Row numbers (n,) of a batch; those on a GPU are not waited for, since it may be far behind."""
    index = check_dense("index", index) if is_tensor(index) else np.asarray(index)
    shape = tuple(index.shape)
    if shape != (n,) or as_array(index[:0]).dtype.kind not in "iu":  # none of the numbers is looked at
        raise InputError(f"index must be {n} integers, one a row of outputs; got {index.dtype} {shape}")
    if is_tensor(index) and index.device.type == "cuda":
        return FromDevice(index.detach().long())
    return Here(as_array(index).astype(np.int64))


def is_tensor(value: object) -> TypeGuard[Tensor]:
    """Whether this is a torch tensor; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def check_dense(name: str, tensor: Tensor) -> Tensor:
    """The tensor; one that is sparse is refused."""
    import torch

    if tensor.layout != torch.strided:
        raise InputError(
            f"{name} must be a dense tensor; got layout {tensor.layout}: give {name}.to_dense() (or padded rows)"
        )
    return tensor


def as_array(value: Tensor | ArrayLike, name: str = "tensor") -> NDArray[Any]:
    """A tensor or array as an array here; ``name`` is how it is called where it is refused."""
    if is_tensor(value):
        tensor = check_dense(name, value).detach()
        return np.asarray((tensor.float() if tensor.is_floating_point() else tensor).cpu().numpy())
    return np.asarray(value)
