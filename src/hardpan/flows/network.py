"""A whole flow as one torch module: scaling, transform (Glow or splines), base and classification head."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hardpan.errors import InputError, MissingExtra
from hardpan.flows.base import ClassBase, Latents
from hardpan.flows.config import FlowConfig
from hardpan.flows.glow import Glow, GlowBounds
from hardpan.flows.scaling import Dequantizer, ImageScaling, Scaling


class SplineNetwork(nn.Module):
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
            self.layers = nn.ModuleList(_spline_layers(dimension, transforms, hidden, bins))

    def forward(self, x: Tensor) -> Latents:
        """Carry (B, d) to the latents."""
        log_det = torch.zeros(len(x), dtype=x.dtype, device=x.device)
        for layer in self.layers:
            x, layer_log_det = layer().call_and_ladj(x)
            log_det = log_det + layer_log_det
        return Latents(x, x.new_zeros((len(x), 0)), log_det, x)

    def top(self, x: Tensor) -> Tensor:
        """The top latents alone: all of them."""
        return self(x).top  # type: ignore[no-any-return]

    @torch.no_grad()
    def inverse(self, top: Tensor, rest: Tensor) -> Tensor:
        """Carry latents back to (B, d)."""
        for layer in reversed(self.layers):
            top = layer().inv(top)
        return top

    def start(self, x: Tensor) -> None:
        """Nothing depends on the first batch here."""


def _spline_layers(dimension: int, transforms: int, hidden: int, bins: int) -> list[Any]:
    try:
        from zuko.flows.coupling import GeneralCouplingTransform
        from zuko.transforms import MonotonicRQSTransform
    except ImportError as error:
        raise MissingExtra("zuko", "torch") from error
    order = torch.randperm(dimension)
    layers = []
    for number in range(transforms):
        if number % 2 == 0:
            order = torch.randperm(dimension)
        layers.append(
            GeneralCouplingTransform(
                dimension,
                mask=order % 2 == number % 2,
                univariate=MonotonicRQSTransform,
                shapes=[(bins,), (bins,), (bins - 1,)],
                **({"hidden_features": (hidden, hidden)} if dimension > 1 else {}),
            )
        )
    return layers


Transform = Glow | SplineNetwork


class FlowNetwork(nn.Module):
    """Data in its own units -> latents; nothing here knows NumPy or files.

    Args:
        scaling: data to what the transform sees.
        transform: the invertible map.
        base: the classes.
        dequantizer: learned noise for integer images; None: uniform noise.
        class_loss: whose cross-entropy the classification loss is, "head" or "posterior" (:class:`FlowConfig`).
    """

    def __init__(
        self,
        scaling: Scaling,
        transform: Transform,
        base: ClassBase,
        dequantizer: Dequantizer | None = None,
        class_loss: str = "head",
    ) -> None:
        super().__init__()
        self.scaling, self.transform, self.base, self.dequantizer = scaling, transform, base, dequantizer
        self.class_loss = class_loss
        # Without its usual random start, which would draw from the caller's generator.
        self.head = nn.Linear(transform.n_features, base.n_classes, device="meta").to_empty(device="cpu")
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def dequantized(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Integers (B, ...) plus noise u in their cells, and log q(u | x) (B,), from uniform noise."""
        if self.dequantizer is None:
            return x + noise, x.new_zeros(len(x))
        u, log_q = self.dequantizer(self.scaling.to_net(x), noise)
        return x + u, log_q

    def latents(self, x: Tensor) -> Latents:
        """Carry (B, ...) in data units to latents, with the scaling's part in log |det|."""
        result: Latents = self.transform(self.scaling.to_net(x))
        return result._replace(log_det=result.log_det + self.scaling.log_det())

    def top(self, x: Tensor) -> Tensor:
        """The top latents of (B, ...) in data units: all that a posterior needs."""
        return self.transform.top(self.scaling.to_net(x))

    def data(self, top: Tensor, rest: Tensor) -> Tensor:
        """Carry latents back to data units."""
        return self.scaling.from_net(self.transform.inverse(top, rest))

    def forward(self, x: Tensor, one_hot: Tensor) -> tuple[Tensor, Tensor]:
        """log π_y p_y(x) (B,) and the log-probability of y in the classification loss (B,).

        Args:
            x: (B, ...) in data units.
            one_hot: (B, K) one-hot labels y.
        """
        latents = self.latents(x)
        if self.class_loss == "head":
            log_class = torch.log_softmax(self.head(latents.features), 1)
        else:
            log_class = self.base.log_posterior(latents.top)
        return self.base.log_joint_of(latents, one_hot), (log_class * one_hot).sum(1)


def build(config: FlowConfig, scaling: Scaling, priors: Tensor) -> FlowNetwork:
    """Make an untrained network from filled settings."""
    if isinstance(scaling, ImageScaling):
        steps, width = config.steps or 1, config.width or 1
        bounds = GlowBounds(config.least_scale, config.most_scale, config.reach)
        transform: Transform = Glow(scaling.net_shape, scaling.depth, steps, width, config.seed, bounds)
    else:
        transform = SplineNetwork(
            scaling.dimension, config.transforms or 1, config.hidden or 1, config.bins, config.seed
        )
    dequantizer = None
    if config.dequantization == "variational":
        if not isinstance(scaling, ImageScaling):
            raise InputError(
                "'variational' is for images; use 'uniform' for feature vectors", argument="dequantization"
            )
        dequantizer = Dequantizer(scaling.net_shape[2], max(8, (config.width or 1) // 4), config.seed)
    base = ClassBase(transform.d_top, priors, config.class_covariances)
    return FlowNetwork(scaling, transform, base, dequantizer, config.class_loss)
