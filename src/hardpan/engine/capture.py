"""A whole step as one CUDA graph: launched once, instead of kernel by kernel. On a CPU, the plain call."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor

from hardpan.engine.distributed import world_size
from hardpan.errors import InputError

R = TypeVar("R")


class CapturedStep(Generic[R]):
    """Calls ``function(*inputs)``; on a GPU, after some plain calls, replays it as a captured graph.

    The first calls run on a side stream, as capture asks for (libraries choose their kernels, optimisers make
    their state); they are real calls, so a training step loses nothing by them. Then the function is captured for
    the shapes of the first call, and each later call copies its inputs into fixed buffers and replays the graph.
    Inputs of other shapes (a smaller last batch) run plainly. Several processes run plainly as well.

    What the function must keep to, for its graph to be right: it changes tensors in place only (weights, gradients
    that were allocated before, counters, sums), never reads a value back (``.item()``, ``if tensor``), and draws
    random numbers from the default generator or from one of ``generators``. What it returns is overwritten by the
    next call.

    Args:
        function: takes tensors and gives tensors (or None).
        device: where the tensors lie.
        warmup: how many plain calls come first.
        enabled: False turns capture off.
        generators: further CUDA generators that the function draws from.

    Example:
        >>> double = CapturedStep(lambda x: 2 * x, torch.device("cpu"))
        >>> double(torch.tensor([1.0, 2.0]))
        tensor([2., 4.])
    """

    def __init__(
        self,
        function: Callable[..., R],
        device: torch.device,
        *,
        warmup: int = 3,
        enabled: bool = True,
        generators: Sequence[torch.Generator] = (),
    ) -> None:
        self._function = function
        self._device = device
        self._warmup = max(1, warmup)
        self._enabled = enabled and device.type == "cuda"
        self._generators = tuple(generators)
        self._calls = 0
        self._inputs: tuple[Tensor, ...] = ()
        self._output: R | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._stream: torch.cuda.Stream | None = None

    @property
    def captured(self) -> bool:
        """Whether the graph is there."""
        return self._graph is not None

    def __call__(self, *inputs: Tensor) -> R:
        """Run the function on the inputs."""
        if not self._enabled or world_size() > 1:
            return self._function(*inputs)
        if not self._inputs and not self._calls:
            self._inputs = tuple(item.clone() for item in inputs)
        if [_shape_and_dtype(item) for item in inputs] != [_shape_and_dtype(item) for item in self._inputs]:
            return self._function(*inputs)
        for buffer, value in zip(self._inputs, inputs, strict=True):
            buffer.copy_(value, non_blocking=True)
        self._calls += 1
        if self._calls <= self._warmup:
            return self._call_aside()
        if self._graph is None:
            self._capture()
        assert self._graph is not None
        self._graph.replay()
        return self._output  # type: ignore[return-value]  # the graph has written it

    def _side_stream(self) -> torch.cuda.Stream:
        if self._stream is None:
            self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        return self._stream

    def _call_aside(self) -> R:
        stream, current = self._side_stream(), torch.cuda.current_stream(self._device)
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            output = self._function(*self._inputs)
        current.wait_stream(stream)
        return output

    def _capture(self) -> None:
        graph = torch.cuda.CUDAGraph()
        for generator in self._generators:
            graph.register_generator_state(generator)
        torch.cuda.synchronize(self._device)
        # Garbage of an earlier run may hold a graph, and freeing one in the middle of a capture would break it.
        gc.collect()
        collecting = gc.isenabled()
        gc.disable()
        try:
            # Other threads of the process (progress, another run's copies) may not break the capture of this one.
            with torch.cuda.graph(graph, stream=self._side_stream(), capture_error_mode="thread_local"):
                self._output = self._function(*self._inputs)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0][:200]
            raise InputError(
                f"this step cannot be captured as a CUDA graph ({reason}); turn capture off (--set capture=false)"
            ) from error
        finally:
            if collecting:
                gc.enable()
        self._graph = graph


def _shape_and_dtype(item: Tensor) -> tuple[torch.Size, torch.dtype]:
    return item.shape, item.dtype
