"""Spline coupling flows for feature vectors (zuko), on the same base and behind the same methods as a Glow."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hardpan.errors import MissingExtra
from hardpan.flows.base import Latents


class SplineFlow(nn.Module):
    """Coupling layers of monotonic rational-quadratic splines (Durkan et al. 2019); all latents are top latents.

    Each layer moves half of the features, chosen at random and the other half in the next layer, by splines on
    [-5, 5] whose knots a network computes from the rest.

    Args:
        dimension: d, of standardised features.
        transforms: how many layers.
        hidden: width of their networks (two hidden layers).
        bins: pieces of a spline.
        seed: of the masks and the first weights.
    """

    def __init__(self, dimension: int, transforms: int, hidden: int, bins: int = 8, seed: int = 0) -> None:
        super().__init__()
        self.shape = (dimension,)
        self.d_top, self.d_rest, self.n_features = dimension, 0, dimension
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.layers = nn.ModuleList(_layers(dimension, transforms, hidden, bins))

    def forward(self, x: Tensor) -> Latents:
        """Carry (B, d) to the latents."""
        log_det = torch.zeros(len(x), dtype=x.dtype, device=x.device)
        for layer in self.layers:
            x, part = layer().call_and_ladj(x)
            log_det = log_det + part
        return Latents(x, x.new_zeros((len(x), 0)), log_det, x)

    @torch.no_grad()
    def inverse(self, top: Tensor, rest: Tensor) -> Tensor:
        """Carry latents back to (B, d)."""
        for layer in reversed(self.layers):
            top = layer().inv(top)
        return top

    def start(self, x: Tensor) -> None:
        """Nothing depends on the first batch here."""


def _layers(dimension: int, transforms: int, hidden: int, bins: int) -> list[Any]:
    try:
        from zuko.flows.coupling import GeneralCouplingTransform
        from zuko.transforms import MonotonicRQSTransform
    except ImportError as error:
        raise MissingExtra("zuko", "torch") from error
    order = torch.randperm(dimension)
    made = []
    for number in range(transforms):
        if number % 2 == 0:
            order = torch.randperm(dimension)
        made.append(
            GeneralCouplingTransform(
                dimension,
                mask=order % 2 == number % 2,
                univariate=MonotonicRQSTransform,
                shapes=[(bins,), (bins,), (bins - 1,)],
                **({"hidden_features": (hidden, hidden)} if dimension > 1 else {}),
            )
        )
    return made
