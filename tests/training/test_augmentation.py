"""Crops and flips against a plain loop over padded arrays."""

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from hardpan.training.examples import Augmentation, choose_augmentation, crop_draws, crop_images


def by_hand(image, down, right, mirrored):
    """Pad with black, mirror, cut out."""
    height, width = image.shape[:2]
    pad = max(abs(down), abs(right))
    turned = image[:, ::-1] if mirrored else image
    # The cut moves over the image as it lies in memory: mirrored, a shift goes the other way.
    right = -right if mirrored else right
    padded = np.pad(turned, ((pad, pad), (pad, pad), (0, 0)))
    return padded[pad + down : pad + down + height, pad + right : pad + right + width]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    channels=st.integers(1, 3),
    pad=st.integers(0, 3),
    kind=st.sampled_from([np.uint8, np.float32]),
)
def test_gather_is_pad_mirror_and_cut(seed, height, width, channels, pad, kind):
    rng = np.random.default_rng(seed)
    raw = rng.integers(1, 200, (6, height, width, channels)).astype(kind)
    rows = rng.integers(0, 6, 10)
    drawn = np.stack([*rng.integers(-pad, pad + 1, (2, 10)), rng.integers(0, 2, 10)], axis=1)
    found = crop_images(torch.from_numpy(raw), torch.from_numpy(rows), torch.from_numpy(drawn)).numpy()
    assert found.dtype == kind
    for place, (row, (down, right, mirrored)) in enumerate(zip(rows, drawn, strict=True)):
        np.testing.assert_array_equal(found[place], by_hand(raw[row], int(down), int(right), bool(mirrored)))


def test_draws_cover_their_range_evenly_and_depend_on_seed_and_epoch_alone():
    drawn = crop_draws(Augmentation(pad=2, flip=True), 50_000, seed=1, epoch=3)
    torch.rand(10)
    assert torch.equal(drawn, crop_draws(Augmentation(pad=2, flip=True), 50_000, seed=1, epoch=3))
    assert not torch.equal(drawn, crop_draws(Augmentation(pad=2, flip=True), 50_000, seed=1, epoch=4))
    for column in (0, 1):
        counts = np.bincount(drawn[:, column].numpy() + 2)
        assert len(counts) == 5
        assert np.abs(counts - 10_000).max() < 600  # six standard deviations
    assert abs(drawn[:, 2].float().mean().item() - 0.5) < 0.015
    assert crop_draws(Augmentation(pad=1), 100, 0, 0)[:, 2].sum() == 0


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("auto", (3, 32, 32), (4, True)),
        ("auto", (1, 28, 28), (2, False)),
        ("auto", (1, 8, 8), (0, False)),
        ("auto", (64,), (0, False)),
        ("crop", (1, 8, 8), (1, False)),
        ("crop-flip", (1, 28, 28), (2, True)),
        ("crop-flip", (64,), (0, False)),
        ("none", (3, 32, 32), (0, False)),
    ],
)
def test_what_is_chosen(name, shape, expected):
    chosen = choose_augmentation(name, shape)
    assert (chosen.pad, chosen.flip) == expected
    assert bool(chosen) == (expected != (0, False))
