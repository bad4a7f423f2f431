"""The steps of a Glow level with a backward pass of their own."""

from __future__ import annotations

import functools

import torch

from hardpan.flows.steps import Runner, run_plain


def fast_runner(dtype: torch.dtype) -> Runner:
    """How to run steps on a GPU."""
    return functools.partial(run_plain, dtype=dtype)
