"""Where a run computes, the CPU or one GPU per process, and in which precision."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from hardpan.errors import InputError
from hardpan.execution.mapping import machine_is_busy


def pick_device(name: str = "auto") -> torch.device:
    """Choose the device of this process.

    ``auto`` is the first GPU where there is one (under torchrun, that of this process's local rank), else the CPU.

    Args:
        name: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.

    Example:
        >>> pick_device("cpu")
        device(type='cpu')
        >>> pick_device("cdua")
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: device must be auto, cpu, cuda or cuda:N; got 'cdua'
    """
    kind, _, number = str(name).partition(":")
    if kind not in ("auto", "cpu", "cuda") or (number and (kind != "cuda" or not number.isdigit())):
        raise InputError(f"must be auto, cpu, cuda or cuda:N; got {name!r}", argument="device")
    if kind == "cpu" or (kind == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise InputError(f"device {name!r}: torch has no GPU here; use cpu or auto")
    count = torch.cuda.device_count()
    index = int(number) if number else int(os.environ.get("LOCAL_RANK", "0")) % count
    if index >= count:
        raise InputError(f"must be one of cuda:0 to cuda:{count - 1}; got {name!r}", argument="device")
    device = torch.device("cuda", index)
    torch.cuda.set_device(device)
    return device


def describe_device(device: torch.device) -> str:
    """Name a device in words, for records and pages.

    Example:
        >>> describe_device(torch.device("cpu")).startswith("CPU, ")
        True
    """
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    threads = torch.get_num_threads()
    return f"CPU, {threads} thread{'' if threads == 1 else 's'}"


def synchronize(device: torch.device) -> None:
    """Wait until everything given to the device is done; needed before a clock is read."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


PRECISIONS = ("float32", "tf32", "bf16")


def choose_precision(name: str, device: torch.device) -> str:
    """The precision to compute in; ``auto`` is bf16 on a GPU and float32 on a CPU.

    - ``float32``: everything in float32, matrix products too.
    - ``tf32``: weights and sums in float32, GPU matrix products and convolutions with 10-bit mantissas.
    - ``bf16``: matrix products and convolutions in bfloat16 under autocast; weights, losses and sums in float32.

    Example:
        >>> choose_precision("auto", torch.device("cpu"))
        'float32'
    """
    if name == "auto":
        return "bf16" if device.type == "cuda" else "float32"
    if name not in PRECISIONS:
        raise InputError(f"must be auto, {', '.join(PRECISIONS)}; got {name!r}", argument="precision")
    if name == "tf32" and device.type != "cuda":
        raise InputError("precision tf32 needs a GPU; use float32 or bf16 on a CPU")
    return name


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context in which the forward pass runs.

    The cache of cast weights is off: inside a captured graph it would hold on to memory of the graph, and a weight
    that is used once a pass gains nothing from it.

    Example:
        >>> with autocast("bf16", torch.device("cpu")):
        ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
        torch.bfloat16
    """
    if precision == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)
    return nullcontext()


@contextmanager
def matrix_precision(precision: str, device: torch.device) -> Iterator[None]:
    """Set what GPU matrix products and convolutions may round to, and put the former setting back at the end."""
    if device.type != "cuda":
        yield
        return
    products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    tuned = torch.backends.cudnn.benchmark
    torch.set_float32_matmul_precision("highest" if precision == "float32" else "high")
    torch.backends.cudnn.allow_tf32 = precision != "float32"
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions
        torch.backends.cudnn.benchmark = tuned


@contextmanager
def torch_threads_for_load(*, fixed: bool = False) -> Iterator[None]:
    """One thread on a busy machine, where threads of a step would wait for one another; else as many as before."""
    if fixed or not machine_is_busy():
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
