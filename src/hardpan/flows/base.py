"""The class-conditional Gaussian that a flow carries data to."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

_LOG_TWO_PI = math.log(2 * math.pi)
# Adam moves every number by about its rate a step, whatever its size. Class means have far to go, from 0 to several
# standard deviations: as multiples of their parameters they get there as soon as the weights of the transform do.
MEAN_GAIN = 10.0


class Latents(NamedTuple):
    """Where a flow carries a batch.

    Attributes:
        top: (B, d_top), the coordinates in which the classes differ.
        rest: (B, d_rest), standard normal and without class: split latents, standardised by their learned priors.
        log_det: (B,), log |det| of the whole map from x to (top, rest).
        features: (B, f), what the classification loss looks at.
    """

    top: Tensor
    rest: Tensor
    log_det: Tensor
    features: Tensor


class ClassBase(nn.Module):
    """Classes N(μ_k, τ²Σ) in the top latents and N(0, τ²) in the rest, with priors π.

    log π_k p_k(x) = log π_k + log N(top; μ_k, τ²Σ_k) + log N(rest; 0, τ²I) + log |det|, where Σ_k is one learned
    diagonal for all classes, or one per class. The temperature τ scales all latents alike.

    Args:
        dimension: d_top.
        priors: (K,) class shares of the training rows.
        per_class: one covariance per class.
    """

    log_priors: Tensor

    def __init__(self, dimension: int, priors: Tensor, per_class: bool = False) -> None:
        super().__init__()
        n_classes = len(priors)
        self.centres = nn.Parameter(torch.zeros(n_classes, dimension))
        self.log_scales = nn.Parameter(torch.zeros(n_classes if per_class else 1, dimension))
        self.register_buffer("log_priors", torch.log(priors.double()).float())

    @property
    def means(self) -> Tensor:
        """μ, (K, d_top)."""
        return MEAN_GAIN * self.centres

    @torch.no_grad()
    def set_means(self, means: Tensor) -> None:
        """Put the classes elsewhere."""
        self.centres.copy_(means / MEAN_GAIN)

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.centres)

    def log_joint(self, latents: Latents, temperature: float = 1.0) -> Tensor:
        """log π_k p_k(x) of every class, (B, K), in float64."""
        return self.log_class(latents.top, temperature) + self.shared(latents, temperature)[:, None]

    def log_class(self, top: Tensor, temperature: float = 1.0) -> Tensor:
        """log π_k + log N(top; μ_k, τ²Σ_k) of every class, (B, K), in float64: all that a posterior needs."""
        top, means, scales = top.double(), self.means.double(), self.log_scales.double() + math.log(temperature)
        columns = []
        for k in range(self.n_classes):  # a class at a time: nothing of size B × K × d
            log_scale = scales[k if len(scales) > 1 else 0]
            gap = (top - means[k]) * torch.exp(-log_scale)
            columns.append(-0.5 * gap.square().sum(1) - log_scale.sum())
        constant = 0.5 * top.shape[1] * _LOG_TWO_PI
        return torch.stack(columns, 1) - constant + self.log_priors.double()

    def shared(self, latents: Latents, temperature: float = 1.0) -> Tensor:
        """What all classes have in common: log N(rest; 0, τ²I) + log |det|, (B,), in float64."""
        rest = latents.rest.double() / temperature
        constant = rest.shape[1] * (0.5 * _LOG_TWO_PI + math.log(temperature))
        return -0.5 * rest.square().sum(1) - constant + latents.log_det.double()

    def log_posterior(self, top: Tensor) -> Tensor:
        """log p(y | x) of every class, (B, K), at τ = 1, in the precision of ``top``: what training needs."""
        precisions = torch.exp(-2 * self.log_scales).expand(self.n_classes, -1)
        weights = precisions * self.means
        constant = self.log_priors - self.log_scales.sum(1) - 0.5 * (weights * self.means).sum(1)
        return torch.log_softmax(top @ weights.T - 0.5 * top.square() @ precisions.T + constant, 1)

    def log_joint_of(self, latents: Latents, one_hot: Tensor) -> Tensor:
        """log π_y p_y(x), (B,), in float32, for ``one_hot`` labels (B, K): what training needs.

        A product with ``one_hot`` instead of an index keeps the gradient deterministic.
        """
        log_scale = one_hot @ self.log_scales if len(self.log_scales) > 1 else self.log_scales
        gap = (latents.top - one_hot @ self.means) * torch.exp(-log_scale)
        dimension = latents.top.shape[1] + latents.rest.shape[1]
        squares = gap.square().sum(1) + latents.rest.square().sum(1)
        log_normal = -0.5 * (squares + dimension * _LOG_TWO_PI) - log_scale.sum(1)
        return log_normal + latents.log_det + one_hot @ self.log_priors
