"""Altered copies of images: found by alteration, no false pairs among others, on images that were made here."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from hardpan import auditing
from hardpan.data.dataset import Dataset
from hardpan.neighbors.image_copies import ALTERATIONS, KINDS, altered_copies, find_image_copies


def dead_leaves(count, side, seed):
    """Discs and boxes that cover one another, with sizes by a power law: edges and shading as in photographs."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side] / side
    images = np.zeros((count, side, side, 3), np.float32)
    for image in images:
        for _ in range(60):
            size, (down, along) = 0.05 / np.sqrt(rng.uniform(0.01, 1)), rng.uniform(-0.1, 1.1, 2)
            far = np.maximum(abs(y - down), abs(x - along)) if rng.random() < 0.5 else np.hypot(y - down, x - along)
            shade = 1 + rng.normal(0, 0.3) * (x - along) + rng.normal(0, 0.3) * (y - down)
            image[far < size] = (rng.uniform(20, 235, 3) * shade[..., None])[far < size]
    return np.clip(images, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("side", [20, 32, pytest.param(64, marks=pytest.mark.soak)])
def test_altered_images_are_found_and_others_are_not(side):
    images = dead_leaves(300, side, side)
    planted = np.arange(0, 300, 10)
    found, false = {}, 0
    for name, altered in altered_copies(images[planted], seed=1).items():
        copies = find_image_copies(altered.astype(np.uint8), images)
        right = copies.references == planted[:, None]
        found[name] = (copies.accepted & right).any(axis=1).mean()
        false += (copies.accepted & ~right).any(axis=1).sum()
    assert set(found) == set(ALTERATIONS)
    assert np.mean(list(found.values())) >= 0.95
    assert min(found.values()) >= 0.8
    assert false <= 1
    others = find_image_copies(dead_leaves(100, side, side + 1), images)
    assert others.accepted.sum() == 0


def test_crops_into_a_corner_are_found():
    images, kept = dead_leaves(120, 32, 9), 0.8 * 32
    corners = [(left, top) for left in (0.0, 32 - kept) for top in (0.0, 32 - kept)]
    altered = [
        np.asarray(
            Image.fromarray(image).resize((32, 32), Image.Resampling.BICUBIC, (*at, at[0] + kept, at[1] + kept))
        )
        for image in images[:20]
        for at in corners
    ]
    copies = find_image_copies(np.stack(altered), images)
    right = copies.references == np.repeat(np.arange(20), 4)[:, None]
    assert (copies.accepted & right).any(axis=1).mean() >= 0.95


def test_what_was_done_is_named():
    images = dead_leaves(60, 32, 7)
    kinds = {"mirrored": KINDS[0], "inverted": KINDS[1], "cropped": KINDS[2], "noisy": KINDS[4]}
    for name, kind in kinds.items():
        copies = find_image_copies(altered_copies(images[:10], seed=2)[name], images)
        named = [kind in copies.alterations(i, 0) for i in range(10) if copies.accepted[i, 0]]
        assert len(named) >= 8
        assert np.mean(named) >= 0.8


def test_an_audit_lists_altered_images_and_what_it_would_find():
    images = dead_leaves(400, 20, 3)
    for i in range(40):
        images[300 + i] = altered_copies(images[i : i + 1], i)["cropped" if i % 2 else "shifted"][0]
    data = Dataset.from_arrays(
        images, np.arange(400) % 2, split=np.repeat(["train", "test"], [300, 100]), ids=np.arange(400).astype(str)
    )
    report = auditing.audit(data, ensemble="none", flow="none")
    (item,) = (problem for problem in report.problems if problem.kind == "near-copies")
    assert len(set(item.rows) & set(range(300, 340))) >= 36
    assert len(set(item.rows) - set(range(300, 340))) <= 1
    assert item.p_value < 0.001
    assert item.details["sensitivity"]["mirrored"] == (20, 20)
    text = " ".join(sentence for section in report.sections() for sentence in section.sentences)
    assert "were altered here" in text
