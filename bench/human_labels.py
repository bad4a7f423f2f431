"""Lists and reviews of labels against human label noise: CIFAR-10N with published out-of-fold probabilities.

BENCH_CIFARN names src/experiments of github.com/cleanlab/label-error-detection-benchmarks. CIFAR-10's own labels
are the truth, and the reviewer knows them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from bench import harness

DRAWS = max(20, round(300 * float(os.environ.get("BENCH_SCALE", "1"))))
REVIEWED = (100, 200)
NETWORKS = ("swin_base_patch4_window7_224", "twins_pcpvt_base", "resnet50d", "resnet18", "efficientnet_b1")
LEAST_F1 = {("aggregate", NETWORKS[0]): 0.929, ("worst", NETWORKS[0]): 0.953}


def noisy_set(noise: str, network: str) -> tuple[Any, Any, Any]:
    """Probabilities (50,000 × 10), the labels that people gave, and the right ones."""
    root = os.environ.get("BENCH_CIFARN")
    if not root:
        raise SystemExit(
            "BENCH_CIFARN must name src/experiments of github.com/cleanlab/label-error-detection-benchmarks"
        )
    name = f"cifar-10n-png_noise_type_{'aggre' if noise == 'aggregate' else noise}_cv_{network}"
    folder = Path(root) / f"cifar-10n-{noise}" / name
    probs, given, right = (
        np.load(folder / f"{part}.npy", allow_pickle=False)
        for part in ("pred_probs", "noisy_labels", "true_labels")
    )
    probs = probs.astype(np.float64)
    return probs / probs.sum(axis=1, keepdims=True), given.astype(np.int64), right.astype(np.int64)


def review_row(issues: Any, wrong: Any, right: Any, count: int) -> dict[str, Any]:
    """Reviews of samples of one size by a reviewer who knows the truth."""
    from scipy.stats import binom

    listed = float(wrong[issues.row].mean())
    values, widths, held, precise = [], [], [], []
    for seed in range(DRAWS):
        review = issues.sample(count, seed=seed)
        at = wrong[review.row]
        review.verdict[:] = np.where(at, "wrong", "right")
        review.right_class[:] = np.where(at, right[review.row].astype(str), "")
        found = issues.count(review)
        values.append(found.wrong.value)
        widths.append((found.wrong.high - found.wrong.low) / 2)
        held.append(found.wrong.low <= wrong.sum() <= found.wrong.high)
        if found.precision is not None:
            precise.append(found.precision.low <= listed <= found.precision.high)
    return {
        "reviews": count,
        "mean − truth": float(np.mean(values) - wrong.sum()),
        "half-width": float(np.median(widths)),
        "covers the number": float(np.mean(held)),
        "covers the precision": float(np.mean(precise)),
        **harness.against(
            min(float(np.mean(held)), float(np.mean(precise))),
            at_least=float(binom.ppf(0.0005, DRAWS, 0.95)) / DRAWS,
        ),
    }


def run() -> list[dict[str, Any]]:
    from hardpan.confusion import label_issues

    lists, reviews = [], []
    for noise in ("aggregate", "worst"):
        for network in NETWORKS:
            probs, given, right = noisy_set(noise, network)
            issues, wrong = label_issues(probs, labels=given), given != right
            hits = int(wrong[issues.row].sum())
            precision, recall = hits / len(issues), hits / int(wrong.sum())
            f1 = 2 * precision * recall / (precision + recall)
            row = {"labels": noise, "network": network, "wrong": int(wrong.sum()), "listed": len(issues)}
            least = LEAST_F1.get((noise, network))
            lists.append(
                row
                | {"precision": precision, "recall": recall, "F1": f1}
                | ({} if least is None else harness.against(round(f1, 3), at_least=least))
            )
            if network in (NETWORKS[0], "resnet18"):
                reviews += [row | review_row(issues, wrong, right, count) for count in REVIEWED]
    return [
        harness.table("The default list: prediction differs from label", lists, notes=["50,000 labels"]),
        harness.table(
            "Reviews of a random sample, by a reviewer who knows the truth",
            reviews,
            seed=0,
            notes=[
                f"{DRAWS} samples each; must: both coverages at least the lower end of the 99.9 % region of 95 %"
            ],
        ),
    ]
