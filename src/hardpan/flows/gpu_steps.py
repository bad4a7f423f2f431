"""The steps of a Glow level as one operation with a backward pass of its own: what training on a GPU runs.

As :func:`hardpan.flows.glow.run_glow_plain`. Every convolution is a matrix product on (M, channels)
rows, M = B·H·W, in the coupling networks' own precision; mixing, couplings and log-determinants stay in float32. A
step forward is six kernels and a step back about sixteen, whatever the batch, so that a captured graph of the whole
training step spends its time in products and not in launches. Each small operation exists twice: in plain torch
(:class:`PlainStepOps`, any device) and as Triton kernels (:mod:`hardpan.flows.triton_kernels`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from hardpan.flows import glow
from hardpan.flows.glow import GlowBounds, GlowStack, Runner

ALIGNED = 8  # tensor cores want rows of a multiple of 16 bytes


class PlainStepOps:
    """The small operations in plain torch; rows are places, (M, channels)."""

    @staticmethod
    def patches(
        x: Tensor, channels: int, columns: int, width: int, places: int, sign: int, dtype: Any, reach: float = 0.0
    ) -> Tensor:
        """The first ``channels`` of x, as seen, with their 3×3 neighbours, tap by tap; zeros up to ``columns``."""
        image = GlowBounds(reach=reach).squash(x[:, :channels]).reshape(-1, places // width, width, channels)
        result = glow.patches(image).reshape(len(x), 9, channels)
        if sign < 0:  # the neighbour of tap t is at minus the offset of tap 8 − t
            result = result.flip(1)
        return functional.pad(result.reshape(len(x), -1), (0, columns - 9 * channels)).to(dtype)

    @staticmethod
    def fold_add(
        taps: Tensor, out: Tensor, y: Tensor, channels: int, width: int, places: int, sign: int, reach: float = 0.0
    ) -> None:
        """Add to the first ``channels`` of out what their neighbours say, times the slope at y of what was seen."""
        said = taps[:, : 9 * channels].float().reshape(len(taps), 9, channels)
        if sign < 0:
            # What the neighbour at minus an offset says for tap t is what the one at plus says for tap 8 − t.
            said = said.flip(1)
        image = said.reshape(-1, places // width, width, 9 * channels)
        slope = GlowBounds(reach=reach).squash_slope(y[:, :channels])
        out[:, :channels] += glow.fold(image).reshape(-1, channels) * slope

    @staticmethod
    def couple(
        taps: Tensor, bias: Tensor, y: Tensor, log_det: Tensor, width: int, places: int, bounds: GlowBounds
    ) -> tuple[Tensor, Tensor]:
        """Output of the coupling and its raw parameters; adds to log_det."""
        raw = bias.expand_as(y).clone()
        PlainStepOps.fold_add(taps, raw, y, y.shape[1], width, places, 1)
        scale, shift = bounds.scale(raw.chunk(2, 1)[0]), raw.chunk(2, 1)[1]
        unchanged, moved = y.chunk(2, 1)
        log_det += torch.log(scale).reshape(len(log_det), -1).sum(1)
        return torch.cat([unchanged, moved * scale + shift], 1), raw

    @staticmethod
    def couple_back(
        gz: Tensor, g_log_det: Tensor, raw: Tensor, y: Tensor, places: int, bounds: GlowBounds
    ) -> tuple[Tensor, Tensor]:
        """Gradients of y and of the raw parameters."""
        bent = torch.sigmoid(raw.chunk(2, 1)[0] + bounds.start)
        scale = bounds.least + bounds.span * bent
        g_kept, g_moved = gz.chunk(2, 1)
        g_scale = g_moved * y.chunk(2, 1)[1] + g_log_det.repeat_interleave(places)[:, None] / scale
        g_raw = g_scale * bounds.span * bent * (1 - bent)
        return torch.cat([g_kept, g_moved * scale], 1), torch.cat([g_raw, g_moved], 1)

    @staticmethod
    def masked_product(a: Tensor, w: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """(a @ wᵀ) where hidden > 0, and its column sums in float32."""
        out = (a @ w.T) * (hidden > 0)
        return out, out.sum(0, dtype=torch.float32)


@dataclass(frozen=True, slots=True)
class StepDropout:
    """Leaves out hidden units of the coupling networks at random, and scales the others so that means stay."""

    rate: float
    generator: torch.Generator

    def applied(self, hidden: Tensor) -> Tensor:
        """``hidden`` with a proportion ``rate`` of its entries set to 0 and the others divided by 1 − rate."""
        mask = torch.empty_like(hidden).bernoulli_(1 - self.rate, generator=self.generator)
        return hidden * mask.div_(1 - self.rate)


class _GpuStepsFunction(torch.autograd.Function):
    """K steps: see :func:`hardpan.flows.glow.run_glow_plain`."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, dtype: Any, ops: Any, bounds: GlowBounds, dropout: StepDropout | None, *arrays: Tensor
    ) -> tuple[Tensor, Tensor]:
        stack = GlowStack(*arrays, bounds=bounds)
        batch, height, width, channels = x.shape
        places, inner = height * width, channels // 2
        log_det = torch.zeros(batch, dtype=x.dtype, device=x.device)
        weights = _cast_stack(stack, dtype)
        flat, saved = x.reshape(-1, channels).contiguous(), []
        for k in range(len(stack.mix)):
            y = torch.addmm(stack.offset[k], flat, stack.mix[k].T)
            around = ops.patches(y, inner, weights.w1.shape[1], width, places, 1, dtype, bounds.reach)
            # Bias and ReLU are in the product's own kernel.
            hidden1 = torch._addmm_activation(weights.b1[k], around, weights.w1[k])
            hidden2 = torch._addmm_activation(weights.b2[k], hidden1, weights.w2[k])
            if dropout is not None:
                hidden2 = dropout.applied(hidden2)
            taps = _float32_product(hidden2, weights.w3[k])
            z, raw = ops.couple(taps, stack.b3[k], y, log_det, width, places, bounds)
            saved += [flat, y, around, hidden1, hidden2, raw]
            flat = z
        ctx.save_for_backward(stack.mix, weights.w1, weights.w2, weights.w3, *saved)
        ctx.layout, ctx.ops, ctx.dtype, ctx.bounds = (batch, height, width, channels), ops, dtype, bounds
        ctx.kept = 1.0 if dropout is None else 1 - dropout.rate
        return flat.reshape(x.shape), log_det

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator,unused-ignore]
    def backward(ctx: Any, gz: Tensor, g_log_det: Tensor) -> tuple[Any, ...]:
        mix, w1, w2, w3, *saved = ctx.saved_tensors
        batch, height, width, channels = ctx.layout
        ops, places, inner = ctx.ops, height * width, channels // 2
        flat, g_log_det = gz.reshape(-1, channels).contiguous(), g_log_det.contiguous()
        results: list[list[Tensor]] = []
        for k in reversed(range(len(mix))):
            before, y, around, hidden1, hidden2, raw = saved[6 * k : 6 * k + 6]
            gy, g_raw = ops.couple_back(flat, g_log_det, raw, y, places, ctx.bounds)
            g_taps = ops.patches(g_raw, channels, w3.shape[2], width, places, -1, ctx.dtype)
            g_hidden2, g_b2 = ops.masked_product(g_taps, w3[k], hidden2)
            if ctx.kept < 1:  # a unit that was left out is 0 in hidden2, so the mask is that of both
                g_hidden2, g_b2 = g_hidden2 / ctx.kept, g_b2 / ctx.kept
            g_hidden1, g_b1 = ops.masked_product(g_hidden2, w2[k], hidden1)
            ops.fold_add(g_hidden1 @ w1[k].T, gy, y, inner, width, places, -1, ctx.bounds.reach)
            results.append([
                _outer_product_sum(gy, before, batch), gy.sum(0),
                _product_over_rows(around, g_hidden1)[: 9 * inner], g_b1,
                _product_over_rows(hidden1, g_hidden2), g_b2,
                _product_over_rows(hidden2, g_taps)[:, : 9 * channels], g_raw.sum(0),
            ])  # fmt: skip
            flat = gy @ mix[k]
        gradients = [torch.stack(parts[::-1]) for parts in zip(*results, strict=True)]
        return (flat.reshape(ctx.layout), None, None, None, None, *gradients)


