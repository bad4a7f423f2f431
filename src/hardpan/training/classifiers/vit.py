"""Vision transformers (Dosovitskiy et al., 2021) with small patches for small images."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hardpan.arguments import real_number, whole_number
from hardpan.errors import InputError
from hardpan.training.classifiers.layers import SMALL_IMAGE, Shape, require_image

SIZES = {"tiny": (192, 3), "small": (384, 6)}  # width, heads
_DEVIATION = 0.02


class Attention(nn.Module):
    """Every patch looks at every other, with several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self.mixed = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, tokens, width) to the same shape."""
        batch, tokens, width = x.shape
        split = self.mixed(x).reshape(batch, tokens, 3, self._heads, width // self._heads)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        seen = nn.functional.scaled_dot_product_attention(query, key, value)
        answer: Tensor = self.out(seen.transpose(1, 2).reshape(batch, tokens, width))
        return answer


class Block(nn.Module):
    """Attention, then two dense layers; each after a normalisation and beside a shortcut."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attend = nn.Sequential(nn.LayerNorm(width, eps=1e-6), Attention(width, heads), nn.Dropout(dropout))
        self.think = nn.Sequential(
            nn.LayerNorm(width, eps=1e-6),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
            nn.Dropout(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, tokens, width) to the same shape."""
        x = x + self.attend(x)
        after: Tensor = x + self.think(x)
        return after


class VisionTransformer(nn.Module):
    """Patches as tokens, a class token, learnt places."""

    def __init__(
        self, shape: Shape, n_classes: int, patch: int, width: int, heads: int, depth: int, dropout: float
    ) -> None:
        super().__init__()
        tokens = (shape.height // patch) * (shape.width // patch)
        self.patches = nn.Conv2d(shape.channels, width, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, tokens + 1, width))
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(depth)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, n_classes)

    def draw(self, generator: torch.Generator) -> None:
        """Dense weights, token and places from a truncated normal of deviation 0.02, biases 0."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=_DEVIATION, generator=generator)
                nn.init.zeros_(module.bias)
        nn.init.trunc_normal_(self.class_token, std=_DEVIATION, generator=generator)
        nn.init.trunc_normal_(self.places, std=_DEVIATION, generator=generator)
        # The patches are a dense layer on their pixels, whatever form its weights have.
        fan_in = self.patches.weight[0].numel()
        nn.init.trunc_normal_(self.patches.weight, std=fan_in**-0.5, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to logits (B, classes)."""
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(x), -1, -1), tokens], dim=1) + self.places
        logits: Tensor = self.head(self.norm(self.blocks(tokens))[:, 0])
        return logits


def transformer(
    shape: Shape, n_classes: int, *, size: str, patch: int | None = None, depth: int = 12, dropout: float = 0.0
) -> nn.Module:
    """ViT-tiny or ViT-small; ``patch`` is 4 pixels up to images of 64, else 16."""
    name = f"vit-{size}"
    require_image(name, shape)
    patch = whole_number("patch", (4 if shape.side <= SMALL_IMAGE else 16) if patch is None else patch, 1)
    whole_number("depth", depth, 1)
    real_number("dropout", dropout, "[0, 1)")
    if shape.height % patch or shape.width % patch:
        raise InputError(
            f"{name} cuts images into patches of {patch} × {patch} pixels, and input_shape is {shape}; "
            f"give another patch, or images whose sides are multiples of {patch}"
        )
    width, heads = SIZES[size]
    return VisionTransformer(shape, n_classes, patch, width, heads, depth, dropout)
