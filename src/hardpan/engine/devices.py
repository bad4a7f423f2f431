"""Where a run computes: the CPU, or one GPU a process."""

from __future__ import annotations

import os

import torch

from hardpan.errors import InputError


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
        raise InputError(f"device must be auto, cpu, cuda or cuda:N; got {name!r}")
    if kind == "cpu" or (kind == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise InputError(f"device {name!r} was asked for, but torch sees no GPU here; give cpu or auto")
    count = torch.cuda.device_count()
    index = int(number) if number else int(os.environ.get("LOCAL_RANK", "0")) % count
    if index >= count:
        raise InputError(f"device must be one of cuda:0 to cuda:{count - 1}; got {name!r}")
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
