"""Altered copies of photographs: how many are found, by alteration and size; false pairs; CIFAR-10's judged pairs.

The alterations are made here with Pillow, not by the code that the search itself uses to state its sensitivity.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from bench import harness

CORES = 2
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
SIZES = (20, 32, 64, 128, 224)
PLANTED = max(20, round(200 * SCALE))  # photographs of each size that are altered in every way
LEAST, FALSE = 0.95, 0.001  # found of each alteration; false pairs per image
LISTED = 524
SHOWN = 96  # accepted pairs that nobody judged
PICTURE = harness.ROOT / "docs" / "results" / "image_copies.jpg"
PRECISION, RECALL = 0.75, 0.80  # on the judged pairs of CIFAR-10

Photo = Any
Alteration = Callable[[Photo, np.random.Generator], Photo]


def shifted(image: Photo, rng: np.random.Generator) -> Photo:
    """By 3 to 10 % of the side along each axis; what is left free repeats the edge."""
    side = image.shape[0]
    steps = [int(rng.choice((-1, 1))) * max(1, round(side * rng.uniform(0.03, 0.10) - 0.5)) for _ in range(2)]
    down, along = (np.clip(np.arange(side) + step, 0, side - 1) for step in steps)
    return image[down][:, along]


def cropped(least: float, most: float) -> Alteration:
    """A window of ``least`` to ``most`` of the side, enlarged to the whole."""

    def alter(image: Photo, rng: np.random.Generator) -> Photo:
        side = image.shape[0]
        kept = side * rng.uniform(least, most)
        left, top = rng.uniform(0, side - kept, 2)
        box = (left, top, left + kept, top + kept)
        return np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.BICUBIC, box=box))

    return alter


def recompressed(image: Photo, rng: np.random.Generator) -> Photo:
    """JPEG at quality 30 to 90."""
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "JPEG", quality=int(rng.integers(30, 91)))
    return np.asarray(Image.open(stream))


def rescaled(image: Photo, gain: float, offset: float) -> Photo:
    """Grey values times a gain about 128, plus an offset, clipped."""
    return np.clip(np.rint((image.astype(np.float64) - 128) * gain + 128 + offset), 0, 255).astype(np.uint8)


def mirrored(image: Photo, rng: np.random.Generator) -> Photo:
    return image[:, ::-1]


ALTERATIONS: dict[str, Alteration] = {
    "shifted by 3 to 10 %": shifted,
    "cropped to 80 to 95 %": cropped(0.80, 0.95),
    "cropped to 80 %": cropped(0.80, 0.80),
    "mirrored": mirrored,
    "turned by a quarter": lambda image, rng: np.rot90(image, int(rng.integers(1, 4))),
    "brighter or darker by 15 to 45": lambda image, rng: rescaled(
        image, 1.0, float(rng.choice((-1, 1)) * rng.uniform(15, 45))
    ),
    "contrast × 0.6 or × 1.5": lambda image, rng: rescaled(image, float(rng.choice((0.6, 1.5))), 0.0),
    "grey": lambda image, rng: np.repeat(np.asarray(Image.fromarray(image).convert("L"))[..., None], 3, axis=2),
    "inverted": lambda image, rng: 255 - image,
    "JPEG, quality 30 to 90": recompressed,
    "mirrored, then JPEG": lambda image, rng: recompressed(np.ascontiguousarray(image[:, ::-1]), rng),
    "mirrored, then cropped to 80 to 95 %": lambda image, rng: cropped(0.80, 0.95)(
        np.ascontiguousarray(image[:, ::-1]), rng
    ),
}


def photographs() -> Any:
    """(N, 224, 224, 3) the middles of the photographs in the folder BENCH_PHOTOS, in the order of their names."""
    folder = os.environ.get("BENCH_PHOTOS")
    if not folder:
        raise SystemExit(
            "BENCH_PHOTOS must name a folder of different photographs that were not used to set the search, such as"
            " the 1,000 of github.com/EliSchwartz/imagenet-sample-images"
        )
    found = []
    paths = sorted(p for p in Path(folder).iterdir() if p.suffix.lower() in (".jpg", ".jpeg", ".png"))
    for path in paths[: max(60, round(len(paths) * SCALE))]:
        with Image.open(path) as opened:
            opened.draft("RGB", (2 * SIZES[-1], 2 * SIZES[-1]))
            image = opened.convert("RGB")
        least = min(image.size)
        left, top = (image.width - least) / 2, (image.height - least) / 2
        box = (left, top, left + least, top + least)
        found.append(np.asarray(image.resize((SIZES[-1], SIZES[-1]), Image.Resampling.BOX, box=box)))
    return np.stack(found)


def smaller(images: Any, side: int) -> Any:
    return np.stack([np.asarray(Image.fromarray(x).resize((side, side), Image.Resampling.BOX)) for x in images])


def planted() -> list[dict[str, Any]]:
    """Tables of found copies and of false pairs, by size."""
    from hardpan.neighbors import image_copies

    rows: list[dict[str, Any]] = [{"alteration": name} for name in ALTERATIONS]
    pairs, largest = [], photographs()
    for side in SIZES:
        x = smaller(largest, side)
        grids = image_copies.grey_grids(x)
        chosen = np.sort(np.random.default_rng(side).permutation(len(x))[:PLANTED])
        for row, (number, alter) in zip(rows, enumerate(ALTERATIONS.values()), strict=True):
            rng = np.random.default_rng([side, number])
            altered = np.stack([alter(image, rng) for image in x[chosen]])
            copies = image_copies.match_grids(image_copies.grey_grids(altered), grids)
            row[f"{side} px"] = float((copies.accepted & (copies.references == chosen[:, None])).any(axis=1).mean())
        # Photographs of two halves: every pair is false.
        even, odd = np.arange(0, len(x), 2), np.arange(1, len(x), 2)
        false = sum(
            int(image_copies.match_grids(grids[a], grids[b]).accepted.any(axis=1).sum())
            for a, b in ((even, odd), (odd, even))
        )
        pairs.append(
            {
                "side": f"{side} px",
                "images searched": len(x),
                "among": len(odd),
                "with a pair": false,
                "per image": false / len(x),
                **harness.against(false / len(x), at_most=FALSE),
            }
        )
    for row in rows:
        row |= harness.against(min(row[f"{side} px"] for side in SIZES), at_least=LEAST)
    notes = [
        f"{PLANTED} photographs of each size, altered by code of the bench, among all {len(largest):,}",
        "found: the right photograph is an accepted pair; must: at every size",
    ]
    return [
        harness.table("Altered copies that are found", rows, notes=notes),
        harness.table(
            "False pairs: different photographs", pairs, notes=["every photograph is searched in the other half"]
        ),
    ]


def judged() -> dict[str, Any]:
    """The search of CIFAR-10's test images among its training images, against the pairs that people judged."""
    from sklearn.metrics import average_precision_score

    from hardpan.neighbors import image_copies

    path, pairs = os.environ.get("BENCH_CIFAR"), os.environ.get("BENCH_CIFAIR")
    if not path or not pairs:
        raise SystemExit(
            "BENCH_CIFAR must name CIFAR-10's npz file, and BENCH_CIFAIR duplicates_cifar10.csv "
            "of github.com/cvjena/cifair"
        )
    with np.load(path, allow_pickle=False) as data:
        train, test = data["x_train"], data["x_test"]
    with Path(pairs).open(encoding="utf-8") as stream:
        kind_of = {int(row["TestID"]): int(row["Judgment"]) for row in csv.DictReader(stream)}
    copies = image_copies.match_grids(image_copies.grey_grids(test), image_copies.grey_grids(train))
    score, accepted = np.abs(copies.correlation).max(axis=1), copies.accepted.any(axis=1)
    order = np.argsort(-score, kind="stable")
    rows = []
    for name, kinds in {"all judged pairs": (0, 1, 2), "the same shot": (0, 1), "another shot": (2,)}.items():
        truth = np.isin(np.arange(len(test)), [row for row, kind in kind_of.items() if kind in kinds])
        recall = float(truth[order[:LISTED]].sum() / truth.sum())
        rows.append(
            {
                "test images": name,
                "number": int(truth.sum()),
                "average precision": float(average_precision_score(truth, score)),
                "accepted": float(accepted[truth].mean()),
                f"recall at {LISTED}": recall,
                **(harness.against(recall, at_least=RECALL) if kinds == (0, 1, 2) else {}),
            }
        )
    rows[0] |= {"wanted average precision": PRECISION}
    other = np.flatnonzero(accepted & ~np.isin(np.arange(len(test)), list(kind_of)))
    best = copies.references[np.arange(len(test)), np.abs(copies.correlation).argmax(axis=1)]
    shown = np.sort(np.random.default_rng(0).permutation(other)[:SHOWN])
    sheet(test[shown], train[best[shown]]).save(PICTURE, quality=85)
    notes = [
        f"{accepted.sum():,} test images have an accepted pair, {len(other):,} of them without a judged one",
        f"the judged list is not exhaustive (no mirrored pairs): docs/results/{PICTURE.name} shows {len(shown)} "
        "accepted pairs that it lacks, drawn at random. In the average precision they count as false",
    ]
    return harness.table("CIFAR-10's test images that people judged to be in train", rows, notes=notes)


def sheet(mine: Any, theirs: Any) -> Image.Image:
    """Pairs side by side, twelve in a row."""
    columns, step = 12, (70, 36)
    picture = Image.new("RGB", (2 * step[0] * columns, 2 * step[1] * -(-len(mine) // columns)), "white")
    for k, pair in enumerate(zip(mine, theirs, strict=True)):
        for side, image in enumerate(pair):
            at = (2 * (step[0] * (k % columns) + 33 * side), 2 * step[1] * (k // columns))
            picture.paste(Image.fromarray(image).resize((64, 64), Image.Resampling.NEAREST), at)
    return picture


def run() -> list[dict[str, Any]]:
    return [*planted(), judged()]


TABLES = {"judged": lambda: [judged()]}
