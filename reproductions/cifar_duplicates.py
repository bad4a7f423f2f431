"""Near-duplicates between CIFAR-10's own training and test sets: the pairs that a reviewer would see first.

Run: python reproductions/cifar_duplicates.py CIFAR10 (a name, file or folder that hardpan's datasets can load)

For every test image: the ten nearest training images by l2 and by SSIM (appendix B.2.2 of the paper looks through
the same lists by eye). Counts of test images whose nearest training image lies under a threshold, and top pairs.
Writes reproductions/records/cifar_duplicates.json, docs/results/cifar_duplicates.md and .png.

Source: Recht et al. 2019, "Do ImageNet Classifiers Generalize to ImageNet?", appendix B.2.2.
"""

from __future__ import annotations

import argparse
import io
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from hardpan import files, replicate
from hardpan.data.dataset import Dataset
from hardpan.estimates import Estimate

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "python reproductions/cifar_duplicates.py CIFAR10"
RMS = (2.5, 5.0, 10.0, 15.0, 20.0, 25.0)  # l2 as root mean square difference of a pixel, of 255
SSIM = (0.99, 0.95, 0.9, 0.8, 0.7, 0.6)
SHOWN = 48
PAPER = 800
RECALL_QUERIES = 200  # test images whose SSIM with all training images is computed
SCALE, GAP, COLUMNS = 2, 8, 8


@files.record
class CifarDuplicates:
    """What the script found."""

    test: int
    train: int
    exact: int
    by_rms: dict[str, int]
    by_ssim: dict[str, int]
    by_either: dict[str, int]
    same_label: dict[str, float]
    within_test: dict[str, int]
    recall: Estimate
    close_recall: Estimate | None
    pairs: tuple[dict[str, Any], ...]
    rms_for_paper: float
    ssim_for_paper: float
    seconds: dict[str, float]
    command: str


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", help="CIFAR-10: a name, file or folder for Dataset.open")
    parser.add_argument("--rows", type=int, default=0, help="only so many test images, for a trial")
    given = parser.parse_args()
    dataset = Dataset.open(given.data)
    assert dataset.split is not None
    assert dataset.labels is not None
    train, test = (np.flatnonzero(dataset.split == part) for part in ("train", "test"))
    if given.rows:
        test = test[: given.rows]
    x, y = dataset.x[test], dataset.x[train]
    clock = time.perf_counter()
    l2 = replicate.near_duplicates(x, y, k=10, metric="l2")
    seconds = {"l2": time.perf_counter() - clock}
    clock = time.perf_counter()
    ssim = replicate.near_duplicates(x, y, k=10, metric="ssim", recall_queries=RECALL_QUERIES)
    seconds["ssim"] = time.perf_counter() - clock
    within = replicate.near_duplicates(x, k=1, metric="l2")
    result = summarise(l2, ssim, within, dataset.labels[test], dataset.labels[train], seconds)
    if given.rows:
        print(result)
        return
    files.save(result, ROOT / "reproductions" / "records" / "cifar_duplicates.json")
    folder = ROOT / "docs" / "results"
    files.write_bytes(folder / "cifar_duplicates.png", figure(result, x, y))
    files.write_text(folder / "cifar_duplicates.md", page(result) + "\n")


def summarise(
    l2: Any, ssim: Any, within: Any, labels: Any, others: Any, seconds: dict[str, float]
) -> CifarDuplicates:
    size = np.sqrt(32 * 32 * 3)
    rms, alike = l2.distances[:, 0] / size, 1.0 - ssim.distances[:, 0]
    same = others[l2.indices[:, 0]] == labels, others[ssim.indices[:, 0]] == labels
    pairs = []
    for row in np.argsort(-alike, kind="stable")[:SHOWN]:
        partner = int(ssim.indices[row, 0])
        known = np.flatnonzero(l2.indices[row] == partner)
        pairs.append(
            {
                "test": int(row),
                "train": partner,
                "ssim": float(alike[row]),
                "rms": float(l2.distances[row, known[0]] / size) if len(known) else None,
                "same_label": bool(others[partner] == labels[row]),
            }
        )
    paper = min(PAPER, len(rms)) - 1
    return CifarDuplicates(
        len(labels),
        len(others),
        int((rms == 0).sum()),
        {f"{t:g}": int((rms <= t).sum()) for t in RMS},
        {f"{t:g}": int((alike >= t).sum()) for t in SSIM},
        {f"{a:g} or {b:g}": int(((rms <= a) | (alike >= b)).sum()) for a, b in zip(RMS, SSIM, strict=True)},
        {
            "rms": float(same[0][rms <= RMS[2]].mean()) if (rms <= RMS[2]).any() else float("nan"),
            "ssim": float(same[1][alike >= SSIM[2]].mean()) if (alike >= SSIM[2]).any() else float("nan"),
            "all": float(same[0].mean()),
        },
        {f"{t:g}": int((within.distances[:, 0] / size <= t).sum()) for t in RMS},
        ssim.recall,
        ssim.close_recall,
        tuple(pairs),
        float(np.sort(rms)[paper]),
        float(np.sort(-alike)[paper] * -1),
        {name: round(value, 1) for name, value in seconds.items()},
        COMMAND,
    )


