"""Several processes that train one model: started by torchrun, gradients averaged by all-reduce.

Gloo on CPUs, NCCL on GPUs. Each process works on its share of every batch; means over equal shares are the means of
the whole batch, so the model is that of one process up to rounding. Several GPUs are unmeasured so far.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor


def rank() -> int:
    """The number of this process among those of the run; 0 where there is one."""
    return dist.get_rank() if _in_process_group() else 0


def world_size() -> int:
    """How many processes the run has."""
    return dist.get_world_size() if _in_process_group() else 1


def is_main_process() -> bool:
    """Whether this is the process that writes files and shows progress."""
    return rank() == 0


def launched() -> bool:
    """Whether torchrun started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def launched_as_main() -> bool:
    """Whether this process is the one that speaks, also before and after the group of processes is there."""
    return not launched() or os.environ["RANK"] == "0"


@contextmanager
def process_group(device: torch.device) -> Iterator[None]:
    """Join the processes that torchrun started; does nothing in a single process.

    The group lasts as long as the process: one that is left and joined again can meet the others' last round.
    """
    if launched() and not _in_process_group():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        atexit.register(dist.destroy_process_group)
    yield


def all_reduce_mean(tensors: Iterable[Tensor]) -> None:
    """Replace tensors of one dtype by their means over all processes, in one message."""
    items = list(tensors)
    if world_size() == 1 or not items:
        return
    joined = torch.cat([item.detach().reshape(-1) for item in items])
    dist.all_reduce(joined)
    joined /= world_size()
    with torch.no_grad():
        for item, mean in zip(items, torch.split(joined, [item.numel() for item in items]), strict=True):
            item.copy_(mean.view_as(item))


def all_reduce_sum(tensor: Tensor) -> Tensor:
    """Replace a tensor by its sum over all processes, and return it."""
    if world_size() > 1:
        dist.all_reduce(tensor)
    return tensor


def mean_over_processes(values: Mapping[str, float]) -> dict[str, float]:
    """The means over all processes of named numbers; every process names the same."""
    if world_size() == 1:
        return dict(values)
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    joined = torch.tensor(list(values.values()), dtype=torch.float64, device=device)
    all_reduce_mean([joined])
    return dict(zip(values, joined.tolist(), strict=True))


def value_of_main_process(value: float) -> float:
    """Give every process the number that the main one has."""
    if world_size() == 1:
        return value
    tensor = torch.tensor([value], dtype=torch.float64, device="cuda" if dist.get_backend() == "nccl" else "cpu")
    dist.broadcast(tensor, src=0)
    return float(tensor.item())


def broadcast(tensors: Iterable[Tensor]) -> None:
    """Give every process the tensors of the main one."""
    if world_size() > 1:
        for item in tensors:
            dist.broadcast(item.detach(), src=0)


def average_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Replace the gradients of trained parameters by their means over all processes."""
    all_reduce_mean([item.grad for item in parameters if item.grad is not None])


def barrier() -> None:
    """Wait for every process."""
    if world_size() > 1:
        dist.barrier()


def _in_process_group() -> bool:
    return dist.is_available() and dist.is_initialized()