def _cast_stack(stack: GlowStack, dtype: Any) -> GlowStack:
    """Weights in the networks' precision, their narrow sides padded to aligned rows."""
    w1 = functional.pad(stack.w1, (0, 0, 0, -stack.w1.shape[1] % ALIGNED)).to(dtype)
    w3 = functional.pad(stack.w3, (0, -stack.w3.shape[2] % ALIGNED)).to(dtype)
    b1, w2, b2 = (item.to(dtype) for item in (stack.b1, stack.w2, stack.b2))
    return GlowStack(stack.mix, stack.offset, w1, b1, w2, b2, w3, stack.b3)


def _float32_product(a: Tensor, b: Tensor) -> Tensor:
    """A product with a float32 result."""
    if a.is_cuda and a.dtype != torch.float32 and hasattr(torch.ops.aten.mm, "dtype"):  # since torch 2.8
        return torch.mm(a, b, out_dtype=torch.float32)
    return (a @ b).float()


def _product_over_rows(a: Tensor, b: Tensor) -> Tensor:
    """aᵀ b over very many rows, in float32: (M, p), (M, q) -> (p, q)."""
    return _float32_product(a.T, b)


def _outer_product_sum(g: Tensor, x: Tensor, batch: int) -> Tensor:
    """Σ gᵀ x over all rows, image by image first: one small matrix from very many rows needs the parallel way."""
    shape = (batch, -1, g.shape[1])
    return torch.bmm(g.reshape(shape).transpose(1, 2), x.reshape(shape)).sum(0)


def fast_runner(dtype: torch.dtype, ops: Any = None, dropout: StepDropout | None = None) -> Runner:
    """How to run steps in training on a GPU; ``ops`` replaces the Triton kernels (by :class:`PlainStepOps`)."""
    if ops is None:
        from hardpan.flows import triton_kernels

        ops = triton_kernels if triton_kernels.AVAILABLE else PlainStepOps

    def run(x: Tensor, stack: GlowStack) -> tuple[Tensor, Tensor]:
        return _GpuStepsFunction.apply(x, dtype, ops, stack.bounds, dropout, *stack.tensors())  # type: ignore[no-any-return,no-untyped-call]

    return run