def figure(result: CifarDuplicates, x: Any, y: Any) -> bytes:
    """Test image on the left, training image on the right, SSIM under each pair."""
    side, text = 32 * SCALE, 16
    width, height = 2 * side + 2 + 2 * GAP, side + text + GAP
    rows = -(-len(result.pairs) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * width + GAP, rows * height + GAP), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=12)
    for number, pair in enumerate(result.pairs):
        left, top = GAP + (number % COLUMNS) * width, GAP + (number // COLUMNS) * height
        for k, pixels in enumerate((x[pair["test"]], y[pair["train"]])):
            picture = Image.fromarray(pixels).resize((side, side), Image.Resampling.NEAREST)
            sheet.paste(picture, (left + k * (side + 2), top))
        words = f"SSIM {pair['ssim']:.3f}" + ("" if pair["same_label"] else ", labels differ")
        pen.text((left, top + side + 1), words, fill="#333333", font=font)
    stream = io.BytesIO()
    sheet.quantize(colors=256, dither=Image.Dither.FLOYDSTEINBERG).save(stream, format="PNG", optimize=True)
    return stream.getvalue()


def page(result: CifarDuplicates) -> str:
    share = 100 / result.test
    lines = [
        "# Near-duplicates between CIFAR-10's training and test sets",
        "",
        f"Made by `{result.command}`; do not edit.",
        "",
        f"![{len(result.pairs)} pairs of a test image and its most similar training image](cifar_duplicates.png)",
        "",
        "*Left of each pair a test image, right the training image that is most similar to it by SSIM; the "
        f"{len(result.pairs)} most similar pairs.*",
        "",
        "Recht et al. (2019) looked through the ten nearest training images of every test image, by l2 and by "
        f"SSIM, and found about {PAPER} of {result.test:,} test images (8 %) that they would call "
        "near-duplicates. "
        "The lists here are computed in the same way; deciding how many of the pairs are near-duplicates needs "
        "a person, but the counts at each threshold show how many are close.",
        "",
        f"- Exact copies: {result.exact} test images have a training image at l2 distance 0.",
        f"- As many as the paper counted, {PAPER}, lie within a root mean square difference of "
        f"{result.rms_for_paper:.1f} of 255 by l2, and above an SSIM of {result.ssim_for_paper:.2f}.",
        f"- Of the pairs with SSIM of at least {SSIM[2]:g}, {100 * result.same_label['ssim']:.1f} % carry the "
        "same "
        f"label; of all nearest pairs by l2, {100 * result.same_label['all']:.1f} %.",
        "",
        "| root mean square difference at most | test images | share | within the test set |",
        "| --- | --- | --- | --- |",
        *(f"| {t} | {n:,} | {share * n:.2f} % | {result.within_test[t]:,} |" for t, n in result.by_rms.items()),
        "",
        "| SSIM at least | test images | share |",
        "| --- | --- | --- |",
        *(f"| {t} | {n:,} | {share * n:.2f} % |" for t, n in result.by_ssim.items()),
        "",
        f"Distances in l2 are exact over all {result.test * result.train:,} pairs. SSIM on every window was "
        "computed for the 50 nearest training images by l2, the 50 nearest by features, and the 200 most similar "
        "by SSIM on 16 windows, computed for all pairs. Against SSIM of all pairs on every window, this finds "
        f"{_percent(result.recall)} of the ten most similar "
        f"({result.recall.method})"
        + (
            f", and of the {result.close_recall.n} among them with an SSIM of at least 0.6, which may be "
            f"near-duplicates, {_percent(result.close_recall)}."
            if result.close_recall is not None
            else "."
        ),
        "",
        "## What is not reproduced and why",
        "",
        f"The count of near-duplicates, about {PAPER} in the paper: people judged its pairs, and nobody has "
        "judged these.",
    ]
    return "\n".join(lines)


def _percent(share: Estimate) -> str:
    return f"{100 * share.value:.0f} % [{100 * share.low:.0f}, {100 * share.high:.0f}]"


if __name__ == "__main__":
    main()
